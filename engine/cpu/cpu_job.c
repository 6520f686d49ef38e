#include "engine/cpu/cpu_job.h"

#include "engine/cpu/cpu_batch.h"
#include "engine/cpu/window.h"
#include "engine/word_limit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Seeds that one step counts. */
#define COUNT_SEEDS (UINT64_C(1) << 19)
/* Starts whose k-mers each thread looks up in one. */
#define MASK_STARTS (2 * HSPZ_SEED_MASK_SLICE)

struct hspz_job {
    struct hspz_ref *ref;
    unsigned threads;
    struct hspz_walk walk;
    struct hspz_cpu_batch batch; /* scratch, as what follows */
    struct hspz_window window;
    uint8_t *masked;    /* starts of the batch; NULL: no mask, or not made */
    uint64_t masked_to; /* so many of them are known */
};

/* A job with what one step has. */
struct step {
    struct hspz_job *job;
    struct hspz_pool *pool;
    struct hspz_error *err;
    uint64_t window_anchors; /* extended at once */
};

/* ---- a batch ---- */

static void
make_seeds(const struct step *s)
{
    const struct hspz_walk *walk = &s->job->walk;
    const struct hspz_job_spec *spec = &walk->spec;
    struct hspz_cpu_batch *batch = &s->job->batch;
    if (spec->given_seeds) {
        batch->count = spec->seed_count;
        batch->per_run = 1;
        if (batch->count > 0) {
            memcpy(batch->seeds, spec->seeds, batch->count * sizeof(uint64_t));
        }
        return;
    }
    const struct hspz_seeder seeder = {
        .shape = &walk->shape,
        .query = spec->bases,
        .strand = walk->at.place.strand,
        .transitions = spec->transitions,
        .unmask = spec->unmask,
        .masked = s->job->masked,
        .masked_from = walk->at.windows.begin,
    };
    hspz_cpu_batch_make(batch, s->pool, &seeder, walk->at.windows.begin, walk->at.windows.end);
}

/* Some more of what the mask says of the batch; *more: not yet all. */
static enum hspz_status
mask_starts(const struct step *s, bool *more)
{
    struct hspz_job *job = s->job;
    const struct hspz_walk *walk = &job->walk;
    const struct hspz_range windows = walk->at.windows;
    if (job->masked == NULL) {
        job->masked = malloc(hspz_seed_mask_bits_bytes(walk->most_windows));
        if (job->masked == NULL) {
            return hspz_error_set(s->err, HSPZ_E_OUT_OF_MEMORY, "no memory for a mask");
        }
    }
    struct hspz_seed_starts starts = {.query = walk->spec.bases,
                                      .strand = walk->at.place.strand,
                                      .begin = windows.begin + job->masked_to,
                                      .end = windows.end};
    const uint64_t some = MASK_STARTS * hspz_pool_threads(s->pool);
    *more = starts.end - starts.begin > some;
    if (*more) {
        starts.end = starts.begin + some;
    }
    const enum hspz_status status = hspz_seed_mask_find(&walk->spec.mask, s->pool, &starts,
                                                        job->masked + job->masked_to / 8, s->err);
    job->masked_to = *more ? starts.end - windows.begin : 0;
    return status;
}

static enum hspz_status
batch_seeds(void *user, bool *more)
{
    const struct step *s = user;
    const uint64_t most_seeds = s->job->walk.most_seeds;
    const enum hspz_status status = hspz_cpu_batch_reserve(&s->job->batch, most_seeds);
    if (status != HSPZ_OK) {
        return hspz_error_set(s->err, status, "no memory for a batch of %" PRIu64 " seeds",
                              most_seeds);
    }
    *more = false;
    if (s->job->walk.spec.mask.ops != NULL) {
        const enum hspz_status masked = mask_starts(s, more);
        if (masked != HSPZ_OK || *more) {
            return masked;
        }
    }
    make_seeds(s);
    return HSPZ_OK;
}

static const struct hspz_buckets *
current_block(const struct step *s)
{
    return &s->job->ref->blocks[s->job->walk.at.block];
}

static enum hspz_status
batch_count(void *user, struct hspz_walk_count *count)
{
    const struct step *s = user;
    const struct hspz_job_spec *spec = &s->job->walk.spec;
    struct hspz_cpu_batch *batch = &s->job->batch;
    const uint64_t rest = batch->count - count->counted;
    const uint64_t end = count->counted + (rest < COUNT_SEEDS ? rest : COUNT_SEEDS);
    count->seeds = batch->count;
    if (spec->given_seeds) {
        count->bad =
            hspz_cpu_batch_find_bad(batch, s->pool, &s->job->walk.shape, count->counted, end);
    }
    if (count->bad == HSPZ_NO_BAD_SEED) {
        uint64_t limit;
        const enum hspz_status status =
            hspz_word_limit(s->job->ref->index, s->job->walk.at.block, spec->max_word_count,
                            spec->keep_words, &limit, s->err);
        if (status != HSPZ_OK) {
            return status;
        }
        count->hits = hspz_cpu_batch_count(batch, s->pool, current_block(s), count->counted, end,
                                           count->hits, limit);
        count->counted = end;
    }
    return HSPZ_OK;
}

