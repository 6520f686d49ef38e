/* The engine interface: one op table, an implementation per kind of device.
 *
 * engine    a set of devices with their memory budget
 * ref       an index made resident
 * lane      one stream of work on one device, driven by one thread
 * job       one discover request: begin, step until done, end. Between steps a job needs no lane;
 *           its next step may run on another lane of the same device, and once it is parked on one
 *           of any that has the ref.
 *
 * Every engine gives the same bytes in the same order (SPEC section 2); the CPU engine is the
 * readable reference.
 *
 * Threads: open, load, unload and close from one thread at a time; one thread per lane; a job on
 * one lane at a time; job_begin, job_park, job_bytes, job_place and job_end only while no step of
 *          that job runs.
 * Errors:  job_begin: HSPZ_E_BAD_REQUEST, HSPZ_E_UNSUPPORTED (the mask),
 *          HSPZ_E_OUT_OF_MEMORY. job_step: HSPZ_E_BAD_REQUEST (a
 * seed whose word or position is out of range, named), HSPZ_E_HITS_OVERFLOW (err->hits: the exact
 *          total), HSPZ_E_TOO_LARGE (hit_limit; err->hits: hits so far, this batch included,
 * err->limit; or scoring.limit), HSPZ_E_OUT_OF_MEMORY, HSPZ_E_DEVICE_ERROR. After an error a job
 * only takes job_end.
 */
#pragma once

#include "engine/filter.h"
#include "engine/index.h"
#include "engine/place.h"
#include "engine/seed_mask.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_engine;
struct hspz_ref;
struct hspz_lane;
struct hspz_job;

/* What a GPU engine may be told; zero is automatic. None of it changes a result. */
struct hspz_cuda_tuning {
    const char *const *devices; /* ordinals among the visible ones, or UUIDs; NULL: all visible */
    unsigned device_count;
    uint64_t memory_bytes; /* device memory to use on each; 0: most of what is free at open */
    uint64_t window_hits;  /* hits expanded at once */
    int mapping;           /* enum hspz_cuda_mapping of engine/cuda/kernels/launch.h */
    int lookup;            /* enum hspz_cuda_lookup of engine/cuda/resident.h */
    bool always_wait;      /* small batches take the way of large ones */
    bool no_overlap;       /* counting waits until the seeds are made, also where it need not */
};

struct hspz_engine_config {
    unsigned threads;     /* per lane; 0: all processors this process may use */
    const char *simulate; /* devices of the cpu engine (engine/cpu/simulated.h), which share the
                             threads; NULL: it has one, and that is the machine */
    struct hspz_cuda_tuning cuda;
};

/* What to discover. Borrowed until job_end. */
struct hspz_job_spec {
    bool given_seeds;
    const uint8_t *seeds; /* given_seeds: little-endian u64, any alignment */
    uint64_t seed_count;
    struct hspz_span bases; /* else: the query, sequences joined by HSPZ_SEPARATOR */
    enum hspz_strands strands;
    uint32_t transitions; /* care positions that may hold one: 0 to HSPZ_TRANSITIONS_LIMIT */
    bool unmask;
    uint64_t begin, end;     /* window starts to seed on each strand; end is cut to what exists */
    uint64_t max_hits;       /* M, 1 or more */
    uint64_t hit_limit;      /* most hits of the whole job; UINT64_MAX: none */
    uint64_t max_word_count; /* seeds with larger buckets are dropped; UINT64_MAX: none */
    uint64_t keep_words;     /* the same by share (engine/word_limit.h); HSPZ_KEEP_ALL: none */
    struct hspz_seed_mask mask; /* not with given_seeds */
    enum hspz_chunk_walk walk;
    /* Not 0: KegAlign's plan, for a whole query (begin 0, end UINT64_MAX). With E = bases - span:
     * intervals [a, b) with a = 0, interval, ... while a < E, b = min(E, a + interval); in each the
     * plus strand over [a, b), then the minus strand over [E - b, E - a) of its own coordinates;
     * a batch at i of [a, b) has the window starts i .. min(i + HSPZ_BATCH_POSITIONS, b + 1) - 1.
     */
    uint64_t interval;
    enum hspz_encoding encoding;       /* of anchors */
    enum hspz_records output;          /* HSPZ_RECORDS_HSPS: not with given_seeds */
    struct hspz_scoring scoring;       /* of HSPZ_RECORDS_HSPS */
    const struct hspz_job_place *from; /* read by job_begin: goes on there; NULL: the beginning */
};

enum hspz_step_kind {
    HSPZ_STEP_ANCHORS, /* a part was written */
    HSPZ_STEP_HSPS,    /* the same, of hsps */
    HSPZ_STEP_WORKED,  /* progress, nothing to send */
    HSPZ_STEP_DONE,    /* nothing left */
};

/* One step's output. The caller gives a buffer from buffer_create and its size in anchors; a part
 * never exceeds it. */
struct hspz_part {
    uint64_t *anchors; /* HSPs are written here as struct hspz_hsp, two anchors' room each; columns
                          as protocol/columns.h says */
    size_t capacity;   /* in anchors; 1 or more, for HSPs and columns 2 or more */
    size_t count;      /* of anchors or HSPs */
    size_t bytes;      /* written */
    enum hspz_step_kind kind;
    struct hspz_part_id id;
};

