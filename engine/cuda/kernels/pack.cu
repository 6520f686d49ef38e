/* Sequence to nibbles, a word a thread. */
#include "engine/cuda/kernels/packed.cuh"

#include "engine/cuda/kernels/launch.h"

#define THREADS 256u

static __global__ void
__launch_bounds__(THREADS)
    pack(const __grid_constant__ struct hspz_cuda_unpacked piece, uint64_t words, uint64_t *out)
{
    __shared__ uint8_t classes[256];
    classes[threadIdx.x] = piece.of[threadIdx.x];
    __syncthreads();
    const uint64_t w = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (w < words) {
        out[w] = packed_word(piece.bases, piece.len, piece.backwards, classes, w);
    }
}

extern "C" cudaError_t
hspz_cuda_launch_pack(const struct hspz_cuda_unpacked *piece, uint64_t *words, cudaStream_t stream)
{
    const uint64_t count = (piece->len + HSPZ_PACKED_WORD - 1) / HSPZ_PACKED_WORD;
    const unsigned grid = (unsigned)((count + THREADS - 1) / THREADS);
    if (grid == 0) {
        return cudaSuccess;
    }
    pack<<<grid, THREADS, 0, stream>>>(*piece, count, words);
    return cudaGetLastError();
}
