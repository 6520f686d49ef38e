/* HSPs of a pair of genomes on a card: the kernels beside each other and beside a floor, then whole
 * jobs.
 *
 *   hsps_bench [--unmask] [--kegalign RATE] REFERENCE QUERY
 *
 * Both are read whole; the reference is indexed with 12of19. RATE is what KegAlign's extension does
 * on the pair, in 10^9 hits a second. The floor is the time of reading each anchor once at the rate
 * of a copy, and two sectors of the reference at the rate of random ones. Whole jobs are run with
 * the rule that drops hits for earlier ones and without, which must give the same bytes. */
#include "engine/cuda/batch_p.h"
#include "engine/cuda/extend.h"
#include "engine/cuda/resident.h"
#include "engine/score.h"
#include "engine/sequence_file.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/floors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_ANCHORS (UINT64_C(1) << 20)
#define COPY_BYTES (UINT64_C(1) << 30)
#define GATHERS (UINT64_C(1) << 28)

enum phase { PHASE_EXPAND, PHASE_GATE, PHASE_EXTEND, PHASE_SORT, PHASES };

struct bench {
    struct hspz_cuda_device device;
    struct hspz_lane *lane;
    struct hspz_ref *ref;
    struct hspz_cuda_scratch *scratch;
    struct hspz_cuda_batch batch;
    struct hspz_cuda_tuning tuning;
    struct hspz_error err;
    struct hspz_cuda_run run;
    cudaEvent_t marks[PHASES + 1];
    struct hspz_job_spec spec;
    double ms[PHASES];
    uint64_t hits, left, hsps, unique, overflows;
};

/* ---- kernels ---- */

static void
mark(struct bench *b, enum phase phase)
{
    must_cuda(cudaEventRecord(b->marks[phase], b->lane->work));
}

static void
add_times(struct bench *b, enum phase first, enum phase last)
{
    must_cuda(cudaStreamSynchronize(b->lane->work));
    for (int p = (int)first; p <= (int)last; p++) {
        float ms;
        must_cuda(cudaEventElapsedTime(&ms, b->marks[p], b->marks[p + 1]));
        b->ms[p] += (double)ms;
    }
}

static void
read_counters(const struct bench *b, uint64_t counters[3])
{
    must_cuda(cudaMemcpy(counters, b->scratch->counters.data, 3 * sizeof(uint64_t),
                         cudaMemcpyDeviceToHost));
}

static void
sort_hsps(struct bench *b, uint64_t count)
{
    struct hspz_cuda_scratch *scratch = b->scratch;
    uint64_t counters[3];
    b->hsps += count;
    if (count == 0) {
        return;
    }
    mark(b, PHASE_SORT);
    must_cuda(hspz_cuda_launch_hsps_unique(scratch->hsps[0].data, count, scratch->hsps[1].data,
                                           (unsigned long long *)scratch->counters.data + 2,
                                           scratch->hsps_temp.data, scratch->hsps_temp.bytes,
                                           b->lane->work));
    must_cuda(cudaEventRecord(b->marks[PHASES], b->lane->work));
    add_times(b, PHASE_SORT, PHASE_SORT);
    read_counters(b, counters);
    b->unique += counters[2];
}

