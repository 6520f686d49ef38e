/* The op table of the CUDA engine: the devices it was given, each with any number of lanes. */
#include "engine/cuda/build.h"
#include "engine/cuda/cuda_job.h"
#include "engine/cuda/cuda_status.h"
#include "engine/cuda/lane.h"
#include "engine/cuda/resident.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

struct hspz_engine {
    struct hspz_cuda_tuning tuning; /* without the list of devices */
    unsigned device_count;
    struct hspz_cuda_device devices[];
};

static void
cuda_close(struct hspz_engine **engine)
{
    if (*engine == NULL) {
        return;
    }
    for (unsigned d = 0; d < (*engine)->device_count; d++) {
        hspz_cuda_device_fini(&(*engine)->devices[d]);
    }
    free(*engine);
    *engine = NULL;
}

/* The d-th device wanted; its name is made up in `text` when all visible ones are. */
static const char *
wanted_device(const struct hspz_cuda_tuning *tuning, unsigned d, char text[16])
{
    if (tuning->devices != NULL) {
        return tuning->devices[d];
    }
    snprintf(text, 16, "%u", d);
    return text;
}

static enum hspz_status
cuda_open(const struct hspz_engine_config *config, struct hspz_engine **out, struct hspz_error *err)
{
    int visible = 0;
    const cudaError_t error = cudaGetDeviceCount(&visible);
    if (error != cudaSuccess || visible == 0) {
        return hspz_cuda_refuse_open(error, err);
    }
    const struct hspz_cuda_tuning *tuning = &config->cuda;
    const unsigned count = tuning->devices != NULL ? tuning->device_count : (unsigned)visible;
    struct hspz_engine *engine = calloc(1, sizeof(*engine) + count * sizeof(engine->devices[0]));
    if (engine == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the cuda engine");
    }
    engine->tuning = *tuning;
    engine->tuning.devices = NULL;
    engine->tuning.device_count = 0;
    enum hspz_status status = HSPZ_OK;
    while (engine->device_count < count && status == HSPZ_OK) {
        char text[16];
        status = hspz_cuda_device_init(&engine->devices[engine->device_count],
                                       wanted_device(tuning, engine->device_count, text), visible,
                                       tuning->memory_bytes, err);
        engine->device_count += status == HSPZ_OK;
    }
    if (status != HSPZ_OK) {
        cuda_close(&engine);
        return status;
    }
    *out = engine;
    return HSPZ_OK;
}

static unsigned
cuda_device_count(const struct hspz_engine *engine)
{
    return engine->device_count;
}

static void
cuda_device_info(const struct hspz_engine *engine, unsigned device, struct hspz_device_info *out)
{
    const struct hspz_cuda_device *d = &engine->devices[device];
    *out = (struct hspz_device_info){.memory_bytes = d->memory_bytes};
    snprintf(out->name, sizeof(out->name), "%s", d->name);
}

static enum hspz_status
cuda_build(struct hspz_engine *engine, struct hspz_sequences **seqs,
           const struct hspz_index_params *params, uint64_t budget_bytes, hspz_progress_fn progress,
           void *user, struct hspz_index **out, struct hspz_error *err)
{
    return hspz_cuda_build(engine->devices, engine->device_count, seqs, params, budget_bytes,
                           progress, user, out, err);
}

static enum hspz_status
cuda_load(struct hspz_engine *engine, struct hspz_index *index, struct hspz_ref **out,
          struct hspz_error *err)
{
    return hspz_cuda_ref_load(engine->devices, engine->device_count,
                              (enum hspz_cuda_lookup)engine->tuning.lookup, NULL, index, out, err);
}

static enum hspz_status
cuda_load_on(struct hspz_engine *engine, const bool *holds, struct hspz_index *index,
             struct hspz_ref **out, struct hspz_error *err)
{
    return hspz_cuda_ref_load(engine->devices, engine->device_count,
                              (enum hspz_cuda_lookup)engine->tuning.lookup, holds, index, out, err);
}

