/* Items dealt to piles: of a segment of keys or k-mers to buckets, of a bucket to its parts; a tile
 * of them a thread block.
 *
 *   rank     items are made, counted by pile, and each is told how many of its pile were before
 *   aside    where a pile has so many that one item comes again and again, that one goes over
 *   room     a scan for where each pile begins in the tile; then each pile takes room of all tiles'
 *            with one atomic add, and room for what that does not hold where such things go
 *   put      items beside those of their pile, in shared memory
 *   write    from there, neighbours to neighbours
 *
 * Where an item lies in its pile is not the same twice; what a pile has is. */
#include "engine/cuda/kernels/kmer.cuh"
#include "engine/cuda/kernels/quotient.cuh"

#include <cub/block/block_scan.cuh>

#define THREADS KMER_THREADS
#define TILE HSPZ_CUDA_KMER_TILE
#define EACH (TILE / THREADS)
#define RANK_BITS 16u
#define NO_PLACE UINT32_MAX

static_assert(TILE <= 1u << RANK_BITS, "a rank");
static_assert(HSPZ_CUDA_QUOTIENT_PILES <= TILE, "an item a pile");
static_assert(EACH <= 32, "a bit an item");
static_assert(HSPZ_CUDA_QUOTIENT_PILES < 1u << RANK_BITS, "a pile beside it");

#define IS_OVER (1u << 31) /* of a place: among those that went over */
#define ASIDE_TIMES 4u     /* as many in a pile as it gets of items spread well */
#define ASIDE_MORE 64u     /* beside that */

/* Where a tile's items go. */
template <typename W> struct deal_to {
    W *piles; /* from `room` to `room` */
    uint32_t *counts;
    uint32_t room;
    unsigned number; /* of piles */
    unsigned bits;   /* of an item, below its pile */
    uint64_t before; /* of all items, what they have above their pile */
    uint64_t *over;
    uint32_t over_room;
    struct hspz_cuda_quotient_tally *tally;
};

/* Wide items are kept whole, and say their pile. */
template <typename W> struct deal_shared {
    using Scan = cub::BlockScan<uint32_t, THREADS>;
    static constexpr bool WHOLE = sizeof(W) > sizeof(uint32_t);
    W items[TILE];
    uint16_t pile_of[WHOLE ? 1 : TILE];
    uint32_t starts[HSPZ_CUDA_QUOTIENT_PILES]; /* of piles in the tile; before that, counts */
    uint32_t to[HSPZ_CUDA_QUOTIENT_PILES];     /* in their rooms, or among those that went over */
    typename Scan::TempStorage scan;
    uint32_t aside, aside_to;
};

/* What a thread has of a tile. */
template <typename W> struct deal_mine {
    W items[EACH];
    uint32_t places[EACH]; /* rank and pile, or NO_PLACE */
};

/* ---- where items come from ---- */

struct from_keys {
    struct hspz_cuda_quotient q;
    const uint64_t *keys, *values;
    uint64_t count;
    unsigned value_bits;

    __device__ __forceinline__ bool item(unsigned i, uint64_t *out) const
    {
        const uint64_t at = (uint64_t)blockIdx.x * TILE + i;
        if (at >= count) {
            return false;
        }
        *out = quotient_fingerprint(q, __ldcs((const unsigned long long *)keys + at)) << value_bits;
        if (value_bits > 0 && values != NULL) {
            *out |= values[at] & quotient_low(value_bits);
        }
        return true;
    }
};

struct from_kmers {
    struct hspz_cuda_quotient q;
    struct hspz_cuda_kmers kmers;
    const struct kmer_unit *units;

    __device__ __forceinline__ bool item(unsigned i, uint64_t *out) const
    {
        *out = quotient_fingerprint(q, kmer_key(kmers, units, i)) << q.value_bits;
        return kmer_is(kmers, units, i);
    }
};

