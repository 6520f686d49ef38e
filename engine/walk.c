#include "engine/walk.h"

#include "engine/cpu/seeder.h"
#include "engine/refuse.h"
#include "engine/score.h"

#include <string.h>

/* Bases that one step checks. */
#define CHECK_BASES (UINT64_C(1) << 25)

/* The calls of one step. */
struct step {
    struct hspz_walk *walk;
    const struct hspz_walk_ops *ops;
    void *user;
    struct hspz_part *part;
    struct hspz_error *err;
};

/* ---- begin, lose, end ---- */

static enum hspz_status
check_mask(const struct hspz_job_spec *spec, struct hspz_error *err)
{
    if (spec->mask.ops == NULL) {
        return HSPZ_OK;
    }
    return spec->given_seeds
               ? hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a mask is for a query, not given seeds")
               : hspz_seed_mask_check(&spec->mask, err);
}

static enum hspz_status
begin_hsps(struct hspz_walk *walk, struct hspz_error *err)
{
    if (walk->spec.given_seeds) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "HSPs are of a query, not of given seeds");
    }
    const enum hspz_status status = hspz_scoring_check(&walk->spec.scoring, err);
    if (status != HSPZ_OK) {
        return status;
    }
    return hspz_collect_init(&walk->collect, &walk->spec.scoring, walk->block_count, err);
}

static void
go_on_from(struct hspz_walk *walk, const struct hspz_job_place *kept)
{
    walk->kept = *kept;
    walk->skip = kept->hsps;
    if (kept->stage == HSPZ_STAGE_CHECK) {
        return;
    }
    walk->at = *kept;
    walk->at.hsps = 0;
    walk->at.hsp_part = 0;
    hspz_walk_lose(walk);
}

