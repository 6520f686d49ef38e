/* Quotient filters on a device: how they lie there, and the kernels that work on them, as calls
 * (engine/cuda/kernels/launch.h says how those behave).
 *
 * Symbols and marks are those of engine/cpu/quotient.h, bit for bit: they depend on the entries
 * alone. Both marks of 128 slots are one sector, so that a look-up reads one for the marks and, for
 * most runs, one for the symbols; offsets are so few that the cache holds them.
 *
 * A change is a list of sorted items that is merged with what is there into new slots, in tiles of
 * quotients: `measure` finds what each tile's runs come to, a scan where they begin, `write` puts
 * them there. No item and no tile waits for another.
 *
 * Items of most inserts and deletes are not sorted but dealt, in no order, to parts of the
 * quotients, which are larger than tiles: `parts` does the rest in one pass. */
#pragma once

#include "engine/cuda/kernels/filter_launch.h"
#include "engine/cuda/kernels/kmer.h"
#include "engine/filter.h"
#include "engine/filter_hash.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HSPZ_CUDA_QUOTIENT_BLOCK 128u  /* slots whose marks are one sector */
#define HSPZ_CUDA_QUOTIENT_FAR 0xffffu /* offset: so many or more */
#define HSPZ_CUDA_QUOTIENT_TILE 1024u  /* quotients a thread block works on */
#define HSPZ_CUDA_QUOTIENT_PART_LOG2 12u
#define HSPZ_CUDA_QUOTIENT_PART (1u << HSPZ_CUDA_QUOTIENT_PART_LOG2)
#define HSPZ_CUDA_QUOTIENT_PART_ITEMS 8192u /* most of a part */
#define HSPZ_CUDA_QUOTIENT_PAD 16u          /* bytes behind the symbols that can be read */
#define HSPZ_CUDA_QUOTIENT_ITEMS_MAX (UINT64_C(1) << 31) /* of one change */

/* Slots and what they mean; passed by value. */
struct hspz_cuda_quotient {
    uint64_t *marks;   /* a block: its occupied bits, two words; its runend bits, two words */
    uint16_t *offsets; /* a block: slots from its first on that runs of earlier ones take */
    void *symbols;     /* slot_bits each */
    uint64_t quotients, slots; /* slots: with the spare ones */
    uint64_t salt;
    unsigned remainder_bits, value_bits, slot_bits, fingerprint_bits;
    bool set; /* counts stay 1 */
};
static inline HSPZ_HOST_DEVICE uint64_t
hspz_cuda_quotient_blocks(uint64_t slots)
{
    return (slots + HSPZ_CUDA_QUOTIENT_BLOCK - 1) / HSPZ_CUDA_QUOTIENT_BLOCK;
}
static inline HSPZ_HOST_DEVICE uint64_t
hspz_cuda_quotient_tiles(uint64_t quotients)
{
    return (quotients + HSPZ_CUDA_QUOTIENT_TILE - 1) / HSPZ_CUDA_QUOTIENT_TILE;
}

static inline HSPZ_HOST_DEVICE uint64_t
hspz_cuda_quotient_parts(uint64_t quotients)
{
    return (quotients + HSPZ_CUDA_QUOTIENT_PART - 1) / HSPZ_CUDA_QUOTIENT_PART;
}

/* What is asked for, sorted: of inserts, fingerprint << value_bits | value; else fingerprints. */
struct hspz_cuda_quotient_items {
    enum hspz_filter_op op;
    const void *keys;        /* u64; of wide ones, two of them */
    bool wide;               /* fingerprint and value have more than 64 bits */
    const uint64_t *counts;  /* keys are distinct, and each is there so often; NULL: once */
    const uint32_t *indices; /* which key of the call each is, ascending among equal ones; may be
                                NULL but for insert_if_absent with values */
    const uint64_t *values;  /* of insert_if_absent, by index; may be NULL */
    uint64_t count;          /* up to HSPZ_CUDA_QUOTIENT_ITEMS_MAX */
    const uint32_t *counted; /* how many there are really, at most `count`; NULL: as many */
};

/* Where runs that would begin at e end when they are laid out: at max(e + length, least). */
struct hspz_cuda_quotient_state {
    uint64_t length, least;
};