template <typename W> struct from_bucket {
    const W *items;
    uint32_t begin, count;

    __device__ __forceinline__ bool item(unsigned i, uint64_t *out) const
    {
        const uint32_t at = begin + i;
        if (at >= count) {
            return false;
        }
        *out = items[at];
        return true;
    }
};

/* ---- a tile ---- */

/* An item of a pile, among those that went over. */
template <typename W>
static __device__ __forceinline__ void
put_over(const struct deal_to<W> &to, uint32_t at, unsigned pile, W item)
{
    if (at < to.over_room) {
        to.over[at] = (to.before * to.number + pile) << to.bits | (item & quotient_low(to.bits));
    }
}

template <typename W>
static __device__ __forceinline__ unsigned
pile_at(const struct deal_mine<W> &mine, unsigned i)
{
    return mine.places[i] & ((1u << RANK_BITS) - 1);
}

/* Of piles that have too many, all that are equal to the one in the middle; others are ranked anew.
 */
template <typename W>
static __device__ __forceinline__ void
put_aside(const struct deal_to<W> &to, uint32_t most, struct deal_mine<W> &mine,
          struct deal_shared<W> &t)
{
    uint32_t aside = 0;
    for (unsigned p = threadIdx.x; p < to.number; p += THREADS) {
        t.to[p] = 0;
    }
    if (threadIdx.x == 0) {
        t.aside = 0;
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned pile = pile_at(mine, i);
        if (mine.places[i] != NO_PLACE && t.starts[pile] > most &&
            mine.places[i] >> RANK_BITS == t.starts[pile] / 2) {
            t.items[pile] = mine.items[i];
        }
    }
    __syncthreads();
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned pile = pile_at(mine, i);
        if (mine.places[i] != NO_PLACE && t.starts[pile] > most) {
            const bool equal = mine.items[i] == t.items[pile];
            const uint32_t rank = atomicAdd(equal ? &t.aside : &t.to[pile], 1u);
            mine.places[i] = rank << RANK_BITS | pile;
            aside |= (uint32_t)equal << i;
        }
    }
    __syncthreads();
    for (unsigned p = threadIdx.x; p < to.number; p += THREADS) {
        t.starts[p] = t.starts[p] > most ? t.to[p] : t.starts[p];
    }
    if (threadIdx.x == 0) {
        t.aside_to = atomicAdd(&to.tally->over, t.aside);
    }
    __syncthreads();
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < EACH; i++) {
        if ((aside >> i & 1) != 0) {
            put_over<W>(to, t.aside_to + (mine.places[i] >> RANK_BITS), pile_at(mine, i),
                        mine.items[i]);
            mine.places[i] = NO_PLACE;
        }
    }
}

/* All threads of the block. */
template <typename W>
static __device__ __forceinline__ bool
is_crowded(unsigned number, uint32_t most, const struct deal_shared<W> &t)
{
    bool crowded = false;
    for (unsigned p = threadIdx.x; p < number; p += THREADS) {
        crowded = crowded || t.starts[p] > most;
    }
    return __syncthreads_count(crowded) > 0;
}

/* For so many of a pile. */
template <typename W>
static __device__ __forceinline__ uint32_t
take_room(const struct deal_to<W> &to, unsigned pile, uint32_t count)
{
    uint32_t at = count > 0 ? atomicAdd(&to.counts[pile], count) : 0;
    if (at >= to.room) {
        at = IS_OVER | atomicAdd(&to.tally->over, count);
    }
    return at;
}

/* Counts become starts; how many the tile has. */
template <typename W>
static __device__ uint32_t
take_rooms(const struct deal_to<W> &to, struct deal_shared<W> &t)
{
    const unsigned each = (to.number + THREADS - 1) / THREADS, first = threadIdx.x * each;
    uint32_t mine = 0, before, all;
    for (unsigned p = first; p < first + each && p < to.number; p++) {
        const uint32_t count = t.starts[p];
        t.to[p] = take_room<W>(to, p, count);
        mine += count;
    }
    typename deal_shared<W>::Scan(t.scan).ExclusiveSum(mine, before, all);
    for (unsigned p = first; p < first + each && p < to.number; p++) {
        const uint32_t count = t.starts[p];
        t.starts[p] = before;
        before += count;
    }
    return all;
}

