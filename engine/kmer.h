/* k-mers as keys; the same on the host and on a device.
 *
 * A window of k bases, 1 to 32, is a number of 2k bits: a base is 2 bits (A 0, C 1, G 2, T 3), the
 * first in the highest place. Lower case is as upper case; a window with any other byte is no
 * k-mer. Canonical: the smaller of the window's number and that of its reverse complement. */
#pragma once

#include "engine/filter_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_KMER_MOST 32u
#define HSPZ_KMER_NO_BASE 4u

static inline HSPZ_HOST_DEVICE unsigned
hspz_kmer_code(uint8_t base)
{
    const unsigned letter = base & 0xdfu;
    const bool known = letter == 'A' || letter == 'C' || letter == 'G' || letter == 'T';
    return known ? (letter >> 1 ^ letter >> 2) & 3 : HSPZ_KMER_NO_BASE;
}

/* Of the low 2k bits. */
static inline HSPZ_HOST_DEVICE uint64_t
hspz_kmer_mask(unsigned k)
{
    return UINT64_MAX >> (64 - 2 * k);
}

/* The bases seen last, on both strands. Begins as all 0. */
struct hspz_kmer_roll {
    uint64_t forward, reverse;
    unsigned bases; /* in a row that are none but ACGT; counted up to k */
};

/* Takes one more base; true when the last k are a k-mer. */
static inline HSPZ_HOST_DEVICE bool
hspz_kmer_next(struct hspz_kmer_roll *roll, unsigned k, uint8_t base)
{
    const unsigned code = hspz_kmer_code(base);
    if (code == HSPZ_KMER_NO_BASE) {
        roll->bases = 0;
        return false;
    }
    roll->forward = (roll->forward << 2 | code) & hspz_kmer_mask(k);
    roll->reverse = roll->reverse >> 2 | (uint64_t)(3 - code) << 2 * (k - 1);
    roll->bases += roll->bases < k;
    return roll->bases == k;
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_kmer_key(const struct hspz_kmer_roll *roll, bool canonical)
{
    return canonical && roll->reverse < roll->forward ? roll->reverse : roll->forward;
}

/* The k-mers that begin at bases[first .. end): their keys, and where each begins, in order.
 * Returns how many; both arrays have room for end - first. Windows may reach to bases + len. On the
 * host. */
struct hspz_kmers {
    const uint8_t *bases;
    size_t len;
    unsigned k;
    bool canonical;
};
size_t hspz_kmers_extract(const struct hspz_kmers *kmers, size_t first, size_t end, uint64_t *keys,
                          uint32_t *from);
