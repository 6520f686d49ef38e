#include "client/hspz.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static enum hspz_status
bad_address(struct hspz_error *err, const char *text, const char *why)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "address \"%.200s\": %s (unix:PATH, tcp:HOST:PORT or tls:HOST:PORT)",
                          text, why);
}

static enum hspz_status
parse_unix(const char *text, const char *path, struct hspz_address *out, struct hspz_error *err)
{
    const size_t len = strlen(path);
    if (len == 0) {
        return bad_address(err, text, "the path is missing");
    }
    if (len >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        return bad_address(err, text, "a socket's path has at most 107 bytes");
    }
    *out = (struct hspz_address){0};
    memcpy(out->host, path, len + 1);
    return HSPZ_OK;
}

static bool
is_port(const char *text, size_t len)
{
    unsigned value = 0;
    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = 10 * value + (unsigned)(text[i] - '0');
    }
    return value >= 1 && value <= 65535;
}

static enum hspz_status
parse_tcp(const char *text, const char *rest, struct hspz_address *out, struct hspz_error *err)
{
    const char *host = rest;
    const char *host_end;
    const char *port;
    if (*rest == '[') {
        host = rest + 1;
        host_end = strchr(host, ']');
        if (host_end == NULL) {
            return bad_address(err, text, "the closing ] is missing");
        }
        if (host_end[1] != ':') {
            return bad_address(err, text, "the port is missing");
        }
        port = host_end + 2;
    } else {
        host_end = strchr(rest, ':');
        if (host_end == NULL) {
            return bad_address(err, text, "the port is missing");
        }
        if (strchr(host_end + 1, ':') != NULL) {
            return bad_address(err, text, "an IPv6 address stands in brackets");
        }
        port = host_end + 1;
    }
    const size_t host_len = (size_t)(host_end - host);
    if (host_len == 0 || host_len >= sizeof(out->host)) {
        return bad_address(err, text,
                           host_len == 0 ? "the host is missing" : "the host is too long");
    }
    if (memchr(host, '[', host_len) != NULL || memchr(host, ']', host_len) != NULL) {
        return bad_address(err, text, "brackets stand around a whole host");
    }
    if (!is_port(port, strlen(port))) {
        return bad_address(err, text, "the port is a number from 1 to 65535");
    }
    *out = (struct hspz_address){.tcp = true};
    memcpy(out->host, host, host_len);
    memcpy(out->port, port, strlen(port));
    return HSPZ_OK;
}

enum hspz_status
hspz_address_parse(const char *text, struct hspz_address *out, struct hspz_error *err)
{
    if (strncmp(text, "unix:", 5) == 0) {
        return parse_unix(text, text + 5, out, err);
    }
    if (strncmp(text, "tcp:", 4) == 0) {
        return parse_tcp(text, text + 4, out, err);
    }
    if (strncmp(text, "tls:", 4) == 0) {
        const enum hspz_status status = parse_tcp(text, text + 4, out, err);
        if (status == HSPZ_OK) {
            out->tls = true;
        }
        return status;
    }
    return bad_address(err, text, "it begins with neither unix:, tcp: nor tls:");
}

void
hspz_address_print(const struct hspz_address *address, char text[HSPZ_ADDRESS_TEXT_BYTES])
{
    const char *const scheme = address->tls ? "tls" : "tcp";
    if (!address->tcp) {
        snprintf(text, HSPZ_ADDRESS_TEXT_BYTES, "unix:%s", address->host);
    } else if (strchr(address->host, ':') != NULL) {
        snprintf(text, HSPZ_ADDRESS_TEXT_BYTES, "%s:[%s]:%s", scheme, address->host, address->port);
    } else {
        snprintf(text, HSPZ_ADDRESS_TEXT_BYTES, "%s:%s:%s", scheme, address->host, address->port);
    }
}
