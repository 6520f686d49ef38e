/* The slow part of the catalog: reading, building, making resident, freeing. Runs on libuv's pool,
 * and touches only the entry it was given. */
#include "daemon/catalog_entry.h"

#include "engine/sequence_file.h"
#include "engine/sequences.h"

static bool
on_progress(void *user, uint64_t done, uint64_t total)
{
    struct hspz_served *served = user;
    atomic_store(&served->total, total);
    if (atomic_exchange(&served->done, done) != done) {
        atomic_fetch_add(&served->catalog->progress, 1);
    }
    return !atomic_load(&served->catalog->stop);
}

static enum hspz_status
make_resident(struct hspz_served *served)
{
    const struct hspz_service *service = served->catalog->service;
    enum hspz_status status =
        hspz_placing_make(&served->placing, hspz_index_block_count(served->index), &served->err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = served->placing.holds == NULL
                 ? service->ops->load(service->engine, served->index, &served->ref, &served->err)
                 : service->ops->load_on(service->engine, served->placing.holds, served->index,
                                         &served->ref, &served->err);
    served->no_room = status == HSPZ_E_OUT_OF_MEMORY;
    return status;
}

static enum hspz_status
load(struct hspz_served *served)
{
    const enum hspz_status status =
        hspz_index_read(served->path, &served->want, served->budget, on_progress, served,
                        &served->index, &served->err);
    struct hspz_index_need need;
    if (status == HSPZ_E_TOO_LARGE && hspz_index_file_need(served->path, &need, NULL) == HSPZ_OK) {
        served->need = need.total_bytes;
    }
    return status == HSPZ_OK ? make_resident(served) : status;
}

/* On the engine's devices where it has some with room, else here. */
static enum hspz_status
make_index(struct hspz_served *served, struct hspz_sequences **seqs)
{
    const struct hspz_service *service = served->catalog->service;
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (service->ops->build != NULL) {
        status = service->ops->build(service->engine, seqs, &served->build_params, served->budget,
                                     on_progress, served, &served->index, &served->err);
    }
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        status =
            hspz_index_build(seqs, &served->build_params, (unsigned)service->config->threads,
                             served->budget, on_progress, served, &served->index, &served->err);
    }
    return status;
}

static enum hspz_status
build(struct hspz_served *served)
{
    struct hspz_sequences *seqs = NULL;
    enum hspz_status status = hspz_sequence_file_read(served->source, served->build_block_size,
                                                      on_progress, served, &seqs, &served->err);
    if (status == HSPZ_OK) {
        status = hspz_sequences_check_unique(seqs, served->source, &served->err);
    }
    if (status == HSPZ_OK) {
        status = make_index(served, &seqs);
    }
    if (status == HSPZ_OK) {
        status = hspz_index_write(served->index, served->path, &served->err);
    }
    hspz_sequences_destroy(&seqs);
    return status;
}

void
hspz_served_run(uv_work_t *work)
{
    struct hspz_served *served = work->data;
    const struct hspz_engine_ops *ops = served->catalog->service->ops;
    served->err = (struct hspz_error){0};
    served->no_room = false;
    served->need = 0;
    switch (served->op) {
    case HSPZ_OP_BUILD:
        served->result = build(served);
        break;
    case HSPZ_OP_LOAD:
        served->result = load(served);
        break;
    case HSPZ_OP_ADOPT:
        served->result = make_resident(served);
        break;
    case HSPZ_OP_UNLOAD:
        served->result = HSPZ_OK;
        break;
    }
    if (served->op == HSPZ_OP_UNLOAD || (served->result != HSPZ_OK && !served->no_room)) {
        ops->unload(&served->ref);
        hspz_index_release(&served->index);
    }
}
