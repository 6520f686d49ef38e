/* What an exact counter has of a device's memory: made, and made larger. A front or a table grows
 * into new memory, beside the old one until all keys are there; where there is none it stays. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_counter.h"

#define ALIGN 256u
#define PAIRS_LEAST 1024u
/* Keys of a front that may be left over when it grows. */
#define LEFT_LEAST 256u
#define LEFT_SHARE 64u

struct hspz_cuda_counter
hspz_counter_view(const struct hspz_filter *f)
{
    return (struct hspz_cuda_counter){.shape = f->counter.shape,
                                      .salt = f->salt,
                                      .blocks = f->arrays[0].data,
                                      .pairs = f->arrays[1].data,
                                      .pair_slots = f->counter.pair_slots};
}

enum hspz_status
hspz_counter_check(const struct hspz_filter *f, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, f->device->label, "working on a counter", err);
}

enum hspz_status
hspz_counter_read_tally(const struct hspz_filter *f, const struct hspz_cuda_counter_tally *tally,
                        cudaStream_t stream, struct hspz_cuda_counter_tally *out,
                        struct hspz_error *err)
{
    cudaError_t error = cudaMemcpyAsync(out, tally, sizeof(*out), cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(stream);
    }
    return hspz_counter_check(f, error, err);
}

/* ---- making ---- */

enum hspz_status
hspz_counter_make(const struct hspz_filter_plan *plan, uint64_t keys, uint64_t limit_bytes,
                  struct hspz_filter **out, struct hspz_error *err)
{
    struct hspz_filter_plan holds = *plan;
    holds.spec.slots = keys;
    struct hspz_filter *f = NULL;
    const enum hspz_status status =
        hspz_cuda_filter_make(&holds, hspz_cuda_filter_counter_kind, &f, err);
    if (status != HSPZ_OK) {
        return status;
    }
    f->plan = *plan;
    f->counter.shape = hspz_counter_device_shape(hspz_counter_key_bits(&plan->spec), keys);
    f->counter.used_bytes = f->bytes[0];
    f->counter.limit_bytes = limit_bytes;
    *out = f;
    return HSPZ_OK;
}

/* Memory that is zero; *out stays empty when there is none. */
static enum hspz_status
take(struct hspz_filter *f, uint64_t bytes, cudaStream_t stream, struct hspz_cuda_buffer *out,
     struct hspz_error *err)
{
    const uint64_t used = f->counter.used_bytes, limit = f->counter.limit_bytes;
    struct hspz_error why = {0};
    *out = (struct hspz_cuda_buffer){0};
    if (limit != 0 && (used > limit || bytes > limit - used)) {
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_cuda_filter_zeroed(f, out, bytes, stream, &why);
    if (status != HSPZ_OK && status != HSPZ_E_OUT_OF_MEMORY) {
        return hspz_error_set(err, status, "%s", why.text);
    }
    return HSPZ_OK;
}

/* What was in array i is in `made` when the stream is there. */
static void
take_over(struct hspz_filter *f, int i, struct hspz_cuda_buffer *made, uint64_t bytes)
{
    hspz_cuda_buffer_free(f->device, &f->arrays[i]);
    f->arrays[i] = *made;
    *made = (struct hspz_cuda_buffer){0};
    f->counter.used_bytes += bytes - f->bytes[i];
    f->bytes[i] = bytes;
}

/* ---- the table ---- */

static uint64_t
room_of(const struct hspz_filter *f)
{
    const uint64_t most = f->counter.pair_slots / 16 * HSPZ_COUNTER_PAIRS_16THS;
    return most > f->counter.pairs ? most - f->counter.pairs : 0;
}

/* To a table of so many places; false: there is no memory. */
static enum hspz_status
grow_pairs(struct hspz_filter *f, uint64_t slots, cudaStream_t stream, bool *grown,
           struct hspz_error *err)
{
    const uint64_t bytes = slots * sizeof(struct hspz_cuda_counter_pair);
    const struct hspz_cuda_counter from = hspz_counter_view(f);
    struct hspz_cuda_counter to = from;
    struct hspz_cuda_buffer made;
    enum hspz_status status = take(f, bytes, stream, &made, err);
    *grown = false;
    if (status != HSPZ_OK || made.data == NULL) {
        return status;
    }
    to.pairs = made.data;
    to.pair_slots = slots;
    cudaError_t error = hspz_cuda_launch_counter_replace(&from, &to, stream);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(stream);
    }
    status = hspz_counter_check(f, error, err);
    if (status == HSPZ_OK) {
        take_over(f, 1, &made, bytes);
        f->counter.pair_slots = slots;
        *grown = true;
    }
    hspz_cuda_buffer_free(f->device, &made);
    return status;
}

