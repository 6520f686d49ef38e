#include "daemon/drain.h"

#include "daemon/access_log.h"
#include "daemon/catalog.h"

#include <string.h>

/* After an answer that it goes on, for the next question: who asked may be slow. */
#define FOLLOW_MS 5000u

static void
write_answer(struct hspz_writer *w, uint32_t id, const struct hspz_service *service,
             const char *state)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 5);
    hspz_write_key_str(w, "state", state);
    hspz_write_key_uint(w, "jobs", service->job_count);
    hspz_write_key_uint(w, "loading", hspz_catalog_loading(service->catalog));
    hspz_write_key_uint(w, "connections", service->conn_count);
    hspz_write_key_uint(w, "parts", service->stats.parts);
}

enum hspz_status
hspz_drain_ask(struct hspz_conn *conn, const struct hspz_message *message, struct hspz_writer *w,
               bool *later, struct hspz_error *err)
{
    struct hspz_service *service = conn->service;
    struct hspz_drain_params params;
    const enum hspz_status status = hspz_drain_decode(message->params, &params, err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (conn->drain.waits) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "drain %u waits already", conn->drain.id);
    }
    if (service->state < HSPZ_SERVICE_DRAINING) {
        service->drain(service, "an operator asked for it");
    }
    if (params.wait_ms == 0 || service->state != HSPZ_SERVICE_DRAINING) {
        write_answer(w, message->id, service, hspz_service_state_name(service->state));
        return HSPZ_OK;
    }
    conn->drain = (struct hspz_drain_wait){
        .waits = true,
        .id = message->id,
        .begin_ns = uv_hrtime(),
        .until_ms = uv_now(service->loop) + params.wait_ms,
    };
    *later = true;
    return HSPZ_OK;
}

static void
end(struct hspz_conn *conn, enum hspz_status status)
{
    const char *name = hspz_method_name(HSPZ_METHOD_DRAIN);
    conn->drain.waits = false;
    hspz_outcomes_end(&conn->service->stats.requests, status);
    hspz_access_log_request(conn, conn->drain.id,
                            (struct hspz_text){.bytes = name, .len = strlen(name)}, status,
                            conn->drain.begin_ns);
}

void
hspz_drain_tell(struct hspz_conn *conn, uint64_t now_ms, bool drained)
{
    if (!conn->drain.waits || (!drained && now_ms < conn->drain.until_ms)) {
        return;
    }
    struct hspz_writer w;
    hspz_writer_init(&w);
    end(conn, HSPZ_OK);
    conn->drain.told_ms = drained ? 0 : now_ms;
    write_answer(&w, conn->drain.id, conn->service, drained ? "drained" : "draining");
    hspz_conn_reply(conn, &w);
}

bool
hspz_drain_expected(const struct hspz_conn *conn, uint64_t now_ms)
{
    return conn->drain.told_ms != 0 && hspz_conn_state_serves(conn->state) &&
           now_ms - conn->drain.told_ms < FOLLOW_MS;
}

void
hspz_drain_refuse(struct hspz_conn *conn, const struct hspz_error *err)
{
    if (conn->drain.waits) {
        hspz_conn_reply_error(conn, conn->drain.id, err);
    }
}

void
hspz_drain_forget(struct hspz_conn *conn)
{
    if (conn->drain.waits) {
        end(conn, HSPZ_E_CANCELLED);
    }
}
