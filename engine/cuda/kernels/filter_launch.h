/* The kernels of the filters, as calls; as engine/cuda/kernels/launch.h has them. */
#pragma once

#include "engine/filter.h"
#include "engine/filter_hash.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How keys are worked on. */
enum hspz_cuda_filter_way {
    HSPZ_CUDA_FILTER_AUTO,
    HSPZ_CUDA_FILTER_POINT, /* a thread a key, each by itself */
    /* Sorted by region of the filter, where that can be done. tcf: inserts and deletes without
     * `yes` and `found`, of blocks of 16 slots of 8, 16 or 32 bits, whose values go into 64 bits
     * together with the tag and the block's number. bloom: without values, up to 2^32 bits. */
    HSPZ_CUDA_FILTER_BULK
};

/* What calls come to; they add to it. */
struct hspz_cuda_filter_result {
    unsigned long long yes;     /* as hspz_filter_call.yes_count */
    unsigned long long refused; /* keys that did not go in because the filter is full */
};

/* struct hspz_filter_call on device memory. */
struct hspz_cuda_filter_call {
    enum hspz_filter_op op;
    const uint64_t *keys;
    uint64_t count;
    const uint64_t *values; /* inserts; bits over the filter's value_bits are dropped; NULL: 0 */
    const uint64_t *counts; /* gqf, insert and decrement; counter, insert; NULL: once */
    /* Each may be NULL. */
    uint32_t *yes;   /* bit i % 32 of word i / 32; (count + 31) / 32 words, all of them written */
    uint64_t *found; /* as hspz_filter_call.found */
    struct hspz_cuda_filter_result *result;
    enum hspz_cuda_filter_way way; /* changes no result */
};

/* A filter's numbers, in device memory. */
#define HSPZ_CUDA_FILTER_CHUNK 256u /* bits of a bloom filter that are counted together */
struct hspz_cuda_filter_counts {
    unsigned long long entries;                            /* as hspz_filter_stats has them */
    unsigned long long total, total_high, used;            /* gqf, sqf, rsqf */
    unsigned long long damaged;                            /* by a check */
    unsigned long long chunks[HSPZ_CUDA_FILTER_CHUNK + 1]; /* of n bits set */
    unsigned long long spare; /* tcf: keys in the backing table, when nobody is at work on it */
};

/* ---- keys by region ---- */

#define HSPZ_CUDA_FILTER_REGION_BYTES 32768u /* of a filter that one thread block has to itself */

/* Hashes of keys (64 bits), or places of their bits in a bloom filter (32), in the order of their
 * regions. */
struct hspz_cuda_filter_sorted {
    void *data[2];           /* the second one is free */
    bool wide;               /* 64 bits */
    uint64_t count;          /* below 2^31 */
    unsigned shift, end_bit; /* what to sort by: bits [shift, end_bit); x >> shift is the region */
    uint32_t regions;
    uint32_t *starts;         /* of each region, and behind the last; NULL: are not wanted */
    unsigned long long *left; /* how many are left for another kernel; zero */
    void *temp;
    size_t temp_bytes;
};

cudaError_t hspz_cuda_filter_sort_bytes(const struct hspz_cuda_filter_sorted *sorted,
                                        size_t *bytes);
/* Sorts what is in data[0]; may swap the two. */
cudaError_t hspz_cuda_launch_filter_sort(struct hspz_cuda_filter_sorted *sorted,
                                         cudaStream_t stream);
/* A hash for each of the call's keys. */
cudaError_t hspz_cuda_launch_filter_hashes(const struct hspz_cuda_filter_call *call, uint64_t salt,
                                           const struct hspz_cuda_filter_sorted *sorted,
                                           cudaStream_t stream);

/* Of keys that go in if absent. */
#define HSPZ_CUDA_FILTER_LOCKS (1u << 18)

/* ---- filters in parts ---- */

/* Hashes of keys become the keys that their parts are given (engine/filter_split.h). */
cudaError_t hspz_cuda_launch_split_keys(uint64_t salt, unsigned parts, uint64_t *hashes,
                                        uint64_t count, cudaStream_t stream);

/* What parts have answered, of keys in the order of the parts. */
struct hspz_cuda_split_answers {
    uint64_t count;
    unsigned parts;
    uint64_t first[HSPZ_FILTER_PARTS_MAX];      /* key of each part */
    uint64_t first_word[HSPZ_FILTER_PARTS_MAX]; /* of its bits in part_yes */
    const uint32_t *from;                       /* which key of the call each is */
    const uint32_t *part_yes;
    const uint64_t *part_found;
    uint32_t *yes;   /* zero; NULL: not wanted */
    uint64_t *found; /* where part_found is not NULL */
};
cudaError_t hspz_cuda_launch_split_answers(const struct hspz_cuda_split_answers *answers,
                                           cudaStream_t stream);

