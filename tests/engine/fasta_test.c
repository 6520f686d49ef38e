#include "engine/fasta.h"

#include "protocol/limits.h"
#include "tests/support/test.h"

#include <inttypes.h>

/* Parses in pieces of `piece` bytes (0: in one). */
static enum hspz_status
parse(const char *text, size_t len, size_t piece, struct hspz_sequences **seqs,
      struct hspz_error *err)
{
    struct hspz_fasta *fasta = NULL;
    *err = (struct hspz_error){0};
    assert_int_equal(hspz_sequences_create(0, seqs), HSPZ_OK);
    enum hspz_status status = hspz_fasta_create(*seqs, "x.fa", &fasta, err);
    for (size_t at = 0; status == HSPZ_OK && at < len;) {
        const size_t left = len - at;
        const size_t count = piece == 0 || piece > left ? left : piece;
        /* A copy, so that a sanitizer sees a read past the piece. */
        uint8_t *copy = malloc(count);
        assert_non_null(copy);
        memcpy(copy, text + at, count);
        status = hspz_fasta_feed(fasta, copy, count, err);
        free(copy);
        at += count;
    }
    if (status == HSPZ_OK) {
        status = hspz_fasta_finish(fasta, err);
    }
    hspz_fasta_destroy(&fasta);
    assert_null(fasta);
    return status;
}

/* "name:line:bases " for each sequence. */
static void
describe(const struct hspz_sequences *seqs, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < hspz_sequences_count(seqs); i++) {
        const struct hspz_sequence *item = hspz_sequences_get(seqs, i);
        const struct hspz_block block = hspz_sequences_block(seqs, item->block);
        at += (size_t)snprintf(out + at, size - at, "%s:%" PRIu64 ":%.*s ", item->name, item->line,
                               (int)item->len, (const char *)block.bases + item->offset);
        assert_true(at < size);
    }
}

static void
check_len(const char *text, size_t len, const char *want)
{
    for (size_t piece = 0; piece <= len; piece++) {
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err;
        if (parse(text, len, piece, &seqs, &err) != HSPZ_OK) {
            fail_msg("'%s' in pieces of %zu: %s", text, piece, err.text);
        }
        char got[2000];
        describe(seqs, got, sizeof(got));
        assert_string_equal(got, want);
        hspz_sequences_destroy(&seqs);
    }
}

static void
check(const char *text, const char *want)
{
    check_len(text, strlen(text), want);
}

static void
refuse_len(const char *text, size_t len, enum hspz_status want, const char *message)
{
    for (size_t piece = 0; piece <= len; piece++) {
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err;
        const enum hspz_status status = parse(text, len, piece, &seqs, &err);
        if (status != want || strncmp(err.text, "x.fa: ", 6) != 0 ||
            strcmp(err.text + 6, message) != 0) {
            fail_msg("'%s' in pieces of %zu: %s: %s", text, piece, hspz_status_name(status),
                     err.text);
        }
        hspz_sequences_destroy(&seqs);
    }
}

static void
refuse(const char *text, enum hspz_status want, const char *message)
{
    refuse_len(text, strlen(text), want, message);
}

static void
test_fasta_reads_every_line_end(void **state)
{
    (void)state;
    check(">a x\nACGT\nac\n>b\nGG\n", "a:1:ACGTac b:4:GG ");
    check(">a x\r\nACGT\r\nac\r\n>b\r\nGG\r\n", "a:1:ACGTac b:4:GG ");
    check(">a x\rACGT\rac\r>b\rGG\r", "a:1:ACGTac b:4:GG ");
    check(">a x\nACGT\r\nac\r>b\nGG\r\n", "a:1:ACGTac b:4:GG ");
    check(">a x\nACGT\nac\n>b\nGG", "a:1:ACGTac b:4:GG ");
    check(">a x\r\nACGT\r\nac\r\n>b\r\nGG\r", "a:1:ACGTac b:4:GG ");
    check(">a\r\r\nA\n\rC\r\n", "a:1:AC ");
    check(">a\rA\r\r\r>b\r\r\nC", "a:1:A b:5:C ");
}

static void
test_fasta_skips_blank_lines_and_blanks_at_line_ends(void **state)
{
    (void)state;
    check("\n\n \t\n>a\n\nAC \t\n  \nGT\t\r\n\n>b \n \n", "a:4:ACGT b:10: ");
    check("\r\n\r\n>a\r\nA  \r\n", "a:3:A ");
}

static void
test_fasta_keeps_empty_records(void **state)
{
    (void)state;
    check(">foo", "foo:1: ");
    check(">foo\n", "foo:1: ");
    check(">foo\n\n>bar\nACGT\n", "foo:1: bar:3:ACGT ");
    check(">a\n>b\n>c", "a:1: b:2: c:3: ");
}

