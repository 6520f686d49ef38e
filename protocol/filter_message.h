/* The messages of filters, as protocol/message.h has the others: methods `filter.*`, notifications
 * `answers` and `entries`. PROTOCOL.md describes each byte for byte.
 *
 * A filter is named NAME (its tenant's own) or TENANT/NAME (another's that is shared). Spans and
 * texts borrow from the frame. */
#pragma once

#include "protocol/message.h"

/* What is told of each key. Payloads of all `answers` of a request, but for `both`, make one bitmap
 * or array. */
enum hspz_filter_answer {
    HSPZ_ANSWER_NONE,
    HSPZ_ANSWER_BITMAP, /* bit i % 8 of byte i / 8: key i went in, is there, was taken away */
    HSPZ_ANSWER_ARRAY,  /* little-endian u64: its count, or value; 0 if it is not there */
    HSPZ_ANSWER_BOTH,   /* the array, then the bitmap, in each payload */
    HSPZ_ANSWERS
};
const char *hspz_filter_answer_name(enum hspz_filter_answer answer); /* "none", ... */
/* Bytes of a payload about `count` keys; 0 with no answer. */
uint64_t hspz_filter_answer_bytes(enum hspz_filter_answer answer, uint64_t count);

/* Zero is "follows from the others", or the default, as in engine/filter.h. */
struct hspz_filter_create_params {
    struct hspz_text filter; /* required: a name of its own */
    struct hspz_text kind;   /* required */
    uint64_t capacity;
    double rate;
    uint64_t slots, slot_bits, block_slots, hashes, value_bits, seed;
    uint64_t k; /* keys are k-mers of so many bases, 1 to 32 */
    bool canonical;
    bool shared;
    uint64_t parts; /* of equal ranges of the hash, over the server's devices in turn */
};

/* filter.insert, insert_if_absent, query, count, delete, decrement. */
struct hspz_filter_keys_params {
    struct hspz_text filter;        /* required */
    enum hspz_filter_answer answer; /* default: the array for count, the bitmap for others; the
                                       array is of query, count and insert_if_absent */
    uint64_t deadline_ms;
    uint64_t priority;
    struct hspz_span keys;   /* required: little-endian u64; or the sequence in their place */
    bool sequence;           /* keys are bases: key i is the k-mer that begins with base i */
    struct hspz_span values; /* inserts only: as many u64; none: 0 each */
    struct hspz_span counts; /* insert and decrement only: as many u64; none: once each */
    bool shm;                /* `transport`: answers come through shared memory */
    bool placed; /* keys, values and counts are in shared memory: they have lengths and no bytes, */
    uint64_t keys_at, values_at, counts_at; /* and begin there */
};
bool hspz_filter_takes_keys(enum hspz_method method);
uint64_t hspz_filter_key_count(const struct hspz_filter_keys_params *params);

struct hspz_filter_enumerate_params {
    struct hspz_text filter; /* required */
    uint64_t deadline_ms;
    uint64_t priority;
    bool shm; /* `transport`: entries come through shared memory */
};

struct hspz_filter_merge_params {
    struct hspz_text filter; /* required: takes up what `from` has */
    struct hspz_text from;   /* required */
};

/* filter.save, load, drop, stats. */
struct hspz_filter_name_params {
    struct hspz_text filter; /* required */
    bool shared;             /* load only */
    bool saved;              /* drop only: what was saved of that name goes, too */
};

