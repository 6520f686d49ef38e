/* Writing the keys of requests and results; private to protocol/. */
#pragma once

#include "protocol/message.h"

static inline void
hspz_put_begin(struct hspz_writer *w, uint32_t id, enum hspz_method method, uint32_t pairs)
{
    hspz_request_begin(w, id, hspz_method_name(method));
    hspz_write_map(w, pairs);
}

static inline void
hspz_put_text(struct hspz_writer *w, const char *key, struct hspz_text text)
{
    hspz_write_str(w, key);
    hspz_write_strn(w, text.bytes, text.len);
}

/* Text of any bytes, such as a name. */
static inline void
hspz_put_any_text(struct hspz_writer *w, const char *key, struct hspz_text text)
{
    hspz_write_str(w, key);
    hspz_write_text(w, text.bytes, text.len);
}

static inline void
hspz_put_timings(struct hspz_writer *w, const struct hspz_timings *timings)
{
    hspz_write_str(w, "timings");
    hspz_write_map(w, 3);
    hspz_write_key_uint(w, "queued_ns", timings->queued_ns);
    hspz_write_key_uint(w, "engine_ns", timings->engine_ns);
    hspz_write_key_uint(w, "total_ns", timings->total_ns);
}

/* The bytes of a bin follow elsewhere; a place in shared memory is whole. */
static inline void
hspz_put_payload(struct hspz_writer *w, bool placed, uint64_t offset, size_t len)
{
    if (placed) {
        hspz_write_map(w, 2);
        hspz_write_key_uint(w, "offset", offset);
        hspz_write_key_uint(w, "length", len);
    } else {
        hspz_write_bin_header(w, len);
    }
}

static inline void
hspz_put_text_if(struct hspz_writer *w, const char *key, struct hspz_text text)
{
    if (text.len > 0) {
        hspz_put_text(w, key, text);
    }
}

static inline void
hspz_put_uint_if(struct hspz_writer *w, const char *key, uint64_t value, uint64_t standard)
{
    if (value != standard) {
        hspz_write_key_uint(w, key, value);
    }
}

static inline void
hspz_put_bool_if(struct hspz_writer *w, const char *key, bool value, bool standard)
{
    if (value != standard) {
        hspz_write_key_bool(w, key, value);
    }
}

/* A request for a page of a list, of `most` entries at most. */
static inline void
hspz_put_list(struct hspz_writer *w, uint32_t id, enum hspz_method method, uint64_t most,
              const struct hspz_list_params *params)
{
    const uint32_t pairs = (uint32_t)(params->first != 0) + (params->count != most);
    if (pairs == 0) {
        hspz_request_bare(w, id, hspz_method_name(method));
        return;
    }
    hspz_put_begin(w, id, method, pairs);
    hspz_put_uint_if(w, "first", params->first, 0);
    hspz_put_uint_if(w, "count", params->count, most);
}
