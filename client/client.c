#include "client/call.h"
#include "client/socket.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opening: connect, hello, and with `wait_ms` the server's health until it is ready. Whatever says
 * "not yet" (nothing listens, the server is full, going down or still loading) is tried again until
 * the time is over; whatever else is wrong ends it at once. */

#define CONNECT_TIMEOUT_MS 10000u
#define ANSWER_TIMEOUT_MS 30000u
#define SILENCE_TIMEOUT_MS 300000u
#define WAIT_PAUSE_MS 200

static bool
worth_waiting(enum hspz_status status)
{
    return status == HSPZ_E_NO_SERVER || status == HSPZ_E_NOT_READY ||
           status == HSPZ_E_SHUTTING_DOWN || status == HSPZ_E_INCOMPLETE ||
           status == HSPZ_E_QUEUE_FULL;
}

/* Copies a string of the answer, terminated, behind those already in *at. */
static const char *
keep_text(char **at, struct hspz_span text)
{
    char *copy = *at;
    memcpy(copy, text.bytes, text.len);
    copy[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

static struct hspz_span
text_at(const struct hspz_node *map, const char *key)
{
    struct hspz_span text = {.bytes = (const uint8_t *)"", .len = 0};
    (void)hspz_node_str(hspz_node_get(map, key), &text);
    return text;
}

static uint64_t
limit_at(const struct hspz_node *map, const char *key)
{
    uint64_t value = UINT64_MAX;
    (void)hspz_node_uint(hspz_node_get(map, key), &value);
    return value;
}

/* Names of the devices: an array of maps with `name`, or of strings. */
static struct hspz_span
device_name(const struct hspz_node *device)
{
    struct hspz_span name = {.bytes = (const uint8_t *)"", .len = 0};
    if (!hspz_node_str(device, &name)) {
        name = text_at(device, "name");
    }
    return name;
}

static enum hspz_status
keep_server_info(struct hspz_client *client, const struct hspz_node *hello)
{
    const struct hspz_span version = text_at(hello, "version");
    const struct hspz_span engine = text_at(hello, "engine");
    const struct hspz_span tenant = text_at(hello, "tenant");
    const struct hspz_node *devices = hspz_node_get(hello, "devices");
    size_t len = version.len + engine.len + tenant.len + 4;
    for (size_t i = 0; i < hspz_node_count(devices); i++) {
        len += device_name(hspz_node_at(devices, i)).len + 2;
    }
    char *at = malloc(len);
    if (at == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    free(client->text);
    client->text = at;
    client->server.version = keep_text(&at, version);
    client->server.engine = keep_text(&at, engine);
    client->server.tenant = keep_text(&at, tenant);
    client->server.devices = at;
    *at = '\0';
    for (size_t i = 0; i < hspz_node_count(devices); i++) {
        if (i > 0) {
            memcpy(at, ", ", 2);
            at += 2;
        }
        const char *name = keep_text(&at, device_name(hspz_node_at(devices, i)));
        (void)name;
        at--; /* the next one, or nothing, comes over the end */
    }
    const struct hspz_node *limits = hspz_node_get(hello, "limits");
    client->server.max_query_bases = limit_at(limits, "max_query_bases");
    client->server.max_message = limit_at(limits, "max_message");
    client->server.max_keys = limit_at(limits, "max_keys");
    return HSPZ_OK;
}

static enum hspz_status
say_hello(struct hspz_client *client, struct hspz_error *err)
{
    const struct hspz_hello_params params = {
        .protocol = HSPZ_PROTOCOL_VERSION,
        .client = hspz_text_of(client->options.name),
        .token = hspz_text_of(client->options.token),
    };
    struct hspz_writer w;
    struct hspz_reply reply;
    hspz_writer_init(&w);
    const uint32_t id = hspz_client_new_id(client);
    hspz_hello_encode(&w, id, &params);
    enum hspz_status status = hspz_client_call(client, id, "hello", false, &w, &reply, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = keep_server_info(client, reply.result);
    if (status != HSPZ_OK) {
        hspz_error_set(err, status, "no memory for an answer");
    }
    hspz_reply_fini(&reply);
    return status;
}

static enum hspz_status
connect_and_greet(struct hspz_client *client, const struct hspz_address *address,
                  int64_t timeout_ms, struct hspz_error *err)
{
    int fd = -1;
    enum hspz_status status =
        hspz_socket_connect(address, timeout_ms, client->options.stop_fd, &fd, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_secure *secure = NULL;
    if (address->tls) {
        const struct hspz_client_options *o = &client->options;
        const struct hspz_secure_options options = {.name = o->server_name != NULL ? o->server_name
                                                                                   : address->host,
                                                    .ca_file = o->ca_file,
                                                    .certificate_file = o->certificate_file,
                                                    .key_file = o->key_file};
        status =
            hspz_secure_open(fd, &options, client->where, timeout_ms, o->stop_fd, &secure, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_channel_open(fd, secure, client->where, &client->channel);
        if (status != HSPZ_OK) {
            hspz_error_set(err, status, "no memory for a connection");
        }
    }
    if (status != HSPZ_OK) {
        hspz_secure_close(&secure);
        close(fd);
        return status;
    }
    client->probe_id = 0;
    client->cancel_id = 0;
    return say_hello(client, err);
}

/* HSPZ_E_NOT_READY while the server says anything but ready. */
static enum hspz_status
check_ready(struct hspz_client *client, struct hspz_error *err)
{
    struct hspz_health health;
    const enum hspz_status status = hspz_client_health(client, &health, err);
    if (status != HSPZ_OK || strcmp(health.state, "ready") == 0) {
        return status;
    }
    if (health.has_percent) {
        return hspz_error_set(err, HSPZ_E_NOT_READY, "%s: still loading (%s, %.0f %%)",
                              client->where, health.state, health.percent);
    }
    return hspz_error_set(err, HSPZ_E_NOT_READY, "%s: not ready (%s)", client->where, health.state);
}

static enum hspz_status
open_with_wait(struct hspz_client *client, const struct hspz_address *address,
               struct hspz_error *err)
{
    const struct hspz_client_options *options = &client->options;
    const int64_t until = options->wait_ms < 0 ? INT64_MAX : hspz_clock_ms() + options->wait_ms;
    for (;;) {
        struct hspz_error why = {0};
        enum hspz_status status = HSPZ_OK;
        if (client->channel == NULL) {
            status = connect_and_greet(client, address, options->connect_timeout_ms, &why);
        }
        if (status == HSPZ_OK && options->wait_ms != 0) {
            status = check_ready(client, &why);
        }
        const int64_t left = until - hspz_clock_ms();
        if (status == HSPZ_OK || !worth_waiting(status) || options->wait_ms == 0 || left <= 0) {
            if (status != HSPZ_OK && err != NULL) {
                *err = why;
            }
            return status;
        }
        if (options->waiting != NULL) {
            options->waiting(options->user, &why);
        }
        /* A greeting that failed is begun again, a server that is loading only asked again. */
        if (status != HSPZ_E_NOT_READY) {
            hspz_client_break(client);
        }
        short got;
        status = hspz_socket_wait(-1, 0, options->stop_fd,
                                  left < WAIT_PAUSE_MS ? left : WAIT_PAUSE_MS, &got);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "%s: %s", client->where, hspz_status_text(status));
        }
    }
}

enum hspz_status
hspz_client_open(const struct hspz_address *address, const struct hspz_client_options *options,
                 struct hspz_client **out, struct hspz_error *err)
{
    struct hspz_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a client");
    }
    if (options != NULL) {
        client->options = *options;
    }
    struct hspz_client_options *o = &client->options;
    o->name = o->name != NULL ? o->name : "libhspz";
    o->connect_timeout_ms = o->connect_timeout_ms != 0 ? o->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    o->answer_timeout_ms = o->answer_timeout_ms != 0 ? o->answer_timeout_ms : ANSWER_TIMEOUT_MS;
    o->silence_timeout_ms = o->silence_timeout_ms != 0 ? o->silence_timeout_ms : SILENCE_TIMEOUT_MS;
    hspz_address_print(address, client->where);
    client->tcp = address->tcp;
    const bool secured = o->ca_file != NULL || o->certificate_file != NULL || o->key_file != NULL ||
                         o->server_name != NULL;
    enum hspz_status status = HSPZ_OK;
    if (secured && !address->tls) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: certificates are for tls: addresses",
                                client->where);
    } else if (address->tls && !hspz_secure_built()) {
        status = hspz_error_set(err, HSPZ_E_UNSUPPORTED, "%s: this libhspz was built without TLS",
                                client->where);
    } else {
        status = open_with_wait(client, address, err);
    }
    if (status != HSPZ_OK) {
        hspz_client_close(&client);
        return status;
    }
    /* What the caller owns is not used after this call. */
    o->name = NULL;
    o->token = NULL;
    o->ca_file = o->certificate_file = o->key_file = o->server_name = NULL;
    *out = client;
    return HSPZ_OK;
}

void
hspz_client_close(struct hspz_client **client)
{
    if (*client != NULL) {
        hspz_client_break(*client);
        free((*client)->text);
        free(*client);
        *client = NULL;
    }
}

const struct hspz_server_info *
hspz_client_server(const struct hspz_client *client)
{
    return &client->server;
}
