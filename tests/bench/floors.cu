#include "tests/bench/floors.h"

#define THREADS 256u

static __global__ void
fill(uint32_t *data, uint64_t count)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride) {
        data[i] = (uint32_t)floors_mix(i);
    }
}

/* Ranks of a Zipf distribution of exponent 1.5: a uniform number to the power of -2. */
static __global__ void
zipf(uint64_t *keys, uint64_t count)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride) {
        const double u = (double)((floors_mix(i) >> 11) + 1) * 0x1p-53;
        const double rank = 1 / (u * u);
        keys[i] = floors_mix(rank < 0x1p62 ? (uint64_t)rank : (uint64_t)1 << 62);
    }
}

/* Of 100 keys one comes once, one twice, ... one 100 times; far from each other. */
static __global__ void
hundreds(uint64_t *keys, uint64_t count)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride) {
        const uint64_t place = i * 2654435761u % count, in = place % 5050;
        uint64_t times = (uint64_t)((1 + sqrt(1.0 + 8.0 * (double)in)) / 2);
        times -= times * (times - 1) / 2 > in;
        keys[i] = floors_mix(place / 5050 * 128 + times);
    }
}

#define WORD 21u       /* bases */
#define READ_WORDS 80u /* of a read of 100 bases */
#define COVERAGE 30u   /* reads of a place */
#define ERRORS_LOG2 7u /* one base of so many is read as another */

/* Base `place` of a genome that is nowhere, as read `read` has it. */
static __device__ __forceinline__ uint64_t
read_base(uint64_t read, uint64_t place)
{
    const uint64_t chance = floors_mix(~(read << 20 ^ place));
    const uint64_t wrong = chance >> (64 - ERRORS_LOG2) == 0 ? 1 + (chance & 0xffff) % 3 : 0;
    return (floors_mix(place / 32) >> 2 * (place % 32) & 3) ^ wrong;
}

/* Words of the strand that comes first of reads from all over a genome. */
static __global__ void
words_of(uint64_t *keys, uint64_t count, uint64_t genome)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride) {
        const uint64_t read = i / READ_WORDS;
        const uint64_t first = __umul64hi(floors_mix(read), genome) + i % READ_WORDS;
        uint64_t word = 0, other = 0;
        for (unsigned b = 0; b < WORD; b++) {
            const uint64_t base = read_base(read, first + b);
            word = word << 2 | base;
            other |= (3 - base) << 2 * b;
        }
        keys[i] = word < other ? word : other;
    }
}

/* Two neighbouring anchors a thread: a warp's store is 512 bytes without a gap. */
static __global__ void
stream_pairs(const uint2 *pos, ulonglong2 *out, uint64_t pairs)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
#pragma unroll 4
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < pairs; i += stride) {
        const uint2 p = __ldcs(&pos[i]);
        __stcs(&out[i], make_ulonglong2(p.x + 19 | i << 32, p.y + 19 | i << 32));
    }
}

/* Four: a thread's two stores are a whole sector. */
static __global__ void
stream_fours(const uint4 *pos, ulonglong2 *out, uint64_t fours)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
#pragma unroll 4
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += stride) {
        const uint4 p = __ldcs(&pos[i]);
        __stcs(&out[2 * i], make_ulonglong2(p.x + 19 | i << 32, p.y + 19 | i << 32));
        __stcs(&out[2 * i + 1], make_ulonglong2(p.z + 19 | i << 32, p.w + 19 | i << 32));
    }
}

/* As pairs, but every line of 32 positions is read from a random place. */
static __global__ void
stream_lines(const uint2 *pos, uint64_t lines, ulonglong2 *out, uint64_t pairs)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
#pragma unroll 4
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < pairs; i += stride) {
        const uint64_t line = __umul64hi(floors_mix(i / 16), lines);
        const uint2 p = __ldg(&pos[16 * line + i % 16]);
        __stcs(&out[i], make_ulonglong2(p.x + 19 | i << 32, p.y + 19 | i << 32));
    }
}

