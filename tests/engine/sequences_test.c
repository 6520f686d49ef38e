#include "engine/sequences.h"

#include "engine/alphabet.h"
#include "engine/block_rule.h"
#include "protocol/limits.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <ctype.h>
#include <stdio.h>
#include <xxhash.h>

static enum hspz_status
add(struct hspz_sequences *seqs, const char *name, const char *bases, uint64_t line,
    struct hspz_error *err)
{
    enum hspz_status status = hspz_sequences_begin(seqs, name, strlen(name), line, err);
    if (status == HSPZ_OK) {
        size_t bad = 0;
        status = hspz_sequences_append(seqs, (const uint8_t *)bases, strlen(bases), &bad, err);
    }
    return status == HSPZ_OK ? hspz_sequences_end(seqs, err) : status;
}

static void
must_add(struct hspz_sequences *seqs, const char *name, const char *bases, uint64_t line)
{
    struct hspz_error err = {0};
    if (add(seqs, name, bases, line, &err) != HSPZ_OK) {
        fail_msg("%s: %s", name, err.text);
    }
}

static void
assert_block(const struct hspz_sequences *seqs, size_t b, const char *bases, size_t first,
             size_t count)
{
    const struct hspz_block block = hspz_sequences_block(seqs, b);
    assert_int_equal(block.len, strlen(bases));
    assert_memory_equal(block.bases, bases, block.len);
    assert_int_equal(block.first_sequence, first);
    assert_int_equal(block.sequence_count, count);
}

static void
test_block_closes_once_it_exceeds_its_size(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(8, &seqs), HSPZ_OK);
    must_add(seqs, "a", "ACGT", 1);
    must_add(seqs, "b", "nnN", 3); /* 8 bytes with the separator: not above 8 yet */
    must_add(seqs, "c", "", 5);
    must_add(seqs, "d", "GGg", 6);
    must_add(seqs, "e", "TTTTTTTTTTTT", 8);
    must_add(seqs, "f", "", 10);
    assert_int_equal(hspz_sequences_count(seqs), 6);
    assert_int_equal(hspz_sequences_block_count(seqs), 3);
    assert_block(seqs, 0, "ACGT&nnN&", 0, 3);
    assert_block(seqs, 1, "GGg&TTTTTTTTTTTT", 3, 2);
    assert_block(seqs, 2, "", 5, 1);
    assert_int_equal(hspz_sequences_bases(seqs), 22);
    assert_int_equal(hspz_sequences_masked(seqs), 3);
    const struct hspz_sequence *e = hspz_sequences_get(seqs, 4);
    assert_string_equal(e->name, "e");
    assert_int_equal(e->len, 12);
    assert_int_equal(e->block, 1);
    assert_int_equal(e->offset, 4);
    assert_int_equal(e->line, 8);
    assert_int_equal(hspz_sequences_get(seqs, 2)->offset, 9);
    assert_int_equal(hspz_sequences_get(seqs, 5)->offset, 0);
    hspz_sequences_destroy(&seqs);
    assert_null(seqs);
    hspz_sequences_destroy(&seqs);
}

static void
test_empty_sequences_keep_their_separators(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    must_add(seqs, "a", "", 1);
    must_add(seqs, "b", "", 2);
    must_add(seqs, "c", "AC", 3);
    must_add(seqs, "d", "", 5);
    assert_int_equal(hspz_sequences_block_count(seqs), 1);
    assert_block(seqs, 0, "&&AC&", 0, 4);
    static const char holder[] = "abcccd";
    for (uint32_t at = 0; at <= 5; at++) {
        assert_int_equal(hspz_sequences_locate(seqs, 0, at)->name[0], holder[at]);
    }
    hspz_sequences_destroy(&seqs);
}

