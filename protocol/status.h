/* Outcomes of everything that can fail, and the text that goes with them.
 *
 * One list holds every status: its enumerator, its number (fixed for ever: it is an exit value of
 * the C API and may be stored), its name on the wire, and a short text. The first group travels in
 * error maps `{code: name, message: text, ...}` (PROTOCOL.md); the second only arises locally.
 *
 * Threads: everything here is pure or works on the caller's memory.
 * Errors:  a function that fails returns its status; where people need more, it also fills a
 *          `struct hspz_error`, which may always be NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define HSPZ_STATUS_LIST(X)                                                                        \
    X(HSPZ_OK,                   0, "ok",                "done")                                   \
    X(HSPZ_E_BAD_REQUEST,        1, "bad_request",       "the request is not valid")               \
    X(HSPZ_E_UNKNOWN_METHOD,     2, "unknown_method",    "there is no such method")                \
    X(HSPZ_E_UNKNOWN_INDEX,      3, "unknown_index",     "there is no such index")                 \
    X(HSPZ_E_UNSUPPORTED,        4, "unsupported",       "this server does not support that")      \
    X(HSPZ_E_UNAUTHORIZED,       5, "unauthorized",      "the peer is not known here")             \
    X(HSPZ_E_FORBIDDEN,          6, "forbidden",         "the peer may not do that")               \
    X(HSPZ_E_TOO_LARGE,          7, "too_large",         "over a limit")                           \
    X(HSPZ_E_QUEUE_FULL,         8, "queue_full",        "too many jobs are waiting")              \
    X(HSPZ_E_QUOTA_EXCEEDED,     9, "quota_exceeded",    "over a quota")                           \
    X(HSPZ_E_HITS_OVERFLOW,     10, "hits_overflow",     "a batch has more than 4294967295 hits")  \
    X(HSPZ_E_DEADLINE_EXCEEDED, 11, "deadline_exceeded", "the deadline has passed")                \
    X(HSPZ_E_CANCELLED,         12, "cancelled",         "cancelled")                              \
    X(HSPZ_E_OUT_OF_MEMORY,     13, "out_of_memory",     "out of memory")                          \
    X(HSPZ_E_DEVICE_ERROR,      14, "device_error",      "the device failed")                      \
    X(HSPZ_E_SHUTTING_DOWN,     15, "shutting_down",     "the server is shutting down")            \
    X(HSPZ_E_INTERNAL,          16, "internal",          "internal error")                         \
    X(HSPZ_E_NOT_READY,         17, "not_ready",         "still loading")                          \
    X(HSPZ_E_BAD_FILE,          18, "bad_file",          "a file is damaged or of another kind")   \
    X(HSPZ_E_IO,                19, "io_error",          "input or output failed")                 \
    X(HSPZ_E_UNKNOWN_FILTER,    20, "unknown_filter",    "there is no such filter")                \
    X(HSPZ_E_NO_SERVER,         64, "no_server",         "no server answers there")                \
    X(HSPZ_E_INCOMPLETE,        65, "incomplete",        "the stream ended early")                 \
    X(HSPZ_E_BAD_PEER,          66, "bad_peer",          "the peer breaks the protocol")           \
    X(HSPZ_E_STOPPED,           67, "stopped",           "stopped by the caller")
/* clang-format on */

enum hspz_status {
#define HSPZ_STATUS_ENUM(id, number, name, text) id = (number),
    HSPZ_STATUS_LIST(HSPZ_STATUS_ENUM)
#undef HSPZ_STATUS_ENUM
};

#define HSPZ_MUST_USE __attribute__((warn_unused_result))
#define HSPZ_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HSPZ_API __attribute__((visibility("default"))) /* in the shared library */

#define HSPZ_ERROR_TEXT_BYTES 512

/* What went wrong, in words and numbers. `hits`, `limit` and `retry_ms` are details that some
 * errors carry on the wire (hits_overflow, too_large, queue_full); they are present when the flag
 * beside is set. `retry_ms`: trying again after so long may do. */
struct hspz_error {
    enum hspz_status status;
    bool has_hits, has_limit, has_retry;
    uint64_t hits;
    uint64_t limit;
    uint64_t retry_ms;
    char text[HSPZ_ERROR_TEXT_BYTES]; /* one line, no line end, cut with "..." if too long */
};

/* Name on the wire ("bad_request") and short text; never NULL, "internal" for an unknown number. */
HSPZ_API const char *hspz_status_name(enum hspz_status status);
HSPZ_API const char *hspz_status_text(enum hspz_status status);

/* The status of a wire name; HSPZ_E_INTERNAL for a name this version does not know. */
enum hspz_status hspz_status_from_name(const char *name, size_t len);

/* Fills *err (NULL is fine; details are cleared) and returns `status`, so that a failing path reads
 * `return hspz_error_set(err, HSPZ_E_BAD_FILE, "...", ...)`. Control bytes in the text become '?'.
 */
enum hspz_status hspz_error_set(struct hspz_error *err, enum hspz_status status, const char *format,
                                ...) HSPZ_PRINTF(3, 4);

/* Adds to an error (NULL is fine) the limit that was passed, as a detail; returns `status`. */
enum hspz_status hspz_error_limit(struct hspz_error *err, enum hspz_status status, uint64_t limit);

/* As hspz_error_set, ending in ": " and the text of an errno value. */
enum hspz_status hspz_error_errno(struct hspz_error *err, enum hspz_status status, int error,
                                  const char *format, ...) HSPZ_PRINTF(4, 5);

/* A promise between our own functions; stays on in release builds. */
#define HSPZ_REQUIRE(condition)                                                                    \
    ((condition) ? (void)0 : hspz_require_failed(#condition, __FILE__, __LINE__))
void hspz_require_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
