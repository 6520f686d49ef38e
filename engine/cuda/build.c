#include "engine/cuda/build.h"

#include "engine/cuda/build_block.h"

struct progress {
    hspz_progress_fn fn;
    void *user;
    uint64_t before, total; /* bases, twice each */
};

static bool
on_watch(void *user, uint64_t done)
{
    const struct progress *progress = user;
    return progress->fn == NULL ||
           progress->fn(progress->user, progress->before + done, progress->total);
}

static struct hspz_cuda_device *
roomiest(struct hspz_cuda_device *devices, unsigned device_count)
{
    struct hspz_cuda_device *best = NULL;
    uint64_t most = 0;
    for (unsigned d = 0; d < device_count; d++) {
        pthread_mutex_lock(&devices[d].mutex);
        const uint64_t used = devices[d].used_bytes, budget = devices[d].budget_bytes;
        pthread_mutex_unlock(&devices[d].mutex);
        const uint64_t room = used < budget ? budget - used : 0;
        if (best == NULL || room > most) {
            best = &devices[d];
            most = room;
        }
    }
    return best;
}

static enum hspz_status
download(const struct hspz_cuda_build_block *b, struct hspz_index_part *part,
         struct hspz_error *err)
{
    part->pos_count = (uint32_t)b->position_count;
    part->table = hspz_index_alloc(hspz_shape_words(&b->params->shape) * sizeof(uint32_t));
    part->pos = hspz_index_alloc(b->position_count * sizeof(uint32_t));
    if (part->table == NULL || part->pos == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    return hspz_cuda_build_block_download(b, part->table, part->pos, err);
}

static enum hspz_status
build_part(struct hspz_cuda_device *device, const struct hspz_index_params *params,
           struct progress *progress, struct hspz_index_part *part, struct hspz_error *err)
{
    struct hspz_cuda_build_block block;
    const struct hspz_cuda_build_watch watch = {on_watch, progress};
    enum hspz_status status =
        hspz_cuda_build_block_init(&block, device, params, part->bases, part->bases_len, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_cuda_build_block_run(&block, &watch, err);
    if (status == HSPZ_OK) {
        status = download(&block, part, err);
    }
    hspz_cuda_build_block_fini(&block);
    progress->before += 2 * (uint64_t)part->bases_len;
    return status;
}

enum hspz_status
hspz_cuda_build(struct hspz_cuda_device *devices, unsigned device_count,
                struct hspz_sequences **seqs, const struct hspz_index_params *params,
                uint64_t budget_bytes, hspz_progress_fn progress, void *user,
                struct hspz_index **out, struct hspz_error *err)
{
    enum hspz_status status = hspz_index_check_build(*seqs, params, 1, budget_bytes, err);
    struct hspz_cuda_device *device = roomiest(devices, device_count);
    if (status == HSPZ_OK) {
        status = hspz_cuda_device_use(device, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const size_t part_count = hspz_sequences_block_count(*seqs);
    struct hspz_index *index = hspz_index_create(params, part_count, HSPZ_VERSION);
    if (index == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    struct progress all = {.fn = progress, .user = user};
    for (size_t p = 0; p < part_count; p++) {
        all.total += 2 * (uint64_t)hspz_sequences_block(*seqs, p).len;
    }
    for (size_t p = 0; p < part_count && status == HSPZ_OK; p++) {
        const struct hspz_block block = hspz_sequences_block(*seqs, p);
        index->parts[p].bases = block.bases;
        index->parts[p].bases_len = block.len;
        status = build_part(device, params, &all, &index->parts[p], err);
    }
    if (status == HSPZ_OK) {
        hspz_index_adopt(index, seqs);
        hspz_index_hash(index);
        hspz_index_seal(index);
        *out = index;
        index = NULL;
    }
    hspz_index_release(&index);
    return status;
}
