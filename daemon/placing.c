#include "daemon/placing.h"

#include <stdlib.h>

enum hspz_status
hspz_placing_init(struct hspz_placing *placing, enum hspz_placement how, unsigned device_count,
                  const bool *members, const uint64_t *bytes, struct hspz_error *err)
{
    *placing = (struct hspz_placing){.how = how, .device_count = device_count};
    unsigned *const list = calloc(device_count, sizeof(*list));
    if (list == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    unsigned count = 0, first = 0;
    for (unsigned d = 0; d < device_count; d++) {
        if (members[d]) {
            first = count > 0 && bytes[d] < bytes[list[first]] ? count : first;
            list[count++] = d;
        }
    }
    if (count == 0) {
        free(list);
        return hspz_error_set(err, HSPZ_E_DEVICE_ERROR,
                              "none of the devices that the index may be on works");
    }
    placing->members = calloc(count, sizeof(*placing->members));
    for (unsigned i = 0; i < count && placing->members != NULL; i++) {
        placing->members[i] = list[(first + i) % count];
    }
    free(list);
    if (placing->members == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    placing->member_count = count;
    return HSPZ_OK;
}

void
hspz_placing_fini(struct hspz_placing *placing)
{
    free(placing->members);
    free(placing->holds);
    *placing = (struct hspz_placing){0};
}

enum hspz_status
hspz_placing_make(struct hspz_placing *placing, size_t blocks, struct hspz_error *err)
{
    const unsigned devices = placing->device_count, members = placing->member_count;
    free(placing->holds);
    placing->holds = NULL;
    placing->block_count = blocks;
    if (devices == 1 || (placing->how == HSPZ_PLACE_REPLICATE && members == devices)) {
        return HSPZ_OK;
    }
    placing->holds = calloc(blocks * devices, sizeof(*placing->holds));
    if (placing->holds == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an index");
    }
    for (size_t b = 0; b < blocks; b++) {
        const size_t first = placing->how == HSPZ_PLACE_BLOCKS ? b % members : 0;
        const size_t end = placing->how == HSPZ_PLACE_REPLICATE ? members : first + 1;
        for (size_t i = first; i < end; i++) {
            placing->holds[b * devices + placing->members[i]] = true;
        }
    }
    return HSPZ_OK;
}

const bool *
hspz_placing_holders(const struct hspz_placing *placing, size_t block)
{
    return placing->holds != NULL ? placing->holds + block * placing->device_count : NULL;
}

uint64_t
hspz_placing_bytes(const struct hspz_placing *placing, unsigned device, uint64_t bytes)
{
    if (placing->holds == NULL) {
        return bytes;
    }
    uint64_t held = 0;
    for (size_t b = 0; b < placing->block_count; b++) {
        held += placing->holds[b * placing->device_count + device];
    }
    return placing->block_count > 0 ? bytes / placing->block_count * held : 0;
}
