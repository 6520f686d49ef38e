#include "protocol/stream.h"

#include "protocol/limits.h"
#include "tests/protocol/message_bytes.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <time.h>

#define MAX_MESSAGE (UINT64_C(64) << 20)

struct gate {
    enum hspz_status answer;
    uint64_t bytes;
    unsigned calls;
};

static enum hspz_status
ask_gate(void *user, uint64_t bytes)
{
    struct gate *gate = user;
    gate->calls++;
    if (gate->answer == HSPZ_OK) {
        gate->bytes += bytes;
    }
    return gate->answer;
}

static struct hspz_stream *
open_stream(uint64_t max_message, struct gate *gate)
{
    struct hspz_stream *stream = NULL;
    assert_int_equal(hspz_stream_create(max_message, ask_gate, gate, &stream), HSPZ_OK);
    return stream;
}

/* Feeds one message in pieces of at most `piece` bytes (0: random sizes) and expects it whole
 * after its last byte. */
static struct hspz_frame
feed_in_pieces(struct hspz_stream *stream, const uint8_t *bytes, size_t len, size_t piece,
               uint64_t *random)
{
    struct hspz_frame frame = {0};
    size_t at = 0;
    while (at < len) {
        size_t n = piece != 0 ? piece : 1 + test_random(random) % (1 + test_random(random) % 9000);
        n = n < len - at ? n : len - at;
        size_t used;
        bool ready;
        struct hspz_error err;
        assert_int_equal(hspz_stream_feed(stream, bytes + at, n, &used, &ready, &frame, &err),
                         HSPZ_OK);
        assert_int_equal(used, n);
        at += n;
        assert_int_equal(ready, at == len);
        assert_int_equal(hspz_stream_partial(stream), at != len);
    }
    return frame;
}

static void
expect_refusal(const struct message_bytes *m, uint64_t max_message, enum hspz_status want,
               const char *words)
{
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(max_message, &gate);
    size_t used;
    bool ready;
    struct hspz_frame frame;
    struct hspz_error err;
    assert_int_equal(hspz_stream_feed(stream, m->bytes, m->len, &used, &ready, &frame, &err), want);
    assert_false(ready);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    }
    const uint8_t nil = 0xc0;
    assert_int_equal(hspz_stream_feed(stream, &nil, 1, &used, &ready, &frame, &err), want);
    assert_int_equal(used, 0);
    assert_false(ready);
    size_t room = 1;
    assert_null(hspz_stream_body(stream, &room));
    assert_int_equal(room, 0);
    hspz_stream_destroy(&stream);
    assert_null(stream);
}

static void
expect_refusal_hex(const char *hex, uint64_t max_message, enum hspz_status want, const char *words)
{
    struct message_bytes m = {0};
    message_bytes_hex(&m, hex);
    expect_refusal(&m, max_message, want, words);
    message_bytes_free(&m);
}

static void
test_stream_refuses_forged_lengths(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 10000; round += round < 3 ? 1 : 97) {
        expect_refusal_hex("dd ffffffff", MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "4294967295 values");
        expect_refusal_hex("df ffffffff", MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "8589934590 values");
        expect_refusal_hex("c6 ffffffff", MAX_MESSAGE, HSPZ_E_TOO_LARGE, "67108864 bytes");
        expect_refusal_hex("db ffffffff", MAX_MESSAGE, HSPZ_E_TOO_LARGE, "67108864 bytes");
        expect_refusal_hex("c9 ffffffff 01", MAX_MESSAGE, HSPZ_E_TOO_LARGE, "67108864 bytes");
        /* The same inside a valid map of a valid request. */
        const char *inside = "94 00 01 a1 6d 91 81 a1 78";
        static const char *const forged[] = {"dd ffffffff", "df ffffffff", "c6 ffffffff",
                                             "db ffffffff", "c9 ffffffff 01"};
        for (size_t i = 0; i < 5; i++) {
            char hex[80];
            snprintf(hex, sizeof(hex), "%s %s", inside, forged[i]);
            expect_refusal_hex(hex, MAX_MESSAGE, i < 2 ? HSPZ_E_BAD_REQUEST : HSPZ_E_TOO_LARGE, "");
        }
    }
    /* Without a cap of its own a str or an ext still has to fit the header bytes. */
    expect_refusal_hex("db ffffffff", UINT64_MAX, HSPZ_E_BAD_REQUEST, "65536 bytes outside");
    expect_refusal_hex("c9 ffffffff 01", UINT64_MAX, HSPZ_E_BAD_REQUEST, "65536 bytes outside");
    expect_refusal_hex("c1", MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "byte 0 of the message is 0xc1");
    expect_refusal_hex("92 00 c1", MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "byte 2 of the message");
}

