#include "engine/seed_mask.h"

#include "engine/alphabet.h"
#include "engine/cpu/pool.h"
#include "engine/kmer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLICE HSPZ_SEED_MASK_SLICE
/* Keys, places and answers of a slice, and what a filter's kind takes for a call. */
#define WORK_BYTES (SLICE * 48 + (UINT64_C(1) << 17))

enum hspz_status
hspz_seed_mask_check(const struct hspz_seed_mask *mask, struct hspz_error *err)
{
    const struct hspz_filter_spec *spec = &mask->ops->plan(mask->filter)->spec;
    const bool counts = spec->kind == HSPZ_FILTER_TCF || spec->kind == HSPZ_FILTER_GQF ||
                        spec->kind == HSPZ_FILTER_COUNTER;
    if (spec->k == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "a mask is a filter of k-mers, and this one has no k");
    }
    if (mask->above != 0 && !counts) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "a %s filter has no counts: as a mask it takes threshold 0 alone",
                              hspz_filter_kind_name(spec->kind));
    }
    return HSPZ_OK;
}

uint64_t
hspz_seed_mask_work_bytes(unsigned threads)
{
    return threads * WORK_BYTES;
}

struct find {
    const struct hspz_seed_mask *mask;
    const struct hspz_seed_starts *starts;
    uint8_t *bits;
    atomic_bool failed;
    enum hspz_status status; /* of the slice that failed first */
    struct hspz_error err;
};

/* The k-mers of a slice asked for at once; `found` is for their counts. */
static enum hspz_status
ask(const struct find *f, const uint8_t *sequence, size_t sequence_len, size_t count,
    uint64_t *found, uint8_t *bits, struct hspz_error *err)
{
    const struct hspz_seed_mask *mask = f->mask;
    struct hspz_filter_call call = {
        .op = mask->above == 0 ? HSPZ_FILTER_QUERY : HSPZ_FILTER_COUNT,
        .sequence = sequence,
        .sequence_len = sequence_len,
        .count = count,
        .yes = mask->above == 0 ? bits : NULL,
        .found = mask->above == 0 ? NULL : found,
    };
    const enum hspz_status status = hspz_filter_run(mask->ops, mask->filter, &call, err);
    if (status != HSPZ_OK || mask->above == 0) {
        return status;
    }
    memset(bits, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        bits[i / 8] |= (uint8_t)((found[i] > mask->above) << i % 8);
    }
    return HSPZ_OK;
}

static void
find_slice(void *user, size_t slice)
{
    struct find *f = user;
    const struct hspz_seed_starts *starts = f->starts;
    const uint64_t begin = starts->begin + slice * SLICE;
    const uint64_t end = starts->end - begin < SLICE ? starts->end : begin + SLICE;
    const uint64_t k = f->mask->ops->plan(f->mask->filter)->spec.k;
    const uint64_t rest = starts->query.len - begin;
    const size_t len = (size_t)(rest < end - begin + k - 1 ? rest : end - begin + k - 1);
    const uint8_t *sequence = starts->query.bytes + begin;
    uint8_t reversed[SLICE + HSPZ_KMER_MOST];
    struct hspz_error err = {0};
    enum hspz_status status = HSPZ_OK;
    uint64_t *found = NULL;
    if (atomic_load(&f->failed)) {
        return;
    }
    if (starts->strand == HSPZ_STRAND_MINUS) {
        hspz_reverse_complement(reversed, starts->query.bytes + (rest - len), len);
        sequence = reversed;
    }
    if (f->mask->above != 0) {
        found = malloc(SLICE * sizeof(*found));
        status = found != NULL
                     ? HSPZ_OK
                     : hspz_error_set(&err, HSPZ_E_OUT_OF_MEMORY, "no memory to look up a mask");
    }
    if (status == HSPZ_OK) {
        status = ask(f, sequence, len, (size_t)(end - begin), found, f->bits + slice * (SLICE / 8),
                     &err);
    }
    free(found);
    if (status != HSPZ_OK && !atomic_exchange(&f->failed, true)) {
        f->status = status;
        f->err = err;
    }
}

enum hspz_status
hspz_seed_mask_find(const struct hspz_seed_mask *mask, struct hspz_pool *pool,
                    const struct hspz_seed_starts *starts, uint8_t *bits, struct hspz_error *err)
{
    struct find f = {.mask = mask, .starts = starts, .bits = bits};
    HSPZ_REQUIRE(starts->begin <= starts->end && starts->end <= starts->query.len);
    hspz_pool_run(pool, find_slice, &f,
                  (size_t)((starts->end - starts->begin + SLICE - 1) / SLICE));
    if (f.status != HSPZ_OK && err != NULL) {
        *err = f.err;
    }
    return f.status;
}
