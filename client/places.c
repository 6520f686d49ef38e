#include "client/places.h"

#include "client/json.h"

#include <stdlib.h>
#include <string.h>

void
hspz_places_init(struct hspz_places *places, bool json)
{
    *places = (struct hspz_places){.json = json};
}

void
hspz_places_fini(struct hspz_places *places)
{
    free(places->items);
    free(places->text);
    *places = (struct hspz_places){0};
}

/* Room for `more` elements of `size` bytes behind the first `count`: the array, which may have
 * moved, or NULL with the old one as it was. */
static void *
make_room(void *array, size_t *capacity, size_t count, size_t more, size_t size)
{
    if (array != NULL && *capacity - count >= more) {
        return array;
    }
    const size_t want = 2 * (count + more) + 16;
    void *grown = want > SIZE_MAX / size ? NULL : realloc(array, want * size);
    *capacity = grown != NULL ? want : *capacity;
    return grown;
}

enum hspz_status
hspz_places_add(struct hspz_places *places, const char *name, size_t name_len, uint64_t len,
                uint64_t block, uint64_t offset)
{
    const struct hspz_place *last = places->count > 0 ? &places->items[places->count - 1] : NULL;
    if (block > UINT32_MAX || offset > UINT64_MAX - len || name_len > UINT32_MAX / 8 ||
        (last != NULL && (block < last->block || (block == last->block && offset < last->end)))) {
        return HSPZ_E_BAD_REQUEST;
    }
    char *text = make_room(places->text, &places->text_capacity, places->text_len,
                           HSPZ_JSON_GROWTH * name_len, 1);
    if (text == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    places->text = text;
    struct hspz_place *items =
        make_room(places->items, &places->capacity, places->count, 1, sizeof(*items));
    if (items == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    places->items = items;
    char *to = places->text + places->text_len;
    size_t text_len = name_len;
    if (places->json) {
        text_len = hspz_json_escape(to, name, name_len);
    } else {
        memcpy(to, name, name_len);
    }
    places->items[places->count++] = (struct hspz_place){
        .begin = offset,
        .end = offset + len,
        .text = places->text_len,
        .text_len = (uint32_t)text_len,
        .block = (uint32_t)block,
    };
    places->text_len += text_len;
    places->longest = places->longest > text_len ? places->longest : (uint32_t)text_len;
    return HSPZ_OK;
}

static bool
holds(const struct hspz_place *place, uint32_t block, uint64_t begin, uint64_t end)
{
    return place->block == block && place->begin <= begin && end <= place->end;
}

const struct hspz_place *
hspz_places_find(const struct hspz_places *places, uint32_t block, uint64_t begin, uint64_t end,
                 size_t *hint)
{
    if (*hint < places->count && holds(&places->items[*hint], block, begin, end)) {
        return &places->items[*hint];
    }
    /* The last one that begins at or before `begin`. */
    size_t low = 0;
    size_t high = places->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct hspz_place *place = &places->items[middle];
        if (place->block < block || (place->block == block && place->begin <= begin)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || !holds(&places->items[low - 1], block, begin, end)) {
        return NULL;
    }
    *hint = low - 1;
    return &places->items[low - 1];
}
