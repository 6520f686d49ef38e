#include "client/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_SLOTS 64u

void
hspz_names_init(struct hspz_names *names)
{
    *names = (struct hspz_names){0};
}

void
hspz_names_fini(struct hspz_names *names)
{
    free(names->at);
    free(names->text);
    free(names->slots);
    *names = (struct hspz_names){0};
}

const char *
hspz_names_get(const struct hspz_names *names, uint32_t number)
{
    HSPZ_REQUIRE(number < names->count);
    return names->text + names->at[number];
}

/* The slot that holds the name, or the free one where it belongs. */
static size_t
find_slot(const struct hspz_names *names, const char *name, size_t len)
{
    size_t slot = (size_t)XXH64(name, len, 0) & (names->slot_count - 1);
    while (names->slots[slot] != 0) {
        const char *there = hspz_names_get(names, names->slots[slot] - 1);
        if (strncmp(there, name, len) == 0 && there[len] == '\0') {
            break;
        }
        slot = (slot + 1) & (names->slot_count - 1);
    }
    return slot;
}

bool
hspz_names_find(const struct hspz_names *names, const char *name, size_t len, uint32_t *number)
{
    const size_t slot = names->slot_count > 0 ? find_slot(names, name, len) : 0;
    if (names->slot_count == 0 || names->slots[slot] == 0) {
        return false;
    }
    *number = names->slots[slot] - 1;
    return true;
}

/* At most half of the slots are taken. */
static bool
grow_slots(struct hspz_names *names)
{
    if (2 * (names->count + 1) <= names->slot_count) {
        return true;
    }
    const size_t want = names->slot_count > 0 ? 2 * names->slot_count : FIRST_SLOTS;
    uint32_t *slots = calloc(want, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    free(names->slots);
    names->slots = slots;
    names->slot_count = want;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = hspz_names_get(names, (uint32_t)i);
        names->slots[find_slot(names, name, strlen(name))] = (uint32_t)i + 1;
    }
    return true;
}

static bool
grow(void *array, size_t *capacity, size_t need, size_t size)
{
    void **memory = array;
    if (need <= *capacity) {
        return true;
    }
    const size_t want = 2 * need + 16;
    void *grown = realloc(*memory, want * size);
    if (grown == NULL) {
        return false;
    }
    *memory = grown;
    *capacity = want;
    return true;
}

enum hspz_status
hspz_names_add(struct hspz_names *names, const char *name, size_t len, uint32_t *number)
{
    if (hspz_names_find(names, name, len, number)) {
        return HSPZ_OK;
    }
    if (names->count >= UINT32_MAX - 1 || !grow_slots(names) ||
        !grow(&names->at, &names->capacity, names->count + 1, sizeof(*names->at)) ||
        !grow(&names->text, &names->text_capacity, names->text_len + len + 1, 1)) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    char *to = names->text + names->text_len;
    memcpy(to, name, len);
    to[len] = '\0';
    names->at[names->count] = names->text_len;
    names->text_len += len + 1;
    *number = (uint32_t)names->count++;
    names->slots[find_slot(names, name, len)] = *number + 1;
    return HSPZ_OK;
}
