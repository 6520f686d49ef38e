#include "engine/cuda/filter_feed.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"

static enum hspz_status
check(const struct hspz_filter *f, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, f->device->label, "uploading a sequence", err);
}

/* What is missing of stream and events. */
static cudaError_t
make(struct hspz_cuda_feed *feed)
{
    cudaError_t error = cudaSuccess;
    if (feed->stream == NULL) {
        error = cudaStreamCreateWithFlags(&feed->stream, cudaStreamNonBlocking);
    }
    for (unsigned i = 0; i < HSPZ_CUDA_FEED_RING && error == cudaSuccess; i++) {
        if (feed->copied[i] == NULL) {
            error = cudaEventCreateWithFlags(&feed->copied[i], cudaEventDisableTiming);
        }
        if (error == cudaSuccess && feed->used[i] == NULL) {
            error = cudaEventCreateWithFlags(&feed->used[i], cudaEventDisableTiming);
        }
    }
    return error;
}

static uint64_t
next_windows(const struct hspz_cuda_feed *feed)
{
    const uint64_t left = feed->end - feed->at;
    uint64_t windows = left < feed->piece ? left : feed->piece;
    if (windows > left / 2 && windows > feed->least) {
        windows = left / 2 < feed->least ? feed->least : left / 2;
    }
    return windows;
}

/* The next piece, if there is one. */
static cudaError_t
send(struct hspz_cuda_feed *feed)
{
    const struct hspz_filter_call *call = feed->call;
    const unsigned place = feed->sent % HSPZ_CUDA_FEED_RING;
    const uint64_t at = feed->at;
    if (at >= feed->end) {
        return cudaSuccess;
    }
    struct hspz_cuda_kmers *const kmers = &feed->kmers[place];
    const uint64_t left = call->sequence_len - at;
    kmers->bases = feed->memory[place].data;
    kmers->windows = next_windows(feed);
    kmers->len = left < kmers->windows + kmers->k - 1 ? left : kmers->windows + kmers->k - 1;
    cudaError_t error = cudaStreamWaitEvent(feed->stream, feed->used[place], 0);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(feed->memory[place].data, call->sequence + at, kmers->len,
                                cudaMemcpyHostToDevice, feed->stream);
    }
    if (error == cudaSuccess) {
        error = cudaEventRecord(feed->copied[place], feed->stream);
    }
    feed->at += kmers->windows;
    feed->sent++;
    return error;
}

enum hspz_status
hspz_cuda_feed_start(struct hspz_filter *f, const struct hspz_filter_call *call, uint64_t begin,
                     uint64_t end, uint64_t piece, uint64_t least, struct hspz_error *err)
{
    struct hspz_cuda_feed *feed = &f->feed;
    const uint64_t windows = end - begin < piece ? end - begin : piece;
    feed->call = call;
    feed->at = begin;
    feed->end = end;
    feed->piece = piece;
    feed->least = least > 0 ? least : 1;
    feed->sent = feed->taken = 0;
    const bool one = windows == end - begin && windows <= feed->least;
    enum hspz_status status = check(f, make(feed), err);
    for (unsigned i = 0; i < (one ? 1 : HSPZ_CUDA_FEED_RING) && status == HSPZ_OK; i++) {
        feed->kmers[i].k = f->plan.spec.k;
        feed->kmers[i].canonical = f->plan.spec.canonical;
        status =
            hspz_cuda_buffer_reserve(f->device, &feed->memory[i], windows + HSPZ_KMER_MOST, err);
    }
    for (unsigned i = 0; i < HSPZ_CUDA_FEED_RING && status == HSPZ_OK; i++) {
        status = check(f, send(feed), err);
    }
    return status;
}

bool
hspz_cuda_feed_has_more(const struct hspz_filter *f)
{
    return f->feed.taken < f->feed.sent;
}

enum hspz_status
hspz_cuda_feed_take(struct hspz_filter *f, struct hspz_cuda_kmers *out, struct hspz_error *err)
{
    struct hspz_cuda_feed *feed = &f->feed;
    const unsigned place = feed->taken % HSPZ_CUDA_FEED_RING;
    HSPZ_REQUIRE(feed->taken < feed->sent);
    *out = feed->kmers[place];
    return check(f, cudaStreamWaitEvent(f->stream, feed->copied[place], 0), err);
}

enum hspz_status
hspz_cuda_feed_next(struct hspz_filter *f, struct hspz_error *err)
{
    struct hspz_cuda_feed *feed = &f->feed;
    cudaError_t error = cudaEventRecord(feed->used[feed->taken % HSPZ_CUDA_FEED_RING], f->stream);
    feed->taken++;
    if (error == cudaSuccess) {
        error = send(feed);
    }
    return check(f, error, err);
}

enum hspz_status
hspz_cuda_feed_stop(struct hspz_filter *f, struct hspz_error *err)
{
    return f->feed.stream == NULL ? HSPZ_OK : check(f, cudaStreamSynchronize(f->feed.stream), err);
}

void
hspz_cuda_feed_fini(struct hspz_filter *f)
{
    struct hspz_cuda_feed *feed = &f->feed;
    if (feed->stream != NULL) {
        (void)cudaStreamSynchronize(feed->stream);
        (void)cudaStreamDestroy(feed->stream);
    }
    for (unsigned i = 0; i < HSPZ_CUDA_FEED_RING; i++) {
        if (feed->copied[i] != NULL) {
            (void)cudaEventDestroy(feed->copied[i]);
        }
        if (feed->used[i] != NULL) {
            (void)cudaEventDestroy(feed->used[i]);
        }
        hspz_cuda_buffer_free(f->device, &feed->memory[i]);
    }
    *feed = (struct hspz_cuda_feed){0};
}
