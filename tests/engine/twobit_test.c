#include "engine/twobit.h"

#include "tests/engine/twobit_writer.h"
#include "tests/support/test.h"

#include <sys/mman.h>

static const struct twobit_record sample[] = {
    {"chr1", "NNNNACGTacgtNNnnTTTTGACCA"}, {"empty", ""},         {"one", "g"},
    {"chrUn:1-2|x.1", "ACGTACGTn"},        {"allN", "NNNNNNNNN"}, {"masked", "acgtacgtacgtacgtac"},
};
#define SAMPLE_COUNT (sizeof(sample) / sizeof(sample[0]))

static enum hspz_status
read_bytes(const struct twobit_bytes *file, size_t len, struct hspz_sequences **seqs,
           struct hspz_error *err)
{
    assert_int_equal(hspz_sequences_create(0, seqs), HSPZ_OK);
    /* A copy of exactly this length, so that a sanitizer sees a read past it. */
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, file->bytes, len);
    *err = (struct hspz_error){0};
    const enum hspz_status status =
        hspz_twobit_read((struct hspz_span){copy, len}, "x.2bit", NULL, NULL, *seqs, err);
    free(copy);
    return status;
}

static void
assert_sample(const struct hspz_sequences *seqs, const struct twobit_record *records, size_t count)
{
    assert_int_equal(hspz_sequences_count(seqs), count);
    for (size_t i = 0; i < count; i++) {
        const struct hspz_sequence *item = hspz_sequences_get(seqs, i);
        assert_string_equal(item->name, records[i].name);
        assert_int_equal(item->len, strlen(records[i].bases));
        assert_int_equal(item->line, 0);
        const struct hspz_block block = hspz_sequences_block(seqs, item->block);
        assert_memory_equal(block.bases + item->offset, records[i].bases, item->len);
    }
}

static void
test_read_knows_both_versions_and_byte_orders(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct twobit_bytes file = twobit_write(
            sample, SAMPLE_COUNT,
            (struct twobit_format){.big_endian = (kind & 1) != 0, .version = kind >> 1});
        assert_true(hspz_twobit_recognise((struct hspz_span){file.bytes, file.len}));
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err;
        if (read_bytes(&file, file.len, &seqs, &err) != HSPZ_OK) {
            fail_msg("kind %u: %s", kind, err.text);
        }
        assert_sample(seqs, sample, SAMPLE_COUNT);
        hspz_sequences_destroy(&seqs);
        free(file.bytes);
    }
}

/* A file typed in by hand: one record "s" of TCAGN, base 1 masked. */
static void
test_read_agrees_with_a_file_written_by_hand(void **state)
{
    (void)state;
    static const uint8_t hand[] = {
        0x43, 0x27, 0x41, 0x1a, 0,    0,    0, 0, 1, 0, 0, 0, 0, 0, 0, 0, /* header */
        1,    's',  22,   0,    0,    0,                                  /* index */
        5,    0,    0,    0,                                              /* bases */
        1,    0,    0,    0,    4,    0,    0, 0, 1, 0, 0, 0,             /* N: 4 to 5 */
        1,    0,    0,    0,    1,    0,    0, 0, 1, 0, 0, 0,             /* mask: 1 to 2 */
        0,    0,    0,    0,    0x1b, 0x00,                               /* 00 01 10 11 */
    };
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(
        hspz_twobit_read((struct hspz_span){hand, sizeof(hand)}, "hand", NULL, NULL, seqs, &err),
        HSPZ_OK);
    assert_sample(seqs, (const struct twobit_record[]){{"s", "TcAGN"}}, 1);
    hspz_sequences_destroy(&seqs);
}

