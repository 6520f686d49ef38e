#include "daemon/dispatch.h"

#include "daemon/access.h"
#include "daemon/access_log.h"
#include "daemon/catalog.h"
#include "daemon/conn_shm.h"
#include "daemon/discover.h"
#include "daemon/drain.h"
#include "daemon/filter_job.h"
#include "protocol/message.h"
#include "protocol/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Loads and builds that a connection may wait for at a time. */
#define WAITS_LIMIT 16u

struct call {
    struct hspz_conn *conn;
    struct hspz_service *service;
    const struct hspz_message *message;
    struct hspz_frame *frame;
    struct hspz_writer *w; /* the handler writes the response */
    bool later;            /* will be answered when it ends */
    bool answered;         /* the handler has sent the response itself */
    bool counted;          /* its end is counted already */
};

typedef enum hspz_status (*handler_fn)(struct call *call, struct hspz_error *err);

/* A load or build whose end a request waits for. */
struct hspz_wait {
    struct hspz_waiter waiter;
    struct hspz_conn *conn;
    struct hspz_wait *next; /* of the connection */
    uint32_t id;
    enum hspz_method method;
    uint64_t begin_ns;
    bool describe; /* a load on demand: answered with the description */
    struct hspz_describe_params params;
};

static void
encode_limits(struct hspz_writer *w, const struct hspz_config *config)
{
    hspz_write_str(w, "limits");
    hspz_write_map(w, 14);
    hspz_write_key_uint(w, "max_message", config->max_message);
    hspz_write_key_uint(w, "max_query_bases", config->max_query_bases);
    hspz_write_key_uint(w, "max_seeds", config->max_seeds);
    hspz_write_key_uint(w, "max_hsps", hspz_config_max_hsps(config));
    hspz_write_key_uint(w, "max_jobs", config->max_jobs);
    hspz_write_key_uint(w, "max_keys", config->max_keys);
    hspz_write_key_uint(w, "part_bytes", config->part_bytes);
    hspz_write_key_uint(w, "parts_per_connection", config->parts_per_connection);
    hspz_write_key_uint(w, "ingest_per_connection", config->ingest_per_connection);
    hspz_write_key_uint(w, "job_memory", config->job_memory);
    hspz_write_key_uint(w, "memory", config->memory);
    hspz_write_key_uint(w, "max_filters", config->max_filters);
    hspz_write_key_uint(w, "filter_memory", config->filter_memory);
    hspz_write_key_uint(w, "write_timeout_ms", config->write_timeout_ms);
}

static enum hspz_status
handle_hello(struct call *call, struct hspz_error *err)
{
    struct hspz_hello_params params;
    enum hspz_status status = hspz_hello_decode(call->message->params, &params, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (call->conn->state != HSPZ_CONN_GREET) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "hello was said already");
    }
    if (params.protocol != HSPZ_PROTOCOL_VERSION) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "protocol %" PRIu64
                              " is not spoken here: hspzd %s speaks protocol %u",
                              params.protocol, HSPZ_VERSION, HSPZ_PROTOCOL_VERSION);
    }
    status = hspz_access_hello(call->conn, params.token, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_service *service = call->service;
    struct hspz_writer *w = call->w;
    const char *const tenant = call->conn->tenant->settings.name;
    hspz_conn_move(&call->conn->state, HSPZ_CONN_OPEN);
    hspz_access_log_hello(call->conn, params.client);
    hspz_response_begin(w, call->message->id);
    hspz_write_map(w, 9);
    hspz_write_key_uint(w, "protocol", HSPZ_PROTOCOL_VERSION);
    hspz_write_key_str(w, "server", "hspzd");
    hspz_write_key_str(w, "version", HSPZ_VERSION);
    hspz_write_key_str(w, "engine", service->ops->name);
    hspz_write_str(w, "devices");
    const unsigned devices = service->ops->device_count(service->engine);
    hspz_write_array(w, devices);
    for (unsigned i = 0; i < devices; i++) {
        struct hspz_device_info info;
        service->ops->device_info(service->engine, i, &info);
        hspz_write_map(w, 2);
        hspz_write_key_str(w, "name", info.name);
        hspz_write_key_uint(w, "memory_bytes", info.memory_bytes);
    }
    encode_limits(w, service->config);
    hspz_write_key_str(w, "tenant", tenant);
    hspz_write_key_str(w, "role", hspz_role_name(hspz_access_role(call->conn)));
    hspz_write_key_str(w, "state", hspz_service_state_name(service->state));
    return HSPZ_OK;
}

