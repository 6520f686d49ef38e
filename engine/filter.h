/* Approximate filters: sets and multisets of 64-bit keys in little memory. One op table, an
 * implementation per kind of device; the CPU's is the readable reference.
 *
 *   tcf      two-choice filter (McCoy et al., PPoPP 2023): tags in blocks, values, delete
 *   gqf      counting quotient filter (the same, after Pandey et al., SIGMOD 2017): counts, values,
 *            delete, merge, resize
 *   bloom    Bloom filter; append-only
 *   blocked  blocked Bloom filter: all bits of a key in one 32-byte block; append-only
 *   sqf      standard quotient filter (Geil et al., IPDPS 2018, after Bender et al., VLDB 2012)
 *   rsqf     rank-and-select quotient filter (the same, after Pandey et al.); no delete
 *   counter  exact counts; grows as it must (engine/cpu/counter.h, engine/counter_shape.h)
 *
 * What holds for each: a key that went in is found until it is deleted, never a false negative; a
 * key that did not is found with the plan's expected rate. All 2^64 keys are ordinary. Keys are
 * hashed as engine/filter_hash.h says, by the filter's seed. Keys of one call are taken in order,
 * and results do not depend on the device or the number of threads, but for where a tcf puts its
 * tags. A device takes the keys of one call to a tcf, bloom or blocked all at once: which of those
 * that are equal to the filter went in or were taken away, and which did not fit, may differ there;
 * how many equal ones did, may not. Those of a call to a counter it takes in pieces: of equal ones
 * in a piece all go in, or none.
 *
 * tcf: a multiset: each insert of a key takes a slot, each delete gives one back. Deleting a key
 * that never went in may take away another of the same tag and blocks, as often as the expected
 * rate says. gqf: counts saturate at 2^64 - 1. Decrement lowers a count, delete takes the key away
 * whole. With values, different values of a key are different entries; query and count answer for
 * the smallest value and the sum of the counts. sqf and rsqf: a set. Delete of gqf and sqf takes
 * away a fingerprint, so also another key that has the same one, as often as the expected rate
 * says; decrement by what went in does not. counter: insert, query, count and enumerate alone;
 * without false positives, and with k only of keys of 2k bits.
 *
 * A filter with k keeps k-mers (engine/kmer.h): a call may name them by a sequence, which a device
 * cuts itself.
 *
 * A filter in parts is one filter whose parts have equal ranges of the hash, each on a device of
 * its own (engine/filter_split.c). It holds the same entries as one that is whole, and each part
 * fills by itself: what is said of keys that do not fit holds for those of a part.
 *
 * Owns:    a filter owns its memory; arrays of a call are only used during it.
 * Threads: one writer, or any number of readers, of a filter at a time.
 * Errors:  HSPZ_E_BAD_REQUEST (parameters, named with their limits), HSPZ_E_TOO_LARGE (over the
 *          budget; err->limit), HSPZ_E_UNSUPPORTED (this kind cannot do that), HSPZ_E_BAD_FILE,
 *          HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY, HSPZ_E_DEVICE_ERROR. That a filter is full is no error:
 *          the call's result says what went in. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hspz_filter_kind {
    HSPZ_FILTER_TCF,
    HSPZ_FILTER_GQF,
    HSPZ_FILTER_BLOOM,
    HSPZ_FILTER_BLOCKED,
    HSPZ_FILTER_SQF,
    HSPZ_FILTER_RSQF,
    HSPZ_FILTER_COUNTER,
    HSPZ_FILTER_KINDS
};
const char *hspz_filter_kind_name(enum hspz_filter_kind kind); /* "tcf", ... */
bool hspz_filter_kind_find(const char *name, size_t len, enum hspz_filter_kind *out);

struct hspz_cuda_device; /* engine/cuda/device.h */

/* What is asked for: capacity and rate, from which the rest follows; or raw parameters. Zero is
 * "follows", or the default. */