static enum hspz_status
batch_cut(void *user, struct hspz_chunk *chunk, bool *more)
{
    const struct step *s = user;
    const struct hspz_walk *walk = &s->job->walk;
    struct hspz_prefix prefix = {.sums = s->job->batch.sums, .count = s->job->batch.count};
    const enum hspz_cut cut = hspz_cut_next(
        prefix.count, walk->count.hits, walk->spec.max_hits,
        walk->spec.walk == HSPZ_WALK_FULL ? hspz_prefix_find_full : hspz_prefix_find_blocks,
        &prefix, chunk);
    HSPZ_REQUIRE(cut != HSPZ_CUT_FAILED);
    *more = cut == HSPZ_CUT_CHUNK;
    return HSPZ_OK;
}

static enum hspz_status
batch_expand(void *user, uint64_t begin, uint64_t end, uint64_t *out, uint64_t *count)
{
    const struct step *s = user;
    hspz_cpu_batch_expand(&s->job->batch, s->pool, current_block(s), begin, end, out);
    *count = end - begin;
    return HSPZ_OK;
}

static enum hspz_status
batch_columns(void *user, uint64_t begin, uint64_t end, void *out, size_t bytes, uint64_t *count,
              size_t *used)
{
    const struct step *s = user;
    uint64_t stop = end;
    *used =
        hspz_cpu_batch_columns(&s->job->batch, s->pool, current_block(s), begin, &stop, out, bytes);
    *count = stop - begin;
    return HSPZ_OK;
}

static enum hspz_status
batch_extend(void *user, uint64_t begin, uint64_t end, struct hspz_hsp_set *set, uint64_t *count)
{
    const struct step *s = user;
    struct hspz_job *job = s->job;
    const enum hspz_status status = hspz_window_reserve(&job->window, s->err);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t some = end - begin < s->window_anchors ? end - begin : s->window_anchors;
    hspz_cpu_batch_expand(&job->batch, s->pool, current_block(s), begin, begin + some,
                          job->window.anchors);
    return hspz_window_extend(&job->window, &job->walk, job->ref->index, s->pool, some, set, count,
                              s->err);
}

static const struct hspz_walk_ops batch_ops = {
    .seeds = batch_seeds,
    .count = batch_count,
    .cut = batch_cut,
    .expand = batch_expand,
    .columns = batch_columns,
    .extend = batch_extend,
};

/* ---- a job ---- */

enum hspz_status
hspz_cpu_job_begin(struct hspz_ref *ref, const struct hspz_job_spec *spec, unsigned threads,
                   struct hspz_job **out, struct hspz_error *err)
{
    struct hspz_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a job");
    }
    job->ref = ref;
    job->threads = threads;
    enum hspz_status status = hspz_window_check(ref->index, spec, err);
    if (status == HSPZ_OK) {
        status = hspz_walk_begin(&job->walk, spec, &hspz_index_get_params(ref->index)->shape,
                                 ref->block_count, err);
    }
    if (status != HSPZ_OK) {
        free(job);
        return status;
    }
    *out = job;
    return HSPZ_OK;
}

enum hspz_status
hspz_cpu_job_step(struct hspz_pool *pool, struct hspz_job *job, struct hspz_part *part,
                  struct hspz_error *err)
{
    struct step step = {
        .job = job,
        .pool = pool,
        .err = err,
        .window_anchors =
            part->capacity < HSPZ_WINDOW_ANCHORS ? part->capacity : HSPZ_WINDOW_ANCHORS,
    };
    job->walk.collect.pool = pool;
    return hspz_walk_step(&job->walk, &batch_ops, &step, part, err);
}

void
hspz_cpu_job_bytes(const struct hspz_job *job, struct hspz_job_bytes *out)
{
    uint64_t window_now, window_most, hsps_now, hsps_most;
    hspz_window_bytes(&job->window, &job->walk, job->threads, &window_now, &window_most);
    hspz_collect_bytes(&job->walk.collect, &hsps_now, &hsps_most);
    const uint64_t bits = hspz_seed_mask_bits_bytes(job->walk.most_windows);
    const bool masks = job->walk.spec.mask.ops != NULL;
    *out = (struct hspz_job_bytes){
        .now = hspz_cpu_batch_bytes(job->batch.capacity) + (job->masked != NULL ? bits : 0) +
               window_now + hsps_now,
        .kept = hsps_now,
        .most = hspz_cpu_batch_bytes(job->walk.most_seeds) +
                (masks ? bits + hspz_seed_mask_work_bytes(job->threads) : 0) + window_most +
                hsps_most,
    };
}

void
hspz_cpu_job_park(struct hspz_job *job)
{
    hspz_cpu_batch_release(&job->batch);
    hspz_window_release(&job->window);
    free(job->masked);
    job->masked = NULL;
    job->masked_to = 0;
    hspz_walk_lose(&job->walk);
}

bool
hspz_cpu_job_held(const struct hspz_job *job, unsigned device, unsigned devices)
{
    const size_t block = hspz_walk_block(&job->walk);
    return job->ref->holds == NULL || block == HSPZ_NO_BLOCK ||
           job->ref->holds[block * devices + device];
}

size_t
hspz_cpu_job_block(const struct hspz_job *job)
{
    return hspz_walk_block(&job->walk);
}

void
hspz_cpu_job_totals(const struct hspz_job *job, struct hspz_job_totals *out)
{
    *out = job->walk.at.totals;
}

void
hspz_cpu_job_place(const struct hspz_job *job, struct hspz_job_place *out)
{
    *out = job->walk.kept;
}

void
hspz_cpu_job_end(struct hspz_job **job)
{
    if (*job != NULL) {
        hspz_cpu_job_park(*job);
        hspz_walk_end(&(*job)->walk);
        free(*job);
        *job = NULL;
    }
}
