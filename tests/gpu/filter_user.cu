#include "tests/gpu/filter_user.h"

#include "engine/cuda/kernels/filter_tcf_group.cuh"

#include <cooperative_groups.h>

#define THREADS 128u

static __global__ void
__launch_bounds__(THREADS)
    mixed(struct hspz_cuda_tcf tcf, const uint64_t *keys, uint32_t third, const uint64_t *shared,
          uint32_t shared_count, unsigned long long *wrong)
{
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < third; i += gridDim.x * THREADS) {
        uint64_t value = 0;
        if (!hspz_tcf_find<16, 16>(tcf, keys[i], &value)) {
            atomicAdd(&wrong[0], 1ull);
        }
        if (!hspz_tcf_insert<16, 16>(tcf, keys[2 * third + i], i) ||
            !hspz_tcf_find<16, 16>(tcf, keys[2 * third + i], &value)) {
            atomicAdd(&wrong[1], 1ull);
        }
        if (!hspz_tcf_erase<16, 16, false>(tcf, keys[third + i])) {
            atomicAdd(&wrong[2], 1ull);
        }
        value = i;
        if (hspz_tcf_insert_if_absent<16, 16>(tcf, shared[i % shared_count], &value) ==
            HSPZ_TCF_WENT_IN) {
            atomicAdd(&wrong[3], 1ull);
        }
        if (!hspz_tcf_find<16, 16>(tcf, keys[third - 1 - i], &value)) {
            atomicAdd(&wrong[0], 1ull);
        }
    }
}

template <unsigned LANES, unsigned TAG, unsigned SLOTS>
static __global__ void __launch_bounds__(1024)
    by_group(struct hspz_cuda_tcf tcf, enum user_group_op op, const uint64_t *keys, uint32_t count,
             uint64_t *values, uint8_t *yes)
{
    const auto group =
        cooperative_groups::tiled_partition<LANES>(cooperative_groups::this_thread_block());
    const uint32_t groups = gridDim.x * blockDim.x / LANES;
    for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / LANES; i < count; i += groups) {
        bool answer;
        uint64_t value = 0;
        if (op == USER_INSERT) {
            answer = hspz_tcf_group_insert<TAG, SLOTS>(group, tcf, keys[i], values[i]);
        } else if (op == USER_FIND) {
            answer = hspz_tcf_group_find<TAG, SLOTS>(group, tcf, keys[i], &value);
        } else {
            answer = hspz_tcf_group_erase<TAG, SLOTS>(group, tcf, keys[i]);
        }
        const uint32_t all = (uint32_t)group.ballot(answer);
        if (group.thread_rank() == 0) {
            yes[i] = all == 0 ? 0 : all == 0xffffffffu >> (32 - LANES) ? 1 : 2;
            values[i] = op == USER_FIND ? value : values[i];
        }
    }
}

extern "C" cudaError_t
user_launch_mixed(const struct hspz_cuda_tcf *tcf, const uint64_t *keys, uint32_t third,
                  const uint64_t *shared, uint32_t shared_count, unsigned long long *wrong,
                  cudaStream_t stream)
{
    /* No more threads than there are blocks. */
    const unsigned grid = tcf->windows.blocks / THREADS;
    mixed<<<grid, THREADS, 0, stream>>>(*tcf, keys, third, shared, shared_count, wrong);
    return cudaGetLastError();
}

template <unsigned LANES>
static cudaError_t
launch_lanes(const struct hspz_cuda_tcf *tcf, enum user_group_op op, const uint64_t *keys,
             uint32_t count, uint64_t *values, uint8_t *yes, cudaStream_t stream)
{
    /* Half as many groups as there are blocks, in one block of threads, but whole warps. */
    const unsigned wanted = (tcf->windows.blocks / 2 * LANES + 31) / 32 * 32;
    const unsigned threads = wanted < 1024 ? wanted : 1024;
    const auto kernel = tcf->slot_bits == 8      ? by_group<LANES, 8, 64>
                        : tcf->slot_bits == 32   ? by_group<LANES, 32, 16>
                        : tcf->block_slots == 16 ? by_group<LANES, 16, 16>
                                                 : by_group<LANES, 16, 32>;
    kernel<<<1, threads, 0, stream>>>(*tcf, op, keys, count, values, yes);
    return cudaGetLastError();
}

extern "C" cudaError_t
user_launch_group(const struct hspz_cuda_tcf *tcf, enum user_group_op op, unsigned lanes,
                  const uint64_t *keys, uint32_t count, uint64_t *values, uint8_t *yes,
                  cudaStream_t stream)
{
    switch (lanes) {
    case 1:
        return launch_lanes<1>(tcf, op, keys, count, values, yes, stream);
    case 4:
        return launch_lanes<4>(tcf, op, keys, count, values, yes, stream);
    case 8:
        return launch_lanes<8>(tcf, op, keys, count, values, yes, stream);
    default:
        return launch_lanes<32>(tcf, op, keys, count, values, yes, stream);
    }
}
