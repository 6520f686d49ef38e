/* Calls on host memory: arrays of keys, or k-mers of a sequence, in pieces through the device.
 *
 * Of a sequence, bytes are copied ahead (engine/cuda/filter_feed.h), become keys on the device
 * (engine/cuda/kernels/kmer.cu), and the answers of those go to their windows there. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"

#include <string.h>

/* Keys, or windows, of a host call that are on the device at a time; a multiple of 32. */
#define PIECE ((uint64_t)1 << 23)

/* What other calls leave in the caller's array stays there. */
static bool
has_found(const struct hspz_filter_call *call)
{
    return call->found != NULL && (call->op == HSPZ_FILTER_QUERY || call->op == HSPZ_FILTER_COUNT ||
                                   call->op == HSPZ_FILTER_INSERT_IF_ABSENT);
}

static bool
has_answers(const struct hspz_filter_call *call)
{
    return has_found(call) || call->yes != NULL;
}

/* Device memory for the arrays of a piece that the call has. */
static enum hspz_status
stage(struct hspz_filter *f, const struct hspz_filter_call *call, struct hspz_error *err)
{
    const uint64_t count = call->count < PIECE ? call->count : PIECE;
    const bool windows = call->sequence != NULL, yes = call->yes != NULL;
    const uint64_t yes_bytes = (count + 31) / 32 * sizeof(uint32_t);
    const struct {
        enum hspz_cuda_filter_staged at;
        bool wanted;
        uint64_t bytes;
    } needs[] = {
        {HSPZ_CUDA_FILTER_KEYS, true, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_VALUES, call->values != NULL, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_COUNTS, call->counts != NULL, count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_FOUND, has_found(call), count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_YES, yes, yes_bytes},
        {HSPZ_CUDA_FILTER_RESULT, true, sizeof(struct hspz_cuda_filter_result)},
        {HSPZ_CUDA_FILTER_STARTS, windows, (hspz_cuda_kmer_tiles(count) + 1) * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_FROM, windows && has_answers(call), count * sizeof(uint32_t)},
        {HSPZ_CUDA_FILTER_WINDOWS_FOUND, windows && has_found(call), count * sizeof(uint64_t)},
        {HSPZ_CUDA_FILTER_WINDOWS_YES, windows && yes, yes_bytes},
    };
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]) && status == HSPZ_OK; i++) {
        if (needs[i].wanted) {
            status =
                hspz_cuda_buffer_reserve(f->device, &f->staging[needs[i].at], needs[i].bytes, err);
        }
    }
    return status;
}

static cudaError_t
upload(struct hspz_filter *f, enum hspz_cuda_filter_staged to, const uint64_t *from, uint64_t count)
{
    return from == NULL ? cudaSuccess
                        : cudaMemcpyAsync(f->staging[to].data, from, count * sizeof(*from),
                                          cudaMemcpyHostToDevice, f->stream);
}

static cudaError_t
download(struct hspz_filter *f, enum hspz_cuda_filter_staged from, void *to, uint64_t bytes)
{
    return cudaMemcpyAsync(to, f->staging[from].data, bytes, cudaMemcpyDeviceToHost, f->stream);
}

static enum hspz_status
upload_keys(struct hspz_filter *f, const struct hspz_filter_call *call, uint64_t begin,
            uint64_t count, struct hspz_error *err)
{
    cudaError_t error = upload(f, HSPZ_CUDA_FILTER_KEYS, call->keys + begin, count);
    if (error == cudaSuccess && call->values != NULL) {
        error = upload(f, HSPZ_CUDA_FILTER_VALUES, call->values + begin, count);
    }
    if (error == cudaSuccess && call->counts != NULL) {
        error = upload(f, HSPZ_CUDA_FILTER_COUNTS, call->counts + begin, count);
    }
    return hspz_cuda_check(error, f->device->label, "uploading keys", err);
}

