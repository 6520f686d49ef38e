/* Two-choice filters: inserts of many keys, window by window.
 *
 *   words     what is needed of each key, in 64 bits
 *   windows   a thread block has a window of blocks in shared memory. Which slots are free is a
 *             word a block; a key takes one by swapping it, so that of the keys of a block each
 * sees what the one before it has left, and the choice between two blocks is as good as if the keys
 * came one after the other overflow  the keys whose blocks are full go to the backing table */
#include "engine/cuda/kernels/filter.cuh"
#include "engine/cuda/kernels/filter_tcf.cuh"

#define SLOTS 16u
#define WINDOW_THREADS 1024u
#define OVERFLOW_GRID 64u
#define STATIC_BYTES_MAX (48u << 10) /* what a thread block can have unasked */

extern __shared__ uint4 tcf_window[];

/* ---- words ---- */

template <unsigned TAG>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_words(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
              struct hspz_cuda_filter_sorted sorted)
{
    unsigned long long *const out = (unsigned long long *)sorted.data[0];
    const uint64_t i = filter_index();
    if (i == 0) {
        *sorted.left = 0;
    }
    if (i < call.count) {
        const uint64_t hash = hspz_filter_hash(filter_key(call, i), tcf.salt);
        const uint64_t ones = (1ull << tcf.value_bits) - 1;
        const uint64_t value = call.values != NULL ? __ldcs(call.values + i) & ones : 0;
        out[i] = (uint64_t)hspz_tcf_block(hash, tcf.windows.blocks) << tcf.word_shift |
                 value << TAG | hspz_tcf_tag(hash, TAG);
    }
}

static __device__ __forceinline__ uint64_t
word_value(const struct hspz_cuda_tcf &tcf, uint64_t word, unsigned tag_bits)
{
    return word >> tag_bits & ((1ull << tcf.value_bits) - 1);
}

/* ---- windows ---- */

template <typename FIELD>
static __device__ __forceinline__ uint32_t
free_slots(const uint4 *block)
{
    constexpr uint32_t fields = 4 / sizeof(FIELD);
    uint32_t slots = 0;
#pragma unroll
    for (uint32_t q = 0; q < SLOTS * sizeof(FIELD) / 16; q++) {
        const uint4 four = block[q];
        const uint32_t words[] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t s = 0; s < 4 * fields; s++) {
            const FIELD code = (FIELD)(words[s / fields] >> s % fields * 8 * sizeof(FIELD));
            slots |= (uint32_t)(code < HSPZ_TCF_TAGS) << (q * 4 * fields + s);
        }
    }
    return slots;
}

/* Between the filter and shared memory, where blocks follow one another; 16 bytes at a time. */
template <bool BACK>
static __device__ __forceinline__ void
move_window(const struct hspz_cuda_tcf &tcf, uint32_t first, uint32_t blocks, uint32_t block_quads)
{
    uint4 *const there = (uint4 *)(tcf.tags + (uint64_t)first * tcf.block_words);
    const uint32_t stride = tcf.block_words / 4;
    for (uint32_t i = threadIdx.x; i < blocks * block_quads; i += WINDOW_THREADS) {
        uint4 *const at = there + i / block_quads * stride + i % block_quads;
        if (BACK) {
            *at = tcf_window[i];
        } else {
            tcf_window[i] = *at;
        }
    }
}

/* Takes a slot of one of the blocks, of which `open` has the free ones. SLOTS: there is none. */
static __device__ __forceinline__ uint32_t
take_slot(uint32_t *open, uint32_t a, uint32_t b, uint32_t *block)
{
    for (;;) {
        const uint32_t free_a = atomicOr(open + a, 0u), free_b = atomicOr(open + b, 0u);
        const uint32_t size_a = (uint32_t)__popc(free_a);
        const bool second = 4 * size_a <= SLOTS && (uint32_t)__popc(free_b) > size_a;
        const uint32_t free_now = second ? free_b : free_a;
        *block = second ? b : a;
        if (free_now == 0) {
            return SLOTS;
        }
        /* The lowest one, so the last slot comes last. */
        if (atomicCAS(open + *block, free_now, free_now & (free_now - 1)) == free_now) {
            return (uint32_t)__ffs((int)free_now) - 1;
        }
    }
}

