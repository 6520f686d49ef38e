/* Calls on an exact counter, its growth, and what it holds. */
#include "engine/cuda/kernels/counter.cuh"

#include <cub/block/block_reduce.cuh>

#define THREADS FILTER_THREADS
#define ROUNDS_MOST 16u /* of singles */
#define WAY_MASK ((1u << HSPZ_CUDA_COUNTER_WAY_BITS) - 1)

/* How many threads of the block bring yes; all of them come. */
static __device__ __forceinline__ void
tally_yes(unsigned long long *sum, bool yes)
{
    const int all = __syncthreads_count(yes);
    if (threadIdx.x == 0 && all > 0) {
        atomicAdd(sum, (unsigned long long)all);
    }
}

static __device__ __forceinline__ void
tally_sums(unsigned long long sums[2], uint64_t n)
{
    using Reduce = cub::BlockReduce<unsigned long long, THREADS>;
    __shared__ typename Reduce::TempStorage storage[2];
    const unsigned long long low = Reduce(storage[0]).Sum(n & UINT32_MAX);
    const unsigned long long high = Reduce(storage[1]).Sum(n >> 32);
    if (threadIdx.x == 0 && (low != 0 || high != 0)) {
        atomicAdd(&sums[0], low);
        atomicAdd(&sums[1], high);
    }
}

/* ---- keys ---- */

static __global__ void
__launch_bounds__(THREADS)
    mix_keys(struct hspz_cuda_counter c, const uint64_t *keys, uint64_t count, uint64_t *out)
{
    const uint64_t i = filter_index();
    if (i < count) {
        out[i] = hspz_counter_mix(keys[i], c.salt, c.shape.bits);
    }
}

static __global__ void
__launch_bounds__(THREADS)
    unpack_keys(struct hspz_cuda_counter c, const uint64_t *words, uint64_t count, unsigned stride,
                uint64_t *x, uint64_t *counts, struct hspz_cuda_counter_tally *tally)
{
    const uint64_t i = filter_index();
    bool wide = false, never = false;
    if (i < count) {
        const uint64_t key = words[i * stride];
        wide = c.shape.bits < 64 && key >> c.shape.bits != 0;
        x[i] = hspz_counter_mix(key, c.salt, c.shape.bits);
        if (stride > 1) {
            counts[i] = words[i * stride + 1];
            never = counts[i] == 0;
        }
    }
    tally_yes(&tally->wide, wide);
    tally_yes(&tally->never, never);
}

static __device__ __forceinline__ uint64_t
items_count(const struct hspz_cuda_counter_items &items)
{
    return items.counted != NULL ? *items.counted : items.count;
}

/* How often key i, the first of its equals, is there. */
static __device__ __forceinline__ uint64_t
times_of(const struct hspz_cuda_counter_items &items, uint64_t i)
{
    if (items.counts != NULL) {
        return items.counts[i];
    }
    const uint64_t x = items.x[i];
    uint64_t last = i, step = 1;
    while (last + step < items.count && items.x[last + step] == x) {
        last += step;
        step *= 2;
    }
    for (; step > 0; step /= 2) {
        if (last + step < items.count && items.x[last + step] == x) {
            last += step;
        }
    }
    return last - i + 1;
}

/* ---- inserts ---- */

static __device__ __forceinline__ uint64_t
fate_of(const struct hspz_cuda_counter &c, uint64_t x, uint64_t n, bool *was)
{
    struct hspz_cuda_counter_pair *const pair = counter_find_pair(c, x);
    *was = pair != NULL;
    if (n == 0) {
        return HSPZ_CUDA_COUNTER_NOWHERE;
    }
    if (pair != NULL) {
        pair->count = counter_add(pair->count, n);
        return HSPZ_CUDA_COUNTER_NOWHERE;
    }
    const uint64_t slot = counter_find_single(c, x);
    *was = slot != COUNTER_NONE;
    return *was     ? slot << HSPZ_CUDA_COUNTER_WAY_BITS | HSPZ_CUDA_COUNTER_MOVE
           : n == 1 ? HSPZ_CUDA_COUNTER_SINGLE
                    : HSPZ_CUDA_COUNTER_PAIR;
}

