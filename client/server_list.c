#include "client/server_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any address that can be one. */
#define LINE_BYTES 512u

void
hspz_server_list_fini(struct hspz_server_list *list)
{
    free(list->items);
    *list = (struct hspz_server_list){0};
}

enum hspz_status
hspz_server_list_add(struct hspz_server_list *list, const struct hspz_named_server *server,
                     struct hspz_error *err)
{
    if (list->count == HSPZ_SERVERS_MOST) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE, "more than %u servers", HSPZ_SERVERS_MOST);
    }
    if (list->count == list->room) {
        const size_t room = list->room == 0 ? 8 : 2 * list->room;
        struct hspz_named_server *grown = realloc(list->items, room * sizeof(*grown));
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for addresses");
        }
        list->items = grown;
        list->room = room;
    }
    list->items[list->count++] = *server;
    return HSPZ_OK;
}

static bool
is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static enum hspz_status
bad_line(const char *name, size_t number, const char *why, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%.200s:%zu: %.280s", name, number, why);
}

static enum hspz_status
parse_line(struct hspz_server_list *list, const char *name, size_t number, const uint8_t *bytes,
           size_t len, struct hspz_error *err)
{
    char text[LINE_BYTES];
    const uint8_t *comment = len > 0 ? memchr(bytes, '#', len) : NULL;
    len = comment != NULL ? (size_t)(comment - bytes) : len;
    while (len > 0 && is_blank(bytes[len - 1])) {
        len--;
    }
    while (len > 0 && is_blank(bytes[0])) {
        bytes++;
        len--;
    }
    if (len == 0) {
        return HSPZ_OK;
    }
    if (len >= sizeof(text)) {
        return bad_line(name, number, "too long for an address", err);
    }
    memcpy(text, bytes, len);
    text[len] = '\0';
    struct hspz_named_server server = {0};
    struct hspz_error why = {0};
    enum hspz_status status = HSPZ_OK;
    if (strlen(text) != len) {
        return bad_line(name, number, "a byte 0", err);
    }
    status = hspz_address_parse(text, &server.address, &why);
    if (status == HSPZ_OK) {
        status = hspz_server_list_add(list, &server, &why);
    }
    if (status != HSPZ_OK) {
        (void)bad_line(name, number, why.text, err);
        if (err != NULL) {
            err->status = status;
        }
    }
    return status;
}

enum hspz_status
hspz_server_list_parse(struct hspz_server_list *list, const char *name, const uint8_t *bytes,
                       size_t len, struct hspz_error *err)
{
    size_t number = 1;
    for (size_t at = 0; at < len; number++) {
        const uint8_t *end = memchr(bytes + at, '\n', len - at);
        const size_t line = end != NULL ? (size_t)(end - (bytes + at)) : len - at;
        const enum hspz_status status = parse_line(list, name, number, bytes + at, line, err);
        if (status != HSPZ_OK) {
            return status;
        }
        at += line + 1;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_server_list_read(struct hspz_server_list *list, const char *path, struct hspz_error *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read the servers", path);
    }
    enum hspz_status status = HSPZ_OK;
    uint8_t *bytes = malloc(HSPZ_SERVER_FILE_BYTES + 1);
    if (bytes == NULL) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for addresses");
    }
    const size_t len = bytes != NULL ? fread(bytes, 1, HSPZ_SERVER_FILE_BYTES + 1, file) : 0;
    if (status == HSPZ_OK && ferror(file) != 0) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read the servers", path);
    } else if (status == HSPZ_OK && len > HSPZ_SERVER_FILE_BYTES) {
        status = hspz_error_set(err, HSPZ_E_TOO_LARGE, "%.200s: more than %u bytes of addresses",
                                path, HSPZ_SERVER_FILE_BYTES);
    }
    if (status == HSPZ_OK) {
        status = hspz_server_list_parse(list, path, bytes, len, err);
    }
    free(bytes);
    fclose(file);
    return status;
}