/* The keys of the feed's next piece; how many. */
static enum hspz_status
make_keys(struct hspz_filter *f, const struct hspz_filter_call *call, uint64_t *count,
          struct hspz_error *err)
{
    struct hspz_cuda_kmers kmers;
    uint64_t *const starts = f->staging[HSPZ_CUDA_FILTER_STARTS].data;
    const struct hspz_cuda_kmer_keys out = {
        .keys = f->staging[HSPZ_CUDA_FILTER_KEYS].data,
        .starts = starts,
        .from = has_answers(call) ? f->staging[HSPZ_CUDA_FILTER_FROM].data : NULL};
    enum hspz_status status = hspz_cuda_feed_take(f, &kmers, err);
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = hspz_cuda_launch_kmer_starts(&kmers, starts, f->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_kmer_keys(&kmers, &out, f->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(count, starts + hspz_cuda_kmer_tiles(kmers.windows), sizeof(*count),
                                cudaMemcpyDeviceToHost, f->stream);
    }
    status = hspz_cuda_check(error, f->device->label, "cutting a sequence into k-mers", err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_feed_next(f, err);
    }
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "cutting a sequence into k-mers", err)
                             : status;
}

/* Of `keys` keys to `count` windows. */
static cudaError_t
spread(struct hspz_filter *f, const struct hspz_filter_call *call, uint64_t keys, uint64_t count)
{
    const struct hspz_cuda_buffer *staged = f->staging;
    const bool yes = call->yes != NULL, found = has_found(call);
    const struct hspz_cuda_kmer_answers answers = {
        .from = staged[HSPZ_CUDA_FILTER_FROM].data,
        .count = keys,
        .yes = yes ? staged[HSPZ_CUDA_FILTER_YES].data : NULL,
        .found = found ? staged[HSPZ_CUDA_FILTER_FOUND].data : NULL,
        .windows_yes = staged[HSPZ_CUDA_FILTER_WINDOWS_YES].data,
        .windows_found = staged[HSPZ_CUDA_FILTER_WINDOWS_FOUND].data};
    cudaError_t error = cudaSuccess;
    if (yes) {
        error = cudaMemsetAsync(answers.windows_yes, 0, (count + 31) / 32 * sizeof(uint32_t),
                                f->stream);
    }
    if (found && error == cudaSuccess) {
        error = cudaMemsetAsync(answers.windows_found, 0, count * sizeof(uint64_t), f->stream);
    }
    if ((yes || found) && error == cudaSuccess) {
        error = hspz_cuda_launch_kmer_answers(&answers, f->stream);
    }
    return error;
}

