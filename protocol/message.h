/* The messages of protocol 1, as structs: what a request asks for, and how replies and
 * notifications are written. PROTOCOL.md describes each byte for byte.
 *
 *   request       [0, id, method, [params]]      id is a u32, params one map (or none)
 *   response      [1, id, error, result]         error is nil or a map {code, message, ...}
 *   notification  [2, method, [params...]]
 *
 * Decoding checks types, ranges and unknown keys (refused by name, so that a misspelt option is
 * never silently ignored); what a request leaves out gets the default written here. Spans and
 * strings borrow from the frame. */
#pragma once

#include "protocol/limits.h"
#include "protocol/node.h"
#include "protocol/status.h"
#include "protocol/types.h"
#include "protocol/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shape of an index when a build names none. */
#define HSPZ_SHAPE_DEFAULT "12of19"

enum hspz_message_kind { HSPZ_REQUEST = 0, HSPZ_RESPONSE = 1, HSPZ_NOTIFICATION = 2 };

/* clang-format off */
#define HSPZ_METHOD_LIST(X)                        \
    X(HSPZ_METHOD_HELLO,          "hello")          \
    X(HSPZ_METHOD_DISCOVER,       "discover")       \
    X(HSPZ_METHOD_CANCEL,         "cancel")         \
    X(HSPZ_METHOD_INDEX_LIST,     "index.list")     \
    X(HSPZ_METHOD_INDEX_DESCRIBE, "index.describe") \
    X(HSPZ_METHOD_INDEX_LOAD,     "index.load")     \
    X(HSPZ_METHOD_INDEX_UNLOAD,   "index.unload")   \
    X(HSPZ_METHOD_INDEX_BUILD,    "index.build")    \
    X(HSPZ_METHOD_STATS,          "stats")          \
    X(HSPZ_METHOD_HEALTH,         "health")         \
    X(HSPZ_METHOD_FILTER_CREATE,  "filter.create")  \
    X(HSPZ_METHOD_FILTER_INSERT,  "filter.insert")  \
    X(HSPZ_METHOD_FILTER_INSERT_IF_ABSENT, "filter.insert_if_absent") \
    X(HSPZ_METHOD_FILTER_QUERY,   "filter.query")   \
    X(HSPZ_METHOD_FILTER_COUNT,   "filter.count")   \
    X(HSPZ_METHOD_FILTER_DELETE,  "filter.delete")  \
    X(HSPZ_METHOD_FILTER_DECREMENT, "filter.decrement") \
    X(HSPZ_METHOD_FILTER_ENUMERATE, "filter.enumerate") \
    X(HSPZ_METHOD_FILTER_MERGE,   "filter.merge")   \
    X(HSPZ_METHOD_FILTER_SAVE,    "filter.save")    \
    X(HSPZ_METHOD_FILTER_LOAD,    "filter.load")    \
    X(HSPZ_METHOD_FILTER_DROP,    "filter.drop")    \
    X(HSPZ_METHOD_FILTER_LIST,    "filter.list")    \
    X(HSPZ_METHOD_FILTER_STATS,   "filter.stats")   \
    X(HSPZ_METHOD_SHM_OPEN,       "shm.open")       \
    X(HSPZ_METHOD_DRAIN,          "drain")
/* clang-format on */

enum hspz_method {
#define HSPZ_METHOD_ENUM(id, name) id,
    HSPZ_METHOD_LIST(HSPZ_METHOD_ENUM)
#undef HSPZ_METHOD_ENUM
        HSPZ_METHOD_COUNT,
};

const char *hspz_method_name(enum hspz_method method);

/* Not terminated; len 0 when absent. */
struct hspz_text {
    const char *bytes;
    size_t len;
};

struct hspz_hello_params {
    uint64_t protocol; /* required */
    struct hspz_text client;
    struct hspz_text token;
};