struct hspz_filter_spec {
    enum hspz_filter_kind kind;
    uint64_t capacity;    /* keys it must take (for gqf: slots' worth, see the plan) */
    double rate;          /* of false positives at capacity, 2^-40 .. 0.5 */
    uint64_t slots;       /* raw: slots; of bloom and blocked, bits */
    unsigned slot_bits;   /* raw: tcf: tag, 8 12 16 32, default 16; quotient filters: remainder with
                             value, 8 16 32 64, default 8 */
    unsigned block_slots; /* tcf: slots of a block, 16 32 64, default 16 */
    unsigned hashes;      /* raw: bits of a key in bloom and blocked, 1 .. 16 */
    unsigned value_bits;  /* tcf: beside the tag, 0 .. 48; gqf: of slot_bits */
    uint64_t seed;
    unsigned k;     /* keys are k-mers of so many bases, 1 .. 32; 0: keys are any numbers */
    bool canonical; /* with k: of a k-mer and its reverse complement the smaller */
    unsigned parts; /* a power of two up to HSPZ_FILTER_PARTS_MAX; default 1; not of a counter */
};
#define HSPZ_FILTER_PARTS_MAX 16u

/* What becomes of it: the spec with everything that followed, and what it comes to. */
struct hspz_filter_plan {
    struct hspz_filter_spec spec;
    unsigned quotient_bits;  /* quotient filters: slots = 2^this */
    unsigned remainder_bits; /* as stored: slot_bits less value_bits, or what a key has left */
    uint64_t blocks;         /* tcf, blocked */
    uint64_t spare_slots;    /* quotient filters: behind the last; tcf: of the backing table */
    uint64_t full_slots;     /* takes keys up to here for sure: the documented load */
    uint64_t bytes;          /* as it is kept; counter: at first, at most */
    double expected_rate;    /* at capacity, or at full_slots */
    /* Which device a filter of hspz_cuda_filter is to be on; the caller sets it before create and
     * load. The device outlives the filter. */
    struct hspz_cuda_device *device;
    /* Of a filter in parts the same for each; and what hspz_filter_ops_of has set. */
    struct hspz_cuda_device *part_devices[HSPZ_FILTER_PARTS_MAX];
    const struct hspz_filter_ops *part_ops;
    unsigned threads; /* counter: that a call may use; the caller sets it; 0: all processors */
};
HSPZ_MUST_USE enum hspz_status hspz_filter_plan(const struct hspz_filter_spec *spec,
                                                uint64_t budget_bytes, struct hspz_filter_plan *out,
                                                struct hspz_error *err);

/* Sets expected_rate, from the spec and the sizes. */
void hspz_filter_plan_expect(struct hspz_filter_plan *plan);

/* gqf, sqf, rsqf: the same with twice the slots; a bit of each remainder moves to the quotient. */
HSPZ_MUST_USE enum hspz_status hspz_filter_plan_twice(const struct hspz_filter_plan *plan,
                                                      uint64_t budget_bytes,
                                                      struct hspz_filter_plan *out,
                                                      struct hspz_error *err);

/* Part i of the plan of a filter in parts, which is a plan of its own. */
void hspz_filter_plan_part(const struct hspz_filter_plan *plan, unsigned i,
                           struct hspz_filter_plan *out);

/* On the devices of another plan of as many parts. */
void hspz_filter_plan_place(struct hspz_filter_plan *plan, const struct hspz_filter_plan *like);

/* What a tcf's rate is at a load. */
double hspz_filter_tcf_rate(double load, unsigned block_slots, unsigned tag_bits);

#define HSPZ_FILTER_LOAD_TCF 0.90
#define HSPZ_FILTER_LOAD_QUOTIENT 0.95

struct hspz_filter;

enum hspz_filter_op {
    HSPZ_FILTER_INSERT,
    HSPZ_FILTER_INSERT_IF_ABSENT,
    HSPZ_FILTER_QUERY,
    HSPZ_FILTER_COUNT,     /* tcf, gqf, counter */
    HSPZ_FILTER_DELETE,    /* tcf, gqf, sqf */
    HSPZ_FILTER_DECREMENT, /* gqf */
    HSPZ_FILTER_OPS
};
const char *hspz_filter_op_name(enum hspz_filter_op op); /* "insert", ... */