/* `parts`: f is the first of them; NULL: it is the whole filter. So in what follows. */
static enum hspz_status
run_piece(struct hspz_filter *f, struct hspz_cuda_parts *parts, const struct hspz_filter_call *call,
          uint64_t begin, uint64_t count, struct hspz_error *err)
{
    const bool windows = call->sequence != NULL;
    uint64_t keys = count;
    enum hspz_status status =
        windows ? make_keys(f, call, &keys, err) : upload_keys(f, call, begin, count, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_buffer *staged = f->staging;
    const struct hspz_cuda_filter_call on_device = {
        .op = call->op,
        .keys = staged[HSPZ_CUDA_FILTER_KEYS].data,
        .count = keys,
        .values = call->values != NULL ? staged[HSPZ_CUDA_FILTER_VALUES].data : NULL,
        .counts = call->counts != NULL ? staged[HSPZ_CUDA_FILTER_COUNTS].data : NULL,
        .yes = call->yes != NULL ? staged[HSPZ_CUDA_FILTER_YES].data : NULL,
        .found = has_found(call) ? staged[HSPZ_CUDA_FILTER_FOUND].data : NULL,
        .result = staged[HSPZ_CUDA_FILTER_RESULT].data,
    };
    if (keys > 0) {
        status = parts != NULL ? hspz_cuda_filter_run_of(parts, &on_device, f->stream, err)
                               : f->kind->run(f, &on_device, f->stream, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = windows ? spread(f, call, keys, count) : cudaSuccess;
    if (call->yes != NULL && error == cudaSuccess) {
        error = download(f, windows ? HSPZ_CUDA_FILTER_WINDOWS_YES : HSPZ_CUDA_FILTER_YES,
                         call->yes + begin / 8, (count + 7) / 8);
    }
    if (has_found(call) && error == cudaSuccess) {
        error = download(f, windows ? HSPZ_CUDA_FILTER_WINDOWS_FOUND : HSPZ_CUDA_FILTER_FOUND,
                         call->found + begin, count * sizeof(uint64_t));
    }
    return hspz_cuda_check(error, f->device->label, "downloading answers", err);
}

static enum hspz_status
get_result(struct hspz_filter *f, struct hspz_cuda_filter_result *out, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_cuda_check(download(f, HSPZ_CUDA_FILTER_RESULT, out, sizeof(*out)), f->device->label,
                        "downloading a result", err);
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "working on a filter", err) : status;
}

/* The windows or keys from `begin` on; their answers are added to *result. */
static enum hspz_status
run_pieces(struct hspz_filter *f, struct hspz_cuda_parts *parts,
           const struct hspz_filter_call *call, uint64_t begin,
           struct hspz_cuda_filter_result *result, struct hspz_error *err)
{
    bool closed = result->refused > 0; /* nothing more goes in */
    enum hspz_status status = HSPZ_OK;
    if (call->sequence != NULL && begin < call->count) {
        status = hspz_cuda_feed_start(f, call, begin, call->count, PIECE, PIECE, err);
    }
    for (uint64_t at = begin; at < call->count && status == HSPZ_OK && !closed; at += PIECE) {
        const uint64_t left = call->count - at;
        status = run_piece(f, parts, call, at, left < PIECE ? left : PIECE, err);
        if (status == HSPZ_OK && f->kind->in_order && parts == NULL) {
            status = get_result(f, result, err);
            closed = result->refused > 0;
        }
    }
    return status == HSPZ_OK ? get_result(f, result, err) : status;
}

static enum hspz_status
run_all(struct hspz_filter *f, struct hspz_cuda_parts *parts, struct hspz_filter_call *call,
        struct hspz_error *err)
{
    struct hspz_cuda_filter_result result = {0};
    uint64_t begin = 0, inserted = 0;
    enum hspz_status status = stage(f, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_cuda_check(
        cudaMemsetAsync(f->staging[HSPZ_CUDA_FILTER_RESULT].data, 0, sizeof(result), f->stream),
        f->device->label, "clearing a result", err);
    if (status == HSPZ_OK && parts == NULL && f->kind->insert_sequence != NULL &&
        call->sequence != NULL && call->op == HSPZ_FILTER_INSERT && !has_answers(call)) {
        status = f->kind->insert_sequence(f, call, &begin, &inserted, err);
    }
    if (status == HSPZ_OK) {
        status = run_pieces(f, parts, call, begin, &result, err);
    }
    /* Whatever happened, the caller's arrays are no longer in use. */
    const enum hspz_status waited =
        status == HSPZ_OK ? HSPZ_OK : hspz_cuda_filter_wait(f, "working on a filter", NULL);
    const enum hspz_status stopped =
        call->sequence == NULL ? HSPZ_OK : hspz_cuda_feed_stop(f, status == HSPZ_OK ? err : NULL);
    if (status == HSPZ_OK && waited == HSPZ_OK && stopped == HSPZ_OK) {
        call->yes_count = inserted + result.yes;
        call->full = result.refused > 0;
    }
    return status != HSPZ_OK ? status : waited != HSPZ_OK ? waited : stopped;
}

static enum hspz_status
run_host(struct hspz_filter *f, struct hspz_cuda_parts *parts, struct hspz_filter_call *call,
         struct hspz_error *err)
{
    if ((f->kind->ops >> call->op & 1) == 0) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    enum hspz_status status = hspz_filter_check_values(&f->plan, call, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_filter_call_begin(call);
    if (call->sequence != NULL && call->found != NULL && call->count > 0) {
        memset(call->found, 0, call->count * sizeof(*call->found));
    }
    status = hspz_cuda_device_use(f->device, err);
    if (status != HSPZ_OK || call->count == 0) {
        return status;
    }
    pthread_mutex_lock(&f->mutex);
    status = run_all(f, parts, call, err);
    pthread_mutex_unlock(&f->mutex);
    return status;
}

enum hspz_status
hspz_cuda_filter_run_host(struct hspz_filter *f, struct hspz_filter_call *call,
                          struct hspz_error *err)
{
    return run_host(f, NULL, call, err);
}

enum hspz_status
hspz_cuda_filter_run_parts(struct hspz_filter *const *parts, unsigned count,
                           struct hspz_filter_call *call, struct hspz_error *err)
{
    struct hspz_cuda_parts of = {.parts = parts, .count = count};
    return run_host(parts[0], &of, call, err);
}
