#include "client/self_cover.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum hspz_status
hspz_self_cover_init(struct hspz_self_cover *cover, uint64_t bases, uint64_t interval,
                     double neighbors, struct hspz_error *err)
{
    HSPZ_REQUIRE(interval >= 1 && neighbors > 0 && neighbors <= 1);
    const uint64_t intervals = (bases + interval - 1) / interval;
    const double share = ceil(neighbors * (double)intervals);
    const uint64_t around = share < 1 ? 1 : (uint64_t)share;
    *cover = (struct hspz_self_cover){
        .bases = bases,
        .interval = interval,
        .around = around < intervals ? around : intervals,
        .before = around / 2,
        .steps = calloc(bases + 1, sizeof(*cover->steps)),
    };
    return cover->steps != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count HSPs on each base");
}

void
hspz_self_cover_fini(struct hspz_self_cover *cover)
{
    free(cover->steps);
    cover->steps = NULL;
}

static bool
is_near(const struct hspz_self_cover *cover, uint64_t ref, uint64_t query)
{
    const uint64_t intervals = (cover->bases + cover->interval - 1) / cover->interval;
    const uint64_t own = query / cover->interval;
    uint64_t first = own > cover->before ? own - cover->before : 0;
    if (first + cover->around > intervals) {
        first = intervals - cover->around;
    }
    const uint64_t other = ref / cover->interval;
    return other >= first && other < first + cover->around;
}

enum hspz_status
hspz_self_cover_mark(struct hspz_self_cover *cover, uint64_t begin, uint32_t len,
                     struct hspz_error *err)
{
    HSPZ_REQUIRE(!cover->summed);
    if (begin > cover->bases || len > cover->bases - begin) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER, "%" PRIu32 " bases at %" PRIu64 " of %" PRIu64,
                              len, begin, cover->bases);
    }
    cover->steps[begin]++;
    cover->steps[begin + len]--;
    return HSPZ_OK;
}

enum hspz_status
hspz_self_cover_add(struct hspz_self_cover *cover, uint64_t ref, uint64_t query, uint32_t len,
                    bool minus, struct hspz_error *err)
{
    if (ref > cover->bases || query > cover->bases || len > cover->bases - ref ||
        len > cover->bases - query) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "an HSP of %" PRIu32 " bases at %" PRIu64 " and %" PRIu64
                              " of a genome of %" PRIu64,
                              len, ref, query, cover->bases);
    }
    if (!minus && ref == query) {
        cover->trivial++;
    } else if (!is_near(cover, ref, query)) {
        cover->far++;
    } else {
        cover->counted++;
        return hspz_self_cover_mark(cover, query, len, err);
    }
    return HSPZ_OK;
}

bool
hspz_self_cover_next(struct hspz_self_cover *cover, uint64_t *at, uint64_t end, uint32_t least,
                     uint64_t *run_end)
{
    HSPZ_REQUIRE(end <= cover->bases);
    if (!cover->summed) {
        for (uint64_t i = 1; i <= cover->bases; i++) {
            cover->steps[i] += cover->steps[i - 1];
        }
        cover->summed = true;
    }
    const uint32_t *counts = cover->steps;
    while (*at < end && counts[*at] < least) {
        (*at)++;
    }
    *run_end = *at;
    while (*run_end < end && counts[*run_end] >= least) {
        (*run_end)++;
    }
    return *at < end;
}