/* All hits of the batch that was placed. */
static void
time_batch(struct bench *b, const struct hspz_cuda_extend *how)
{
    must(hspz_cuda_extend_open(&b->run, how), &b->err);
    const struct hspz_cuda_extension extension = hspz_cuda_extension_of(&b->run, how);
    unsigned long long *const counts = b->scratch->counters.data;
    const struct hspz_cuda_anchors left = {b->scratch->left.data, &counts[0]};
    const struct hspz_cuda_hsp_list hsps = {b->scratch->hsps[0].data, &counts[1],
                                            b->batch.extend_hsps};
    const uint64_t len = b->batch.window_len;
    uint64_t counters[3] = {0};
    for (uint64_t at = 0; at < b->batch.hits; at += len) {
        const uint64_t rest = b->batch.hits - at;
        const bool full = counters[1] >= b->batch.extend_hsps / 2;
        if (full) {
            sort_hsps(b, counters[1]);
        }
        must_cuda(cudaMemsetAsync(counts, 0, (full || at == 0 ? 2 : 1) * sizeof(uint64_t),
                                  b->lane->work));
        mark(b, PHASE_EXPAND);
        must(hspz_cuda_batch_expand_window(&b->run, at / len), &b->err);
        mark(b, PHASE_GATE);
        must_cuda(hspz_cuda_launch_gate(&extension, b->scratch->anchors[at / len & 1].data,
                                        rest < len ? rest : len, &left, b->lane->work));
        mark(b, PHASE_EXTEND);
        must_cuda(hspz_cuda_launch_extend(&extension, &left, &hsps, b->device.multiprocessors,
                                          b->lane->work));
        mark(b, PHASE_SORT);
        add_times(b, PHASE_EXPAND, PHASE_EXTEND);
        read_counters(b, counters);
        b->left += counters[0];
        if (counters[1] > b->batch.extend_hsps) {
            b->overflows++;
            counters[1] = b->batch.extend_hsps;
        }
    }
    sort_hsps(b, counters[1]);
    b->hits += b->batch.hits;
}

static void
time_strand(struct bench *b, enum hspz_strand strand)
{
    const struct hspz_shape *shape = &hspz_index_get_params(b->ref->index)->shape;
    const uint64_t windows = b->spec.bases.len - shape->span + 1;
    const struct hspz_cuda_extend how = {.shape = shape,
                                         .query = b->spec.bases,
                                         .strand = strand,
                                         .transitions = b->spec.transitions,
                                         .query_unmask = b->spec.unmask,
                                         .scoring = &b->spec.scoring,
                                         .all_hits = true};
    for (uint64_t at = 0; at < windows; at += HSPZ_BATCH_POSITIONS) {
        const uint64_t rest = windows - at;
        const struct hspz_cuda_stretch stretch = {
            .shape = shape,
            .query = b->spec.bases,
            .strand = strand,
            .transitions = b->spec.transitions,
            .unmask = b->spec.unmask,
            .begin = at,
            .end = at + (rest < HSPZ_BATCH_POSITIONS ? rest : HSPZ_BATCH_POSITIONS)};
        must(hspz_cuda_batch_query(&b->run, &stretch), &b->err);
        must(hspz_cuda_batch_count(&b->run, UINT64_MAX), &b->err);
        must(hspz_cuda_batch_place(&b->run), &b->err);
        if (b->batch.hits > 0) {
            time_batch(b, &how);
        }
    }
}

/* ---- floors ---- */

static double
time_call(struct bench *b, cudaError_t (*call)(struct bench *, void *, void *), void *x, void *y)
{
    float best = 0;
    for (int i = 0; i < 5; i++) {
        float ms;
        mark(b, PHASE_EXPAND);
        must_cuda(call(b, x, y));
        mark(b, PHASE_GATE);
        must_cuda(cudaEventSynchronize(b->marks[PHASE_GATE]));
        must_cuda(cudaEventElapsedTime(&ms, b->marks[PHASE_EXPAND], b->marks[PHASE_GATE]));
        best = i == 0 || ms < best ? ms : best;
    }
    return (double)best;
}

static cudaError_t
call_copy(struct bench *b, void *x, void *y)
{
    return cudaMemcpyAsync(x, y, COPY_BYTES, cudaMemcpyDeviceToDevice, b->lane->work);
}

/* Of a table of the packed reference's size, at least. */
static cudaError_t
call_gather(struct bench *b, void *x, void *sink)
{
    const uint64_t bytes = hspz_packed_words(hspz_index_get_block(b->ref->index, 0).bases_len) * 8;
    unsigned log2 = 0;
    while ((UINT64_C(8) << log2) < bytes && (UINT64_C(8) << log2) < COPY_BYTES) {
        log2++;
    }
    return floors_gather(x, log2, GATHERS, b->device.multiprocessors * 8, sink, b->lane->work);
}