static void
test_stream_asks_before_it_takes_memory(void **state)
{
    (void)state;
    struct gate gate = {HSPZ_E_QUOTA_EXCEEDED, 0, 0};
    struct hspz_stream *stream = open_stream(UINT64_MAX, &gate);
    struct message_bytes m = {0};
    message_bytes_hex(&m, "92 c6 ffffffff");
    size_t used;
    bool ready;
    struct hspz_frame frame;
    assert_int_equal(hspz_stream_feed(stream, m.bytes, m.len, &used, &ready, &frame, NULL),
                     HSPZ_OK);
    assert_int_equal(gate.calls, 1);
    assert_int_equal(hspz_stream_admitted(stream), 0);
    size_t room = 1;
    assert_null(hspz_stream_body(stream, &room));
    assert_int_equal(room, 0);
    hspz_stream_destroy(&stream);
    message_bytes_free(&m);
}

static void
test_stream_takes_no_memory_for_what_is_only_announced(void **state)
{
    (void)state;
    static const char *const announced[] = {
        "dd 00000ffe", "df 000007ff", "92 db 0000fff0 61", "92 c9 0000fff0 01 61", "92 c5 1000 61",
        "dd ffffffff", "df ffffffff", "c6 ffffffff",       "db ffffffff",          "c9 ffffffff 01",
    };
    for (size_t i = 0; i < sizeof(announced) / sizeof(announced[0]); i++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, announced[i]);
        struct gate gate = {HSPZ_OK, 0, 0};
        size_t used;
        bool ready;
        struct hspz_frame frame;
        failing_malloc_arm(0);
        struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
        const enum hspz_status status =
            hspz_stream_feed(stream, m.bytes, m.len, &used, &ready, &frame, NULL);
        const size_t largest = failing_malloc_largest();
        assert_int_equal(status == HSPZ_OK, i < 5);
        assert_false(ready);
        assert_in_range(largest, 1, 1024);
        hspz_stream_destroy(&stream);
        message_bytes_free(&m);
    }
}

static void
test_stream_holds_message_limit_exactly(void **state)
{
    (void)state;
    /* 92 c6 <len> <body> 05 is len + 7 bytes. */
    const uint64_t sizes[] = {4097, 5000, 100000};
    for (size_t i = 0; i < 3; i++) {
        struct message_bytes m = {0};
        message_bytes_hex(&m, "92");
        message_bytes_head(&m, 0xc6, sizes[i], 4);
        message_bytes_fill(&m, 7, sizes[i]);
        message_bytes_hex(&m, "05");
        struct gate gate = {HSPZ_OK, 0, 0};
        struct hspz_stream *stream = open_stream(m.len, &gate);
        struct hspz_frame frame = feed_in_pieces(stream, m.bytes, m.len, m.len, NULL);
        assert_int_equal(frame.len, m.len);
        assert_memory_equal(frame.bytes, m.bytes, m.len);
        assert_int_equal(frame.admitted_bytes, sizes[i]);
        assert_int_equal(gate.bytes, sizes[i]);
        assert_int_equal(hspz_stream_admitted(stream), 0);
        hspz_frame_release(&frame);
        assert_null(frame.bytes);
        hspz_stream_destroy(&stream);
        expect_refusal(&m, m.len - 1, HSPZ_E_TOO_LARGE, "larger than");
        expect_refusal(&m, 1, HSPZ_E_TOO_LARGE, "larger than 1 bytes");
        expect_refusal(&m, 0, HSPZ_E_TOO_LARGE, "larger than 0 bytes");
        message_bytes_free(&m);
    }
}

static void
test_stream_holds_value_limit_exactly(void **state)
{
    (void)state;
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    for (unsigned over = 0; over < 2; over++) {
        struct message_bytes m[2] = {{0}, {0}};
        message_bytes_head(&m[0], 0xdc, HSPZ_FRAME_ITEMS_LIMIT - 1 + over, 2);
        message_bytes_fill(&m[0], 0xc0, HSPZ_FRAME_ITEMS_LIMIT - 1 + over);
        message_bytes_hex(&m[1], over ? "92 c0" : "91");
        message_bytes_head(&m[1], 0xde, (HSPZ_FRAME_ITEMS_LIMIT - 2) / 2, 2);
        message_bytes_fill(&m[1], 0x01, HSPZ_FRAME_ITEMS_LIMIT - 2);
        for (unsigned i = 0; i < 2; i++) {
            if (over) {
                expect_refusal(&m[i], MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "over 4096 values");
            } else {
                struct hspz_frame frame = feed_in_pieces(stream, m[i].bytes, m[i].len, 3, NULL);
                assert_memory_equal(frame.bytes, m[i].bytes, m[i].len);
                hspz_frame_release(&frame);
            }
            message_bytes_free(&m[i]);
        }
    }
    hspz_stream_destroy(&stream);
}

static void
test_stream_holds_header_limit_exactly(void **state)
{
    (void)state;
    for (unsigned over = 0; over < 2; over++) {
        /* 92, da + 2 + 60000, da + 2 + the rest. */
        const size_t rest = HSPZ_FRAME_HEADER_LIMIT - 1 - 3 - 60000 - 3 + over;
        struct message_bytes m = {0};
        message_bytes_hex(&m, "92");
        message_bytes_head(&m, 0xda, 60000, 2);
        message_bytes_fill(&m, 'a', 60000);
        message_bytes_head(&m, 0xda, rest, 2);
        message_bytes_fill(&m, 'b', rest);
        if (over) {
            expect_refusal(&m, MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "65536 bytes outside");
        } else {
            struct gate gate = {HSPZ_OK, 0, 0};
            struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
            struct hspz_frame frame = feed_in_pieces(stream, m.bytes, m.len, 1, NULL);
            assert_int_equal(frame.len, HSPZ_FRAME_HEADER_LIMIT);
            assert_memory_equal(frame.bytes, m.bytes, m.len);
            hspz_frame_release(&frame);
            hspz_stream_destroy(&stream);
        }
        message_bytes_free(&m);
    }
}

static void
test_stream_refuses_deep_nesting(void **state)
{
    (void)state;
    const size_t depths[] = {HSPZ_FRAME_DEPTH_LIMIT + 1, 10000, 1000000};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned form = 0; form < 2; form++) {
            struct message_bytes m = {0};
            for (size_t d = 0; d + 1 < depths[i]; d++) {
                message_bytes_hex(&m, form == 0 ? "91" : "81 01");
            }
            message_bytes_hex(&m, form == 0 ? "90" : "80");
            expect_refusal(&m, MAX_MESSAGE, HSPZ_E_BAD_REQUEST, "deeper than 16");
            message_bytes_free(&m);
        }
    }
    struct message_bytes m = {0};
    message_bytes_fill(&m, 0x91, HSPZ_FRAME_DEPTH_LIMIT - 1);
    message_bytes_hex(&m, "90");
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    struct hspz_frame frame = feed_in_pieces(stream, m.bytes, m.len, 1, NULL);
    assert_int_equal(frame.len, HSPZ_FRAME_DEPTH_LIMIT);
    hspz_frame_release(&frame);
    hspz_stream_destroy(&stream);
    message_bytes_free(&m);
}