static enum hspz_status
handle_discover(struct call *call, struct hspz_error *err)
{
    struct hspz_discover_params params;
    enum hspz_status status = hspz_discover_decode(call->message->params, &params, err);
    if (status == HSPZ_OK) {
        status = hspz_discover_start(call->conn, call->message->id, &params, call->frame, err);
    }
    call->later = status == HSPZ_OK;
    return status;
}

static enum hspz_status
handle_filter(struct call *call, struct hspz_error *err)
{
    const enum hspz_status status = hspz_filter_start(call->conn, call->message, call->frame, err);
    call->later = status == HSPZ_OK;
    return status;
}

static enum hspz_status
handle_filter_list(struct call *call, struct hspz_error *err)
{
    struct hspz_list_params params;
    const struct hspz_conn *conn = call->conn;
    const enum hspz_status status = hspz_filter_list_decode(call->message->params, &params, err);
    return status == HSPZ_OK ? hspz_filters_list_encode(
                                   call->w, call->message->id, call->service->filters, conn->tenant,
                                   hspz_access_role(conn) == HSPZ_ROLE_OPERATOR, &params, err)
                             : status;
}

static struct hspz_conn_job *
find_job(const struct hspz_conn *conn, uint32_t id)
{
    struct hspz_conn_job *job = conn->jobs;
    while (job != NULL && job->id != id) {
        job = job->next;
    }
    return job;
}

static enum hspz_status
handle_cancel(struct call *call, struct hspz_error *err)
{
    struct hspz_cancel_params params;
    const enum hspz_status status = hspz_cancel_decode(call->message->params, &params, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_response_begin(call->w, call->message->id);
    hspz_write_map(call->w, 2);
    hspz_write_key_uint(call->w, "job", params.job);
    hspz_write_key_bool(call->w, "found", find_job(call->conn, params.job) != NULL);
    /* Answered before the job is, whether that waits or runs. The answer may end the connection,
     * and with it the job. */
    hspz_conn_reply(call->conn, call->w);
    call->answered = true;
    struct hspz_conn_job *job = find_job(call->conn, params.job);
    if (job != NULL) {
        hspz_conn_job_cancel(job, HSPZ_E_CANCELLED);
    }
    return HSPZ_OK;
}

static enum hspz_status
handle_list(struct call *call, struct hspz_error *err)
{
    struct hspz_list_params params;
    const enum hspz_status status = hspz_list_decode(call->message->params, &params, err);
    if (status == HSPZ_OK) {
        hspz_catalog_list_encode(call->w, call->message->id, call->service->catalog, &params);
    }
    return status;
}

static void
unlink_wait(struct hspz_wait *wait)
{
    struct hspz_wait **link = &wait->conn->waits;
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    wait->conn->wait_count--;
}

static struct hspz_text
method_text(enum hspz_method method)
{
    const char *name = hspz_method_name(method);
    return (struct hspz_text){.bytes = name, .len = strlen(name)};
}

static void
on_load_done(struct hspz_waiter *waiter, struct hspz_served *served, const struct hspz_error *err)
{
    struct hspz_wait *wait = (struct hspz_wait *)(void *)waiter;
    struct hspz_conn *conn = wait->conn;
    struct hspz_writer w;
    struct hspz_error why = {0};
    unlink_wait(wait);
    hspz_writer_init(&w);
    enum hspz_status status = served != NULL ? HSPZ_OK : err->status;
    if (served == NULL) {
        why = *err;
    } else if (wait->describe) {
        wait->params.index = (struct hspz_text){.bytes = hspz_served_name(served),
                                                .len = strlen(hspz_served_name(served))};
        status =
            hspz_catalog_describe_encode(&w, wait->id, conn->service->catalog, &wait->params, &why);
    } else {
        hspz_served_encode(&w, wait->id, served);
    }
    hspz_outcomes_end(&conn->service->stats.requests, status);
    hspz_access_log_request(conn, wait->id, method_text(wait->method), status, wait->begin_ns);
    if (status == HSPZ_OK) {
        hspz_conn_reply(conn, &w);
    } else {
        hspz_writer_fini(&w);
        hspz_conn_reply_error(conn, wait->id, &why);
    }
    free(wait);
}

void
hspz_dispatch_forget(struct hspz_conn *conn)
{
    while (conn->waits != NULL) {
        struct hspz_wait *wait = conn->waits;
        unlink_wait(wait);
        hspz_catalog_forget(conn->service->catalog, &wait->waiter);
        hspz_outcomes_end(&conn->service->stats.requests, HSPZ_E_CANCELLED);
        hspz_access_log_request(conn, wait->id, method_text(wait->method), HSPZ_E_CANCELLED,
                                wait->begin_ns);
        free(wait);
    }
    hspz_drain_forget(conn);
}

void
hspz_dispatch_refuse(struct hspz_conn *conn, const struct hspz_error *err)
{
    for (const struct hspz_wait *wait = conn->waits; wait != NULL; wait = wait->next) {
        hspz_conn_reply_error(conn, wait->id, err);
        if (conn->waits == NULL) {
            return; /* the answer could not be sent, and everything is forgotten */
        }
    }
    hspz_drain_refuse(conn, err);
}

static enum hspz_status
check_name(struct hspz_text name, struct hspz_error *err)
{
    if (hspz_index_name_allowed(name.bytes, name.len)) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "\"%.*s\" is no index name (1 to %u bytes, no '=' or '/')", (int)name.len,
                          name.bytes, HSPZ_NAME_BYTES_LIMIT);
}