static double
floor_ms(struct bench *b)
{
    void *x, *y;
    must_cuda(cudaMalloc(&x, COPY_BYTES));
    must_cuda(cudaMalloc(&y, COPY_BYTES));
    must_cuda(floors_fill(x, COPY_BYTES / 4, b->lane->work));
    const double copy = 2.0 * (double)COPY_BYTES / time_call(b, call_copy, y, x);
    const double sectors = (double)GATHERS / time_call(b, call_gather, x, y);
    must_cuda(cudaFree(x));
    must_cuda(cudaFree(y));
    printf("  copy %.2f TB/s, random sectors %.1f G/s\n", copy / 1e9, sectors / 1e6);
    return (double)b->hits * 8 / copy + (double)b->hits * 2 / sectors;
}

/* ---- whole jobs ---- */

struct whole {
    double seconds;
    uint64_t hsps, digest;
};

static struct whole
run_job(struct bench *b, struct hspz_engine *engine, const struct hspz_job_spec *spec)
{
    const struct hspz_engine_ops *ops = &hspz_cuda_engine;
    struct hspz_job *job = NULL;
    void *buffer = NULL;
    struct whole whole = {0};
    struct hspz_part part = {.capacity = PART_ANCHORS};
    must(ops->buffer_create(engine, PART_ANCHORS * sizeof(uint64_t), &buffer), &b->err);
    part.anchors = buffer;
    const double from = now_s();
    must(ops->job_begin(engine, b->ref, spec, &job, &b->err), &b->err);
    do {
        must(ops->job_step(b->lane, job, &part, &b->err), &b->err);
        whole.hsps += part.count;
        for (uint64_t i = 0; i < 2 * part.count; i++) {
            whole.digest = (whole.digest ^ part.anchors[i]) * UINT64_C(0x100000001b3);
            whole.digest ^= whole.digest >> 32;
        }
    } while (part.kind != HSPZ_STEP_DONE);
    whole.seconds = now_s() - from;
    ops->job_end(&job);
    ops->buffer_destroy(engine, &buffer);
    return whole;
}

static void
run_jobs(struct bench *b, struct hspz_engine *engine)
{
    static const char *const scopes[] = {"job", "chunk"};
    for (int scope = 0; scope < 2; scope++) {
        struct whole results[3];
        for (int i = 0; i < 3; i++) {
            struct hspz_job_spec spec = b->spec;
            spec.scoring.scope = (enum hspz_hsp_scope)scope;
            /* No bucket is so large, but the engine cannot rely on it. */
            spec.max_word_count = i == 2 ? UINT32_MAX - 1 : UINT64_MAX;
            results[i] = run_job(b, engine, &spec);
        }
        printf("  whole job, scope %s: %.3f s, %" PRIu64 " HSPs; without the rule %.3f s, %s\n",
               scopes[scope], results[1].seconds, results[1].hsps, results[2].seconds,
               results[1].digest == results[2].digest ? "the same HSPs" : "OTHER HSPS");
        if (results[1].digest != results[2].digest || results[1].hsps == 0) {
            exit(1);
        }
    }
}

/* ---- main ---- */

static struct hspz_index *
build_index(struct hspz_engine *engine, const char *path, bool unmask)
{
    struct hspz_error err = {0};
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    struct hspz_index_params params = {.step = 1, .unmask = unmask};
    must(hspz_shape_parse("12of19", 6, &params.shape, &err), &err);
    must(hspz_sequence_file_read(path, HSPZ_BLOCK_BASES_LIMIT, NULL, NULL, &seqs, &err), &err);
    must(hspz_cuda_engine.build(engine, &seqs, &params, 0, NULL, NULL, &index, &err), &err);
    return index;
}