template <typename W>
static __device__ __forceinline__ void
write_item(const struct deal_to<W> &to, unsigned pile, uint32_t begin, uint32_t i, W item)
{
    uint32_t at = begin + i;
    if (at < to.room) {
        to.piles[(uint64_t)pile * to.room + at] = item;
        return;
    }
    at = begin >= IS_OVER ? at - IS_OVER : atomicAdd(&to.tally->over, 1u);
    put_over<W>(to, at, pile, item);
}

/* How many there are. */
template <typename W, typename FROM>
static __device__ __forceinline__ uint32_t
deal_tile(const FROM &from, const struct deal_to<W> &to, struct deal_shared<W> &t)
{
    const uint32_t most = ASIDE_TIMES * TILE / to.number + ASIDE_MORE;
    struct deal_mine<W> mine;
    uint32_t aside = 0;
    for (unsigned p = threadIdx.x; p < to.number; p += THREADS) {
        t.starts[p] = 0;
    }
    __syncthreads();
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < EACH; i++) {
        uint64_t item = 0;
        mine.places[i] = NO_PLACE;
        if (from.item(i * THREADS + threadIdx.x, &item)) {
            const unsigned pile = (unsigned)(item >> to.bits);
            mine.items[i] = (W)item;
            mine.places[i] = atomicAdd(&t.starts[pile], 1u) << RANK_BITS | pile;
        }
    }
    __syncthreads();
    if (is_crowded<W>(to.number, most, t)) {
        put_aside<W>(to, most, mine, t);
        aside = t.aside;
        __syncthreads();
    }
    const uint32_t all = take_rooms<W>(to, t);
    __syncthreads();
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < EACH; i++) {
        if (mine.places[i] != NO_PLACE) {
            const unsigned pile = pile_at(mine, i);
            const uint32_t at = t.starts[pile] + (mine.places[i] >> RANK_BITS);
            t.items[at] = mine.items[i];
            if (!t.WHOLE) {
                t.pile_of[at] = (uint16_t)pile;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < all; i += THREADS) {
        const W item = t.items[i];
        const unsigned pile =
            t.WHOLE ? (unsigned)(item >> (to.bits % (8 * sizeof(W)))) : t.pile_of[i];
        write_item<W>(to, pile, t.to[pile], i - t.starts[pile], (W)(item & quotient_low(to.bits)));
    }
    return all + aside;
}

/* ---- kernels ---- */

template <typename W>
static __device__ __forceinline__ struct deal_to<W>
to_buckets(const struct hspz_cuda_quotient_rooms &rooms, struct hspz_cuda_quotient_tally *tally) {
    const unsigned bits = rooms.item_bits + rooms.part_bits;
    return {(W *)rooms.buckets,
            rooms.bucket_counts,
            rooms.bucket_room,
            1u << rooms.bucket_bits,
            bits,
            0,
            rooms.over,
            rooms.over_room,
            tally};
}

template <typename W>
static __global__ void
__launch_bounds__(THREADS) deal_keys(struct from_keys from, struct hspz_cuda_quotient_rooms rooms,
                                     struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct deal_shared<W> t;
    const uint32_t all = deal_tile<W>(from, to_buckets<W>(rooms, tally), t);
    if (threadIdx.x == 0) {
        atomicAdd(&tally->dealt, all);
    }
}

template <typename W>
static __global__ void
__launch_bounds__(THREADS)
    deal_kmers(struct hspz_cuda_quotient q, struct hspz_cuda_kmers kmers,
               struct hspz_cuda_quotient_rooms rooms, struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct deal_shared<W> t;
    __shared__ struct kmer_unit units[KMER_UNITS];
    const struct from_kmers from = {q, kmers, units};
    kmer_pack_tile(kmers, units);
    const uint32_t all = deal_tile<W>(from, to_buckets<W>(rooms, tally), t);
    if (threadIdx.x == 0) {
        atomicAdd(&tally->dealt, all);
    }
}

/* Tiles blockIdx.x / buckets of a bucket, and as many further on as there are blocks for it. */
template <typename W>
static __global__ void
__launch_bounds__(THREADS)
    deal_buckets(struct hspz_cuda_quotient_rooms rooms, struct hspz_cuda_quotient_tally *tally)
{
    __shared__ struct deal_shared<uint32_t> t;
    const unsigned bucket = blockIdx.x & ((1u << rooms.bucket_bits) - 1);
    const uint32_t blocks = gridDim.x >> rooms.bucket_bits;
    const uint64_t first = (uint64_t)bucket << rooms.part_bits;
    const struct deal_to<uint32_t> to = {
        rooms.parts + first *rooms.part_room, rooms.part_counts + first, rooms.part_room,
            1u << rooms.part_bits, rooms.item_bits, bucket, rooms.over, rooms.over_room, tally
    };
    const uint32_t dealt = rooms.bucket_counts[bucket];
    const uint32_t count = dealt < rooms.bucket_room ? dealt : rooms.bucket_room;
    const W *const items = (const W *)rooms.buckets + (uint64_t)bucket * rooms.bucket_room;
    for (uint32_t begin = (blockIdx.x >> rooms.bucket_bits) * TILE; begin < count;
         begin += blocks * TILE) {
        const struct from_bucket<W> from = {
            items, begin, count
        };
        (void)deal_tile<uint32_t>(from, to, t);
        __syncthreads();
    }
}

/* ---- launches ---- */

static unsigned
tiles_of(uint64_t count)
{
    return (unsigned)((count + TILE - 1) / TILE);
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_deal_keys(const struct hspz_cuda_quotient *q, const uint64_t *keys,
                                    const uint64_t *values, uint64_t count, unsigned value_bits,
                                    const struct hspz_cuda_quotient_rooms *rooms,
                                    struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    const struct from_keys from = {*q, keys, values, count, value_bits};
    const auto kernel =
        hspz_cuda_quotient_rooms_wide(rooms) ? deal_keys<uint64_t> : deal_keys<uint32_t>;
    if (count == 0) {
        return cudaSuccess;
    }
    kernel<<<tiles_of(count), THREADS, 0, stream>>>(from, *rooms, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_deal_kmers(const struct hspz_cuda_quotient *q,
                                     const struct hspz_cuda_kmers *kmers,
                                     const struct hspz_cuda_quotient_rooms *rooms,
                                     struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    const auto kernel =
        hspz_cuda_quotient_rooms_wide(rooms) ? deal_kmers<uint64_t> : deal_kmers<uint32_t>;
    if (kmers->windows == 0) {
        return cudaSuccess;
    }
    kernel<<<tiles_of(kmers->windows), THREADS, 0, stream>>>(*q, *kmers, *rooms, tally);
    return cudaGetLastError();
}

extern "C" cudaError_t
hspz_cuda_launch_quotient_deal_buckets(const struct hspz_cuda_quotient_rooms *rooms, uint64_t count,
                                       struct hspz_cuda_quotient_tally *tally, cudaStream_t stream)
{
    const unsigned blocks = tiles_of(count >> rooms->bucket_bits) + 1;
    const auto kernel =
        hspz_cuda_quotient_rooms_wide(rooms) ? deal_buckets<uint64_t> : deal_buckets<uint32_t>;
    kernel<<<blocks << rooms->bucket_bits, THREADS, 0, stream>>>(*rooms, tally);
    return cudaGetLastError();
}
