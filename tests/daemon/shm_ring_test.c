/* The places of a ring against a model that knows for each only what was done to it; and segments
 * as a pool gives them out. */
#include "daemon/shm_pool.h"
#include "daemon/shm_ring.h"

#include "tests/daemon/fake_engine.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_BYTES 4096u
#define PARTS_MOST 64u

enum state { FREE, TAKEN, LENT_SENDING, LENT, FREED_SENDING };

struct model {
    struct hspz_shm_ring *ring;
    unsigned parts, lent;
    enum state states[PARTS_MOST];
    struct hspz_buffer *buffers[PARTS_MOST];
    uint64_t rounds[PARTS_MOST]; /* how often a place was used */
};

static void
model_take(struct model *m, const uint8_t *memory)
{
    unsigned first = 0;
    while (first < m->parts && m->states[first] != FREE) {
        first++;
    }
    struct hspz_buffer *buffer = hspz_shm_ring_take(m->ring);
    if (first == m->parts) {
        assert_null(buffer);
        return;
    }
    assert_non_null(buffer);
    assert_int_equal(buffer->offset, first * PART_BYTES);
    assert_ptr_equal(buffer->anchors, memory + first * PART_BYTES);
    m->buffers[first] = buffer;
    m->states[first] = TAKEN;
    m->rounds[first]++;
}

static void
model_free(struct model *m, unsigned i)
{
    struct hspz_buffer *back = NULL;
    const bool has = m->states[i] == LENT || m->states[i] == LENT_SENDING;
    assert_int_equal(hspz_shm_ring_freed(m->ring, (uint64_t)i * PART_BYTES, &back), has);
    assert_ptr_equal(back, m->states[i] == LENT ? m->buffers[i] : NULL);
    if (back != NULL) {
        hspz_shm_ring_give(m->ring, back);
        m->states[i] = FREE;
    } else if (has) {
        m->states[i] = FREED_SENDING;
    }
    m->lent -= has;
}

/* What a hostile client may send as an offset. */
static void
model_free_wrong(struct model *m, uint64_t *random)
{
    const uint64_t wrong[] = {
        m->parts * (uint64_t)PART_BYTES, UINT64_MAX, PART_BYTES / 2, 1, test_random(random) | 1,
        UINT64_MAX - PART_BYTES + 1};
    struct hspz_buffer *back = (struct hspz_buffer *)1;
    assert_false(hspz_shm_ring_freed(m->ring, wrong[test_random(random) % 6], &back));
    assert_null(back);
}

static void
model_send(struct model *m, unsigned i, bool lost)
{
    if (m->states[i] == TAKEN) {
        hspz_shm_ring_lend(m->ring, m->buffers[i]);
        m->states[i] = LENT_SENDING;
        m->lent++;
    } else if (m->states[i] == LENT_SENDING || m->states[i] == FREED_SENDING) {
        const bool back = lost || m->states[i] == FREED_SENDING;
        m->lent -= lost && m->states[i] == LENT_SENDING;
        assert_int_equal(hspz_shm_ring_sent(m->ring, m->buffers[i], lost), back);
        m->states[i] = back ? FREE : LENT;
        if (back) {
            hspz_shm_ring_give(m->ring, m->buffers[i]);
        }
    }
}

/* As when a connection ends: first what the client has, then what is on its way. */
static void
model_end(struct model *m)
{
    struct hspz_buffer *buffer;
    unsigned back = 0;
    unsigned wanted = 0;
    for (unsigned i = 0; i < m->parts; i++) {
        wanted += m->states[i] == LENT;
    }
    while ((buffer = hspz_shm_ring_reclaim(m->ring)) != NULL) {
        const unsigned i = (unsigned)(buffer->offset / PART_BYTES);
        assert_int_equal(m->states[i], LENT);
        hspz_shm_ring_give(m->ring, buffer);
        m->states[i] = FREE;
        back++;
    }
    assert_int_equal(back, wanted);
    assert_int_equal(hspz_shm_ring_lent(m->ring), 0);
    for (unsigned i = 0; i < m->parts; i++) {
        if (m->states[i] == LENT_SENDING || m->states[i] == FREED_SENDING) {
            assert_true(hspz_shm_ring_sent(m->ring, m->buffers[i], true));
            hspz_shm_ring_give(m->ring, m->buffers[i]);
        } else if (m->states[i] == TAKEN) {
            hspz_shm_ring_give(m->ring, m->buffers[i]);
        }
    }
}

