/* The CUDA engine against the CPU engine, chunk for chunk and byte for byte, driven in ways that
 * only it knows: every mapping, look-up, walk and window, several lanes and threads, too little
 * memory, several devices. */
#include "engine/index.h"
#include "engine/score.h"
#include "tests/conformance/runner.h"
#include "tests/gpu/card_here.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <time.h>

#define MAPPINGS 5
#define LOOKUPS 3
#define REFERENCE_BASES 60000
#define QUERY_BASES 9000

/* An index with what the CPU engine makes of a query. */
struct fixture {
    struct hspz_index *index;
    char *query;
    struct hspz_job_spec spec;
    enum hspz_encoding encoding;
    struct run_result want;
};

/* Random sequence with long and short repeats, N and a run of one base. */
static char *
sequence(uint64_t seed, size_t len)
{
    char *bases = malloc(len + 1);
    assert_non_null(bases);
    for (size_t i = 0; i < len; i++) {
        const uint64_t r = test_random(&seed);
        bases[i] = "ACGT"[r & 3];
        if (i > 500 && (r >> 8 & 7) != 0 && i / 3000 % 3 == 1) {
            bases[i] = bases[i - 331];
        }
        if (i / 1000 % 9 == 4) {
            bases[i] = 'A';
        }
        if ((r >> 16) % 997 == 0) {
            bases[i] = 'N';
        }
    }
    bases[len] = '\0';
    return bases;
}