static void
test_block_rule_is_exact_at_the_limit(void **state)
{
    (void)state;
    const uint64_t limit = HSPZ_BLOCK_BASES_LIMIT;
    assert_int_equal(limit, UINT64_C(4294967231)); /* 2^32 - 65 */
    assert_int_equal(hspz_block_rule_size(0, HSPZ_BLOCK_BASES_DEFAULT, limit), 500000000);
    assert_int_equal(hspz_block_rule_size(1, HSPZ_BLOCK_BASES_DEFAULT, limit), 1);
    assert_int_equal(hspz_block_rule_size(limit, HSPZ_BLOCK_BASES_DEFAULT, limit), limit);
    assert_int_equal(hspz_block_rule_size(limit + 1, HSPZ_BLOCK_BASES_DEFAULT, limit), limit);
    assert_int_equal(hspz_block_rule_size(UINT64_MAX, HSPZ_BLOCK_BASES_DEFAULT, limit), limit);

    static const struct {
        uint64_t len;
        size_t count;
        uint64_t block_size, more;
        bool takes;
    } rows[] = {
        {0, 0, 500000000, 0, true},
        {0, 0, 500000000, 4294967231u, true},
        {0, 0, 500000000, 4294967232u, false},
        {0, 0, 500000000, UINT64_MAX, false},
        {0, 1, 500000000, 4294967230u, true},
        {0, 1, 500000000, 4294967231u, false},
        {0, 1, 500000000, UINT64_MAX, false},
        {500000000, 3, 500000000, 3794967230u, true},
        {500000000, 3, 500000000, 3794967231u, false},
        {500000001, 3, 500000000, 0, false},
        {2147483647, 1, 4294967231u, 2147483583u, true},
        {2147483647, 1, 4294967231u, 2147483584u, false},
        {2147483648u, 1, 4294967231u, 2147483582u, true},
        {2147483648u, 1, 4294967231u, 2147483583u, false},
        {4294967230u, 1, 4294967231u, 0, true},
        {4294967230u, 1, 4294967231u, 1, false},
        {4294967231u, 1, 4294967231u, 0, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (hspz_block_rule_takes(rows[i].len, rows[i].count, rows[i].block_size, limit,
                                  rows[i].more) != rows[i].takes) {
            fail_msg("row %zu", i);
        }
    }
}

/* What blocks must hold, from whole sequences, in the plainest way. */
struct model {
    char bases[64][4096];
    size_t len[64], count[64], blocks;
    struct {
        size_t block, offset, len;
    } items[64];
    size_t items_count;
};

static void
model_add(struct model *m, const char *bases, size_t len, size_t block_size, size_t limit)
{
    size_t b = m->blocks == 0 ? 0 : m->blocks - 1;
    if (m->blocks == 0 || m->len[b] > block_size || m->len[b] + 1 + len > limit) {
        b = m->blocks++;
    } else {
        m->bases[b][m->len[b]++] = '&';
    }
    m->items[m->items_count].block = b;
    m->items[m->items_count].offset = m->len[b];
    m->items[m->items_count++].len = len;
    memcpy(m->bases[b] + m->len[b], bases, len);
    m->len[b] += len;
    m->count[b]++;
}

static void
compare_with_model(const struct hspz_sequences *seqs, const struct model *m)
{
    assert_int_equal(hspz_sequences_count(seqs), m->items_count);
    assert_int_equal(hspz_sequences_block_count(seqs), m->blocks);
    size_t first = 0;
    for (size_t b = 0; b < m->blocks; b++) {
        const struct hspz_block block = hspz_sequences_block(seqs, b);
        assert_int_equal(block.len, m->len[b]);
        assert_memory_equal(block.bases, m->bases[b], m->len[b]);
        assert_int_equal(block.sequence_count, m->count[b]);
        assert_int_equal(block.first_sequence, first);
        first += m->count[b];
    }
    for (size_t i = 0; i < m->items_count; i++) {
        const struct hspz_sequence *item = hspz_sequences_get(seqs, i);
        assert_int_equal(item->block, m->items[i].block);
        assert_int_equal(item->offset, m->items[i].offset);
        assert_int_equal(item->len, m->items[i].len);
        /* Every base, and the separator or the end after it, belongs to it. */
        for (uint32_t at = item->offset; at <= item->offset + item->len; at++) {
            assert_ptr_equal(hspz_sequences_locate(seqs, item->block, at), item);
        }
    }
}

static void
test_blocks_equal_a_plain_model_for_random_input(void **state)
{
    (void)state;
    static struct model m;
    static const char alphabet[] = "ACGTacgtNn*-.RYx";
    uint64_t random = 11;
    size_t most_blocks = 0;
    for (int round = 0; round < 3000; round++) {
        memset(&m, 0, sizeof(m));
        const size_t limit = 1 + test_random(&random) % 100;
        const size_t block_size = 1 + test_random(&random) % 60;
        const size_t in_force = block_size < limit ? block_size : limit;
        struct hspz_sequences *seqs = NULL;
        assert_int_equal(hspz_sequences_create_limited(block_size, (uint32_t)limit, &seqs),
                         HSPZ_OK);
        const size_t wanted = test_random(&random) % 40;
        for (size_t i = 0; i < wanted; i++) {
            const size_t most = limit < 30 ? limit : 30;
            const size_t len =
                test_random(&random) % 3 == 0 ? 0 : test_random(&random) % (most + 1);
            uint8_t bases[32];
            for (size_t k = 0; k < len; k++) {
                bases[k] = (uint8_t)alphabet[test_random(&random) % (sizeof(alphabet) - 1)];
            }
            assert_int_equal(hspz_sequences_begin(seqs, "name", 4, i + 1, NULL), HSPZ_OK);
            for (size_t at = 0; at < len;) {
                const size_t piece = 1 + test_random(&random) % (len - at);
                size_t bad = 0;
                assert_int_equal(hspz_sequences_append(seqs, bases + at, piece, &bad, NULL),
                                 HSPZ_OK);
                at += piece;
            }
            assert_int_equal(hspz_sequences_end(seqs, NULL), HSPZ_OK);
            model_add(&m, (const char *)bases, len, in_force, limit);
        }
        compare_with_model(seqs, &m);
        most_blocks = m.blocks > most_blocks ? m.blocks : most_blocks;
        hspz_sequences_destroy(&seqs);
    }
    assert_true(most_blocks > 10);
}

static void
test_append_refuses_a_sequence_over_the_limit(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    size_t bad = 0;
    assert_int_equal(hspz_sequences_create_limited(5, 10, &seqs), HSPZ_OK);
    must_add(seqs, "a", "ACG", 1);
    assert_int_equal(hspz_sequences_begin(seqs, "long", 4, 3, &err), HSPZ_OK);
    assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)"ACGTAC", 6, &bad, &err),
                     HSPZ_OK);
    assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)"ACGTA", 5, &bad, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_int_equal(bad, 5);
    assert_non_null(strstr(err.text, "'long'"));
    assert_non_null(strstr(err.text, "10"));
    assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)"ACGT", 4, &bad, &err), HSPZ_OK);
    assert_int_equal(hspz_sequences_end(seqs, &err), HSPZ_OK);
    assert_int_equal(hspz_sequences_block_count(seqs), 2);
    assert_block(seqs, 0, "ACG", 0, 1);
    assert_block(seqs, 1, "ACGTACACGT", 1, 1);
    hspz_sequences_destroy(&seqs);
}