static __global__ void
__launch_bounds__(THREADS)
    look_keys(struct hspz_cuda_counter c, struct hspz_cuda_counter_items items,
              struct hspz_cuda_counter_tally *tally)
{
    const uint64_t i = filter_index();
    uint64_t n = 0, fate = HSPZ_CUDA_COUNTER_NOWHERE;
    bool twice = false;
    if (i < items_count(items)) {
        const uint64_t x = items.x[i];
        twice = i > 0 && items.x[i - 1] == x;
        if (!twice) {
            n = times_of(items, i);
            fate = fate_of(c, x, n, &twice);
        }
        items.fates[i] = fate;
    }
    const unsigned way = (unsigned)fate & WAY_MASK;
    tally_yes(&tally->singles, way == HSPZ_CUDA_COUNTER_SINGLE);
    tally_yes(&tally->pairs, way == HSPZ_CUDA_COUNTER_PAIR);
    tally_yes(&tally->moves, way == HSPZ_CUDA_COUNTER_MOVE);
    tally_yes(&tally->twice, twice);
    if (items.counts != NULL) {
        tally_sums(tally->sums, n);
    }
}

static __device__ __forceinline__ void
leave_front(const struct hspz_cuda_counter &c, uint64_t slot)
{
    uint8_t *const block = counter_block(c, slot / HSPZ_COUNTER_BLOCK_SLOTS);
    atomicAnd((uint32_t *)block, ~(1u << slot % HSPZ_COUNTER_BLOCK_SLOTS));
}

static __device__ __forceinline__ void
refuse_key(const struct hspz_cuda_counter_items &items, uint64_t i, uint64_t n,
           struct hspz_cuda_counter_tally *tally)
{
    items.fates[i] = HSPZ_CUDA_COUNTER_REFUSED;
    atomicAdd(&tally->refused, 1ull);
    atomicAdd(&tally->refused_sums[0], (unsigned long long)(n & UINT32_MAX));
    atomicAdd(&tally->refused_sums[1], (unsigned long long)(n >> 32));
}

static __global__ void
__launch_bounds__(THREADS)
    put_pairs(struct hspz_cuda_counter c, struct hspz_cuda_counter_items items, bool left,
              uint64_t room, struct hspz_cuda_counter_tally *tally)
{
    const uint64_t i = filter_index();
    if (i >= items_count(items)) {
        return;
    }
    const uint64_t fate = items.fates[i];
    const unsigned way = (unsigned)fate & WAY_MASK;
    const bool move = way == HSPZ_CUDA_COUNTER_MOVE;
    if (left ? way != HSPZ_CUDA_COUNTER_LEFT : !move && way != HSPZ_CUDA_COUNTER_PAIR) {
        return;
    }
    const uint64_t n = times_of(items, i);
    if (room != UINT64_MAX) {
        if (atomicAdd(&tally->put, 1ull) >= room) {
            refuse_key(items, i, n, tally);
            return;
        }
        atomicAdd(&tally->put_moves, move ? 1ull : 0ull);
    }
    counter_put_pair(c, items.x[i], move ? counter_add(1, n) : n);
    if (move) {
        leave_front(c, fate >> HSPZ_CUDA_COUNTER_WAY_BITS);
    }
}

static __global__ void
__launch_bounds__(THREADS)
    put_singles(struct hspz_cuda_counter c, struct hspz_cuda_counter_items items, uint64_t first,
                uint64_t stride, struct hspz_cuda_counter_tally *tally)
{
    const uint64_t i = first + filter_index() * stride;
    if (i < items_count(items) && items.fates[i] == HSPZ_CUDA_COUNTER_SINGLE &&
        !counter_put_single(c, items.x[i])) {
        items.fates[i] = HSPZ_CUDA_COUNTER_LEFT;
        atomicAdd(&tally->left, 1ull);
    }
}

/* ---- answers ---- */

