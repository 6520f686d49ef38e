/* k-mers of a sequence in device memory as keys (engine/kmer.h), as calls; as
 * engine/cuda/kernels/launch.h has them. */
#pragma once

#include "engine/kmer.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HSPZ_CUDA_KMER_TILE 4096u /* windows of a thread block */

/* Windows that begin at bases[0 .. windows), which may reach to bases[len]; the bases are aligned
 * to 16 bytes. */
struct hspz_cuda_kmers {
    const uint8_t *bases;
    uint64_t windows, len;
    unsigned k;
    bool canonical;
};
static inline uint64_t
hspz_cuda_kmer_tiles(uint64_t windows)
{
    return (windows + HSPZ_CUDA_KMER_TILE - 1) / HSPZ_CUDA_KMER_TILE;
}

/* starts[tile]: how many k-mers are before it; behind the last, how many there are. */
cudaError_t hspz_cuda_launch_kmer_starts(const struct hspz_cuda_kmers *kmers, uint64_t *starts,
                                         cudaStream_t stream);

/* Where keys go, in order, and where the window of each begins; `from` may be NULL. */
struct hspz_cuda_kmer_keys {
    uint64_t *keys;
    const uint64_t *starts;
    uint32_t *from;
};
cudaError_t hspz_cuda_launch_kmer_keys(const struct hspz_cuda_kmers *kmers,
                                       const struct hspz_cuda_kmer_keys *out, cudaStream_t stream);
/* Answers of keys to their windows, in arrays that are zero; both of each may be NULL. */
struct hspz_cuda_kmer_answers {
    const uint32_t *from;
    uint64_t count; /* of keys */
    const uint32_t *yes;
    const uint64_t *found;
    uint32_t *windows_yes;
    uint64_t *windows_found;
};
cudaError_t hspz_cuda_launch_kmer_answers(const struct hspz_cuda_kmer_answers *answers,
                                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif
