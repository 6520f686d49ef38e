#include "engine/cuda/cuda_job.h"

#include "engine/cpu/seeder.h"
#include "engine/cpu/window.h"
#include "engine/cuda/batch.h"
#include "engine/cuda/extend.h"
#include "engine/walk.h"
#include "engine/word_limit.h"

#include <stdlib.h>
#include <string.h>

/* Given seeds that one step uploads. */
#define UPLOAD_SEEDS (UINT64_C(1) << 22)

_Static_assert(HSPZ_CUDA_NO_BAD == HSPZ_NO_BAD_SEED, "one number for no bad seed");

struct hspz_job {
    const struct hspz_cuda_tuning *tuning;
    struct hspz_ref *ref;
    struct hspz_walk walk;

    struct hspz_cuda_device *device;   /* where scratch is */
    struct hspz_cuda_scratch *scratch; /* guarded by the device's mutex between steps */
    struct hspz_cuda_batch on_device;
    uint64_t uploaded; /* given seeds */
};

/* A job with what one step has. */
struct step {
    struct hspz_job *job;
    struct hspz_cuda_run run;
    bool small_fits; /* the part's buffer is aligned for a small batch */
};

/* ---- seeds, count ---- */

static struct hspz_cuda_stretch
stretch_of(const struct hspz_walk *walk)
{
    return (struct hspz_cuda_stretch){
        .shape = &walk->shape,
        .query = walk->spec.bases,
        .strand = walk->at.place.strand,
        .transitions = walk->spec.transitions,
        .unmask = walk->spec.unmask,
        .begin = walk->at.windows.begin,
        .end = walk->at.windows.end,
        .mask = walk->spec.mask.ops != NULL ? &walk->spec.mask : NULL,
    };
}

static enum hspz_status
upload_seeds(const struct step *s, bool *more)
{
    struct hspz_job *job = s->job;
    const struct hspz_job_spec *spec = &job->walk.spec;
    enum hspz_status status = HSPZ_OK;
    if (job->uploaded == 0) {
        status = hspz_cuda_batch_given(&s->run, spec->seed_count);
    }
    const uint64_t rest = spec->seed_count - job->uploaded;
    const uint64_t count = rest < UPLOAD_SEEDS ? rest : UPLOAD_SEEDS;
    if (status == HSPZ_OK && count > 0) {
        status = hspz_cuda_batch_upload(&s->run, spec->seeds, job->uploaded, count);
    }
    *more = count < rest;
    job->uploaded = *more ? job->uploaded + count : 0;
    return status;
}

static enum hspz_status
batch_seeds(void *user, bool *more)
{
    const struct step *s = user;
    if (s->job->walk.spec.given_seeds) {
        return upload_seeds(s, more);
    }
    const struct hspz_cuda_stretch stretch = stretch_of(&s->job->walk);
    *more = false;
    return hspz_cuda_batch_query(&s->run, &stretch);
}

static enum hspz_status
word_limit(const struct step *s, uint64_t *out)
{
    const struct hspz_walk *walk = &s->job->walk;
    return hspz_word_limit(s->job->ref->index, walk->at.block, walk->spec.max_word_count,
                           walk->spec.keep_words, out, s->run.err);
}

static enum hspz_status
batch_count(void *user, struct hspz_walk_count *count)
{
    const struct step *s = user;
    uint64_t limit;
    enum hspz_status status = word_limit(s, &limit);
    if (status == HSPZ_OK) {
        status = hspz_cuda_batch_count(&s->run, limit);
    }
    if (status == HSPZ_OK) {
        const struct hspz_cuda_batch *batch = s->run.batch;
        *count = (struct hspz_walk_count){
            .seeds = batch->seed_count,
            .counted = batch->seed_count,
            .hits = batch->hits,
            .bad = batch->bad,
        };
    }
    return status;
}

static enum hspz_status
batch_counted(void *user)
{
    const struct step *s = user;
    return hspz_cuda_batch_place(&s->run);
}

/* ---- cut, expand ---- */

static enum hspz_status
batch_cut(void *user, struct hspz_chunk *chunk, bool *more)
{
    const struct step *s = user;
    const struct hspz_job_spec *spec = &s->job->walk.spec;
    struct hspz_cuda_run finder = s->run;
    struct hspz_error ours = {.status = HSPZ_E_DEVICE_ERROR};
    finder.err = &ours;
    const enum hspz_cut cut = hspz_cut_next(
        finder.batch->seed_count, finder.batch->hits, spec->max_hits,
        spec->walk == HSPZ_WALK_FULL ? hspz_cuda_batch_find_full : hspz_cuda_batch_find_blocks,
        &finder, chunk);
    if (cut == HSPZ_CUT_FAILED) {
        if (s->run.err != NULL) {
            *s->run.err = ours;
        }
        return ours.status;
    }
    *more = cut == HSPZ_CUT_CHUNK;
    return HSPZ_OK;
}

