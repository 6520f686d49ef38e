#include "protocol/writer.h"

#include "protocol/limits.h"
#include "protocol/text.h"

#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#define WRITER_FIRST_BYTES 128u

void
hspz_writer_init(struct hspz_writer *w)
{
    *w = (struct hspz_writer){0};
}

void
hspz_writer_fini(struct hspz_writer *w)
{
    free(w->bytes);
    *w = (struct hspz_writer){0};
}

enum hspz_status
hspz_writer_take(struct hspz_writer *w, uint8_t **bytes, size_t *len)
{
    if (w->failed) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    *bytes = w->bytes;
    *len = w->len;
    *w = (struct hspz_writer){0};
    return HSPZ_OK;
}

static bool
reserve(struct hspz_writer *w, size_t more)
{
    if (more <= w->capacity - w->len) {
        return true;
    }
    if (more > SIZE_MAX / 2 - w->len) {
        return false;
    }
    size_t capacity = w->capacity < WRITER_FIRST_BYTES ? WRITER_FIRST_BYTES : w->capacity;
    while (capacity - w->len < more) {
        capacity *= 2;
    }
    uint8_t *bytes = realloc(w->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    w->bytes = bytes;
    w->capacity = capacity;
    return true;
}

static int
append(void *user, const char *bytes, size_t len)
{
    struct hspz_writer *w = user;
    if (len == 0) {
        return w->failed ? -1 : 0;
    }
    if (w->failed || !reserve(w, len)) {
        w->failed = true;
        return -1;
    }
    memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
    return 0;
}

static msgpack_packer
packer(struct hspz_writer *w)
{
    msgpack_packer pk;
    msgpack_packer_init(&pk, w, append);
    return pk;
}

void
hspz_write_nil(struct hspz_writer *w)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_nil(&pk);
}

void
hspz_write_bool(struct hspz_writer *w, bool value)
{
    msgpack_packer pk = packer(w);
    if (value) {
        msgpack_pack_true(&pk);
    } else {
        msgpack_pack_false(&pk);
    }
}

void
hspz_write_uint(struct hspz_writer *w, uint64_t value)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_uint64(&pk, value);
}

void
hspz_write_int(struct hspz_writer *w, int64_t value)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_int64(&pk, value);
}

void
hspz_write_float(struct hspz_writer *w, double value)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_double(&pk, value);
}

void
hspz_write_str(struct hspz_writer *w, const char *text)
{
    hspz_write_strn(w, text, strlen(text));
}

void
hspz_write_strn(struct hspz_writer *w, const char *text, size_t len)
{
    HSPZ_REQUIRE(len <= UINT32_MAX);
    msgpack_packer pk = packer(w);
    msgpack_pack_str(&pk, len);
    msgpack_pack_str_body(&pk, text, len);
}

void
hspz_write_bin(struct hspz_writer *w, const void *bytes, size_t len)
{
    hspz_write_bin_header(w, len);
    append(w, bytes, len);
}

void
hspz_write_text(struct hspz_writer *w, const char *text, size_t len)
{
    if (len <= HSPZ_FRAME_INLINE_BIN && hspz_utf8_prefix((const uint8_t *)text, len) == len) {
        hspz_write_strn(w, text, len);
    } else {
        hspz_write_bin(w, text, len);
    }
}

void
hspz_write_bin_header(struct hspz_writer *w, size_t len)
{
    HSPZ_REQUIRE(len <= UINT32_MAX);
    msgpack_packer pk = packer(w);
    msgpack_pack_bin(&pk, len);
}

void
hspz_write_array(struct hspz_writer *w, uint32_t count)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_array(&pk, count);
}

void
hspz_write_map(struct hspz_writer *w, uint32_t pairs)
{
    msgpack_packer pk = packer(w);
    msgpack_pack_map(&pk, pairs);
}

void
hspz_write_key_uint(struct hspz_writer *w, const char *key, uint64_t value)
{
    hspz_write_str(w, key);
    hspz_write_uint(w, value);
}

void
hspz_write_key_bool(struct hspz_writer *w, const char *key, bool value)
{
    hspz_write_str(w, key);
    hspz_write_bool(w, value);
}

void
hspz_write_key_float(struct hspz_writer *w, const char *key, double value)
{
    hspz_write_str(w, key);
    hspz_write_float(w, value);
}

void
hspz_write_key_str(struct hspz_writer *w, const char *key, const char *text)
{
    hspz_write_str(w, key);
    hspz_write_str(w, text);
}
