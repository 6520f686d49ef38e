/* Bloom and blocked Bloom filters on a device. */
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/filter_p.h"
#include "engine/cuda/filter_sort.h"

/* From so much of a filter on, of which the cache then holds too little, and so many keys, of
 * blocked some more by its bytes, sorting pays: measured on an H200 (tests/bench/filter_ways.c). */
#define BULK_BLOOM_BYTES ((uint64_t)52 << 20)
#define BULK_BLOOM_KEYS ((uint64_t)1 << 20)
#define BULK_BLOCKED_BYTES ((uint64_t)46 << 20)
#define BULK_BLOCKED_KEYS ((uint64_t)3 << 20)
#define BULK_BLOCKED_SHARE 110u
/* Regions of a bloom filter. */
#define REGION_LOG2 18u
_Static_assert(HSPZ_CUDA_FILTER_REGION_BYTES * 8 == 1u << REGION_LOG2, "a region of bits");

static void
sizes(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS])
{
    bytes[0] = plan->bytes;
}

static struct hspz_cuda_bloom
view(const struct hspz_filter *f)
{
    return (struct hspz_cuda_bloom){.bits = f->arrays[0].data,
                                    .words = f->bytes[0] / sizeof(uint32_t),
                                    .slots = f->plan.spec.slots,
                                    .blocks = f->plan.blocks,
                                    .salt = f->salt,
                                    .hashes = f->plan.spec.hashes,
                                    .blocked = f->plan.spec.kind == HSPZ_FILTER_BLOCKED,
                                    .locks = f->extra.data,
                                    .counts = f->counts.data};
}

enum hspz_status
hspz_cuda_filter_bloom_view(struct hspz_filter *f, struct hspz_cuda_bloom *out,
                            struct hspz_error *err)
{
    if (f->plan.spec.kind != HSPZ_FILTER_BLOOM && f->plan.spec.kind != HSPZ_FILTER_BLOCKED) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a %s filter is no bloom filter",
                              hspz_filter_kind_name(f->plan.spec.kind));
    }
    const enum hspz_status status = hspz_cuda_filter_locks_now(f, HSPZ_CUDA_FILTER_LOCKS, err);
    if (status == HSPZ_OK) {
        *out = view(f);
    }
    return status;
}

static bool
wants_bulk(const struct hspz_filter *f, const struct hspz_cuda_filter_call *call)
{
    const bool blocked = f->plan.spec.kind == HSPZ_FILTER_BLOCKED;
    if (call->op != HSPZ_FILTER_INSERT || call->way == HSPZ_CUDA_FILTER_POINT ||
        (!blocked && f->plan.spec.slots > UINT64_C(1) << 32)) {
        return false;
    }
    const uint64_t least_bytes = blocked ? BULK_BLOCKED_BYTES : BULK_BLOOM_BYTES;
    const uint64_t least_keys =
        blocked ? BULK_BLOCKED_KEYS + f->bytes[0] / BULK_BLOCKED_SHARE : BULK_BLOOM_KEYS;
    return call->way == HSPZ_CUDA_FILTER_BULK ||
           (f->bytes[0] >= least_bytes && call->count >= least_keys);
}

/* Regions of bits: as large as may be, but enough of them to go around. */
static void
regions_of_bits(struct hspz_cuda_filter_sorted *sorted, uint64_t bits)
{
    unsigned end = REGION_LOG2 / 2;
    while (end < 32 && bits > UINT64_C(1) << end) {
        end++;
    }
    sorted->end_bit = end;
    sorted->shift = end - 8 < REGION_LOG2 ? end - 8 : REGION_LOG2;
    sorted->shift = sorted->shift < 5 ? 5 : sorted->shift;
    sorted->regions = (uint32_t)((bits - 1) >> sorted->shift) + 1;
}

/* So many keys at a time. */
static enum hspz_status
run_bulk(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
         struct hspz_cuda_filter_sorted *sorted, uint64_t keys, struct hspz_error *err)
{
    const struct hspz_cuda_bloom bloom = view(f);
    cudaError_t error = cudaSuccess;
    for (uint64_t at = 0; at < call->count && error == cudaSuccess; at += keys) {
        const uint64_t left = call->count - at, count = left < keys ? left : keys;
        const struct hspz_cuda_filter_call part = hspz_cuda_filter_cut(call, at, count);
        sorted->count = bloom.blocked ? count : count * bloom.hashes;
        error = bloom.blocked ? hspz_cuda_launch_filter_hashes(&part, f->salt, sorted, stream)
                              : hspz_cuda_launch_bloom_places(&bloom, &part, sorted, stream);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_filter_sort(sorted, stream);
        }
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_bloom_sorted(&bloom, &part, sorted, stream);
        }
    }
    return hspz_cuda_check(error, f->device->label, "inserting into a bloom filter", err);
}

