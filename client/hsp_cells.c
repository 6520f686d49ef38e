#include "client/hsp_cells.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_SLOTS 1024u

void
hspz_cells_init(struct hspz_cells *cells, uint64_t side)
{
    *cells = (struct hspz_cells){.side = side};
}

void
hspz_cells_fini(struct hspz_cells *cells)
{
    free(cells->cells);
    free(cells->slots);
    *cells = (struct hspz_cells){0};
}

static bool
same(const struct hspz_cell *a, const struct hspz_cell *b)
{
    return a->target == b->target && a->query == b->query && a->x == b->x && a->y == b->y;
}

static size_t
find_slot(const struct hspz_cells *cells, const struct hspz_cell *cell)
{
    const uint32_t key[4] = {cell->target, cell->query, cell->x, cell->y};
    size_t slot = (size_t)XXH64(key, sizeof(key), 0) & (cells->slot_count - 1);
    while (cells->slots[slot] != 0 && !same(&cells->cells[cells->slots[slot] - 1], cell)) {
        slot = (slot + 1) & (cells->slot_count - 1);
    }
    return slot;
}

static bool
make_room(struct hspz_cells *cells)
{
    if (cells->count == cells->capacity) {
        const size_t want = 2 * cells->capacity + 256;
        struct hspz_cell *grown = realloc(cells->cells, want * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        cells->cells = grown;
        cells->capacity = want;
    }
    if (2 * (cells->count + 1) <= cells->slot_count) {
        return true;
    }
    const size_t want = cells->slot_count > 0 ? 2 * cells->slot_count : FIRST_SLOTS;
    uint32_t *slots = calloc(want, sizeof(*slots));
    if (slots == NULL || cells->count >= UINT32_MAX / 2) {
        free(slots);
        return false;
    }
    free(cells->slots);
    cells->slots = slots;
    cells->slot_count = want;
    for (size_t i = 0; i < cells->count; i++) {
        cells->slots[find_slot(cells, &cells->cells[i])] = (uint32_t)i + 1;
    }
    return true;
}

uint32_t
hspz_cells_find(struct hspz_cells *cells, uint32_t cell)
{
    while (cells->cells[cell].parent != cell) {
        const uint32_t above = cells->cells[cell].parent;
        cells->cells[cell].parent = cells->cells[above].parent;
        cell = above;
    }
    return cell;
}

void
hspz_cells_unite(struct hspz_cells *cells, uint32_t a, uint32_t b)
{
    a = hspz_cells_find(cells, a);
    b = hspz_cells_find(cells, b);
    cells->cells[a > b ? a : b].parent = a > b ? b : a; /* the same whatever came first */
}

/* Unites a new cell with its neighbours; borders of the plane have none beyond. */
static void
unite_neighbours(struct hspz_cells *cells, uint32_t cell)
{
    const struct hspz_cell here = cells->cells[cell];
    for (int dx = -1; dx <= 1; dx++) {
        for (int dy = -1; dy <= 1; dy++) {
            struct hspz_cell there = here;
            there.x += (uint32_t)dx;
            there.y += (uint32_t)dy;
            const uint32_t found = cells->slots[find_slot(cells, &there)];
            if (found != 0) {
                hspz_cells_unite(cells, cell, found - 1);
            }
        }
    }
}

static enum hspz_status
occupy_one(struct hspz_cells *cells, struct hspz_plane plane, uint64_t target, uint64_t query,
           uint32_t *out)
{
    struct hspz_cell cell = {
        .target = plane.target,
        .query = 2 * plane.query + plane.minus,
        .x = (uint32_t)(target / cells->side),
        .y = (uint32_t)(query / cells->side),
    };
    if (!make_room(cells)) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    const size_t slot = find_slot(cells, &cell);
    if (cells->slots[slot] == 0) {
        cell.parent = (uint32_t)cells->count;
        cells->cells[cells->count++] = cell;
        cells->slots[slot] = (uint32_t)cells->count;
        unite_neighbours(cells, cell.parent);
    }
    *out = cells->slots[slot] - 1;
    return HSPZ_OK;
}

enum hspz_status
hspz_cells_occupy(struct hspz_cells *cells, struct hspz_plane plane, uint64_t target_start,
                  uint64_t query_start, uint64_t len, uint32_t *cell)
{
    const uint64_t step = cells->side / 4 + 1;
    uint64_t at = 0;
    enum hspz_status status = HSPZ_OK;
    for (bool last = false; status == HSPZ_OK && !last; at += step) {
        last = at + 1 >= len;
        const uint64_t here = last && len > 0 ? len - 1 : at;
        status = occupy_one(cells, plane, target_start + here, query_start + here, cell);
    }
    return status;
}