/* One call on an array of keys; or, of a filter with k, on the k-mers of a sequence. */
struct hspz_filter_call {
    enum hspz_filter_op op;
    const uint64_t *keys;
    size_t count;
    const uint64_t *values; /* inserts: of value_bits; NULL: 0 */
    const uint64_t *counts; /* gqf (insert, decrement), counter (insert): how often; NULL: once */
    /* In place of keys, values and counts: key i is the window that begins at sequence[i]. Where
     * that is no k-mer nothing is done, and the answers are 0. sequence_len is count or more: as
     * far as windows may reach. */
    const uint8_t *sequence;
    size_t sequence_len;
    uint64_t memory_bytes; /* counter: that it may come to; 0: any */
    /* Each may be NULL. */
    uint8_t *yes;    /* bit i % 8 of byte i / 8: key i went in; was there; was taken away */
    uint64_t *found; /* query, if absent: its value, or 0; count: its count */
    /* Results. */
    uint64_t yes_count;
    bool full; /* not all went in */
};

struct hspz_filter_stats {
    uint64_t entries; /* keys that went in and are there; of gqf their distinct entries; of bloom
                         and blocked those inserted, known ones too */
    uint64_t total;   /* sum of counts; else as entries */
    uint64_t used;    /* slots, or bits that are set */
    uint64_t bytes;
    double load; /* used of slots, or of bits */
    double rate; /* of false positives to expect now */
};               /* all zero when the device of a filter failed */

/* Entries, in the order of their fingerprints. */
struct hspz_filter_entry {
    uint64_t fingerprint; /* the bits of the hash that are kept, highest first */
    uint64_t value;
    uint64_t count;
};

/* A filter's content in host memory, as a file has it: a few arrays and numbers, whose meaning
 * depends on the kind (engine/filter_file.c lists them). Owns the arrays. */
#define HSPZ_FILTER_ARRAYS 3
struct hspz_filter_image {
    void *arrays[HSPZ_FILTER_ARRAYS]; /* from malloc */
    uint64_t bytes[HSPZ_FILTER_ARRAYS];
    uint64_t entries, total;
};
void hspz_filter_image_fini(struct hspz_filter_image *image);

/* Work on a whole filter asks now and then whether it is to end early: it then ends with
 * HSPZ_E_CANCELLED, and the filter is as it was; of a Bloom filter that took up another, some of
 * the other's bits may be in. A stop may be NULL. */
struct hspz_filter_stop {
    bool (*asked)(void *user); /* from the thread that works */
    void *user;
};
/* Fills *err when it is. */
HSPZ_MUST_USE enum hspz_status hspz_filter_stopped(const struct hspz_filter_stop *stop,
                                                   struct hspz_error *err);

