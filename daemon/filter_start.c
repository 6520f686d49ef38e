/* Admission of a request about a filter: everything that is refused before it may wait. */
#include "daemon/conn_shm.h"
#include "daemon/filter_job_p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a job holds beside its request. */
#define JOB_BYTES (sizeof(struct hspz_filter_job) + 1024)
#define FILE_SUFFIX ".hspf"

static enum hspz_status
set_kind(struct hspz_filter_job *j, struct hspz_text kind, struct hspz_error *err)
{
    if (hspz_filter_kind_find(kind.bytes, kind.len, &j->plan.spec.kind)) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "\"kind\" is \"%.*s\", wanted \"tcf\", \"gqf\", \"bloom\", \"blocked\", "
                          "\"sqf\", \"rsqf\" or \"counter\"",
                          (int)kind.len, kind.bytes);
}

static enum hspz_status
decode_create(struct hspz_filter_job *j, const struct hspz_node *node, struct hspz_text *name,
              struct hspz_error *err)
{
    struct hspz_filter_create_params p;
    enum hspz_status status = hspz_filter_create_decode(node, &p, err);
    if (status == HSPZ_OK) {
        status = set_kind(j, p.kind, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_filter_spec *s = &j->plan.spec;
    s->capacity = p.capacity;
    s->rate = p.rate;
    s->slots = p.slots;
    s->slot_bits = (unsigned)p.slot_bits;
    s->block_slots = (unsigned)p.block_slots;
    s->hashes = (unsigned)p.hashes;
    s->value_bits = (unsigned)p.value_bits;
    s->seed = p.seed;
    s->k = (unsigned)p.k;
    s->canonical = p.canonical;
    s->parts = (unsigned)p.parts;
    j->shared = p.shared;
    *name = p.filter;
    return HSPZ_OK;
}

static const enum hspz_filter_op ops_of[HSPZ_METHOD_COUNT] = {
    [HSPZ_METHOD_FILTER_INSERT] = HSPZ_FILTER_INSERT,
    [HSPZ_METHOD_FILTER_INSERT_IF_ABSENT] = HSPZ_FILTER_INSERT_IF_ABSENT,
    [HSPZ_METHOD_FILTER_QUERY] = HSPZ_FILTER_QUERY,
    [HSPZ_METHOD_FILTER_COUNT] = HSPZ_FILTER_COUNT,
    [HSPZ_METHOD_FILTER_DELETE] = HSPZ_FILTER_DELETE,
    [HSPZ_METHOD_FILTER_DECREMENT] = HSPZ_FILTER_DECREMENT,
};

static size_t
placed_bytes(const struct hspz_filter_keys_params *p)
{
    return p->placed ? p->keys.len + p->values.len + p->counts.len : 0;
}

static enum hspz_status
check_places(const struct hspz_filter_job *j, struct hspz_error *err)
{
    const struct hspz_conn *const conn = j->base.conn;
    const struct hspz_filter_keys_params *const p = &j->keys;
    enum hspz_status status = hspz_conn_shm_check(conn, p->shm || p->placed, err);
    if (status != HSPZ_OK || !p->placed) {
        return status;
    }
    status = hspz_conn_shm_inside(conn, p->keys_at, p->keys.len, err);
    if (status == HSPZ_OK) {
        status = hspz_conn_shm_inside(conn, p->values_at, p->values.len, err);
    }
    return status == HSPZ_OK ? hspz_conn_shm_inside(conn, p->counts_at, p->counts.len, err)
                             : status;
}

/* Copies what is in shared memory: it is looked at here alone. */
static enum hspz_status
copy_places(struct hspz_filter_job *j, struct hspz_error *err)
{
    struct hspz_filter_keys_params *const p = &j->keys;
    struct hspz_span *const spans[3] = {&p->keys, &p->values, &p->counts};
    const uint64_t offsets[3] = {p->keys_at, p->values_at, p->counts_at};
    enum hspz_status status = HSPZ_OK;
    size_t at = 0;
    if (!p->placed) {
        return HSPZ_OK;
    }
    j->input = malloc(placed_bytes(p) + 1);
    if (j->input == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the request");
    }
    for (int i = 0; i < 3 && status == HSPZ_OK; i++) {
        if (i > 0 && spans[i]->len == 0) {
            continue;
        }
        spans[i]->bytes = j->input + at;
        status = hspz_conn_shm_copy(j->base.conn, offsets[i], spans[i]->len, j->input + at, err);
        at += spans[i]->len;
    }
    return status;
}

static enum hspz_status
decode_keys(struct hspz_filter_job *j, const struct hspz_node *node, uint64_t limit,
            struct hspz_text *name, struct hspz_error *err)
{
    const enum hspz_status status = hspz_filter_keys_decode(j->base.method, node, &j->keys, err);
    if (status != HSPZ_OK) {
        return status;
    }
    j->op = ops_of[j->base.method];
    j->total = hspz_filter_key_count(&j->keys);
    j->base.priority = (unsigned)j->keys.priority;
    hspz_conn_job_set_deadline(&j->base, j->keys.deadline_ms);
    j->base.shm = j->keys.shm;
    *name = j->keys.filter;
    if (j->total <= limit) {
        return check_places(j, err);
    }
    hspz_error_set(err, HSPZ_E_TOO_LARGE, "%" PRIu64 " keys, at most %" PRIu64 " in a request",
                   j->total, limit);
    return hspz_error_limit(err, HSPZ_E_TOO_LARGE, limit);
}

static enum hspz_status
decode_enumerate(struct hspz_filter_job *j, const struct hspz_node *node, struct hspz_text *name,
                 struct hspz_error *err)
{
    struct hspz_filter_enumerate_params p;
    const enum hspz_status status = hspz_filter_enumerate_decode(node, &p, err);
    if (status == HSPZ_OK) {
        j->base.priority = (unsigned)p.priority;
        hspz_conn_job_set_deadline(&j->base, p.deadline_ms);
        j->base.shm = p.shm;
        *name = p.filter;
    }
    return status == HSPZ_OK ? hspz_conn_shm_check(j->base.conn, p.shm, err) : status;
}

static enum hspz_status
decode_merge(struct hspz_filter_job *j, const struct hspz_node *node, struct hspz_text *name,
             struct hspz_error *err)
{
    struct hspz_filter_merge_params p;
    const enum hspz_status status = hspz_filter_merge_decode(node, &p, err);
    if (status == HSPZ_OK) {
        *name = p.filter;
    }
    return status == HSPZ_OK
               ? hspz_filter_ref_parse(j->base.conn->tenant, p.from, &j->from_ref, err)
               : status;
}

static enum hspz_status
decode_name(struct hspz_filter_job *j, const struct hspz_node *node, struct hspz_text *name,
            struct hspz_error *err)
{
    struct hspz_filter_name_params p;
    const enum hspz_status status = hspz_filter_name_decode(j->base.method, node, &p, err);
    if (status == HSPZ_OK) {
        *name = p.filter;
        j->shared = p.shared;
        j->saved = p.saved;
    }
    return status;
}

static enum hspz_status
decode(struct hspz_filter_job *j, const struct hspz_node *node, struct hspz_error *err)
{
    const struct hspz_config *config = hspz_filter_job_service(j)->config;
    struct hspz_text name = {0};
    enum hspz_status status;
    if (j->base.method == HSPZ_METHOD_FILTER_CREATE) {
        status = decode_create(j, node, &name, err);
    } else if (j->base.method == HSPZ_METHOD_FILTER_ENUMERATE) {
        status = decode_enumerate(j, node, &name, err);
    } else if (j->base.method == HSPZ_METHOD_FILTER_MERGE) {
        status = decode_merge(j, node, &name, err);
    } else if (hspz_filter_takes_keys(j->base.method)) {
        status = decode_keys(j, node, config->max_keys, &name, err);
    } else {
        status = decode_name(j, node, &name, err);
    }
    return status == HSPZ_OK ? hspz_filter_ref_parse(j->base.conn->tenant, name, &j->ref, err)
                             : status;
}

/* Creating, loading and saving are for one's own. */
static enum hspz_status
check_own(const struct hspz_filter_job *j, struct hspz_error *err)
{
    const enum hspz_method method = j->base.method;
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    if (j->ref.own || (method != HSPZ_METHOD_FILTER_CREATE && method != HSPZ_METHOD_FILTER_LOAD &&
                       method != HSPZ_METHOD_FILTER_SAVE)) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_FORBIDDEN, "\"%s\" would be another tenant's filter",
                          hspz_filter_ref_shown(&j->ref, shown));
}

/* Where the filter is saved: a folder for each tenant, in which it chooses names alone. */
static enum hspz_status
set_path(struct hspz_filter_job *j, struct hspz_error *err)
{
    const char *const dir = hspz_filter_job_service(j)->config->filter_dir;
    const enum hspz_method method = j->base.method;
    if (method != HSPZ_METHOD_FILTER_SAVE && method != HSPZ_METHOD_FILTER_LOAD && !j->saved) {
        return HSPZ_OK;
    }
    if (dir == NULL) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "filters are not saved here: no filter_dir is configured");
    }
    if (j->ref.owner[0] == '.') {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "there is no folder for a tenant whose name begins with a dot");
    }
    const bool nameless = j->ref.owner[0] == '\0';
    if (asprintf(&j->folder, "%s%s%s", dir, nameless ? "" : "/", j->ref.owner) < 0) {
        j->folder = NULL;
    }
    if (j->folder == NULL || asprintf(&j->path, "%s/%s" FILE_SUFFIX, j->folder, j->ref.name) < 0) {
        j->path = NULL;
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a file name");
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_filter_start(struct hspz_conn *conn, const struct hspz_message *message,
                  struct hspz_frame *frame, struct hspz_error *err)
{
    struct hspz_service *service = conn->service;
    struct hspz_filter_job *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the request");
    }
    j->base.ops = &hspz_filter_job_ops;
    j->base.method = message->method;
    j->base.conn = conn;
    j->base.id = message->id;
    j->base.priority = HSPZ_PRIORITY_DEFAULT;
    j->base.arrived_ns = uv_hrtime();
    enum hspz_status status = decode(j, message->params, err);
    if (status == HSPZ_OK) {
        status = check_own(j, err);
    }
    if (status == HSPZ_OK) {
        status = set_path(j, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_conn_job_admit(conn, message->id, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_conn_job_charge(conn, frame, placed_bytes(&j->keys) + JOB_BYTES,
                                      &j->base.charged_bytes, err);
    }
    if (status == HSPZ_OK) {
        status = copy_places(j, err);
        if (status != HSPZ_OK) {
            hspz_conn_refund(conn, j->base.charged_bytes - frame->admitted_bytes);
        }
    }
    if (status != HSPZ_OK) {
        hspz_filter_job_destroy(j);
        return status;
    }
    j->memory_limit = service->config->filter_memory;
    j->disk_limit = service->config->filter_disk;
    j->piece.owner = j;
    j->piece.tenant = conn->tenant;
    j->frame = *frame;
    frame->bytes = NULL;
    HSPZ_LOG(service->log, HSPZ_LOG_DEBUG, "filter job queued", hspz_kv_uint("conn", conn->id),
             hspz_kv_uint("job", j->base.id), hspz_kv("tenant", conn->tenant->settings.name),
             hspz_kv("method", hspz_method_name(j->base.method)), hspz_kv("filter", j->ref.name),
             hspz_kv_uint("keys", j->total), hspz_kv_uint("waiting", conn->job_count));
    hspz_conn_add_job(conn, &j->base);
    return HSPZ_OK;
}
