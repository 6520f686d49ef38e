/* libhspz: talking to hspzd from C.
 *
 *     struct hspz_address address;
 *     struct hspz_client *client = NULL;
 *     hspz_address_parse("unix:/run/hspz/hspz.sock", &address, &err);
 *     hspz_client_open(&address, NULL, &client, &err);
 *     struct hspz_discover_request request = HSPZ_DISCOVER_REQUEST_DEFAULT;
 *     request.index = "ecoli";
 *     request.bases = (struct hspz_span){query, query_len};
 *     hspz_client_discover(client, &request, take_part, user, &summary, &err);
 *     hspz_client_close(&client);
 *
 * Calls block, and never print, exit, raise a signal or keep state outside a `struct hspz_client`.
 * Everything a server sends is checked: parts in order and without a gap, the number of records and
 * their digest against the final record. HSPZ_OK means that all of it came.
 *
 * Owns:    what a request or option points to is only read during the call; what a callback is
 * given is valid until it returns. Threads: one at a time per client; any number of clients.
 * Errors:  statuses of protocol/status.h; `err` (may be NULL) says what and where. Outputs are
 *          written on success only. HSPZ_E_NO_SERVER: nothing listens there. HSPZ_E_NOT_READY: it
 *          does, but is still loading. HSPZ_E_INCOMPLETE: the connection ended, or nothing came for
 * too long, before the answer was whole. HSPZ_E_BAD_PEER: it breaks the protocol, or what came is
 * not what it says it sent. After these two a client can only be closed. */
#pragma once

#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a server listens: `unix:PATH`, or `tcp:HOST:PORT` or `tls:HOST:PORT` with an IPv6 address
 * in brackets. */
struct hspz_address {
    bool tcp;
    bool tls;       /* and tcp */
    char host[256]; /* or the path */
    char port[8];
};
#define HSPZ_ADDRESS_TEXT_BYTES 280

/* HSPZ_E_BAD_REQUEST, naming the text and what is wrong with it. */
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_address_parse(const char *text, struct hspz_address *out, struct hspz_error *err);
HSPZ_API void hspz_address_print(const struct hspz_address *address,
                                 char text[HSPZ_ADDRESS_TEXT_BYTES]);

/* Zero members mean the default. */
struct hspz_client_options {
    const char *name;            /* told to the server; default "libhspz" */
    const char *token;           /* who the caller is, where the server asks for it */
    int64_t wait_ms;             /* for a server that is not up, still loading, or has no room for
                                    the connection or (each discover) the job; 0: do not wait, -1:
                                    for ever */
    uint32_t connect_timeout_ms; /* default 10,000 */
    uint32_t answer_timeout_ms;  /* for a short call; default 30,000 */
    uint32_t silence_timeout_ms; /* of a long call (discover, load, build): when nothing came for so
                                    long, though the server was asked for its health meanwhile, it
                                    is gone; default 300,000 */
    int stop_fd; /* a descriptor (eventfd, pipe) that stops the running call once it is readable:
                    HSPZ_E_STOPPED; 0: none */
    bool stop_closes; /* a job that is stopped ends with its connection, at once; otherwise it is
                         cancelled, and the client can be used again */
    /* Told each time the client goes to sleep because of `wait_ms`, with the reason; `user` is the
     * caller's, who keeps it as long as the client. */
    void (*waiting)(void *user, const struct hspz_error *why);
    void *user;
    /* For tls: addresses. The server's certificate must be signed by one of `ca_file` (PEM;
     * default: the system's), and name `server_name` (default: the address's host). What the client
     * shows of itself: a certificate and its key (PEM). */
    const char *ca_file, *server_name, *certificate_file, *key_file;
};

struct hspz_server_info {
    const char *version;
    const char *engine;
    const char *tenant;
    const char *devices;      /* names, separated by ", " */
    uint64_t max_query_bases; /* UINT64_MAX: no limit was told */
    uint64_t max_message;     /* as above */
    uint64_t max_keys;        /* of a call about a filter; as above */
};

struct hspz_client;

