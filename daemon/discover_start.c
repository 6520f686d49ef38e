/* Admission of a discover job: everything that is refused before it may wait. */
#include "daemon/discover_p.h"

#include "daemon/conn_shm.h"
#include "engine/score.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a job holds beside its request. */
#define JOB_BYTES (sizeof(struct hspz_discover) + 1024)

static enum hspz_status
check_size(const struct hspz_config *config, const struct hspz_discover_params *params,
           struct hspz_error *err)
{
    const char *const what = params->has_seeds ? "seeds" : "query bases";
    const uint64_t limit = params->has_seeds ? config->max_seeds : config->max_query_bases;
    const uint64_t size =
        params->has_seeds ? params->seeds.len / HSPZ_SEED_BYTES : params->bases.len;
    if (size <= limit) {
        return HSPZ_OK;
    }
    hspz_error_set(err, HSPZ_E_TOO_LARGE, "%" PRIu64 " %s, at most %" PRIu64 " in a job", size,
                   what, limit);
    return hspz_error_limit(err, HSPZ_E_TOO_LARGE, limit);
}

/* The index is the one that the request was made for. */
static enum hspz_status
check_wanted(const struct hspz_index *index, struct hspz_text digest, struct hspz_text shape,
             uint64_t step, struct hspz_error *err)
{
    const struct hspz_index_params *have = hspz_index_get_params(index);
    if (digest.len > 0 && (digest.len != strlen(hspz_index_digest(index)) ||
                           memcmp(digest.bytes, hspz_index_digest(index), digest.len) != 0)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "the index has digest %s, not %.*s",
                              hspz_index_digest(index), (int)digest.len, digest.bytes);
    }
    if (shape.len > 0) {
        struct hspz_shape want;
        const enum hspz_status status = hspz_shape_parse(shape.bytes, shape.len, &want, err);
        if (status != HSPZ_OK) {
            return status;
        }
        if (!hspz_shape_equal(&want, &have->shape)) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "the index has shape %s, not %s",
                                  have->shape.pattern, want.pattern);
        }
    }
    if (step != 0 && step != have->step) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "the index has step %u, not %" PRIu64,
                              have->step, step);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_discover_check(struct hspz_discover *d)
{
    /* It may have been dropped since it was checked, and not come back. */
    if (hspz_served_failed(d->served, &d->err)) {
        return d->err.status;
    }
    if (d->checked) {
        return HSPZ_OK;
    }
    const enum hspz_status status = check_wanted(hspz_served_index(d->served), d->want_digest,
                                                 d->want_shape, d->want_step, &d->err);
    d->checked = status == HSPZ_OK;
    return status;
}

enum hspz_status
hspz_discover_find_mask(struct hspz_discover *d)
{
    struct hspz_service *service = hspz_discover_service(d);
    if (!d->masks) {
        return HSPZ_OK;
    }
    const enum hspz_status status =
        hspz_filters_acquire(service->filters, &d->mask_ref, HSPZ_FILTER_READS, &d->mask, &d->err);
    if (status != HSPZ_OK) {
        return status;
    }
    d->spec.mask.ops = d->mask->ops;
    d->spec.mask.filter = d->mask->filter;
    return hspz_seed_mask_check(&d->spec.mask, &d->err);
}

enum hspz_status
hspz_discover_check_bytes(const struct hspz_discover *d, const struct hspz_job_bytes *bytes,
                          struct hspz_error *err)
{
    const uint64_t budget = d->base.conn->service->scratch.budget;
    if (bytes->most <= budget) {
        return HSPZ_OK;
    }
    hspz_error_set(err, HSPZ_E_TOO_LARGE,
                   "the job needs up to %" PRIu64 " bytes of scratch memory, %" PRIu64
                   " are allowed (job_memory)",
                   bytes->most, budget);
    return hspz_error_limit(err, HSPZ_E_TOO_LARGE, budget);
}

/* Begins the job, which takes next to nothing, to ask what it would come to hold. An index that is
 * not in memory yet is asked at the job's first turn. */
