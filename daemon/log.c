#include "daemon/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a full pipe may hold the loop before a line is given up; once one was, not at all. */
#define SINK_WAIT_MS 20

static const char *const level_names[HSPZ_LOG_LEVEL_COUNT] = {"debug", "info", "warning", "error"};

/* Bytes appended so far; two are kept back for the end of the line. */
struct line {
    char *bytes;
    size_t len;
    bool cut;
};

struct hspz_log_field
hspz_kv(const char *key, const char *text)
{
    return hspz_kv_span(key, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

struct hspz_log_field
hspz_kv_span(const char *key, const void *bytes, size_t len)
{
    return (struct hspz_log_field){.key = key, .text = bytes != NULL ? bytes : "", .len = len};
}

struct hspz_log_field
hspz_kv_uint(const char *key, uint64_t number)
{
    return (struct hspz_log_field){.key = key, .number = number};
}

const char *
hspz_log_level_name(enum hspz_log_level level)
{
    return level_names[level];
}

/* All of it or nothing, so that an escape is never halved. */
static bool
line_add(struct line *line, const char *bytes, size_t len)
{
    if (line->cut || line->len + len > HSPZ_LOG_LINE_BYTES - 8) {
        line->cut = true;
        return false;
    }
    memcpy(line->bytes + line->len, bytes, len);
    line->len += len;
    return true;
}

static void
line_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

/* Length of the well-formed UTF-8 sequence at `b`, 0 when there is none. */
static size_t
utf8_len(const uint8_t *b, size_t room)
{
    if (b[0] < 0x80) {
        return 1;
    }
    const size_t len = b[0] >= 0xc2 && b[0] <= 0xdf   ? 2
                       : b[0] >= 0xe0 && b[0] <= 0xef ? 3
                       : b[0] >= 0xf0 && b[0] <= 0xf4 ? 4
                                                      : 0;
    if (len == 0 || len > room) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
        (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f)) {
        return 0;
    }
    return len;
}

static void
line_quoted(struct line *line, const char *text, size_t text_len)
{
    const uint8_t *b = (const uint8_t *)text;
    const size_t start = line->len;
    line_text(line, "\"");
    for (size_t i = 0; i < text_len && !line->cut;) {
        const size_t len = utf8_len(b + i, text_len - i);
        if (len == 0 || b[i] < 0x20 || b[i] == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof(escape), "\\u%04x", b[i]);
            line_add(line, escape, 6);
            i++;
        } else if (b[i] == '"' || b[i] == '\\') {
            const char escape[2] = {'\\', (char)b[i]};
            line_add(line, escape, 2);
            i++;
        } else {
            line_add(line, text + i, len);
            i += len;
        }
    }
    if (line->cut && line->len > start) {
        memcpy(line->bytes + line->len, "...", 3);
        line->len += 3;
    }
    if (line->len > start) {
        line->bytes[line->len++] = '"';
    }
}

static bool
is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return len > 0;
}

static void
line_field(struct line *line, enum hspz_log_format format, const struct hspz_log_field *field)
{
    const size_t start = line->len;
    line_text(line, format == HSPZ_LOG_JSON ? ",\"" : " ");
    line_text(line, field->key);
    line_text(line, format == HSPZ_LOG_JSON ? "\":" : "=");
    if (line->cut || line->len + 32 > HSPZ_LOG_LINE_BYTES - 8) {
        line->cut = true;
        line->len = start;
        return;
    }
    if (field->text == NULL) {
        char number[24];
        snprintf(number, sizeof(number), "%" PRIu64, field->number);
        line_text(line, number);
    } else if (format == HSPZ_LOG_TEXT && is_plain(field->text, field->len)) {
        if (!line_add(line, field->text, field->len)) {
            line->cut = false;
            line_quoted(line, field->text, field->len);
        }
    } else {
        line_quoted(line, field->text, field->len);
    }
}

size_t
hspz_log_format_line(enum hspz_log_format format, enum hspz_log_level level, uint64_t time_ms,
                     const char *message, const struct hspz_log_field *fields, size_t count,
                     char out[HSPZ_LOG_LINE_BYTES])
{
    struct line line = {.bytes = out};
    const time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;
    char stamp[64];
    gmtime_r(&seconds, &tm);
    const size_t stamp_len = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(stamp + stamp_len, sizeof(stamp) - stamp_len, ".%03uZ", (unsigned)(time_ms % 1000));
    if (format == HSPZ_LOG_JSON) {
        line_text(&line, "{\"time\":\"");
        line_text(&line, stamp);
        line_text(&line, "\",\"level\":\"");
        line_text(&line, level_names[level]);
        line_text(&line, "\",\"message\":");
        line_quoted(&line, message, strlen(message));
    } else {
        line_text(&line, stamp);
        line_text(&line, " ");
        line_text(&line, level_names[level]);
        line_text(&line, " ");
        line_text(&line, message);
    }
    for (size_t i = 0; i < count && !line.cut; i++) {
        line_field(&line, format, &fields[i]);
    }
    if (format == HSPZ_LOG_JSON) {
        out[line.len++] = '}';
    }
    out[line.len++] = '\n';
    return line.len;
}

static bool
sink_write(int fd, int wait_ms, const char *bytes, size_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (poll(&p, 1, wait_ms) != 1 || (p.revents & POLLOUT) == 0) {
        return false;
    }
    ssize_t n;
    do {
        n = write(fd, bytes, len);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)len;
}

void
hspz_log_write(struct hspz_log *log, enum hspz_log_level level, const char *message,
               const struct hspz_log_field *fields, size_t count)
{
    if (level < log->level) {
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    char line[HSPZ_LOG_LINE_BYTES];
    if (log->lost > 0) {
        const struct hspz_log_field lost = hspz_kv_uint("lines", log->lost);
        const size_t len = hspz_log_format_line(log->format, HSPZ_LOG_WARNING, ms,
                                                "log lines were lost", &lost, 1, line);
        if (!sink_write(log->fd, 0, line, len)) {
            log->lost++;
            return;
        }
        log->lost = 0;
    }
    const size_t len = hspz_log_format_line(log->format, level, ms, message, fields, count, line);
    if (!sink_write(log->fd, SINK_WAIT_MS, line, len)) {
        log->lost++;
    }
}
