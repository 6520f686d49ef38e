#include "engine/cuda/device.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/cuda/scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UUID_TEXT_BYTES 37

/* 8-4-4-4-12 hex digits. */
static void
format_uuid(const unsigned char *bytes, char text[UUID_TEXT_BYTES])
{
    char *at = text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        at += snprintf(at, 3, "%02x", bytes[i]);
    }
}

/* Whether `wanted` ("GPU-1b2c..." or "MIG-1b2c...") begins the device's UUID. */
static bool
matches_uuid(const char *wanted, const struct cudaDeviceProp *properties)
{
    if (strncasecmp(wanted, "GPU-", 4) != 0 && strncasecmp(wanted, "MIG-", 4) != 0) {
        return false;
    }
    char uuid[UUID_TEXT_BYTES];
    format_uuid((const unsigned char *)properties->uuid.bytes, uuid);
    const size_t len = strlen(wanted + 4);
    return len > 0 && strncasecmp(wanted + 4, uuid, len) == 0;
}

static enum hspz_status
find_device(const char *wanted, int visible, int *ordinal, struct hspz_error *err)
{
    if (wanted == NULL) {
        *ordinal = 0;
        return HSPZ_OK;
    }
    char *end;
    const long number = strtol(wanted, &end, 10);
    if (*wanted >= '0' && *wanted <= '9' && *end == '\0') {
        if (number < visible) {
            *ordinal = (int)number;
            return HSPZ_OK;
        }
    } else {
        for (int i = 0; i < visible; i++) {
            struct cudaDeviceProp properties;
            const enum hspz_status status = hspz_cuda_check(
                cudaGetDeviceProperties(&properties, i), "cuda", "reading device properties", err);
            if (status != HSPZ_OK) {
                return status;
            }
            if (matches_uuid(wanted, &properties)) {
                *ordinal = i;
                return HSPZ_OK;
            }
        }
    }
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                          "cuda: device '%s' is not among the %d visible to this process", wanted,
                          visible);
}

/* Whether this build runs on it. */
static enum hspz_status
probe(const struct hspz_cuda_device *device, const struct cudaDeviceProp *properties,
      struct hspz_error *err)
{
    const cudaError_t error = hspz_cuda_probe();
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion ||
        error == cudaErrorInvalidDeviceFunction) {
        return hspz_error_set(
            err, HSPZ_E_UNSUPPORTED, "%s has compute capability %d.%d; this build is for %s",
            device->label, properties->major, properties->minor, HSPZ_CUDA_ARCHITECTURES);
    }
    return hspz_cuda_check(error, device->label, "loading kernels", err);
}

enum hspz_status
hspz_cuda_device_use(const struct hspz_cuda_device *device, struct hspz_error *err)
{
    return hspz_cuda_check(cudaSetDevice(device->ordinal), device->label, "selecting the device",
                           err);
}

enum hspz_status
hspz_cuda_device_init(struct hspz_cuda_device *device, const char *wanted, int visible,
                      uint64_t budget_bytes, struct hspz_error *err)
{
    struct hspz_cuda_device made = {0};
    enum hspz_status status = find_device(wanted, visible, &made.ordinal, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct cudaDeviceProp properties;
    status = hspz_cuda_check(cudaGetDeviceProperties(&properties, made.ordinal), "cuda",
                             "reading device properties", err);
    if (status != HSPZ_OK) {
        return status;
    }
    made.multiprocessors = (unsigned)properties.multiProcessorCount;
    snprintf(made.name, sizeof(made.name), "%.*s", (int)sizeof(made.name) - 1, properties.name);
    snprintf(made.label, sizeof(made.label), "device %d (%s)", made.ordinal, made.name);
    size_t free_bytes = 0, all_bytes = 0;
    status = hspz_cuda_device_use(&made, err);
    if (status == HSPZ_OK) {
        status = probe(&made, &properties, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(cudaMemGetInfo(&free_bytes, &all_bytes), made.label,
                                 "asking for free memory", err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (budget_bytes > free_bytes) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                              "%s: %" PRIu64 " bytes are asked for, but of %zu only %zu are free",
                              made.label, budget_bytes, all_bytes, free_bytes);
    }
    made.overlaps = hspz_cuda_overlaps();
    made.memory_bytes = all_bytes;
    made.budget_bytes = budget_bytes != 0 ? budget_bytes : free_bytes - free_bytes / 16;
    *device = made;
    pthread_mutex_init(&device->mutex, NULL);
    return HSPZ_OK;
}

void
hspz_cuda_device_fini(struct hspz_cuda_device *device)
{
    (void)cudaSetDevice(device->ordinal);
    hspz_cuda_scratch_destroy_all(device);
    pthread_mutex_destroy(&device->mutex);
}