static void
test_read_long_random_records_with_blocks_across_pieces(void **state)
{
    (void)state;
    uint64_t random = 5;
    static char bases[3][100003];
    struct twobit_record records[3] = {{"a", bases[0]}, {"b", bases[1]}, {"c", bases[2]}};
    static const size_t lens[3] = {100002, 65536, 16385};
    for (size_t r = 0; r < 3; r++) {
        for (size_t i = 0; i < lens[r];) {
            size_t run = 1 + test_random(&random) % (r == 0 ? 40000 : 50);
            const bool unknown = test_random(&random) % 4 == 0;
            const bool masked = test_random(&random) % 2 == 0;
            for (; run > 0 && i < lens[r]; run--, i++) {
                const char base = unknown ? 'N' : "ACGT"[test_random(&random) & 3];
                bases[r][i] = (char)(masked ? base | 0x20 : base);
            }
        }
    }
    struct twobit_bytes file = twobit_write(records, 3, (struct twobit_format){0});
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    assert_int_equal(read_bytes(&file, file.len, &seqs, &err), HSPZ_OK);
    assert_sample(seqs, records, 3);
    hspz_sequences_destroy(&seqs);
    free(file.bytes);
}

static void
assert_refused(const struct twobit_bytes *file, size_t len, enum hspz_status want, const char *word)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    const enum hspz_status status = read_bytes(file, len, &seqs, &err);
    if (status != want || strstr(err.text, word) == NULL || strstr(err.text, "x.2bit") == NULL) {
        fail_msg("%zu bytes: %s, '%s', no '%s'", len, hspz_status_name(status), err.text, word);
    }
    hspz_sequences_destroy(&seqs);
}

static void
test_read_refuses_a_file_cut_anywhere(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct twobit_bytes file = twobit_write(
            sample, SAMPLE_COUNT,
            (struct twobit_format){.big_endian = (kind & 1) != 0, .version = kind >> 1});
        for (size_t len = 0; len < file.len; len++) {
            assert_refused(&file, len, HSPZ_E_BAD_FILE, len < 4 ? "not a 2bit" : "cut short");
        }
        free(file.bytes);
    }
}

static void
test_read_refuses_other_versions_by_number(void **state)
{
    (void)state;
    struct twobit_bytes file = twobit_write(sample, SAMPLE_COUNT, (struct twobit_format){0});
    twobit_poke(&file, 4, 2);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "version 2");
    twobit_poke(&file, 4, 0xffffffff);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "version 4294967295");
    /* A version 0 file that says 1: its offsets are wrong. */
    twobit_poke(&file, 4, 1);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "damaged");
    twobit_poke(&file, 4, 0);
    twobit_poke(&file, 8, 0);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "no sequence");
    twobit_poke(&file, 8, 0xffffffff);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "damaged");
    free(file.bytes);
}

static void
test_read_refuses_absurd_counts(void **state)
{
    (void)state;
    static const struct twobit_record two[] = {{"a", "NNACGTacgtNNACGT"}, {"b", "ACGTACGTACGT"}};
    struct twobit_bytes file = twobit_write(two, 2, (struct twobit_format){0});
    const size_t at = twobit_record_offset(&file, 0);
    static const struct {
        size_t offset; /* from the record's start */
        uint32_t keep;
        const char *word;
    } rows[] = {
        {0, 16, "packed"},      /* base count */
        {4, 2, "N blocks"},     /* count of N blocks */
        {8, 0, "out of order"}, /* first start */
        {16, 2, "past 16"},     /* first length */
        {24, 1, "mask blocks"}, /* count of mask blocks */
        {28, 6, "past 16"},     /* start */
        {32, 4, "past 16"},     /* length */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        twobit_poke(&file, at + rows[i].offset, 0xffffffff);
        assert_refused(&file, file.len, HSPZ_E_BAD_FILE, rows[i].word);
        twobit_poke(&file, at + rows[i].offset, rows[i].keep);
    }
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    assert_int_equal(read_bytes(&file, file.len, &seqs, &err), HSPZ_OK);
    assert_sample(seqs, two, 2);
    hspz_sequences_destroy(&seqs);

    twobit_poke(&file, at + 16, 11); /* the first N block reaches into the second */
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "out of order");
    twobit_poke(&file, at + 16, 2);
    twobit_poke(&file, 18, 15); /* offset of the first record */
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "inside the header");
    twobit_poke(&file, 18, 0xffffffff);
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "4294967295");
    free(file.bytes);
}