static void
test_fasta_names_are_first_words_byte_for_byte(void **state)
{
    (void)state;
    check(">a b c\nA\n", "a:1:A ");
    check(">NC_1.1 x\nA\n", "NC_1.1:1:A ");
    check(">s:10-20\nA\n", "s:10-20:1:A ");
    check(">gi|1|ref|2|\nA\n", "gi|1|ref|2|:1:A ");
    check(">\xe5\x90\x8d\nA\n", "\xe5\x90\x8d:1:A ");
    check(">x\ty z\nA\n", "x:1:A ");
    check("> x y\nA\n", "x:1:A ");
    check(">\t x\nA\n", "x:1:A ");
    check(">>x\nA\n", ">x:1:A ");
    check(">a\xff\x01 b\xff\nA\n", "a\xff\x01:1:A ");
    check(">2L one\nA\n>2L two\nC\n", "2L:1:A 2L:3:C ");
    check_len(">a b\0c\nA\n", 9, "a:1:A ");
    check(
        ">0123456789012345678901234567890123456789012345678901234567890123456789abcdefghijklmn"
        "opqrstuvwxyz0123456789012345678901234567890123456789012345678901234567890123456789\nA\n",
        "0123456789012345678901234567890123456789012345678901234567890123456789abcdefghijklmn"
        "opqrstuvwxyz0123456789012345678901234567890123456789012345678901234567890123456789:1:A ");
    refuse(">\nACGT\n", HSPZ_E_BAD_REQUEST, "line 1: a sequence has no name");
    refuse(">a\nA\n> \t\r\nACGT\n", HSPZ_E_BAD_REQUEST, "line 3: a sequence has no name");
    refuse(">a\nA\n>", HSPZ_E_BAD_REQUEST, "line 3: a sequence has no name");
    refuse_len(">a\nA\n>b\0c\nA\n", 12, HSPZ_E_BAD_REQUEST,
               "line 3: byte 0x00 in a name, at its byte 2: 'b...'");
}

static void
test_fasta_names_up_to_the_limit(void **state)
{
    (void)state;
    static char text[HSPZ_SEQUENCE_NAME_LIMIT + 100];
    static const size_t pieces[] = {0, 1000, 65536};
    for (size_t over = 0; over < 2; over++) {
        const size_t name_len = HSPZ_SEQUENCE_NAME_LIMIT + over;
        text[0] = '>';
        memset(text + 1, 'n', name_len);
        memcpy(text + 1 + name_len, " x\nAC\n", 7);
        for (size_t i = 0; i < 3; i++) {
            struct hspz_sequences *seqs = NULL;
            struct hspz_error err;
            const enum hspz_status status = parse(text, strlen(text), pieces[i], &seqs, &err);
            assert_int_equal(status, over ? HSPZ_E_BAD_REQUEST : HSPZ_OK);
            if (over) {
                assert_non_null(strstr(err.text, "x.fa: line 1: a name of more than 65535 bytes"));
            } else {
                assert_int_equal(strlen(hspz_sequences_get(seqs, 0)->name), name_len);
                assert_int_equal(hspz_sequences_get(seqs, 0)->len, 2);
            }
            hspz_sequences_destroy(&seqs);
        }
    }
}

static void
test_fasta_takes_bases_and_refuses_other_bytes_by_place(void **state)
{
    (void)state;
    check(">a\nRYKMSWBDHVNXU*-.ryz\n", "a:1:RYKMSWBDHVNXU*-.ryz ");
    refuse(">a\nACGT\nAC&T\n", HSPZ_E_BAD_REQUEST,
           "line 3: byte 0x26 ('&') in column 3 is no base");
    refuse(">a\r\nACGT\r\n5\r\n", HSPZ_E_BAD_REQUEST,
           "line 3: byte 0x35 ('5') in column 1 is no base");
    refuse(">a\rACGT\rA\xc3\xa9\r", HSPZ_E_BAD_REQUEST, "line 3: byte 0xc3 in column 2 is no base");
    refuse_len(">a\nAC\0GT\n", 9, HSPZ_E_BAD_REQUEST, "line 2: byte 0x00 in column 3 is no base");
    refuse(">a\nAC\tGT\n", HSPZ_E_BAD_REQUEST, "line 2: byte 0x09 in column 3 is no base");
    refuse(">a\nACGT  \t A", HSPZ_E_BAD_REQUEST, "line 2: byte 0x20 in column 5 is no base");
    refuse(">a\n ACGT\n", HSPZ_E_BAD_REQUEST, "line 2: byte 0x20 in column 1 is no base");
    refuse(">a\nAC>GT\n", HSPZ_E_BAD_REQUEST, "line 2: byte 0x3e ('>') in column 3 is no base");
    refuse(">a\nAC\n@b\n", HSPZ_E_BAD_REQUEST, "line 3: byte 0x40 ('@') in column 1 is no base");
    refuse(">a\nAC\n;b\n", HSPZ_E_BAD_REQUEST, "line 3: byte 0x3b (';') in column 1 is no base");
    refuse(">a\nAC\n >b\nA\n", HSPZ_E_BAD_REQUEST, "line 3: byte 0x20 in column 1 is no base");
}

