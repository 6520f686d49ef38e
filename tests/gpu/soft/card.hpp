/* A card in software, for machines without one: what the CUDA engine's kernels need of the language
 * and of its libraries, so that a C++ compiler takes them (convert.py) and the engine's tests run.
 *
 * Each thread of a block is a fiber; blocks run one after the other, and a launch is over when it
 * returns. Lanes wait for each other where they exchange values, threads of a block where they
 * synchronize, and now and then at a read past the nearest cache or a swap; a block in which all
 * wait for ever ends the program. Everything is as on a card but the time it takes and other races,
 * of which there can be none.
 *
 * Threads: a card for each thread of the host that launches. */
#pragma once

#include "runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>
#include <vector_functions.h>

/* The headers above have them too. */
#undef __CUDACC__
#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __restrict__
#define __CUDACC__ 1
#define __host__
#define __device__
#define __global__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__

extern thread_local uint3 threadIdx, blockIdx;
extern thread_local dim3 gridDim, blockDim;

/* On a stream of another device than the current one, nothing. */
void soft_launch(unsigned grid, unsigned block, cudaStream_t stream,
                 const std::function<void()> &kernel);
unsigned soft_lane();
/* The values that the lanes of the warp bring, 0 of those that have ended. */
void soft_exchange(uint64_t mine, uint64_t all[32]);
/* How many threads of the block bring true. */
int soft_synchronize(bool mine);
/* Now and then lets the other threads of the block run: around reads and swaps of what they change
 * too. */
void soft_yield();

template <typename T>
static inline T
soft_from(T value, unsigned lane)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a register or two");
    uint64_t word = 0, all[32];
    memcpy(&word, &value, sizeof(T));
    soft_exchange(word, all);
    memcpy(&value, &all[lane & 31], sizeof(T));
    return value;
}

template <typename T>
static inline T
__shfl_sync(uint32_t, T value, int lane)
{
    return soft_from(value, (unsigned)lane);
}

template <typename T>
static inline T
__shfl_up_sync(uint32_t, T value, unsigned by)
{
    return soft_from(value, soft_lane() >= by ? soft_lane() - by : soft_lane());
}

template <typename T>
static inline T
__shfl_xor_sync(uint32_t, T value, int with)
{
    return soft_from(value, soft_lane() ^ (unsigned)with);
}

static inline uint32_t
__ballot_sync(uint32_t, bool mine)
{
    uint64_t all[32];
    uint32_t mask = 0;
    soft_exchange(mine, all);
    for (unsigned lane = 0; lane < 32; lane++) {
        mask |= (uint32_t)(all[lane] & 1) << lane; /* others may be at another exchange */
    }
    return mask;
}

static inline void
__syncthreads()
{
    soft_synchronize(false);
}

static inline int
__syncthreads_count(bool mine)
{
    return soft_synchronize(mine);
}

/* Adding up lane by lane is as good as finding equal ones first. */
static inline uint32_t
__match_any_sync(uint32_t, uint32_t)
{
    return 1u << soft_lane();
}

template <typename T>
static inline T
__ldg(const T *at)
{
    return *at;
}

template <typename T>
static inline T
__ldca(const T *at)
{
    return *at;
}

template <typename T>
static inline T
__ldcg(const T *at)
{
    soft_yield();
    return *at;
}

template <typename T>
static inline T
__ldcs(const T *at)
{
    return *at;
}

template <typename T>
static inline void
__stcs(T *at, T value)
{
    *at = value;
}

template <typename T>
static inline T
atomicAdd(T *at, T value)
{
    const T old = *at;
    *at += value;
    return old;
}

template <typename T>
static inline T
atomicMin(T *at, T value)
{
    const T old = *at;
    *at = std::min(old, value);
    return old;
}

template <typename T>
static inline T
atomicOr(T *at, T value)
{
    const T old = *at;
    *at |= value;
    return old;
}

template <typename T>
static inline T
atomicAnd(T *at, T value)
{
    const T old = *at;
    *at &= value;
    return old;
}