/* ---- bloom, blocked ---- */

struct hspz_cuda_bloom {
    uint32_t *bits;  /* aligned to 32 bytes */
    uint64_t words;  /* of 32 bits */
    uint64_t slots;  /* bits */
    uint64_t blocks; /* blocked: of HSPZ_BLOOM_BLOCK_BITS */
    uint64_t salt;
    unsigned hashes;
    bool blocked;
    uint32_t *locks; /* HSPZ_CUDA_FILTER_LOCKS, all zero; NULL: nothing is inserted if absent */
    struct hspz_cuda_filter_counts *counts;
};

cudaError_t hspz_cuda_launch_bloom(const struct hspz_cuda_bloom *bloom,
                                   const struct hspz_cuda_filter_call *call, cudaStream_t stream);
/* `hashes` places for each of the call's keys. */
cudaError_t hspz_cuda_launch_bloom_places(const struct hspz_cuda_bloom *bloom,
                                          const struct hspz_cuda_filter_call *call,
                                          const struct hspz_cuda_filter_sorted *sorted,
                                          cudaStream_t stream);
/* Inserts the call's keys, which were sorted. */
cudaError_t hspz_cuda_launch_bloom_sorted(const struct hspz_cuda_bloom *bloom,
                                          const struct hspz_cuda_filter_call *call,
                                          const struct hspz_cuda_filter_sorted *sorted,
                                          cudaStream_t stream);
/* counts->chunks, which were zero. */
cudaError_t hspz_cuda_launch_bloom_count(const struct hspz_cuda_bloom *bloom, cudaStream_t stream);
/* Bits and entries. */
cudaError_t hspz_cuda_launch_bloom_merge(const struct hspz_cuda_bloom *bloom,
                                         const struct hspz_cuda_bloom *from, cudaStream_t stream);

/* ---- tcf ---- */

#define HSPZ_CUDA_TCF_SPLIT_LOCKS (1u << 14)
#define HSPZ_CUDA_TCF_LOCKS (HSPZ_CUDA_FILTER_LOCKS + HSPZ_CUDA_TCF_SPLIT_LOCKS)

struct hspz_cuda_tcf {
    uint32_t *tags;              /* aligned to 128 bytes */
    uint64_t *values;            /* of the first block's slots */
    uint64_t *spare_values;      /* of the backing table */
    unsigned long long *backing; /* hspz_tcf_word */
    /* HSPZ_CUDA_TCF_LOCKS, all zero: those of keys that go in if absent, then those of tags that
     * lie in two words. NULL: needed are none (no such insert, and no tags of 12 bits). */
    uint32_t *locks;
    struct hspz_tcf_windows windows;
    uint32_t backing_slots;
    uint32_t block_words;      /* from a block's tags to the next one's, in 32 bits */
    uint32_t value_block_bits; /* from a block's values to the next one's */
    unsigned slot_bits, block_slots, value_bits;
    /* Of the word that stands for a key where many are inserted: block << this | value << slot_bits
     * | tag. Less than the two have together: it does not fit. */
    unsigned word_shift;
    uint64_t salt;
    struct hspz_cuda_filter_counts *counts;
};

/* Of fewer than 2^31 keys. An if-absent insert leaves `found` alone. */
cudaError_t hspz_cuda_launch_tcf(const struct hspz_cuda_tcf *tcf,
                                 const struct hspz_cuda_filter_call *call, cudaStream_t stream);
/* A word for each of the call's keys; for blocks of 16 slots of 8, 16 or 32 bits. */
cudaError_t hspz_cuda_launch_tcf_words(const struct hspz_cuda_tcf *tcf,
                                       const struct hspz_cuda_filter_call *call,
                                       const struct hspz_cuda_filter_sorted *sorted,
                                       cudaStream_t stream);
/* Inserts or deletes the call's keys by these, which were sorted by window; with one window, in any
 * order. */
cudaError_t hspz_cuda_launch_tcf_sorted(const struct hspz_cuda_tcf *tcf,
                                        const struct hspz_cuda_filter_call *call,
                                        const struct hspz_cuda_filter_sorted *sorted,
                                        cudaStream_t stream);
/* `found` of an if-absent insert that is over: values of the keys whose bit of `yes` is not set. */
cudaError_t hspz_cuda_launch_tcf_found(const struct hspz_cuda_tcf *tcf,
                                       const struct hspz_cuda_filter_call *call,
                                       cudaStream_t stream);
/* Adds the number of tags to counts->used, and that of words of the backing table that cannot be to
 * counts->damaged. */
cudaError_t hspz_cuda_launch_tcf_check(const struct hspz_cuda_tcf *tcf, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