static void
test_stream_delivers_random_messages_in_random_pieces(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    unsigned large = 0;
    unsigned big = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct random_message m;
        random_message_make(&m, &random, i % 2 == 0);
        gate = (struct gate){HSPZ_OK, 0, 0};
        struct hspz_frame frame =
            feed_in_pieces(stream, m.message.bytes, m.message.len, 0, &random);
        assert_int_equal(frame.len, m.message.len);
        assert_memory_equal(frame.bytes, m.message.bytes, m.message.len);
        assert_int_equal(frame.refused, HSPZ_OK);
        assert_int_equal(frame.admitted_bytes, m.large_bytes);
        assert_int_equal(gate.calls, m.large_count);
        large += m.large_count;
        big += m.values > 50;
        hspz_frame_release(&frame);
        random_message_free(&m);
    }
    assert_true(large > 100 && big > 100);
    hspz_stream_destroy(&stream);
}

static void
test_stream_skips_refused_bins(void **state)
{
    (void)state;
    uint64_t random = 2;
    struct gate gate = {HSPZ_E_QUOTA_EXCEEDED, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    unsigned refused = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct random_message m;
        random_message_make(&m, &random, true);
        gate.calls = 0;
        struct hspz_frame frame =
            feed_in_pieces(stream, m.message.bytes, m.message.len, 0, &random);
        assert_int_equal(frame.len, m.twin.len);
        assert_memory_equal(frame.bytes, m.twin.bytes, m.twin.len);
        assert_int_equal(frame.refused, m.large_count > 0 ? HSPZ_E_QUOTA_EXCEEDED : HSPZ_OK);
        assert_int_equal(frame.admitted_bytes, 0);
        assert_int_equal(gate.calls, m.large_count > 0);
        refused += m.large_count > 0;
        hspz_frame_release(&frame);
        random_message_free(&m);
    }
    assert_true(refused > 50);
    hspz_stream_destroy(&stream);
}

static void
test_stream_cut_at_every_offset_gives_the_same(void **state)
{
    (void)state;
    uint64_t random = 3;
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    for (unsigned i = 0; i < 4; i++) {
        struct random_message m;
        do {
            random_message_make(&m, &random, true);
            if (m.message.len > 200 && m.message.len < 12000 && m.large_count > 0) {
                break;
            }
            random_message_free(&m);
        } while (true);
        for (size_t cut = 1; cut < m.message.len; cut++) {
            size_t used;
            bool ready;
            struct hspz_frame frame;
            assert_int_equal(
                hspz_stream_feed(stream, m.message.bytes, cut, &used, &ready, &frame, NULL),
                HSPZ_OK);
            assert_true(used == cut && !ready && hspz_stream_partial(stream));
            assert_int_equal(hspz_stream_feed(stream, m.message.bytes + cut, m.message.len - cut,
                                              &used, &ready, &frame, NULL),
                             HSPZ_OK);
            assert_true(used == m.message.len - cut && ready);
            assert_memory_equal(frame.bytes, m.message.bytes, m.message.len);
            hspz_frame_release(&frame);
        }
        random_message_free(&m);
    }
    hspz_stream_destroy(&stream);
}