static enum hspz_status
create_wait(struct call *call, struct hspz_wait **out, struct hspz_error *err)
{
    if (call->service->state >= HSPZ_SERVICE_DRAINING) {
        return hspz_error_set(err, HSPZ_E_SHUTTING_DOWN, "the server is shutting down");
    }
    if (call->conn->wait_count >= WAITS_LIMIT) {
        hspz_error_set(err, HSPZ_E_QUEUE_FULL, "%u loads and builds of this connection are waiting",
                       call->conn->wait_count);
        return hspz_error_limit(err, HSPZ_E_QUEUE_FULL, WAITS_LIMIT);
    }
    struct hspz_wait *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the request");
    }
    wait->waiter.done = on_load_done;
    wait->conn = call->conn;
    wait->id = call->message->id;
    wait->method = call->message->method;
    wait->begin_ns = uv_hrtime();
    wait->next = call->conn->waits;
    call->conn->waits = wait;
    call->conn->wait_count++;
    call->later = true;
    *out = wait;
    return HSPZ_OK;
}

/* The wait of a load that was refused at once. */
static enum hspz_status
drop_wait(struct call *call, struct hspz_wait *wait, enum hspz_status status)
{
    if (status != HSPZ_OK) {
        unlink_wait(wait);
        free(wait);
        call->later = false;
    }
    return status;
}

