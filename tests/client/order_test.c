#include "client/order.h"

#include "tests/support/test.h"

#include <inttypes.h>
#include <xxhash.h>

/* Streams of eight groups of four parts, every part three records: a chunk of one part, then one of
 * three. */
enum kind {
    ANCHORS,        /* two strands, batches 0 and 2, two reference blocks */
    INTERVALS,      /* intervals 0 and 2, two strands, two blocks */
    HSPS_OF_CHUNKS, /* the same; chunks before and between have none */
    HSPS_OF_JOB,    /* two strands, blocks 0, 2, 4, 6: groups of four parts */
    KINDS,
};

#define PART_COUNT 32u
#define PART_RECORDS 3u

struct stream {
    struct hspz_discover_request request;
    struct hspz_part_head head[PART_COUNT];
    uint8_t bytes[PART_COUNT * PART_RECORDS * HSPZ_HSP_BYTES];
    size_t part_bytes;
    struct hspz_discover_result result;
};

static struct hspz_part_id
part_of(enum kind kind, unsigned group, uint32_t i)
{
    struct hspz_part_id id = {
        .chunk = i > 0,
        .part = i == 0 ? 0 : i - 1,
        .last_part = i == 0 || i == 3,
        .seed_begin = i == 0 ? 0 : 10,
        .seed_end = i == 0 ? 10 : 15,
        .hit_begin = UINT64_C(3) * i,
    };
    id.ref_block = group & 1;
    id.strand = (group & 4) != 0;
    id.batch = (group & 2) != 0 ? 2 : 0;
    if (kind == INTERVALS || kind == HSPS_OF_CHUNKS) {
        id.interval = group < 4 ? 0 : 2;
        id.strand = (group & 2) != 0;
        id.batch = 0;
    }
    if (kind == HSPS_OF_CHUNKS) {
        id.chunk = i > 0 ? 4 : 1;
        id.hit_begin = UINT64_C(3) * id.part;
    }
    if (kind == HSPS_OF_JOB) {
        id.batch = id.chunk = 0;
        id.ref_block = 2 * (group & 3);
        id.part = i;
        id.last_part = i == 3;
        id.seed_begin = id.seed_end = 0;
    }
    id.hit_end = id.hit_begin + PART_RECORDS;
    return id;
}

static void
make_stream(struct stream *stream, enum kind kind)
{
    const bool hsps = kind >= HSPS_OF_CHUNKS;
    uint64_t random = 5;
    *stream = (struct stream){.request = HSPZ_DISCOVER_REQUEST_DEFAULT};
    stream->request.interval = kind == INTERVALS || kind == HSPS_OF_CHUNKS ? 10000 : 0;
    stream->request.records = hsps ? HSPZ_RECORDS_HSPS : HSPZ_RECORDS_ANCHORS;
    stream->request.scoring.scope = kind == HSPS_OF_CHUNKS ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
    stream->part_bytes = PART_RECORDS * (hsps ? HSPZ_HSP_BYTES : HSPZ_ANCHOR_BYTES);
    for (unsigned n = 0; n < PART_COUNT; n++) {
        stream->head[n] = (struct hspz_part_head){
            .records = stream->request.records,
            .has_interval = stream->request.interval != 0,
            .id = part_of(kind, n / 4, n % 4),
        };
    }
    const size_t len = PART_COUNT * stream->part_bytes;
    for (size_t b = 0; b < len; b++) {
        stream->bytes[b] = (uint8_t)test_random(&random);
    }
    struct hspz_discover_result *r = &stream->result;
    for (size_t s = 0; s < 2; s++) {
        r->totals[s].chunks = hsps ? 20 : 8;
        r->totals[s].hits = hsps ? 1000 : 48;
        r->totals[s].hsps = hsps ? 48 : 0;
    }
    r->anchors = hsps ? 0 : 96;
    r->hsps = hsps ? 96 : 0;
    r->chunks = hsps ? 40 : 16;
    r->has_digest = true;
    snprintf(r->digest, sizeof(r->digest), "%016" PRIx64, (uint64_t)XXH64(stream->bytes, len, 0));
}