enum hspz_status
hspz_walk_begin(struct hspz_walk *walk, const struct hspz_job_spec *spec,
                const struct hspz_shape *shape, size_t block_count, struct hspz_error *err)
{
    HSPZ_REQUIRE(spec->max_hits >= 1);
    if (!spec->given_seeds && spec->bases.len > HSPZ_BLOCK_BASES_LIMIT) {
        return hspz_refuse_query(spec->bases.len, err);
    }
    enum hspz_status status = check_mask(spec, err);
    if (status != HSPZ_OK) {
        return status;
    }
    *walk = (struct hspz_walk){.spec = *spec, .shape = *shape, .block_count = block_count};
    if (spec->output == HSPZ_RECORDS_HSPS) {
        status = begin_hsps(walk, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    walk->spec.from = NULL; /* borrowed only now */
    if (spec->given_seeds) {
        /* One batch, whatever its size. */
        hspz_plan_init(&walk->plan, 1, (struct hspz_range){0, 1}, 0, HSPZ_STRANDS_PLUS);
        walk->most_seeds = spec->seed_count;
        walk->at.stage = HSPZ_STAGE_SEEDS;
        (void)hspz_plan_first(&walk->plan, &walk->at.place);
    } else {
        hspz_plan_init(&walk->plan, hspz_seeder_positions(shape, spec->bases.len),
                       (struct hspz_range){spec->begin, spec->end}, spec->interval, spec->strands);
        walk->most_windows = hspz_plan_most_windows(&walk->plan);
        walk->most_seeds =
            walk->most_windows * hspz_shape_seeds_per_position(shape, spec->transitions);
    }
    if (spec->from != NULL) {
        go_on_from(walk, spec->from);
    }
    return HSPZ_OK;
}

bool
hspz_walk_needs_batch(const struct hspz_walk *walk)
{
    return walk->at.stage == HSPZ_STAGE_SEEDS || walk->at.stage == HSPZ_STAGE_COUNT ||
           walk->at.stage == HSPZ_STAGE_EXPAND;
}

static bool
in_job_scope(const struct hspz_walk *walk)
{
    return walk->spec.scoring.scope == HSPZ_SCOPE_JOB;
}

size_t
hspz_walk_block(const struct hspz_walk *walk)
{
    return hspz_walk_needs_batch(walk) ? walk->at.block : HSPZ_NO_BLOCK;
}

void
hspz_walk_lose(struct hspz_walk *walk)
{
    if (walk->at.stage == HSPZ_STAGE_COUNT || walk->at.stage == HSPZ_STAGE_EXPAND ||
        walk->at.seeding) {
        walk->at.stage = HSPZ_STAGE_SEEDS;
        walk->at.seeding = false;
        walk->at.lost = true;
    } else if (walk->at.stage == HSPZ_STAGE_SETTLE || walk->at.stage == HSPZ_STAGE_SEND) {
        /* Between the chunks of a batch; but after a strand's last one there is none to lose. */
        walk->at.lost = !in_job_scope(walk);
    }
}

void
hspz_walk_end(struct hspz_walk *walk)
{
    hspz_collect_fini(&walk->collect);
}

/* ---- places ---- */

/* Whether no HSPs are kept, nor some of a chunk's hits extended, nor is anything to be found again
 * that was given out. */
static bool
keeps_nothing(const struct hspz_walk *walk)
{
    if (walk->skip > 0 || walk->at.stage == HSPZ_STAGE_SETTLE ||
        walk->at.stage == HSPZ_STAGE_SEND) {
        return false;
    }
    if (!hspz_walk_wants_hsps(walk) || walk->at.stage == HSPZ_STAGE_CHECK ||
        walk->at.stage == HSPZ_STAGE_DONE) {
        return true;
    }
    if (!in_job_scope(walk)) {
        return walk->at.sent == walk->at.chunk.hit_end;
    }
    /* A strand's begin, where one comes after the other. */
    return walk->plan.interval == 0 && walk->at.stage == HSPZ_STAGE_SEEDS &&
           walk->at.place.batch == 0 && walk->at.block == 0 && !walk->at.seeding &&
           !walk->at.lost && !walk->at.seeds_known;
}

static void
keep_place(struct hspz_walk *walk, const struct hspz_part *part)
{
    if (keeps_nothing(walk)) {
        walk->kept = walk->at;
    } else if (part->kind == HSPZ_STEP_HSPS) {
        walk->kept.hsps += part->count;
        walk->kept.hsp_part = part->id.last_part ? 0 : part->id.part + 1;
    }
}

/* ---- check ---- */

static void
open_batch(struct hspz_walk *walk)
{
    walk->at.windows = hspz_plan_windows(&walk->plan, &walk->at.place);
    walk->at.block = 0;
    walk->at.seeds_known = false;
    walk->at.stage = HSPZ_STAGE_SEEDS;
}

static enum hspz_status
step_check(struct hspz_walk *walk, struct hspz_error *err)
{
    const struct hspz_span bases = walk->spec.bases;
    const uint64_t rest = bases.len - walk->checked;
    const uint64_t stop = walk->checked + (rest < CHECK_BASES ? rest : CHECK_BASES);
    const enum hspz_status status = hspz_refuse_bases(bases, walk->checked, stop, err);
    if (status != HSPZ_OK) {
        return status;
    }
    walk->checked = stop;
    if (stop == bases.len) {
        walk->at.stage = HSPZ_STAGE_DONE;
        if (hspz_plan_first(&walk->plan, &walk->at.place)) {
            open_batch(walk);
        }
    }
    return HSPZ_OK;
}

/* ---- seeds, count ---- */

static struct hspz_strand_totals *
totals_of(struct hspz_walk *walk)
{
    return &walk->at.totals.strand[walk->at.place.strand];
}

static void
begin_count(struct hspz_walk *walk)
{
    walk->count = (struct hspz_walk_count){.bad = HSPZ_NO_BAD_SEED};
    walk->at.stage = HSPZ_STAGE_COUNT;
}

/* Counting has got further: refuses, or at a block's end accounts for its hits. */
static enum hspz_status
know_count(struct hspz_walk *walk, struct hspz_error *err)
{
    const struct hspz_refused_batch batch = {
        .interval = walk->plan.interval != 0 ? walk->at.place.interval : UINT64_MAX,
        .batch = walk->at.place.batch,
        .strand = walk->at.place.strand,
        .block = walk->at.block,
    };
    const uint64_t hits = walk->count.hits, bad = walk->count.bad;
    if (!walk->at.seeds_known) {
        walk->at.seeds_known = true;
        totals_of(walk)->batches += walk->count.seeds > 0;
        totals_of(walk)->seeds += walk->count.seeds;
    }
    if (bad != HSPZ_NO_BAD_SEED) {
        uint64_t seed;
        memcpy(&seed, walk->spec.seeds + bad * sizeof(seed), sizeof(seed));
        return hspz_refuse_seed(&walk->shape, bad, seed, err);
    }
    if (walk->count.counted < walk->count.seeds) {
        return HSPZ_OK;
    }
    if (hits > HSPZ_HITS_LIMIT) {
        return hspz_refuse_batch_hits(batch, hits, err);
    }
    walk->at.stage = HSPZ_STAGE_EXPAND;
    if (walk->at.hits_known) {
        return HSPZ_OK;
    }
    if (hits > walk->spec.hit_limit - walk->at.all_hits) {
        return hspz_refuse_job_hits(batch, walk->at.all_hits + hits, walk->spec.hit_limit, err);
    }
    walk->at.hits_known = true;
    walk->at.all_hits += hits;
    totals_of(walk)->hits += hits;
    walk->at.chunk = (struct hspz_chunk){0};
    walk->at.chunk_number = 0;
    walk->at.sent = 0;
    return HSPZ_OK;
}

static enum hspz_status
step_count(const struct step *s)
{
    enum hspz_status status = s->ops->count(s->user, &s->walk->count);
    if (status == HSPZ_OK) {
        status = know_count(s->walk, s->err);
    }
    const bool counted = status == HSPZ_OK && s->walk->at.stage == HSPZ_STAGE_EXPAND;
    return counted && s->ops->counted != NULL ? s->ops->counted(s->user) : status;
}

static enum hspz_status
step_seeds(const struct step *s)
{
    s->walk->at.seeding = true;
    bool more = false;
    const enum hspz_status status = s->ops->seeds(s->user, &more);
    if (status != HSPZ_OK || more) {
        return status;
    }
    s->walk->at.seeding = false;
    begin_count(s->walk);
    return s->ops->counts_at_once ? step_count(s) : HSPZ_OK;
}

/* ---- expand ---- */

static void
next_batch(struct hspz_walk *walk)
{
    if (hspz_plan_next(&walk->plan, &walk->at.place)) {
        open_batch(walk);
    } else {
        walk->at.stage = HSPZ_STAGE_DONE;
    }
}

/* The next block of this batch, the HSPs of a strand that is through, the next batch, or the end.
 */
static void
next_block(struct hspz_walk *walk)
{
    walk->at.hits_known = false;
    if (++walk->at.block < walk->block_count) {
        begin_count(walk);
    } else if (hspz_walk_wants_hsps(walk) && in_job_scope(walk) &&
               hspz_plan_ends_strand(&walk->plan, &walk->at.place)) {
        walk->at.block = 0;
        walk->at.stage = HSPZ_STAGE_SETTLE;
    } else {
        next_batch(walk);
    }
}

static void
begin_chunk(struct hspz_walk *walk)
{
    walk->at.chunk_number++;
    walk->at.part_number = 0;
    totals_of(walk)->chunks++;
}

static void
fill_part(struct hspz_walk *walk, uint64_t count, size_t bytes, struct hspz_part *part)
{
    part->kind = HSPZ_STEP_ANCHORS;
    part->count = count;
    part->bytes = bytes;
    part->id = (struct hspz_part_id){
        .interval = (uint32_t)walk->at.place.interval,
        .strand = walk->at.place.strand,
        .batch = (uint32_t)walk->at.place.batch,
        .ref_block = (uint32_t)walk->at.block,
        .chunk = walk->at.chunk_number - 1,
        .part = walk->at.part_number++,
        .last_part = walk->at.sent + count == walk->at.chunk.hit_end,
        .seed_begin = walk->at.chunk.seed_begin,
        .seed_end = walk->at.chunk.seed_end,
        .hit_begin = walk->at.sent,
        .hit_end = walk->at.sent + count,
    };
    walk->at.sent += count;
}

/* Moves on to the next chunk when the one under way is sent; *more is false when there is none. */
static enum hspz_status
open_chunk(const struct step *s, bool *more)
{
    *more = true;
    if (s->walk->at.sent < s->walk->at.chunk.hit_end) {
        return HSPZ_OK;
    }
    const enum hspz_status status = s->ops->cut(s->user, &s->walk->at.chunk, more);
    if (status == HSPZ_OK && *more) {
        begin_chunk(s->walk);
    }
    return status;
}

/* Extends some of the chunk's hits. */
static enum hspz_status
extend(const struct step *s)
{
    struct hspz_walk *walk = s->walk;
    struct hspz_hsp_set *set;
    uint64_t count;
    enum hspz_status status =
        hspz_collect_open(&walk->collect, walk->at.place.strand, walk->at.block, &set, s->err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = s->ops->extend(s->user, walk->at.sent, walk->at.chunk.hit_end, set, &count);
    if (status == HSPZ_E_TOO_LARGE) {
        return hspz_collect_refuse(&walk->collect, s->err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    walk->at.sent += count;
    if (walk->at.sent == walk->at.chunk.hit_end && !in_job_scope(walk)) {
        walk->at.stage = HSPZ_STAGE_SETTLE;
    }
    return HSPZ_OK;
}

static enum hspz_status
expand(const struct step *s, uint64_t wanted)
{
    const uint64_t begin = s->walk->at.sent;
    uint64_t count;
    const enum hspz_status status =
        s->ops->expand(s->user, begin, begin + wanted, s->part->anchors, &count);
    if (status == HSPZ_OK) {
        fill_part(s->walk, count, count * HSPZ_ANCHOR_BYTES, s->part);
    }
    return status;
}

static enum hspz_status
expand_columns(const struct step *s, uint64_t wanted)
{
    const uint64_t begin = s->walk->at.sent;
    const size_t room = s->part->capacity * HSPZ_ANCHOR_BYTES;
    uint64_t count;
    size_t used;
    const enum hspz_status status =
        s->ops->columns(s->user, begin, begin + wanted, s->part->anchors, room, &count, &used);
    if (status == HSPZ_OK) {
        fill_part(s->walk, count, used, s->part);
    }
    return status;
}

static enum hspz_status
step_expand(const struct step *s)
{
    struct hspz_walk *walk = s->walk;
    bool more;
    enum hspz_status status = open_chunk(s, &more);
    if (status != HSPZ_OK) {
        return status;
    }
    if (!more) {
        next_block(walk);
        return HSPZ_OK;
    }
    if (hspz_walk_wants_hsps(walk)) {
        return extend(s);
    }
    const uint64_t rest = walk->at.chunk.hit_end - walk->at.sent;
    const uint64_t wanted = rest < s->part->capacity ? rest : s->part->capacity;
    return walk->spec.encoding == HSPZ_ENCODING_COLUMNAR ? expand_columns(s, rest)
                                                         : expand(s, wanted);
}

/* ---- settle, send ---- */

static enum hspz_status
step_settle(struct hspz_walk *walk, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_collect_settle(&walk->collect, walk->at.place.strand, walk->at.block, err);
    if (status == HSPZ_OK) {
        walk->at.stage = HSPZ_STAGE_SEND;
    }
    return status;
}

/* Of a part those that were given out before this job went on for another. */
static void
leave_out(struct hspz_walk *walk, struct hspz_part *part)
{
    const size_t n = walk->skip < part->count ? (size_t)walk->skip : part->count;
    struct hspz_hsp *const hsps = (struct hspz_hsp *)(void *)part->anchors;
    walk->skip -= n;
    part->count -= n;
    part->id.hit_begin += n;
    memmove(hsps, hsps + n, part->count * sizeof(*hsps));
    if (walk->skip == 0 && (part->count > 0 || !part->id.last_part)) {
        part->id.part = walk->kept.hsp_part;
        walk->collect.part_number = part->id.part + (part->count > 0);
    }
    if (part->count == 0) {
        part->kind = HSPZ_STEP_WORKED;
    }
}

static void
step_send(struct hspz_walk *walk, struct hspz_part *part)
{
    struct hspz_part_id id = {.strand = walk->at.place.strand,
                              .ref_block = (uint32_t)walk->at.block};
    if (!in_job_scope(walk)) {
        id.interval = (uint32_t)walk->at.place.interval;
        id.batch = (uint32_t)walk->at.place.batch;
        id.chunk = walk->at.chunk_number - 1;
        id.seed_begin = walk->at.chunk.seed_begin;
        id.seed_end = walk->at.chunk.seed_end;
    }
    if (hspz_collect_send(&walk->collect, &id, part)) {
        totals_of(walk)->hsps += part->count;
        if (walk->skip > 0) {
            leave_out(walk, part);
        }
        part->bytes = part->count * HSPZ_HSP_BYTES;
    } else if (!in_job_scope(walk)) {
        walk->at.stage = walk->at.lost ? HSPZ_STAGE_SEEDS : HSPZ_STAGE_EXPAND;
    } else if (++walk->at.block < walk->block_count) {
        walk->at.stage = HSPZ_STAGE_SETTLE;
    } else {
        next_batch(walk);
    }
}

/* ---- step ---- */

/* *done is false when the batch is not so small after all and has to take the long way. */
static enum hspz_status
step_small(const struct step *s, bool *done)
{
    struct hspz_walk *walk = s->walk;
    const size_t capacity =
        s->part->capacity < walk->spec.max_hits ? s->part->capacity : (size_t)walk->spec.max_hits;
    *done = false;
    walk->count = (struct hspz_walk_count){.bad = HSPZ_NO_BAD_SEED};
    enum hspz_status status =
        s->ops->small(s->user, s->part->anchors, capacity, &walk->count, done);
    if (status != HSPZ_OK || !*done) {
        return status;
    }
    const uint64_t hits = walk->count.hits;
    status = know_count(walk, s->err);
    if (status == HSPZ_OK && hits > 0) {
        walk->at.chunk = (struct hspz_chunk){.seed_end = walk->count.seeds, .hit_end = hits};
        begin_chunk(walk);
        fill_part(walk, hits, hits * HSPZ_ANCHOR_BYTES, s->part);
    }
    if (status == HSPZ_OK) {
        next_block(walk);
    }
    return status;
}

static enum hspz_status
resume(const struct step *s)
{
    struct hspz_walk *walk = s->walk;
    const bool expanding = walk->at.hits_known;
    enum hspz_status status;
    do {
        status = walk->at.stage == HSPZ_STAGE_SEEDS ? step_seeds(s) : step_count(s);
    } while (status == HSPZ_OK && walk->at.stage != HSPZ_STAGE_EXPAND);
    if (status != HSPZ_OK) {
        return status;
    }
    walk->at.lost = false;
    return expanding ? step_expand(s) : HSPZ_OK;
}

static enum hspz_status
step_batch(const struct step *s)
{
    if (s->walk->at.lost) {
        return resume(s);
    }
    const bool fresh = s->walk->at.stage == HSPZ_STAGE_SEEDS && !s->walk->at.seeding;
    if (fresh && s->walk->block_count == 1 && s->ops->small != NULL &&
        !hspz_walk_wants_hsps(s->walk) && s->walk->spec.encoding == HSPZ_ENCODING_PACKED) {
        bool done;
        const enum hspz_status status = step_small(s, &done);
        if (status != HSPZ_OK || done) {
            return status;
        }
    }
    switch (s->walk->at.stage) {
    case HSPZ_STAGE_SEEDS:
        return step_seeds(s);
    case HSPZ_STAGE_COUNT:
        return step_count(s);
    default:
        return step_expand(s);
    }
}

static enum hspz_status
step_any(const struct step *s)
{
    switch (s->walk->at.stage) {
    case HSPZ_STAGE_CHECK:
        return step_check(s->walk, s->err);
    case HSPZ_STAGE_SETTLE:
        return step_settle(s->walk, s->err);
    case HSPZ_STAGE_SEND:
        step_send(s->walk, s->part);
        return HSPZ_OK;
    case HSPZ_STAGE_DONE:
        s->part->kind = HSPZ_STEP_DONE;
        return HSPZ_OK;
    default:
        return step_batch(s);
    }
}

enum hspz_status
hspz_walk_step(struct hspz_walk *walk, const struct hspz_walk_ops *ops, void *user,
               struct hspz_part *part, struct hspz_error *err)
{
    const struct step s = {walk, ops, user, part, err};
    const bool columnar = walk->spec.encoding == HSPZ_ENCODING_COLUMNAR;
    HSPZ_REQUIRE(part->capacity >= (columnar || hspz_walk_wants_hsps(walk) ? 2u : 1u));
    part->count = part->bytes = 0;
    part->kind = HSPZ_STEP_WORKED;
    const enum hspz_status status = step_any(&s);
    if (status == HSPZ_OK) {
        keep_place(walk, part);
    }
    return status;
}
