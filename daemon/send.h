/* Bytes on their way to a connection's peer, embedded in their owner. */
#pragma once

#include <stddef.h>
#include <uv.h>

struct hspz_send {
    uv_buf_t bufs[2]; /* stay valid until done */
    unsigned count;
    void *user; /* the owner's */
    /* Once, from the loop: they are written, or (negative) never will be. */
    void (*done)(struct hspz_send *send, int result);

    /* The connection's. */
    uv_write_t write;
    struct hspz_send *next;
    size_t encrypted, total; /* bytes, with TLS */
};