struct hspz_discover_params {
    /* Keys are those of the params map itself, but for `bases`, which is inside `query`. */
    struct hspz_text index;       /* required */
    bool has_seeds;               /* `seeds`, or else `query`: exactly one is required */
    struct hspz_span seeds;       /* little-endian u64, a multiple of 8 bytes */
    struct hspz_span bases;       /* `query: {bases}`: ASCII, sequences joined by '&' */
    enum hspz_strands strands;    /* query only; default both */
    uint32_t transitions;         /* query only; 0 (false), 1 (true) or 2; default 1 */
    bool unmask;                  /* query only; default false: fold lower case to upper */
    uint64_t begin, end;          /* query only: window starts to seed on each strand, in that
                                     strand's coordinates; default 0, UINT64_MAX (all) */
    uint64_t max_hits;            /* 1 or more; default HSPZ_MAX_HITS_DEFAULT */
    uint64_t hit_limit;           /* default UINT64_MAX: none */
    uint64_t max_word_count;      /* default UINT64_MAX: none */
    uint64_t keep_words;          /* 1 to HSPZ_KEEP_ALL, the default */
    struct hspz_text mask_filter; /* query only: a filter of k-mers; default none */
    uint64_t mask_count;          /* with mask_filter: windows that begin with a k-mer which it has
                                     more often than this are dropped; default 0 */
    uint64_t deadline_ms;         /* from the request's arrival; default 0: none */
    uint64_t priority;            /* among its tenant's jobs, larger first, at most
                                     HSPZ_PRIORITY_LIMIT; default HSPZ_PRIORITY_DEFAULT */
    enum hspz_chunk_walk walk;    /* `chunk_walk`: "blocks" (default) or "full" */
    bool digest;                  /* default true */
    enum hspz_encoding encoding; /* "packed" (default) or "columnar", of anchors only; anything else
                                    is HSPZ_E_UNSUPPORTED */
    uint64_t interval;        /* query only: KegAlign's plan (engine/engine.h) over intervals of so
                                 many positions; not with begin or end; default 0: none */
    enum hspz_records output; /* `output`: "anchors" (default) or "hsps"; hsps: query only */
    struct hspz_scoring scoring;  /* hsps only: `hsps: {xdrop, threshold, entropy, scope, limit,
                                     scores}`, each with a default; scope is "job" or "chunk" */
    bool has_scores;              /* `scores`, a bin of 64 little-endian i32; else scoring.scores is
                                     all 0, and the engine's default is meant */
    struct hspz_text want_digest; /* `index_digest`: refuse another index than this */
    struct hspz_text want_shape;  /* `shape`: refuse an index of another shape */
    uint64_t want_step;           /* `step`: refuse an index of another step; default 0: any */
    bool shm;                     /* `transport`: "stream" (default) or "shm" */
    bool placed;                  /* the payload is a place in shared memory: `seeds` or `bases` has
                                     a length and no bytes */
    uint64_t offset;              /* and there it begins */
};

struct hspz_cancel_params {
    uint32_t job; /* required */
};

struct hspz_drain_params {
    uint64_t wait_ms; /* 0: answer at once */
};

struct hspz_index_params_name {
    struct hspz_text index; /* required */
};

/* Replies that may be long come in pages: `first` is the place of the page's first entry. */
struct hspz_describe_params {
    struct hspz_text index; /* required */
    uint64_t first;         /* of the sequences, and of the blocks; default 0 */
    uint64_t count;         /* 1 to HSPZ_PAGE_SEQUENCES_LIMIT, the default */
};

struct hspz_list_params {
    uint64_t first; /* default 0 */
    uint64_t count; /* 1 to HSPZ_PAGE_INDEXES_LIMIT, the default */
};

struct hspz_load_params {
    struct hspz_text index; /* required: the name to serve it under */
    struct hspz_text file;  /* required: a name under the index directory, or absolute */
    struct hspz_text want_shape;
    struct hspz_text want_digest;
    uint64_t want_step;
};

struct hspz_build_params {
    struct hspz_text index;  /* required: loaded under this name when built */
    struct hspz_text source; /* required: FASTA or 2bit, under the data directory, or absolute */
    struct hspz_text file;   /* required: index file to write */
    struct hspz_text shape;  /* default 12of19 */
    uint64_t step;           /* default 1 */
    bool unmask;
    bool all_positions;
    uint64_t block_size; /* default 0: the engine's */
};

struct hspz_message {
    enum hspz_message_kind kind;
    uint32_t id;                  /* requests and responses */
    struct hspz_text method_name; /* requests and notifications */
    bool known;                   /* the method is one of ours */
    enum hspz_method method;
    const struct hspz_node *params; /* requests: the one map, or NULL when there is none;
                                       notifications: the params array */
    const struct hspz_node *error;  /* responses */
    const struct hspz_node *result; /* responses */
};

/* The envelope. HSPZ_E_BAD_REQUEST when it is not one of the three forms above; when at least kind
 * and id could be read, *out says so and *answerable is true: the error can be sent as a response.
 */
HSPZ_MUST_USE enum hspz_status hspz_message_decode(const struct hspz_doc *doc,
                                                   struct hspz_message *out, bool *answerable,
                                                   struct hspz_error *err);