static void
test_append_refuses_exactly_what_is_no_base(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(hspz_sequences_begin(seqs, "a", 1, 1, &err), HSPZ_OK);
    size_t taken = 0;
    size_t lower = 0;
    for (unsigned c = 0; c < 256; c++) {
        /* In each place of a piece long enough for any way of looking at several bytes at once. */
        for (size_t place = 0; place < 300; place += 37) {
            uint8_t piece[300];
            memset(piece, 'A', sizeof(piece));
            piece[place] = (uint8_t)c;
            size_t bad = SIZE_MAX;
            const enum hspz_status status =
                hspz_sequences_append(seqs, piece, sizeof(piece), &bad, &err);
            if (hspz_base_allowed((uint8_t)c)) {
                assert_int_equal(status, HSPZ_OK);
                taken += sizeof(piece);
                lower += c >= 'a' && c <= 'z';
                continue;
            }
            assert_int_equal(status, HSPZ_E_BAD_REQUEST);
            assert_int_equal(bad, place);
            char hex[8];
            snprintf(hex, sizeof(hex), "0x%02x", c);
            assert_non_null(strstr(err.text, hex));
        }
    }
    assert_int_equal(hspz_sequences_end(seqs, &err), HSPZ_OK);
    assert_int_equal(taken, 55 * 9 * 300);
    assert_int_equal(lower, 26 * 9);
    assert_int_equal(hspz_sequences_bases(seqs), taken);
    assert_int_equal(hspz_sequences_masked(seqs), lower);
    hspz_sequences_destroy(&seqs);
}

