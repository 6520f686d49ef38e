#include "engine/cuda/resident.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/pack.h"
#include "engine/index_p.h"

#include <stdlib.h>

/* Groups are kept when they fit a large card's cache better than the table does, and when fewer
 * than 1 / CUT of them have a bucket that a byte does not hold. */
#define GROUPED_WORDS (UINT64_C(1) << 26)
#define CUT 4u
/* Presence bits are, without groups, when fewer than 1 / SPARSE of the buckets hold anything. */
#define SPARSE 2u

static void
free_block(struct hspz_cuda_device *device, struct hspz_cuda_block *block)
{
    hspz_cuda_buffer_free(device, &block->table);
    hspz_cuda_buffer_free(device, &block->pos);
    hspz_cuda_buffer_free(device, &block->present);
    hspz_cuda_buffer_free(device, &block->groups);
    hspz_cuda_buffer_free(device, &block->packed);
}

/* What makes look-ups quicker: a kernel writes it from the table, and counts what argues against.
 */
struct derivation {
    struct hspz_cuda_buffer *out;
    uint64_t bytes, limit; /* kept when the count is below */
    const char *what;
    cudaError_t (*launch)(const struct hspz_cuda_block *block, unsigned long long *count);
};

static cudaError_t
launch_presence(const struct hspz_cuda_block *block, unsigned long long *full)
{
    return hspz_cuda_launch_presence(block->view.table, block->view.words, block->present.data,
                                     full, NULL);
}

static cudaError_t
launch_groups(const struct hspz_cuda_block *block, unsigned long long *cut)
{
    return hspz_cuda_launch_groups(block->view.table, block->view.words, block->groups.data, cut,
                                   NULL);
}

/* Leaves d->out empty when it is not kept, or when memory is short. */
static enum hspz_status
derive(struct hspz_cuda_device *device, const struct hspz_cuda_block *block,
       const struct derivation *d, struct hspz_error *err)
{
    struct hspz_cuda_buffer counter = {0};
    unsigned long long count = 0;
    enum hspz_status status = hspz_cuda_buffer_reserve(device, d->out, d->bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(device, &counter, sizeof(count), err);
    }
    if (status == HSPZ_OK) {
        cudaError_t error = cudaMemset(counter.data, 0, sizeof(count));
        if (error == cudaSuccess) {
            error = d->launch(block, counter.data);
        }
        if (error == cudaSuccess) {
            error = cudaMemcpy(&count, counter.data, sizeof(count), cudaMemcpyDeviceToHost);
        }
        status = hspz_cuda_check(error, device->label, d->what, err);
    }
    if (status != HSPZ_OK || count >= d->limit) {
        hspz_cuda_buffer_free(device, d->out);
    }
    hspz_cuda_buffer_free(device, &counter);
    return status == HSPZ_E_OUT_OF_MEMORY ? HSPZ_OK : status;
}

static enum hspz_status
derive_all(struct hspz_cuda_device *device, enum hspz_cuda_lookup lookup,
           struct hspz_cuda_block *block, struct hspz_error *err)
{
    const uint64_t words = block->view.words, groups = HSPZ_CUDA_GROUPS(words);
    const struct derivation grouping = {&block->groups, groups * sizeof(struct hspz_cuda_group),
                                        lookup == HSPZ_CUDA_LOOKUP_GROUPS ? UINT64_MAX
                                                                          : groups / CUT,
                                        "grouping buckets", launch_groups};
    const struct derivation presence = {&block->present, words / 8, words / SPARSE,
                                        "marking full buckets", launch_presence};
    enum hspz_status status = HSPZ_OK;
    if (lookup != HSPZ_CUDA_LOOKUP_WORDS && words <= GROUPED_WORDS) {
        status = derive(device, block, &grouping, err);
    }
    if (status == HSPZ_OK && block->groups.data == NULL) {
        status = derive(device, block, &presence, err);
    }
    block->view.groups = block->groups.data;
    block->view.present = block->present.data;
    return status;
}