/* Runs parts in the order given; what the first refusal, or the end, is. */
static enum hspz_status
run(const struct stream *stream, const size_t *order, size_t count, bool digest,
    struct hspz_error *err)
{
    struct hspz_order *checker = NULL;
    struct hspz_discover_request request = stream->request;
    request.digest = digest;
    assert_int_equal(hspz_order_create(&request, &checker), HSPZ_OK);
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < count && status == HSPZ_OK; i++) {
        const struct hspz_part_view part = {.id = stream->head[order[i]].id,
                                            .records =
                                                stream->bytes + order[i] * stream->part_bytes,
                                            .count = PART_RECORDS};
        assert_int_equal(hspz_order_records(checker), PART_RECORDS * i);
        status = hspz_order_part(checker, &stream->head[order[i]], &part, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_order_finish(checker, &stream->result, err);
    }
    hspz_order_destroy(&checker);
    assert_null(checker);
    return status;
}

static const size_t in_order[PART_COUNT] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                            22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static void
test_order_accepts_a_whole_stream(void **state)
{
    (void)state;
    for (enum kind kind = ANCHORS; kind < KINDS; kind++) {
        struct stream stream;
        struct hspz_error err = {0};
        make_stream(&stream, kind);
        run(&stream, in_order, PART_COUNT, true, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(run(&stream, in_order, PART_COUNT, true, NULL), HSPZ_OK);
        assert_int_equal(run(&stream, in_order, PART_COUNT, false, NULL), HSPZ_OK);

        struct stream nothing = stream;
        nothing.result = (struct hspz_discover_result){
            .has_digest = true, .digest = "ef46db3751d8e999"}; /* of no bytes */
        assert_int_equal(run(&nothing, in_order, 0, true, NULL), HSPZ_OK);
        assert_int_equal(run(&stream, in_order, 0, true, &err), HSPZ_E_INCOMPLETE);
        assert_string_equal(err.text,
                            kind >= HSPS_OF_CHUNKS ? "0 of 96 hsps came" : "0 of 96 anchors came");
    }
}

static void
test_order_refuses_each_part_lost_repeated_or_moved(void **state)
{
    (void)state;
    for (enum kind kind = ANCHORS; kind < KINDS; kind++) {
        struct stream stream;
        make_stream(&stream, kind);
        for (size_t i = 0; i < PART_COUNT; i++) {
            size_t order[PART_COUNT + 1];
            size_t n = 0;
            for (size_t k = 0; k < PART_COUNT; k++) {
                if (k != i) {
                    order[n++] = k;
                }
            }
            assert_int_not_equal(run(&stream, order, n, false, NULL), HSPZ_OK);
            n = 0;
            for (size_t k = 0; k < PART_COUNT; k++) {
                order[n++] = k;
                if (k == i) {
                    order[n++] = k;
                }
            }
            assert_int_equal(run(&stream, order, n, false, NULL), HSPZ_E_BAD_PEER);
            for (size_t other = i + 1; other < PART_COUNT; other++) {
                memcpy(order, in_order, sizeof(in_order));
                order[i] = other;
                order[other] = i;
                assert_int_equal(run(&stream, order, PART_COUNT, false, NULL), HSPZ_E_BAD_PEER);
            }
        }
    }
}

static void
test_order_refuses_a_whole_group_lost(void **state)
{
    (void)state;
    for (enum kind kind = ANCHORS; kind < KINDS; kind++) {
        struct stream stream;
        make_stream(&stream, kind);
        for (size_t group = 0; group < 8; group++) {
            size_t order[PART_COUNT];
            size_t n = 0;
            for (size_t k = 0; k < PART_COUNT; k++) {
                if (k / 4 != group) {
                    order[n++] = k;
                }
            }
            struct hspz_error err;
            assert_int_equal(run(&stream, order, n, true, &err), HSPZ_E_INCOMPLETE);
            assert_string_equal(err.text, kind >= HSPS_OF_CHUNKS ? "84 of 96 hsps came"
                                                                 : "84 of 96 anchors came");
        }
    }
}

static void
expect_wrong(const struct stream *stream, enum hspz_status want, const char *words)
{
    struct hspz_error err = {0};
    const enum hspz_status status = run(stream, in_order, PART_COUNT, true, &err);
    if (status != want || strstr(err.text, words) == NULL) {
        fail_msg("%s: \"%s\" instead of \"%s\"", hspz_status_name(status), err.text, words);
    }
}

static void
test_order_refuses_parts_of_another_job_kind(void **state)
{
    (void)state;
    for (enum kind kind = ANCHORS; kind < KINDS; kind++) {
        struct stream good;
        make_stream(&good, kind);
        struct stream bad = good;
        bad.head[9].records = !good.request.records;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, "other records than were asked for (27 ");
        bad = good;
        bad.head[9].has_interval = !good.head[9].has_interval;
        expect_wrong(&bad, HSPZ_E_BAD_PEER,
                     good.request.interval != 0 ? "its interval is missing"
                                                : "the job has no intervals");
        bad = good;
        bad.head[9].id.seed_end = kind == HSPS_OF_JOB ? 1 : bad.head[9].id.seed_begin;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, "its ranges are empty");
        bad = good;
        bad.head[8].id.hit_begin++;
        bad.head[8].id.hit_end++;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, "records are missing");
        bad = good;
        bad.head[8].id.chunk += 3;
        expect_wrong(&bad, HSPZ_E_BAD_PEER,
                     kind == ANCHORS || kind == INTERVALS ? "first chunk is missing"
                     : kind == HSPS_OF_JOB                ? "HSPs are of all chunks"
                                                          : "it is out of order");
    }
}

