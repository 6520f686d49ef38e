#include "engine/cuda/cuda_status.h"

enum hspz_status
hspz_cuda_check(cudaError_t error, const char *device, const char *what, struct hspz_error *err)
{
    if (error == cudaSuccess) {
        return HSPZ_OK;
    }
    (void)cudaGetLastError();
    return hspz_error_set(
        err, error == cudaErrorMemoryAllocation ? HSPZ_E_OUT_OF_MEMORY : HSPZ_E_DEVICE_ERROR,
        "%s: %s: %s", device, what, cudaGetErrorString(error));
}

enum hspz_status
hspz_cuda_refuse_open(cudaError_t error, struct hspz_error *err)
{
    (void)cudaGetLastError();
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "cuda: this machine has no NVIDIA driver");
    }
    if (error == cudaErrorInsufficientDriver && cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "cuda: the driver is too old: it supports CUDA %d.%d, this build "
                              "needs %d.%d",
                              driver / 1000, driver % 1000 / 10, runtime / 1000,
                              runtime % 1000 / 10);
    }
    if (error == cudaSuccess || error == cudaErrorNoDevice) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "cuda: no device is visible to this process");
    }
    return hspz_error_set(err, HSPZ_E_DEVICE_ERROR, "cuda: %s", cudaGetErrorString(error));
}
