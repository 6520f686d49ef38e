#include "client/hit_run.h"

#include "client/socket.h"
#include "engine/cpu/seeder.h"
#include "protocol/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PART_ANCHORS (HSPZ_PART_BYTES_LIMIT / HSPZ_ANCHOR_BYTES)

/* One batch of one strand, while its parts come. */
struct batch {
    struct hspz_hit_run *run;
    enum hspz_strand strand;
    uint32_t number;
    size_t seeds;
    hspz_part_fn part;
    void *user;
    struct hspz_error failure;
};

enum hspz_status
hspz_hit_run_init(struct hspz_hit_run *run, struct hspz_client *client, const char *shape,
                  struct hspz_hit_stats *stats, struct hspz_error *err)
{
    *run = (struct hspz_hit_run){.client = client, .stats = stats, .begun_ms = hspz_clock_ms()};
    const enum hspz_status status = hspz_shape_parse(shape, strlen(shape), &run->shape, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const size_t most =
        (size_t)HSPZ_BATCH_POSITIONS * hspz_shape_seeds_per_position(&run->shape, true);
    run->seeds = malloc(most * sizeof(*run->seeds));
    run->positions = malloc(most * sizeof(*run->positions));
    run->launch = calloc(most, sizeof(*run->launch));
    run->totals = malloc(most * sizeof(*run->totals));
    run->anchors = malloc(MOST_PART_ANCHORS * sizeof(*run->anchors));
    if (run->seeds == NULL || run->positions == NULL || run->launch == NULL ||
        run->totals == NULL || run->anchors == NULL) {
        hspz_hit_run_fini(run);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count hits");
    }
    return HSPZ_OK;
}

void
hspz_hit_run_fini(struct hspz_hit_run *run)
{
    free(run->seeds);
    free(run->positions);
    free(run->launch);
    free(run->totals);
    free(run->anchors);
    *run = (struct hspz_hit_run){0};
}

/* The chunk is whole: its launch is counted, its hits go to the batch's. */
static void
end_chunk(struct hspz_hit_run *run, const struct hspz_part_id *id)
{
    uint32_t *const launch = run->launch + id->seed_begin;
    const size_t count = (size_t)(id->seed_end - id->seed_begin);
    hspz_hit_stats_launch(run->stats, launch, count);
    for (size_t i = 0; i < count; i++) {
        run->totals[id->seed_begin + i] += launch[i];
    }
    memset(launch, 0, count * sizeof(*launch));
}

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct batch *batch = user;
    struct hspz_hit_run *run = batch->run;
    const struct hspz_part_id *id = &part->id;
    const size_t count = part->count;
    const uint32_t span = run->shape.span;
    if (id->seed_end > batch->seeds || id->seed_begin > id->seed_end || count > MOST_PART_ANCHORS) {
        hspz_error_set(&batch->failure, HSPZ_E_BAD_PEER,
                       "a part is of seeds %" PRIu64 " to %" PRIu64 ", and %zu were sent",
                       id->seed_begin, id->seed_end, batch->seeds);
        return false;
    }
    uint8_t *to = (uint8_t *)run->anchors;
    for (size_t i = 0; i < count; i++) {
        const uint64_t anchor = hspz_anchor_at(part->records, i);
        const uint64_t seed = (uint64_t)HSPZ_ANCHOR_QUERY(anchor) - span;
        if (seed < id->seed_begin || seed >= id->seed_end) {
            hspz_error_set(&batch->failure, HSPZ_E_BAD_PEER,
                           "an anchor is of no seed of its chunk: query %" PRIu32,
                           HSPZ_ANCHOR_QUERY(anchor));
            return false;
        }
        run->launch[seed]++;
        const uint32_t place[2] = {HSPZ_ANCHOR_REF(anchor), run->positions[seed] + span};
        for (size_t b = 0; b < HSPZ_ANCHOR_BYTES; b++) {
            *to++ = (uint8_t)(place[b / 4] >> 8 * (b % 4));
        }
    }
    if (id->last_part) {
        end_chunk(run, id);
    }
    struct hspz_part_view placed = {
        .id = *id, .records = (const uint8_t *)run->anchors, .count = count};
    placed.id.strand = batch->strand;
    placed.id.batch = batch->number;
    return batch->part == NULL || batch->part(batch->user, &placed);
}

