#include "engine/cuda/pack.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/score.h"

#include <string.h>

/* Bases uploaded at once: a multiple of a word's. */
#define PIECE (UINT64_C(1) << 25)

/* Bases [begin, end) of the strand. */
static cudaError_t
pack_piece(const struct hspz_cuda_pack *what, uint64_t begin, uint64_t end, uint8_t *staging,
           uint64_t *words, cudaStream_t stream)
{
    const uint64_t from = what->minus ? what->bases.len - end : begin;
    struct hspz_cuda_unpacked piece = {
        .bases = staging, .len = end - begin, .backwards = what->minus};
    memcpy(piece.of, hspz_base_classes(what->unmask, what->minus), sizeof(piece.of));
    cudaError_t error = cudaMemcpyAsync(staging, what->bases.bytes + from, end - begin,
                                        cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_pack(&piece, words + (HSPZ_PACKED_PAD + begin) / HSPZ_PACKED_WORD,
                                      stream);
    }
    return error;
}

enum hspz_status
hspz_cuda_pack(struct hspz_cuda_device *device, cudaStream_t stream,
               const struct hspz_cuda_pack *what, struct hspz_cuda_buffer *staging,
               struct hspz_cuda_buffer *out, struct hspz_error *err)
{
    const uint64_t len = what->bases.len;
    const uint64_t bytes = hspz_packed_words(len) * sizeof(uint64_t);
    enum hspz_status status = hspz_cuda_buffer_reserve(device, out, bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(device, staging, len < PIECE ? len : PIECE, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = cudaMemsetAsync(out->data, HSPZ_PACKED_PAD_BYTE, bytes, stream);
    for (uint64_t at = 0; at < len && error == cudaSuccess; at += PIECE) {
        const uint64_t end = len - at < PIECE ? len : at + PIECE;
        error = pack_piece(what, at, end, staging->data, out->data, stream);
    }
    return hspz_cuda_check(error, device->label, "packing sequence", err);
}