static void
test_stream_stops_after_each_of_many_messages(void **state)
{
    (void)state;
    struct message_bytes all = {0};
    message_bytes_hex(&all, "93 01 02 03  a3 61 62 63  c0  91");
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    const size_t want[] = {4, 4, 1};
    size_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t used;
        bool ready;
        struct hspz_frame frame;
        assert_int_equal(
            hspz_stream_feed(stream, all.bytes + at, all.len - at, &used, &ready, &frame, NULL),
            HSPZ_OK);
        assert_true(ready);
        assert_int_equal(used, want[i]);
        assert_int_equal(frame.len, want[i]);
        assert_memory_equal(frame.bytes, all.bytes + at, want[i]);
        at += used;
        hspz_frame_release(&frame);
    }
    size_t used;
    bool ready;
    struct hspz_frame frame;
    assert_int_equal(
        hspz_stream_feed(stream, all.bytes + at, all.len - at, &used, &ready, &frame, NULL),
        HSPZ_OK);
    assert_true(!ready && used == 1 && hspz_stream_partial(stream));
    assert_int_equal(hspz_stream_feed(stream, all.bytes, 0, &used, &ready, &frame, NULL), HSPZ_OK);
    assert_true(!ready && used == 0 && hspz_stream_partial(stream));
    hspz_stream_destroy(&stream);
    message_bytes_free(&all);
}

static void
test_stream_receives_body_in_place(void **state)
{
    (void)state;
    const size_t size = 300000;
    struct message_bytes m = {0};
    message_bytes_hex(&m, "92 01");
    message_bytes_head(&m, 0xc6, size, 4);
    const size_t head = m.len;
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(i * 31);
        message_bytes_add(&m, &byte, 1);
    }
    for (unsigned tail = 0; tail < 2; tail++) {
        m.bytes[0] = tail ? 0x93 : 0x92;
        struct gate gate = {HSPZ_OK, 0, 0};
        struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
        size_t used;
        bool ready;
        size_t room;
        struct hspz_frame frame;
        assert_null(hspz_stream_body(stream, &room));
        assert_int_equal(room, 0);
        assert_int_equal(hspz_stream_filled(stream, 0, &ready, &frame), HSPZ_OK);
        assert_int_equal(hspz_stream_feed(stream, m.bytes, head + 10, &used, &ready, &frame, NULL),
                         HSPZ_OK);
        assert_int_equal(hspz_stream_admitted(stream), size);
        for (size_t at = head + 10; at < m.len;) {
            uint8_t *place = hspz_stream_body(stream, &room);
            assert_non_null(place);
            assert_int_equal(room, m.len - at);
            const size_t n = room < 65536 ? room : 65536;
            memcpy(place, m.bytes + at, n);
            assert_int_equal(hspz_stream_filled(stream, n, &ready, &frame), HSPZ_OK);
            at += n;
        }
        assert_int_equal(ready, !tail);
        if (tail) {
            const uint8_t last = 0xc0;
            hspz_stream_body(stream, &room);
            assert_int_equal(room, 0);
            assert_int_equal(hspz_stream_feed(stream, &last, 1, &used, &ready, &frame, NULL),
                             HSPZ_OK);
            assert_true(ready);
            assert_int_equal(frame.bytes[m.len], 0xc0);
        }
        assert_int_equal(frame.len, m.len + tail);
        assert_memory_equal(frame.bytes, m.bytes, m.len);
        assert_int_equal(frame.admitted_bytes, size);
        hspz_frame_release(&frame);
        hspz_stream_destroy(&stream);
    }
    message_bytes_free(&m);
}

static double
cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One message of `count` bins of 5000 bytes, a byte at a time. */
static double
time_crumbs(size_t count)
{
    struct message_bytes m = {0};
    message_bytes_head(&m, 0xdc, count, 2);
    for (size_t i = 0; i < count; i++) {
        message_bytes_head(&m, 0xc5, 5000, 2);
        message_bytes_fill(&m, (uint8_t)i, 5000);
    }
    struct gate gate = {HSPZ_OK, 0, 0};
    struct hspz_stream *stream = open_stream(MAX_MESSAGE, &gate);
    const double start = cpu_seconds();
    struct hspz_frame frame = {0};
    bool ready = false;
    for (size_t i = 0; i < m.len; i++) {
        size_t used;
        assert_int_equal(hspz_stream_feed(stream, m.bytes + i, 1, &used, &ready, &frame, NULL),
                         HSPZ_OK);
    }
    const double seconds = cpu_seconds() - start;
    assert_true(ready);
    assert_int_equal(frame.len, m.len);
    assert_memory_equal(frame.bytes, m.bytes, m.len);
    hspz_frame_release(&frame);
    hspz_stream_destroy(&stream);
    message_bytes_free(&m);
    return seconds;
}