HSPZ_MUST_USE enum hspz_status hspz_hello_decode(const struct hspz_node *params,
                                                 struct hspz_hello_params *out,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_discover_decode(const struct hspz_node *params,
                                                    struct hspz_discover_params *out,
                                                    struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cancel_decode(const struct hspz_node *params,
                                                  struct hspz_cancel_params *out,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_drain_decode(const struct hspz_node *params,
                                                 struct hspz_drain_params *out,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_index_name_decode(const struct hspz_node *params,
                                                      struct hspz_index_params_name *out,
                                                      struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_describe_decode(const struct hspz_node *params,
                                                    struct hspz_describe_params *out,
                                                    struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_list_decode(const struct hspz_node *params,
                                                struct hspz_list_params *out,
                                                struct hspz_error *err);
/* The page is of each list in the answer. */
HSPZ_MUST_USE enum hspz_status hspz_stats_decode(const struct hspz_node *params,
                                                 struct hspz_list_params *out,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_load_decode(const struct hspz_node *params,
                                                struct hspz_load_params *out,
                                                struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_build_decode(const struct hspz_node *params,
                                                 struct hspz_build_params *out,
                                                 struct hspz_error *err);
/* The rule for index names, for those that come from elsewhere: 1 to HSPZ_NAME_BYTES_LIMIT bytes of
 * UTF-8 without control characters. */
HSPZ_MUST_USE enum hspz_status hspz_index_name_check(struct hspz_text name, struct hspz_error *err);
/* For methods that take no parameters: none, or an empty map. */
HSPZ_MUST_USE enum hspz_status hspz_no_params_decode(const struct hspz_node *params,
                                                     struct hspz_error *err);

/* Requests, as a client writes them. hspz_discover_encode leaves out what has its default value and
 * writes the payload's bin last and only its header: the `seeds` or `bases` bytes follow on the
 * wire (all maps and arrays around it end with it). */
void hspz_request_begin(struct hspz_writer *w, uint32_t id,
                        const char *method); /* then one params map */
void hspz_request_bare(struct hspz_writer *w, uint32_t id, const char *method); /* no params */
void hspz_hello_encode(struct hspz_writer *w, uint32_t id, const struct hspz_hello_params *params);
void hspz_discover_encode(struct hspz_writer *w, uint32_t id,
                          const struct hspz_discover_params *params);
void hspz_cancel_encode(struct hspz_writer *w, uint32_t id,
                        const struct hspz_cancel_params *params);
void hspz_drain_encode(struct hspz_writer *w, uint32_t id, const struct hspz_drain_params *params);
void hspz_describe_encode(struct hspz_writer *w, uint32_t id,
                          const struct hspz_describe_params *params);
void hspz_list_encode(struct hspz_writer *w, uint32_t id, const struct hspz_list_params *params);
void hspz_index_name_encode(struct hspz_writer *w, uint32_t id, enum hspz_method method,
                            const struct hspz_index_params_name *params);
void hspz_load_encode(struct hspz_writer *w, uint32_t id, const struct hspz_load_params *params);
void hspz_build_encode(struct hspz_writer *w, uint32_t id, const struct hspz_build_params *params);

/* Responses. `begin` writes everything up to the result, which the caller then writes. */
void hspz_response_begin(struct hspz_writer *w, uint32_t id);
/* A status that has no place on the wire goes out as `internal`. */
void hspz_response_error(struct hspz_writer *w, uint32_t id, const struct hspz_error *err);

/* A part of a job's output: notification `anchors` or `hsps`. */
struct hspz_part_head {
    enum hspz_records records;
    uint32_t job;
    bool placed;                 /* the payload is in shared memory, */
    uint64_t offset;             /* from here on */
    enum hspz_encoding encoding; /* on the wire when it is not packed */
    bool has_interval; /* the job has intervals; else id.interval is 0 and not on the wire */
    struct hspz_part_id id;
};
/* Bytes of a record. */
size_t hspz_record_bytes(enum hspz_records records);
/* Whether a notification of this name is a part, and of which records. */
bool hspz_part_method(struct hspz_text name, enum hspz_records *out);
/* The notification up to and including the bin header; `payload_bytes` follow on the wire, unless
 * they are placed. */
void hspz_part_encode(struct hspz_writer *w, const struct hspz_part_head *head,
                      size_t payload_bytes);
/* Its counterpart: params array of the notification. Payload borrows from the frame; placed, it has
 * a length and no bytes, and only the caller knows whether it is within the shared memory. */
HSPZ_MUST_USE enum hspz_status hspz_part_decode(const struct hspz_node *params,
                                                enum hspz_records records,
                                                struct hspz_part_head *out,
                                                struct hspz_span *payload, struct hspz_error *err);

/* The result of shm.open. Two descriptors come with it: of the ring and of the input. */
struct hspz_shm_result {
    uint64_t ring_bytes;  /* read by the client */
    uint64_t input_bytes; /* written by it */
};
void hspz_shm_result_encode(struct hspz_writer *w, uint32_t id,
                            const struct hspz_shm_result *result);
HSPZ_MUST_USE enum hspz_status hspz_shm_result_decode(const struct hspz_node *result,
                                                      struct hspz_shm_result *out,
                                                      struct hspz_error *err);
/* Notification `shm.free` of a client: the parts at these offsets have been used. */
#define HSPZ_SHM_FREE "shm.free"
void hspz_shm_free_encode(struct hspz_writer *w, const uint64_t *offsets, size_t count);
/* Its params array; at most `most` offsets are taken. */
HSPZ_MUST_USE enum hspz_status hspz_shm_free_decode(const struct hspz_node *params,
                                                    uint64_t *offsets, size_t most, size_t *count,
                                                    struct hspz_error *err);

/* Of a job, in a result. */
struct hspz_timings {
    uint64_t queued_ns; /* arrival to first step */
    uint64_t engine_ns; /* inside the engine */
    uint64_t total_ns;  /* arrival to this result */
};

/* The result of a finished discover. */
struct hspz_discover_result {
    struct hspz_strand_totals totals[2]; /* by enum hspz_strand */
    uint64_t anchors, hsps;              /* sent */
    uint64_t chunks;
    uint64_t max_hits;
    char index_digest[17]; /* 16 hex digits */
    bool has_digest;
    char digest[17]; /* XXH64, seed 0, of all payload bytes, 16 hex digits */
    struct hspz_timings timings;
};
void hspz_discover_result_encode(struct hspz_writer *w, uint32_t id,
                                 const struct hspz_discover_result *result);
HSPZ_MUST_USE enum hspz_status hspz_discover_result_decode(const struct hspz_node *result,
                                                           struct hspz_discover_result *out,
                                                           struct hspz_error *err);

/* One index in the result of index.list. Texts borrow. */
struct hspz_list_entry {
    struct hspz_text index;
    struct hspz_text state; /* "loading" or "ready" */
    struct hspz_text file;
    uint64_t bytes; /* resident; 0 while loading */
    bool pinned;    /* never dropped to make room */
};
/* `entries` are those from `first` on; as many are written as a page holds, at least one if there
 * are any, and the caller asks on from there until it has `index_count`. */
void hspz_list_result_encode(struct hspz_writer *w, uint32_t id, uint64_t index_count,
                             uint64_t first, const struct hspz_list_entry *entries, size_t count);
struct hspz_list_result {
    uint64_t index_count; /* of the server */
    uint64_t first;
    size_t count; /* in this page */
    struct hspz_list_entry entries[HSPZ_PAGE_INDEXES_LIMIT];
};
HSPZ_MUST_USE enum hspz_status hspz_list_result_decode(const struct hspz_node *result,
                                                       struct hspz_list_result *out,
                                                       struct hspz_error *err);

struct hspz_describe_block {
    uint64_t bases; /* separators included */
    uint64_t words; /* indexed */
};
struct hspz_describe_sequence {
    struct hspz_text name; /* any bytes but line ends */
    uint64_t bases;
    uint64_t block;  /* anchors name it as ref_block */
    uint64_t offset; /* of its first base in the block */
};
/* The result of index.describe: facts about the index, and one page of its blocks and sequences.
 * Texts borrow. About 30 kB. */
struct hspz_describe_result {
    struct hspz_text index;
    struct hspz_text state;
    struct hspz_text file;
    struct hspz_text shape; /* in `1` and `0` */
    uint64_t weight, span, step;
    bool unmask, all_positions;
    struct hspz_text digest;          /* 16 hex digits */
    struct hspz_text sequence_digest; /* 16 hex digits */
    struct hspz_text version;         /* of the hspz that built it */
    uint64_t bytes;                   /* resident */
    uint64_t bases, words;            /* of all blocks */
    uint64_t block_count, sequence_count;
    uint64_t first; /* of this page, for both lists */
    size_t blocks_here, sequences_here;
    struct hspz_describe_block blocks[HSPZ_PAGE_SEQUENCES_LIMIT];
    struct hspz_describe_sequence sequences[HSPZ_PAGE_SEQUENCES_LIMIT];
};
/* Writes as many of sequences_here as a page holds, at least one if there are any. */
void hspz_describe_result_encode(struct hspz_writer *w, uint32_t id,
                                 const struct hspz_describe_result *result);
HSPZ_MUST_USE enum hspz_status hspz_describe_result_decode(const struct hspz_node *result,
                                                           struct hspz_describe_result *out,
                                                           struct hspz_error *err);

/* The result of index.load, index.build and index.unload. */
struct hspz_index_result {
    struct hspz_text index;
    struct hspz_text digest;
    uint64_t bytes;
};
void hspz_index_result_encode(struct hspz_writer *w, uint32_t id,
                              const struct hspz_index_result *result);
HSPZ_MUST_USE enum hspz_status hspz_index_result_decode(const struct hspz_node *result,
                                                        struct hspz_index_result *out,
                                                        struct hspz_error *err);

/* Fills *err from an error map (or any other node a strange peer may send). */
void hspz_error_decode(const struct hspz_node *error, struct hspz_error *err);
