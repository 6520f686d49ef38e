#include "engine/cuda/lane.h"

#include "engine/cuda/cuda_status.h"
#include "engine/cuda/kernels/launch.h"

#include <stdlib.h>
#include <time.h>

/* How long a check waits, and how often it looks. */
#define CHECK_LOOKS 50000
#define CHECK_NS 100000

enum hspz_status
hspz_cuda_lane_open(struct hspz_cuda_device *device, struct hspz_lane **out, struct hspz_error *err)
{
    struct hspz_lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a lane");
    }
    lane->device = device;
    enum hspz_status status = hspz_cuda_device_use(device, err);
    if (status == HSPZ_OK) {
        cudaError_t error = cudaStreamCreateWithFlags(&lane->work, cudaStreamNonBlocking);
        if (error == cudaSuccess) {
            error = cudaStreamCreateWithFlags(&lane->copy, cudaStreamNonBlocking);
        }
        status = hspz_cuda_check(error, device->label, "creating streams", err);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_check(cudaHostAlloc((void **)&lane->beat, sizeof(*lane->beat),
                                               cudaHostAllocPortable | cudaHostAllocMapped),
                                 device->label, "allocating pinned memory", err);
    }
    if (status == HSPZ_OK && hspz_pool_create(HSPZ_CUDA_LANE_THREADS, &lane->pool) != HSPZ_OK) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a lane's threads");
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_check(lane, err); /* loads its kernel while there is memory */
    }
    if (status != HSPZ_OK) {
        hspz_cuda_lane_close(&lane);
        return status;
    }
    *out = lane;
    return HSPZ_OK;
}

void
hspz_cuda_lane_close(struct hspz_lane **lane)
{
    if (*lane == NULL) {
        return;
    }
    cudaStream_t const streams[] = {(*lane)->work, (*lane)->copy};
    (void)cudaSetDevice((*lane)->device->ordinal);
    for (size_t i = 0; i < 2; i++) {
        if (streams[i] != NULL) {
            (void)cudaStreamSynchronize(streams[i]);
            (void)cudaStreamDestroy(streams[i]);
        }
    }
    if ((*lane)->beat != NULL) {
        (void)cudaFreeHost((*lane)->beat);
    }
    hspz_pool_destroy(&(*lane)->pool);
    free(*lane);
    *lane = NULL;
}

enum hspz_status
hspz_cuda_lane_check(struct hspz_lane *lane, struct hspz_error *err)
{
    const char *label = lane->device->label;
    enum hspz_status status = hspz_cuda_device_use(lane->device, err);
    if (status != HSPZ_OK) {
        return status;
    }
    lane->beats++;
    cudaError_t error = hspz_cuda_launch_beat(lane->beat, lane->beats, lane->work);
    if (error == cudaSuccess) {
        error = cudaErrorNotReady;
    }
    for (int look = 0; error == cudaErrorNotReady && look < CHECK_LOOKS; look++) {
        error = cudaStreamQuery(lane->work);
        if (error == cudaErrorNotReady) {
            nanosleep(&(struct timespec){.tv_nsec = CHECK_NS}, NULL);
        }
    }
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "%s: a kernel of one word takes seconds",
                              label);
    }
    status = hspz_cuda_check(error, label, "checking the device", err);
    if (status == HSPZ_OK && *(volatile uint32_t *)lane->beat != lane->beats) {
        return hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "%s: a kernel of one word wrote another",
                              label);
    }
    return status;
}

enum hspz_status
hspz_cuda_lane_wait(const struct hspz_lane *lane, cudaStream_t stream, const char *what,
                    struct hspz_error *err)
{
    return hspz_cuda_check(cudaStreamSynchronize(stream), lane->device->label, what, err);
}
