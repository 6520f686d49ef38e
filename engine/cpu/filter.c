#include "engine/cpu/filter_p.h"

#include <inttypes.h>
#include <string.h>

const struct hspz_filter_ops *
hspz_cpu_filter(enum hspz_filter_kind kind)
{
    switch (kind) {
    case HSPZ_FILTER_TCF:
        return &hspz_cpu_filter_tcf;
    case HSPZ_FILTER_BLOOM:
    case HSPZ_FILTER_BLOCKED:
        return &hspz_cpu_filter_bloom;
    case HSPZ_FILTER_COUNTER:
        return &hspz_cpu_filter_counter;
    default:
        return &hspz_cpu_filter_gqf;
    }
}

enum hspz_status
hspz_filter_no_memory(const struct hspz_filter_plan *plan, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                          "no memory for a %s filter of %" PRIu64 " bytes",
                          hspz_filter_kind_name(plan->spec.kind), plan->bytes);
}

enum hspz_status
hspz_filter_cannot(const struct hspz_filter_plan *plan, enum hspz_filter_op op,
                   struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED, "a %s filter cannot %s",
                          hspz_filter_kind_name(plan->spec.kind), hspz_filter_op_name(op));
}

enum hspz_status
hspz_filter_differ(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "the two filters are not of one kind, seed and fingerprint");
}

enum hspz_status
hspz_filter_bad_image(const struct hspz_filter_plan *plan, const char *why, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "not the content of a %s filter: %s",
                          hspz_filter_kind_name(plan->spec.kind), why);
}

void
hspz_filter_call_begin(struct hspz_filter_call *call)
{
    call->yes_count = 0;
    call->full = false;
    if (call->yes != NULL && call->count > 0) {
        memset(call->yes, 0, (call->count + 7) / 8);
    }
}

void
hspz_filter_call_yes(struct hspz_filter_call *call, size_t i)
{
    call->yes_count++;
    if (call->yes != NULL) {
        call->yes[i / 8] |= (uint8_t)(1u << i % 8);
    }
}

enum hspz_status
hspz_filter_image_add(struct hspz_filter_image *image, int i, const void *from, uint64_t bytes,
                      const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    image->arrays[i] = malloc(bytes > 0 ? bytes : 1);
    if (image->arrays[i] == NULL) {
        hspz_filter_image_fini(image);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY,
                              "no memory for %" PRIu64 " bytes of a filter", bytes);
    }
    image->bytes[i] = bytes;
    for (uint64_t at = 0; at < bytes; at += HSPZ_FILTER_STOP_BYTES) {
        const uint64_t left = bytes - at;
        const enum hspz_status status = hspz_filter_stopped(stop, err);
        if (status != HSPZ_OK) {
            hspz_filter_image_fini(image);
            return status;
        }
        memcpy((char *)image->arrays[i] + at, (const char *)from + at,
               left < HSPZ_FILTER_STOP_BYTES ? left : HSPZ_FILTER_STOP_BYTES);
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_filter_stopped(const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    return stop != NULL && stop->asked(stop->user)
               ? hspz_error_set(err, HSPZ_E_CANCELLED, "the work on a filter was stopped")
               : HSPZ_OK;
}

enum hspz_status
hspz_filter_check_values(const struct hspz_filter_plan *plan, const struct hspz_filter_call *call,
                         struct hspz_error *err)
{
    const unsigned bits = plan->spec.value_bits;
    if (call->op > HSPZ_FILTER_INSERT_IF_ABSENT || call->values == NULL || bits >= 64) {
        return HSPZ_OK;
    }
    for (size_t i = 0; i < call->count; i++) {
        if (call->values[i] >> bits != 0) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "value %zu is %" PRIu64 ", over the filter's %u bits", i,
                                  call->values[i], bits);
        }
    }
    return HSPZ_OK;
}

double
hspz_filter_power(double x, unsigned n)
{
    double power = 1;
    while (n-- > 0) {
        power *= x;
    }
    return power;
}

uint64_t
hspz_filter_bits_get(const uint8_t *bytes, uint64_t at, unsigned width)
{
    uint64_t value = 0;
    for (unsigned done = 0; done < width;) {
        const unsigned shift = (unsigned)(at % 8);
        const unsigned take = 8 - shift < width - done ? 8 - shift : width - done;
        const uint64_t piece = (unsigned)bytes[at / 8] >> shift & ((1u << take) - 1);
        value |= piece << done;
        done += take;
        at += take;
    }
    return value;
}

void
hspz_filter_bits_set(uint8_t *bytes, uint64_t at, unsigned width, uint64_t value)
{
    for (unsigned done = 0; done < width;) {
        const unsigned shift = (unsigned)(at % 8);
        const unsigned take = 8 - shift < width - done ? 8 - shift : width - done;
        const unsigned mask = ((1u << take) - 1) << shift;
        const unsigned piece = (unsigned)(value >> done) << shift & mask;
        bytes[at / 8] = (uint8_t)((bytes[at / 8] & ~mask) | piece);
        done += take;
        at += take;
    }
}

/* ---- tcf ---- */

#define SECTOR_BITS 256u

struct hspz_tcf_layout
hspz_tcf_layout_of(const struct hspz_filter_plan *plan)
{
    const struct hspz_filter_spec *s = &plan->spec;
    const uint64_t tags = (uint64_t)s->block_slots * s->slot_bits;
    const uint64_t values = (uint64_t)s->block_slots * s->value_bits;
    const bool beside = values % SECTOR_BITS == 0;
    struct hspz_tcf_layout l = {.block_bits = beside ? tags + values : tags,
                                .values_in = beside ? 0 : 1,
                                .values_at = beside ? tags : 0,
                                .value_block_bits = beside ? tags + values : values};
    l.spare_values_at = beside ? 0 : (plan->blocks * values + 63) / 64 * 64;
    l.bytes[0] = plan->blocks * l.block_bits / 8;
    l.bytes[1] = (l.spare_values_at + plan->spare_slots * s->value_bits + 7) / 8;
    l.bytes[2] = plan->spare_slots * sizeof(uint64_t);
    return l;
}