#define HSPZ_NO_BLOCK SIZE_MAX

/* `most` may grow from step to step with what a job keeps. */
struct hspz_job_bytes {
    uint64_t now;
    uint64_t kept; /* of that, what parking does not give back: HSPs not sent */
    uint64_t most; /* that the job may come to hold in its next step */
};

struct hspz_device_info {
    char name[128];
    uint64_t memory_bytes; /* 0: not known */
};

struct hspz_engine_ops {
    const char *name;   /* "cpu", "cuda" */
    bool devices_apart; /* one that fails (HSPZ_E_DEVICE_ERROR of a step) does so alone; else the
                           process is to end, as all of them may fail soon */
    /* What it was built for and what it finds, as one line; opens nothing. NULL: nothing to say. */
    void (*about)(char *text, size_t bytes);
    enum hspz_status (*open)(const struct hspz_engine_config *config, struct hspz_engine **out,
                             struct hspz_error *err);
    void (*close)(struct hspz_engine **engine); /* all lanes and refs are gone by then */
    unsigned (*device_count)(const struct hspz_engine *engine);
    void (*device_info)(const struct hspz_engine *engine, unsigned device,
                        struct hspz_device_info *out);

    /* Builds an index with the engine's devices, as hspz_index_build does, and of the same bytes;
     * from any thread. HSPZ_E_OUT_OF_MEMORY may mean a device's memory: hspz_index_build may still
     * do it. NULL: this engine has none. */
    enum hspz_status (*build)(struct hspz_engine *engine, struct hspz_sequences **seqs,
                              const struct hspz_index_params *params, uint64_t budget_bytes,
                              hspz_progress_fn progress, void *user, struct hspz_index **out,
                              struct hspz_error *err);

    /* Makes an index resident; holds its own count on it. */
    enum hspz_status (*load)(struct hspz_engine *engine, struct hspz_index *index,
                             struct hspz_ref **out, struct hspz_error *err);
    /* The same, but block b on device d only where holds[b * devices + d]. Then the steps of a
     * block (job_block) run on devices that hold it. */
    enum hspz_status (*load_on)(struct hspz_engine *engine, const bool *holds,
                                struct hspz_index *index, struct hspz_ref **out,
                                struct hspz_error *err);
    void (*unload)(struct hspz_ref **ref); /* no job on it by then */

    /* Approximate filters of a kind; NULL: none such. hspz_filter_plan.device is what
     * filter_device returns (NULL: no plan needs one); a filter is gone before the engine is. */
    const struct hspz_filter_ops *(*filter)(enum hspz_filter_kind kind);
    struct hspz_cuda_device *(*filter_device)(struct hspz_engine *engine, unsigned device);

    /* Memory that steps write into; on a GPU engine it is pinned. */
    enum hspz_status (*buffer_create)(struct hspz_engine *engine, size_t bytes, void **out);
    void (*buffer_destroy)(struct hspz_engine *engine, void **buffer);
    /* Lets steps write into memory of the caller's, whole pages, until it is disowned: pinned on a
     * GPU engine, which is slow to begin and waits for what runs to end. Any thread, no step into
     * it under way at the end. Both NULL: steps write into any memory. */
    enum hspz_status (*memory_adopt)(struct hspz_engine *engine, void *memory, size_t bytes);
    void (*memory_disown)(struct hspz_engine *engine, void *memory, size_t bytes);

    enum hspz_status (*lane_open)(struct hspz_engine *engine, unsigned device,
                                  struct hspz_lane **out, struct hspz_error *err);
    void (*lane_close)(struct hspz_lane **lane);
    /* Whether the lane's device still works: has it do a little, and waits for that for some
     * seconds. HSPZ_E_DEVICE_ERROR. NULL: there is nothing that could fail. */
    enum hspz_status (*lane_check)(struct hspz_lane *lane, struct hspz_error *err);

    enum hspz_status (*job_begin)(struct hspz_engine *engine, struct hspz_ref *ref,
                                  const struct hspz_job_spec *spec, struct hspz_job **out,
                                  struct hspz_error *err);
    enum hspz_status (*job_step)(struct hspz_lane *lane, struct hspz_job *job,
                                 struct hspz_part *part, struct hspz_error *err);
    /* Memory of the host that the job holds. (Device memory has a budget of its own, which the
     * engine keeps by parking jobs between steps.) */
    void (*job_bytes)(const struct hspz_job *job, struct hspz_job_bytes *out);
    /* Gives back all but what job_bytes says it keeps; the next step makes it again. Results do not
     * change. */
    void (*job_park)(struct hspz_job *job);
    /* The block that the next step is about; HSPZ_NO_BLOCK: none, and it may run anywhere. */
    size_t (*job_block)(const struct hspz_job *job);
    void (*job_totals)(const struct hspz_job *job, struct hspz_job_totals *out);
    /* Where a job of the same spec goes on that is to give out what this one has not. After a step
     * that failed: as before it. */
    void (*job_place)(const struct hspz_job *job, struct hspz_job_place *out);
    void (*job_end)(struct hspz_job **job); /* also cancels */
};

extern const struct hspz_engine_ops hspz_cpu_engine;
extern const struct hspz_engine_ops hspz_cuda_engine; /* in builds that have it */

/* The engine of that name; NULL when this build has none such. */
const struct hspz_engine_ops *hspz_engine_find(const char *name);
