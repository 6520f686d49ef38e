/* Calls on filters in parts (engine/filter_split.c), whose parts may be on different devices.
 *
 * Keys are hashed and put in the order of their parts on the device of the first one. The devices
 * then work side by side: each takes the keys of its parts and gives back what it answers, under a
 * host thread of its own, since calls of some kinds wait. Answers are put in order at the end. */
#include "engine/filter_split.h"
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_gqf.h"
#include "engine/cuda/filter_sort.h"

#define ALIGN 256u
#define PIECE_MOST (UINT64_C(1) << 28) /* keys at a time */
#define PIECE_LEAST (UINT64_C(1) << 12)

/* Of a piece of a call, in device memory of the first part. */
struct work {
    const struct hspz_cuda_parts *of;
    struct hspz_filter *first;
    struct hspz_cuda_filter_call call;
    cudaStream_t stream;
    void *keys[2];
    uint32_t *from[2];
    uint64_t *values, *counts, *found;
    uint32_t *yes;
    uint64_t *bounds;
    struct hspz_cuda_filter_result *results; /* a part */
    void *temp;
    size_t temp_bytes;
    unsigned now; /* which of keys and from */
    /* On the host. */
    uint64_t bound[HSPZ_FILTER_PARTS_MAX + 1];
    struct hspz_cuda_filter_result result[HSPZ_FILTER_PARTS_MAX];
};

static enum hspz_status
check(const struct hspz_filter *f, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, f->device->label, "working on a filter in parts", err);
}

/* ---- memory ---- */

static void *
put(uintptr_t memory, uint64_t *at, bool wanted, uint64_t bytes)
{
    const uintptr_t here = memory + *at;
    if (wanted) {
        *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return wanted ? (void *)here : NULL;
}

static uint64_t
lay_out(struct work *w, uint64_t count, uintptr_t memory)
{
    const struct hspz_cuda_filter_call *call = &w->call;
    const bool answers = call->yes != NULL || call->found != NULL;
    const bool pairs = answers || call->values != NULL || call->counts != NULL;
    const uint64_t words = count / 32 + w->of->count, eight = count * sizeof(uint64_t);
    uint64_t at = 0;
    for (int i = 0; i < 2; i++) {
        w->keys[i] = put(memory, &at, true, eight);
        w->from[i] = put(memory, &at, pairs, count * sizeof(uint32_t));
    }
    w->values = put(memory, &at, call->values != NULL, eight);
    w->counts = put(memory, &at, call->counts != NULL, eight);
    w->found = put(memory, &at, call->found != NULL, eight);
    w->yes = put(memory, &at, call->yes != NULL, words * sizeof(uint32_t));
    w->bounds = put(memory, &at, true, sizeof(w->bound));
    w->results = put(memory, &at, true, sizeof(w->result));
    w->temp = put(memory, &at, true, w->temp_bytes);
    return at;
}

/* Room for `*count` keys of the call, or for fewer. */
static enum hspz_status
reserve(struct work *w, uint64_t *count, struct hspz_error *err)
{
    struct hspz_filter *f = w->first;
    enum hspz_status status;
    for (;;) {
        status = check(f, hspz_cuda_quotient_temp_bytes(*count, 64, false, 1, &w->temp_bytes), err);
        if (status == HSPZ_OK) {
            const uint64_t bytes = lay_out(w, *count, 0);
            status = hspz_cuda_buffer_reserve(f->device, &f->split, bytes, err);
        }
        if (status == HSPZ_OK) {
            (void)lay_out(w, *count, (uintptr_t)f->split.data);
        }
        if (status != HSPZ_E_OUT_OF_MEMORY || *count <= PIECE_LEAST) {
            break;
        }
        *count /= 2;
    }
    *count = *count > 32 ? *count / 32 * 32 : *count; /* whole words of answers */
    return status;
}

/* Copies between devices need not go through the host then; where that cannot be, they do. */
static void
befriend(const struct hspz_cuda_parts *of)
{
    for (unsigned a = 0; a < of->count; a++) {
        for (unsigned b = 0; b < of->count; b++) {
            const int one = of->parts[a]->device->ordinal, other = of->parts[b]->device->ordinal;
            int can = 0;
            if (one != other && (a == 0 || b == 0) &&
                cudaDeviceCanAccessPeer(&can, one, other) == cudaSuccess && can != 0 &&
                cudaSetDevice(one) == cudaSuccess) {
                (void)cudaDeviceEnablePeerAccess(other, 0);
                (void)cudaGetLastError(); /* that it is so already */
            }
        }
    }
}

/* ---- keys to parts ---- */

static cudaError_t
sort(struct work *w)
{
    const struct hspz_cuda_filter_call *call = &w->call;
    const unsigned bits = hspz_filter_split_of(0, w->of->count).bits;
    const struct hspz_cuda_quotient q = {.quotients = w->of->count,
                                         .salt = w->first->salt,
                                         .remainder_bits = 64 - bits,
                                         .fingerprint_bits = 64};
    cudaError_t error = hspz_cuda_launch_quotient_hash(&q, call->keys, NULL, call->count, false,
                                                       false, w->keys[0], w->from[0], w->stream);
    w->now = 0;
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sort(w->keys, w->from, &w->now, call->count, 64 - bits,
                                               64, false, w->temp, w->temp_bytes, w->stream);
    }
    const struct hspz_cuda_quotient_items items = {
        .op = HSPZ_FILTER_QUERY, .keys = w->keys[w->now], .count = call->count};
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_bounds(&q, &items, 1, w->bounds, w->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_split_keys(q.salt, w->of->count, w->keys[w->now], call->count,
                                            w->stream);
    }
    return error;
}