/* What is left of the request's deadline for this call. */
static enum hspz_status
set_deadline(const struct hspz_hit_run *run, struct hspz_discover_request *request,
             struct hspz_error *err)
{
    const int64_t gone = hspz_clock_ms() - run->begun_ms;
    if (request->deadline_ms == 0) {
        return HSPZ_OK;
    }
    if (gone >= (int64_t)request->deadline_ms) {
        return hspz_error_set(err, HSPZ_E_DEADLINE_EXCEEDED, "the deadline has passed");
    }
    request->deadline_ms -= (uint64_t)gone;
    return HSPZ_OK;
}

static enum hspz_status
run_batch(struct batch *batch, const struct hspz_discover_request *whole, uint64_t *hit_limit,
          struct hspz_error *err)
{
    struct hspz_hit_run *run = batch->run;
    struct hspz_discover_request request = *whole;
    struct hspz_discover_summary summary;
    for (size_t i = 0; i < batch->seeds; i++) {
        run->positions[i] = HSPZ_SEED_QUERY(run->seeds[i]);
        run->seeds[i] = (uint64_t)HSPZ_SEED_WORD(run->seeds[i]) << 32 | i;
        run->totals[i] = 0;
    }
    uint8_t *bytes = (uint8_t *)run->seeds;
    for (size_t i = 0; i < batch->seeds; i++) {
        const uint64_t seed = run->seeds[i];
        for (size_t b = 0; b < HSPZ_SEED_BYTES; b++) {
            bytes[i * HSPZ_SEED_BYTES + b] = (uint8_t)(seed >> 8 * b);
        }
    }
    request.given_seeds = true;
    request.seeds = (struct hspz_span){.bytes = bytes, .len = batch->seeds * HSPZ_SEED_BYTES};
    request.bases = (struct hspz_span){0};
    request.hit_limit = *hit_limit;
    enum hspz_status status = set_deadline(run, &request, err);
    if (status == HSPZ_OK) {
        status = hspz_client_discover(run->client, &request, take_part, batch, &summary, err);
        run->calls++;
    }
    if (status == HSPZ_E_STOPPED && batch->failure.status != HSPZ_OK) {
        *err = batch->failure;
        return err->status;
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (*hit_limit != UINT64_MAX) {
        *hit_limit -= summary.anchors < *hit_limit ? summary.anchors : *hit_limit;
    }
    return hspz_hit_stats_add(run->stats, run->totals, batch->seeds, err);
}

enum hspz_status
hspz_hit_run_query(struct hspz_hit_run *run, const struct hspz_discover_request *request,
                   uint64_t *hit_limit, hspz_part_fn part, void *user, struct hspz_error *err)
{
    const uint64_t positions = hspz_seeder_positions(&run->shape, request->bases.len);
    for (int strand = 0; strand < 2; strand++) {
        if (((unsigned)request->strands & (1u << strand)) == 0) {
            continue;
        }
        const struct hspz_seeder seeder = {.shape = &run->shape,
                                           .query = request->bases,
                                           .strand = (enum hspz_strand)strand,
                                           .transitions = request->transitions,
                                           .unmask = request->unmask};
        for (uint64_t begin = 0; begin < positions; begin += HSPZ_BATCH_POSITIONS) {
            const uint64_t end =
                positions - begin < HSPZ_BATCH_POSITIONS ? positions : begin + HSPZ_BATCH_POSITIONS;
            struct batch batch = {.run = run,
                                  .strand = seeder.strand,
                                  .number = (uint32_t)(begin / HSPZ_BATCH_POSITIONS),
                                  .part = part,
                                  .user = user};
            batch.seeds = (size_t)hspz_seeder_make(&seeder, begin, end, run->seeds);
            const enum hspz_status status =
                batch.seeds > 0 ? run_batch(&batch, request, hit_limit, err) : HSPZ_OK;
            if (status != HSPZ_OK) {
                return status;
            }
        }
    }
    return HSPZ_OK;
}
