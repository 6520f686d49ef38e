#include "tests/bench/filter_groups.h"

#include "engine/cuda/kernels/filter_tcf_group.cuh"

#include <cooperative_groups.h>

#define THREADS 256u
#define BLOCKS 1056u /* as many as are on an H200 at a time */

template <unsigned TAG, unsigned SLOTS, unsigned LANES, hspz_filter_op OP>
static __global__ void
__launch_bounds__(THREADS) by_group(struct hspz_cuda_tcf tcf, const uint64_t *keys, uint64_t count,
                                    unsigned long long *yes)
{
    const auto group =
        cooperative_groups::tiled_partition<LANES>(cooperative_groups::this_thread_block());
    const uint64_t groups = (uint64_t)gridDim.x * THREADS / LANES;
    unsigned long long all = 0;
    for (uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / LANES; i < count;
         i += groups) {
        uint64_t value = 0;
        all +=
            OP == HSPZ_FILTER_INSERT ? hspz_tcf_group_insert<TAG, SLOTS>(group, tcf, keys[i], value)
            : OP == HSPZ_FILTER_QUERY ? hspz_tcf_group_find<TAG, SLOTS>(group, tcf, keys[i], &value)
                                      : hspz_tcf_group_erase<TAG, SLOTS>(group, tcf, keys[i]);
    }
    if (group.thread_rank() == 0 && all > 0) {
        atomicAdd(yes, all);
    }
}

template <unsigned TAG, unsigned SLOTS, unsigned LANES>
static cudaError_t
run(const struct hspz_cuda_tcf *tcf, enum hspz_filter_op op, const uint64_t *keys, uint64_t count,
    unsigned long long *yes, cudaStream_t stream)
{
    const auto kernel = op == HSPZ_FILTER_INSERT  ? by_group<TAG, SLOTS, LANES, HSPZ_FILTER_INSERT>
                        : op == HSPZ_FILTER_QUERY ? by_group<TAG, SLOTS, LANES, HSPZ_FILTER_QUERY>
                                                  : by_group<TAG, SLOTS, LANES, HSPZ_FILTER_DELETE>;
    kernel<<<BLOCKS, THREADS, 0, stream>>>(*tcf, keys, count, yes);
    return cudaGetLastError();
}

template <unsigned TAG, unsigned SLOTS>
static cudaError_t
run_lanes(const struct hspz_cuda_tcf *tcf, unsigned lanes, enum hspz_filter_op op,
          const uint64_t *keys, uint64_t count, unsigned long long *yes, cudaStream_t stream)
{
    switch (lanes) {
    case 1:
        return run<TAG, SLOTS, 1>(tcf, op, keys, count, yes, stream);
    case 2:
        return run<TAG, SLOTS, 2>(tcf, op, keys, count, yes, stream);
    case 4:
        return run<TAG, SLOTS, 4>(tcf, op, keys, count, yes, stream);
    case 8:
        return run<TAG, SLOTS, 8>(tcf, op, keys, count, yes, stream);
    case 16:
        return run<TAG, SLOTS, 16>(tcf, op, keys, count, yes, stream);
    case 32:
        return run<TAG, SLOTS, 32>(tcf, op, keys, count, yes, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

extern "C" cudaError_t
filter_groups_run(const struct hspz_cuda_tcf *tcf, unsigned slot_bits, unsigned block_slots,
                  unsigned lanes, enum hspz_filter_op op, const uint64_t *keys, uint64_t count,
                  unsigned long long *yes, cudaStream_t stream)
{
    switch (slot_bits << 8 | block_slots) {
    case 8 << 8 | 16:
        return run_lanes<8, 16>(tcf, lanes, op, keys, count, yes, stream);
    case 8 << 8 | 32:
        return run_lanes<8, 32>(tcf, lanes, op, keys, count, yes, stream);
    case 8 << 8 | 64:
        return run_lanes<8, 64>(tcf, lanes, op, keys, count, yes, stream);
    case 16 << 8 | 16:
        return run_lanes<16, 16>(tcf, lanes, op, keys, count, yes, stream);
    case 16 << 8 | 32:
        return run_lanes<16, 32>(tcf, lanes, op, keys, count, yes, stream);
    case 16 << 8 | 64:
        return run_lanes<16, 64>(tcf, lanes, op, keys, count, yes, stream);
    case 32 << 8 | 16:
        return run_lanes<32, 16>(tcf, lanes, op, keys, count, yes, stream);
    default:
        return cudaErrorInvalidValue;
    }
}