/* One kind on one engine; members that are NULL it cannot do. */
struct hspz_filter_ops {
    HSPZ_MUST_USE enum hspz_status (*create)(const struct hspz_filter_plan *plan,
                                             struct hspz_filter **out, struct hspz_error *err);
    void (*destroy)(struct hspz_filter **filter);
    const struct hspz_filter_plan *(*plan)(const struct hspz_filter *filter);
    /* Without a sequence, but where takes_sequence: see hspz_filter_run. */
    HSPZ_MUST_USE enum hspz_status (*run)(struct hspz_filter *filter, struct hspz_filter_call *call,
                                          struct hspz_error *err);
    bool takes_sequence;
    /* The same of a filter in parts, which are these, by keys of the whole; NULL: part after part.
     */
    HSPZ_MUST_USE enum hspz_status (*run_parts)(struct hspz_filter *const *parts, unsigned count,
                                                struct hspz_filter_call *call,
                                                struct hspz_error *err);
    /* counter: bytes that an insert of so many keys, or a merge, may need for a while beside those
     * it has; and those of the image that save makes. */
    uint64_t (*room)(const struct hspz_filter *filter, uint64_t keys);
    uint64_t (*image_bytes)(const struct hspz_filter *filter);
    void (*stats)(const struct hspz_filter *filter, struct hspz_filter_stats *out);
    /* Up to `capacity` entries from *cursor on (0 begins); *cursor moves on, *count is 0 at the
     * end. tcf, gqf, sqf, rsqf; the order of a tcf's is that of its slots. */
    HSPZ_MUST_USE enum hspz_status (*enumerate)(const struct hspz_filter *filter, uint64_t *cursor,
                                                struct hspz_filter_entry *out, size_t capacity,
                                                size_t *count, struct hspz_error *err);
    /* Adds what `from` has; both of one plan, slots of quotient filters apart (their fingerprints
     * must be of one length), and of one seed; counters of one k. Not tcf. *full: nothing was
     * changed, it does not fit; nor was a counter for which there is no memory. */
    HSPZ_MUST_USE enum hspz_status (*merge)(struct hspz_filter *filter,
                                            const struct hspz_filter *from,
                                            const struct hspz_filter_stop *stop, bool *full,
                                            struct hspz_error *err);
    /* gqf, sqf, rsqf: twice the slots, a bit of each remainder moves to the quotient. */
    HSPZ_MUST_USE enum hspz_status (*grow)(struct hspz_filter *filter, uint64_t budget_bytes,
                                           struct hspz_error *err);
    HSPZ_MUST_USE enum hspz_status (*copy)(const struct hspz_filter *filter,
                                           struct hspz_filter **out, struct hspz_error *err);
    /* `load` checks what it is given: no damaged image sends an engine out of range. */
    HSPZ_MUST_USE enum hspz_status (*save)(const struct hspz_filter *filter,
                                           const struct hspz_filter_stop *stop,
                                           struct hspz_filter_image *out, struct hspz_error *err);
    HSPZ_MUST_USE enum hspz_status (*load)(const struct hspz_filter_plan *plan,
                                           const struct hspz_filter_image *image,
                                           const struct hspz_filter_stop *stop,
                                           struct hspz_filter **out, struct hspz_error *err);
};

/* Any call; k-mers of a sequence become keys where the kind takes no sequence. */
HSPZ_MUST_USE enum hspz_status hspz_filter_run(const struct hspz_filter_ops *ops,
                                               struct hspz_filter *filter,
                                               struct hspz_filter_call *call,
                                               struct hspz_error *err);

/* By the CPU. */
const struct hspz_filter_ops *hspz_cpu_filter(enum hspz_filter_kind kind);
/* By a GPU, in builds that have it; calls on device memory are in engine/cuda/filter.h. NULL: a
 * kind that is not there. */
const struct hspz_filter_ops *hspz_cuda_filter(enum hspz_filter_kind kind);

/* What filters of a plan are made, loaded and worked on with: `ops`, or of filters in parts those
 * of engine/filter_split.c, which work on each part with `ops`. */
const struct hspz_filter_ops *hspz_filter_ops_of(struct hspz_filter_plan *plan,
                                                 const struct hspz_filter_ops *ops);

/* Written beside `path`, synced, then renamed. Format in engine/filter_file.c. */
HSPZ_MUST_USE enum hspz_status hspz_filter_write(const struct hspz_filter_ops *ops,
                                                 const struct hspz_filter *filter, const char *path,
                                                 const struct hspz_filter_stop *stop,
                                                 struct hspz_error *err);
/* The plan of a file's header alone. */
HSPZ_MUST_USE enum hspz_status hspz_filter_read_plan(const char *path, uint64_t budget_bytes,
                                                     struct hspz_filter_plan *plan,
                                                     struct hspz_error *err);
/* Plan and content of a file, each length and checksum checked; needs at most budget_bytes. */
HSPZ_MUST_USE enum hspz_status hspz_filter_read(const char *path, uint64_t budget_bytes,
                                                const struct hspz_filter_stop *stop,
                                                struct hspz_filter_plan *plan,
                                                struct hspz_filter_image *image,
                                                struct hspz_error *err);