static void
test_stream_takes_crumbs_in_linear_time(void **state)
{
    (void)state;
    time_crumbs(100);
    const double small = time_crumbs(200);  /* 1 MB */
    const double large = time_crumbs(1600); /* 8 MB */
    if (large > 24 * small + 0.2) {
        fail_msg("8 times the bytes took %.3f s instead of %.3f s", large, small);
    }
}

static void
test_stream_survives_each_failing_allocation(void **state)
{
    (void)state;
    struct message_bytes m = {0};
    message_bytes_hex(&m, "94 01");
    message_bytes_head(&m, 0xda, 3000, 2);
    message_bytes_fill(&m, 'x', 3000);
    message_bytes_head(&m, 0xc6, 10000, 4);
    message_bytes_fill(&m, 'y', 10000);
    message_bytes_head(&m, 0xda, 3000, 2);
    message_bytes_fill(&m, 'z', 3000);
    unsigned dead = 0;
    unsigned skipped = 0;
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct gate gate = {HSPZ_OK, 0, 0};
        struct hspz_stream *stream = NULL;
        struct hspz_frame frame = {0};
        failing_malloc_arm(n);
        enum hspz_status status = hspz_stream_create(MAX_MESSAGE, ask_gate, &gate, &stream);
        bool ready = false;
        for (size_t at = 0; status == HSPZ_OK && at < m.len; at++) {
            size_t used;
            status = hspz_stream_feed(stream, m.bytes + at, 1, &used, &ready, &frame, NULL);
        }
        failed = failing_malloc_disarm();
        if (status != HSPZ_OK) {
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            dead++;
            if (stream != NULL) {
                assert_int_equal(hspz_stream_admitted(stream), gate.bytes);
            }
        } else {
            assert_true(ready);
            assert_int_equal(frame.admitted_bytes, gate.bytes);
            assert_true(frame.refused == HSPZ_OK || frame.refused == HSPZ_E_OUT_OF_MEMORY);
            skipped += frame.refused != HSPZ_OK;
            if (frame.refused == HSPZ_OK) {
                assert_int_equal(frame.len, m.len);
                assert_memory_equal(frame.bytes, m.bytes, m.len);
            } else {
                assert_int_equal(frame.len, m.len - 10000 - 3);
            }
        }
        hspz_frame_release(&frame);
        hspz_stream_destroy(&stream);
    }
    assert_true(dead >= 3);
    assert_int_equal(skipped, 1);
    message_bytes_free(&m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_refuses_forged_lengths),
        cmocka_unit_test(test_stream_asks_before_it_takes_memory),
        cmocka_unit_test(test_stream_takes_no_memory_for_what_is_only_announced),
        cmocka_unit_test(test_stream_holds_message_limit_exactly),
        cmocka_unit_test(test_stream_holds_value_limit_exactly),
        cmocka_unit_test(test_stream_holds_header_limit_exactly),
        cmocka_unit_test(test_stream_refuses_deep_nesting),
        cmocka_unit_test(test_stream_delivers_random_messages_in_random_pieces),
        cmocka_unit_test(test_stream_skips_refused_bins),
        cmocka_unit_test(test_stream_cut_at_every_offset_gives_the_same),
        cmocka_unit_test(test_stream_stops_after_each_of_many_messages),
        cmocka_unit_test(test_stream_receives_body_in_place),
        cmocka_unit_test(test_stream_takes_crumbs_in_linear_time),
        cmocka_unit_test(test_stream_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