static __global__ void
nothing(uint32_t *sink)
{
    if (sink == NULL) {
        *sink = 1;
    }
}

static __global__ void
gather(const uint64_t *table, uint64_t mask, uint64_t count, uint32_t *sink)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    uint64_t all = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += 8 * stride) {
        uint64_t value[8];
#pragma unroll
        for (int u = 0; u < 8; u++) {
            value[u] = __ldg((const unsigned long long *)table +
                             (floors_mix(i + (uint64_t)u * stride) & mask));
        }
#pragma unroll
        for (int u = 0; u < 8; u++) {
            all ^= value[u];
        }
    }
    if (all == 0x123456789) {
        *sink = 1;
    }
}

/* As gather, of any number of sectors. */
static __global__ void
sectors_of(const uint32_t *table, uint64_t sectors, uint64_t count, uint32_t *sink)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    uint32_t all = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += 8 * stride) {
        uint32_t value[8];
#pragma unroll
        for (int u = 0; u < 8; u++) {
            value[u] =
                __ldcg(table + 8 * __umul64hi(floors_mix(i + (uint64_t)u * stride), sectors));
        }
#pragma unroll
        for (int u = 0; u < 8; u++) {
            all ^= value[u];
        }
    }
    if (all == 0x12345678) {
        *sink = 1;
    }
}

static __global__ void
checksum(const uint64_t *words, uint64_t count, unsigned long long *sum)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    unsigned long long mine = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride) {
        mine += floors_mix(words[i] ^ i);
    }
    atomicAdd(sum, mine);
}

extern "C" cudaError_t
floors_zipf(uint64_t *keys, uint64_t count, cudaStream_t stream)
{
    zipf<<<4096, THREADS, 0, stream>>>(keys, count);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_hundreds(uint64_t *keys, uint64_t count, cudaStream_t stream)
{
    hundreds<<<4096, THREADS, 0, stream>>>(keys, count);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_words(uint64_t *keys, uint64_t count, cudaStream_t stream)
{
    words_of<<<4096, THREADS, 0, stream>>>(keys, count,
                                           count * (READ_WORDS + WORD - 1) / READ_WORDS / COVERAGE);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_fill(uint32_t *data, uint64_t count, cudaStream_t s)
{
    fill<<<4096, THREADS, 0, s>>>(data, count);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_stream_pairs(const uint32_t *pos, uint64_t *out, uint64_t count, unsigned blocks,
                    cudaStream_t s)
{
    stream_pairs<<<blocks, THREADS, 0, s>>>((const uint2 *)pos, (ulonglong2 *)out, count / 2);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_stream_fours(const uint32_t *pos, uint64_t *out, uint64_t count, unsigned blocks,
                    cudaStream_t s)
{
    stream_fours<<<blocks, THREADS, 0, s>>>((const uint4 *)pos, (ulonglong2 *)out, count / 4);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_stream_lines(const uint32_t *pos, uint64_t positions, uint64_t *out, uint64_t count,
                    unsigned blocks, cudaStream_t s)
{
    stream_lines<<<blocks, THREADS, 0, s>>>((const uint2 *)pos, positions / 32, (ulonglong2 *)out,
                                            count / 2);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_nothing(uint32_t *sink, cudaStream_t s)
{
    nothing<<<1, 32, 0, s>>>(sink);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_gather(const uint64_t *table, unsigned log2, uint64_t count, unsigned blocks, uint32_t *sink,
              cudaStream_t s)
{
    gather<<<blocks, THREADS, 0, s>>>(table, (1ull << log2) - 1, count, sink);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_sectors(const uint32_t *table, uint64_t sectors, uint64_t count, unsigned blocks,
               uint32_t *sink, cudaStream_t s)
{
    sectors_of<<<blocks, THREADS, 0, s>>>(table, sectors, count, sink);
    return cudaGetLastError();
}

extern "C" cudaError_t
floors_checksum(const uint64_t *words, uint64_t count, unsigned long long *sum, cudaStream_t s)
{
    checksum<<<4096, THREADS, 0, s>>>(words, count, sum);
    return cudaGetLastError();
}