enum hspz_status
hspz_counter_reserve_pairs(struct hspz_filter *f, uint64_t more, cudaStream_t stream,
                           uint64_t *room, struct hspz_error *err)
{
    const uint64_t pairs = f->counter.pairs + more, slots = f->counter.pair_slots;
    const uint64_t least = (pairs + HSPZ_COUNTER_PAIRS_16THS - 1) / HSPZ_COUNTER_PAIRS_16THS * 16;
    const uint64_t large = (slots + slots / 4 + PAIRS_LEAST) / 16 * 16;
    bool grown = more <= room_of(f);
    enum hspz_status status = HSPZ_OK;
    if (!grown && large > least) {
        status = grow_pairs(f, large, stream, &grown, err);
    }
    if (status == HSPZ_OK && !grown) {
        status = grow_pairs(f, least, stream, &grown, err);
    }
    *room = room_of(f);
    return status;
}

/* ---- the front ---- */

/* A front on its way into another: what lies behind the new one's blocks for as long as it is
 * needed. */
struct growth {
    struct hspz_cuda_counter from, to;
    struct hspz_cuda_buffer made;
    uint64_t bytes; /* of the new blocks */
    struct hspz_cuda_counter_tally *tally;
    struct hspz_cuda_counter_left left;
};

/* made.data is NULL: there is no memory. */
static enum hspz_status
begin_growth(struct growth *g, struct hspz_filter *f, const struct hspz_counter_shape *shape,
             cudaStream_t stream, struct hspz_error *err)
{
    const uint64_t bytes = hspz_counter_device_bytes(shape);
    const uint64_t at = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    const uint64_t left = f->counter.singles / LEFT_SHARE + LEFT_LEAST;
    *g = (struct growth){.from = hspz_counter_view(f), .bytes = bytes};
    const enum hspz_status status =
        take(f, at + sizeof(*g->tally) + left * sizeof(uint64_t), stream, &g->made, err);
    if (status == HSPZ_OK && g->made.data != NULL) {
        g->to = g->from;
        g->to.shape = *shape;
        g->to.blocks = g->made.data;
        g->tally = (void *)((char *)g->made.data + at);
        g->left = (struct hspz_cuda_counter_left){(uint64_t *)(g->tally + 1), left};
    }
    return status;
}

/* Those that were left over go to the table; false: it has no room for them. */
static enum hspz_status
put_left(const struct growth *g, struct hspz_filter *f, uint64_t left, cudaStream_t stream,
         bool *good, struct hspz_error *err)
{
    uint64_t room = 0;
    *good = left == 0;
    if (left == 0 || left > g->left.room) {
        return HSPZ_OK;
    }
    enum hspz_status status = hspz_counter_reserve_pairs(f, left, stream, &room, err);
    if (status != HSPZ_OK || room < left) {
        return status;
    }
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    status =
        hspz_counter_check(f, hspz_cuda_launch_counter_put_left(&c, g->left.x, left, stream), err);
    if (status == HSPZ_OK) {
        status = hspz_counter_check(f, cudaStreamSynchronize(stream), err);
    }
    *good = status == HSPZ_OK;
    return status;
}