static void
test_masked_counts_long_lower_case(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    static char bases[70001];
    memset(bases, 'a', 70000);
    must_add(seqs, "a", bases, 1);
    assert_int_equal(hspz_sequences_masked(seqs), 70000);
    hspz_sequences_destroy(&seqs);
}

static void
test_names_are_words_within_the_limit(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(hspz_sequences_begin(seqs, "", 0, 1, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_sequences_begin(seqs, "a\0b", 3, 1, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "0x00"));
    assert_int_equal(hspz_sequences_begin(seqs, "a\tb", 3, 1, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_sequences_begin(seqs, "a b", 3, 1, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_sequences_begin(seqs, "a\nb", 3, 1, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_sequences_begin(seqs, "a\rb", 3, 1, &err), HSPZ_E_BAD_REQUEST);

    static char longest[HSPZ_SEQUENCE_NAME_LIMIT + 2];
    memset(longest, 'x', sizeof(longest) - 1);
    assert_int_equal(hspz_sequences_begin(seqs, longest, HSPZ_SEQUENCE_NAME_LIMIT + 1, 1, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "65535"));
    assert_int_equal(hspz_sequences_count(seqs), 0);
    assert_int_equal(hspz_sequences_block_count(seqs), 0);

    longest[HSPZ_SEQUENCE_NAME_LIMIT] = '\0';
    must_add(seqs, longest, "A", 1);
    /* Names stay where they are while more come. */
    const char *kept = hspz_sequences_get(seqs, 0)->name;
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "name:%d|\xe5\x90\x8d", i);
        must_add(seqs, name, "A", 1);
    }
    assert_ptr_equal(hspz_sequences_get(seqs, 0)->name, kept);
    assert_string_equal(kept, longest);
    for (size_t i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "name:%zu|\xe5\x90\x8d", i);
        assert_string_equal(hspz_sequences_get(seqs, i + 1)->name, name);
    }
    hspz_sequences_destroy(&seqs);
}

static void
test_check_unique_names_both_lines(void **state)
{
    (void)state;
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    assert_int_equal(hspz_sequences_check_unique(seqs, "x.fa", &err), HSPZ_OK);
    must_add(seqs, "2L", "A", 1);
    must_add(seqs, "2R", "A", 3);
    must_add(seqs, "2", "A", 5);
    assert_int_equal(hspz_sequences_check_unique(seqs, "x.fa", &err), HSPZ_OK);
    must_add(seqs, "2L", "A", 17);
    must_add(seqs, "2", "A", 19);
    must_add(seqs, "2L", "A", 21);
    assert_int_equal(hspz_sequences_check_unique(seqs, "x.fa", &err), HSPZ_E_BAD_REQUEST);
    assert_string_equal(err.text, "x.fa: lines 1 and 17 have the same name '2L'");
    char path[3000];
    memset(path, 'd', sizeof(path));
    strcpy(path + sizeof(path) - 6, "/x.fa");
    assert_int_equal(hspz_sequences_check_unique(seqs, path, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "/x.fa: lines 1 and 17 have"));
    hspz_sequences_destroy(&seqs);

    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    must_add(seqs, "x", "A", 0);
    must_add(seqs, "y", "A", 0);
    must_add(seqs, "y", "A", 0);
    assert_int_equal(hspz_sequences_check_unique(seqs, "-", &err), HSPZ_E_BAD_REQUEST);
    assert_string_equal(err.text, "standard input: records 2 and 3 have the same name 'y'");
    hspz_sequences_destroy(&seqs);
}

static enum hspz_status
fill(struct hspz_sequences **seqs)
{
    static char bases[501];
    memset(bases, 'A', 500);
    enum hspz_status status = hspz_sequences_create_limited(900, 1000, seqs);
    for (int i = 0; status == HSPZ_OK && i < 30; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%d", i);
        status = add(*seqs, name, i % 3 == 0 ? "" : bases, 0, NULL);
    }
    return status == HSPZ_OK ? hspz_sequences_check_unique(*seqs, "x", NULL) : status;
}

static void
test_any_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t failed = 0;
    for (long n = 1;; n++) {
        struct hspz_sequences *seqs = NULL;
        failing_malloc_arm(n);
        const enum hspz_status status = fill(&seqs);
        const bool reached = failing_malloc_disarm();
        if (status == HSPZ_OK) {
            assert_int_equal(hspz_sequences_count(seqs), 30);
            assert_int_equal(hspz_sequences_bases(seqs), 10000);
        } else {
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            assert_true(reached);
            failed++;
        }
        hspz_sequences_destroy(&seqs);
        if (!reached) {
            assert_int_equal(status, HSPZ_OK);
            break;
        }
    }
    assert_true(failed > 10);
}