/* Lanes of a warp append theirs together. */
static __device__ __forceinline__ void
leave(const struct hspz_cuda_filter_sorted &sorted, bool mine, uint64_t word)
{
    const uint32_t lanes = __ballot_sync(FILTER_FULL_WARP, mine), lane = threadIdx.x & 31;
    if (lanes == 0) {
        return;
    }
    unsigned long long at = 0;
    if (lane == 0) {
        at = atomicAdd(sorted.left, (unsigned long long)__popc(lanes));
    }
    at = __shfl_sync(FILTER_FULL_WARP, at, 0);
    if (mine) {
        ((unsigned long long *)sorted.data[1])[at + __popc(lanes & ((1u << lane) - 1))] = word;
    }
}

/* The window of a thread block, and the words of its keys. */
struct tcf_window_of {
    uint32_t first, blocks;
    uint32_t begin, end;
};

/* Where the words of a window begin, for the threads of a warp: each step cuts what is left by 33.
 */
static __device__ __forceinline__ uint32_t
find_words(const struct hspz_cuda_filter_sorted &sorted, uint32_t window)
{
    const unsigned long long *words = (const unsigned long long *)sorted.data[0];
    const uint64_t lane = threadIdx.x & 31;
    uint64_t low = 0, high = sorted.count;
    while (low < high) {
        /* Increasing, and below `high`. */
        const uint64_t at = low + (high - low) * (lane + 1) / 33;
        const bool before = (uint32_t)(words[at] >> sorted.shift) < window;
        const uint64_t all = (uint64_t)__popc(__ballot_sync(FILTER_FULL_WARP, before));
        const uint64_t from = low;
        low = all > 0 ? from + (high - from) * all / 33 + 1 : low;
        high = all < 32 ? from + (high - from) * (all + 1) / 33 : high;
    }
    return (uint32_t)low;
}

static __device__ __forceinline__ tcf_window_of
find_window(const struct hspz_cuda_tcf &tcf, const struct hspz_cuda_filter_sorted &sorted)
{
    __shared__ uint32_t range[2];
    const bool last = blockIdx.x + 1 == sorted.regions;
    if (threadIdx.x < 64) {
        const uint32_t end = threadIdx.x / 32, window = blockIdx.x + end;
        const uint32_t at = window == 0                ? 0
                            : window == sorted.regions ? (uint32_t)sorted.count
                                                       : find_words(sorted, window);
        range[end] = at;
    }
    __syncthreads();
    return {blockIdx.x * tcf.windows.size, last ? tcf.windows.last_size : tcf.windows.size,
            range[0], range[1]};
}

/* Does `work` for the words of a window; it gets a word, and says 1, 0, or TCF_LEFT: the word is to
 * be left for the kernel behind this one. The sum of what it says, for thread 0. */
#define TCF_LEFT 2u
template <typename WORK>
static __device__ __forceinline__ unsigned long long
for_window(const struct hspz_cuda_filter_sorted &sorted, const tcf_window_of &window, WORK work)
{
    __shared__ uint32_t sum;
    const unsigned long long *words = (const unsigned long long *)sorted.data[0];
    uint32_t mine = 0, i = window.begin + threadIdx.x;
    uint64_t word = i < window.end ? __ldcs(words + i) : 0;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    for (uint32_t any = window.begin; any < window.end; any += WINDOW_THREADS) {
        const bool here = i < window.end;
        const uint64_t now = word;
        i += WINDOW_THREADS;
        word = i < window.end ? __ldcs(words + i) : 0;
        const uint32_t answer = here ? work(now) : 0;
        mine += answer == 1;
        leave(sorted, answer == TCF_LEFT, now);
    }
    if (mine > 0) {
        atomicAdd(&sum, mine);
    }
    __syncthreads();
    return sum;
}

