/* What the CPU's filters share. */
#pragma once

#include "engine/filter.h"
#include "engine/filter_hash.h"

#include <stdlib.h>

extern const struct hspz_filter_ops hspz_cpu_filter_bloom; /* blocked, too */
extern const struct hspz_filter_ops hspz_cpu_filter_tcf;
extern const struct hspz_filter_ops hspz_cpu_filter_gqf; /* all quotient filters */
extern const struct hspz_filter_ops hspz_cpu_filter_counter;

/* Bits of a counter's keys; and HSPZ_E_BAD_REQUEST for one of more, which is nobody's k-mer. */
unsigned hspz_counter_key_bits(const struct hspz_filter_spec *spec);
HSPZ_MUST_USE enum hspz_status hspz_counter_check_keys(const struct hspz_filter_plan *plan,
                                                       const struct hspz_filter_call *call,
                                                       struct hspz_error *err);

/* Each fills *err and returns its status. */
enum hspz_status hspz_filter_no_memory(const struct hspz_filter_plan *plan, struct hspz_error *err);
enum hspz_status hspz_filter_cannot(const struct hspz_filter_plan *plan, enum hspz_filter_op op,
                                    struct hspz_error *err);
enum hspz_status hspz_filter_differ(struct hspz_error *err);
enum hspz_status hspz_filter_bad_image(const struct hspz_filter_plan *plan, const char *why,
                                       struct hspz_error *err);

/* Clears a call's results; marks key i. */
void hspz_filter_call_begin(struct hspz_filter_call *call);
void hspz_filter_call_yes(struct hspz_filter_call *call, size_t i);

/* A copy of the bytes as array i; on failure the image is empty. */
HSPZ_MUST_USE enum hspz_status hspz_filter_image_add(struct hspz_filter_image *image, int i,
                                                     const void *from, uint64_t bytes,
                                                     const struct hspz_filter_stop *stop,
                                                     struct hspz_error *err);
/* How much is done between two questions to a stop: bytes, and slots or entries. */
#define HSPZ_FILTER_STOP_BYTES (UINT64_C(1) << 24)
#define HSPZ_FILTER_STOP_SLOTS (UINT64_C(1) << 18)

/* HSPZ_E_BAD_REQUEST for a value of more than value_bits, named. */
HSPZ_MUST_USE enum hspz_status hspz_filter_check_values(const struct hspz_filter_plan *plan,
                                                        const struct hspz_filter_call *call,
                                                        struct hspz_error *err);

double hspz_filter_power(double x, unsigned n);

/* Bits [at, at + width) of an array of bytes, lowest first; width up to 64. */
uint64_t hspz_filter_bits_get(const uint8_t *bytes, uint64_t at, unsigned width);
void hspz_filter_bits_set(uint8_t *bytes, uint64_t at, unsigned width, uint64_t value);

/* Where a tcf keeps what, the same on all engines; array and bit numbers as in its image. */
struct hspz_tcf_layout {
    uint64_t block_bits;       /* from a block's tags to the next one's, in array 0 */
    unsigned values_in;        /* array of the blocks' values: 0, each block's behind its tags; 1 */
    uint64_t values_at;        /* bit of the first block's */
    uint64_t value_block_bits; /* from a block's values to the next one's */
    uint64_t spare_values_at;  /* bit of those of the backing table, in array 1 */
    uint64_t bytes[HSPZ_FILTER_ARRAYS];
};
struct hspz_tcf_layout hspz_tcf_layout_of(const struct hspz_filter_plan *plan);
