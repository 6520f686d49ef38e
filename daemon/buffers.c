#include "daemon/buffers.h"

#include <stdlib.h>

/* Unused buffers kept; the rest goes back to the engine. */
#define KEEP 16u

struct hspz_buffers {
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    size_t part_bytes;
    uint64_t shared_max, shared_used, taken;
    struct hspz_buffer *unused;
    unsigned unused_count;
};

enum hspz_status
hspz_buffers_create(const struct hspz_engine_ops *ops, struct hspz_engine *engine,
                    size_t part_bytes, uint64_t shared_bytes, struct hspz_buffers **out)
{
    struct hspz_buffers *buffers = calloc(1, sizeof(*buffers));
    if (buffers == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    buffers->ops = ops;
    buffers->engine = engine;
    buffers->part_bytes = part_bytes;
    buffers->shared_max = shared_bytes / part_bytes;
    *out = buffers;
    return HSPZ_OK;
}

static void
buffer_destroy(struct hspz_buffers *buffers, struct hspz_buffer *buffer)
{
    buffers->ops->buffer_destroy(buffers->engine, &buffer->anchors);
    hspz_writer_fini(&buffer->header);
    free(buffer);
}

void
hspz_buffers_destroy(struct hspz_buffers **buffers)
{
    struct hspz_buffers *b = *buffers;
    if (b == NULL) {
        return;
    }
    HSPZ_REQUIRE(b->taken == 0);
    while (b->unused != NULL) {
        struct hspz_buffer *buffer = b->unused;
        b->unused = buffer->next;
        buffer_destroy(b, buffer);
    }
    free(b);
    *buffers = NULL;
}

static enum hspz_status
buffer_create(struct hspz_buffers *buffers, struct hspz_buffer **out)
{
    struct hspz_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    hspz_writer_init(&buffer->header);
    const enum hspz_status status =
        buffers->ops->buffer_create(buffers->engine, buffers->part_bytes, &buffer->anchors);
    if (status != HSPZ_OK) {
        hspz_writer_fini(&buffer->header);
        free(buffer);
        return status;
    }
    *out = buffer;
    return HSPZ_OK;
}

enum hspz_status
hspz_buffers_take(struct hspz_buffers *buffers, unsigned held, struct hspz_buffer **out)
{
    const bool shared = held > 0;
    if (shared && buffers->shared_used >= buffers->shared_max) {
        return HSPZ_E_QUOTA_EXCEEDED;
    }
    struct hspz_buffer *buffer = buffers->unused;
    if (buffer != NULL) {
        buffers->unused = buffer->next;
        buffers->unused_count--;
    } else {
        const enum hspz_status status = buffer_create(buffers, &buffer);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    buffer->next = NULL;
    buffer->shared = shared;
    buffers->shared_used += shared;
    buffers->taken++;
    *out = buffer;
    return HSPZ_OK;
}

void
hspz_buffers_give(struct hspz_buffers *buffers, struct hspz_buffer **buffer)
{
    struct hspz_buffer *b = *buffer;
    if (b == NULL) {
        return;
    }
    HSPZ_REQUIRE(buffers->taken > 0 && (!b->shared || buffers->shared_used > 0));
    buffers->taken--;
    buffers->shared_used -= b->shared;
    b->holder = NULL;
    *buffer = NULL;
    if (buffers->unused_count >= KEEP) {
        buffer_destroy(buffers, b);
        return;
    }
    b->next = buffers->unused;
    buffers->unused = b;
    buffers->unused_count++;
}

size_t
hspz_buffers_part_bytes(const struct hspz_buffers *buffers)
{
    return buffers->part_bytes;
}

uint64_t
hspz_buffers_used_bytes(const struct hspz_buffers *buffers)
{
    return buffers->taken * buffers->part_bytes;
}

uint64_t
hspz_buffers_held_bytes(const struct hspz_buffers *buffers)
{
    return (buffers->taken + buffers->unused_count) * buffers->part_bytes;
}
