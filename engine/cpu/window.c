#include "engine/cpu/window.h"

#include <stdlib.h>

enum hspz_status
hspz_window_check(const struct hspz_index *index, const struct hspz_job_spec *spec,
                  struct hspz_error *err)
{
    for (size_t b = 0; b < hspz_index_block_count(index); b++) {
        const struct hspz_index_block block = hspz_index_get_block(index, b);
        if (spec->output == HSPZ_RECORDS_HSPS && block.bases == NULL && block.bases_len > 0) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                  "the index holds no sequence to extend anchors on");
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_window_reserve(struct hspz_window *window, struct hspz_error *err)
{
    if (window->anchors == NULL) {
        window->anchors = malloc(HSPZ_WINDOW_ANCHORS * sizeof(*window->anchors));
    }
    return window->anchors != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a window of anchors");
}

/* An extender for the walk's strand and block; the last one where that is its own. */
static enum hspz_status
make_extender(struct hspz_window *window, const struct hspz_walk *walk,
              const struct hspz_index *index, struct hspz_error *err)
{
    if (window->extender != NULL && window->strand == walk->at.place.strand &&
        window->block == walk->at.block) {
        return HSPZ_OK;
    }
    hspz_cpu_extender_destroy(&window->extender);
    const struct hspz_index_block block = hspz_index_get_block(index, walk->at.block);
    const struct hspz_cpu_extend_spec spec = {
        .ref = {block.bases, block.bases_len},
        .ref_unmask = hspz_index_get_params(index)->unmask,
        .query = walk->spec.bases,
        .strand = walk->at.place.strand,
        .query_unmask = walk->spec.unmask,
        .scoring = &walk->spec.scoring,
    };
    window->strand = walk->at.place.strand;
    window->block = walk->at.block;
    return hspz_cpu_extender_create(&spec, &window->extender, err);
}

enum hspz_status
hspz_window_extend(struct hspz_window *window, const struct hspz_walk *walk,
                   const struct hspz_index *index, struct hspz_pool *pool, uint64_t count,
                   struct hspz_hsp_set *set, uint64_t *extended, struct hspz_error *err)
{
    HSPZ_REQUIRE(count >= 1 && count <= HSPZ_WINDOW_ANCHORS);
    size_t done = 0;
    enum hspz_status status = make_extender(window, walk, index, err);
    if (status == HSPZ_OK) {
        status = hspz_cpu_extend(window->extender, pool, window->anchors, (size_t)count, set, &done,
                                 err);
    }
    if (status == HSPZ_OK) {
        HSPZ_REQUIRE(done >= 1 && done <= count);
        *extended = done;
    }
    return status;
}

void
hspz_window_release(struct hspz_window *window)
{
    hspz_cpu_extender_destroy(&window->extender);
    free(window->anchors);
    *window = (struct hspz_window){0};
}

void
hspz_window_bytes(const struct hspz_window *window, const struct hspz_walk *walk, unsigned threads,
                  uint64_t *now, uint64_t *most)
{
    const uint64_t bytes = HSPZ_WINDOW_ANCHORS * sizeof(*window->anchors);
    *now = window->anchors != NULL ? bytes : 0;
    *now += window->extender != NULL ? hspz_cpu_extender_bytes(window->extender) : 0;
    *most = !hspz_walk_wants_hsps(walk)
                ? 0
                : bytes + hspz_cpu_extender_most_bytes(window->extender, threads);
}