/* Sequences longer than what is folded at once; the digest is that of one string, whatever the
 * blocks, names and case. (XXH64 of nothing is a published number.) */
static void
test_digest_is_of_the_bases_alone(void **state)
{
    (void)state;
    enum { LEN = 10000 };
    static char bases[LEN + 1], upper[LEN + 1];
    uint64_t random = 9;
    struct hspz_sequences *seqs = NULL;
    for (size_t i = 0; i < LEN; i++) {
        bases[i] = "ACGTacgtNnRy"[test_random(&random) % 12];
        upper[i] = (char)toupper(bases[i]);
    }
    static const size_t cuts[][3] = {{0, 0, LEN}, {1, 4097, LEN}, {5000, 5000, LEN}};
    for (size_t c = 0; c < 3; c++) {
        size_t at = 0;
        assert_int_equal(hspz_sequences_create(c == 0 ? LEN : 100, &seqs), HSPZ_OK);
        for (size_t i = 0; i < 3; i++) {
            char piece[LEN + 1];
            snprintf(piece, sizeof(piece), "%.*s", (int)(cuts[c][i] - at), bases + at);
            at = cuts[c][i];
            assert_int_equal(add(seqs, i % 2 == 0 ? "x" : "y", piece, 1, NULL), HSPZ_OK);
        }
        assert_true(hspz_sequences_digest(seqs) == XXH64(upper, LEN, 0));
        hspz_sequences_destroy(&seqs);
    }
    assert_int_equal(hspz_sequences_create(100, &seqs), HSPZ_OK);
    assert_true(hspz_sequences_digest(seqs) == UINT64_C(0xef46db3751d8e999));
    hspz_sequences_destroy(&seqs);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_closes_once_it_exceeds_its_size),
        cmocka_unit_test(test_empty_sequences_keep_their_separators),
        cmocka_unit_test(test_block_rule_is_exact_at_the_limit),
        cmocka_unit_test(test_blocks_equal_a_plain_model_for_random_input),
        cmocka_unit_test(test_append_refuses_a_sequence_over_the_limit),
        cmocka_unit_test(test_append_refuses_exactly_what_is_no_base),
        cmocka_unit_test(test_masked_counts_long_lower_case),
        cmocka_unit_test(test_names_are_words_within_the_limit),
        cmocka_unit_test(test_check_unique_names_both_lines),
        cmocka_unit_test(test_digest_is_of_the_bases_alone),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