/* Connects and says hello. With `wait_ms`, also waits until the server's state is `ready`. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_open(const struct hspz_address *address,
                                                         const struct hspz_client_options *options,
                                                         struct hspz_client **out,
                                                         struct hspz_error *err);
HSPZ_API void hspz_client_close(struct hspz_client **client);
HSPZ_API const struct hspz_server_info *hspz_client_server(const struct hspz_client *client);

/* How parts come: through memory that the server shares with its clients on this machine, which
 * costs neither side a copy, or through the connection. Auto: shared if the server has some left.
 */
enum hspz_transport { HSPZ_TRANSPORT_AUTO, HSPZ_TRANSPORT_STREAM, HSPZ_TRANSPORT_SHM };

/* What to discover: seeds, or a query. Begin with HSPZ_DISCOVER_REQUEST_DEFAULT. */
struct hspz_discover_request {
    const char *index;
    bool given_seeds;
    struct hspz_span seeds; /* little-endian u64, any alignment */
    struct hspz_span bases; /* sequences joined by HSPZ_SEPARATOR */
    enum hspz_strands strands;
    uint32_t transitions;    /* care positions that may hold one: 0, 1 or 2 */
    bool unmask;             /* fold lower case to upper */
    bool digest;             /* have the records' digest computed, and check it */
    uint64_t begin, end;     /* window starts to seed on each strand */
    uint64_t interval;       /* KegAlign's plan over intervals of so many positions, for a whole
                                query; 0: none */
    uint64_t max_hits;       /* cap of a chunk */
    uint64_t hit_limit;      /* of the whole job */
    uint64_t max_word_count; /* seeds of larger buckets are dropped */
    uint64_t keep_words;     /* the same by share: the rarest words that hold so many millionths of
                                a reference block's positions are kept; HSPZ_KEEP_ALL: all */
    uint64_t deadline_ms;    /* 0: none */
    uint64_t priority;       /* among the tenant's jobs, larger first: 0 to HSPZ_PRIORITY_LIMIT */
    enum hspz_chunk_walk walk;
    const char *index_digest;      /* refuse another index than this; NULL: any */
    enum hspz_encoding encoding;   /* how anchors travel: columnar takes fewer bytes where
                                      windows have many; what comes is the same */
    bool columns;                  /* encoding columnar only: parts are given by columns, as they
                                      came, and not made into packed anchors */
    enum hspz_transport transport; /* never changes what comes; shm: or else an error */
    enum hspz_records records;     /* what the parts hold; HSPs: of a query only */
    struct hspz_scoring scoring;   /* of HSPs */
    bool own_scores;               /* scoring.scores, instead of the server's default: HOXD70 */
    /* Of a query: windows are dropped that begin with a k-mer which this filter on the server has
     * more than mask_count times (PROTOCOL.md, section 6.2); NULL: none. */
    const char *mask_filter;
    uint64_t mask_count;
};
/* The server's defaults. */
#define HSPZ_SCORING_DEFAULT                                                                       \
    {                                                                                              \
        .xdrop = HSPZ_XDROP_DEFAULT, .threshold = HSPZ_THRESHOLD_DEFAULT, .entropy = true,         \
        .limit = UINT64_MAX                                                                        \
    }
#define HSPZ_DISCOVER_REQUEST_DEFAULT                                                              \
    {                                                                                              \
        .strands = HSPZ_STRANDS_BOTH, .transitions = 1, .digest = true, .end = UINT64_MAX,         \
        .max_hits = HSPZ_MAX_HITS_DEFAULT, .priority = HSPZ_PRIORITY_DEFAULT,                      \
        .hit_limit = UINT64_MAX, .max_word_count = UINT64_MAX, .keep_words = HSPZ_KEEP_ALL,        \
        .scoring = HSPZ_SCORING_DEFAULT                                                            \
    }

/* One part. `records` are count anchors or HSPs, as the request says, little-endian at any
 * alignment, exactly as they came: read them with hspz_anchor_at or hspz_hsp_at, or keep the bytes.
 * With `columns` in the request they are the runs and then the reference positions of count
 * anchors: hspz_run_at and hspz_ref_at read them, hspz_columns_anchors makes packed ones.
 *
 * They may lie in memory that the server shares, which then has them back with the next part. */
struct hspz_part_view {
    struct hspz_part_id id;
    const uint8_t *records; /* NULL: no more parts, and all of them are checked */
    size_t count;
    struct hspz_columns columns; /* where they are in `records`; else zeros */
};

/* The parts, in order. Return false to stop: the job is cancelled, the rest of the stream thrown
 * away, and hspz_client_discover returns HSPZ_E_STOPPED. */