static void
test_fasta_refuses_what_holds_no_record(void **state)
{
    (void)state;
    refuse("", HSPZ_E_BAD_FILE, "holds no sequence: it is empty");
    refuse("\n\n", HSPZ_E_BAD_FILE, "holds no sequence: it is blank");
    refuse(" ", HSPZ_E_BAD_FILE, "holds no sequence: it is blank");
    refuse("\r\n \t\r\n", HSPZ_E_BAD_FILE, "holds no sequence: it is blank");
    refuse("ACGT\n", HSPZ_E_BAD_FILE,
           "not a FASTA, FASTQ or 2bit file: line 1 begins with byte 0x41 ('A')");
    refuse("\n\n\x7f"
           "ELF",
           HSPZ_E_BAD_FILE, "not a FASTA, FASTQ or 2bit file: line 3 begins with byte 0x7f");
    refuse(" >a\nA\n", HSPZ_E_BAD_REQUEST, "line 1: byte 0x20 in column 1 is no base");
}

static void
test_fastq_reads_four_lines_a_record(void **state)
{
    (void)state;
    check("@a x\nACGT\n+\n!!~~\n@b\nGG\n+b\n@@\n", "a:1:ACGT b:5:GG ");
    check("@a\r\nACGT\r\n+a x\r\n@+>I\r\n\r\n@b\r\nGG\r\n+\r\n>>", "a:1:ACGT b:6:GG ");
    check("@a\rAC\r+\r++\r@b\rGG\r+\r@@\r", "a:1:AC b:5:GG ");
    check("\n\n@a\nA\n+\n@\n \n\n@b\nnN\t\n+\n@@  \n", "a:3:A b:9:nN ");
    check("@e\n\n+\n\n@f\nA\n+\nI\n", "e:1: f:5:A ");
    check("@f\nA\n+\nI\n@e\n\n+\n", "f:1:A e:5: ");
    check("@f\nA\n+\nI\n@e\n\n+", "f:1:A e:5: ");
    check("@a\nAC\n+\nII", "a:1:AC ");
}

static void
test_fastq_refuses_broken_records_by_line(void **state)
{
    (void)state;
    refuse("@a\nACGT\n+\n!!!\n@b\nA\n+\nI\n", HSPZ_E_BAD_REQUEST,
           "line 4: 3 qualities for 4 bases");
    refuse("@a\nACGT\n+\n!!!!!\n", HSPZ_E_BAD_REQUEST, "line 4: 5 qualities for 4 bases");
    refuse("@a\nACGT\n+\n!!!!!", HSPZ_E_BAD_REQUEST, "line 4: 5 qualities for 4 bases");
    refuse("@a\nACGT\n+\n\n", HSPZ_E_BAD_REQUEST, "line 4: 0 qualities for 4 bases");
    refuse("@a\nAC\nGT\n+\n!!!!\n", HSPZ_E_BAD_REQUEST,
           "line 3: byte 0x47 ('G') in column 1 where the third line of a record begins with '+'");
    refuse("@a\nAC\n\n+\n!!\n", HSPZ_E_BAD_REQUEST,
           "line 3: blank, where the third line of a record begins with '+'");
    refuse("@a\nAC\n+\n!!\nb\n", HSPZ_E_BAD_REQUEST,
           "line 5: byte 0x62 ('b') in column 1 where a record begins with '@'");
    refuse("@a\nAC\n+\n!!\n>b\nAC\n", HSPZ_E_BAD_REQUEST,
           "line 5: byte 0x3e ('>') in column 1 where a record begins with '@'");
    refuse("@a\nAC\n+\n!\x7f\n", HSPZ_E_BAD_REQUEST, "line 4: byte 0x7f in column 2 is no quality");
    refuse("@a\nAC\n+\n! !\n", HSPZ_E_BAD_REQUEST, "line 4: byte 0x20 in column 2 is no quality");
    refuse("@a\nACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT\n+\n"
           "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!\xe9!!\n",
           HSPZ_E_BAD_REQUEST, "line 4: byte 0xe9 in column 38 is no quality");
    refuse("@a\nA1\n+\n!!\n", HSPZ_E_BAD_REQUEST, "line 2: byte 0x31 ('1') in column 2 is no base");
    refuse("@\nAC\n+\n!!\n", HSPZ_E_BAD_REQUEST, "line 1: a sequence has no name");
}

