/* Keys of a filter in parts, on the device of the first one: given to the parts, and their answers
 * given back. */
#include "engine/cuda/kernels/filter.cuh"
#include "engine/filter_split.h"

static __global__ void
__launch_bounds__(FILTER_THREADS)
    make_keys(struct hspz_filter_split split, uint64_t *keys, uint64_t count)
{
    const uint64_t i = filter_index();
    if (i < count) {
        keys[i] = hspz_filter_split_key(split, keys[i]);
    }
}

static __global__ void
__launch_bounds__(FILTER_THREADS) gather_answers(struct hspz_cuda_split_answers a)
{
    const uint64_t i = filter_index();
    if (i >= a.count) {
        return;
    }
    const uint32_t at = a.from[i];
    if (a.part_found != NULL) {
        a.found[at] = a.part_found[i];
    }
    if (a.yes != NULL) {
        unsigned p = 0;
        while (p + 1 < a.parts && i >= a.first[p + 1]) {
            p++;
        }
        const uint64_t k = i - a.first[p];
        if ((a.part_yes[a.first_word[p] + k / 32] >> k % 32 & 1) != 0) {
            atomicOr(&a.yes[at / 32], 1u << at % 32);
        }
    }
}

extern "C" cudaError_t
hspz_cuda_launch_split_keys(uint64_t salt, unsigned parts, uint64_t *hashes, uint64_t count,
                            cudaStream_t stream)
{
    const struct hspz_filter_split split = hspz_filter_split_of(salt, parts);
    make_keys<<<filter_grid(count), FILTER_THREADS, 0, stream>>>(split, hashes, count);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_split_answers(const struct hspz_cuda_split_answers *answers, cudaStream_t stream)
{
    const unsigned grid = filter_grid(answers->count);
    gather_answers<<<grid, FILTER_THREADS, 0, stream>>>(*answers);
    return cudaGetLastError();
}
