/* k-mers of a long sequence into a quotient filter. While the bases of one segment are copied,
 * those of the one before become items and are put in the order of parts; then the parts of all
 * segments are merged with what is there, in one pass.
 *
 * Places of a segment without a k-mer get items behind all others, which are not counted. Where a
 * part has too many items, all are sorted; where they do not fit, nothing is changed, and they are
 * left for the way that takes them in order. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_gqf.h"

#define SEGMENTS_MOST 64u
#define SHARE 16u /* of a segment, and of the slots, for which it pays */

/* A piece of a call on its way into the filter. */
struct piece {
    struct hspz_gqf_work *w;
    const struct hspz_gqf_needs *needs;
    uint64_t windows;
    unsigned segments;
    uint64_t parts, *bounds; /* of each segment: a place for each part, and one behind */
    uint32_t *counts;        /* items of each segment */
    unsigned side;           /* of w->keys, where they are sorted */
};

/* Those that a part has room for, if they are spread well. */
static uint64_t
most_windows(const struct hspz_filter *f)
{
    const uint64_t most = f->plan.spec.slots / 4 * 7, segment = f->segment;
    return most < segment                   ? most
           : most / segment > SEGMENTS_MOST ? SEGMENTS_MOST * segment
                                            : most / segment * segment;
}

static enum hspz_status
reserve_bounds(struct piece *p, struct hspz_error *err)
{
    struct hspz_filter *f = p->w->f;
    struct hspz_cuda_buffer *memory = &f->staging[HSPZ_CUDA_FILTER_BOUNDS];
    const uint64_t places = p->segments * (p->parts + 1);
    const uint64_t bytes = places * sizeof(*p->bounds) + p->segments * sizeof(*p->counts);
    enum hspz_status status = hspz_cuda_buffer_reserve(f->device, memory, bytes, err);
    if (status == HSPZ_OK) {
        p->bounds = memory->data;
        p->counts = (uint32_t *)(p->bounds + places);
        status = hspz_gqf_check(
            p->w, cudaMemsetAsync(p->counts, 0, p->segments * sizeof(*p->counts), f->stream), err);
    }
    return status;
}

/* The items of the feed's next segment, at side 0. */
static enum hspz_status
make_items(const struct piece *p, unsigned segment, uint64_t *items, uint64_t *windows,
           struct hspz_error *err)
{
    struct hspz_filter *f = p->w->f;
    struct hspz_cuda_kmers kmers;
    const struct hspz_cuda_kmer_keys out = {.keys = items,
                                            .count = p->counts + segment,
                                            .salt = f->salt,
                                            .fingerprint_bits = p->w->made.fingerprint_bits,
                                            .value_bits = p->w->made.value_bits};
    enum hspz_status status = hspz_cuda_feed_take(f, &kmers, err);
    if (status != HSPZ_OK) {
        return status;
    }
    *windows = kmers.windows;
    cudaError_t error = hspz_cuda_launch_kmer_keys(&kmers, &out, f->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_kmer_fill(items, out.count, kmers.windows,
                                           UINT64_MAX >> (64 - p->needs->key_bits), f->stream);
    }
    status = hspz_gqf_check(p->w, error, err);
    return status == HSPZ_OK ? hspz_cuda_feed_next(f, err) : status;
}

/* In the order of parts, at the side where the first segment is; and where each part begins. */
static enum hspz_status
sort_segment(struct piece *p, unsigned segment, struct hspz_error *err)
{
    struct hspz_gqf_work *w = p->w;
    uint32_t *const indices[2] = {NULL, NULL};
    uint64_t *const keys[2] = {(uint64_t *)w->keys[0] + segment * w->f->segment,
                               (uint64_t *)w->keys[1] + segment * w->f->segment};
    uint64_t windows = 0;
    unsigned now = 0;
    const enum hspz_status status = make_items(p, segment, keys[0], &windows, err);
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = hspz_cuda_launch_quotient_sort(
        (void *const[2]){keys[0], keys[1]}, indices, &now, windows, hspz_gqf_part_bit(w, p->needs),
        p->needs->key_bits, false, w->temp, w->temp_bytes, w->stream);
    p->side = segment == 0 ? now : p->side;
    if (error == cudaSuccess && now != p->side) {
        error = cudaMemcpyAsync(keys[p->side], keys[now], windows * sizeof(*keys[0]),
                                cudaMemcpyDeviceToDevice, w->stream);
    }
    if (error == cudaSuccess) {
        const struct hspz_cuda_quotient_items items = {
            .keys = keys[p->side], .count = windows, .counted = p->counts + segment};
        error = hspz_cuda_launch_quotient_bounds(&w->made, &items, HSPZ_CUDA_QUOTIENT_PART,
                                                 p->bounds + segment * (p->parts + 1), w->stream);
    }
    return hspz_gqf_check(w, error, err);
}