/* Waits, for what belongs to which part. */
static enum hspz_status
share_out(struct work *w, struct hspz_error *err)
{
    const struct hspz_cuda_filter_call *call = &w->call;
    cudaError_t error = sort(w);
    if (error == cudaSuccess && w->values != NULL) {
        error = hspz_cuda_launch_quotient_gather(call->values, w->from[w->now], call->count,
                                                 w->values, w->stream);
    }
    if (error == cudaSuccess && w->counts != NULL) {
        error = hspz_cuda_launch_quotient_gather(call->counts, w->from[w->now], call->count,
                                                 w->counts, w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(w->results, 0, sizeof(w->result), w->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(w->bound, w->bounds, (w->of->count + 1) * sizeof(w->bound[0]),
                                cudaMemcpyDeviceToHost, w->stream);
    }
    const cudaError_t waited = cudaStreamSynchronize(w->stream);
    return check(w->first, error != cudaSuccess ? error : waited, err);
}

/* ---- parts at work ---- */

static uint64_t
first_word(const struct work *w, unsigned p)
{
    return w->bound[p] / 32 + p;
}

/* A part's call on the memory of the first one's device. */
static struct hspz_cuda_filter_call
call_of(const struct work *w, unsigned p)
{
    const uint64_t first = w->bound[p];
    return (struct hspz_cuda_filter_call){
        .op = w->call.op,
        .keys = (const uint64_t *)w->keys[w->now] + first,
        .count = w->bound[p + 1] - first,
        .values = w->values != NULL ? w->values + first : NULL,
        .counts = w->counts != NULL ? w->counts + first : NULL,
        .yes = w->yes != NULL ? w->yes + first_word(w, p) : NULL,
        .found = w->found != NULL ? w->found + first : NULL,
        .result = &w->results[p],
        .way = w->call.way,
    };
}

/* Memory of the part's own device, filled from the first one's or to be copied back there. */
static enum hspz_status
move(const struct work *w, struct hspz_filter *f, enum hspz_cuda_filter_staged at, const void *here,
     uint64_t bytes, struct hspz_error *err)
{
    if (here == NULL) {
        return HSPZ_OK;
    }
    const enum hspz_status status =
        hspz_cuda_buffer_reserve(f->device, &f->staging[at], bytes, err);
    return status != HSPZ_OK
               ? status
               : check(f,
                       cudaMemcpyPeerAsync(f->staging[at].data, f->device->ordinal, here,
                                           w->first->device->ordinal, bytes, f->stream),
                       err);
}

static cudaError_t
move_back(const struct work *w, const struct hspz_filter *f, enum hspz_cuda_filter_staged at,
          void *here, uint64_t bytes)
{
    return here == NULL ? cudaSuccess
                        : cudaMemcpyPeerAsync(here, w->first->device->ordinal, f->staging[at].data,
                                              f->device->ordinal, bytes, f->stream);
}

static enum hspz_status
run_abroad(const struct work *w, struct hspz_filter *f, const struct hspz_cuda_filter_call *here,
           struct hspz_error *err)
{
    const uint64_t eight = here->count * sizeof(uint64_t);
    const uint64_t words = (here->count + 31) / 32 * sizeof(uint32_t);
    struct hspz_cuda_filter_call there = *here;
    const struct {
        enum hspz_cuda_filter_staged at;
        const void *here;
        uint64_t bytes;
    } moved[] = {
        {HSPZ_CUDA_FILTER_KEYS, here->keys, eight},
        {HSPZ_CUDA_FILTER_VALUES, here->values, eight},
        {HSPZ_CUDA_FILTER_COUNTS, here->counts, eight},
        {HSPZ_CUDA_FILTER_FOUND, here->found, eight},
        {HSPZ_CUDA_FILTER_YES, here->yes, words},
        {HSPZ_CUDA_FILTER_RESULT, here->result, sizeof(*here->result)},
    };
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]) && status == HSPZ_OK; i++) {
        status = move(w, f, moved[i].at, moved[i].here, moved[i].bytes, err);
    }
    there.keys = f->staging[HSPZ_CUDA_FILTER_KEYS].data;
    there.values = here->values != NULL ? f->staging[HSPZ_CUDA_FILTER_VALUES].data : NULL;
    there.counts = here->counts != NULL ? f->staging[HSPZ_CUDA_FILTER_COUNTS].data : NULL;
    there.found = here->found != NULL ? f->staging[HSPZ_CUDA_FILTER_FOUND].data : NULL;
    there.yes = here->yes != NULL ? f->staging[HSPZ_CUDA_FILTER_YES].data : NULL;
    there.result = f->staging[HSPZ_CUDA_FILTER_RESULT].data;
    if (status == HSPZ_OK) {
        status = f->kind->run(f, &there, f->stream, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = move_back(w, f, HSPZ_CUDA_FILTER_FOUND, here->found, eight);
    if (error == cudaSuccess) {
        error = move_back(w, f, HSPZ_CUDA_FILTER_YES, here->yes, words);
    }
    if (error == cudaSuccess) {
        error = move_back(w, f, HSPZ_CUDA_FILTER_RESULT, here->result, sizeof(*here->result));
    }
    return check(f, error, err);
}

/* A part that has refused a key takes none that come later. */
static enum hspz_status
refuse(struct work *w, unsigned p, struct hspz_error *err)
{
    struct hspz_filter *f = w->of->parts[p];
    const struct hspz_cuda_filter_call call = call_of(w, p);
    cudaError_t error = cudaSuccess;
    if (call.yes != NULL) {
        error = cudaMemsetAsync(call.yes, 0, (call.count + 31) / 32 * sizeof(*call.yes), f->stream);
    }
    if (call.found != NULL && error == cudaSuccess) {
        error = cudaMemsetAsync(call.found, 0, call.count * sizeof(*call.found), f->stream);
    }
    return check(f, error, err);
}

static enum hspz_status
run_part(struct work *w, unsigned p, struct hspz_error *err)
{
    struct hspz_filter *f = w->of->parts[p];
    const struct hspz_cuda_filter_call call = call_of(w, p);
    enum hspz_status status = hspz_cuda_device_use(f->device, err);
    if (status != HSPZ_OK || call.count == 0) {
        return status;
    }
    if (w->of->closed[p]) {
        status = refuse(w, p, err);
    } else if (f->device == w->first->device) {
        status = f->kind->run(f, &call, f->stream, err);
    } else {
        status = run_abroad(w, f, &call, err);
    }
    const enum hspz_status waited =
        hspz_cuda_filter_wait(f, "working on a filter in parts", status == HSPZ_OK ? err : NULL);
    return status != HSPZ_OK ? status : waited;
}

/* A device's turn: its parts, one after the other. */
struct turn {
    struct work *work;
    struct hspz_cuda_device *device;
    pthread_t thread;
    bool threaded;
    struct hspz_error err;
};

static void *
run_turn(void *arg)
{
    struct turn *turn = arg;
    const struct hspz_cuda_parts *of = turn->work->of;
    for (unsigned p = 0; p < of->count && turn->err.status == HSPZ_OK; p++) {
        if (of->parts[p]->device == turn->device) {
            turn->err.status = run_part(turn->work, p, &turn->err);
        }
    }
    return NULL;
}

static enum hspz_status
run_turns(struct work *w, struct hspz_error *err)
{
    struct turn turns[HSPZ_FILTER_PARTS_MAX] = {0};
    unsigned count = 0;
    for (unsigned p = 0; p < w->of->count; p++) {
        unsigned t = 0;
        while (t < count && turns[t].device != w->of->parts[p]->device) {
            t++;
        }
        if (t == count) {
            turns[count++] = (struct turn){.work = w, .device = w->of->parts[p]->device};
        }
    }
    for (unsigned t = 1; t < count; t++) {
        turns[t].threaded = pthread_create(&turns[t].thread, NULL, run_turn, &turns[t]) == 0;
    }
    for (unsigned t = 0; t < count; t++) {
        if (!turns[t].threaded) {
            (void)run_turn(&turns[t]);
        }
    }
    enum hspz_status status = HSPZ_OK;
    for (unsigned t = 0; t < count; t++) {
        if (turns[t].threaded) {
            (void)pthread_join(turns[t].thread, NULL);
        }
        if (status == HSPZ_OK && turns[t].err.status != HSPZ_OK) {
            status = turns[t].err.status;
            if (err != NULL) {
                *err = turns[t].err;
            }
        }
    }
    return status;
}

/* ---- answers ---- */

static cudaError_t
answer(const struct work *w)
{
    const struct hspz_cuda_filter_call *call = &w->call;
    struct hspz_cuda_split_answers answers = {.count = call->count,
                                              .parts = w->of->count,
                                              .from = w->from[w->now],
                                              .part_yes = w->yes,
                                              .part_found = w->found,
                                              .yes = call->yes,
                                              .found = call->found};
    for (unsigned p = 0; p < w->of->count; p++) {
        answers.first[p] = w->bound[p];
        answers.first_word[p] = first_word(w, p);
    }
    if (call->yes == NULL && call->found == NULL) {
        return cudaSuccess;
    }
    cudaError_t error = cudaSuccess;
    if (call->yes != NULL) {
        error =
            cudaMemsetAsync(call->yes, 0, (call->count + 31) / 32 * sizeof(*call->yes), w->stream);
    }
    return error == cudaSuccess ? hspz_cuda_launch_split_answers(&answers, w->stream) : error;
}

static enum hspz_status
settle(struct work *w, struct hspz_cuda_parts *parts, struct hspz_error *err)
{
    uint64_t yes = 0, refused = 0;
    cudaError_t error = cudaMemcpyAsync(w->result, w->results, sizeof(w->result),
                                        cudaMemcpyDeviceToHost, w->stream);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(w->stream);
    }
    for (unsigned p = 0; p < parts->count && error == cudaSuccess; p++) {
        yes += w->result[p].yes;
        refused += parts->closed[p] ? w->bound[p + 1] - w->bound[p] : w->result[p].refused;
        parts->closed[p] =
            parts->closed[p] || (w->first->kind->in_order && w->result[p].refused > 0);
    }
    if (error == cudaSuccess) {
        error = answer(w);
    }
    if (error == cudaSuccess && w->call.result != NULL) {
        error = hspz_cuda_launch_quotient_result(w->call.result, yes, refused, w->stream);
    }
    return check(w->first, error, err);
}

