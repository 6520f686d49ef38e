#include "client/plot_axis.h"

#include "client/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
hspz_plot_axis_init(struct hspz_plot_axis *axis)
{
    *axis = (struct hspz_plot_axis){0};
    hspz_names_init(&axis->names);
}

void
hspz_plot_axis_fini(struct hspz_plot_axis *axis)
{
    hspz_names_fini(&axis->names);
    free(axis->lens);
    free(axis->begins);
    axis->lens = axis->begins = NULL;
}

static enum hspz_status
no_memory(struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the names of sequences");
}

enum hspz_status
hspz_plot_axis_add(struct hspz_plot_axis *axis, const char *name, size_t name_len, uint64_t len,
                   uint32_t *number, struct hspz_error *err)
{
    const size_t before = axis->names.count;
    if (before == axis->capacity) {
        const size_t capacity = 2 * before + 64;
        uint64_t *grown = realloc(axis->lens, capacity * sizeof(*grown));
        if (grown == NULL) {
            return no_memory(err);
        }
        axis->lens = grown;
        axis->capacity = capacity;
    }
    if (hspz_names_add(&axis->names, name, name_len, number) != HSPZ_OK) {
        return no_memory(err);
    }
    if (axis->names.count > before) {
        axis->lens[*number] = 0;
    }
    axis->lens[*number] = len > axis->lens[*number] ? len : axis->lens[*number];
    return HSPZ_OK;
}

enum hspz_status
hspz_plot_axis_settle(struct hspz_plot_axis *axis, struct hspz_error *err)
{
    axis->begins = malloc((axis->names.count + 1) * sizeof(*axis->begins));
    if (axis->begins == NULL) {
        return no_memory(err);
    }
    axis->all = 0;
    for (size_t i = 0; i < axis->names.count; i++) {
        axis->begins[i] = axis->all;
        axis->all += axis->lens[i];
    }
    axis->begins[axis->names.count] = axis->all;
    axis->begin = 0;
    axis->end = axis->all;
    return HSPZ_OK;
}

/* BEGIN-END within `len` bases. */
static enum hspz_status
parse_range(const char *option, const char *text, uint64_t len, uint64_t *begin, uint64_t *end,
            struct hspz_error *err)
{
    char first[24] = "";
    const char *dash = strchr(text, '-');
    if (dash == NULL || (size_t)(dash - text) >= sizeof(first)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: \"%.100s\" is no range of bases, as in 1000-2000", option, text);
    }
    memcpy(first, text, (size_t)(dash - text));
    enum hspz_status status = hspz_number_parse(option, first, 0, len, begin, err);
    if (status == HSPZ_OK) {
        status = hspz_number_parse(option, dash + 1, 0, len, end, err);
    }
    if (status == HSPZ_OK && *begin >= *end) {
        status =
            hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: \"%.100s\" holds no base", option, text);
    }
    return status;
}

enum hspz_status
hspz_plot_axis_show(struct hspz_plot_axis *axis, const char *option, const char *range,
                    struct hspz_error *err)
{
    uint32_t number = 0;
    uint64_t begin = 0, end = 0;
    const char *colon = strrchr(range, ':');
    if (hspz_names_find(&axis->names, range, strlen(range), &number)) {
        end = axis->lens[number];
    } else if (colon == NULL ||
               !hspz_names_find(&axis->names, range, (size_t)(colon - range), &number)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: no sequence \"%.200s\"", option, range);
    } else {
        const enum hspz_status status =
            parse_range(option, colon + 1, axis->lens[number], &begin, &end, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    axis->begin = axis->begins[number] + begin;
    axis->end = axis->begins[number] + end;
    return HSPZ_OK;
}

bool
hspz_plot_axis_part(const struct hspz_plot_axis *axis, uint32_t number, uint64_t *begin,
                    uint64_t *end)
{
    const uint64_t first = axis->begins[number];
    const uint64_t last = axis->begins[number + 1];
    *begin = first > axis->begin ? first : axis->begin;
    *end = last < axis->end ? last : axis->end;
    return *begin < *end;
}
