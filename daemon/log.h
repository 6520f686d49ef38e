/* The daemon's log: one line an event, on a file descriptor.
 *
 *   text  2026-01-02T03:04:05.678Z info job done conn=3 job=7 hits=12
 *   json  {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"job done","conn":3,...}
 *
 * Messages are lower case, without a full stop; what varies goes into fields. Values that hold
 * blanks, quotes, control bytes or anything outside ASCII are quoted and escaped in text, and
 * always valid JSON (bytes that are no UTF-8 become \u00XX), so that a peer's text never forges a
 * line.
 *
 * A line is at most HSPZ_LOG_LINE_BYTES and one write(2). A sink that fails, or is full and not
 * read, loses lines (the next line that gets through says how many); it never stops the daemon.
 *
 * Threads: the loop thread only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_LOG_LINE_BYTES 4096

enum hspz_log_level {
    HSPZ_LOG_DEBUG,
    HSPZ_LOG_INFO,
    HSPZ_LOG_WARNING,
    HSPZ_LOG_ERROR,
    HSPZ_LOG_LEVEL_COUNT,
};

enum hspz_log_format { HSPZ_LOG_TEXT, HSPZ_LOG_JSON };

struct hspz_log {
    int fd;
    enum hspz_log_level level; /* lines below are not written */
    enum hspz_log_format format;
    uint64_t lost; /* lines since the last that was written */
};

/* A key and its value: text of `len` bytes, or a number when `text` is NULL. */
struct hspz_log_field {
    const char *key;
    const char *text;
    size_t len;
    uint64_t number;
};

struct hspz_log_field hspz_kv(const char *key, const char *text); /* NULL text is "" */
struct hspz_log_field hspz_kv_span(const char *key, const void *bytes, size_t len);
struct hspz_log_field hspz_kv_uint(const char *key, uint64_t number);

const char *hspz_log_level_name(enum hspz_log_level level);

void hspz_log_write(struct hspz_log *log, enum hspz_log_level level, const char *message,
                    const struct hspz_log_field *fields, size_t count);

/* One line as it would be written, line end included; returns its length. `time_ms` is since 1970.
 */
size_t hspz_log_format_line(enum hspz_log_format format, enum hspz_log_level level,
                            uint64_t time_ms, const char *message,
                            const struct hspz_log_field *fields, size_t count,
                            char out[HSPZ_LOG_LINE_BYTES]);

/* HSPZ_LOG(log, HSPZ_LOG_INFO, "job done", hspz_kv_uint("job", id), ...); the first element only
 * lets the list be empty. */
#define HSPZ_LOG(log, level, message, ...)                                                         \
    hspz_log_write(log, level, message, (const struct hspz_log_field[]){{0}, __VA_ARGS__} + 1,     \
                   sizeof((const struct hspz_log_field[]){{0}, __VA_ARGS__}) /                     \
                           sizeof(struct hspz_log_field) -                                         \
                       1)
