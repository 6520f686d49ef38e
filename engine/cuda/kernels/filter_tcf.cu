/* Two-choice filters: calls on arrays of keys, a thread a key. */
#include "engine/cuda/kernels/filter_tcf.cuh"

#include "engine/cuda/kernels/filter.cuh"

template <unsigned TAG, unsigned SLOTS, bool ABSENT>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_insert(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    bool yes = false, full = false;
    if (i < call.count) {
        const uint64_t key = filter_key(call, i);
        uint64_t value = call.values != NULL ? call.values[i] : 0;
        if (ABSENT) {
            const enum hspz_tcf_absent answer =
                hspz_tcf_insert_if_absent<TAG, SLOTS>(tcf, key, &value);
            yes = answer == HSPZ_TCF_WENT_IN;
            full = answer == HSPZ_TCF_FULL;
        } else {
            yes = hspz_tcf_insert<TAG, SLOTS>(tcf, key, value);
            full = !yes;
        }
        if (full && call.result != NULL) {
            atomicAdd(&call.result->refused, 1ull);
        }
    }
    filter_answer(call, tcf.counts, i, yes, 1);
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_query(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    bool yes = false;
    if (i < call.count) {
        const tcf_place place = tcf_place_of<TAG>(tcf, filter_key(call, i));
        const uint64_t slot = tcf_find_place<TAG, SLOTS>(tcf, place);
        yes = slot != TCF_NONE;
        if (call.found != NULL) {
            call.found[i] = yes ? tcf_value(tcf, slot) : 0;
        }
    }
    filter_answer(call, tcf.counts, i, yes, 0);
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_count(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    uint64_t count = 0;
    if (i < call.count) {
        count = hspz_tcf_count<TAG, SLOTS>(tcf, filter_key(call, i));
        if (call.found != NULL) {
            call.found[i] = count;
        }
    }
    filter_answer(call, tcf.counts, i, count > 0, 0);
}

template <unsigned TAG, unsigned SLOTS>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_erase(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    bool yes = false;
    if (i < call.count) {
        const uint64_t key = filter_key(call, i);
        const uint64_t value = 0;
        yes = hspz_tcf_erase<TAG, SLOTS, true>(tcf, key);
        if (call.found != NULL) {
            call.found[i] = value;
        }
    }
    filter_answer(call, tcf.counts, i, yes, -1);
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
    if (i < tcf.blocks) {
        tags = SLOTS - tcf_size(tcf_free(tcf_load<TAG, SLOTS>(tcf, i)));
    }
    if (i < tcf.backing_slots && tcf.backing[i] >= HSPZ_TCF_TAGS) {
        const uint64_t word = tcf.backing[i], block = word >> 32;
        const uint32_t tag = (uint32_t)word;
        tags++;
        if (block >= tcf.blocks || tag < HSPZ_TCF_TAGS || (uint64_t)tag >> TAG != 0 ||
            hspz_tcf_other(block, tag, tcf.blocks) < block) {
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
tcf_launch(enum tcf_work work, const struct hspz_cuda_tcf *tcf,
           const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    if (work == TCF_CHECK) {
        const unsigned grid =
            filter_grid(tcf->blocks > tcf->backing_slots ? tcf->blocks : tcf->backing_slots);
        const auto kernel = tcf_check<TAG, SLOTS>;
        kernel<<<grid, FILTER_THREADS, 0, stream>>>(*tcf);
        return cudaGetLastError();
    }
    const unsigned grid = filter_grid(call->count);
    if (grid == 0) {
        return cudaSuccess;
    }
    auto kernel = tcf_query<TAG, SLOTS>;
    switch (call->op) {
    case HSPZ_FILTER_INSERT:
        kernel = tcf_insert<TAG, SLOTS, false>;
        break;
    case HSPZ_FILTER_INSERT_IF_ABSENT:
        kernel = work == TCF_FOUND ? tcf_found<TAG, SLOTS> : tcf_insert<TAG, SLOTS, true>;
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
