#include "daemon/http.h"

#include "daemon/metrics.h"
#include "daemon/socket.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long the loop may take to give a page. */
#define ANSWER_MS 2000u
/* Scrapers come one at a time; nobody may hold more descriptors than these. */
#define CONNECTIONS 16u
#define CONNECTION_SECONDS 10u
#define CONNECTION_BYTES 16384u

struct hspz_http {
    struct hspz_socket socket;
    struct MHD_Daemon *server;
    struct hspz_service *service;
    struct hspz_event ask; /* to the loop, for a page */

    uv_mutex_t mutex;
    uv_cond_t changed;
    bool asked, closing;
    uint64_t given; /* pages so far */
    char *page;     /* NULL: no memory */
    size_t page_len;
    enum hspz_service_state state;
};

/* On the loop. */
static void
on_ask(struct hspz_event *event)
{
    struct hspz_http *http =
        (struct hspz_http *)(void *)((char *)event - offsetof(struct hspz_http, ask));
    char *page = NULL;
    size_t len = 0;
    if (hspz_metrics_render(http->service, &page, &len) != HSPZ_OK) {
        page = NULL;
    }
    uv_mutex_lock(&http->mutex);
    free(http->page);
    http->page = page;
    http->page_len = len;
    http->state = http->service->state;
    http->asked = false;
    http->given++;
    uv_cond_broadcast(&http->changed);
    uv_mutex_unlock(&http->mutex);
}

/* With the mutex held: false when the loop does not answer. A question that was given up before may
 * still be on its way, and is then answered late enough for this one. */
static bool
ask_loop(struct hspz_http *http)
{
    const uint64_t until = uv_hrtime() + ANSWER_MS * UINT64_C(1000000), before = http->given;
    if (!http->asked && !http->closing) {
        http->asked = true;
        hspz_mailbox_post(&http->service->mailbox, &http->ask);
    }
    while (http->given == before && !http->closing) {
        const uint64_t now = uv_hrtime();
        if (now >= until ||
            uv_cond_timedwait(&http->changed, &http->mutex, until - now) == UV_ETIMEDOUT) {
            break;
        }
    }
    return http->given != before;
}

static enum MHD_Result
answer(struct MHD_Connection *connection, unsigned code, const char *type, const char *text,
       size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) {
        return MHD_NO;
    }
    enum MHD_Result result = MHD_add_response_header(response, "Content-Type", type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        result = MHD_add_response_header(response, "Allow", "GET, HEAD");
    }
    if (result == MHD_YES) {
        result = MHD_queue_response(connection, code, response);
    }
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result
answer_text(struct MHD_Connection *connection, unsigned code, const char *text)
{
    return answer(connection, code, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result
answer_page(struct hspz_http *http, struct MHD_Connection *connection, bool metrics)
{
    uv_mutex_lock(&http->mutex);
    const bool answered = ask_loop(http);
    enum MHD_Result result;
    if (!answered) {
        result = answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no answer\n");
    } else if (!metrics) {
        char text[32];
        snprintf(text, sizeof(text), "%s\n", hspz_service_state_name(http->state));
        result = answer_text(
            connection,
            http->state == HSPZ_SERVICE_READY ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
    } else if (http->page == NULL) {
        result = answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    } else {
        result = answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                        http->page, http->page_len);
    }
    uv_mutex_unlock(&http->mutex);
    return result;
}

static enum MHD_Result
on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *upload, size_t *upload_len, void **state)
{
    (void)version;
    (void)upload;
    static const char begun;
    if (*state == NULL) {
        *state = (void *)(uintptr_t)&begun; /* only the headers have come */
        return MHD_YES;
    }
    if (*upload_len > 0) {
        *upload_len = 0; /* thrown away */
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD\n");
    }
    if (strcmp(url, "/metrics") == 0 || strcmp(url, "/healthz") == 0) {
        return answer_page(user, connection, url[1] == 'm');
    }
    return answer_text(connection, MHD_HTTP_NOT_FOUND, "/metrics or /healthz\n");
}

enum hspz_status
hspz_http_bind(const struct hspz_config *config, struct hspz_log *log, struct hspz_http **out,
               struct hspz_error *err)
{
    struct hspz_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the metrics listener");
    }
    http->ask.fire = on_ask;
    struct hspz_error why;
    enum hspz_status status =
        hspz_socket_bind_tcp(config->metrics, config->insecure != 0, &http->socket, &why);
    if (status != HSPZ_OK) {
        free(http);
        return hspz_error_set(err, status, "metrics: %s", why.text);
    }
    int result = uv_mutex_init(&http->mutex);
    if (result == 0) {
        result = uv_cond_init(&http->changed);
        if (result != 0) {
            uv_mutex_destroy(&http->mutex);
        }
    }
    if (result != 0) {
        hspz_socket_fini(&http->socket);
        free(http);
        return hspz_uv_error(err, result, "the metrics listener");
    }
    HSPZ_LOG(log, HSPZ_LOG_INFO, "metrics", hspz_kv("address", http->socket.address));
    *out = http;
    return HSPZ_OK;
}

enum hspz_status
hspz_http_start(struct hspz_http *http, struct hspz_service *service, struct hspz_error *err)
{
    http->service = service;
    /* It closes the descriptor that it is given. */
    const int fd = dup(http->socket.fd);
    if (fd >= 0) {
        http->server = MHD_start_daemon(
            MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET,
            (MHD_socket)fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
            CONNECTION_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
            MHD_OPTION_END);
    }
    if (http->server != NULL) {
        return HSPZ_OK;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return hspz_error_set(err, HSPZ_E_IO, "metrics: %s: cannot serve", http->socket.address);
}

void
hspz_http_stop(struct hspz_http *http)
{
    if (http == NULL || http->server == NULL) {
        return;
    }
    uv_mutex_lock(&http->mutex);
    http->closing = true;
    uv_cond_broadcast(&http->changed);
    uv_mutex_unlock(&http->mutex);
    MHD_stop_daemon(http->server);
    http->server = NULL;
}

void
hspz_http_destroy(struct hspz_http **http)
{
    if (*http == NULL) {
        return;
    }
    HSPZ_REQUIRE((*http)->server == NULL);
    uv_cond_destroy(&(*http)->changed);
    uv_mutex_destroy(&(*http)->mutex);
    hspz_socket_fini(&(*http)->socket);
    free((*http)->page);
    free(*http);
    *http = NULL;
}