static enum hspz_status
run(struct hspz_filter *f, const struct hspz_cuda_filter_call *call, cudaStream_t stream,
    struct hspz_error *err)
{
    if (call->op == HSPZ_FILTER_INSERT_IF_ABSENT) {
        const enum hspz_status status =
            hspz_cuda_filter_locks(f, HSPZ_CUDA_FILTER_LOCKS, stream, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    const struct hspz_cuda_bloom bloom = view(f);
    if (wants_bulk(f, call)) {
        struct hspz_cuda_filter_sorted sorted = {0};
        const unsigned each = bloom.blocked ? 1 : bloom.hashes;
        /* Whole words of `yes`. */
        uint64_t keys = HSPZ_CUDA_FILTER_SORT_MAX / each / 32 * 32;
        keys = call->count < keys ? call->count : keys;
        sorted.count = keys * each;
        if (bloom.blocked) {
            hspz_cuda_filter_regions(&sorted, bloom.blocks,
                                     HSPZ_CUDA_FILTER_REGION_BYTES / (HSPZ_BLOOM_BLOCK_BITS / 8));
        } else {
            regions_of_bits(&sorted, bloom.slots);
        }
        if (hspz_cuda_filter_sorted_init(f, &sorted) == HSPZ_OK) {
            return run_bulk(f, call, stream, &sorted, keys, err);
        }
    }
    return hspz_cuda_check(hspz_cuda_launch_bloom(&bloom, call, stream), f->device->label,
                           "working on a bloom filter", err);
}

static const struct hspz_cuda_filter_kind bloom_kind = {
    .ops = 1u << HSPZ_FILTER_INSERT | 1u << HSPZ_FILTER_INSERT_IF_ABSENT | 1u << HSPZ_FILTER_QUERY,
    .sizes = sizes,
    .run = run,
};

static enum hspz_status
create(const struct hspz_filter_plan *plan, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_make(plan, &bloom_kind, out, err);
}

static enum hspz_status
load(const struct hspz_filter_plan *plan, const struct hspz_filter_image *image,
     const struct hspz_filter_stop *stop, struct hspz_filter **out, struct hspz_error *err)
{
    return hspz_cuda_filter_load(plan, &bloom_kind, image, stop, out, err);
}

/* Chunks by how many of their bits are set. */
static enum hspz_status
count_bits(const struct hspz_filter *f, struct hspz_cuda_filter_counts *out)
{
    const struct hspz_cuda_bloom bloom = view(f);
    cudaError_t error = cudaSetDevice(f->device->ordinal);
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(bloom.counts->chunks, 0, sizeof(bloom.counts->chunks), f->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_bloom_count(&bloom, f->stream);
    }
    const enum hspz_status status = hspz_cuda_check(error, f->device->label, "counting bits", NULL);
    return status == HSPZ_OK ? hspz_cuda_filter_counts_get(f, out, NULL) : status;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    struct hspz_cuda_filter_counts counts;
    *out = (struct hspz_filter_stats){0};
    if (count_bits(f, &counts) != HSPZ_OK) {
        return;
    }
    out->entries = out->total = counts.entries;
    out->bytes = f->plan.bytes;
    const unsigned k = f->plan.spec.hashes;
    double sum = 0;
    for (unsigned n = 0; n <= HSPZ_CUDA_FILTER_CHUNK; n++) {
        out->used += n * counts.chunks[n];
        sum += (double)counts.chunks[n] * hspz_filter_power((double)n / HSPZ_BLOOM_BLOCK_BITS, k);
    }
    out->load = (double)out->used / (double)f->plan.spec.slots;
    out->rate = f->plan.spec.kind == HSPZ_FILTER_BLOOM ? hspz_filter_power(out->load, k)
                                                       : sum / (double)f->plan.blocks;
}

static enum hspz_status
merge(struct hspz_filter *f, const struct hspz_filter *from, const struct hspz_filter_stop *stop,
      bool *full, struct hspz_error *err)
{
    *full = false;
    if (f->bytes[0] != from->bytes[0] || f->plan.spec.hashes != from->plan.spec.hashes ||
        f->plan.spec.kind != from->plan.spec.kind || f->salt != from->salt ||
        f->device != from->device) {
        return hspz_filter_differ(err);
    }
    enum hspz_status status = hspz_filter_stopped(stop, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_device_use(f->device, err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_cuda_bloom to = view(f), other = view(from);
        status = hspz_cuda_check(hspz_cuda_launch_bloom_merge(&to, &other, f->stream),
                                 f->device->label, "merging filters", err);
    }
    return status == HSPZ_OK ? hspz_cuda_filter_wait(f, "merging filters", err) : status;
}

const struct hspz_filter_ops hspz_cuda_filter_bloom = {
    .create = create,
    .destroy = hspz_cuda_filter_destroy,
    .plan = hspz_cuda_filter_plan_of,
    .run = hspz_cuda_filter_run_host,
    .takes_sequence = true,
    .run_parts = hspz_cuda_filter_run_parts,
    .stats = stats,
    .merge = merge,
    .copy = hspz_cuda_filter_copy,
    .save = hspz_cuda_filter_save,
    .load = load,
};