static enum hspz_status
run_piece(struct work *w, struct hspz_cuda_parts *parts, struct hspz_error *err)
{
    enum hspz_status status = share_out(w, err);
    if (status == HSPZ_OK) {
        status = run_turns(w, err);
    }
    const enum hspz_status used =
        hspz_cuda_device_use(w->first->device, status == HSPZ_OK ? err : NULL);
    status = status != HSPZ_OK ? status : used;
    return status == HSPZ_OK ? settle(w, parts, err) : status;
}

enum hspz_status
hspz_cuda_filter_run_of(struct hspz_cuda_parts *parts, const struct hspz_cuda_filter_call *call,
                        cudaStream_t stream, struct hspz_error *err)
{
    struct work w = {.of = parts, .first = parts->parts[0], .call = *call, .stream = stream};
    uint64_t piece = call->count < PIECE_MOST ? call->count : PIECE_MOST;
    if (w.first->split.data == NULL) {
        befriend(parts);
    }
    enum hspz_status status = hspz_cuda_device_use(w.first->device, err);
    if (status == HSPZ_OK) {
        status = reserve(&w, &piece, err);
    }
    for (uint64_t at = 0; at < call->count && status == HSPZ_OK; at += piece) {
        const uint64_t left = call->count - at;
        w.call = hspz_cuda_filter_cut(call, at, left < piece ? left : piece);
        w.call.counts = call->counts != NULL ? call->counts + at : NULL;
        status = run_piece(&w, parts, err);
    }
    return status;
}

enum hspz_status
hspz_cuda_filter_run_split(struct hspz_filter *const *parts, unsigned count,
                           const struct hspz_cuda_filter_call *call, cudaStream_t stream,
                           struct hspz_error *err)
{
    struct hspz_cuda_parts of = {.parts = parts, .count = count};
    if ((parts[0]->kind->ops >> call->op & 1) == 0) {
        return hspz_filter_cannot(&parts[0]->plan, call->op, err);
    }
    return call->count == 0 ? HSPZ_OK : hspz_cuda_filter_run_of(&of, call, stream, err);
}
