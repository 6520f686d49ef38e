/* The kernels of the exact counter (engine/cuda/filter_counter.c), as calls; as
 * engine/cuda/kernels/launch.h has them.
 *
 * A piece of a call is mixed and sorted; then each different key goes through kernels that follow
 * each other, so that none sees what another thread has half done:
 *
 *   look     a key of the table has its count added to; of others it is said where they are to go
 *   pairs    keys that came more than once get a place in the table; those that were in the front
 *            leave it
 *   singles  keys that came once get a slot of the front; those that find both blocks full are left
 *            for another turn of `pairs` */
#pragma once

#include "engine/counter_shape.h"
#include "engine/cuda/kernels/filter_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hspz_cuda_counter_pair {
    uint64_t x;
    unsigned long long count; /* 0: nobody's */
};

struct hspz_cuda_counter {
    struct hspz_counter_shape shape;
    uint64_t salt;
    uint8_t *blocks;
    struct hspz_cuda_counter_pair *pairs; /* linear probing, ordered by x */
    uint64_t pair_slots;
};

/* What kernels have counted, in device memory; each adds to it. */
struct hspz_cuda_counter_tally {
    unsigned long long moves, pairs, singles; /* keys that are to leave the front; to go there */
    unsigned long long left;                  /* found both blocks full */
    unsigned long long put, put_moves;        /* into the table, where that has room for some */
    unsigned long long refused;               /* different keys */
    unsigned long long refused_keys;          /* of the call */
    unsigned long long sums[2]; /* of counts: of their low halves, of their high halves */
    unsigned long long refused_sums[2];
    unsigned long long twice, wide, never; /* that no image has */
    unsigned long long listed;
};

/* Where a key is to go: in the lowest bits of its fate, above them the slot that it leaves. */
enum hspz_cuda_counter_way {
    HSPZ_CUDA_COUNTER_NOWHERE,
    HSPZ_CUDA_COUNTER_SINGLE,
    HSPZ_CUDA_COUNTER_PAIR,
    HSPZ_CUDA_COUNTER_MOVE, /* out of the front */
    HSPZ_CUDA_COUNTER_LEFT,
    HSPZ_CUDA_COUNTER_REFUSED,
};
#define HSPZ_CUDA_COUNTER_WAY_BITS 3u

/* Mixed keys, equal ones beside each other; of those that have counts no two are equal. */
struct hspz_cuda_counter_items {
    const uint64_t *x;
    const uint64_t *counts; /* NULL: as often as they are there */
    uint64_t count;
    const uint32_t *counted; /* on the device, in place of count, which is then as many or more */
    uint64_t *fates;
};

cudaError_t hspz_cuda_launch_counter_mix(const struct hspz_cuda_counter *c, const uint64_t *keys,
                                         uint64_t count, uint64_t *out, cudaStream_t stream);
/* Keys of an image: each of `stride` words, 2: with a count. Those that no image has are told. */
cudaError_t hspz_cuda_launch_counter_unpack(const struct hspz_cuda_counter *c,
                                            const uint64_t *words, uint64_t count, unsigned stride,
                                            uint64_t *x, uint64_t *counts,
                                            struct hspz_cuda_counter_tally *tally,
                                            cudaStream_t stream);
cudaError_t hspz_cuda_launch_counter_look(const struct hspz_cuda_counter *c,
                                          const struct hspz_cuda_counter_items *items,
                                          struct hspz_cuda_counter_tally *tally,
                                          cudaStream_t stream);
/* `left`: of those left over by singles, else of the others. `room`: places that may be taken;
 * UINT64_MAX: there is one for each. */
cudaError_t hspz_cuda_launch_counter_pairs(const struct hspz_cuda_counter *c,
                                           const struct hspz_cuda_counter_items *items, bool left,
                                           uint64_t room, struct hspz_cuda_counter_tally *tally,
                                           cudaStream_t stream);
cudaError_t hspz_cuda_launch_counter_singles(const struct hspz_cuda_counter *c,
                                             const struct hspz_cuda_counter_items *items,
                                             struct hspz_cuda_counter_tally *tally,
                                             cudaStream_t stream);
/* Yes to keys that were not refused, or that have a count of 0; refused_keys. */
cudaError_t hspz_cuda_launch_counter_answers(const struct hspz_cuda_counter *c,
                                             const struct hspz_cuda_counter_items *items,
                                             const struct hspz_cuda_filter_call *call,
                                             struct hspz_cuda_counter_tally *tally,
                                             cudaStream_t stream);
/* Queries and counts. */
cudaError_t hspz_cuda_launch_counter_find(const struct hspz_cuda_counter *c,
                                          const struct hspz_cuda_filter_call *call,
                                          cudaStream_t stream);

/* All of one front, or table, into another that is empty. Of singles that find both blocks full the
 * tally has the number, and the list as many as it has room for: they are for the table. */
struct hspz_cuda_counter_left {
    uint64_t *x, room;
};
cudaError_t hspz_cuda_launch_counter_refill(const struct hspz_cuda_counter *from,
                                            const struct hspz_cuda_counter *to,
                                            const struct hspz_cuda_counter_left *left,
                                            struct hspz_cuda_counter_tally *tally,
                                            cudaStream_t stream);
cudaError_t hspz_cuda_launch_counter_put_left(const struct hspz_cuda_counter *c, const uint64_t *x,
                                              uint64_t count, cudaStream_t stream);
cudaError_t hspz_cuda_launch_counter_replace(const struct hspz_cuda_counter *from,
                                             const struct hspz_cuda_counter *to,
                                             cudaStream_t stream);
/* What there is: singles, pairs, sums. */
cudaError_t hspz_cuda_launch_counter_recount(const struct hspz_cuda_counter *c,
                                             struct hspz_cuda_counter_tally *tally,
                                             cudaStream_t stream);
/* What is in places first .. first + count, slots of the front and then those of the table, in no
 * order: keys, or mixed ones, and counts (may be NULL), each the `stride`-th word. */
struct hspz_cuda_counter_list {
    uint64_t first, count;
    bool mixed;
    uint64_t *keys, *counts;
    unsigned stride;
};
cudaError_t hspz_cuda_launch_counter_list(const struct hspz_cuda_counter *c,
                                          const struct hspz_cuda_counter_list *list,
                                          struct hspz_cuda_counter_tally *tally,
                                          cudaStream_t stream);

/* Sorts x[*now], with counts[*now] if there are any; *now says where they are then. */
cudaError_t hspz_cuda_launch_counter_sort(uint64_t *const x[2], uint64_t *const counts[2],
                                          unsigned *now, uint64_t count, unsigned bits, void *temp,
                                          size_t temp_bytes, cudaStream_t stream);
/* Equal keys become one, and their counts a sum. */
cudaError_t hspz_cuda_launch_counter_reduce(const uint64_t *x, const uint64_t *counts,
                                            uint64_t count, uint64_t *out_x, uint64_t *out_counts,
                                            uint32_t *counted, void *temp, size_t temp_bytes,
                                            cudaStream_t stream);
cudaError_t hspz_cuda_counter_temp_bytes(uint64_t count, unsigned bits, bool counts, size_t *bytes);

#ifdef __cplusplus
}
#endif