static void
test_fastq_cut_anywhere_inside_a_record_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "@a\nACGT\n+\n!!!!\n@bc\nGGCC\n+\n@@@@\n";
    const size_t len = sizeof(text) - 1;
    size_t whole = 0;
    for (size_t cut = 1; cut <= len; cut++) {
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err;
        const enum hspz_status status = parse(text, cut, 0, &seqs, &err);
        if (status == HSPZ_OK) {
            assert_true(cut == 14 || cut == 15 || cut == len - 1 || cut == len);
            whole++;
        } else if (cut == 1 || cut == 16) {
            assert_int_equal(status, HSPZ_E_BAD_REQUEST); /* "@": no name */
        } else {
            assert_int_equal(status, HSPZ_E_BAD_FILE);
            assert_non_null(strstr(err.text, "cut short: it ends in line "));
        }
        hspz_sequences_destroy(&seqs);
    }
    assert_int_equal(whole, 4);
}

struct sample {
    char text[8192];
    size_t len;
    char want[8192];
};

static void
put(struct sample *sample, const char *text)
{
    const size_t len = strlen(text);
    assert_true(sample->len + len < sizeof(sample->text));
    memcpy(sample->text + sample->len, text, len + 1);
    sample->len += len;
}

/* Random records in a random layout; `want` is known from the records alone. */
static void
make_sample(struct sample *sample, uint64_t *random)
{
    static const char *const ends[] = {"\n", "\r\n", "\n\n", "\r\n\r\n", " \t\n"};
    size_t want_len = 0;
    sample->len = 0;
    uint64_t line = 1;
    const size_t records = 1 + test_random(random) % 8;
    for (size_t r = 0; r < records; r++) {
        char name[16];
        char bases[200];
        snprintf(name, sizeof(name), "n%" PRIu64, test_random(random) % 1000);
        const size_t len = test_random(random) % sizeof(bases);
        for (size_t i = 0; i < len; i++) {
            bases[i] = "ACGTacgtNnRY*-."[test_random(random) % 15];
        }
        want_len += (size_t)snprintf(sample->want + want_len, sizeof(sample->want) - want_len,
                                     "%s:%" PRIu64 ":%.*s ", name, line, (int)len, bases);
        put(sample, ">");
        put(sample, name);
        put(sample, test_random(random) & 1 ? " rest > of it" : "");
        for (size_t i = 0; i <= len;) {
            const size_t end = test_random(random) % 5;
            put(sample, ends[end]);
            line += end == 2 || end == 3 ? 2 : 1;
            const size_t fold = 1 + test_random(random) % 70;
            char piece[80];
            snprintf(piece, sizeof(piece), "%.*s", (int)(len - i < fold ? len - i : fold),
                     bases + i);
            put(sample, piece);
            i += fold;
        }
        if (r + 1 < records || test_random(random) & 1) {
            put(sample, "\n");
            line++;
        }
    }
}

static void
test_fasta_random_layouts_give_the_records(void **state)
{
    (void)state;
    static struct sample sample;
    static char got[8192];
    uint64_t random = 3;
    for (int round = 0; round < 2000; round++) {
        make_sample(&sample, &random);
        const size_t piece = test_random(&random) % 100;
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err;
        if (parse(sample.text, sample.len, piece, &seqs, &err) != HSPZ_OK) {
            fail_msg("%s\n%s", err.text, sample.text);
        }
        describe(seqs, got, sizeof(got));
        assert_string_equal(got, sample.want);
        hspz_sequences_destroy(&seqs);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fasta_reads_every_line_end),
        cmocka_unit_test(test_fasta_skips_blank_lines_and_blanks_at_line_ends),
        cmocka_unit_test(test_fasta_keeps_empty_records),
        cmocka_unit_test(test_fasta_names_are_first_words_byte_for_byte),
        cmocka_unit_test(test_fasta_names_up_to_the_limit),
        cmocka_unit_test(test_fasta_takes_bases_and_refuses_other_bytes_by_place),
        cmocka_unit_test(test_fasta_refuses_what_holds_no_record),
        cmocka_unit_test(test_fastq_reads_four_lines_a_record),
        cmocka_unit_test(test_fastq_refuses_broken_records_by_line),
        cmocka_unit_test(test_fastq_cut_anywhere_inside_a_record_is_an_error),
        cmocka_unit_test(test_fasta_random_layouts_give_the_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
