/* Text to segments: whatever the bytes, pieces of any size give the same segments or the same
 * error, and segments printed and read again are the same. The first byte is the size of the
 * pieces. */
#include "client/segment_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum hspz_status
parse(const uint8_t *data, size_t size, size_t piece, struct hspz_segment_list *list,
      struct hspz_error *err)
{
    struct hspz_segment_reader reader;
    *err = (struct hspz_error){0};
    enum hspz_status status = hspz_segment_reader_init(&reader, list, "fuzz", 0, err);
    HSPZ_REQUIRE(status == HSPZ_OK);
    for (size_t at = 0; status == HSPZ_OK && at < size;) {
        const size_t count = size - at < piece ? size - at : piece;
        status = hspz_segment_reader_feed(&reader, data + at, count, err);
        at += count;
    }
    if (status == HSPZ_OK) {
        status = hspz_segment_reader_finish(&reader, err);
    }
    hspz_segment_reader_fini(&reader);
    return status;
}

static void
require_equal(const struct hspz_segment_list *a, const struct hspz_segment_list *b, bool lines)
{
    HSPZ_REQUIRE(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct hspz_segment *x = &a->segments[i], *y = &b->segments[i];
        HSPZ_REQUIRE(
            strcmp(hspz_names_get(a->names, x->target), hspz_names_get(b->names, y->target)) == 0);
        HSPZ_REQUIRE(
            strcmp(hspz_names_get(a->names, x->query), hspz_names_get(b->names, y->query)) == 0);
        HSPZ_REQUIRE(x->target_start == y->target_start && x->query_start == y->query_start &&
                     x->len == y->len && x->score == y->score && x->minus == y->minus);
        HSPZ_REQUIRE(x->len > 0 && (!lines || x->line == y->line));
    }
}

static void
print_and_read(const struct hspz_segment_list *list)
{
    struct hspz_names names;
    struct hspz_segment_list again;
    hspz_names_init(&names);
    hspz_segment_list_init(&again, &names);
    for (size_t i = 0; i < list->count; i++) {
        const struct hspz_segment *s = &list->segments[i];
        const char *target = hspz_names_get(list->names, s->target);
        const char *query = hspz_names_get(list->names, s->query);
        const size_t room = strlen(target) + strlen(query) + HSPZ_SEGMENT_TEXT_BYTES;
        char *text = malloc(room);
        struct hspz_error err;
        HSPZ_REQUIRE(text != NULL);
        const size_t len = hspz_segment_print(s, target, query, text, room);
        HSPZ_REQUIRE(len > HSPZ_SEGMENT_LINE_BYTES ||
                     parse((const uint8_t *)text, len, len, &again, &err) == HSPZ_OK);
        free(text);
        if (len > HSPZ_SEGMENT_LINE_BYTES) {
            hspz_segment_list_fini(&again);
            hspz_names_fini(&names);
            return;
        }
    }
    require_equal(list, &again, false);
    hspz_segment_list_fini(&again);
    hspz_names_fini(&names);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct hspz_names names[2];
    struct hspz_segment_list lists[2];
    struct hspz_error errors[2];
    for (int i = 0; i < 2; i++) {
        hspz_names_init(&names[i]);
        hspz_segment_list_init(&lists[i], &names[i]);
    }
    const enum hspz_status status = parse(data + 1, size - 1, size, &lists[0], &errors[0]);
    HSPZ_REQUIRE(parse(data + 1, size - 1, 1 + (size_t)data[0], &lists[1], &errors[1]) == status);
    HSPZ_REQUIRE(strcmp(errors[0].text, errors[1].text) == 0);
    require_equal(&lists[0], &lists[1], true);
    HSPZ_REQUIRE(status == HSPZ_OK || (lists[0].count == 0 && errors[0].text[0] != '\0'));
    print_and_read(&lists[0]);
    for (int i = 0; i < 2; i++) {
        hspz_segment_list_fini(&lists[i]);
        hspz_names_fini(&names[i]);
    }
    return 0;
}
