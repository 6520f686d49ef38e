#include "engine/cuda/filter_sort.h"

#include "engine/cuda/cuda_status.h"

#define ALIGN 256u
/* One pass of the sort; with fewer regions, some of a device would idle. */
#define REGION_BITS_MIN 8u

void
hspz_cuda_filter_regions(struct hspz_cuda_filter_sorted *sorted, uint64_t blocks,
                         uint64_t most_blocks)
{
    unsigned bits = REGION_BITS_MIN;
    /* A region that is not of whole blocks touches one more, or two. */
    while ((blocks >> bits) + 2 > most_blocks) {
        bits++;
    }
    sorted->wide = true;
    sorted->shift = 64 - bits;
    sorted->end_bit = 64;
    sorted->regions = 1u << bits;
}

static uint64_t
aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

enum hspz_status
hspz_cuda_filter_sorted_init(struct hspz_filter *f, struct hspz_cuda_filter_sorted *sorted)
{
    size_t temp_bytes = 0;
    if (hspz_cuda_check(hspz_cuda_filter_sort_bytes(sorted, &temp_bytes), f->device->label,
                        "sorting keys", NULL) != HSPZ_OK) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    const uint64_t data_bytes =
        aligned(sorted->count * (sorted->wide ? sizeof(uint64_t) : sizeof(uint32_t)));
    const uint64_t starts_bytes = aligned(((uint64_t)sorted->regions + 1) * sizeof(uint32_t));
    const uint64_t all = 2 * data_bytes + starts_bytes + ALIGN + temp_bytes;
    const enum hspz_status status = hspz_cuda_buffer_reserve(f->device, &f->scratch, all, NULL);
    if (status != HSPZ_OK) {
        return status;
    }
    uint8_t *at = f->scratch.data;
    sorted->data[0] = at;
    sorted->data[1] = at + data_bytes;
    at += 2 * data_bytes;
    sorted->starts = (uint32_t *)(void *)at;
    sorted->left = (unsigned long long *)(void *)(at + starts_bytes);
    sorted->temp = at + starts_bytes + ALIGN;
    sorted->temp_bytes = temp_bytes;
    return HSPZ_OK;
}

struct hspz_cuda_filter_call
hspz_cuda_filter_cut(const struct hspz_cuda_filter_call *call, uint64_t begin, uint64_t count)
{
    struct hspz_cuda_filter_call part = *call;
    part.keys += begin;
    part.count = count;
    part.values = call->values != NULL ? call->values + begin : NULL;
    part.yes = call->yes != NULL ? call->yes + begin / 32 : NULL;
    part.found = call->found != NULL ? call->found + begin : NULL;
    return part;
}
