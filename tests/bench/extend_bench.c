/* Extension on the CPU engine: discovers a query against an index file of one block, extends every
 * hit and prints seconds of both as JSON lines.
 *
 *   extend_bench INDEX QUERY [threads...]
 */
#include "engine/cpu/cpu_extend.h"
#include "engine/engine.h"
#include "engine/score.h"
#include "engine/sequence_file.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_ANCHORS (1u << 17)

struct bench {
    const struct hspz_index *index;
    struct hspz_span query;
    struct hspz_scoring scoring;
    struct hspz_pool *pool;
    struct hspz_hsp_set sets[2]; /* of strands */
    struct hspz_cpu_extender *extender;
    struct hspz_part_id at; /* what the extender is for */
    uint64_t anchors;
    double discover_s, extend_s;
};

static enum hspz_status
extend_part(struct bench *b, const struct hspz_part *part, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    if (b->extender == NULL || b->at.batch != part->id.batch || b->at.strand != part->id.strand) {
        const struct hspz_index_block block = hspz_index_get_block(b->index, 0);
        const struct hspz_cpu_extend_spec spec = {.ref = {block.bases, block.bases_len},
                                                  .ref_unmask = true,
                                                  .query = b->query,
                                                  .strand = part->id.strand,
                                                  .query_unmask = true,
                                                  .scoring = &b->scoring};
        hspz_cpu_extender_destroy(&b->extender);
        status = hspz_cpu_extender_create(&spec, &b->extender, err);
        b->at = part->id;
    }
    for (size_t at = 0; status == HSPZ_OK && at < part->count;) {
        size_t extended = 0;
        status = hspz_cpu_extend(b->extender, b->pool, part->anchors + at, part->count - at,
                                 &b->sets[part->id.strand], &extended, err);
        at += extended;
    }
    return status;
}

static enum hspz_status
run(struct bench *b, struct hspz_engine *engine, struct hspz_index *index,
    const struct hspz_job_spec *spec, struct hspz_error *err)
{
    const struct hspz_engine_ops *ops = &hspz_cpu_engine;
    struct hspz_ref *ref = NULL;
    struct hspz_lane *lane = NULL;
    struct hspz_job *job = NULL;
    void *buffer = NULL;
    struct hspz_part part = {.capacity = PART_ANCHORS};
    enum hspz_status status = ops->load(engine, index, &ref, err);
    if (status == HSPZ_OK) {
        status = ops->lane_open(engine, 0, &lane, err);
    }
    if (status == HSPZ_OK) {
        status = ops->buffer_create(engine, PART_ANCHORS * sizeof(uint64_t), &buffer);
    }
    if (status == HSPZ_OK) {
        status = ops->job_begin(engine, ref, spec, &job, err);
    }
    part.anchors = buffer;
    while (status == HSPZ_OK && part.kind != HSPZ_STEP_DONE) {
        const double begin = now_s();
        status = ops->job_step(lane, job, &part, err);
        const double middle = now_s();
        if (status == HSPZ_OK && part.count > 0) {
            status = extend_part(b, &part, err);
        }
        b->discover_s += middle - begin;
        b->extend_s += now_s() - middle;
        b->anchors += part.count;
    }
    const double begin = now_s();
    for (int i = 0; i < 2 && status == HSPZ_OK; i++) {
        status = hspz_hsp_set_settle(&b->sets[i], err);
    }
    b->extend_s += now_s() - begin;
    ops->job_end(&job);
    if (buffer != NULL) {
        ops->buffer_destroy(engine, &buffer);
    }
    ops->lane_close(&lane);
    ops->unload(&ref);
    return status;
}

static enum hspz_status
measure(struct hspz_index *index, struct hspz_span query, unsigned threads, struct hspz_error *err)
{
    struct hspz_engine *engine = NULL;
    struct bench b = {.index = index, .query = query};
    const struct hspz_job_spec spec = {.bases = query,
                                       .strands = HSPZ_STRANDS_BOTH,
                                       .transitions = true,
                                       .unmask = true,
                                       .end = UINT64_MAX,
                                       .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                       .hit_limit = UINT64_MAX,
                                       .keep_words = HSPZ_KEEP_ALL,
                                       .max_word_count = UINT64_MAX};
    hspz_scoring_init(&b.scoring);
    hspz_hsp_set_init(&b.sets[0], HSPZ_SCOPE_JOB, UINT64_MAX);
    hspz_hsp_set_init(&b.sets[1], HSPZ_SCOPE_JOB, UINT64_MAX);
    enum hspz_status status = hspz_pool_create(threads, &b.pool);
    if (status == HSPZ_OK) {
        status =
            hspz_cpu_engine.open(&(struct hspz_engine_config){.threads = threads}, &engine, err);
    }
    if (status == HSPZ_OK) {
        status = run(&b, engine, index, &spec, err);
        printf("{\"threads\": %u, \"anchors\": %" PRIu64
               ", \"hsps\": %zu, \"discover_s\": %.3f, \"extend_s\": %.3f}\n",
               threads, b.anchors, b.sets[0].count + b.sets[1].count, b.discover_s, b.extend_s);
    }
    if (engine != NULL) {
        hspz_cpu_engine.close(&engine);
    }
    hspz_cpu_extender_destroy(&b.extender);
    hspz_hsp_set_fini(&b.sets[0]);
    hspz_hsp_set_fini(&b.sets[1]);
    hspz_pool_destroy(&b.pool);
    return status;
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: extend_bench INDEX QUERY [threads...]\n");
        return 2;
    }
    struct hspz_error err = {0};
    struct hspz_index *index = NULL;
    struct hspz_sequences *query = NULL;
    enum hspz_status status = hspz_index_read(argv[1], NULL, 0, NULL, NULL, &index, &err);
    if (status == HSPZ_OK) {
        status = hspz_sequence_file_read(argv[2], 0, NULL, NULL, &query, &err);
    }
    for (int i = argc > 3 ? 3 : 2; i < argc && status == HSPZ_OK; i++) {
        const struct hspz_block block = hspz_sequences_block(query, 0);
        status = measure(index, (struct hspz_span){block.bases, block.len},
                         argc > 3 ? (unsigned)atoi(argv[i]) : 1, &err);
    }
    if (status != HSPZ_OK) {
        fprintf(stderr, "extend_bench: %s\n", err.text);
    }
    hspz_sequences_destroy(&query);
    hspz_index_release(&index);
    return status == HSPZ_OK ? 0 : 1;
}