/* The sequence, for extensions; left out when memory is short, or when there is none. */
static enum hspz_status
pack_block(struct hspz_cuda_device *device, const struct hspz_index_params *params,
           struct hspz_index_block from, struct hspz_cuda_block *block, struct hspz_error *err)
{
    struct hspz_cuda_buffer staging = {0};
    const struct hspz_cuda_pack what = {.bases = {from.bases, from.bases_len},
                                        .unmask = params->unmask};
    enum hspz_status status =
        from.bases == NULL ? HSPZ_E_OUT_OF_MEMORY
                           : hspz_cuda_pack(device, NULL, &what, &staging, &block->packed, err);
    if (status == HSPZ_OK) {
        status =
            hspz_cuda_check(cudaStreamSynchronize(NULL), device->label, "packing sequence", err);
    }
    hspz_cuda_buffer_free(device, &staging);
    if (status != HSPZ_OK) {
        hspz_cuda_buffer_free(device, &block->packed);
    }
    block->view.packed = block->packed.data;
    return status == HSPZ_E_OUT_OF_MEMORY ? HSPZ_OK : status;
}

static enum hspz_status
load_block(struct hspz_cuda_device *device, enum hspz_cuda_lookup lookup,
           const struct hspz_index_params *params, struct hspz_index_block from,
           struct hspz_cuda_block *block, struct hspz_error *err)
{
    const uint32_t words = hspz_shape_words(&params->shape);
    const size_t table_bytes = (size_t)words * sizeof(uint32_t);
    const size_t pos_bytes = (size_t)from.pos_count * sizeof(uint32_t);
    enum hspz_status status = hspz_cuda_buffer_reserve(device, &block->table, table_bytes, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(device, &block->pos, pos_bytes, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error =
        cudaMemcpy(block->table.data, from.table, table_bytes, cudaMemcpyHostToDevice);
    if (error == cudaSuccess && pos_bytes > 0) {
        error = cudaMemcpy(block->pos.data, from.pos, pos_bytes, cudaMemcpyHostToDevice);
    }
    block->view = (struct hspz_cuda_index){
        .table = block->table.data,
        .pos = block->pos.data,
        .words = words,
        .span = params->shape.span,
        .first = (uint32_t)hspz_index_windows(params, from.bases_len).first,
        .step = params->step,
    };
    status = hspz_cuda_check(error, device->label, "uploading an index", err);
    if (status == HSPZ_OK) {
        status = derive_all(device, lookup, block, err);
    }
    return status == HSPZ_OK ? pack_block(device, params, from, block, err) : status;
}

enum hspz_status
hspz_cuda_ref_load(struct hspz_cuda_device *devices, unsigned device_count,
                   enum hspz_cuda_lookup lookup, const bool *holds, struct hspz_index *index,
                   struct hspz_ref **out, struct hspz_error *err)
{
    const size_t blocks = hspz_index_block_count(index);
    struct hspz_ref *ref = calloc(1, sizeof(*ref) + device_count * blocks * sizeof(ref->blocks[0]));
    if (ref == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    ref->devices = devices;
    ref->device_count = device_count;
    ref->block_count = blocks;
    ref->index = hspz_index_acquire(index);
    const struct hspz_index_params *params = hspz_index_get_params(index);
    enum hspz_status status = HSPZ_OK;
    for (unsigned d = 0; d < device_count && status == HSPZ_OK; d++) {
        for (size_t b = 0; b < blocks && status == HSPZ_OK; b++) {
            if (holds != NULL && !holds[b * device_count + d]) {
                continue;
            }
            status = hspz_cuda_device_use(&devices[d], err);
            if (status == HSPZ_OK) {
                status = load_block(&devices[d], lookup, params, hspz_index_get_block(index, b),
                                    &ref->blocks[d * blocks + b], err);
            }
        }
    }
    if (status != HSPZ_OK) {
        hspz_cuda_ref_unload(&ref);
        return status;
    }
    *out = ref;
    return HSPZ_OK;
}

void
hspz_cuda_ref_unload(struct hspz_ref **ref)
{
    struct hspz_ref *r = *ref;
    if (r == NULL) {
        return;
    }
    for (unsigned d = 0; d < r->device_count; d++) {
        for (size_t b = 0; b < r->block_count; b++) {
            struct hspz_cuda_block *const block = &r->blocks[d * r->block_count + b];
            if (block->table.data != NULL) { /* it was loaded, or some of it */
                (void)cudaSetDevice(r->devices[d].ordinal);
                free_block(&r->devices[d], block);
            }
        }
    }
    hspz_index_release(&r->index);
    free(r);
    *ref = NULL;
}
