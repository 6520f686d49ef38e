/* What the CUDA filters share: a filter is the arrays of its image in device memory, and a kind
 * says what is done with them. A kind's table of hspz_filter_ops has the functions below, and its
 * own where it keeps its content in another way. */
#pragma once

#include "engine/counter_shape.h"
#include "engine/cpu/filter_p.h"
#include "engine/cuda/buffer.h"
#include "engine/cuda/filter.h"
#include "engine/cuda/filter_feed.h"

struct hspz_cuda_filter_kind {
    unsigned ops;  /* bit op: it can do that */
    bool in_order; /* once a key was refused, so are all behind it */
    /* Bytes of each array of the image. */
    void (*sizes)(const struct hspz_filter_plan *plan, uint64_t bytes[HSPZ_FILTER_ARRAYS]);
    /* Puts a call's work on the stream. It has keys, the kind can do it, the device is current. */
    HSPZ_MUST_USE enum hspz_status (*run)(struct hspz_filter *f,
                                          const struct hspz_cuda_filter_call *call,
                                          cudaStream_t stream, struct hspz_error *err);
    /* Inserts the first windows of a call by sequence that wants no answers, as many as go in
     * another way than by `run`, on the filter's stream; how many, and how many keys they were. May
     * be NULL. */
    HSPZ_MUST_USE enum hspz_status (*insert_sequence)(struct hspz_filter *f,
                                                      const struct hspz_filter_call *call,
                                                      uint64_t *windows, uint64_t *keys,
                                                      struct hspz_error *err);
    /* After the arrays of an image were copied: what is wrong with them, or NULL. NULL: any are
     * right. */
    HSPZ_MUST_USE enum hspz_status (*check)(struct hspz_filter *f, const char **damage,
                                            struct hspz_error *err);
};

/* Staging of host calls. */
enum hspz_cuda_filter_staged {
    HSPZ_CUDA_FILTER_KEYS,
    HSPZ_CUDA_FILTER_VALUES,
    HSPZ_CUDA_FILTER_COUNTS,
    HSPZ_CUDA_FILTER_FOUND,
    HSPZ_CUDA_FILTER_YES,
    HSPZ_CUDA_FILTER_RESULT,
    /* Of k-mers: where the keys of each tile begin, the window of each key, and answers by window.
     */
    HSPZ_CUDA_FILTER_STARTS,
    HSPZ_CUDA_FILTER_FROM,
    HSPZ_CUDA_FILTER_WINDOWS_FOUND,
    HSPZ_CUDA_FILTER_WINDOWS_YES,
    HSPZ_CUDA_FILTER_LEFT, /* by an insert of a quotient filter, a thread a key */
    HSPZ_CUDA_FILTER_STAGED
};

#define HSPZ_CUDA_FILTER_SEGMENT (UINT64_C(1) << 23)

struct hspz_filter {
    struct hspz_filter_plan plan;
    const struct hspz_cuda_filter_kind *kind;
    struct hspz_cuda_device *device;
    uint64_t salt;
    struct hspz_cuda_buffer arrays[HSPZ_FILTER_ARRAYS];
    uint64_t bytes[HSPZ_FILTER_ARRAYS];
    struct hspz_cuda_buffer counts; /* struct hspz_cuda_filter_counts */
    /* What those are of a quotient filter, unless others may have changed them. */
    struct hspz_cuda_filter_known {
        bool is;
        uint64_t entries, used, total, total_high;
    } known;
    struct hspz_cuda_buffer scratch; /* of calls that write */
    struct hspz_cuda_buffer extra;   /* what else a kind keeps */
    struct hspz_cuda_buffer split;   /* of calls on the filter that this is the first part of */
    /* Of host calls. */
    cudaStream_t stream;
    pthread_mutex_t mutex; /* guards staging and feed */
    struct hspz_cuda_buffer staging[HSPZ_CUDA_FILTER_STAGED];
    struct hspz_cuda_feed feed;
    uint64_t segment; /* keys that quotient filters deal to parts at a time */
    /* Of an exact counter; guarded by the mutex while it is unsure. */
    struct hspz_cuda_filter_counter {
        struct hspz_counter_shape shape;  /* of the front, arrays[0] */
        uint64_t pair_slots;              /* of the table, arrays[1] */
        uint64_t singles, pairs, total;   /* unless they are unsure */
        bool unsure;                      /* a call failed half way */
        uint64_t used_bytes, limit_bytes; /* 0: none */
    } counter;
};