/* What a change comes to. Sums of counts are kept in two halves of 32 bits. */
struct hspz_cuda_quotient_tally {
    unsigned long long used, end;  /* slots, and the one behind the last */
    unsigned long long gone, come; /* entries of runs that change, before and after */
    unsigned long long gone_sums[2], come_sums[2]; /* their counts */
    unsigned long long yes_count;
    unsigned fits;    /* else nothing is written */
    unsigned crowded; /* a part comes to more than it can say */
    unsigned twins;   /* of HSPZ_CUDA_QUOTIENT_SAMPLE keys, those met before */
    unsigned dealt;   /* items, with those that went over */
    unsigned over;    /* of them, those that rooms had no place for */
};

/* Keys to items, not sorted yet: fingerprints, with values (NULL: 0) below them if `with_values`;
 * indices[i] = i where those are wanted. */
cudaError_t hspz_cuda_launch_quotient_hash(const struct hspz_cuda_quotient *q, const uint64_t *keys,
                                           const uint64_t *values, uint64_t count, bool with_values,
                                           bool wide, void *items, uint32_t *indices,
                                           cudaStream_t stream);

/* Memory for the sort and the sums, for so many. */
cudaError_t hspz_cuda_quotient_temp_bytes(uint64_t count, unsigned key_bits, bool wide,
                                          uint64_t tiles, size_t *bytes);
/* Stable, by the bits first_bit .. key_bits - 1. keys[*now] and indices[*now] (unless NULL) are
 * sorted; *now moves. */
cudaError_t hspz_cuda_launch_quotient_sort(void *const keys[2], uint32_t *const indices[2],
                                           unsigned *now, uint64_t count, unsigned first_bit,
                                           unsigned key_bits, bool wide, void *temp,
                                           size_t temp_bytes, cudaStream_t stream);
/* out[i] = counts[indices[i]]. */
cudaError_t hspz_cuda_launch_quotient_gather(const uint64_t *counts, const uint32_t *indices,
                                             uint64_t count, uint64_t *out, cudaStream_t stream);
/* Distinct keys and their sums, which saturate; *out_count says how many. */
cudaError_t hspz_cuda_launch_quotient_reduce(const void *keys, const uint64_t *counts,
                                             uint64_t count, bool wide, void *out_keys,
                                             uint64_t *out_counts, uint32_t *out_count, void *temp,
                                             size_t temp_bytes, cudaStream_t stream);
/* Sums of the counts of equal keys before each one; they saturate. */
cudaError_t hspz_cuda_launch_quotient_before(const void *keys, const uint64_t *counts,
                                             uint64_t count, bool wide, uint64_t *before,
                                             void *temp, size_t temp_bytes, cudaStream_t stream);

/* The first item of each tile or part of `size` quotients, and behind them their number. */
cudaError_t hspz_cuda_launch_quotient_bounds(const struct hspz_cuda_quotient *q,
                                             const struct hspz_cuda_quotient_items *items,
                                             unsigned size, uint64_t *bounds, cudaStream_t stream);
/* states[tile], and the tally's gone and come, which were 0. `old` has no marks when it is empty.
 * Only the sizes of `made` matter. */
cudaError_t hspz_cuda_launch_quotient_measure(const struct hspz_cuda_quotient *old,
                                              const struct hspz_cuda_quotient *made,
                                              const struct hspz_cuda_quotient_items *items,
                                              const uint64_t *bounds,
                                              struct hspz_cuda_quotient_state *states,
                                              struct hspz_cuda_quotient_tally *tally,
                                              cudaStream_t stream);
/* States of what is before each tile, from those of the tiles; and the rest of the tally. */
cudaError_t hspz_cuda_launch_quotient_scan(const struct hspz_cuda_quotient *made,
                                           uint64_t full_slots,
                                           const struct hspz_cuda_quotient_state *states,
                                           struct hspz_cuda_quotient_state *before,
                                           struct hspz_cuda_quotient_tally *tally, void *temp,
                                           size_t temp_bytes, cudaStream_t stream);
