#include "tests/conformance/runner.h"

#include "engine/score.h"
#include "protocol/columns.h"
#include "tests/support/test.h"

size_t
runner_engines(const struct hspz_engine_ops *engines[RUNNER_ENGINES_MAX])
{
    engines[0] = &hspz_cpu_engine;
    const struct hspz_engine_ops *cuda = hspz_engine_find("cuda");
    struct hspz_error err = {.text = "this build has no cuda engine"};
    struct hspz_engine *engine = NULL;
    if (cuda != NULL && cuda->open(&(struct hspz_engine_config){0}, &engine, &err) == HSPZ_OK) {
        cuda->close(&engine);
        engines[1] = cuda;
        return 2;
    }
    if (test_required("gpu")) {
        fail_msg("HSPZ_REQUIRE names gpu: %s", err.text);
    }
    return 1;
}

struct hspz_cuda_tuning
runner_cuda_tuning(void)
{
    struct hspz_cuda_tuning tuning = {0};
    const char *text = getenv("HSPZ_TEST_CUDA");
    if (text != NULL) {
        char *end;
        tuning.mapping = (int)strtol(text, &end, 10);
        assert_int_equal(*end, ',');
        tuning.window_hits = strtoull(end + 1, &end, 10);
        assert_int_equal(*end, ',');
        tuning.always_wait = strtol(end + 1, &end, 10) != 0;
        assert_int_equal(*end, ',');
        tuning.memory_bytes = strtoull(end + 1, &end, 10);
        assert_int_equal(*end, '\0');
    }
    return tuning;
}

