#include "client/srv.h"

#include <netinet/in.h>
/* In this order. */
#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES 65536
#define NAME_MOST 253u
#define TRIES 2
#define TRY_SECONDS 3

struct record {
    uint16_t priority, weight;
    struct hspz_named_server server;
};

enum hspz_status
hspz_srv_name(const char *text, char name[HSPZ_SRV_NAME_BYTES], bool *tls, struct hspz_error *err)
{
    const bool plain = strncmp(text, "srv:", 4) == 0;
    if (!plain && strncmp(text, "tls-srv:", 8) != 0) {
        return HSPZ_E_UNSUPPORTED;
    }
    const char *given = text + (plain ? 4 : 8);
    const size_t len = strlen(given);
    if (len == 0 || len > NAME_MOST ||
        strspn(given, "abcdefghijklmnopqrstuvwxyz"
                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_.") != len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "address \"%.280s\": a name of DNS is 1 to %u letters, digits, "
                              "hyphens, underscores and dots",
                              text, NAME_MOST);
    }
    *tls = !plain;
    snprintf(name, HSPZ_SRV_NAME_BYTES, "%s%s", given[0] == '_' ? "" : "_hspz._tcp.", given);
    return HSPZ_OK;
}

static int
compare(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    if (x->priority != y->priority) {
        return x->priority < y->priority ? -1 : 1;
    }
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    const int hosts = strcmp(x->server.address.host, y->server.address.host);
    return hosts != 0 ? hosts : strcmp(x->server.address.port, y->server.address.port);
}

static enum hspz_status
bad_answer(const char *name, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%.280s: the answer of DNS is not valid", name);
}

/* One record of the answer. *used: it names a server. */
static enum hspz_status
read_record(const char *name, ns_msg *message, int i, struct record *out, bool *used,
            struct hspz_error *err)
{
    ns_rr rr;
    char host[NS_MAXDNAME];
    *used = false;
    if (ns_parserr(message, ns_s_an, i, &rr) != 0) {
        return bad_answer(name, err);
    }
    if (ns_rr_type(rr) != ns_t_srv) {
        return HSPZ_OK;
    }
    const uint8_t *data = ns_rr_rdata(rr);
    if (ns_rr_rdlen(rr) < 7 ||
        dn_expand(ns_msg_base(*message), ns_msg_end(*message), data + 6, host, sizeof(host)) < 0) {
        return bad_answer(name, err);
    }
    const unsigned port = (unsigned)data[4] << 8 | data[5];
    const size_t len = strlen(host);
    *out = (struct record){.priority = (uint16_t)((unsigned)data[0] << 8 | data[1]),
                           .weight = (uint16_t)((unsigned)data[2] << 8 | data[3])};
    struct hspz_address *address = &out->server.address;
    /* "." says that there is none. */
    if (len == 0 || strcmp(host, ".") == 0) {
        return HSPZ_OK;
    }
    if (len >= sizeof(address->host) || port == 0) {
        return bad_answer(name, err);
    }
    address->tcp = true;
    memcpy(address->host, host, len + 1);
    snprintf(address->port, sizeof(address->port), "%u", port);
    *used = true;
    return HSPZ_OK;
}

static enum hspz_status
add_records(struct record *records, size_t count, bool tls, struct hspz_server_list *list,
            struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    unsigned rank = 0;
    qsort(records, count, sizeof(*records), compare);
    for (size_t i = 0; i < count && status == HSPZ_OK; i++) {
        rank += i > 0 && records[i].priority != records[i - 1].priority;
        records[i].server.rank = rank;
        records[i].server.address.tls = tls;
        status = hspz_server_list_add(list, &records[i].server, err);
    }
    return status;
}

enum hspz_status
hspz_srv_parse(const char *name, const uint8_t *answer, size_t len, bool tls,
               struct hspz_server_list *list, struct hspz_error *err)
{
    ns_msg message;
    if (len > ANSWER_BYTES || ns_initparse(answer, (int)len, &message) != 0) {
        return bad_answer(name, err);
    }
    const int all = ns_msg_count(message, ns_s_an);
    struct record *records = calloc((size_t)all + 1, sizeof(*records));
    if (records == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer of DNS");
    }
    enum hspz_status status = HSPZ_OK;
    size_t count = 0;
    for (int i = 0; i < all && status == HSPZ_OK; i++) {
        bool used = false;
        status = read_record(name, &message, i, &records[count], &used, err);
        count += used;
    }
    if (status == HSPZ_OK && count == 0) {
        status = hspz_error_set(err, HSPZ_E_NO_SERVER, "%.280s: DNS names no server", name);
    }
    if (status == HSPZ_OK) {
        status = add_records(records, count, tls, list, err);
    }
    free(records);
    return status;
}

enum hspz_status
hspz_srv_look_up(const char *name, bool tls, struct hspz_server_list *list, struct hspz_error *err)
{
    const res_state state = calloc(1, sizeof(*state));
    uint8_t *answer = malloc(ANSWER_BYTES);
    if (state == NULL || answer == NULL || res_ninit(state) != 0) {
        free(answer);
        free(state);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.280s: cannot ask DNS", name);
    }
    state->retry = TRIES;
    state->retrans = TRY_SECONDS;
    const int len = res_nquery(state, name, ns_c_in, ns_t_srv, answer, ANSWER_BYTES);
    enum hspz_status status;
    if (len < 0) {
        const bool none = state->res_h_errno == HOST_NOT_FOUND || state->res_h_errno == NO_DATA;
        status = hspz_error_set(err, HSPZ_E_NO_SERVER, "%.280s: %s", name,
                                none ? "DNS names no server" : "DNS does not answer");
    } else {
        status = hspz_srv_parse(name, answer, len < ANSWER_BYTES ? (size_t)len : ANSWER_BYTES, tls,
                                list, err);
    }
    res_nclose(state);
    free(state);
    free(answer);
    return status;
}