extern const struct hspz_filter_ops hspz_cuda_filter_bloom; /* blocked, too */
extern const struct hspz_filter_ops hspz_cuda_filter_tcf;
extern const struct hspz_filter_ops hspz_cuda_filter_gqf; /* sqf, rsqf, too */
extern const struct hspz_filter_ops hspz_cuda_filter_counter;

/* The filter's device becomes the current one; arrays are zero. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_make(const struct hspz_filter_plan *plan,
                                                     const struct hspz_cuda_filter_kind *kind,
                                                     struct hspz_filter **out,
                                                     struct hspz_error *err);
void hspz_cuda_filter_destroy(struct hspz_filter **filter);
const struct hspz_filter_plan *hspz_cuda_filter_plan_of(const struct hspz_filter *f);
/* engine/cuda/filter_host.c. hspz_filter_ops.run, of sequences too. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_run_host(struct hspz_filter *f,
                                                         struct hspz_filter_call *call,
                                                         struct hspz_error *err);
/* hspz_filter_ops.run_parts. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_run_parts(struct hspz_filter *const *parts,
                                                          unsigned count,
                                                          struct hspz_filter_call *call,
                                                          struct hspz_error *err);
/* Parts of a filter, and which of them take no keys any more in a call that comes in pieces. */
struct hspz_cuda_parts {
    struct hspz_filter *const *parts;
    unsigned count;
    bool closed[HSPZ_FILTER_PARTS_MAX];
};
/* A call of a kind that can do it, with keys on the device of the first part. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_run_of(struct hspz_cuda_parts *parts,
                                                       const struct hspz_cuda_filter_call *call,
                                                       cudaStream_t stream, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_copy(const struct hspz_filter *f,
                                                     struct hspz_filter **out,
                                                     struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_save(const struct hspz_filter *f,
                                                     const struct hspz_filter_stop *stop,
                                                     struct hspz_filter_image *out,
                                                     struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status
hspz_cuda_filter_load(const struct hspz_filter_plan *plan, const struct hspz_cuda_filter_kind *kind,
                      const struct hspz_filter_image *image, const struct hspz_filter_stop *stop,
                      struct hspz_filter **out, struct hspz_error *err);
/* Bytes of the device to the host (`down`) or from there, on the filter's stream; waits now and
 * then. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_move(const struct hspz_filter *f, void *on_device,
                                                     void *on_host, uint64_t bytes, bool down,
                                                     const struct hspz_filter_stop *stop,
                                                     struct hspz_error *err);

/* Memory of so many bytes, zeroed on the stream when it is new. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_zeroed(struct hspz_filter *f,
                                                       struct hspz_cuda_buffer *buffer,
                                                       uint64_t bytes, cudaStream_t stream,
                                                       struct hspz_error *err);

/* So many locks in `extra`, cleared when they are new. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_locks(struct hspz_filter *f, uint64_t count,
                                                      cudaStream_t stream, struct hspz_error *err);
/* The same for kernels of a caller's own, which may come on any stream: waits for it. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_locks_now(struct hspz_filter *f, uint64_t count,
                                                          struct hspz_error *err);

/* Waits for the filter's stream. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_wait(const struct hspz_filter *f, const char *what,
                                                     struct hspz_error *err);
/* Entries and total, and what else a kind counts. */
HSPZ_MUST_USE enum hspz_status hspz_cuda_filter_counts_get(const struct hspz_filter *f,
                                                           struct hspz_cuda_filter_counts *out,
                                                           struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status
hspz_cuda_filter_counts_set(struct hspz_filter *f, const struct hspz_cuda_filter_counts *counts,
                            struct hspz_error *err);