template <typename T>
static inline T
atomicXor(T *at, T value)
{
    soft_yield();
    const T old = *at;
    *at ^= value;
    return old;
}

template <typename T>
static inline T
atomicExch(T *at, T value)
{
    const T old = *at;
    *at = value;
    return old;
}

template <typename T>
static inline T
atomicCAS(T *at, T expected, T value)
{
    soft_yield();
    const T old = *at;
    *at = old == expected ? value : old;
    return old;
}

static inline void
__threadfence()
{
}

static inline int
__popc(uint32_t x)
{
    return __builtin_popcount(x);
}

static inline int
__popcll(uint64_t x)
{
    return __builtin_popcountll(x);
}

static inline uint64_t
__brevll(uint64_t x)
{
    uint64_t reversed = 0;
    for (unsigned i = 0; i < 64; i++) {
        reversed |= (x >> i & 1) << (63 - i);
    }
    return reversed;
}

static inline int
__ffs(int x)
{
    return __builtin_ffs(x);
}

static inline int
__ffsll(long long x)
{
    return __builtin_ffsll(x);
}

static inline unsigned long long
__brevll(unsigned long long x)
{
    unsigned long long reversed = 0;
    for (int i = 0; i < 64; i++) {
        reversed = reversed << 1 | (x >> i & 1);
    }
    return reversed;
}

static inline int
__clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}

static inline int
__clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

static inline uint32_t
__funnelshift_r(uint32_t low, uint32_t high, uint32_t by)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (by & 31));
}

/* Halves, and bytes, that are equal, as all ones. */
static inline uint32_t
soft_equal(uint32_t a, uint32_t b, unsigned width)
{
    uint32_t equal = 0;
    for (unsigned i = 0; i < 32; i += width) {
        const uint32_t ones = (uint32_t)((UINT64_C(1) << width) - 1) << i;
        equal |= ((a ^ b) & ones) == 0 ? ones : 0;
    }
    return equal;
}

static inline uint32_t
__vcmpeq2(uint32_t a, uint32_t b)
{
    return soft_equal(a, b, 16);
}

static inline uint32_t
__vcmpeq4(uint32_t a, uint32_t b)
{
    return soft_equal(a, b, 8);
}

static inline uint32_t
__dp4a(uint32_t a, uint32_t b, uint32_t sum)
{
    for (unsigned i = 0; i < 32; i += 8) {
        sum += (a >> i & 0xff) * (b >> i & 0xff);
    }
    return sum;
}

static inline double
__dmul_rn(double a, double b)
{
    return a * b;
}

static inline double
__dadd_rn(double a, double b)
{
    return a + b;
}

template <typename T>
cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *, T *)
{
    return cudaSuccess;
}

template <typename T>
cudaError_t
cudaFuncSetAttribute(T *, enum cudaFuncAttribute, int)
{
    return cudaSuccess;
}

template <typename... PARAMS>
cudaError_t
cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(PARAMS...), PARAMS... args)
{
    soft_launch(config->gridDim.x, config->blockDim.x, config->stream, [&] { kernel(args...); });
    return cudaSuccess;
}