HSPZ_MUST_USE enum hspz_status hspz_filter_create_decode(const struct hspz_node *params,
                                                         struct hspz_filter_create_params *out,
                                                         struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_filter_keys_decode(enum hspz_method method,
                                                       const struct hspz_node *params,
                                                       struct hspz_filter_keys_params *out,
                                                       struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status
hspz_filter_enumerate_decode(const struct hspz_node *params,
                             struct hspz_filter_enumerate_params *out, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_filter_merge_decode(const struct hspz_node *params,
                                                        struct hspz_filter_merge_params *out,
                                                        struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_filter_name_decode(enum hspz_method method,
                                                       const struct hspz_node *params,
                                                       struct hspz_filter_name_params *out,
                                                       struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_filter_list_decode(const struct hspz_node *params,
                                                       struct hspz_list_params *out,
                                                       struct hspz_error *err);

void hspz_filter_create_encode(struct hspz_writer *w, uint32_t id,
                               const struct hspz_filter_create_params *params);
/* Up to the header of the bin of keys or of the sequence, whose bytes follow on the wire; then, for
 * values and for counts if there are any (bytes not NULL), hspz_filter_more_encode and their bytes.
 * Of placed ones (values and counts, if any, have a length) all. */
void hspz_filter_keys_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                             const struct hspz_filter_keys_params *params);
void hspz_filter_more_encode(struct hspz_writer *w, const char *key, size_t bytes);
void hspz_filter_enumerate_encode(struct hspz_writer *w, uint32_t id,
                                  const struct hspz_filter_enumerate_params *params);
void hspz_filter_merge_encode(struct hspz_writer *w, uint32_t id,
                              const struct hspz_filter_merge_params *params);
void hspz_filter_name_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                             const struct hspz_filter_name_params *params);
void hspz_filter_list_encode(struct hspz_writer *w, uint32_t id,
                             const struct hspz_list_params *params);

/* Notification `answers`: of keys [first, first + count) of the request. All but the last of a
 * request have a count that is a multiple of 8. */
struct hspz_answers_head {
    uint32_t job;
    enum hspz_filter_answer answer;
    uint64_t first, count;
    bool placed;     /* the payload is in shared memory, */
    uint64_t offset; /* from here on */
};
/* Up to and including the bin header; hspz_filter_answer_bytes follow on the wire, unless they are
 * placed. Decoded, a placed payload has a length and no bytes. */
void hspz_answers_encode(struct hspz_writer *w, const struct hspz_answers_head *head);
HSPZ_MUST_USE enum hspz_status hspz_answers_decode(const struct hspz_node *params,
                                                   struct hspz_answers_head *out,
                                                   struct hspz_span *payload,
                                                   struct hspz_error *err);

/* Notification `entries`: entries [first, first + count) of the filter, each three little-endian
 * u64: fingerprint, value, count. */
#define HSPZ_ENTRY_BYTES 24u
struct hspz_entries_head {
    uint32_t job;
    uint64_t first, count;
    bool placed; /* as of answers */
    uint64_t offset;
};
void hspz_entries_encode(struct hspz_writer *w, const struct hspz_entries_head *head);
HSPZ_MUST_USE enum hspz_status hspz_entries_decode(const struct hspz_node *params,
                                                   struct hspz_entries_head *out,
                                                   struct hspz_span *payload,
                                                   struct hspz_error *err);

/* The result of a call with keys, and of filter.enumerate. */
struct hspz_filter_job_result {
    uint64_t keys;    /* given; enumerate: entries sent */
    uint64_t yes;     /* that went in, are there, were taken away */
    bool filter_full; /* not all went in */
    struct hspz_timings timings;
};
void hspz_filter_keys_result_encode(struct hspz_writer *w, uint32_t id,
                                    const struct hspz_filter_job_result *result);
HSPZ_MUST_USE enum hspz_status hspz_filter_keys_result_decode(const struct hspz_node *result,
                                                              struct hspz_filter_job_result *out,
                                                              struct hspz_error *err);
void hspz_filter_enumerate_result_encode(struct hspz_writer *w, uint32_t id,
                                         const struct hspz_filter_job_result *result);
HSPZ_MUST_USE enum hspz_status
hspz_filter_enumerate_result_decode(const struct hspz_node *result,
                                    struct hspz_filter_job_result *out, struct hspz_error *err);

/* The result of filter.create, merge, save, load, drop and stats. */
struct hspz_filter_info {
    struct hspz_text filter, kind;
    bool shared;
    uint64_t capacity, slots, slot_bits, block_slots, hashes, value_bits, seed; /* as planned */
    uint64_t k;
    bool canonical;
    uint64_t parts;      /* 1: whole */
    uint64_t full_slots; /* takes keys up to here for sure */
    uint64_t bytes;
    double expected_rate; /* of false positives, at capacity */
    uint64_t entries, total, used;
    double load, rate; /* now */
    bool filter_full;  /* merge: nothing was taken up, it does not fit */
};
void hspz_filter_info_encode(struct hspz_writer *w, uint32_t id,
                             const struct hspz_filter_info *info);
HSPZ_MUST_USE enum hspz_status hspz_filter_info_decode(const struct hspz_node *result,
                                                       struct hspz_filter_info *out,
                                                       struct hspz_error *err);

/* The result of filter.list, in pages as that of index.list. */
struct hspz_filter_list_entry {
    struct hspz_text filter, kind;
    bool shared;
    uint64_t bytes;
};
void hspz_filter_list_result_encode(struct hspz_writer *w, uint32_t id, uint64_t filter_count,
                                    uint64_t first, const struct hspz_filter_list_entry *entries,
                                    size_t count);
struct hspz_filter_list_result {
    uint64_t filter_count; /* that this client can see */
    uint64_t first;
    size_t count; /* in this page */
    struct hspz_filter_list_entry entries[HSPZ_PAGE_FILTERS_LIMIT];
};
HSPZ_MUST_USE enum hspz_status hspz_filter_list_result_decode(const struct hspz_node *result,
                                                              struct hspz_filter_list_result *out,
                                                              struct hspz_error *err);
