/* What the measuring programs run on a card beside the engine's kernels: limits to compare with,
 * and inputs and checksums that stay on the device. Launchers as in engine/cuda/kernels/launch.h.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* data[i] = floors_mix(i), low half. */
cudaError_t floors_fill(uint32_t *data, uint64_t count, cudaStream_t stream);

/* Keys that come again: as Zipf has it with exponent 1.5, and uniformly 1 to 100 times. */
cudaError_t floors_zipf(uint64_t *keys, uint64_t count, cudaStream_t stream);
cudaError_t floors_hundreds(uint64_t *keys, uint64_t count, cudaStream_t stream);

/* Canonical 21-mers of reads of 100 bases from a random genome, 30 of each place, one base of 128
 * read wrong. */
cudaError_t floors_words(uint64_t *keys, uint64_t count, cudaStream_t stream);

/* Reads `count` positions in order and writes an anchor for each, two or four a thread. */
cudaError_t floors_stream_pairs(const uint32_t *pos, uint64_t *out, uint64_t count, unsigned blocks,
                                cudaStream_t stream);
cudaError_t floors_stream_fours(const uint32_t *pos, uint64_t *out, uint64_t count, unsigned blocks,
                                cudaStream_t stream);

/* The same from random lines of 32 positions: buckets cannot come quicker than this. */
cudaError_t floors_stream_lines(const uint32_t *pos, uint64_t positions, uint64_t *out,
                                uint64_t count, unsigned blocks, cudaStream_t stream);

/* A launch. */
cudaError_t floors_nothing(uint32_t *sink, cudaStream_t stream);

/* `count` reads of 8 bytes at random places of a table of 2^log2 x 8 bytes. */
cudaError_t floors_gather(const uint64_t *table, unsigned log2, uint64_t count, unsigned blocks,
                          uint32_t *sink, cudaStream_t stream);

/* `count` reads of 4 bytes, each of a random one of the table's sectors of 32. */
cudaError_t floors_sectors(const uint32_t *table, uint64_t sectors, uint64_t count, unsigned blocks,
                           uint32_t *sink, cudaStream_t stream);

/* Adds floors_mix(word ^ place) of every word to *sum. */
cudaError_t floors_checksum(const uint64_t *words, uint64_t count, unsigned long long *sum,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#define FLOORS_BOTH __host__ __device__
#else
#define FLOORS_BOTH
#endif

static inline FLOORS_BOTH uint64_t
floors_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}
