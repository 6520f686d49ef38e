/* Two-choice filters: calls on arrays of keys, a thread a key at a time. */
#include "engine/cuda/kernels/filter_tcf.cuh"

#include "engine/cuda/kernels/filter.cuh"

#define FILL (UINT64_C(1) << 18) /* threads that fill a device */
#define KEYS 4u                  /* of a thread, when there are more */
/* Of threads on a multiprocessor at once, for blocks of so many bits that registers suffice. */
#define BLOCKS(bits) ((bits) <= 256 ? 6 : 1)

/* Answers the call's keys by `work`, which gets a key and its number; `sign`: what a yes does to
 * the number of entries. A key is on its way while the one before it is worked on. */
template <typename WORK>
static __device__ __forceinline__ void
tcf_each(const struct hspz_cuda_filter_call &call, struct hspz_cuda_filter_counts *counts, int sign,
         WORK work)
{
    __shared__ unsigned sum;
    const uint32_t stride = gridDim.x * blockDim.x, count = (uint32_t)call.count;
    const unsigned lane = threadIdx.x & 31;
    unsigned all = 0;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t key = i < count ? filter_key(call, i) : 0;
    while (i - lane < count) {
        const uint32_t next = i + stride;
        const uint64_t next_key = next < count ? filter_key(call, next) : 0;
        const bool yes = i < count && work(i, key);
        const uint32_t bits = __ballot_sync(FILTER_FULL_WARP, yes);
        if (call.yes != NULL && lane == 0) {
            call.yes[i / 32] = bits;
        }
        all += (unsigned)__popc(bits);
        i = next;
        key = next_key;
    }
    if (lane == 0 && all > 0) {
        atomicAdd(&sum, all);
    }
    __syncthreads();
    if (threadIdx.x == 0 && sum > 0) {
        const unsigned long long yes = sum;
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, yes);
        }
        if (sign != 0) {
            atomicAdd(&counts->entries, sign > 0 ? yes : 0 - yes);
        }
    }
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS, BLOCKS(TAG *SLOTS))
    tcf_insert(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, 1, [&](uint32_t i, uint64_t key) {
        const uint64_t value = call.values != NULL ? call.values[i] : 0;
        const bool in = hspz_tcf_insert<TAG, SLOTS>(tcf, key, value);
        if (!in && call.result != NULL) {
            atomicAdd(&call.result->refused, 1ull);
        }
        return in;
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_absent(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, 1, [&](uint32_t i, uint64_t key) {
        uint64_t value = call.values != NULL ? call.values[i] : 0;
        const enum hspz_tcf_absent answer = hspz_tcf_insert_if_absent<TAG, SLOTS>(tcf, key, &value);
        if (answer == HSPZ_TCF_FULL && call.result != NULL) {
            atomicAdd(&call.result->refused, 1ull);
        }
        return answer == HSPZ_TCF_WENT_IN;
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_query(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, 0, [&](uint32_t i, uint64_t key) {
        (void)i;
        return tcf_there<TAG, SLOTS>(tcf, tcf_place_of<TAG>(tcf, key));
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_lookup(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, 0, [&](uint32_t i, uint64_t key) {
        uint64_t value;
        const bool there = hspz_tcf_find<TAG, SLOTS>(tcf, key, &value);
        call.found[i] = value;
        return there;
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_count(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, 0, [&](uint32_t i, uint64_t key) {
        const uint64_t count = hspz_tcf_count<TAG, SLOTS>(tcf, key);
        if (call.found != NULL) {
            call.found[i] = count;
        }
        return count > 0;
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS, BLOCKS(TAG *SLOTS))
    tcf_erase(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    tcf_each(call, tcf.counts, -1, [&](uint32_t i, uint64_t key) {
        if (call.found != NULL) {
            call.found[i] = 0;
        }
        return hspz_tcf_erase<TAG, SLOTS, true>(tcf, key);
    });
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_found(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    if (i < call.count) {
        uint64_t value = 0;
        if ((call.yes[i / 32] >> i % 32 & 1) == 0) {
            (void)hspz_tcf_find<TAG, SLOTS>(tcf, filter_key(call, i), &value);
        }
        call.found[i] = value;
    }
}

/* A thread a block, and a word of the backing table. */
template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS) tcf_check(struct hspz_cuda_tcf tcf)
{
    const uint64_t i = filter_index();
    unsigned tags = 0;
    if (i < tcf.windows.blocks) {
        tags = SLOTS - tcf_size(tcf_free(tcf_load<TAG, SLOTS>(tcf, (uint32_t)i)));
    }
    if (i < tcf.backing_slots && tcf.backing[i] >= HSPZ_TCF_TAGS) {
        const uint64_t word = tcf.backing[i], block = word >> 32;
        const uint32_t tag = (uint32_t)word;
        tags++;
        atomicAdd(&tcf.counts->spare, 1ull);
        if (block >= tcf.windows.blocks || tag < HSPZ_TCF_TAGS || (uint64_t)tag >> TAG != 0 ||
            hspz_tcf_other((uint32_t)block, tag, tcf.windows) < block) {
            atomicAdd(&tcf.counts->damaged, 1ull);
        }
    }
    if (tags > 0) {
        atomicAdd(&tcf.counts->used, (unsigned long long)tags);
    }
}

enum tcf_work { TCF_CALL, TCF_FOUND, TCF_CHECK };

template <unsigned TAG, unsigned SLOTS>
static cudaError_t
tcf_launch_call(const struct hspz_cuda_tcf *tcf, const struct hspz_cuda_filter_call *call,
                cudaStream_t stream)
{
    auto kernel = call->found != NULL ? tcf_lookup<TAG, SLOTS> : tcf_query<TAG, SLOTS>;
    uint64_t most = UINT64_MAX; /* keys at a time */
    switch (call->op) {
    case HSPZ_FILTER_INSERT:
        kernel = tcf_insert<TAG, SLOTS>;
        most = tcf->windows.blocks;
        break;
    case HSPZ_FILTER_INSERT_IF_ABSENT:
        kernel = tcf_absent<TAG, SLOTS>;
        most = tcf->windows.blocks;
        break;
    case HSPZ_FILTER_COUNT:
        kernel = tcf_count<TAG, SLOTS>;
        break;
    case HSPZ_FILTER_DELETE:
        kernel = tcf_erase<TAG, SLOTS>;
        break;
    default:
        break;
    }
    uint64_t all = call->count < FILL ? call->count : call->count / KEYS;
    all = call->count >= FILL && all < FILL ? FILL : all;
    /* From so many blocks on there are no more threads than these. */
    all = most < FILL && all > most ? most : all;
    const unsigned threads = all < FILTER_THREADS ? (unsigned)(all + 31) / 32 * 32 : FILTER_THREADS;
    const unsigned grid = (unsigned)(all / threads > 0 ? all / threads : 1);
    kernel<<<grid, threads, 0, stream>>>(*tcf, *call);
    return cudaGetLastError();
}

template <unsigned TAG, unsigned SLOTS>
static cudaError_t
tcf_launch(enum tcf_work work, const struct hspz_cuda_tcf *tcf,
           const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    if (work == TCF_CHECK) {
        const unsigned grid = filter_grid(
            tcf->windows.blocks > tcf->backing_slots ? tcf->windows.blocks : tcf->backing_slots);
        const auto kernel = tcf_check<TAG, SLOTS>;
        kernel<<<grid, FILTER_THREADS, 0, stream>>>(*tcf);
        return cudaGetLastError();
    }
    if (call->count == 0) {
        return cudaSuccess;
    }
    if (work == TCF_CALL) {
        return tcf_launch_call<TAG, SLOTS>(tcf, call, stream);
    }
    const unsigned grid = filter_grid(call->count);
    const auto kernel = tcf_found<TAG, SLOTS>;
    kernel<<<grid, FILTER_THREADS, 0, stream>>>(*tcf, *call);
    return cudaGetLastError();
}

template <unsigned TAG>
static cudaError_t
tcf_launch_tag(enum tcf_work work, const struct hspz_cuda_tcf *tcf,
               const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    switch (tcf->block_slots) {
    case 16:
        return tcf_launch<TAG, 16>(work, tcf, call, stream);
    case 32:
        return tcf_launch<TAG, 32>(work, tcf, call, stream);
    default:
        return tcf_launch<TAG, 64>(work, tcf, call, stream);
    }
}

static cudaError_t
tcf_launch_any(enum tcf_work work, const struct hspz_cuda_tcf *tcf,
               const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    switch (tcf->slot_bits) {
    case 8:
        return tcf_launch_tag<8>(work, tcf, call, stream);
    case 12:
        return tcf_launch_tag<12>(work, tcf, call, stream);
    case 16:
        return tcf_launch_tag<16>(work, tcf, call, stream);
    default:
        return tcf_launch_tag<32>(work, tcf, call, stream);
    }
}

extern "C" cudaError_t
hspz_cuda_launch_tcf(const struct hspz_cuda_tcf *tcf, const struct hspz_cuda_filter_call *call,
                     cudaStream_t stream)
{
    return tcf_launch_any(TCF_CALL, tcf, call, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_tcf_found(const struct hspz_cuda_tcf *tcf,
                           const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    return tcf_launch_any(TCF_FOUND, tcf, call, stream);
}

extern "C" cudaError_t
hspz_cuda_launch_tcf_check(const struct hspz_cuda_tcf *tcf, cudaStream_t stream)
{
    return tcf_launch_any(TCF_CHECK, tcf, NULL, stream);
}
