#include "protocol/columns.h"

#include "tests/support/test.h"

struct made {
    size_t runs, anchors;
    uint8_t bytes[8 * 64 + 4 * 4096];
    uint64_t packed[4096]; /* as numbers */
};

static void
put_u32(uint8_t *at, uint32_t value)
{
    for (unsigned b = 0; b < 4; b++) {
        at[b] = (uint8_t)(value >> (8 * b));
    }
}

static struct hspz_span
payload_of(const struct made *m)
{
    return (struct hspz_span){m->bytes, 8 * m->runs + 4 * m->anchors};
}

static void
make(struct made *m, size_t runs, uint64_t *random)
{
    uint32_t counts[64];
    m->runs = runs;
    m->anchors = 0;
    for (size_t i = 0; i < runs; i++) {
        counts[i] = 1 + (uint32_t)(test_random(random) % (i % 3 == 0 ? 60 : 3));
    }
    size_t at = 0;
    for (size_t i = 0; i < runs; i++) {
        const uint32_t query = (uint32_t)test_random(random);
        put_u32(m->bytes + 8 * i, query);
        put_u32(m->bytes + 8 * i + 4, counts[i]);
        for (uint32_t k = 0; k < counts[i]; k++, at++) {
            const uint32_t ref = (uint32_t)test_random(random);
            put_u32(m->bytes + 8 * runs + 4 * at, ref);
            m->packed[at] = ref | (uint64_t)query << 32;
        }
    }
    m->anchors = at;
}

static uint64_t
u64_at(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned b = 0; b < 8; b++) {
        value |= (uint64_t)bytes[b] << (8 * b);
    }
    return value;
}

static void
test_columns_are_read_as_the_anchors_they_are(void **state)
{
    (void)state;
    uint64_t random = 4;
    static struct made m;
    for (unsigned round = 0; round < 300; round++) {
        make(&m, test_random(&random) % 65, &random);
        struct hspz_columns columns;
        struct hspz_columns_place place = {0};
        assert_int_equal(hspz_columns_open(payload_of(&m), m.anchors, &columns, NULL), HSPZ_OK);
        assert_true(columns.run_count == m.runs && columns.count == m.anchors);
        size_t done = 0;
        for (;;) {
            uint8_t packed[8 * 50 + 1];
            const size_t most = 1 + test_random(&random) % 50;
            const size_t n = hspz_columns_read(&columns, &place, packed + 1, most);
            for (size_t i = 0; i < n; i++) {
                assert_true(u64_at(packed + 1 + 8 * i) == m.packed[done + i]);
            }
            done += n;
            assert_int_equal(place.anchor, done);
            if (n < most) {
                break;
            }
        }
        assert_int_equal(done, m.anchors);
    }
}

static void
expect_wrong(const struct made *m, size_t len, uint64_t anchors, const char *words)
{
    struct hspz_columns columns = {0};
    struct hspz_error err = {0};
    assert_int_equal(hspz_columns_open((struct hspz_span){m->bytes, len}, anchors, &columns, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, words));
    assert_null(columns.runs);
}

static void
test_columns_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    uint64_t random = 9;
    static struct made m;
    make(&m, 7, &random);
    const size_t len = payload_of(&m).len;
    expect_wrong(&m, len - 4, m.anchors, "bytes for ");
    expect_wrong(&m, len - 1, m.anchors, "bytes for ");
    expect_wrong(&m, len, UINT64_MAX, "bytes for ");
    expect_wrong(&m, len, UINT64_MAX / 4 + 1, "bytes for ");
    expect_wrong(&m, 0, 1, "bytes for ");
    expect_wrong(&m, len - 8, m.anchors, "columns: ");
    expect_wrong(&m, 4 * m.anchors, m.anchors, "columns: runs of 0 anchors, not of ");
    m.bytes[12]++;
    expect_wrong(&m, len, m.anchors, "columns: runs of ");
    m.bytes[12]--;
    put_u32(m.bytes + 8 * 3 + 4, 0);
    expect_wrong(&m, len, m.anchors, "columns: run 3 is empty");
    put_u32(m.bytes + 8 * 3 + 4, UINT32_MAX);
    expect_wrong(&m, len, m.anchors, "columns: runs of ");
    struct hspz_columns columns;
    struct hspz_columns_place place = {0};
    uint8_t none[8];
    assert_int_equal(hspz_columns_open((struct hspz_span){none, 0}, 0, &columns, NULL), HSPZ_OK);
    assert_int_equal(hspz_columns_read(&columns, &place, none, 1), 0);
}

/* As by a peer that shares the memory: any anchors come, but no more than there were. */
static void
test_columns_that_change_after_open_are_read_within_their_bounds(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (unsigned round = 0; round < 500; round++) {
        static struct made m;
        make(&m, 1 + (size_t)(test_random(&random) % 50), &random);
        const struct hspz_span payload = payload_of(&m);
        uint8_t *const exact = malloc(payload.len);
        assert_non_null(exact);
        memcpy(exact, payload.bytes, payload.len);
        struct hspz_columns columns;
        assert_int_equal(
            hspz_columns_open((struct hspz_span){exact, payload.len}, m.anchors, &columns, NULL),
            HSPZ_OK);
        struct hspz_columns_place place = {0};
        uint8_t packed[7 * HSPZ_ANCHOR_BYTES];
        size_t sum = 0;
        for (size_t n = 1; n > 0; sum += n) {
            uint8_t *run = exact + 8 * (test_random(&random) % columns.run_count);
            put_u32(run + 4, (uint32_t)test_random(&random) >> (test_random(&random) % 32));
            n = hspz_columns_read(&columns, &place, packed, 1 + (size_t)(test_random(&random) % 7));
        }
        assert_true(sum <= m.anchors);
        free(exact);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_read_as_the_anchors_they_are),
        cmocka_unit_test(test_columns_that_do_not_add_up_are_refused),
        cmocka_unit_test(test_columns_that_change_after_open_are_read_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