static enum hspz_status
cuda_buffer_create(struct hspz_engine *engine, size_t bytes, void **out)
{
    struct hspz_cuda_buffer buffer = {0};
    enum hspz_status status = hspz_cuda_device_use(&engine->devices[0], NULL);
    if (status == HSPZ_OK) {
        status = hspz_cuda_pinned_reserve(&engine->devices[0], &buffer, bytes, NULL);
    }
    if (status == HSPZ_OK) {
        *out = buffer.data;
    }
    return status;
}

static void
cuda_buffer_destroy(struct hspz_engine *engine, void **buffer)
{
    (void)cudaSetDevice(engine->devices[0].ordinal);
    struct hspz_cuda_buffer pinned = {.data = *buffer};
    hspz_cuda_pinned_free(&pinned);
    *buffer = NULL;
}

/* Only where every device takes the host's addresses for its own: steps are given no others. */
static enum hspz_status
cuda_memory_adopt(struct hspz_engine *engine, void *memory, size_t bytes)
{
    enum hspz_status status = HSPZ_OK;
    for (unsigned i = 0; i < engine->device_count && status == HSPZ_OK; i++) {
        const struct hspz_cuda_device *device = &engine->devices[i];
        int same = 0;
        status = hspz_cuda_check(
            cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                   device->ordinal),
            device->label, "asking for an attribute", NULL);
        if (status == HSPZ_OK && same == 0) {
            status = HSPZ_E_UNSUPPORTED;
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_device_use(&engine->devices[0], NULL);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(
            cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
            engine->devices[0].label, "pinning memory", NULL);
    }
    return status;
}

static void
cuda_memory_disown(struct hspz_engine *engine, void *memory, size_t bytes)
{
    (void)bytes;
    (void)cudaSetDevice(engine->devices[0].ordinal);
    (void)cudaHostUnregister(memory);
}

static enum hspz_status
cuda_lane_open(struct hspz_engine *engine, unsigned device, struct hspz_lane **out,
               struct hspz_error *err)
{
    return hspz_cuda_lane_open(&engine->devices[device], out, err);
}

static enum hspz_status
cuda_job_begin(struct hspz_engine *engine, struct hspz_ref *ref, const struct hspz_job_spec *spec,
               struct hspz_job **out, struct hspz_error *err)
{
    return hspz_cuda_job_begin(&engine->tuning, ref, spec, out, err);
}

static void
cuda_about(char *text, size_t bytes)
{
    int runtime = 0, driver = 0;
    char found[32] = "none";
    (void)cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0) {
        snprintf(found, sizeof(found), "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    }
    (void)cudaGetLastError();
    snprintf(text, bytes, "runtime CUDA %d.%d, driver %s, built for %s", runtime / 1000,
             runtime % 1000 / 10, found, HSPZ_CUDA_ARCHITECTURES);
}

static struct hspz_cuda_device *
cuda_filter_device(struct hspz_engine *engine, unsigned device)
{
    return &engine->devices[device];
}

const struct hspz_engine_ops hspz_cuda_engine = {
    .name = "cuda",
    .about = cuda_about,
    .open = cuda_open,
    .close = cuda_close,
    .device_count = cuda_device_count,
    .device_info = cuda_device_info,
    .build = cuda_build,
    .load = cuda_load,
    .load_on = cuda_load_on,
    .unload = hspz_cuda_ref_unload,
    .filter = hspz_cuda_filter,
    .filter_device = cuda_filter_device,
    .buffer_create = cuda_buffer_create,
    .buffer_destroy = cuda_buffer_destroy,
    .memory_adopt = cuda_memory_adopt,
    .memory_disown = cuda_memory_disown,
    .lane_open = cuda_lane_open,
    .lane_close = hspz_cuda_lane_close,
    .lane_check = hspz_cuda_lane_check,
    .job_begin = cuda_job_begin,
    .job_step = hspz_cuda_job_step,
    .job_bytes = hspz_cuda_job_bytes,
    .job_park = hspz_cuda_job_park,
    .job_block = hspz_cuda_job_block,
    .job_totals = hspz_cuda_job_totals,
    .job_place = hspz_cuda_job_place,
    .job_end = hspz_cuda_job_end,
};