static struct hspz_index *
build_index(const char *pattern, const char *bases, uint64_t block_size)
{
    struct hspz_error err = {0};
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    struct hspz_index_params params = {.step = 1, .all_positions = true};
    size_t bad;
    assert_int_equal(hspz_shape_parse(pattern, strlen(pattern), &params.shape, NULL), HSPZ_OK);
    assert_int_equal(hspz_sequences_create(block_size, &seqs), HSPZ_OK);
    const size_t half = strlen(bases) / 2;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hspz_sequences_begin(seqs, i == 0 ? "a" : "b", 1, 0, &err), HSPZ_OK);
        assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)bases + (size_t)i * half,
                                               half, &bad, &err),
                         HSPZ_OK);
        assert_int_equal(hspz_sequences_end(seqs, &err), HSPZ_OK);
    }
    if (hspz_index_build(&seqs, &params, 2, 0, NULL, NULL, &index, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return index;
}

static struct hspz_job_spec
query_spec(const char *query)
{
    return (struct hspz_job_spec){.bases = {(const uint8_t *)query, strlen(query)},
                                  .strands = HSPZ_STRANDS_BOTH,
                                  .transitions = true,
                                  .end = UINT64_MAX,
                                  .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                  .hit_limit = UINT64_MAX,
                                  .keep_words = HSPZ_KEEP_ALL,
                                  .max_word_count = UINT64_MAX};
}

/* What a job makes: anchors, in one form or the other, or HSPs of one scope or the other. */
enum { KIND_ANCHORS, KIND_COLUMNS, KIND_HSPS_OF_JOB, KIND_HSPS_OF_CHUNKS, KINDS };

static void run_on_cpu(struct fixture *f);

/* The same query for other records. */
static void
choose_kind(struct fixture *f, int kind)
{
    f->spec.output =
        kind == KIND_ANCHORS || kind == KIND_COLUMNS ? HSPZ_RECORDS_ANCHORS : HSPZ_RECORDS_HSPS;
    f->encoding = kind == KIND_COLUMNS ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED;
    hspz_scoring_init(&f->spec.scoring);
    f->spec.scoring.threshold = 1200; /* what is found by chance passes now and then */
    f->spec.scoring.scope = kind == KIND_HSPS_OF_CHUNKS ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
    run_on_cpu(f);
}

static void
run_on_cpu(struct fixture *f)
{
    struct runner cpu;
    struct hspz_ref *ref = NULL;
    struct hspz_error err = {0};
    runner_open(&cpu, &hspz_cpu_engine, 2);
    assert_int_equal(cpu.ops->load(cpu.engine, f->index, &ref, &err), HSPZ_OK);
    run_result_free(&f->want);
    f->want = runner_run(&cpu, ref, &f->spec, &(struct run_options){.part_anchors = 1 << 16});
    assert_int_equal(f->want.status, HSPZ_OK);
    cpu.ops->unload(&ref);
    runner_close(&cpu);
}

static void
open_fixture(struct fixture *f, const char *pattern, size_t query_len, uint64_t block_size)
{
    *f = (struct fixture){0};
    char *bases = sequence(1, REFERENCE_BASES);
    f->index = build_index(pattern, bases, block_size);
    f->query = sequence(1, query_len); /* the reference's beginning: long matches */
    f->spec = query_spec(f->query);
    free(bases);
    run_on_cpu(f);
    assert_true(f->want.count > 0);
}

static void
close_fixture(struct fixture *f)
{
    run_result_free(&f->want);
    hspz_index_release(&f->index);
    free(f->query);
}

static void
check_equal(const struct fixture *f, const struct run_result *got)
{
    if (got->status != HSPZ_OK) {
        fail_msg("%s", got->err.text);
    }
    assert_int_equal(got->count, f->want.count);
    assert_int_equal(got->chunk_count, f->want.chunk_count);
    for (size_t i = 0; i < got->chunk_count; i++) {
        const struct hspz_part_id *a = &got->chunks[i], *b = &f->want.chunks[i];
        assert_int_equal(a->strand, b->strand);
        assert_int_equal(a->batch, b->batch);
        assert_int_equal(a->ref_block, b->ref_block);
        assert_int_equal(a->chunk, b->chunk);
        assert_int_equal(a->seed_begin, b->seed_begin);
        assert_int_equal(a->seed_end, b->seed_end);
        assert_int_equal(a->hit_begin, b->hit_begin);
        assert_int_equal(a->hit_end, b->hit_end);
        assert_true(a->last_part);
    }
    assert_memory_equal(got->anchors, f->want.anchors, got->count * sizeof(uint64_t));
    assert_int_equal(got->hsp_count, f->want.hsp_count);
    assert_memory_equal(got->hsps, f->want.hsps, got->hsp_count * sizeof(*got->hsps));
    assert_memory_equal(&got->totals, &f->want.totals, sizeof(got->totals));
}

static struct hspz_engine *
open_engine(const struct hspz_cuda_tuning *tuning)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    const struct hspz_engine_config config = {.cuda = *tuning};
    if (hspz_engine_find("cuda")->open(&config, &engine, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

static struct hspz_ref *
load(struct hspz_engine *engine, struct hspz_index *index)
{
    struct hspz_ref *ref = NULL;
    struct hspz_error err = {0};
    if (hspz_cuda_engine.load(engine, index, &ref, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return ref;
}

static struct hspz_lane *
open_lane(struct hspz_engine *engine, unsigned device)
{
    struct hspz_lane *lane = NULL;
    struct hspz_error err = {0};
    if (hspz_cuda_engine.lane_open(engine, device, &lane, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return lane;
}

/* What `quick` asks for: a query without a long run, for runs under a sanitizer. */
#define QUICK_BASES 1500
/* Hits between two parkings. */
#define PARK_HITS 200000u

static void
test_every_mapping_walk_and_window_gives_the_same(void **state)
{
    const bool quick = *state != NULL;
    static const uint64_t caps[] = {HSPZ_MAX_HITS_DEFAULT, 5000, 70000};
    const uint64_t windows[] = {0, quick ? 1 : 9970, 50000};
    static const size_t parts[] = {1 << 20, 7777, 40000};
    struct fixture f;
    open_fixture(&f, "11101001100101", quick ? QUICK_BASES : QUERY_BASES, 0);
    for (size_t c = 0; c < (quick ? KINDS : 3 * KINDS); c++) {
        f.spec.max_hits = caps[c / KINDS];
        choose_kind(&f, (int)c % KINDS);
        assert_true(f.want.count + f.want.hsp_count > 0);
        /* Many small chunks take long: some variants of them are enough, each time others. */
        const int stride = quick ? 4 : c < KINDS ? 1 : 7;
        for (int v = stride > 1 ? (int)c % stride : 0; v < MAPPINGS * 3 * 2; v += stride) {
            const struct hspz_cuda_tuning tuning = {.mapping = v % MAPPINGS,
                                                    .lookup = (v + (int)c) % LOOKUPS,
                                                    .window_hits = windows[v / MAPPINGS % 3],
                                                    .always_wait = v % 2 == 0,
                                                    .no_overlap = v / 2 % 2 == 0};
            struct runner r = {.ops = &hspz_cuda_engine, .engine = open_engine(&tuning)};
            r.lane = open_lane(r.engine, 0);
            struct hspz_ref *ref = load(r.engine, f.index);
            /* Each parking makes the batch again: so often a hit, not so often a step. */
            const size_t part = parts[(size_t)v / 3 % 3];
            const unsigned often =
                f.spec.output == HSPZ_RECORDS_HSPS ? 1 : PARK_HITS / (unsigned)part;
            const unsigned park_every = v % 7 == 0 ? 1 + often : 0;
            struct timespec begin, end;
            (void)clock_gettime(CLOCK_MONOTONIC, &begin);
            struct run_result got =
                runner_run(&r, ref, &f.spec,
                           &(struct run_options){.part_anchors = part,
                                                 .park_every = park_every,
                                                 .encoding = f.encoding,
                                                 .walk = (enum hspz_chunk_walk)(v / MAPPINGS / 3)});
            check_equal(&f, &got);
            (void)clock_gettime(CLOCK_MONOTONIC, &end);
            const long took_ms =
                (long)(end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
            if (took_ms > 1000) {
                print_message("kind %zu of cap %zu, variant %d: %ld ms\n", c % KINDS, c / KINDS, v,
                              took_ms);
            }
            run_result_free(&got);
            r.ops->unload(&ref);
            runner_close(&r);
        }
    }
    close_fixture(&f);
}

/* With the same room, parts by columns hold the same and are the same bytes. */
static void
test_columns_are_the_bytes_of_the_cpu(void **state)
{
    (void)state;
    static const size_t parts[] = {2, 3, 5, 40, 777, 30000, 1 << 20};
    static const uint64_t caps[] = {HSPZ_MAX_HITS_DEFAULT, 1, 333, 20000};
    const struct hspz_engine_ops *const ops[] = {&hspz_cpu_engine, &hspz_cuda_engine};
    uint64_t seeds[3000], random = 5;
    struct fixture f;
    open_fixture(&f, "111010011001", 4000, 25000);
    for (size_t i = 0; i < 3000; i++) { /* neighbours of one place, too */
        seeds[i] = (test_random(&random) & 0x3fff) << 32 | i / 3 * 7;
    }
    for (size_t v = 0; v < 7 * 4 * 3; v++) {
        const size_t part = parts[v % 7];
        struct hspz_job_spec spec = f.spec;
        spec.max_hits = caps[v / 7 % 4];
        spec.transitions = v / 28 == 0;
        spec.given_seeds = v / 28 == 2;
        spec.seeds = (const uint8_t *)seeds;
        const bool few = part < 777 || spec.max_hits < 1000; /* many steps */
        spec.end = few ? 40 : UINT64_MAX;
        spec.seed_count = few ? 60 : 3000;
        struct run_result got[2];
        for (size_t e = 0; e < 2; e++) {
            struct runner r;
            struct hspz_ref *ref = NULL;
            struct hspz_error err = {0};
            runner_open(&r, ops[e], 2);
            assert_int_equal(r.ops->load(r.engine, f.index, &ref, &err), HSPZ_OK);
            got[e] = runner_run(
                &r, ref, &spec,
                &(struct run_options){.part_anchors = part, .encoding = HSPZ_ENCODING_COLUMNAR});
            assert_int_equal(got[e].status, HSPZ_OK);
            r.ops->unload(&ref);
            runner_close(&r);
        }
        assert_true(got[0].count > 0 && got[0].columns_bytes > 4 * got[0].count);
        assert_int_equal(got[1].count, got[0].count);
        assert_int_equal(got[1].columns_bytes, got[0].columns_bytes);
        assert_memory_equal(got[1].columns, got[0].columns, got[0].columns_bytes);
        assert_memory_equal(got[1].anchors, got[0].anchors, got[0].count * sizeof(uint64_t));
        run_result_free(&got[0]);
        run_result_free(&got[1]);
    }
    close_fixture(&f);
}

/* Blocks of a reference, and batches of few seeds beside large ones. */
static void
test_blocks_and_short_queries_give_the_same(void **state)
{
    (void)state;
    static const size_t lens[] = {1, 18, 19, 60, 200, 330, 1500, 5000};
    for (size_t i = 0; i < 16; i++) {
        struct fixture f = {0};
        char *bases = sequence(1, REFERENCE_BASES);
        f.index = build_index("1110100110010101111", bases, i < 8 ? 0 : 20000);
        f.query = sequence(1, 8000);
        memmove(f.query, f.query + 2500, lens[i % 8]);
        f.query[lens[i % 8]] = '\0';
        f.spec = query_spec(f.query);
        free(bases);
        struct runner r = {.ops = &hspz_cuda_engine,
                           .engine =
                               open_engine(&(struct hspz_cuda_tuning){.lookup = (int)i % LOOKUPS})};
        r.lane = open_lane(r.engine, 0);
        struct hspz_ref *ref = load(r.engine, f.index);
        for (int kind = 0; kind < KINDS; kind++) {
            choose_kind(&f, kind);
            struct run_result got =
                runner_run(&r, ref, &f.spec,
                           &(struct run_options){.part_anchors = 30000, .encoding = f.encoding});
            check_equal(&f, &got);
            run_result_free(&got);
        }
        r.ops->unload(&ref);
        runner_close(&r);
        close_fixture(&f);
    }
}

/* A job driven step by step beside others. */
struct driven {
    struct hspz_job *job;
    uint8_t *records;
    size_t bytes;
    bool done;
    void *buffer;
};

static void
step(struct driven *d, struct hspz_lane *lane, size_t capacity, size_t room,
     enum hspz_encoding encoding)
{
    struct hspz_part part = {.anchors = d->buffer, .capacity = capacity};
    struct hspz_error err = {0};
    if (hspz_cuda_engine.job_step(lane, d->job, &part, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    const size_t bytes =
        part.count * (part.kind == HSPZ_STEP_HSPS ? HSPZ_HSP_BYTES : HSPZ_ANCHOR_BYTES);
    assert_true(d->bytes + bytes <= room);
    if (part.kind == HSPZ_STEP_ANCHORS && encoding == HSPZ_ENCODING_COLUMNAR) {
        runner_unpack(&part, (uint64_t *)(void *)(d->records + d->bytes));
    } else {
        memcpy(d->records + d->bytes, d->buffer, bytes);
    }
    d->bytes += bytes;
    d->done = part.kind == HSPZ_STEP_DONE;
}

/* Jobs take turns on two lanes, in memory for two of them at most: each loses its scratch again and
 * again, and all finish. */
static void
run_crowd(const struct hspz_cuda_tuning *tuning, const struct fixture *f)
{
    enum { JOBS = 6, CAPACITY = 20000 };
    struct hspz_engine *engine = open_engine(tuning);
    struct hspz_lane *lanes[2] = {open_lane(engine, 0), open_lane(engine, 0)};
    struct hspz_ref *ref = load(engine, f->index);
    struct driven jobs[JOBS] = {{0}};
    struct hspz_error err = {0};
    const bool hsps = f->spec.output == HSPZ_RECORDS_HSPS;
    const void *want = hsps ? (const void *)f->want.hsps : f->want.anchors;
    const size_t bytes =
        hsps ? f->want.hsp_count * HSPZ_HSP_BYTES : f->want.count * HSPZ_ANCHOR_BYTES;
    assert_true(bytes > 0);
    struct hspz_job_spec spec = f->spec;
    spec.encoding = f->encoding;
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(hspz_cuda_engine.job_begin(engine, ref, &spec, &jobs[i].job, &err),
                         HSPZ_OK);
        jobs[i].records = malloc(bytes);
        assert_non_null(jobs[i].records);
        assert_int_equal(
            hspz_cuda_engine.buffer_create(engine, CAPACITY * sizeof(uint64_t), &jobs[i].buffer),
            HSPZ_OK);
    }
    size_t running = JOBS;
    for (unsigned turn = 0; running > 0; turn++) {
        running = 0;
        for (size_t i = 0; i < JOBS; i++) {
            if (!jobs[i].done) {
                step(&jobs[i], lanes[(turn + i) % 2], CAPACITY, bytes, f->encoding);
                running++;
            }
        }
    }
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].bytes, bytes);
        assert_memory_equal(jobs[i].records, want, bytes);
        hspz_cuda_engine.job_end(&jobs[i].job);
        hspz_cuda_engine.buffer_destroy(engine, &jobs[i].buffer);
        free(jobs[i].records);
    }
    hspz_cuda_engine.unload(&ref);
    hspz_cuda_engine.lane_close(&lanes[0]);
    hspz_cuda_engine.lane_close(&lanes[1]);
    hspz_cuda_engine.close(&engine);
}

static void
test_jobs_take_turns_on_two_lanes(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "11101001100101", 6000, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        choose_kind(&f, kind);
        run_crowd(&(struct hspz_cuda_tuning){0}, &f);
    }
    close_fixture(&f);
}

static void
test_jobs_take_memory_from_each_other(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "111010011001", 6000, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        choose_kind(&f, kind);
        const uint64_t mebibytes = f.spec.output == HSPZ_RECORDS_ANCHORS ? 9 : 15;
        run_crowd(&(struct hspz_cuda_tuning){.memory_bytes = mebibytes << 20, .window_hits = 65536},
                  &f);
    }
    close_fixture(&f);
}

static void
test_too_little_memory_is_refused_and_forgotten(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "111010011001", QUERY_BASES, 0);
    struct hspz_error err = {0};
    struct hspz_ref *ref = NULL;
    struct hspz_engine *engine = open_engine(&(struct hspz_cuda_tuning){.memory_bytes = 1 << 18});
    assert_int_equal(hspz_cuda_engine.load(engine, f.index, &ref, &err), HSPZ_E_OUT_OF_MEMORY);
    assert_null(ref);
    assert_non_null(strstr(err.text, "of a budget of 262144"));
    hspz_cuda_engine.close(&engine);

    /* The index fits, a batch of this query does not, a smaller one does. */
    struct runner r = {.ops = &hspz_cuda_engine};
    r.engine = open_engine(&(struct hspz_cuda_tuning){.memory_bytes = 5u << 18});
    r.lane = open_lane(r.engine, 0);
    ref = load(r.engine, f.index);
    const struct run_options options = {.part_anchors = 1000};
    struct run_result got = runner_run(&r, ref, &f.spec, &options);
    assert_int_equal(got.status, HSPZ_E_OUT_OF_MEMORY);
    assert_int_equal(got.count, 0);
    run_result_free(&got);
    f.query[600] = '\0';
    f.spec = query_spec(f.query);
    run_on_cpu(&f);
    got = runner_run(&r, ref, &f.spec, &options);
    check_equal(&f, &got);
    run_result_free(&got);
    r.ops->unload(&ref);
    runner_close(&r);
    close_fixture(&f);
}

/* From none at all to plenty: refused, or the same HSPs in whatever windows there is room for. */
static void
test_hsps_in_any_memory_are_refused_or_the_same(void **state)
{
    (void)state;
    struct fixture f;
    unsigned refused = 0, done = 0;
    open_fixture(&f, "111010011001", QUERY_BASES, 0);
    choose_kind(&f, KIND_HSPS_OF_JOB);
    for (uint64_t bytes = UINT64_C(5) << 17; bytes < UINT64_C(40) << 20; bytes += bytes / 6) {
        struct hspz_error err = {0};
        struct runner r = {.ops = &hspz_cuda_engine};
        struct hspz_ref *ref = NULL;
        r.engine = open_engine(&(struct hspz_cuda_tuning){.memory_bytes = bytes});
        r.lane = open_lane(r.engine, 0);
        struct run_result got = {.status = r.ops->load(r.engine, f.index, &ref, &err)};
        if (got.status == HSPZ_OK) {
            got = runner_run(&r, ref, &f.spec, &(struct run_options){.part_anchors = 1000});
        }
        if (got.status == HSPZ_OK) {
            check_equal(&f, &got);
            done++;
        } else {
            assert_int_equal(got.status, HSPZ_E_OUT_OF_MEMORY);
            assert_int_equal(done, 0);
            refused++;
        }
        run_result_free(&got);
        r.ops->unload(&ref);
        runner_close(&r);
    }
    assert_true(refused > 0 && done > 5);
    close_fixture(&f);
}

static void
test_jobs_end_at_any_step(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "11101001100101", QUERY_BASES, 0);
    hspz_scoring_init(&f.spec.scoring);
    struct runner r = {.ops = &hspz_cuda_engine,
                       .engine = open_engine(&(struct hspz_cuda_tuning){.window_hits = 65536})};
    r.lane = open_lane(r.engine, 0);
    struct hspz_ref *ref = load(r.engine, f.index);
    void *buffer = NULL;
    struct hspz_error err = {0};
    assert_int_equal(r.ops->buffer_create(r.engine, 80000, &buffer), HSPZ_OK);
    for (unsigned steps = 0; steps < 120; steps++) {
        struct hspz_job *job = NULL;
        f.spec.output = steps % 2 == 0 ? HSPZ_RECORDS_ANCHORS : HSPZ_RECORDS_HSPS;
        f.spec.encoding = steps % 4 == 2 ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED;
        assert_int_equal(r.ops->job_begin(r.engine, ref, &f.spec, &job, &err), HSPZ_OK);
        for (unsigned i = 0; i < steps / 2; i++) {
            struct hspz_part part = {.anchors = buffer, .capacity = 10000};
            assert_int_equal(r.ops->job_step(r.lane, job, &part, &err), HSPZ_OK);
        }
        r.ops->job_end(&job);
    }
    r.ops->buffer_destroy(r.engine, &buffer);
    f.spec.output = HSPZ_RECORDS_ANCHORS;
    f.spec.encoding = HSPZ_ENCODING_PACKED;
    struct run_result got =
        runner_run(&r, ref, &f.spec, &(struct run_options){.part_anchors = 50000});
    check_equal(&f, &got);
    run_result_free(&got);
    r.ops->unload(&ref);
    runner_close(&r);
    close_fixture(&f);
}

struct thread {
    pthread_t id;
    const struct fixture *f;
    struct hspz_engine *engine;
    struct hspz_ref *ref;
    unsigned device;
    bool equal;
};

static void *
run_thread(void *arg)
{
    struct thread *t = arg;
    struct runner r = {.ops = &hspz_cuda_engine, .engine = t->engine};
    struct hspz_error err = {0};
    t->equal = r.ops->lane_open(t->engine, t->device, &r.lane, &err) == HSPZ_OK;
    for (unsigned i = 0; i < 8 && t->equal; i++) {
        struct run_result got = runner_run(&r, t->ref, &t->f->spec,
                                           &(struct run_options){.part_anchors = 1000 + 9000 * i,
                                                                 .park_every = i,
                                                                 .encoding = t->f->encoding});
        const struct run_result *want = &t->f->want;
        t->equal = got.status == HSPZ_OK && got.count == want->count &&
                   got.hsp_count == want->hsp_count &&
                   (got.count == 0 ||
                    memcmp(got.anchors, want->anchors, got.count * sizeof(uint64_t)) == 0) &&
                   (got.hsp_count == 0 ||
                    memcmp(got.hsps, want->hsps, got.hsp_count * sizeof(*got.hsps)) == 0);
        run_result_free(&got);
    }
    r.ops->lane_close(&r.lane);
    return NULL;
}

/* Threads with a lane each, over all devices. */
static void
test_threads_and_devices_give_the_same(void **state)
{
    (void)state;
    enum { THREADS = 6 };
    struct fixture f;
    open_fixture(&f, "11101001100101", 6000, 0);
    struct hspz_engine *engine = open_engine(&(struct hspz_cuda_tuning){0});
    const unsigned devices = hspz_cuda_engine.device_count(engine);
    print_message("%u devices\n", devices);
    struct hspz_ref *ref = load(engine, f.index);
    for (int kind = 0; kind < KINDS; kind++) {
        choose_kind(&f, kind);
        struct thread threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            threads[i] =
                (struct thread){.f = &f, .engine = engine, .ref = ref, .device = i % devices};
            assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(threads[i].id, NULL);
            assert_true(threads[i].equal);
        }
    }
    hspz_cuda_engine.unload(&ref);
    hspz_cuda_engine.close(&engine);
    close_fixture(&f);
}

int
main(int argc, char **argv)
{
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    bool quick = argc == 2 && strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest quick_tests[] = {
        cmocka_unit_test_prestate(test_every_mapping_walk_and_window_gives_the_same, &quick),
        cmocka_unit_test(test_columns_are_the_bytes_of_the_cpu),
        cmocka_unit_test(test_blocks_and_short_queries_give_the_same),
    };
    if (quick) {
        return cmocka_run_group_tests(quick_tests, NULL, NULL);
    }
    if (argc == 3 && strcmp(argv[1], "only") == 0) {
        cmocka_set_test_filter(argv[2]); /* * and ? stand for others */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mapping_walk_and_window_gives_the_same),
        cmocka_unit_test(test_columns_are_the_bytes_of_the_cpu),
        cmocka_unit_test(test_blocks_and_short_queries_give_the_same),
        cmocka_unit_test(test_jobs_take_turns_on_two_lanes),
        cmocka_unit_test(test_jobs_take_memory_from_each_other),
        cmocka_unit_test(test_too_little_memory_is_refused_and_forgotten),
        cmocka_unit_test(test_hsps_in_any_memory_are_refused_or_the_same),
        cmocka_unit_test(test_jobs_end_at_any_step),
        cmocka_unit_test(test_threads_and_devices_give_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