/* What is used of cub. Where only one thread gets a result, the others get another. */
namespace cub
{
template <typename T, int THREADS> struct BlockReduce {
    struct TempStorage {
        T values[THREADS];
    };
    TempStorage &storage;
    BlockReduce(TempStorage &s) : storage(s)
    {
    }
    T Sum(T mine)
    {
        T sum = 0;
        storage.values[threadIdx.x] = mine;
        __syncthreads();
        for (int i = 0; i < THREADS; i++) {
            sum += storage.values[i];
        }
        return threadIdx.x == 0 ? sum : ~sum;
    }
};

template <typename T, int THREADS> struct BlockScan {
    struct TempStorage {
        T values[THREADS];
    };
    TempStorage &storage;
    BlockScan(TempStorage &s) : storage(s)
    {
    }
    void ExclusiveSum(T mine, T &before, T &sum)
    {
        storage.values[threadIdx.x] = mine;
        __syncthreads();
        before = sum = 0;
        for (unsigned i = 0; i < (unsigned)THREADS; i++) {
            before += i < threadIdx.x ? storage.values[i] : 0;
            sum += storage.values[i];
        }
    }
    void ExclusiveSum(T mine, T &before)
    {
        T sum;
        ExclusiveSum(mine, before, sum);
    }
};

template <typename T> struct WarpScan {
    struct TempStorage {
    };
    WarpScan(TempStorage &)
    {
    }
    void InclusiveSum(T mine, T &upto, T &sum)
    {
        uint64_t all[32];
        soft_exchange(mine, all);
        upto = sum = 0;
        for (unsigned lane = 0; lane < 32; lane++) {
            upto += lane <= soft_lane() ? (T)all[lane] : 0;
            sum += (T)all[lane];
        }
    }
};

template <typename T> struct WarpReduce {
    struct TempStorage {
    };
    WarpReduce(TempStorage &)
    {
    }
    T Sum(T mine)
    {
        T upto, sum;
        typename WarpScan<T>::TempStorage none;
        WarpScan<T>(none).InclusiveSum(mine, upto, sum);
        return soft_lane() == 0 ? sum : ~sum;
    }
};

template <typename T> struct DoubleBuffer {
    T *buffers[2];
    int selector = 0;
    DoubleBuffer(T *now, T *other) : buffers{now, other}
    {
    }
};

/* As cub's: without memory they say how much they want, with less they fail. */
static inline bool
soft_asks(const void *temp, size_t &bytes, size_t wanted, cudaError_t &error)
{
    error = temp != nullptr && bytes < wanted ? cudaErrorInvalidValue : soft_call();
    bytes = temp == nullptr ? wanted : bytes;
    return temp == nullptr || error != cudaSuccess;
}

struct DeviceMergeSort {
    template <typename T, typename LESS>
    static cudaError_t SortKeys(void *temp, size_t &bytes, T *keys, int count, LESS less,
                                cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (!soft_asks(temp, bytes, (size_t)count * sizeof(T), error)) {
            std::sort(keys, keys + count, less);
        }
        return error;
    }
};

struct DeviceSelect {
    template <typename T, typename N>
    static cudaError_t Unique(void *temp, size_t &bytes, T *in, T *out, N *out_count, int count,
                              cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (!soft_asks(temp, bytes, 256, error)) {
            *out_count = (N)(std::unique_copy(in, in + count, out) - out);
        }
        return error;
    }
};

struct DeviceRadixSort {
    template <typename K>
    static cudaError_t SortKeys(void *temp, size_t &bytes, DoubleBuffer<K> &keys, uint32_t count,
                                int begin_bit, int end_bit, cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (soft_asks(temp, bytes, 256, error)) {
            return error;
        }
        const K mask =
            end_bit - begin_bit == 8 * sizeof(K) ? ~(K)0 : ((K)1 << (end_bit - begin_bit)) - 1;
        std::copy(keys.buffers[0], keys.buffers[0] + count, keys.buffers[1]);
        std::stable_sort(keys.buffers[1], keys.buffers[1] + count, [=](K a, K b) {
            return (a >> begin_bit & mask) < (b >> begin_bit & mask);
        });
        std::fill(keys.buffers[0], keys.buffers[0] + count, (K)0x5a5a5a5a);
        keys.selector = 1;
        return error;
    }
    template <typename K, typename V>
    static cudaError_t SortPairs(void *temp, size_t &bytes, DoubleBuffer<K> &keys,
                                 DoubleBuffer<V> &values, uint32_t count, int, int,
                                 cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (soft_asks(temp, bytes, 256, error)) {
            return error;
        }
        std::vector<std::pair<K, V>> pairs(count);
        for (uint32_t i = 0; i < count; i++) {
            pairs[i] = {keys.buffers[0][i], values.buffers[0][i]};
        }
        std::stable_sort(pairs.begin(), pairs.end(),
                         [](auto &a, auto &b) { return a.first < b.first; });
        for (uint32_t i = 0; i < count; i++) {
            keys.buffers[1][i] = pairs[i].first;
            values.buffers[1][i] = pairs[i].second;
        }
        keys.selector = values.selector = 1;
        return error;
    }
};

struct DeviceReduce {
    template <typename K, typename V, typename N, typename OP>
    static cudaError_t ReduceByKey(void *temp, size_t &bytes, const K *keys, K *out_keys,
                                   const V *values, V *out_values, N *out_count, OP op,
                                   uint32_t count, cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (soft_asks(temp, bytes, 256, error)) {
            return error;
        }
        N made = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (i > 0 && keys[i - 1] == keys[i]) {
                out_values[made - 1] = op(out_values[made - 1], values[i]);
            } else {
                out_keys[made] = keys[i];
                out_values[made++] = values[i];
            }
        }
        *out_count = made;
        return error;
    }
};