/* The first of the items that is no less. */
static __device__ __forceinline__ uint64_t
lower_bound(const uint64_t *x, uint64_t count, uint64_t least)
{
    uint64_t low = 0;
    while (low < count) {
        const uint64_t middle = low + (count - low) / 2;
        if (x[middle] < least) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

static __global__ void
__launch_bounds__(THREADS)
    answer_keys(struct hspz_cuda_counter c, struct hspz_cuda_counter_items items,
                struct hspz_cuda_filter_call call, struct hspz_cuda_counter_tally *tally)
{
    const uint64_t i = filter_index();
    bool refused = false;
    if (i < call.count && (call.counts == NULL || call.counts[i] != 0)) {
        const uint64_t x = hspz_counter_mix(call.keys[i], c.salt, c.shape.bits);
        const uint64_t at = lower_bound(items.x, items_count(items), x);
        refused = items.fates[at] == HSPZ_CUDA_COUNTER_REFUSED;
    }
    if (call.yes != NULL) {
        const uint32_t bits = __ballot_sync(FILTER_FULL_WARP, i < call.count && !refused);
        if ((threadIdx.x & 31) == 0 && i < call.count) {
            call.yes[i / 32] = bits;
        }
    }
    tally_yes(&tally->refused_keys, refused);
}

static __global__ void
__launch_bounds__(THREADS) find_keys(struct hspz_cuda_counter c, struct hspz_cuda_filter_call call)
{
    const uint64_t i = filter_index();
    uint64_t count = 0;
    if (i < call.count) {
        const uint64_t x = hspz_counter_mix(filter_key(call, i), c.salt, c.shape.bits);
        const struct hspz_cuda_counter_pair *const pair = counter_find_pair(c, x);
        count = pair != NULL ? pair->count : counter_find_single(c, x) != COUNTER_NONE;
        if (call.found != NULL) {
            call.found[i] = call.op == HSPZ_FILTER_COUNT ? count : 0;
        }
    }
    filter_answer(call, NULL, i, count != 0, 0);
}

/* ---- growth ---- */

/* Slot `slot` of all blocks. */
static __global__ void
__launch_bounds__(THREADS)
    refill(struct hspz_cuda_counter from, struct hspz_cuda_counter to, unsigned slot,
           struct hspz_cuda_counter_left left, struct hspz_cuda_counter_tally *tally)
{
    uint64_t x;
    const uint64_t block = filter_index();
    if (block < hspz_counter_shape_blocks(&from.shape) &&
        counter_single_at(from, block * HSPZ_COUNTER_BLOCK_SLOTS + slot, &x) &&
        !counter_put_single(to, x)) {
        const unsigned long long at = atomicAdd(&tally->left, 1ull);
        if (at < left.room) {
            left.x[at] = x;
        }
    }
}

static __global__ void
__launch_bounds__(THREADS) put_left(struct hspz_cuda_counter c, const uint64_t *x, uint64_t count)
{
    const uint64_t i = filter_index();
    if (i < count) {
        counter_put_pair(c, x[i], 1);
    }
}

static __global__ void
__launch_bounds__(THREADS) replace(struct hspz_cuda_counter from, struct hspz_cuda_counter to)
{
    const uint64_t i = filter_index();
    if (i < from.pair_slots && from.pairs[i].count != 0) {
        counter_put_pair(to, from.pairs[i].x, from.pairs[i].count);
    }
}

/* ---- what there is ---- */

/* The mixed key of a place and its count; 0: nobody's. */
static __device__ __forceinline__ uint64_t
count_at(const struct hspz_cuda_counter &c, uint64_t place, uint64_t *x)
{
    const uint64_t slots = hspz_counter_shape_slots(&c.shape);
    if (place < slots) {
        return counter_single_at(c, place, x);
    }
    if (place - slots >= c.pair_slots) {
        return 0;
    }
    *x = c.pairs[place - slots].x;
    return c.pairs[place - slots].count;
}

static __global__ void
__launch_bounds__(THREADS)
    recount(struct hspz_cuda_counter c, struct hspz_cuda_counter_tally *tally)
{
    uint64_t x;
    const uint64_t place = filter_index(), n = count_at(c, place, &x);
    const bool front = place < hspz_counter_shape_slots(&c.shape);
    tally_yes(&tally->singles, n != 0 && front);
    tally_yes(&tally->pairs, n != 0 && !front);
    tally_sums(tally->sums, n);
}

static __global__ void
__launch_bounds__(THREADS)
    list_places(struct hspz_cuda_counter c, struct hspz_cuda_counter_list list,
                struct hspz_cuda_counter_tally *tally)
{
    uint64_t x = 0;
    const uint64_t i = filter_index();
    const uint64_t n = i < list.count ? count_at(c, list.first + i, &x) : 0;
    const uint32_t all = __ballot_sync(FILTER_FULL_WARP, n != 0);
    const unsigned lane = threadIdx.x & 31;
    unsigned long long at = 0;
    if (lane == 0 && all != 0) {
        at = atomicAdd(&tally->listed, (unsigned long long)__popc(all));
    }
    at = __shfl_sync(FILTER_FULL_WARP, at, 0) + (unsigned)__popc(all & ((1u << lane) - 1));
    if (n != 0) {
        list.keys[at * list.stride] = list.mixed ? x : hspz_counter_unmix(x, c.salt, c.shape.bits);
        if (list.counts != NULL) {
            list.counts[at * list.stride] = n;
        }
    }
}

/* ---- launches ---- */

extern "C" cudaError_t
hspz_cuda_launch_counter_mix(const struct hspz_cuda_counter *c, const uint64_t *keys,
                             uint64_t count, uint64_t *out, cudaStream_t stream)
{
    mix_keys<<<filter_grid(count), THREADS, 0, stream>>>(*c, keys, count, out);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_unpack(const struct hspz_cuda_counter *c, const uint64_t *words,
                                uint64_t count, unsigned stride, uint64_t *x, uint64_t *counts,
                                struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    unpack_keys<<<filter_grid(count), THREADS, 0, stream>>>(*c, words, count, stride, x, counts,
                                                            tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_look(const struct hspz_cuda_counter *c,
                              const struct hspz_cuda_counter_items *items,
                              struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    look_keys<<<filter_grid(items->count), THREADS, 0, stream>>>(*c, *items, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_pairs(const struct hspz_cuda_counter *c,
                               const struct hspz_cuda_counter_items *items, bool left,
                               uint64_t room, struct hspz_cuda_counter_tally *tally,
                               cudaStream_t stream)
{
    put_pairs<<<filter_grid(items->count), THREADS, 0, stream>>>(*c, *items, left, room, tally);
    return cudaGetLastError();
}

/* Keys that lie beside each other would like the same block: those of a launch are so far apart
 * that each sees what the launches before have put there. */
extern "C" cudaError_t
hspz_cuda_launch_counter_singles(const struct hspz_cuda_counter *c,
                                 const struct hspz_cuda_counter_items *items,
                                 struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    const uint64_t share = items->count / hspz_counter_shape_blocks(&c->shape) + 1;
    const uint64_t rounds = share < ROUNDS_MOST ? share : ROUNDS_MOST;
    const unsigned grid = filter_grid((items->count + rounds - 1) / rounds);
    for (uint64_t r = 0; r < rounds; r++) {
        put_singles<<<grid, THREADS, 0, stream>>>(*c, *items, r, rounds, tally);
    }
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_answers(const struct hspz_cuda_counter *c,
                                 const struct hspz_cuda_counter_items *items,
                                 const struct hspz_cuda_filter_call *call,
                                 struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    answer_keys<<<filter_grid(call->count), THREADS, 0, stream>>>(*c, *items, *call, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_find(const struct hspz_cuda_counter *c,
                              const struct hspz_cuda_filter_call *call, cudaStream_t stream)
{
    find_keys<<<filter_grid(call->count), THREADS, 0, stream>>>(*c, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_refill(const struct hspz_cuda_counter *from,
                                const struct hspz_cuda_counter *to,
                                const struct hspz_cuda_counter_left *left,
                                struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    const unsigned grid = filter_grid(hspz_counter_shape_blocks(&from->shape));
    for (unsigned slot = 0; slot < HSPZ_COUNTER_BLOCK_SLOTS; slot++) {
        refill<<<grid, THREADS, 0, stream>>>(*from, *to, slot, *left, tally);
    }
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_put_left(const struct hspz_cuda_counter *c, const uint64_t *x,
                                  uint64_t count, cudaStream_t stream)
{
    put_left<<<filter_grid(count), THREADS, 0, stream>>>(*c, x, count);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_replace(const struct hspz_cuda_counter *from,
                                 const struct hspz_cuda_counter *to, cudaStream_t stream)
{
    if (from->pair_slots == 0) {
        return cudaSuccess;
    }
    replace<<<filter_grid(from->pair_slots), THREADS, 0, stream>>>(*from, *to);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_recount(const struct hspz_cuda_counter *c,
                                 struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    const unsigned grid = filter_grid(hspz_counter_shape_slots(&c->shape) + c->pair_slots);
    recount<<<grid, THREADS, 0, stream>>>(*c, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_counter_list(const struct hspz_cuda_counter *c,
                              const struct hspz_cuda_counter_list *list,
                              struct hspz_cuda_counter_tally *tally, cudaStream_t stream)
{
    list_places<<<filter_grid(list->count), THREADS, 0, stream>>>(*c, *list, tally);
    return cudaGetLastError();
}
