/* The runtime calls of the CUDA engine on the software card: one device, or as many as
 * SOFT_CARD_DEVICES says, whose memory is the host's, and streams that are always done. Memory is
 * given out full of rubbish. The device hides as CUDA_VISIBLE_DEVICES says, and is what the first
 * of `nvidia-smi -L` would be. */
#include "runtime.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#undef cudaGetDeviceProperties
#define ALIGN 256u
#define MEMORY_BYTES ((size_t)16 << 30)
#define DEVICES_MOST 16
#define UUID "GPU-736f6674-7761-7265-0000-000000000000"

/* Before each allocation. */
struct head {
    size_t bytes;
    char pad[ALIGN - sizeof(size_t)];
};

static _Atomic size_t used;
static atomic_long live; /* allocations, streams and events */
static atomic_long left;
static atomic_bool happened;
static _Atomic unsigned broken;   /* devices, a bit each */
static _Thread_local int current; /* device */
static _Thread_local bool misplaced;

void
soft_fail_arm(long n)
{
    happened = false;
    left = n;
}

bool
soft_fail_disarm(void)
{
    left = 0;
    return happened;
}

long
soft_live(void)
{
    return live;
}

/* What a call that can fail begins with. */
static bool
fails(void)
{
    const bool now = left > 0 && atomic_fetch_sub(&left, 1) == 1;
    happened = happened || now;
    return now || (broken >> current & 1) != 0;
}

void
soft_break(void)
{
    atomic_fetch_or(&broken, 1u << current);
}

cudaError_t
soft_call(void)
{
    return fails() ? cudaErrorUnknown : cudaSuccess;
}

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
    void *memory = !fails() && used + bytes <= MEMORY_BYTES ? take(bytes, 0xee) : NULL;
    if (memory == NULL) {
        return cudaErrorMemoryAllocation;
    }
    used += bytes;
    live++;
    *out = memory;
    return cudaSuccess;
}

cudaError_t
cudaFree(void *memory)
{
    if (memory != NULL) {
        struct head *head = (struct head *)memory - 1;
        used -= head->bytes;
        live--;
        memset(memory, 0xdd, head->bytes);
        free(head);
    }
    return cudaSuccess;
}

cudaError_t
cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = fails() ? NULL : take(bytes, 0xcc);
    live += *out != NULL;
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrCanUseHostPointerForRegisteredMem;
    return soft_call();
}

cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return memory != NULL && bytes > 0 ? soft_call() : cudaErrorInvalidValue;
}

cudaError_t
cudaHostUnregister(void *memory)
{
    return memory != NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t
cudaFreeHost(void *memory)
{
    live -= memory != NULL;
    free(memory != NULL ? (struct head *)memory - 1 : NULL);
    return cudaSuccess;
}

cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    if (fails()) {
        return cudaErrorUnknown;
    }
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
    if (fails()) {
        return cudaErrorUnknown;
    }
    for (size_t i = 0; i < height; i++) {
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    }
    return cudaSuccess;
}

cudaError_t
cudaMemset(void *memory, int value, size_t bytes)
{
    if (fails()) {
        return cudaErrorUnknown;
    }
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
    return soft_call();
}

static int
devices(void)
{
    const char *number = getenv("SOFT_CARD_DEVICES");
    const int count = number != NULL ? atoi(number) : 1;
    return count >= 1 && count <= DEVICES_MOST ? count : 1;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = visible == NULL
                 ? devices()
                 : strcmp(visible, "0") == 0 ||
                       (strlen(visible) > 4 && strncmp(visible, UUID, strlen(visible)) == 0);
    return *count > 0 ? soft_call() : cudaErrorNoDevice;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    *out = (struct cudaDeviceProp){.name = "software", .multiProcessorCount = 1, .major = 9};
    memcpy(out->uuid.bytes, "software", 8);
    out->uuid.bytes[15] = (char)device;
    return soft_call();
}

cudaError_t
cudaSetDevice(int device)
{
    if (device < 0 || device >= devices()) {
        return cudaErrorInvalidDevice;
    }
    current = device;
    return soft_call();
}

cudaError_t
cudaDeviceCanAccessPeer(int *can, int device, int other)
{
    *can = device != other;
    return soft_call();
}

cudaError_t
cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    return other != current && flags == 0 ? soft_call() : cudaErrorInvalidDevice;
}

cudaError_t
cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                    cudaStream_t stream)
{
    (void)stream;
    return to_device < devices() && from_device < devices()
               ? cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice)
               : cudaErrorInvalidDevice;
}

bool
soft_may_launch(cudaStream_t stream)
{
    const bool here = stream == NULL || *(const int *)(const void *)stream == current;
    misplaced = misplaced || !here;
    return here;
}

cudaError_t
cudaGetLastError(void)
{
    if (misplaced) {
        misplaced = false;
        return cudaErrorInvalidResourceHandle;
    }
    return soft_call();
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

/* A stream is the number of its device, an event anything that is not NULL. */
cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    int *const made = fails() ? NULL : malloc(sizeof(*made));
    if (made == NULL) {
        return cudaErrorMemoryAllocation;
    }
    *made = current;
    *out = (cudaStream_t)(void *)made;
    live++;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    live -= stream != NULL;
    free(stream);
    return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return soft_call();
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
    *out = fails() ? NULL : malloc(1);
    live += *out != NULL;
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    live -= event != NULL;
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
    return soft_call();
}