static enum hspz_status
grow_front(struct hspz_filter *f, const struct hspz_counter_shape *shape, cudaStream_t stream,
           bool *grown, struct hspz_error *err)
{
    struct hspz_cuda_counter_tally told = {0};
    struct growth g;
    enum hspz_status status = begin_growth(&g, f, shape, stream, err);
    *grown = false;
    if (status != HSPZ_OK || g.made.data == NULL) {
        return status;
    }
    status = hspz_counter_check(
        f, hspz_cuda_launch_counter_refill(&g.from, &g.to, &g.left, g.tally, stream), err);
    if (status == HSPZ_OK) {
        status = hspz_counter_read_tally(f, g.tally, stream, &told, err);
    }
    if (status == HSPZ_OK) {
        status = put_left(&g, f, told.left, stream, grown, err);
    }
    if (status == HSPZ_OK && *grown) {
        take_over(f, 0, &g.made, g.bytes);
        f->counter.shape = *shape;
        f->counter.singles -= told.left;
        f->counter.pairs += told.left;
    }
    hspz_cuda_buffer_free(f->device, &g.made);
    return status;
}

/* Shapes from this one on that has room for so many; 0: this one has. A front grows by a quarter or
 * more. */
static unsigned
steps_to(const struct hspz_counter_shape *from, uint64_t singles)
{
    struct hspz_counter_shape shape = *from, next;
    unsigned steps = 0;
    bool enough = 16 * singles <= HSPZ_COUNTER_DEVICE_FULL_16THS * hspz_counter_shape_slots(from);
    while (!enough) {
        next = hspz_counter_shape_next(&shape);
        if (next.slot_bits < HSPZ_COUNTER_SLOT_BITS_LEAST) {
            break;
        }
        shape = next;
        steps++;
        const uint64_t slots = hspz_counter_shape_slots(&shape);
        enough = 16 * singles <= HSPZ_COUNTER_DEVICE_FULL_16THS * slots &&
                 4 * slots >= 5 * hspz_counter_shape_slots(from);
    }
    return steps;
}

enum hspz_status
hspz_counter_reserve_singles(struct hspz_filter *f, uint64_t more, cudaStream_t stream,
                             struct hspz_error *err)
{
    bool grown = false;
    enum hspz_status status = HSPZ_OK;
    for (unsigned steps = steps_to(&f->counter.shape, f->counter.singles + more);
         steps > 0 && !grown && status == HSPZ_OK; steps--) {
        struct hspz_counter_shape shape = f->counter.shape;
        for (unsigned i = 0; i < steps; i++) {
            shape = hspz_counter_shape_next(&shape);
        }
        status = grow_front(f, &shape, stream, &grown, err);
    }
    return status;
}

/* ---- numbers ---- */

enum hspz_status
hspz_counter_settle(struct hspz_filter *f, cudaStream_t stream, struct hspz_error *err)
{
    const struct hspz_cuda_counter c = hspz_counter_view(f);
    struct hspz_cuda_counter_tally *const tally = f->counts.data;
    struct hspz_cuda_counter_tally told;
    if (!f->counter.unsure) {
        return HSPZ_OK;
    }
    _Static_assert(sizeof(*tally) <= sizeof(struct hspz_cuda_filter_counts), "it is there");
    cudaError_t error = cudaMemsetAsync(tally, 0, sizeof(*tally), stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_counter_recount(&c, tally, stream);
    }
    enum hspz_status status = hspz_counter_check(f, error, err);
    if (status == HSPZ_OK) {
        status = hspz_counter_read_tally(f, tally, stream, &told, err);
    }
    if (status == HSPZ_OK) {
        const unsigned long long high = told.sums[1] + (told.sums[0] >> 32);
        f->counter.singles = told.singles;
        f->counter.pairs = told.pairs;
        f->counter.total = high >> 32 != 0 ? UINT64_MAX : high << 32 | (told.sums[0] & UINT32_MAX);
        f->counter.unsure = false;
    }
    return status;
}