template <typename FIELD>
static __global__ void
__launch_bounds__(WINDOW_THREADS)
    tcf_fill(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
             struct hspz_cuda_filter_sorted sorted)
{
    constexpr unsigned tag_bits = 8 * sizeof(FIELD);
    constexpr uint32_t block_quads = SLOTS * sizeof(FIELD) / 16;
    const tcf_window_of window = find_window(tcf, sorted);
    FIELD *const tags = (FIELD *)tcf_window;
    uint32_t *const open = (uint32_t *)(tcf_window + window.blocks * block_quads);
    if (window.begin == window.end) {
        return;
    }
    move_window<false>(tcf, window.first, window.blocks, block_quads);
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < window.blocks; b += WINDOW_THREADS) {
        open[b] = free_slots<FIELD>(tcf_window + b * block_quads);
    }
    const unsigned long long all = for_window(sorted, window, [&](uint64_t word) {
        const uint32_t block = (uint32_t)(word >> tcf.word_shift), tag = (FIELD)word;
        const uint32_t other = hspz_tcf_other(block, tag, tcf.windows);
        uint32_t to;
        const uint32_t slot = take_slot(open, block - window.first, other - window.first, &to);
        if (slot == SLOTS) {
            return TCF_LEFT;
        }
        tags[to * SLOTS + slot] = (FIELD)tag;
        tcf_set_value<SLOTS>(tcf, (uint64_t)(window.first + to) * SLOTS + slot,
                             word_value(tcf, word, tag_bits));
        return 1u;
    });
    move_window<true>(tcf, window.first, window.blocks, block_quads);
    if (threadIdx.x == 0 && all > 0) {
        atomicAdd(&tcf.counts->entries, all);
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, all);
        }
    }
}

template <unsigned TAG>
static __device__ __forceinline__ tcf_block<TAG, SLOTS>
window_block(uint32_t block)
{
    constexpr uint32_t block_quads = tcf_block<TAG, SLOTS>::WORDS / 4;
    tcf_block<TAG, SLOTS> made;
#pragma unroll
    for (uint32_t q = 0; q < block_quads; q++) {
        const uint4 four = tcf_window[block * block_quads + q];
        made.word[4 * q] = four.x;
        made.word[4 * q + 1] = four.y;
        made.word[4 * q + 2] = four.z;
        made.word[4 * q + 3] = four.w;
    }
    return made;
}

/* Marks a slot of the block that has the tag and no mark; `gone`: the marks, as sets of slots. */
template <unsigned TAG>
static __device__ __forceinline__ bool
mark_slot(const tcf_block<TAG, SLOTS> &block, uint32_t tag, uint32_t *gone)
{
    uint32_t left = tcf_tagged(block, tag);
    while (left != 0) {
        const uint32_t lowest = left & (0 - left), marked = atomicOr(gone, lowest);
        if ((marked & lowest) == 0) {
            return true;
        }
        left &= ~marked;
    }
    return false;
}

template <unsigned TAG>
static __device__ __forceinline__ uint32_t
mark_tag(uint32_t a, uint32_t b, uint32_t tag, uint32_t *gone)
{
    const tcf_block<TAG, SLOTS> first = window_block<TAG>(a);
    if (mark_slot<TAG>(first, tag, gone + a)) {
        return 1;
    }
    const tcf_block<TAG, SLOTS> second = window_block<TAG>(b);
    if (mark_slot<TAG>(second, tag, gone + b)) {
        return 1;
    }
    return tcf_open(first) || tcf_open(second) ? 0 : TCF_LEFT;
}

template <typename FIELD>
static __global__ void
__launch_bounds__(WINDOW_THREADS)
    tcf_clear(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
              struct hspz_cuda_filter_sorted sorted)
{
    constexpr unsigned TAG = 8 * sizeof(FIELD);
    constexpr uint32_t block_quads = tcf_block<TAG, SLOTS>::WORDS / 4;
    const tcf_window_of window = find_window(tcf, sorted);
    FIELD *const tags = (FIELD *)tcf_window;
    uint32_t *const gone = (uint32_t *)(tcf_window + window.blocks * block_quads);
    if (window.begin == window.end) {
        return;
    }
    move_window<false>(tcf, window.first, window.blocks, block_quads);
    for (uint32_t b = threadIdx.x; b < window.blocks; b += WINDOW_THREADS) {
        gone[b] = 0;
    }
    const unsigned long long all = for_window(sorted, window, [&](uint64_t word) {
        const uint32_t block = (uint32_t)(word >> tcf.word_shift), tag = (FIELD)word;
        const uint32_t other = hspz_tcf_other(block, tag, tcf.windows);
        return mark_tag<TAG>(block - window.first, other - window.first, tag, gone);
    });
    for (uint32_t b = threadIdx.x; b < window.blocks; b += WINDOW_THREADS) {
        for (uint32_t left = gone[b]; left != 0; left &= left - 1) {
            const unsigned slot = tcf_slot<TAG, SLOTS>(tcf_lowest(left));
            tags[b * SLOTS + slot] = slot == SLOTS - 1 ? HSPZ_TCF_TOMBSTONE : HSPZ_TCF_EMPTY;
        }
    }
    __syncthreads();
    move_window<true>(tcf, window.first, window.blocks, block_quads);
    if (threadIdx.x == 0 && all > 0) {
        atomicAdd(&tcf.counts->entries, 0 - all);
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, all);
        }
    }
}