static void
test_order_refuses_what_differs_from_the_final_record(void **state)
{
    (void)state;
    for (enum kind kind = ANCHORS; kind < KINDS; kind++) {
        const bool hsps = kind >= HSPS_OF_CHUNKS;
        struct stream good;
        make_stream(&good, kind);
        for (size_t b = 0; b < PART_COUNT * good.part_bytes; b += 17) {
            struct stream bad = good;
            bad.bytes[b] ^= 0x40;
            expect_wrong(&bad, HSPZ_E_BAD_PEER, "but their digest is");
            assert_int_equal(run(&bad, in_order, PART_COUNT, false, NULL), HSPZ_OK);
        }
        struct stream bad = good;
        bad.result.has_digest = false;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, "the server's is missing");
        bad = good;
        *(hsps ? &bad.result.hsps : &bad.result.anchors) = 97;
        expect_wrong(&bad, HSPZ_E_INCOMPLETE, "96 of 97 ");
        bad = good;
        *(hsps ? &bad.result.totals[1].hsps : &bad.result.totals[1].hits) = 47;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, "the final record says 47 in");
        bad = good;
        *(hsps ? &bad.result.anchors : &bad.result.hsps) = 5;
        expect_wrong(&bad, HSPZ_E_BAD_PEER,
                     hsps ? "5 anchors in a job of hsps" : "5 hsps in a job of anchors");
        bad = good;
        bad.result.totals[0].chunks = 7;
        bad.result.chunks -= good.result.totals[0].chunks - 7;
        if (kind == HSPS_OF_JOB) {
            assert_int_equal(run(&bad, in_order, PART_COUNT, true, NULL), HSPZ_OK);
        } else {
            expect_wrong(&bad, HSPZ_E_BAD_PEER, "in 8 chunks came, the final record says 48 in 7");
        }
        bad = good;
        bad.result.chunks--;
        expect_wrong(&bad, HSPZ_E_BAD_PEER, " chunks came, the final record says ");
        bad = good;
        bad.head[PART_COUNT - 1].id.last_part = false;
        expect_wrong(&bad, HSPZ_E_INCOMPLETE, "the last chunk is not finished");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_accepts_a_whole_stream),
        cmocka_unit_test(test_order_refuses_each_part_lost_repeated_or_moved),
        cmocka_unit_test(test_order_refuses_a_whole_group_lost),
        cmocka_unit_test(test_order_refuses_parts_of_another_job_kind),
        cmocka_unit_test(test_order_refuses_what_differs_from_the_final_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