/* Into `made`, whose symbols and marks are zero; when it fits. */
cudaError_t hspz_cuda_launch_quotient_write(const struct hspz_cuda_quotient *old,
                                            const struct hspz_cuda_quotient *made,
                                            const struct hspz_cuda_quotient_items *items,
                                            const uint64_t *bounds,
                                            const struct hspz_cuda_quotient_state *before,
                                            const struct hspz_cuda_quotient_tally *tally,
                                            cudaStream_t stream);

/* How many of some of the keys are met again among them: tally->twins, which was 0. */
#define HSPZ_CUDA_QUOTIENT_SAMPLE 4096u
cudaError_t hspz_cuda_launch_quotient_sample(const uint64_t *keys, uint64_t count,
                                             struct hspz_cuda_quotient_tally *tally,
                                             cudaStream_t stream);
#define HSPZ_CUDA_QUOTIENT_PILES 1024u /* most that a thread block deals to */

/* Items on their way to the parts of a change. A segment of keys is dealt to buckets, each for so
 * many neighbouring parts, and a bucket to its parts, of which each gets the low bits of its items.
 * What finds no place goes over, whole. Counts go on where a room is full. */
struct hspz_cuda_quotient_rooms {
    void *buckets;           /* u32, or u64 of wide ones, from bucket_room to bucket_room */
    uint32_t *bucket_counts; /* zero before each segment */
    uint32_t *parts;         /* from part_room to part_room */
    uint32_t *part_counts;   /* zero before the first segment */
    uint64_t *over;
    uint32_t bucket_room, part_room,
        over_room;        /* a part's: HSPZ_CUDA_QUOTIENT_PART_ITEMS at most */
    unsigned item_bits;   /* of an item, below its part; up to 32 */
    unsigned part_bits;   /* below its bucket, that say its part */
    unsigned bucket_bits; /* up to HSPZ_CUDA_QUOTIENT_PILES buckets; so of parts */
};
static inline HSPZ_HOST_DEVICE bool
hspz_cuda_quotient_rooms_wide(const struct hspz_cuda_quotient_rooms *rooms)
{
    return rooms->item_bits + rooms->part_bits > 32;
}
/* A segment's keys, with values (NULL: 0) where value_bits is not 0, to buckets; adds to the
 * tally's dealt and over. */
cudaError_t hspz_cuda_launch_quotient_deal_keys(const struct hspz_cuda_quotient *q,
                                                const uint64_t *keys, const uint64_t *values,
                                                uint64_t count, unsigned value_bits,
                                                const struct hspz_cuda_quotient_rooms *rooms,
                                                struct hspz_cuda_quotient_tally *tally,
                                                cudaStream_t stream);
/* The same of the windows that are k-mers, with value 0. */
cudaError_t hspz_cuda_launch_quotient_deal_kmers(const struct hspz_cuda_quotient *q,
                                                 const struct hspz_cuda_kmers *kmers,
                                                 const struct hspz_cuda_quotient_rooms *rooms,
                                                 struct hspz_cuda_quotient_tally *tally,
                                                 cudaStream_t stream);
/* Buckets, in which `count` items were dealt, to parts; adds to the tally's over. */
cudaError_t hspz_cuda_launch_quotient_deal_buckets(const struct hspz_cuda_quotient_rooms *rooms,
                                                   uint64_t count,
                                                   struct hspz_cuda_quotient_tally *tally,
                                                   cudaStream_t stream);
/* An insert or a delete of what the parts have into `made`, as `write` does it; symbols have up to
 * 16 bits. Of an insert, what is too many of one quotient goes over, too. words: a part, and one
 * behind; zero. The tally's used, end, gone, come and yes_count, which were 0, are good unless it
 * is crowded; `fits` is not told, and only what fits was written. */
cudaError_t hspz_cuda_launch_quotient_parts(const struct hspz_cuda_quotient *old,
                                            const struct hspz_cuda_quotient *made,
                                            enum hspz_filter_op op,
                                            const struct hspz_cuda_quotient_rooms *rooms,
                                            uint64_t *words, struct hspz_cuda_quotient_tally *tally,
                                            cudaStream_t stream);

#define HSPZ_CUDA_QUOTIENT_REGION 128u    /* slots of a lock */
#define HSPZ_CUDA_QUOTIENT_LOCKS_MOST 27u /* of an insert */