/* ---- overflow ---- */

template <unsigned TAG, bool ERASE>
static __global__ void
__launch_bounds__(FILTER_THREADS)
    tcf_overflow(struct hspz_cuda_tcf tcf, struct hspz_cuda_filter_call call,
                 struct hspz_cuda_filter_sorted sorted)
{
    __shared__ unsigned long long sums[2];
    const unsigned long long *words = (const unsigned long long *)sorted.data[1];
    const uint64_t count = *sorted.left, stride = (uint64_t)gridDim.x * FILTER_THREADS;
    unsigned long long yes = 0, no = 0;
    if (threadIdx.x < 2) {
        sums[threadIdx.x] = 0;
    }
    __syncthreads();
    for (uint64_t i = filter_index(); i < count; i += stride) {
        const uint64_t word = words[i];
        const uint32_t block = (uint32_t)(word >> tcf.word_shift);
        const uint32_t tag = (uint32_t)word & tcf_block<TAG, SLOTS>::ONES;
        const uint64_t key = hspz_tcf_word(block, hspz_tcf_other(block, tag, tcf.windows), tag);
        const bool answer = ERASE ? tcf_backing_erase(tcf_backing_of(tcf), key, true)
                                  : tcf_insert_backing<SLOTS>(tcf, key, word_value(tcf, word, TAG));
        yes += answer;
        no += !answer;
    }
    if (yes + no > 0) {
        atomicAdd(&sums[0], yes);
        atomicAdd(&sums[1], no);
    }
    __syncthreads();
    if (threadIdx.x == 0 && sums[0] + sums[1] > 0) {
        atomicAdd(&tcf.counts->entries, ERASE ? 0 - sums[0] : sums[0]);
        if (call.result != NULL) {
            atomicAdd(&call.result->yes, sums[0]);
            atomicAdd(&call.result->refused, ERASE ? 0 : sums[1]);
        }
    }
}

/* ---- launches ---- */

template <unsigned TAG, typename FIELD>
static cudaError_t
launch(const struct hspz_cuda_tcf *tcf, const struct hspz_cuda_filter_call *call,
       const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const bool erase = call->op == HSPZ_FILTER_DELETE;
    const auto windows = erase ? tcf_clear<FIELD> : tcf_fill<FIELD>;
    const auto overflow = erase ? tcf_overflow<TAG, true> : tcf_overflow<TAG, false>;
    /* The last window is the largest. */
    const size_t bytes = tcf->windows.last_size * (SLOTS * sizeof(FIELD) + sizeof(uint32_t));
    cudaError_t error = cudaSuccess;
    if (bytes > STATIC_BYTES_MAX) {
        error =
            cudaFuncSetAttribute(windows, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
    if (error == cudaSuccess) {
        windows<<<sorted->regions, WINDOW_THREADS, bytes, stream>>>(*tcf, *call, *sorted);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) {
        overflow<<<OVERFLOW_GRID, FILTER_THREADS, 0, stream>>>(*tcf, *call, *sorted);
        error = cudaGetLastError();
    }
    return error;
}

extern "C" cudaError_t
hspz_cuda_launch_tcf_words(const struct hspz_cuda_tcf *tcf,
                           const struct hspz_cuda_filter_call *call,
                           const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    const unsigned grid = filter_grid(call->count);
    const auto kernel = tcf->slot_bits == 8    ? tcf_words<8>
                        : tcf->slot_bits == 16 ? tcf_words<16>
                                               : tcf_words<32>;
    kernel<<<grid, FILTER_THREADS, 0, stream>>>(*tcf, *call, *sorted);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_tcf_sorted(const struct hspz_cuda_tcf *tcf,
                            const struct hspz_cuda_filter_call *call,
                            const struct hspz_cuda_filter_sorted *sorted, cudaStream_t stream)
{
    switch (tcf->slot_bits) {
    case 8:
        return launch<8, uint8_t>(tcf, call, sorted, stream);
    case 16:
        return launch<16, uint16_t>(tcf, call, sorted, stream);
    default:
        return launch<32, uint32_t>(tcf, call, sorted, stream);
    }
}
