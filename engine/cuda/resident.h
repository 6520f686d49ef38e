/* An index resident in device memory: on every device of the engine, the tables of every block that
 * it holds.
 *
 * The host's copy stays acquired for its parameters.
 * Threads: immutable once loaded; share freely. */
#pragma once

#include "engine/cuda/buffer.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/index.h"

/* Automatic: in groups where they pay. Groups: also where most of them are cut. */
enum hspz_cuda_lookup { HSPZ_CUDA_LOOKUP_AUTO, HSPZ_CUDA_LOOKUP_WORDS, HSPZ_CUDA_LOOKUP_GROUPS };

struct hspz_cuda_block {
    struct hspz_cuda_buffer table, pos;
    struct hspz_cuda_buffer groups, present; /* a third or a 32nd of the table, where it pays */
    struct hspz_cuda_buffer packed;          /* the sequence, half a byte a base */
    struct hspz_cuda_index view;
};

struct hspz_ref {
    struct hspz_cuda_device *devices;
    unsigned device_count;
    struct hspz_index *index;
    size_t block_count;
    struct hspz_cuda_block blocks[]; /* device_count x block_count */
};

/* `holds`: [block][device], which; NULL: all. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_ref_load(struct hspz_cuda_device *devices,
                                                  unsigned device_count,
                                                  enum hspz_cuda_lookup lookup, const bool *holds,
                                                  struct hspz_index *index, struct hspz_ref **out,
                                                  struct hspz_error *err);
void hspz_cuda_ref_unload(struct hspz_ref **ref);

static inline const struct hspz_cuda_index *
hspz_cuda_ref_block(const struct hspz_ref *ref, const struct hspz_cuda_device *device, size_t block)
{
    return &ref->blocks[(size_t)(device - ref->devices) * ref->block_count + block].view;
}