/* For threads that insert by themselves (engine/cuda/kernels/quotient_point.cuh). */
struct hspz_cuda_quotient_point {
    struct hspz_cuda_quotient q;
    uint32_t *locks; /* one a region, and some behind; 0: free */
    struct hspz_cuda_filter_counts *counts;
};
static inline HSPZ_HOST_DEVICE uint64_t
hspz_cuda_quotient_locks(uint64_t quotients)
{
    return (quotients + HSPZ_CUDA_QUOTIENT_REGION - 1) / HSPZ_CUDA_QUOTIENT_REGION +
           HSPZ_CUDA_QUOTIENT_LOCKS_MOST;
}
/* An insert, a thread a key, into the slots themselves. left[i] is how often key i did not go in,
 * since it would have moved too much or locks were not free in `tries`; those that did not are
 * added to *refused. What comes is added to point->counts. */
struct hspz_cuda_quotient_insert {
    const uint64_t *keys, *values, *counts; /* the latter two may be NULL */
    const uint64_t *items; /* sorted items in place of all that; equal ones are the first one's */
    uint64_t count;
    uint32_t tries;
    uint64_t *left;
    unsigned long long *refused;
};
cudaError_t hspz_cuda_launch_quotient_points(const struct hspz_cuda_quotient_point *point,
                                             const struct hspz_cuda_quotient_insert *insert,
                                             cudaStream_t stream);
/* Keys that are left, with their values and how often, in any order; *out_count, which was 0, is
 * their number. */
cudaError_t hspz_cuda_launch_quotient_left(const struct hspz_cuda_quotient_insert *insert,
                                           uint64_t *out_keys, uint64_t *out_values,
                                           uint64_t *out_counts, unsigned long long *out_count,
                                           cudaStream_t stream);

/* What a change answers, asked of the slots before it: yes (words that are zero; may be NULL),
 * found (insert_if_absent; may be NULL), and the tally's yes_count. Items are not reduced, and have
 * indices unless neither is wanted; `before` (of decrement) has the sums before each, NULL: as
 * many as equal ones before it. */
cudaError_t hspz_cuda_launch_quotient_answer(const struct hspz_cuda_quotient *q,
                                             const struct hspz_cuda_quotient_items *items,
                                             const uint64_t *before, uint32_t *yes, uint64_t *found,
                                             struct hspz_cuda_quotient_tally *tally,
                                             cudaStream_t stream);
/* Query and count, of keys as they are given. yes (whole words) and found may be NULL; adds to
 * *yes_count. */
cudaError_t hspz_cuda_launch_quotient_look(const struct hspz_cuda_quotient *q, const uint64_t *keys,
                                           uint64_t count, bool counts, uint32_t *yes,
                                           uint64_t *found, unsigned long long *yes_count,
                                           cudaStream_t stream);
/* The first `inside` bits of `count` are set, in whole words. */
cudaError_t hspz_cuda_launch_quotient_prefix(uint32_t *yes, uint64_t count, uint64_t inside,
                                             cudaStream_t stream);

/* A filter's numbers become these. */
cudaError_t hspz_cuda_launch_quotient_numbers(struct hspz_cuda_filter_counts *counts,
                                              uint64_t entries, uint64_t used, uint64_t total,
                                              uint64_t total_high, cudaStream_t stream);

/* Adds to a result. */
cudaError_t hspz_cuda_launch_quotient_result(struct hspz_cuda_filter_result *result, uint64_t yes,
                                             uint64_t refused, cudaStream_t stream);

/* Entries of the tiles first .. first + tiles - 1: how many each has, and then, with exclusive sums
 * of those, all of them: as items of an insert, and their counts. */
cudaError_t hspz_cuda_launch_quotient_tell(const struct hspz_cuda_quotient *q, uint64_t first,
                                           uint64_t tiles, uint64_t *numbers, cudaStream_t stream);
cudaError_t hspz_cuda_launch_quotient_list(const struct hspz_cuda_quotient *q, uint64_t first,
                                           uint64_t tiles, const uint64_t *offsets, bool wide,
                                           void *keys, uint64_t *counts, cudaStream_t stream);
/* In place, exclusive; sums[count] is the sum of all, numbers[count] what is there before. */
cudaError_t hspz_cuda_launch_quotient_sums(uint64_t *numbers, uint64_t count, void *temp,
                                           size_t temp_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