static enum hspz_status
handle_load(struct call *call, struct hspz_error *err)
{
    struct hspz_load_params params;
    struct hspz_wait *wait = NULL;
    enum hspz_status status = hspz_load_decode(call->message->params, &params, err);
    if (status == HSPZ_OK) {
        status = check_name(params.index, err);
    }
    if (status == HSPZ_OK) {
        status = create_wait(call, &wait, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    return drop_wait(call, wait,
                     hspz_catalog_load(call->service->catalog, &params, &wait->waiter, err));
}

static enum hspz_status
handle_describe(struct call *call, struct hspz_error *err)
{
    struct hspz_describe_params params;
    struct hspz_catalog *catalog = call->service->catalog;
    enum hspz_status status = hspz_describe_decode(call->message->params, &params, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_catalog_describe_encode(call->w, call->message->id, catalog, &params, err);
    if (status != HSPZ_E_NOT_READY && status != HSPZ_E_UNKNOWN_INDEX) {
        return status;
    }
    /* One that is loaded on demand is described once it is. */
    struct hspz_wait *wait = NULL;
    status = create_wait(call, &wait, err);
    if (status != HSPZ_OK) {
        return status;
    }
    wait->describe = true;
    wait->params = params;
    return drop_wait(
        call, wait,
        hspz_catalog_demand(catalog, params.index, call->conn->tenant, &wait->waiter, err));
}

static enum hspz_status
handle_build(struct call *call, struct hspz_error *err)
{
    struct hspz_build_params params;
    struct hspz_wait *wait = NULL;
    enum hspz_status status = hspz_build_decode(call->message->params, &params, err);
    if (status == HSPZ_OK) {
        status = check_name(params.index, err);
    }
    if (status == HSPZ_OK) {
        status = create_wait(call, &wait, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    return drop_wait(call, wait,
                     hspz_catalog_build(call->service->catalog, &params, &wait->waiter, err));
}

static enum hspz_status
handle_unload(struct call *call, struct hspz_error *err)
{
    struct hspz_index_params_name params;
    enum hspz_status status = hspz_index_name_decode(call->message->params, &params, err);
    if (status == HSPZ_OK) {
        status = hspz_catalog_unload(call->service->catalog, params.index, call->message->id,
                                     call->w, err);
    }
    return status;
}

static enum hspz_status
handle_stats(struct call *call, struct hspz_error *err)
{
    struct hspz_list_params page;
    const enum hspz_status status = hspz_stats_decode(call->message->params, &page, err);
    if (status == HSPZ_OK) {
        /* Counted before it is written, so that an idle server shows nothing in flight. */
        hspz_outcomes_end(&call->service->stats.requests, HSPZ_OK);
        call->counted = true;
        hspz_response_begin(call->w, call->message->id);
        hspz_stats_encode(call->w, call->conn, &page);
    }
    return status;
}

static enum hspz_status
handle_health(struct call *call, struct hspz_error *err)
{
    const enum hspz_status status = hspz_no_params_decode(call->message->params, err);
    if (status == HSPZ_OK) {
        hspz_response_begin(call->w, call->message->id);
        hspz_health_encode(call->w, call->service);
    }
    return status;
}

static enum hspz_status
handle_drain(struct call *call, struct hspz_error *err)
{
    return hspz_drain_ask(call->conn, call->message, call->w, &call->later, err);
}

static enum hspz_status
handle_shm_open(struct call *call, struct hspz_error *err)
{
    enum hspz_status status = hspz_no_params_decode(call->message->params, err);
    if (status == HSPZ_OK) {
        status = hspz_conn_shm_open(call->conn, call->message->id, err);
        call->answered = status == HSPZ_OK;
    }
    return status;
}

static const handler_fn handlers[HSPZ_METHOD_COUNT] = {
    [HSPZ_METHOD_HELLO] = handle_hello,
    [HSPZ_METHOD_DISCOVER] = handle_discover,
    [HSPZ_METHOD_CANCEL] = handle_cancel,
    [HSPZ_METHOD_INDEX_LIST] = handle_list,
    [HSPZ_METHOD_INDEX_DESCRIBE] = handle_describe,
    [HSPZ_METHOD_INDEX_LOAD] = handle_load,
    [HSPZ_METHOD_INDEX_UNLOAD] = handle_unload,
    [HSPZ_METHOD_INDEX_BUILD] = handle_build,
    [HSPZ_METHOD_STATS] = handle_stats,
    [HSPZ_METHOD_HEALTH] = handle_health,
    [HSPZ_METHOD_DRAIN] = handle_drain,
    [HSPZ_METHOD_SHM_OPEN] = handle_shm_open,
    [HSPZ_METHOD_FILTER_CREATE] = handle_filter,
    [HSPZ_METHOD_FILTER_INSERT] = handle_filter,
    [HSPZ_METHOD_FILTER_INSERT_IF_ABSENT] = handle_filter,
    [HSPZ_METHOD_FILTER_QUERY] = handle_filter,
    [HSPZ_METHOD_FILTER_COUNT] = handle_filter,
    [HSPZ_METHOD_FILTER_DELETE] = handle_filter,
    [HSPZ_METHOD_FILTER_DECREMENT] = handle_filter,
    [HSPZ_METHOD_FILTER_ENUMERATE] = handle_filter,
    [HSPZ_METHOD_FILTER_MERGE] = handle_filter,
    [HSPZ_METHOD_FILTER_SAVE] = handle_filter,
    [HSPZ_METHOD_FILTER_LOAD] = handle_filter,
    [HSPZ_METHOD_FILTER_DROP] = handle_filter,
    [HSPZ_METHOD_FILTER_LIST] = handle_filter_list,
    [HSPZ_METHOD_FILTER_STATS] = handle_filter,
};

static enum hspz_status
refused_frame(const struct call *call, struct hspz_error *err)
{
    const enum hspz_status refused = call->frame->refused;
    return refused == HSPZ_E_OUT_OF_MEMORY
               ? hspz_error_set(err, refused, "no memory for the request")
               : hspz_conn_job_refuse_bytes(call->conn, refused, err);
}

static enum hspz_status
handle(struct call *call, struct hspz_error *err)
{
    const struct hspz_message *message = call->message;
    if (call->conn->state == HSPZ_CONN_GREET &&
        !(message->known && message->method == HSPZ_METHOD_HELLO)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "say hello first");
    }
    if (!message->known) {
        return hspz_error_set(err, HSPZ_E_UNKNOWN_METHOD, "there is no method \"%.*s\"",
                              (int)(message->method_name.len < 64 ? message->method_name.len : 64),
                              message->method_name.bytes);
    }
    if (call->conn->state != HSPZ_CONN_GREET) {
        const enum hspz_status status = hspz_access_check(call->conn, message->method, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (call->frame->refused != HSPZ_OK) {
        return refused_frame(call, err);
    }
    return handlers[message->method](call, err);
}

static void
request(struct hspz_conn *conn, const struct hspz_message *message, struct hspz_frame *frame)
{
    struct hspz_stats *stats = &conn->service->stats;
    struct hspz_writer w;
    struct hspz_error err = {0};
    struct call call = {
        .conn = conn, .service = conn->service, .message = message, .frame = frame, .w = &w};
    const bool is_job = message->known && (handlers[message->method] == handle_discover ||
                                           handlers[message->method] == handle_filter);
    const uint32_t id = message->id;
    const bool greeting = conn->state == HSPZ_CONN_GREET;
    const uint64_t begin_ns = uv_hrtime();
    stats->jobs.received += is_job;
    if (is_job && conn->tenant != NULL) {
        conn->tenant->usage.jobs.received++;
    }
    hspz_writer_init(&w);
    const enum hspz_status status = handle(&call, &err);
    if (call.later) {
        hspz_writer_fini(&w);
        return;
    }
    if (!call.counted) {
        hspz_outcomes_end(&stats->requests, status);
    }
    if (is_job) {
        hspz_outcomes_end(&stats->jobs, status);
    }
    if (is_job && conn->tenant != NULL) {
        hspz_outcomes_end(&conn->tenant->usage.jobs, status);
    }
    hspz_access_log_request(conn, id, message->method_name, status, begin_ns);
    if (status == HSPZ_OK) {
        if (!call.answered) {
            hspz_conn_reply(conn, &w);
        }
        return;
    }
    hspz_writer_fini(&w);
    if (greeting && (status == HSPZ_E_UNAUTHORIZED || status == HSPZ_E_QUEUE_FULL)) {
        conn->service->stats.connections_refused++;
        hspz_conn_reply_last(conn, id, &err);
    } else if (greeting && status == HSPZ_E_UNSUPPORTED) {
        hspz_conn_reply_last(conn, id, &err);
    } else {
        hspz_conn_reply_error(conn, id, &err);
    }
}

void
hspz_dispatch_broken(struct hspz_conn *conn, const struct hspz_error *err)
{
    conn->service->stats.requests.received++;
    hspz_outcomes_end(&conn->service->stats.requests, err->status);
    hspz_conn_reply_last(conn, 0, err);
}

static void
notification(struct hspz_conn *conn, const struct hspz_message *message)
{
    const struct hspz_text name = message->method_name;
    struct hspz_error err = {0};
    if (name.len != strlen(HSPZ_SHM_FREE) || memcmp(name.bytes, HSPZ_SHM_FREE, name.len) != 0) {
        conn->service->stats.notifications_ignored++;
    } else if (hspz_conn_shm_freed(conn, message->params, &err) != HSPZ_OK) {
        hspz_dispatch_broken(conn, &err);
    }
}

void
hspz_dispatch_frame(struct hspz_conn *conn, struct hspz_frame *frame)
{
    struct hspz_service *service = conn->service;
    struct hspz_doc *doc = NULL;
    struct hspz_message message;
    struct hspz_error err = {0};
    const uint64_t admitted = frame->admitted_bytes;
    conn->active_ms = uv_now(service->loop);
    bool answerable = false;
    enum hspz_status status = hspz_doc_parse(frame->bytes, frame->len, &doc, &err);
    if (status == HSPZ_OK) {
        status = hspz_message_decode(doc, &message, &answerable, &err);
    }
    if (status == HSPZ_OK && message.kind == HSPZ_NOTIFICATION) {
        notification(conn, &message);
    } else if (status == HSPZ_OK && message.kind == HSPZ_RESPONSE) {
        hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "a response came where requests are expected");
        hspz_dispatch_broken(conn, &err);
    } else if (status == HSPZ_OK) {
        service->stats.requests.received++;
        request(conn, &message, frame);
    } else if (answerable && message.kind == HSPZ_REQUEST) {
        service->stats.requests.received++;
        hspz_outcomes_end(&service->stats.requests, status);
        hspz_conn_reply_error(conn, message.id, &err);
    } else {
        hspz_dispatch_broken(conn, &err);
    }
    hspz_doc_destroy(&doc);
    /* A job has moved the bytes in, and what was admitted for them with them. */
    if (frame->bytes != NULL) {
        hspz_conn_refund(conn, admitted);
    }
    hspz_frame_release(frame);
}