typedef bool (*hspz_part_fn)(void *user, const struct hspz_part_view *part);

static inline uint64_t
hspz_anchor_at(const uint8_t *anchors, size_t i)
{
    const uint8_t *b = anchors + i * HSPZ_ANCHOR_BYTES;
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
           (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 |
           (uint64_t)b[7] << 56;
}

static inline struct hspz_hsp
hspz_hsp_at(const uint8_t *hsps, size_t i)
{
    const uint64_t starts = hspz_anchor_at(hsps, 2 * i);
    const uint64_t rest = hspz_anchor_at(hsps, 2 * i + 1);
    struct hspz_hsp hsp;
    hsp.ref_start = (uint32_t)starts;
    hsp.query_start = (uint32_t)(starts >> 32);
    hsp.length = (uint32_t)rest;
    hsp.score = (int32_t)(uint32_t)(rest >> 32);
    return hsp;
}

/* Neighbours of one query position: the next `count` reference positions are its anchors'. */
struct hspz_run {
    uint32_t query, count;
};
static inline struct hspz_run
hspz_run_at(const struct hspz_columns *columns, size_t i)
{
    const uint64_t bits = hspz_anchor_at(columns->runs, i);
    struct hspz_run run;
    run.query = (uint32_t)bits;
    run.count = (uint32_t)(bits >> 32);
    return run;
}

static inline uint32_t
hspz_ref_at(const struct hspz_columns *columns, size_t i)
{
    const uint8_t *b = columns->refs + i * HSPZ_COLUMN_REF_BYTES;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The next anchors from *place on, `most` at most, packed into `packed` (8 bytes each); returns how
 * many. A place begins as zeros. Fewer than there should be mean that the server has changed shared
 * memory meanwhile. */
HSPZ_API size_t hspz_columns_anchors(const struct hspz_columns *columns,
                                     struct hspz_columns_place *place, uint8_t *packed,
                                     size_t most);

/* What the server says of a finished job; all of it checked against what came. */
struct hspz_discover_summary {
    struct hspz_strand_totals totals[2]; /* by enum hspz_strand */
    uint64_t anchors, hsps;              /* sent */
    uint64_t chunks;
    uint64_t max_hits;     /* the cap that was in force */
    char index_digest[17]; /* 16 hex digits */
    char digest[17];       /* XXH64 of all records' bytes; "" without request.digest */
    uint64_t queued_ns, engine_ns, total_ns; /* on the server */
};

HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_discover(struct hspz_client *client, const struct hspz_discover_request *request,
                     hspz_part_fn part, void *user, struct hspz_discover_summary *summary,
                     struct hspz_error *err);

/* The same part by part, for callers that would rather ask. The request, and what it points to,
 * stay until the end; between begin and end the client makes no other call. */
struct hspz_discovery;
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_discover_begin(struct hspz_client *client, const struct hspz_discover_request *request,
                           struct hspz_discovery **out, struct hspz_error *err);
/* *part is valid until the next call. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_discover_next(struct hspz_discovery *discovery,
                                                                  struct hspz_part_view *part,
                                                                  struct hspz_error *err);
/* Cancels what has not come. `summary` (may be NULL) is zeros unless all parts did. */
HSPZ_API void hspz_client_discover_end(struct hspz_discovery **discovery,
                                       struct hspz_discover_summary *summary);

/* Indexes. Strings are terminated and borrowed; what the server did not say is "" or 0. */
struct hspz_index_info {
    const char *name;
    const char *state; /* "ready", "loading" */
    const char *file;
    uint64_t bytes; /* resident */
    bool pinned;    /* never dropped to make room; of list only */
    /* Of describe only: */
    const char *digest;          /* 16 hex digits */
    const char *sequence_digest; /* of the bases alone */
    const char *shape;           /* in `1` and `0` */
    const char *version;         /* of the hspz that built it */
    uint64_t span, step;
    bool unmask, all_positions;
    uint64_t bases; /* of all blocks, separators included */
    uint64_t words; /* indexed */
    uint64_t blocks, sequences;
};
struct hspz_sequence_info {
    const char *name; /* may hold any bytes but NUL and line ends */
    uint64_t len;     /* bases */
    uint64_t block;   /* of the reference; anchors name it as ref_block */
    uint64_t offset;  /* of its first base in the block */
};
typedef bool (*hspz_index_fn)(void *user, const struct hspz_index_info *info);
typedef bool (*hspz_sequence_fn)(void *user, const struct hspz_sequence_info *sequence);

/* Each index, then each sequence of one index in order. A callback may stop (HSPZ_E_STOPPED);
 * `sequence` may be NULL. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_index_list(struct hspz_client *client,
                                                               hspz_index_fn index, void *user,
                                                               struct hspz_error *err);
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_index_describe(struct hspz_client *client, const char *name, hspz_index_fn index,
                           hspz_sequence_fn sequence, void *user, struct hspz_error *err);

/* `file` is a name under the server's index directory; absolute paths are for operators. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_index_load(struct hspz_client *client,
                                                               const char *name, const char *file,
                                                               struct hspz_error *err);
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_index_unload(struct hspz_client *client, const char *name, struct hspz_error *err);

/* Builds on the server: `source` is read, `file` written, and the index loaded as `name`. */
struct hspz_build_request {
    const char *name, *source, *file;
    const char *shape; /* NULL: 12of19 */
    uint64_t step;     /* 0: 1 */
    bool unmask, all_positions;
    uint64_t block_size; /* 0: the server's */
};
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_index_build(struct hspz_client *client, const struct hspz_build_request *request,
                        struct hspz_error *err);

/* Filters: approximate sets and counts of 64-bit keys that the server keeps; README says what each
 * kind can do. `name` is one's own filter, or TENANT/NAME of another's that is shared. */
struct hspz_filter_request {
    const char *name;
    const char *kind; /* "tcf", "gqf", "bloom", "blocked", "sqf", "rsqf", "counter" */
    /* One of capacity (keys) and slots; what else is 0 follows from the rest, or is the default. */
    uint64_t capacity, slots;
    double rate; /* of false positives at capacity */
    uint64_t slot_bits, block_slots, hashes, value_bits, seed;
    uint64_t k;     /* keys are k-mers of so many bases, 1 to 32; 0: any numbers */
    bool canonical; /* of a k-mer and its reverse complement the smaller is the key */
    bool shared;    /* others may read it */
    /* Of equal ranges of the hash, over the server's GPUs in turn: a power of two up to 16; 0: 1.
     */
    uint64_t parts;
};
#define HSPZ_FILTER_NAME_BYTES 321 /* with its tenant's */
struct hspz_filter_state {
    char name[HSPZ_FILTER_NAME_BYTES];
    char kind[16];
    bool shared;
    uint64_t bytes;
    /* Not of list: */
    uint64_t capacity, slots, slot_bits, block_slots, hashes, value_bits, seed; /* as planned */
    uint64_t k;
    bool canonical;
    uint64_t full_slots;  /* takes keys up to here for sure */
    double expected_rate; /* of false positives, at capacity */
    uint64_t entries;     /* keys that are there; of a gqf different ones */
    uint64_t total;       /* sum of their counts */
    uint64_t used;        /* slots, or bits */
    double load, rate;    /* now */
    bool full;            /* merge: nothing was taken up, as it does not fit */
    uint64_t parts;
};
typedef bool (*hspz_filter_fn)(void *user, const struct hspz_filter_state *filter);

/* `state` may be NULL. */
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_filter_create(struct hspz_client *client, const struct hspz_filter_request *request,
                          struct hspz_filter_state *state, struct hspz_error *err);
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_stats(struct hspz_client *client,
                                                                 const char *name,
                                                                 struct hspz_filter_state *state,
                                                                 struct hspz_error *err);
/* Adds what `from` has to `name`. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_merge(struct hspz_client *client,
                                                                 const char *name, const char *from,
                                                                 struct hspz_filter_state *state,
                                                                 struct hspz_error *err);
/* To and from the server's disk, under the filter's name. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_save(struct hspz_client *client,
                                                                const char *name,
                                                                struct hspz_filter_state *state,
                                                                struct hspz_error *err);
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_load(struct hspz_client *client,
                                                                const char *name, bool shared,
                                                                struct hspz_filter_state *state,
                                                                struct hspz_error *err);
/* With `saved` what was saved under the name goes as well. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_drop(struct hspz_client *client,
                                                                const char *name, bool saved,
                                                                struct hspz_filter_state *state,
                                                                struct hspz_error *err);
/* Each that one may see. A callback may stop (HSPZ_E_STOPPED). */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_filter_list(struct hspz_client *client,
                                                                hspz_filter_fn filter, void *user,
                                                                struct hspz_error *err);

enum hspz_keys_operation {
    HSPZ_KEYS_INSERT,
    HSPZ_KEYS_INSERT_IF_ABSENT,
    HSPZ_KEYS_QUERY,
    HSPZ_KEYS_COUNT,
    HSPZ_KEYS_DELETE,
    HSPZ_KEYS_DECREMENT
};
/* One call on at most `max_keys` keys, taken in order. Arrays are little-endian u64, any alignment,
 * of one length. Begin with HSPZ_KEYS_REQUEST_DEFAULT. */
struct hspz_keys_request {
    const char *filter;
    enum hspz_keys_operation operation;
    struct hspz_span keys;
    bool sequence;           /* insert, query, count of a filter with k: keys are bases, and key i
                                the k-mer that begins with base i; where none does, nothing is done
                                and the answers are 0 */
    struct hspz_span values; /* inserts: one for each; none: 0 */
    struct hspz_span counts; /* insert and decrement: how often, for each; none: once */
    bool bitmap;          /* have told of each key whether it went in, is there, was taken away */
    bool array;           /* query, if absent: its value; count: its count; 0 if it is not there */
    uint64_t deadline_ms; /* 0: none */
    uint64_t priority;    /* as of discover */
    enum hspz_transport transport; /* the same; auto: of large calls only */
};
#define HSPZ_KEYS_REQUEST_DEFAULT                                                                  \
    {                                                                                              \
        .priority = HSPZ_PRIORITY_DEFAULT                                                          \
    }
/* Keys [first, first + count) of the call, in order, as asked for: bit i % 8 of byte i / 8 of
 * `bitmap` and number i of `array` (hspz_anchor_at) are key first + i's; else NULL. Return false to
 * stop, as of discover; keys of which answers came are done, later ones may be. */
typedef bool (*hspz_answers_fn)(void *user, uint64_t first, size_t count, const uint8_t *bitmap,
                                const uint8_t *array);
struct hspz_keys_summary {
    uint64_t keys;                           /* of enumerate: entries */
    uint64_t yes;                            /* of them went in, were there, were taken away */
    bool full;                               /* the filter is full: not all went in. No error */
    uint64_t queued_ns, engine_ns, total_ns; /* on the server */
};
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_filter_keys(struct hspz_client *client, const struct hspz_keys_request *request,
                        hspz_answers_fn answers, void *user, struct hspz_keys_summary *summary,
                        struct hspz_error *err);

/* `count` entries of three u64 each: the bits of the key's hash that are kept, value, count. */
typedef bool (*hspz_entries_fn)(void *user, const uint8_t *entries, size_t count);
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_filter_enumerate(struct hspz_client *client, const char *name, uint64_t deadline_ms,
                             hspz_entries_fn entries, void *user, struct hspz_keys_summary *summary,
                             struct hspz_error *err);

struct hspz_health {
    char state[32]; /* "ready", "loading", "draining", ... */
    bool has_percent;
    double percent; /* of loading */
};
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_health(struct hspz_client *client, struct hspz_health *out, struct hspz_error *err);

struct hspz_drain {
    char state[32]; /* "draining"; "drained": everything is done, and the server ends; "failed", ...
                     */
    uint64_t jobs;  /* waiting or running */
    uint64_t loading;
    uint64_t connections;
};
/* For operators: has the server take no more jobs, finish those it has, and end. May be called
 * again to see how far it is. `wait_ms` (at most 60,000): no answer before so long, unless it is
 * done. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_drain(struct hspz_client *client,
                                                          uint32_t wait_ms, struct hspz_drain *out,
                                                          struct hspz_error *err);

/* The whole answer of `stats` or `health` as JSON text, from malloc. */
HSPZ_API HSPZ_MUST_USE enum hspz_status hspz_client_stats_json(struct hspz_client *client,
                                                               char **json, struct hspz_error *err);
HSPZ_API HSPZ_MUST_USE enum hspz_status
hspz_client_health_json(struct hspz_client *client, char **json, struct hspz_error *err);

#ifdef __cplusplus
}
#endif