static enum hspz_status
check_scratch(const struct hspz_discover *d, struct hspz_error *err)
{
    const struct hspz_service *service = d->base.conn->service;
    struct hspz_job *job = NULL;
    const enum hspz_status status =
        service->ops->job_begin(service->engine, hspz_served_ref(d->served), &d->spec, &job, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_job_bytes bytes;
    service->ops->job_bytes(job, &bytes);
    service->ops->job_end(&job);
    return hspz_discover_check_bytes(d, &bytes, err);
}

static struct hspz_scoring
scoring_of(const struct hspz_config *config, const struct hspz_discover_params *params)
{
    const uint64_t most = hspz_config_max_hsps(config);
    struct hspz_scoring scoring = params->scoring;
    if (!params->has_scores) {
        struct hspz_scoring standard;
        hspz_scoring_init(&standard);
        memcpy(scoring.scores, standard.scores, sizeof(scoring.scores));
    }
    scoring.limit = scoring.limit < most ? scoring.limit : most;
    return scoring;
}

static struct hspz_job_spec
spec_of(const struct hspz_config *config, const struct hspz_discover_params *params)
{
    return (struct hspz_job_spec){
        .given_seeds = params->has_seeds,
        .seeds = params->seeds.bytes,
        .seed_count = params->seeds.len / HSPZ_SEED_BYTES,
        .bases = params->bases,
        .strands = params->strands,
        .transitions = params->transitions,
        .unmask = params->unmask,
        .begin = params->begin,
        .end = params->end,
        .max_hits = params->max_hits,
        .hit_limit = params->hit_limit,
        .max_word_count = params->max_word_count,
        .keep_words = params->keep_words,
        .walk = params->walk,
        .interval = params->interval,
        .encoding = params->encoding,
        .output = params->output,
        .scoring = scoring_of(config, params),
    };
}

static size_t
payload_len(const struct hspz_discover_params *params)
{
    return params->has_seeds ? params->seeds.len : params->bases.len;
}

/* The payload that is in shared memory: from here on the client may write there. */
static enum hspz_status
copy_payload(const struct hspz_conn *conn, const struct hspz_discover_params *params,
             struct hspz_discover *d, struct hspz_error *err)
{
    const size_t len = payload_len(params);
    uint8_t *const input = malloc(len + 1);
    if (input == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the request");
    }
    d->bytes_of->input = input;
    const enum hspz_status status = hspz_conn_shm_copy(conn, params->offset, len, input, err);
    d->spec.seeds = params->has_seeds ? input : NULL;
    d->spec.bases.bytes = params->has_seeds ? NULL : input;
    return status;
}

void
hspz_discover_bytes_release(struct hspz_discover_bytes **bytes)
{
    if (*bytes != NULL && atomic_fetch_sub(&(*bytes)->uses, 1) == 1) {
        free((*bytes)->frame);
        free((*bytes)->input);
        free(*bytes);
    }
    *bytes = NULL;
}

static void
destroy(struct hspz_discover *d)
{
    if (d != NULL) {
        XXH64_freeState(d->digest);
        hspz_discover_bytes_release(&d->bytes_of);
        free(d);
    }
}

static enum hspz_status
create(const struct hspz_config *config, uint32_t id, const struct hspz_discover_params *params,
       struct hspz_discover **out, struct hspz_error *err)
{
    struct hspz_discover *d = calloc(1, sizeof(*d));
    if (d != NULL) {
        d->bytes_of = calloc(1, sizeof(*d->bytes_of));
        d->digest = params->digest ? XXH64_createState() : NULL;
    }
    if (d == NULL || d->bytes_of == NULL || (params->digest && d->digest == NULL) ||
        (params->digest && XXH64_reset(d->digest, 0) != XXH_OK)) {
        destroy(d);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the job");
    }
    d->base.ops = &hspz_discover_ops;
    atomic_init(&d->bytes_of->uses, 1);
    d->base.method = HSPZ_METHOD_DISCOVER;
    d->device = HSPZ_ANY_DEVICE;
    d->base.id = id;
    d->spec = spec_of(config, params);
    d->spec.mask.above = params->mask_count;
    if (config->walk_full) {
        d->spec.walk = HSPZ_WALK_FULL;
    }
    d->base.arrived_ns = uv_hrtime();
    hspz_conn_job_set_deadline(&d->base, params->deadline_ms);
    *out = d;
    return HSPZ_OK;
}

enum hspz_status
hspz_discover_start(struct hspz_conn *conn, uint32_t id, const struct hspz_discover_params *params,
                    struct hspz_frame *frame, struct hspz_error *err)
{
    struct hspz_service *service = conn->service;
    struct hspz_served *served = NULL;
    struct hspz_discover *d = NULL;
    enum hspz_status status = hspz_conn_job_admit(conn, id, err);
    if (status == HSPZ_OK) {
        status = hspz_conn_shm_check(conn, params->shm || params->placed, err);
    }
    if (status == HSPZ_OK && params->placed) {
        status = hspz_conn_shm_inside(conn, params->offset, payload_len(params), err);
    }
    if (status == HSPZ_OK) {
        status = check_size(service->config, params, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_catalog_acquire(service->catalog, params->index, conn->tenant, &served, err);
    }
    const bool ready = status == HSPZ_OK && hspz_served_index(served) != NULL;
    if (ready) {
        status = check_wanted(hspz_served_index(served), params->want_digest, params->want_shape,
                              params->want_step, err);
    }
    if (status == HSPZ_OK) {
        status = create(service->config, id, params, &d, err);
    }
    if (status == HSPZ_OK) {
        d->base.conn = conn;
        d->service = service;
        d->served = served;
        const size_t placed = params->placed ? params->seeds.len + params->bases.len : 0;
        status = hspz_conn_job_charge(conn, frame, placed + JOB_BYTES, &d->base.charged_bytes, err);
    }
    const bool charged = status == HSPZ_OK;
    if (charged && params->mask_filter.len > 0) {
        d->masks = true;
        status = hspz_filter_ref_parse(conn->tenant, params->mask_filter, &d->mask_ref, err);
    }
    if (status == HSPZ_OK && params->placed) {
        status = copy_payload(conn, params, d, err);
    }
    if (status == HSPZ_OK && ready) {
        status = check_scratch(d, err);
    }
    if (status != HSPZ_OK) {
        if (charged) {
            hspz_conn_refund(conn, d->base.charged_bytes - frame->admitted_bytes);
        }
        destroy(d);
        hspz_served_release(&served);
        return status;
    }
    hspz_served_usage(served)->jobs.received++;
    d->base.shm = params->shm;
    d->base.priority = (unsigned)params->priority;
    d->checked = ready;
    d->want_digest = params->want_digest;
    d->want_shape = params->want_shape;
    d->want_step = params->want_step;
    d->frame_len = frame->len;
    d->bytes_of->frame = frame->bytes;
    frame->bytes = NULL;
    HSPZ_LOG(service->log, HSPZ_LOG_INFO, "job queued", hspz_kv_uint("conn", conn->id),
             hspz_kv_uint("job", id), hspz_kv("tenant", conn->tenant->settings.name),
             hspz_kv("index", hspz_served_name(served)),
             hspz_kv_uint(params->has_seeds ? "seeds" : "bases",
                          params->has_seeds ? d->spec.seed_count : d->spec.bases.len),
             hspz_kv_uint("waiting", conn->job_count));
    hspz_conn_add_job(conn, &d->base);
    return HSPZ_OK;
}