static void
test_ring_goes_round_as_the_model_says_whatever_a_client_gives_back(void **state)
{
    (void)state;
    static uint8_t memory[PARTS_MOST * PART_BYTES];
    uint64_t random = 17;
    for (unsigned round = 0; round < 60; round++) {
        struct model m = {.parts = 1 + (unsigned)(test_random(&random) % PARTS_MOST)};
        assert_int_equal(hspz_shm_ring_create(memory, PART_BYTES, m.parts, &m.ring), HSPZ_OK);
        const unsigned steps = 40 * m.parts;
        for (unsigned step = 0; step < steps; step++) {
            const unsigned i = (unsigned)(test_random(&random) % m.parts);
            switch (test_random(&random) % 5) {
            case 0:
                model_take(&m, memory);
                break;
            case 1:
                model_free(&m, i);
                break;
            case 2:
                model_free_wrong(&m, &random);
                break;
            default:
                model_send(&m, i, test_random(&random) % 20 == 0);
            }
            assert_int_equal(hspz_shm_ring_lent(m.ring), m.lent);
        }
        assert_true(m.rounds[0] > 2);
        model_end(&m);
        hspz_shm_ring_destroy(&m.ring);
        assert_null(m.ring);
    }
}

static enum hspz_status
adopt(struct hspz_engine *engine, void *memory, size_t bytes)
{
    assert_true(bytes > 0 && (uintptr_t)memory % (size_t)sysconf(_SC_PAGESIZE) == 0);
    engine->adopted++;
    return HSPZ_OK;
}

static void
disown(struct hspz_engine *engine, void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    assert_true(engine->adopted > 0);
    engine->adopted--;
}

static struct hspz_shm_pool *
pool_of(const struct hspz_engine_ops *ops, struct hspz_engine *engine, uint64_t most)
{
    const struct hspz_shm_sizes sizes = {.ring_bytes = 3 * 4096,
                                         .input_bytes = 4096,
                                         .total_bytes = 4 * 4096 * most + 5,
                                         .most = 100};
    struct hspz_shm_pool *pool = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_shm_pool_create(ops, engine, &sizes, &pool, &err), HSPZ_OK);
    return pool;
}

static struct hspz_shm_segment *
take(struct hspz_shm_pool *pool, uid_t uid)
{
    struct hspz_shm_segment *segment = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_shm_pool_take(pool, uid, &segment, &err), HSPZ_OK);
    return segment;
}