static enum hspz_status
batch_expand(void *user, uint64_t begin, uint64_t end, uint64_t *out, uint64_t *count)
{
    const struct step *s = user;
    return hspz_cuda_batch_copy(&s->run, begin, end, out, count);
}

static enum hspz_status
batch_columns(void *user, uint64_t begin, uint64_t end, void *out, size_t bytes, uint64_t *count,
              size_t *used)
{
    const struct step *s = user;
    return hspz_cuda_batch_columns(&s->run, begin, end, out, bytes, count, used);
}

/* ---- extend ---- */

static enum hspz_status
batch_extend(void *user, uint64_t begin, uint64_t end, struct hspz_hsp_set *set, uint64_t *count)
{
    const struct step *s = user;
    const struct hspz_walk *walk = &s->job->walk;
    const struct hspz_cuda_extend how = {
        .shape = &walk->shape,
        .query = walk->spec.bases,
        .strand = walk->at.place.strand,
        .transitions = walk->spec.transitions,
        .query_unmask = walk->spec.unmask,
        .scoring = &walk->spec.scoring,
        .all_hits = walk->spec.max_word_count >= UINT32_MAX &&
                    walk->spec.keep_words == HSPZ_KEEP_ALL && walk->spec.mask.ops == NULL,
        .first_query = (uint32_t)walk->plan.windows.begin,
        .first_seed = walk->at.chunk.seed_begin,
    };
    return hspz_cuda_batch_extend(&s->run, &how, begin, end, set, count);
}

/* ---- small batches ---- */

static bool
may_be_small(const struct step *s)
{
    const struct hspz_walk *walk = &s->job->walk;
    if (s->run.tuning->always_wait || !s->small_fits || walk->spec.mask.ops != NULL) {
        return false;
    }
    if (walk->spec.given_seeds) {
        return walk->spec.seed_count <= HSPZ_CUDA_SMALL_SEEDS;
    }
    return (walk->at.windows.end - walk->at.windows.begin) *
               hspz_shape_seeds_per_position(&walk->shape, walk->spec.transitions) <=
           HSPZ_CUDA_SMALL_SEEDS;
}

/* Seeds of a small batch, made or copied by the host: quicker than asking the device. */
static enum hspz_status
stage_small(const struct step *s, uint64_t *count)
{
    const struct hspz_walk *walk = &s->job->walk;
    uint64_t *seeds;
    const enum hspz_status status = hspz_cuda_batch_small_seeds(&s->run, &seeds);
    if (status != HSPZ_OK) {
        return status;
    }
    if (walk->spec.given_seeds) {
        memcpy(seeds, walk->spec.seeds, walk->spec.seed_count * sizeof(*seeds));
        *count = walk->spec.seed_count;
        return HSPZ_OK;
    }
    const struct hspz_seeder seeder = {.shape = &walk->shape,
                                       .query = walk->spec.bases,
                                       .strand = walk->at.place.strand,
                                       .transitions = walk->spec.transitions,
                                       .unmask = walk->spec.unmask};
    *count = hspz_seeder_make(&seeder, walk->at.windows.begin, walk->at.windows.end, seeds);
    return HSPZ_OK;
}

