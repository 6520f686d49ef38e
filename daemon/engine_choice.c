#include "daemon/engine_choice.h"

#include <string.h>

/* On a GPU uploads, kernels and downloads of several jobs overlap; the cpu engine's one lane has
 * all threads. */
#define CUDA_LANES 4u

/* Instead of cuda, of which `auto` makes no condition. */
static void
say_cpu(const struct hspz_config *config, struct hspz_log *log, const char *why)
{
    if (log != NULL && config->device_count > 0) {
        HSPZ_LOG(log, HSPZ_LOG_WARNING, "no cuda device, taking cpu without those of `devices`",
                 hspz_kv("why", why));
    } else if (log != NULL) {
        HSPZ_LOG(log, HSPZ_LOG_INFO, "no cuda device, taking cpu", hspz_kv("why", why));
    }
}

static enum hspz_status
open_engine(const struct hspz_config *config, struct hspz_log *log,
            const struct hspz_engine_ops **ops, struct hspz_engine **engine, struct hspz_error *err)
{
    const struct hspz_engine_config engine_config = {
        .threads = (unsigned)config->threads,
        .simulate = config->simulate_devices,
        .cuda = {.devices = (const char *const *)config->devices,
                 .device_count = (unsigned)config->device_count,
                 .memory_bytes = config->device_memory},
    };
    const struct hspz_engine_ops *cuda = hspz_engine_find("cuda");
    if (config->engine == HSPZ_ENGINE_CUDA && cuda == NULL) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "this hspzd is built without the cuda engine");
    }
    if (config->engine != HSPZ_ENGINE_CPU && cuda != NULL) {
        const enum hspz_status status = cuda->open(&engine_config, engine, err);
        if (status == HSPZ_OK) {
            *ops = cuda;
            return HSPZ_OK;
        }
        if (config->engine == HSPZ_ENGINE_CUDA) {
            return status;
        }
        say_cpu(config, log, err->text);
    }
    if (config->engine == HSPZ_ENGINE_AUTO && cuda == NULL) {
        say_cpu(config, log, "built without the cuda engine");
    }
    *ops = hspz_engine_find("cpu");
    if (*ops == NULL) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "this hspzd has no engine");
    }
    return (*ops)->open(&engine_config, engine, err);
}

enum hspz_status
hspz_engine_choose(const struct hspz_config *config, struct hspz_log *log,
                   const struct hspz_engine_ops **ops, struct hspz_engine **engine,
                   struct hspz_error *err)
{
    const enum hspz_status status = open_engine(config, log, ops, engine, err);
    if (status != HSPZ_OK || log == NULL) {
        return status;
    }
    const unsigned devices = (*ops)->device_count(*engine);
    for (unsigned i = 0; i < devices; i++) {
        struct hspz_device_info info;
        (*ops)->device_info(*engine, i, &info);
        HSPZ_LOG(log, HSPZ_LOG_INFO, "device", hspz_kv("engine", (*ops)->name),
                 hspz_kv_uint("number", i), hspz_kv("name", info.name),
                 hspz_kv_uint("memory_bytes", info.memory_bytes),
                 hspz_kv_uint("budget_bytes", config->device_memory),
                 hspz_kv_uint("lanes", hspz_engine_lanes(config, *ops)));
    }
    return HSPZ_OK;
}

unsigned
hspz_engine_lanes(const struct hspz_config *config, const struct hspz_engine_ops *ops)
{
    if (config->lanes != 0) {
        return (unsigned)config->lanes;
    }
    return strcmp(ops->name, "cuda") == 0 ? CUDA_LANES : 1;
}
