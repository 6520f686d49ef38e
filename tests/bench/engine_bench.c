/* The engine alone: discovers a query against an index file and prints rates as JSON lines.
 *
 *   engine_bench INDEX QUERY [threads...]
 *
 * One run a thread count after one warm-up; anchors are written to one buffer and dropped. */
#include "engine/engine.h"
#include "engine/sequence_file.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_ANCHORS (1u << 17)

static enum hspz_status
run(const struct hspz_engine_ops *ops, struct hspz_engine *engine, struct hspz_index *index,
    const struct hspz_job_spec *spec, uint64_t *anchors, double *seconds, struct hspz_error *err)
{
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
    const double start = now_s();
    *anchors = 0;
    part.anchors = buffer;
    while (status == HSPZ_OK && part.kind != HSPZ_STEP_DONE) {
        status = ops->job_step(lane, job, &part, err);
        *anchors += part.count;
    }
    *seconds = now_s() - start;
    ops->job_end(&job);
    if (buffer != NULL) {
        ops->buffer_destroy(engine, &buffer);
    }
    ops->lane_close(&lane);
    ops->unload(&ref);
    return status;
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: engine_bench INDEX QUERY [threads...]\n");
        return 2;
    }
    struct hspz_error err = {0};
    struct hspz_index *index = NULL;
    struct hspz_sequences *query = NULL;
    enum hspz_status status = hspz_index_read(argv[1], NULL, 0, NULL, NULL, &index, &err);
    if (status == HSPZ_OK) {
        status = hspz_sequence_file_read(argv[2], 0, NULL, NULL, &query, &err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_block block = hspz_sequences_block(query, 0);
        const struct hspz_job_spec spec = {.bases = {block.bases, block.len},
                                           .strands = HSPZ_STRANDS_BOTH,
                                           .transitions = true,
                                           .unmask = true,
                                           .end = UINT64_MAX,
                                           .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                           .hit_limit = UINT64_MAX,
                                           .keep_words = HSPZ_KEEP_ALL,
                                           .max_word_count = UINT64_MAX};
        for (int i = argc > 3 ? 3 : 2; i < argc && status == HSPZ_OK; i++) {
            const unsigned threads = argc > 3 ? (unsigned)atoi(argv[i]) : 1;
            struct hspz_engine *engine = NULL;
            uint64_t anchors = 0;
            double seconds = 0;
            status = hspz_cpu_engine.open(&(struct hspz_engine_config){.threads = threads}, &engine,
                                          &err);
            for (int round = 0; round < 2 && status == HSPZ_OK; round++) {
                status = run(&hspz_cpu_engine, engine, index, &spec, &anchors, &seconds, &err);
            }
            printf("{\"threads\": %u, \"anchors\": %" PRIu64 ", \"seconds\": %.3f}\n", threads,
                   anchors, seconds);
            hspz_cpu_engine.close(&engine);
        }
    }
    if (status != HSPZ_OK) {
        fprintf(stderr, "engine_bench: %s\n", err.text);
    }
    hspz_sequences_destroy(&query);
    hspz_index_release(&index);
    return status == HSPZ_OK ? 0 : 1;
}