static void
report(struct bench *b, double kegalign)
{
    static const char *const names[PHASES] = {"expand", "gate", "extend", "sort"};
    const double floor = floor_ms(b);
    printf("  %" PRIu64 " hits, %.3f %% pass the gate, %" PRIu64 " HSPs, %" PRIu64
           " different in their batch (%.3f bytes a hit to the host), %" PRIu64 " overflows\n",
           b->hits, 100.0 * (double)b->left / (double)b->hits, b->hsps, b->unique,
           (double)b->unique * HSPZ_HSP_BYTES / (double)b->hits, b->overflows);
    for (int p = 0; p < PHASES; p++) {
        printf("  %-8s %10.3f ms  %8.2f G hits/s\n", names[p], b->ms[p],
               (double)b->hits / 1e6 / b->ms[p]);
    }
    const double ms = b->ms[PHASE_GATE] + b->ms[PHASE_EXTEND] + b->ms[PHASE_SORT];
    const double rate = (double)b->hits / 1e6 / ms;
    printf("row, extension, ms, %.2f, G hits/s, %.2f, floor, %.2f, of it, %.2f", ms, rate, floor,
           floor / ms);
    if (kegalign > 0) {
        printf(", to KegAlign, %.1f, target, 10%s", rate / kegalign,
               rate < 10 * kegalign ? ", missed" : "");
    }
    printf("\n");
}

int
main(int argc, char **argv)
{
    struct bench b = {0};
    struct hspz_sequences *query = NULL;
    struct hspz_engine *engine = NULL;
    double kegalign = 0;
    bool fresh, unmask = false;
    int arg = 1;
    for (; arg < argc && argv[arg][0] == '-'; arg++) {
        if (strcmp(argv[arg], "--unmask") == 0) {
            unmask = true;
        } else if (strcmp(argv[arg], "--kegalign") == 0 && arg + 1 < argc) {
            kegalign = atof(argv[++arg]);
        }
    }
    if (arg + 2 != argc) {
        fprintf(stderr, "hsps_bench [--unmask] [--kegalign RATE] REFERENCE QUERY\n");
        return 2;
    }
    must(hspz_cuda_engine.open(&(struct hspz_engine_config){0}, &engine, &b.err), &b.err);
    struct hspz_index *index = build_index(engine, argv[arg], unmask);
    must(hspz_sequence_file_read(argv[arg + 1], HSPZ_BLOCK_BASES_LIMIT, NULL, NULL, &query, &b.err),
         &b.err);
    const struct hspz_block block = hspz_sequences_block(query, 0);
    b.spec = (struct hspz_job_spec){.bases = {block.bases, block.len},
                                    .strands = HSPZ_STRANDS_BOTH,
                                    .transitions = true,
                                    .unmask = unmask,
                                    .end = UINT64_MAX,
                                    .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                    .hit_limit = UINT64_MAX,
                                    .keep_words = HSPZ_KEEP_ALL,
                                    .max_word_count = UINT64_MAX,
                                    .output = HSPZ_RECORDS_HSPS};
    hspz_scoring_init(&b.spec.scoring);
    must(hspz_cuda_device_init(&b.device, NULL, 1, 0, &b.err), &b.err);
    must(hspz_cuda_lane_open(&b.device, &b.lane, &b.err), &b.err);
    must(hspz_cuda_ref_load(&b.device, 1, HSPZ_CUDA_LOOKUP_AUTO, NULL, index, &b.ref, &b.err),
         &b.err);
    must(hspz_cuda_scratch_hold(&b.device, &b.scratch, b.lane->work, &fresh, &b.err), &b.err);
    for (int i = 0; i <= PHASES; i++) {
        must_cuda(cudaEventCreate(&b.marks[i]));
    }
    b.run = (struct hspz_cuda_run){.lane = b.lane,
                                   .scratch = b.scratch,
                                   .index = hspz_cuda_ref_block(b.ref, &b.device, 0),
                                   .tuning = &b.tuning,
                                   .batch = &b.batch,
                                   .err = &b.err};
    printf("%s, reference %" PRIu32 " bases, query %" PRIu32 "\n", b.device.name,
           hspz_index_get_block(index, 0).bases_len, block.len);
    for (int round = 0; round < 2; round++) { /* the first warms up */
        memset(b.ms, 0, sizeof(b.ms));
        b.hits = b.left = b.hsps = b.unique = b.overflows = 0;
        time_strand(&b, HSPZ_STRAND_PLUS);
        time_strand(&b, HSPZ_STRAND_MINUS);
    }
    report(&b, kegalign);
    hspz_cuda_scratch_drop(&b.device, b.scratch);
    hspz_cuda_scratch_release(&b.device, &b.scratch);
    run_jobs(&b, engine);
    return 0;
}