static void
test_read_refuses_records_that_share_bytes(void **state)
{
    (void)state;
    static char bases[4001];
    memset(bases, 'A', 4000);
    struct twobit_record records[20];
    for (size_t i = 0; i < 20; i++) {
        records[i] = (struct twobit_record){"name", i == 0 ? bases : ""};
    }
    struct twobit_bytes file = twobit_write(records, 20, (struct twobit_format){0});
    for (size_t i = 1; i < 20; i++) {
        twobit_poke(&file, 16 + 9 * i + 5, (uint32_t)twobit_record_offset(&file, 0));
    }
    assert_refused(&file, file.len, HSPZ_E_BAD_FILE, "overlaps");
    free(file.bytes);
}

static void
test_read_refuses_bad_names(void **state)
{
    (void)state;
    static const struct twobit_record nameless[] = {{"a", "ACGT"}, {"", "ACGT"}};
    struct twobit_bytes file = twobit_write(nameless, 2, (struct twobit_format){0});
    assert_refused(&file, file.len, HSPZ_E_BAD_REQUEST, "record 2");
    free(file.bytes);
    static const struct twobit_record plain[] = {{"abc", "ACGT"}};
    file = twobit_write(plain, 1, (struct twobit_format){0});
    file.bytes[18] = 0;
    assert_refused(&file, file.len, HSPZ_E_BAD_REQUEST, "0x00");
    file.bytes[18] = '\n';
    assert_refused(&file, file.len, HSPZ_E_BAD_REQUEST, "0x0a");
    /* The first word, as in FASTA. */
    file.bytes[18] = ' ';
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    assert_int_equal(read_bytes(&file, file.len, &seqs, &err), HSPZ_OK);
    assert_sample(seqs, (const struct twobit_record[]){{"a", "ACGT"}}, 1);
    hspz_sequences_destroy(&seqs);
    free(file.bytes);
}

/* The packed bases are pages that are never touched. */
static void
test_read_refuses_a_record_over_the_limit_before_unpacking(void **state)
{
    (void)state;
    const uint32_t over = HSPZ_BLOCK_BASES_LIMIT + 1;
    const size_t len = 100 + (size_t)(over / 4) + 1;
    struct twobit_bytes file = {.len = len};
    file.bytes =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file.bytes == MAP_FAILED) {
        skip();
    }
    twobit_poke(&file, 0, 0x1A412743);
    twobit_poke(&file, 8, 1);
    file.bytes[16] = 1;
    file.bytes[17] = 'a';
    twobit_poke(&file, 18, 22);
    twobit_poke(&file, 22, over);
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(
        hspz_twobit_read((struct hspz_span){file.bytes, len}, "x.2bit", NULL, NULL, seqs, &err),
        HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "4294967232 bases"));
    assert_non_null(strstr(err.text, "at most 4294967231"));
    assert_int_equal(hspz_sequences_count(seqs), 0);
    assert_int_equal(hspz_sequences_block_count(seqs), 0);
    hspz_sequences_destroy(&seqs);
    munmap(file.bytes, len);
}

static bool
allow_two(void *user)
{
    int *left = user;
    return (*left)-- > 0;
}

static void
test_read_stops_when_told_to(void **state)
{
    (void)state;
    struct twobit_bytes file = twobit_write(sample, SAMPLE_COUNT, (struct twobit_format){0});
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    int left = 2;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(hspz_twobit_read((struct hspz_span){file.bytes, file.len}, "x.2bit", allow_two,
                                      &left, seqs, &err),
                     HSPZ_E_STOPPED);
    assert_int_equal(hspz_sequences_count(seqs), 2);
    hspz_sequences_destroy(&seqs);
    free(file.bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_knows_both_versions_and_byte_orders),
        cmocka_unit_test(test_read_agrees_with_a_file_written_by_hand),
        cmocka_unit_test(test_read_long_random_records_with_blocks_across_pieces),
        cmocka_unit_test(test_read_refuses_a_file_cut_anywhere),
        cmocka_unit_test(test_read_refuses_other_versions_by_number),
        cmocka_unit_test(test_read_refuses_absurd_counts),
        cmocka_unit_test(test_read_refuses_records_that_share_bytes),
        cmocka_unit_test(test_read_refuses_bad_names),
        cmocka_unit_test(test_read_refuses_a_record_over_the_limit_before_unpacking),
        cmocka_unit_test(test_read_stops_when_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
