#include "engine/kmer.h"

#include "protocol/status.h"

size_t
hspz_kmers_extract(const struct hspz_kmers *kmers, size_t first, size_t end, uint64_t *keys,
                   uint32_t *from)
{
    const unsigned k = kmers->k;
    struct hspz_kmer_roll roll = {0};
    size_t count = 0;
    HSPZ_REQUIRE(k >= 1 && k <= HSPZ_KMER_MOST && end - first <= UINT32_MAX);
    const size_t room = kmers->len - first;
    const size_t stop = first + (room - (end - first) < k - 1 ? room : end - first + k - 1);
    for (size_t i = first; i < stop; i++) {
        if (hspz_kmer_next(&roll, k, kmers->bases[i])) {
            keys[count] = hspz_kmer_key(&roll, kmers->canonical);
            from[count++] = (uint32_t)(i + 1 - k - first);
        }
    }
    return count;
}
