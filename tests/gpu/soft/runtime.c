/* The runtime calls of the CUDA engine on the software card: one device, whose memory is the
 * host's, and streams that are always done. Memory is given out full of rubbish. The device hides
 * as CUDA_VISIBLE_DEVICES says, and is what the first of `nvidia-smi -L` would be. */
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#undef cudaGetDeviceProperties
#define ALIGN 256u
#define MEMORY_BYTES ((size_t)16 << 30)
#define UUID "GPU-736f6674-7761-7265-0000-000000000000"

/* Before each allocation. */
struct head {
    size_t bytes;
    char pad[ALIGN - sizeof(size_t)];
};

static _Atomic size_t used;

static void *
take(size_t bytes, int rubbish)
{
    struct head *head = aligned_alloc(ALIGN, (bytes + sizeof(*head) + ALIGN - 1) / ALIGN * ALIGN);
    if (head == NULL) {
        return NULL;
    }
    head->bytes = bytes;
    memset(head + 1, rubbish, bytes);
    return head + 1;
}

cudaError_t
cudaMalloc(void **out, size_t bytes)
{
    void *memory = used + bytes <= MEMORY_BYTES ? take(bytes, 0xee) : NULL;
    if (memory == NULL) {
        return cudaErrorMemoryAllocation;
    }
    used += bytes;
    *out = memory;
    return cudaSuccess;
}

cudaError_t
cudaFree(void *memory)
{
    if (memory != NULL) {
        struct head *head = (struct head *)memory - 1;
        used -= head->bytes;
        memset(memory, 0xdd, head->bytes);
        free(head);
    }
    return cudaSuccess;
}

cudaError_t
cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = take(bytes, 0xcc);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrCanUseHostPointerForRegisteredMem;
    return cudaSuccess;
}

cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return memory != NULL && bytes > 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t
cudaHostUnregister(void *memory)
{
    return memory != NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t
cudaFreeHost(void *memory)
{
    free(memory != NULL ? (struct head *)memory - 1 : NULL);
    return cudaSuccess;
}

cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                cudaStream_t stream)
{
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t
cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                  size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    (void)stream;
    for (size_t i = 0; i < height; i++) {
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    }
    return cudaSuccess;
}

cudaError_t
cudaMemset(void *memory, int value, size_t bytes)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(memory, value, bytes);
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    *all = MEMORY_BYTES;
    *free_bytes = MEMORY_BYTES - used;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = visible == NULL || strcmp(visible, "0") == 0 ||
             (strlen(visible) > 4 && strncmp(visible, UUID, strlen(visible)) == 0);
    return *count == 1 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    (void)device;
    *out = (struct cudaDeviceProp){.name = "software", .multiProcessorCount = 1, .major = 9};
    memcpy(out->uuid.bytes, "software", 8);
    return cudaSuccess;
}

cudaError_t
cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t
cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *
cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error of the software card";
}

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

/* A stream or event is anything that is not NULL. */
cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = malloc(1);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    return cudaStreamSynchronize(stream);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)event;
    (void)flags;
    return cudaStreamSynchronize(stream);
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = malloc(1);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    return cudaStreamSynchronize(stream);
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}
