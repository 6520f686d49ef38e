#include "protocol/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum hspz_status status;
    const char *name;
    const char *text;
} statuses[] = {
#define HSPZ_STATUS_ROW(id, number, name, text) {id, name, text},
    HSPZ_STATUS_LIST(HSPZ_STATUS_ROW)
#undef HSPZ_STATUS_ROW
};

#define STATUS_COUNT (sizeof(statuses) / sizeof(statuses[0]))

const char *
hspz_status_name(enum hspz_status status)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        if (statuses[i].status == status) {
            return statuses[i].name;
        }
    }
    return "internal";
}

const char *
hspz_status_text(enum hspz_status status)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        if (statuses[i].status == status) {
            return statuses[i].text;
        }
    }
    return "internal error";
}

enum hspz_status
hspz_status_from_name(const char *name, size_t len)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        if (strlen(statuses[i].name) == len && memcmp(statuses[i].name, name, len) == 0) {
            return statuses[i].status;
        }
    }
    return HSPZ_E_INTERNAL;
}

static void
finish_text(struct hspz_error *err, size_t want)
{
    if (want >= sizeof(err->text)) {
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
    }
    for (char *c = err->text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}

enum hspz_status
hspz_error_set(struct hspz_error *err, enum hspz_status status, const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    *err = (struct hspz_error){.status = status};
    va_list args;
    va_start(args, format);
    const int want = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    finish_text(err, want < 0 ? 0 : (size_t)want);
    return status;
}

enum hspz_status
hspz_error_limit(struct hspz_error *err, enum hspz_status status, uint64_t limit)
{
    if (err != NULL) {
        err->has_limit = true;
        err->limit = limit;
    }
    return status;
}

enum hspz_status
hspz_error_errno(struct hspz_error *err, enum hspz_status status, int error, const char *format,
                 ...)
{
    if (err == NULL) {
        return status;
    }
    *err = (struct hspz_error){.status = status};
    va_list args;
    va_start(args, format);
    int want = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    want = want < 0 ? 0 : want;
    if ((size_t)want < sizeof(err->text)) {
        char buffer[128];
        want += snprintf(err->text + want, sizeof(err->text) - (size_t)want, ": %s",
                         strerror_r(error, buffer, sizeof(buffer)));
    }
    finish_text(err, (size_t)want);
    return status;
}

void
hspz_require_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "hspz: broken promise: %s (%s:%d)\n", condition, file, line);
    abort();
}