static void
expect_zeros(const struct hspz_shm_segment *segment)
{
    uint8_t bytes[4096];
    for (size_t i = 0; i < 3 * 4096; i++) {
        assert_int_equal(segment->ring[i], 0);
    }
    assert_int_equal(pread(segment->input_fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(bytes[i], 0);
    }
}

static void
scribble(const struct hspz_shm_segment *segment)
{
    memset(segment->ring, 0x5a, 3 * 4096);
    assert_int_equal(pwrite(segment->input_fd, "garbage", 7, 4000), 7);
}

/* With and without an engine that pins the memory. */
static void
run_pool(const struct hspz_engine_ops *ops)
{
    struct hspz_engine engine = {0};
    struct hspz_shm_pool *pool = pool_of(ops, &engine, 3);
    struct hspz_error err = {0};
    assert_int_equal(hspz_shm_pool_descriptors(pool), 7);
    struct hspz_shm_segment *a = take(pool, 1), *b = take(pool, 2), *c = take(pool, 2),
                            *none = NULL;
    struct stat ring, again;
    expect_zeros(a);
    scribble(a);
    scribble(b);
    assert_int_equal(fstat(a->ring_fd, &ring), 0);
    assert_int_equal(hspz_shm_pool_take(pool, 1, &none, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_non_null(strstr(err.text, "all 3 segments"));
    /* The same one for the same user, cleared. */
    hspz_shm_pool_give(pool, &a);
    assert_null(a);
    a = take(pool, 1);
    expect_zeros(a);
    assert_int_equal(fstat(a->ring_fd, &again), 0);
    assert_int_equal(ring.st_ino, again.st_ino);
    /* Another one for another user: the first may have kept the file. */
    scribble(a);
    hspz_shm_pool_give(pool, &a);
    a = take(pool, 3);
    assert_int_equal(fstat(a->ring_fd, &again), 0);
    assert_int_not_equal(ring.st_ino, again.st_ino);
    expect_zeros(a);
    if (ops->memory_adopt != NULL) {
        assert_int_equal(engine.adopted, 3);
    }
    hspz_shm_pool_give(pool, &a);
    hspz_shm_pool_give(pool, &b);
    hspz_shm_pool_give(pool, &c);
    hspz_shm_pool_destroy(&pool);
    assert_int_equal(engine.adopted, 0);
}

static void
test_pool_keeps_users_apart_and_clears_what_it_gives_again(void **state)
{
    (void)state;
    struct hspz_engine_ops pinning = fake_engine;
    pinning.memory_adopt = adopt;
    pinning.memory_disown = disown;
    run_pool(&fake_engine);
    run_pool(&pinning);
}

static enum hspz_status
refuse_to_adopt(struct hspz_engine *engine, void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return engine->adopted++ == 1 ? HSPZ_E_DEVICE_ERROR : HSPZ_OK;
}

static void
count_disowned(struct hspz_engine *engine, void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    engine->adopted -= 2; /* the one that was refused is not disowned */
}

static unsigned
open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Whatever there is no memory for, nothing is left, and the next one gets it. */
static void
test_failures_leave_nothing_behind(void **state)
{
    (void)state;
    const unsigned descriptors = open_descriptors();
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        static uint8_t memory[4 * PART_BYTES];
        struct hspz_shm_pool *pool = NULL;
        struct hspz_shm_segment *segment = NULL;
        struct hspz_shm_ring *ring = NULL;
        const struct hspz_shm_sizes sizes = {
            .ring_bytes = 4096, .input_bytes = 4096, .total_bytes = 8192, .most = 2};
        failing_malloc_arm(n + 1);
        enum hspz_status status = hspz_shm_pool_create(&fake_engine, NULL, &sizes, &pool, NULL);
        if (status == HSPZ_OK) {
            status = hspz_shm_pool_take(pool, 1, &segment, NULL);
        }
        if (status == HSPZ_OK) {
            status = hspz_shm_ring_create(memory, PART_BYTES, 4, &ring);
        }
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(hspz_shm_pool_used(pool), segment != NULL);
        assert_int_equal(hspz_shm_pool_most(pool), pool != NULL);
        hspz_shm_ring_destroy(&ring);
        hspz_shm_pool_give(pool, &segment);
        hspz_shm_pool_destroy(&pool);
        assert_int_equal(open_descriptors(), descriptors);
    }
    assert_int_equal(n, 4);
    struct hspz_engine_ops pinning = fake_engine;
    struct hspz_engine engine = {0};
    struct hspz_shm_pool *pool = NULL;
    struct hspz_error err = {0};
    const struct hspz_shm_sizes sizes = {
        .ring_bytes = 4096, .input_bytes = 4096, .total_bytes = 4 * 8192, .most = 4};
    pinning.memory_adopt = refuse_to_adopt;
    pinning.memory_disown = count_disowned;
    assert_int_equal(hspz_shm_pool_create(&pinning, &engine, &sizes, &pool, &err),
                     HSPZ_E_DEVICE_ERROR);
    assert_non_null(strstr(err.text, "the engine cannot use memory to share"));
    assert_null(pool);
    assert_int_equal(engine.adopted, 0);
    assert_int_equal(open_descriptors(), descriptors);
}

static void
test_segments_are_sealed_and_the_reader_reads_only(void **state)
{
    (void)state;
    struct hspz_shm_pool *pool = pool_of(&fake_engine, NULL, 1);
    struct hspz_shm_segment *segment = take(pool, 1);
    int reader = -1;
    assert_int_equal(hspz_shm_segment_reader(segment, &reader, NULL), HSPZ_OK);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int fds[] = {segment->ring_fd, segment->input_fd, reader};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fcntl(fds[i], F_GET_SEALS) & seals, seals);
        assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_not_equal(ftruncate(fds[i], 4096 * 2), 0);
        assert_int_not_equal(ftruncate(fds[i], 4096 * 9), 0);
    }
    struct stat st;
    assert_int_equal(fstat(reader, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    assert_int_equal(st.st_size, 3 * 4096);
    assert_int_equal(write(reader, "x", 1), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0), MAP_FAILED);
    segment->ring[5] = 7;
    const uint8_t *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, reader, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(map[5], 7);
    /* What a client kept of it is cleared as well. */
    hspz_shm_pool_give(pool, &segment);
    assert_int_equal(map[5], 0);
    assert_int_equal(munmap((void *)(uintptr_t)map, 4096), 0);
    assert_int_equal(close(reader), 0);
    hspz_shm_pool_destroy(&pool);
}

static void
test_pool_without_room_is_none(void **state)
{
    (void)state;
    struct hspz_shm_pool *pool = pool_of(&fake_engine, NULL, 0);
    assert_null(pool);
    assert_int_equal(hspz_shm_pool_descriptors(pool), 0);
    hspz_shm_pool_destroy(&pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_goes_round_as_the_model_says_whatever_a_client_gives_back),
        cmocka_unit_test(test_pool_keeps_users_apart_and_clears_what_it_gives_again),
        cmocka_unit_test(test_failures_leave_nothing_behind),
        cmocka_unit_test(test_segments_are_sealed_and_the_reader_reads_only),
        cmocka_unit_test(test_pool_without_room_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