/* How many there are; waits. */
static enum hspz_status
count_items(const struct piece *p, uint64_t *count, struct hspz_error *err)
{
    uint32_t counts[SEGMENTS_MOST];
    cudaError_t error = cudaMemcpyAsync(counts, p->counts, p->segments * sizeof(*counts),
                                        cudaMemcpyDeviceToHost, p->w->stream);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(p->w->stream);
    }
    *count = 0;
    for (unsigned i = 0; i < p->segments && error == cudaSuccess; i++) {
        *count += counts[i];
    }
    return hspz_gqf_check(p->w, error, err);
}

/* Of all segments together, when a part has too many. */
static enum hspz_status
merge_sorted(const struct piece *p, uint64_t count, struct hspz_cuda_quotient_tally *tally,
             struct hspz_error *err)
{
    struct hspz_gqf_work *w = p->w;
    uint32_t *const indices[2] = {NULL, NULL};
    unsigned now = p->side;
    cudaError_t error = hspz_gqf_clear_tally(w);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_quotient_sort(w->keys, indices, &now, p->windows, 0,
                                               p->needs->key_bits, false, w->temp, w->temp_bytes,
                                               w->stream);
    }
    const struct hspz_cuda_quotient_items items = {
        .op = HSPZ_FILTER_INSERT, .keys = w->keys[now], .count = count};
    const enum hspz_status status = hspz_gqf_check(w, error, err);
    return status == HSPZ_OK ? hspz_gqf_merge_items(w, &items, true, tally, err) : status;
}

/* Windows from `begin` on; *keys of them, if they fit. */
static enum hspz_status
insert_piece(struct piece *p, const struct hspz_filter_call *call, uint64_t begin, uint64_t *keys,
             bool *fits, struct hspz_error *err)
{
    struct hspz_gqf_work *w = p->w;
    struct hspz_cuda_quotient_tally tally;
    bool merged = false;
    enum hspz_status status = reserve_bounds(p, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_feed_start(w->f, call, begin, begin + p->windows, w->f->segment, err);
    }
    for (unsigned s = 0; s < p->segments && status == HSPZ_OK; s++) {
        status = sort_segment(p, s, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_gqf_check(w, hspz_gqf_clear_tally(w), err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_cuda_quotient_items items = {.op = HSPZ_FILTER_INSERT,
                                                       .keys = w->keys[p->side],
                                                       .count = p->windows,
                                                       .segments = p->segments,
                                                       .segment_items = w->f->segment};
        status = hspz_gqf_merge_parts(w, &items, p->bounds, &tally, &merged, err);
    }
    if (status == HSPZ_OK) {
        status = count_items(p, keys, err);
    }
    if (status == HSPZ_OK && !merged) {
        status = merge_sorted(p, *keys, &tally, err);
    }
    *fits = status == HSPZ_OK && tally.fits;
    return *fits ? hspz_gqf_take_over(w, &tally, err) : status;
}

enum hspz_status
hspz_gqf_insert_sequence(struct hspz_filter *f, const struct hspz_filter_call *call,
                         uint64_t *windows, uint64_t *keys, struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_gqf_needs needs = {.key_bits = q.fingerprint_bits + q.value_bits};
    const uint64_t most = most_windows(f);
    bool fits = true;
    *windows = *keys = 0;
    if (hspz_gqf_is_wide(&q)) {
        return HSPZ_OK;
    }
    while (fits && *windows < call->count) {
        struct hspz_gqf_work w;
        struct piece p = {.w = &w, .needs = &needs, .parts = hspz_cuda_quotient_parts(q.quotients)};
        const uint64_t left = call->count - *windows;
        uint64_t in = 0;
        p.windows = left < most ? left : most;
        if (p.windows < f->segment / SHARE || p.windows < q.quotients / SHARE) {
            break;
        }
        enum hspz_status status =
            hspz_gqf_work_open(&w, f, &f->plan, &needs, p.windows, f->stream, err);
        if (status == HSPZ_E_OUT_OF_MEMORY) {
            break;
        }
        if (status == HSPZ_OK && w.capacity < p.windows) {
            p.windows = w.capacity / f->segment * f->segment;
        }
        p.segments = (unsigned)((p.windows + f->segment - 1) / f->segment);
        if (status == HSPZ_OK &&
            (p.segments == 0 || !hspz_gqf_is_for_parts(&w, &needs, HSPZ_FILTER_INSERT))) {
            break;
        }
        if (status == HSPZ_OK) {
            status = insert_piece(&p, call, *windows, &in, &fits, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        *windows += fits ? p.windows : 0;
        *keys += fits ? in : 0;
    }
    return HSPZ_OK;
}
