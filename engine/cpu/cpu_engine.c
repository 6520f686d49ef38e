/* The op table of the CPU engine: threads of the machine, as one device or as simulated ones; the
 * embedded default and the reference for every other engine. */
#include "engine/cpu/cpu_job.h"
#include "engine/cpu/pool.h"
#include "engine/cpu/simulated.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Alignment of the memory that steps write into: a page. */
#define BUFFER_ALIGNMENT 4096u

struct hspz_engine {
    unsigned threads; /* of a lane */
    unsigned device_count;
    struct hspz_simulated *simulated; /* the devices; NULL: one, and it is none of these */
};

struct hspz_lane {
    struct hspz_pool *pool;
    unsigned device, device_count;
    struct hspz_simulated *simulated; /* its device; NULL: it is not */
};

static enum hspz_status
cpu_open(const struct hspz_engine_config *config, struct hspz_engine **out, struct hspz_error *err)
{
    struct hspz_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the cpu engine");
    }
    engine->threads = config->threads > 0 ? config->threads : hspz_pool_processors();
    engine->device_count = 1;
    if (config->simulate != NULL) {
        const enum hspz_status status =
            hspz_simulated_parse(config->simulate, &engine->simulated, &engine->device_count, err);
        if (status != HSPZ_OK) {
            free(engine);
            return status;
        }
        const unsigned threads = engine->threads / engine->device_count;
        engine->threads = threads > 0 ? threads : 1;
    }
    *out = engine;
    return HSPZ_OK;
}

static void
cpu_close(struct hspz_engine **engine)
{
    if (*engine != NULL) {
        free((*engine)->simulated);
        free(*engine);
        *engine = NULL;
    }
}

static unsigned
cpu_device_count(const struct hspz_engine *engine)
{
    return engine->device_count;
}

static void
cpu_device_info(const struct hspz_engine *engine, unsigned device, struct hspz_device_info *out)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *out = (struct hspz_device_info){
        .memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0};
    const char *const plural = engine->threads == 1 ? "" : "s";
    if (engine->simulated != NULL) {
        snprintf(out->name, sizeof(out->name), "simulated, %u thread%s, steps of %" PRIu64 " us",
                 engine->threads, plural, engine->simulated[device].step_ns / 1000);
    } else {
        snprintf(out->name, sizeof(out->name), "cpu, %u thread%s", engine->threads, plural);
    }
}

static void
cpu_unload(struct hspz_ref **ref)
{
    if (*ref == NULL) {
        return;
    }
    for (size_t i = 0; i < (*ref)->block_count; i++) {
        hspz_buckets_fini(&(*ref)->blocks[i]);
    }
    hspz_index_release(&(*ref)->index);
    free((*ref)->holds);
    free(*ref);
    *ref = NULL;
}

static enum hspz_status
cpu_load(struct hspz_engine *engine, struct hspz_index *index, struct hspz_ref **out,
         struct hspz_error *err)
{
    (void)engine;
    const size_t blocks = hspz_index_block_count(index);
    struct hspz_ref *ref = calloc(1, sizeof(*ref) + blocks * sizeof(ref->blocks[0]));
    if (ref == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    ref->index = hspz_index_acquire(index);
    for (; ref->block_count < blocks; ref->block_count++) {
        const enum hspz_status status =
            hspz_buckets_init(&ref->blocks[ref->block_count], &hspz_index_get_params(index)->shape,
                              hspz_index_get_block(index, ref->block_count));
        if (status != HSPZ_OK) {
            cpu_unload(&ref);
            return hspz_error_set(err, status, "no memory for an index");
        }
    }
    *out = ref;
    return HSPZ_OK;
}

/* The memory is the machine's, and the devices only keep to what they hold. */
static enum hspz_status
cpu_load_on(struct hspz_engine *engine, const bool *holds, struct hspz_index *index,
            struct hspz_ref **out, struct hspz_error *err)
{
    const size_t count = hspz_index_block_count(index) * engine->device_count;
    bool *copy = malloc(count * sizeof(*copy));
    if (copy == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    memcpy(copy, holds, count * sizeof(*copy));
    const enum hspz_status status = cpu_load(engine, index, out, err);
    if (status != HSPZ_OK) {
        free(copy);
        return status;
    }
    (*out)->holds = copy;
    return HSPZ_OK;
}

static enum hspz_status
cpu_buffer_create(struct hspz_engine *engine, size_t bytes, void **out)
{
    (void)engine;
    void *buffer = NULL;
    if (posix_memalign(&buffer, BUFFER_ALIGNMENT, bytes) != 0) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    *out = buffer;
    return HSPZ_OK;
}

static void
cpu_buffer_destroy(struct hspz_engine *engine, void **buffer)
{
    (void)engine;
    free(*buffer);
    *buffer = NULL;
}

static enum hspz_status
cpu_lane_open(struct hspz_engine *engine, unsigned device, struct hspz_lane **out,
              struct hspz_error *err)
{
    struct hspz_lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL || hspz_pool_create(engine->threads, &lane->pool) != HSPZ_OK) {
        free(lane);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a lane");
    }
    lane->device = device;
    lane->device_count = engine->device_count;
    lane->simulated = engine->simulated != NULL ? &engine->simulated[device] : NULL;
    *out = lane;
    return HSPZ_OK;
}

static void
cpu_lane_close(struct hspz_lane **lane)
{
    if (*lane != NULL) {
        hspz_pool_destroy(&(*lane)->pool);
        free(*lane);
        *lane = NULL;
    }
}

static enum hspz_status
cpu_job_begin(struct hspz_engine *engine, struct hspz_ref *ref, const struct hspz_job_spec *spec,
              struct hspz_job **out, struct hspz_error *err)
{
    return hspz_cpu_job_begin(ref, spec, engine->threads, out, err);
}

static enum hspz_status
cpu_job_step(struct hspz_lane *lane, struct hspz_job *job, struct hspz_part *part,
             struct hspz_error *err)
{
    uint64_t begin_ns;
    HSPZ_REQUIRE(hspz_cpu_job_held(job, lane->device, lane->device_count));
    if (lane->simulated == NULL) {
        return hspz_cpu_job_step(lane->pool, job, part, err);
    }
    enum hspz_status status = hspz_simulated_begin(lane->simulated, &begin_ns, err);
    if (status == HSPZ_OK) {
        status = hspz_cpu_job_step(lane->pool, job, part, err);
        hspz_simulated_end(lane->simulated, begin_ns, status == HSPZ_OK && part->count > 0);
    }
    return status;
}

const struct hspz_engine_ops hspz_cpu_engine = {
    .name = "cpu",
    .devices_apart = true,
    .open = cpu_open,
    .close = cpu_close,
    .device_count = cpu_device_count,
    .device_info = cpu_device_info,
    .load = cpu_load,
    .load_on = cpu_load_on,
    .unload = cpu_unload,
    .filter = hspz_cpu_filter,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .lane_open = cpu_lane_open,
    .lane_close = cpu_lane_close,
    .job_begin = cpu_job_begin,
    .job_step = cpu_job_step,
    .job_bytes = hspz_cpu_job_bytes,
    .job_park = hspz_cpu_job_park,
    .job_block = hspz_cpu_job_block,
    .job_totals = hspz_cpu_job_totals,
    .job_place = hspz_cpu_job_place,
    .job_end = hspz_cpu_job_end,
};