static enum hspz_status
batch_small(void *user, uint64_t *out, size_t capacity, struct hspz_walk_count *count, bool *done)
{
    const struct step *s = user;
    *done = false;
    if (!may_be_small(s)) {
        return HSPZ_OK;
    }
    uint64_t seeds, limit;
    bool written = false;
    enum hspz_status status = word_limit(s, &limit);
    if (status == HSPZ_OK) {
        status = stage_small(s, &seeds);
    }
    if (status == HSPZ_OK && seeds == 0) {
        *done = true; /* nothing to ask the device */
        return HSPZ_OK;
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_batch_small(&s->run, seeds, limit, out, capacity, &written);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_batch *batch = s->run.batch;
    *count = (struct hspz_walk_count){
        .seeds = seeds, .counted = seeds, .hits = batch->hits, .bad = batch->bad};
    *done = written || batch->bad != HSPZ_CUDA_NO_BAD || batch->hits > HSPZ_HITS_LIMIT;
    return HSPZ_OK;
}

static const struct hspz_walk_ops batch_ops = {
    .seeds = batch_seeds,
    .count = batch_count,
    .counts_at_once = true,
    .counted = batch_counted,
    .cut = batch_cut,
    .expand = batch_expand,
    .columns = batch_columns,
    .extend = batch_extend,
    .small = batch_small,
};

/* ---- begin, park, end ---- */

enum hspz_status
hspz_cuda_job_begin(const struct hspz_cuda_tuning *tuning, struct hspz_ref *ref,
                    const struct hspz_job_spec *spec, struct hspz_job **out, struct hspz_error *err)
{
    struct hspz_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a job");
    }
    job->tuning = tuning;
    job->ref = ref;
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

void
hspz_cuda_job_bytes(const struct hspz_job *job, struct hspz_job_bytes *out)
{
    const uint64_t prefix = job->walk.most_seeds * sizeof(uint32_t);
    const uint64_t pinned =
        hspz_cuda_batch_host_bytes(job->walk.most_seeds) +
        (hspz_walk_wants_hsps(&job->walk) ? hspz_cuda_extend_host_bytes() : 0) +
        (job->walk.spec.mask.ops != NULL ? hspz_seed_mask_bits_bytes(job->walk.most_windows) +
                                               hspz_seed_mask_work_bytes(HSPZ_CUDA_LANE_THREADS)
                                         : 0);
    bool held = false;
    if (job->device != NULL) {
        pthread_mutex_lock(&job->device->mutex);
        held = job->scratch != NULL;
        pthread_mutex_unlock(&job->device->mutex);
    }
    uint64_t hsps_now, hsps_most;
    hspz_collect_bytes(&job->walk.collect, &hsps_now, &hsps_most);
    *out = (struct hspz_job_bytes){
        .now = (held ? pinned : 0) + (job->on_device.prefix != NULL ? prefix : 0) + hsps_now,
        .kept = hsps_now,
        .most = pinned + (job->walk.spec.walk == HSPZ_WALK_FULL ? prefix : 0) + hsps_most,
    };
}

/* What was on the device is lost. */
static void
lose_batch(struct hspz_job *job)
{
    hspz_cuda_batch_reset(&job->on_device);
    job->uploaded = 0;
    hspz_walk_lose(&job->walk);
}

void
hspz_cuda_job_park(struct hspz_job *job)
{
    if (job->device != NULL) {
        hspz_cuda_scratch_release(job->device, &job->scratch);
        job->device = NULL;
    }
    lose_batch(job);
}

size_t
hspz_cuda_job_block(const struct hspz_job *job)
{
    return hspz_walk_block(&job->walk);
}

void
hspz_cuda_job_totals(const struct hspz_job *job, struct hspz_job_totals *out)
{
    *out = job->walk.at.totals;
}

void
hspz_cuda_job_place(const struct hspz_job *job, struct hspz_job_place *out)
{
    *out = job->walk.kept;
}

void
hspz_cuda_job_end(struct hspz_job **job)
{
    if (*job != NULL) {
        hspz_cuda_job_park(*job);
        hspz_walk_end(&(*job)->walk);
        free(*job);
        *job = NULL;
    }
}

/* ---- step ---- */

/* One attempt, with the scratch the job has or gets. */
static enum hspz_status
step_with_scratch(const struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
                  struct hspz_error *err)
{
    bool fresh;
    enum hspz_status status =
        hspz_cuda_scratch_hold(lane->device, &job->scratch, lane->work, &fresh, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (fresh) {
        lose_batch(job);
    }
    struct step step = {
        .job = job,
        .run = {.lane = lane,
                .scratch = job->scratch,
                .index = hspz_cuda_ref_block(job->ref, lane->device, job->walk.at.block),
                .tuning = job->tuning,
                .batch = &job->on_device,
                .err = err},
        .small_fits = (uintptr_t)part->anchors % 16 == 0,
    };
    status = hspz_walk_step(&job->walk, &batch_ops, &step, part, err);
    hspz_cuda_scratch_drop(lane->device, step.run.scratch);
    return status;
}

enum hspz_status
hspz_cuda_job_step(struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
                   struct hspz_error *err)
{
    job->walk.collect.pool = lane->pool;
    if (!hspz_walk_needs_batch(&job->walk)) {
        return hspz_walk_step(&job->walk, &batch_ops, NULL, part, err);
    }
    HSPZ_REQUIRE(job->device == NULL || job->device == lane->device);
    job->device = lane->device;
    enum hspz_status status = hspz_cuda_device_use(lane->device, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = step_with_scratch(lane, job, part, err);
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        /* The scratch may have grown for batches of another shape: once more with none. */
        hspz_cuda_scratch_discard(lane->device, &job->scratch);
        status = step_with_scratch(lane, job, part, err);
    }
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        hspz_cuda_scratch_discard(lane->device, &job->scratch);
    }
    return status;
}
