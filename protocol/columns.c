#include "protocol/columns.h"

#include <endian.h>
#include <string.h>

static uint32_t
u32_at(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Eight at a time, so that the compiler makes vectors of them: that is most of what a client
 * does. */
#define TOGETHER 8u

static void
put_anchors(uint8_t *restrict packed, const uint8_t *restrict refs, size_t count, uint32_t query)
{
    const uint64_t high = (uint64_t)query << 32;
    for (; count >= TOGETHER; count -= TOGETHER) {
        uint32_t ref[TOGETHER];
        uint64_t anchor[TOGETHER];
        memcpy(ref, refs, sizeof(ref));
        for (size_t i = 0; i < TOGETHER; i++) {
            anchor[i] = htole64(high | le32toh(ref[i]));
        }
        memcpy(packed, anchor, sizeof(anchor));
        refs += sizeof(ref);
        packed += sizeof(anchor);
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t anchor = htole64(high | u32_at(refs + i * HSPZ_COLUMN_REF_BYTES));
        memcpy(packed + i * HSPZ_ANCHOR_BYTES, &anchor, sizeof(anchor));
    }
}

/* Anchors of all runs; false when one has none. No branches, so that the compiler makes vectors of
 * it: it is all that a client does that takes columns as they are. */
static bool
sum_runs(const struct hspz_columns *columns, uint64_t *sum)
{
    uint64_t anchors = 0, empty = 0;
    for (size_t i = 0; i < columns->run_count; i++) {
        uint64_t run;
        memcpy(&run, columns->runs + i * HSPZ_RUN_BYTES, sizeof(run));
        const uint64_t count = le64toh(run) >> 32;
        anchors += count;
        empty |= (count - 1) >> 63;
    }
    *sum = anchors;
    return empty == 0;
}

static size_t
first_empty(const struct hspz_columns *columns)
{
    size_t i = 0;
    while (i < columns->run_count && u32_at(columns->runs + i * HSPZ_RUN_BYTES + 4) != 0) {
        i++;
    }
    return i;
}

enum hspz_status
hspz_columns_open(struct hspz_span payload, uint64_t anchors, struct hspz_columns *out,
                  struct hspz_error *err)
{
    const uint64_t refs_len = anchors * HSPZ_COLUMN_REF_BYTES;
    if (anchors > payload.len / HSPZ_COLUMN_REF_BYTES ||
        (payload.len - refs_len) % HSPZ_RUN_BYTES != 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "columns: %zu bytes for %llu anchors",
                              payload.len, (unsigned long long)anchors);
    }
    const struct hspz_columns columns = {
        .runs = payload.bytes,
        .run_count = (payload.len - refs_len) / HSPZ_RUN_BYTES,
        .refs = payload.bytes + (payload.len - refs_len),
        .count = anchors,
    };
    uint64_t sum = 0;
    if (!sum_runs(&columns, &sum)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "columns: run %zu is empty",
                              first_empty(&columns));
    }
    if (sum != anchors) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "columns: runs of %llu anchors, not of %llu",
                              (unsigned long long)sum, (unsigned long long)anchors);
    }
    *out = columns;
    return HSPZ_OK;
}

size_t
hspz_columns_read(const struct hspz_columns *columns, struct hspz_columns_place *place,
                  uint8_t *packed, size_t most)
{
    size_t done = 0;
    while (done < most && place->run < columns->run_count) {
        const uint8_t *run = columns->runs + place->run * HSPZ_RUN_BYTES;
        const uint32_t query = u32_at(run);
        /* Columns in memory that somebody else can write may not be what they were when opened. */
        const uint32_t count = u32_at(run + 4);
        const uint32_t left = count > place->used ? count - place->used : 0;
        const size_t there = columns->count - place->anchor;
        size_t now = left < most - done ? left : most - done;
        now = now < there ? now : there;
        const uint8_t *refs = columns->refs + place->anchor * HSPZ_COLUMN_REF_BYTES;
        put_anchors(packed + done * HSPZ_ANCHOR_BYTES, refs, now, query);
        done += now;
        place->anchor += now;
        place->used += (uint32_t)now;
        if (now == left) {
            place->run++;
            place->used = 0;
        } else if (now == there) {
            break;
        }
    }
    return done;
}
