#include "engine/cuda/scratch.h"

#include "engine/cuda/cuda_status.h"

#include <stdlib.h>

#define EVENTS 4u

static void
destroy_locked(struct hspz_cuda_device *device, struct hspz_cuda_scratch *scratch)
{
    struct hspz_cuda_buffer *const on_device[] = {
        &scratch->bases,        &scratch->windows,    &scratch->window_counts, &scratch->sums,
        &scratch->begins,       &scratch->blocks,     &scratch->ends,          &scratch->sources,
        &scratch->starts,       &scratch->anchors[0], &scratch->anchors[1],    &scratch->staging,
        &scratch->query[0],     &scratch->query[1],   &scratch->left,          &scratch->hsps[0],
        &scratch->hsps[1],      &scratch->hsps_temp,  &scratch->counters,      &scratch->run_of,
        &scratch->runs,         &scratch->sums_temp,  &scratch->masked,        &scratch->mask_keys,
        &scratch->mask_answers,
    };
    (void)cudaEventSynchronize(scratch->submitted);
    for (size_t i = 0; i < sizeof(on_device) / sizeof(on_device[0]); i++) {
        hspz_cuda_buffer_free_locked(device, on_device[i]);
    }
    hspz_cuda_pinned_free(&scratch->host_blocks);
    hspz_cuda_pinned_free(&scratch->host_bases);
    hspz_cuda_pinned_free(&scratch->host_masked);
    hspz_cuda_pinned_free(&scratch->host_sums);
    hspz_cuda_pinned_free(&scratch->host_hsps);
    hspz_cuda_pinned_free(&scratch->host_counters);
    cudaEvent_t const events[] = {scratch->submitted, scratch->expanded[0], scratch->expanded[1],
                                  scratch->extended};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i] != NULL) {
            (void)cudaEventDestroy(events[i]);
        }
    }
    free(scratch);
}

static enum hspz_status
create(const struct hspz_cuda_device *device, struct hspz_cuda_scratch **out,
       struct hspz_error *err)
{
    struct hspz_cuda_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a batch");
    }
    cudaEvent_t *const events[] = {&scratch->submitted, &scratch->expanded[0],
                                   &scratch->expanded[1], &scratch->extended};
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < EVENTS && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(events[i], cudaEventDisableTiming);
    }
    if (error != cudaSuccess) {
        for (size_t i = 0; i < EVENTS && *events[i] != NULL; i++) {
            (void)cudaEventDestroy(*events[i]);
        }
        free(scratch);
        return hspz_cuda_check(error, device->label, "creating events", err);
    }
    *out = scratch;
    return HSPZ_OK;
}

/* Takes an idle set, or makes one. */
static enum hspz_status
obtain_locked(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder,
              struct hspz_error *err)
{
    struct hspz_cuda_scratch *scratch = device->scratch;
    while (scratch != NULL && scratch->holder != NULL) {
        scratch = scratch->next;
    }
    if (scratch == NULL) {
        const enum hspz_status status = create(device, &scratch, err);
        if (status != HSPZ_OK) {
            return status;
        }
        scratch->next = device->scratch;
        device->scratch = scratch;
    }
    scratch->holder = holder;
    scratch->query_packed[0] = scratch->query_packed[1] = false;
    *holder = scratch;
    return HSPZ_OK;
}

enum hspz_status
hspz_cuda_scratch_hold(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder,
                       cudaStream_t stream, bool *fresh, struct hspz_error *err)
{
    pthread_mutex_lock(&device->mutex);
    *fresh = *holder == NULL;
    enum hspz_status status = *holder != NULL ? HSPZ_OK : obtain_locked(device, holder, err);
    if (status == HSPZ_OK) {
        (*holder)->running = true;
        (*holder)->used_at = ++device->clock;
    }
    pthread_mutex_unlock(&device->mutex);
    if (status == HSPZ_OK && (*holder)->stream != stream) {
        status = hspz_cuda_check(cudaStreamWaitEvent(stream, (*holder)->submitted, 0),
                                 device->label, "joining streams", err);
        (*holder)->stream = stream;
        if (status != HSPZ_OK) {
            hspz_cuda_scratch_drop(device, *holder);
        }
    }
    return status;
}

void
hspz_cuda_scratch_drop(struct hspz_cuda_device *device, struct hspz_cuda_scratch *scratch)
{
    /* A failure here is a lost device: the next call on it says so. */
    (void)cudaEventRecord(scratch->submitted, scratch->stream);
    pthread_mutex_lock(&device->mutex);
    scratch->running = false;
    pthread_mutex_unlock(&device->mutex);
}

void
hspz_cuda_scratch_release(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder)
{
    pthread_mutex_lock(&device->mutex);
    if (*holder != NULL) {
        HSPZ_REQUIRE(!(*holder)->running);
        (*holder)->holder = NULL;
        *holder = NULL;
    }
    pthread_mutex_unlock(&device->mutex);
}

/* Takes *at off the list and frees it. */
static void
discard_locked(struct hspz_cuda_device *device, struct hspz_cuda_scratch **at)
{
    struct hspz_cuda_scratch *scratch = *at;
    *at = scratch->next;
    if (scratch->holder != NULL) {
        *scratch->holder = NULL;
    }
    destroy_locked(device, scratch);
}

void
hspz_cuda_scratch_discard(struct hspz_cuda_device *device, struct hspz_cuda_scratch **holder)
{
    pthread_mutex_lock(&device->mutex);
    if (*holder != NULL) {
        HSPZ_REQUIRE(!(*holder)->running);
        struct hspz_cuda_scratch **at = &device->scratch;
        while (*at != *holder) {
            at = &(*at)->next;
        }
        discard_locked(device, at);
    }
    pthread_mutex_unlock(&device->mutex);
}

bool
hspz_cuda_scratch_reclaim_locked(struct hspz_cuda_device *device)
{
    struct hspz_cuda_scratch **victim = NULL;
    for (struct hspz_cuda_scratch **at = &device->scratch; *at != NULL; at = &(*at)->next) {
        if ((*at)->running) {
            continue;
        }
        if ((*at)->holder == NULL) {
            victim = at;
            break;
        }
        if (victim == NULL || (*at)->used_at < (*victim)->used_at) {
            victim = at;
        }
    }
    if (victim == NULL) {
        return false;
    }
    discard_locked(device, victim);
    return true;
}

void
hspz_cuda_scratch_destroy_all(struct hspz_cuda_device *device)
{
    pthread_mutex_lock(&device->mutex);
    while (device->scratch != NULL) {
        HSPZ_REQUIRE(device->scratch->holder == NULL);
        struct hspz_cuda_scratch *scratch = device->scratch;
        device->scratch = scratch->next;
        destroy_locked(device, scratch);
    }
    pthread_mutex_unlock(&device->mutex);
}
