#include "daemon/shm_ring.h"

#include <stdlib.h>

struct place {
    struct hspz_buffer buffer;
    bool taken, lent, sending;
};

struct hspz_shm_ring {
    size_t part_bytes;
    unsigned parts, lent, taken;
    uint64_t returns;
    struct place places[];
};

static struct place *
place_of(struct hspz_shm_ring *ring, const struct hspz_buffer *buffer)
{
    HSPZ_REQUIRE(buffer->ring == ring);
    struct place *place = &ring->places[buffer->offset / ring->part_bytes];
    HSPZ_REQUIRE(&place->buffer == buffer && place->taken);
    return place;
}

enum hspz_status
hspz_shm_ring_create(uint8_t *memory, size_t part_bytes, unsigned parts, struct hspz_shm_ring **out)
{
    struct hspz_shm_ring *ring = calloc(1, sizeof(*ring) + parts * sizeof(ring->places[0]));
    if (ring == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    ring->part_bytes = part_bytes;
    ring->parts = parts;
    for (unsigned i = 0; i < parts; i++) {
        struct hspz_buffer *buffer = &ring->places[i].buffer;
        buffer->ring = ring;
        buffer->offset = (uint64_t)i * part_bytes;
        buffer->anchors = memory + i * part_bytes;
        hspz_writer_init(&buffer->header);
    }
    *out = ring;
    return HSPZ_OK;
}

void
hspz_shm_ring_destroy(struct hspz_shm_ring **ring)
{
    if (*ring == NULL) {
        return;
    }
    HSPZ_REQUIRE((*ring)->taken == 0);
    for (unsigned i = 0; i < (*ring)->parts; i++) {
        hspz_writer_fini(&(*ring)->places[i].buffer.header);
    }
    free(*ring);
    *ring = NULL;
}

struct hspz_buffer *
hspz_shm_ring_take(struct hspz_shm_ring *ring)
{
    for (unsigned i = 0; i < ring->parts; i++) {
        struct place *place = &ring->places[i];
        if (!place->taken) {
            place->taken = true;
            place->buffer.next = NULL;
            ring->taken++;
            return &place->buffer;
        }
    }
    return NULL;
}

void
hspz_shm_ring_give(struct hspz_shm_ring *ring, struct hspz_buffer *buffer)
{
    struct place *place = place_of(ring, buffer);
    HSPZ_REQUIRE(!place->lent && !place->sending);
    place->taken = false;
    buffer->holder = NULL;
    ring->taken--;
}

void
hspz_shm_ring_lend(struct hspz_shm_ring *ring, struct hspz_buffer *buffer)
{
    struct place *place = place_of(ring, buffer);
    HSPZ_REQUIRE(!place->lent && !place->sending);
    place->lent = place->sending = true;
    ring->lent++;
}

static void
end_loan(struct hspz_shm_ring *ring, struct place *place)
{
    place->lent = false;
    ring->lent--;
}

bool
hspz_shm_ring_sent(struct hspz_shm_ring *ring, struct hspz_buffer *buffer, bool lost)
{
    struct place *place = place_of(ring, buffer);
    HSPZ_REQUIRE(place->sending);
    place->sending = false;
    if (lost && place->lent) {
        end_loan(ring, place);
    }
    return !place->lent;
}

bool
hspz_shm_ring_freed(struct hspz_shm_ring *ring, uint64_t offset, struct hspz_buffer **back)
{
    *back = NULL;
    const uint64_t i = offset / ring->part_bytes;
    if (offset % ring->part_bytes != 0 || i >= ring->parts || !ring->places[i].lent) {
        return false;
    }
    struct place *place = &ring->places[i];
    end_loan(ring, place);
    ring->returns++;
    *back = place->sending ? NULL : &place->buffer;
    return true;
}

struct hspz_buffer *
hspz_shm_ring_reclaim(struct hspz_shm_ring *ring)
{
    for (unsigned i = 0; i < ring->parts; i++) {
        struct place *place = &ring->places[i];
        if (place->lent) {
            end_loan(ring, place);
            if (!place->sending) {
                return &place->buffer;
            }
        }
    }
    return NULL;
}

unsigned
hspz_shm_ring_lent(const struct hspz_shm_ring *ring)
{
    return ring->lent;
}

uint64_t
hspz_shm_ring_returns(const struct hspz_shm_ring *ring)
{
    return ring->returns;
}