void
runner_open(struct runner *r, const struct hspz_engine_ops *ops, unsigned threads)
{
    struct hspz_error err = {0};
    r->ops = ops;
    const struct hspz_engine_config config = {.threads = threads, .cuda = runner_cuda_tuning()};
    if (ops->open(&config, &r->engine, &err) != HSPZ_OK ||
        ops->lane_open(r->engine, 0, &r->lane, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

void
runner_close(struct runner *r)
{
    r->ops->lane_close(&r->lane);
    r->ops->close(&r->engine);
}

void
runner_unpack(const struct hspz_part *part, uint64_t *anchors)
{
    struct hspz_columns columns;
    struct hspz_columns_place place = {0};
    struct hspz_error err = {0};
    const struct hspz_span payload = {(const uint8_t *)part->anchors, part->bytes};
    if (hspz_columns_open(payload, part->count, &columns, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(hspz_columns_read(&columns, &place, (uint8_t *)anchors, part->count),
                     part->count);
}

static void
keep_records(struct run_result *result, const struct hspz_part *part, enum hspz_encoding encoding)
{
    if (part->kind == HSPZ_STEP_HSPS) {
        assert_int_equal(part->bytes, part->count * sizeof(*result->hsps));
        const size_t count = result->hsp_count + part->count;
        result->hsps = realloc(result->hsps, count * sizeof(*result->hsps));
        assert_non_null(result->hsps);
        assert_true(2 * part->count <= part->capacity);
        memcpy(result->hsps + result->hsp_count, part->anchors,
               part->count * sizeof(*result->hsps));
        result->hsp_count = count;
    } else {
        const size_t count = result->count + part->count;
        result->anchors = realloc(result->anchors, count * sizeof(*result->anchors));
        assert_non_null(result->anchors);
        assert_true(part->bytes <= part->capacity * sizeof(*result->anchors));
        if (encoding == HSPZ_ENCODING_PACKED) {
            assert_int_equal(part->bytes, part->count * sizeof(*result->anchors));
            memcpy(result->anchors + result->count, part->anchors, part->bytes);
        } else {
            runner_unpack(part, result->anchors + result->count);
            result->columns = realloc(result->columns, result->columns_bytes + part->bytes);
            assert_non_null(result->columns);
            memcpy(result->columns + result->columns_bytes, part->anchors, part->bytes);
            result->columns_bytes += part->bytes;
        }
        result->count = count;
    }
}

static void
keep_part(struct run_result *result, const struct hspz_part *part, enum hspz_encoding encoding)
{
    assert_true(part->count > 0);
    assert_int_equal(part->id.hit_end - part->id.hit_begin, part->count);
    keep_records(result, part, encoding);
    if (part->id.part == 0) {
        result->chunks = realloc(result->chunks, (result->chunk_count + 1) * sizeof(part->id));
        assert_non_null(result->chunks);
        result->chunks[result->chunk_count++] = part->id;
        return;
    }
    struct hspz_part_id *chunk = &result->chunks[result->chunk_count - 1];
    assert_false(chunk->last_part);
    assert_int_equal(part->id.part, chunk->part + 1);
    assert_int_equal(part->id.hit_begin, chunk->hit_end);
    assert_int_equal(part->id.interval, chunk->interval);
    assert_int_equal(part->id.strand, chunk->strand);
    assert_int_equal(part->id.batch, chunk->batch);
    assert_int_equal(part->id.ref_block, chunk->ref_block);
    assert_int_equal(part->id.chunk, chunk->chunk);
    assert_int_equal(part->id.seed_begin, chunk->seed_begin);
    assert_int_equal(part->id.seed_end, chunk->seed_end);
    chunk->hit_end = part->id.hit_end;
    chunk->part = part->id.part;
    chunk->last_part = part->id.last_part;
}

/* Another job in place of one that is lost, as after its device was. */
static void
go_on(struct runner *r, struct hspz_ref *ref, struct hspz_job_spec spec, struct hspz_job **job)
{
    struct hspz_job_place place;
    r->ops->job_place(*job, &place);
    r->ops->job_end(job);
    spec.from = &place;
    assert_int_equal(r->ops->job_begin(r->engine, ref, &spec, job, NULL), HSPZ_OK);
    memset(&place, 0xa5, sizeof(place));
}

struct run_result
runner_run(struct runner *r, struct hspz_ref *ref, const struct hspz_job_spec *spec,
           const struct run_options *options)
{
    struct run_result result = {0};
    void *buffer = NULL;
    const size_t bytes = options->part_anchors * sizeof(uint64_t);
    assert_int_equal(r->ops->buffer_create(r->engine, bytes, &buffer), HSPZ_OK);
    struct hspz_job_spec run_spec = *spec;
    run_spec.walk = options->walk;
    run_spec.encoding = options->encoding;
    struct hspz_job *job = NULL;
    result.status = r->ops->job_begin(r->engine, ref, &run_spec, &job, &result.err);
    struct hspz_job_bytes job_bytes = {0};
    if (job != NULL) {
        r->ops->job_bytes(job, &job_bytes);
    }
    unsigned lose_next = options->lose_every, lose = lose_next;
    for (unsigned step = 1; result.status == HSPZ_OK; step++) {
        struct hspz_part part = {.anchors = buffer, .capacity = options->part_anchors};
        memset(buffer, 0xa5, bytes);
        result.status = r->ops->job_step(r->lane, job, &part, &result.err);
        if (result.status != HSPZ_OK || part.kind == HSPZ_STEP_DONE) {
            break;
        }
        if (part.kind != HSPZ_STEP_WORKED) {
            assert_int_equal(part.kind, spec->output == HSPZ_RECORDS_HSPS ? HSPZ_STEP_HSPS
                                                                          : HSPZ_STEP_ANCHORS);
            keep_part(&result, &part, options->encoding);
        }
        const uint64_t most = job_bytes.most;
        r->ops->job_bytes(job, &job_bytes);
        assert_true(job_bytes.now <= most);
        assert_true(job_bytes.kept <= job_bytes.now && job_bytes.now <= job_bytes.most);
        assert_true(job_bytes.kept == 0 || spec->output == HSPZ_RECORDS_HSPS);
        if (options->park_every != 0 && step % options->park_every == 0) {
            const uint64_t kept = job_bytes.kept;
            r->ops->job_park(job);
            r->ops->job_bytes(job, &job_bytes);
            assert_int_equal(job_bytes.now, kept);
            assert_int_equal(job_bytes.kept, kept);
        }
        if (step == lose) {
            go_on(r, ref, run_spec, &job);
            r->ops->job_bytes(job, &job_bytes);
            lose_next *= spec->output == HSPZ_RECORDS_HSPS ? 2 : 1;
            lose += lose_next;
        }
    }
    if (job != NULL) {
        r->ops->job_totals(job, &result.totals);
    }
    r->ops->job_end(&job);
    assert_null(job);
    r->ops->buffer_destroy(r->engine, &buffer);
    return result;
}

enum hspz_status
runner_run_bare(struct runner *r, struct hspz_ref *ref, const struct hspz_job_spec *spec,
                uint64_t *records)
{
    static uint64_t buffer[4096];
    struct hspz_job *job = NULL;
    struct hspz_error err = {0};
    enum hspz_status status = r->ops->job_begin(r->engine, ref, spec, &job, &err);
    struct hspz_part part = {.anchors = buffer, .capacity = sizeof(buffer) / sizeof(*buffer)};
    *records = 0;
    while (status == HSPZ_OK && part.kind != HSPZ_STEP_DONE) {
        status = r->ops->job_step(r->lane, job, &part, &err);
        if (part.kind == HSPZ_STEP_HSPS || part.kind == HSPZ_STEP_ANCHORS) {
            *records += part.count;
        }
    }
    assert_true(status == HSPZ_OK || err.text[0] != '\0');
    r->ops->job_end(&job);
    return status;
}

void
run_result_free(struct run_result *result)
{
    free(result->anchors);
    free(result->columns);
    free(result->hsps);
    free(result->chunks);
    *result = (struct run_result){0};
}

static void
check_chunk(const struct hspz_part_id *got, const struct hspz_part_id *want)
{
    assert_true(got->last_part);
    assert_int_equal(got->interval, want->interval);
    assert_int_equal(got->strand, want->strand);
    assert_int_equal(got->batch, want->batch);
    assert_int_equal(got->ref_block, want->ref_block);
    assert_int_equal(got->chunk, want->chunk);
    assert_int_equal(got->seed_begin, want->seed_begin);
    assert_int_equal(got->seed_end, want->seed_end);
    assert_int_equal(got->hit_begin, want->hit_begin);
    assert_int_equal(got->hit_end, want->hit_end);
}

struct hspz_job_spec
runner_spec(const struct model_job *job)
{
    struct hspz_job_spec spec = {
        .given_seeds = job->query == NULL,
        .seeds = (const uint8_t *)job->seeds,
        .seed_count = job->seed_count,
        .bases = {(const uint8_t *)job->query, job->query == NULL ? 0 : strlen(job->query)},
        .strands = job->strands,
        .transitions = job->transitions,
        .unmask = job->unmask,
        .begin = job->begin,
        .end = job->end,
        .interval = job->interval,
        .max_hits = job->max_hits,
        .hit_limit = UINT64_MAX,
        .max_word_count = job->max_word_count,
        .keep_words = job->keep_words,
    };
    if (job->mask != NULL) {
        spec.mask = *job->mask;
    }
    return spec;
}

static void
check_result(const struct run_result *got, const struct model_result *want)
{
    if (got->status != HSPZ_OK) {
        fail_msg("%s", got->err.text);
    }
    assert_int_equal(got->chunk_count, want->count);
    size_t at = 0;
    for (size_t i = 0; i < want->count; i++) {
        check_chunk(&got->chunks[i], &want->chunks[i].id);
        assert_true(at + want->chunks[i].count <= got->count);
        assert_memory_equal(got->anchors + at, want->chunks[i].anchors,
                            want->chunks[i].count * sizeof(uint64_t));
        at += want->chunks[i].count;
    }
    assert_int_equal(at, got->count);
    for (int strand = 0; strand < 2; strand++) {
        assert_memory_equal(&got->totals.strand[strand], &want->totals[strand],
                            sizeof(want->totals[strand]));
    }
}

void
runner_check(struct runner *r, struct hspz_ref *ref, const struct model_job *job,
             const struct run_options *options)
{
    struct model_result want = model_discover(job);
    const struct hspz_job_spec spec = runner_spec(job);
    struct run_options columnar = *options;
    columnar.encoding = HSPZ_ENCODING_COLUMNAR;
    columnar.part_anchors += columnar.part_anchors == 1;
    struct run_result got = runner_run(r, ref, &spec, options);
    check_result(&got, &want);
    run_result_free(&got);
    got = runner_run(r, ref, &spec, &columnar);
    check_result(&got, &want);
    run_result_free(&got);
    model_result_free(&want);
}

size_t
runner_check_hsps(struct runner *r, struct hspz_ref *ref, const struct model_job *job,
                  const struct model_scoring *scoring, const struct run_options *options)
{
    struct model_hsps want = model_hsps(job, scoring);
    struct hspz_job_spec spec = runner_spec(job);
    spec.output = HSPZ_RECORDS_HSPS;
    hspz_scoring_init(&spec.scoring);
    spec.scoring.xdrop = scoring->xdrop;
    spec.scoring.threshold = scoring->threshold;
    spec.scoring.entropy = scoring->entropy;
    spec.scoring.scope = scoring->scope;
    struct run_result got = runner_run(r, ref, &spec, options);
    if (got.status != HSPZ_OK) {
        fail_msg("%s", got.err.text);
    }
    assert_int_equal(got.chunk_count, want.count);
    size_t at = 0;
    for (size_t i = 0; i < want.count; i++) {
        const struct model_group *group = &want.groups[i];
        check_chunk(&got.chunks[i], &group->id);
        assert_true(at + group->count <= got.hsp_count);
        assert_memory_equal(got.hsps + at, group->hsps, group->count * sizeof(*got.hsps));
        at += group->count;
    }
    assert_int_equal(at, got.hsp_count);
    assert_int_equal(got.totals.strand[0].hsps, want.totals[0]);
    assert_int_equal(got.totals.strand[1].hsps, want.totals[1]);
    run_result_free(&got);
    model_hsps_free(&want);
    return at;
}