struct DeviceScan {
    template <typename T>
    static cudaError_t sum(void *temp, size_t &bytes, const T *in, T *out, uint32_t count,
                           bool inclusive)
    {
        cudaError_t error;
        T before = 0;
        if (!soft_asks(temp, bytes, 256, error)) {
            for (uint32_t i = 0; i < count; i++) {
                const T value = in[i];
                out[i] = inclusive ? before + value : before;
                before += value;
            }
        }
        return error;
    }
    template <typename T, typename OP>
    static cudaError_t ExclusiveScan(void *temp, size_t &bytes, const T *in, T *out, OP op, T first,
                                     uint32_t count, cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (!soft_asks(temp, bytes, 256, error)) {
            for (uint32_t i = 0; i < count; i++) {
                const T value = in[i];
                out[i] = first;
                first = op(first, value);
            }
        }
        return error;
    }
    template <typename K, typename T, typename OP, typename EQUAL>
    static cudaError_t ExclusiveScanByKey(void *temp, size_t &bytes, const K *keys, const T *in,
                                          T *out, OP op, T first, uint32_t count, EQUAL equal,
                                          cudaStream_t = nullptr)
    {
        cudaError_t error;
        if (!soft_asks(temp, bytes, 256, error)) {
            T before = first;
            for (uint32_t i = 0; i < count; i++) {
                const T value = in[i];
                before = i == 0 || !equal(keys[i - 1], keys[i]) ? first : before;
                out[i] = before;
                before = op(before, value);
            }
        }
        return error;
    }
    template <typename T>
    static cudaError_t InclusiveSum(void *temp, size_t &bytes, const T *in, T *out, uint32_t count,
                                    cudaStream_t = nullptr)
    {
        return sum(temp, bytes, in, out, count, true);
    }
    template <typename T>
    static cudaError_t ExclusiveSum(void *temp, size_t &bytes, const T *in, T *out, uint32_t count,
                                    cudaStream_t = nullptr)
    {
        return sum(temp, bytes, in, out, count, false);
    }
};
} // namespace cub

/* Tiles of a warp: all that wait for each other must be of one size. */
namespace cooperative_groups
{
struct thread_block {
};

static inline thread_block
this_thread_block()
{
    return {};
}

template <unsigned LANES> struct thread_block_tile {
    static constexpr unsigned num_threads()
    {
        return LANES;
    }
    static unsigned thread_rank()
    {
        return soft_lane() % LANES;
    }
    template <typename T> static T shfl(T value, int lane)
    {
        return soft_from(value, soft_lane() / LANES * LANES + (unsigned)lane);
    }
    template <typename T> static T shfl_xor(T value, unsigned with)
    {
        return soft_from(value, soft_lane() ^ with);
    }
    static unsigned ballot(bool mine)
    {
        return __ballot_sync(0, mine) >> soft_lane() / LANES * LANES &
               (LANES == 32 ? 0xffffffffu : (1u << LANES % 32) - 1);
    }
};

template <unsigned LANES>
static inline thread_block_tile<LANES>
tiled_partition(thread_block)
{
    return {};
}
} // namespace cooperative_groups
