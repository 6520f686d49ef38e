#include "client/rows.h"

#include "tests/support/test.h"

#include <inttypes.h>

#define SPAN 5u

/* Sequences of a block as the text shows them, from the names "0", "1", ...: each base stands as
 * the last digit of its sequence, so that a place in the block is looked up by looking. */
static char *
make_block(uint64_t *random, size_t count, struct hspz_places *places, uint32_t block)
{
    char *text = calloc(1, 64 * count + 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t bases =
            test_random(random) % 4 == 0 ? test_random(random) % 5 : test_random(random) % 40;
        if (i > 0) {
            text[len++] = '&';
        }
        char name[24];
        const int name_len = snprintf(name, sizeof(name), "b%us%zu", block, i);
        assert_int_equal(hspz_places_add(places, name, (size_t)name_len, bases, block, len),
                         HSPZ_OK);
        memset(text + len, 'x', bases);
        len += bases;
    }
    return text;
}

/* Sequence number and offset of a window, walking from the start; false when it touches an '&'. */
static bool
look_up(const char *text, size_t begin, size_t *sequence, size_t *offset)
{
    *sequence = 0;
    *offset = 0;
    if (begin + SPAN > strlen(text)) {
        return false;
    }
    for (size_t i = 0; i < begin; i++) {
        if (text[i] == '&') {
            ++*sequence;
            *offset = 0;
        } else {
            ++*offset;
        }
    }
    return memchr(text + begin, '&', SPAN) == NULL;
}

/* One anchor through hspz_rows_write; the line, or NULL when it was refused. */
static char *
one_line(const struct hspz_rows *rows, enum hspz_strand strand, uint32_t block, uint64_t ref,
         uint64_t query)
{
    const struct hspz_part_id id = {.strand = strand, .ref_block = block};
    uint8_t bytes[9];
    const uint64_t anchor = ref | query << 32;
    for (size_t i = 0; i < 8; i++) {
        bytes[1 + i] = (uint8_t)(anchor >> (8 * i)); /* at an odd address, little-endian */
    }
    char *before = hspz_output_room(rows->output, HSPZ_OUTPUT_ROOM);
    assert_non_null(before);
    const enum hspz_status status = hspz_rows_write(rows, &id, bytes + 1, 1, NULL);
    char *after = hspz_output_room(rows->output, 0);
    assert_true(status == HSPZ_OK || status == HSPZ_E_BAD_PEER);
    assert_int_equal(after > before, status == HSPZ_OK);
    return status == HSPZ_OK ? strndup(before, (size_t)(after - before)) : NULL;
}

static void
check_all_places(uint64_t seed)
{
    uint64_t random = seed;
    struct hspz_places refs;
    struct hspz_places queries;
    hspz_places_init(&refs, false);
    hspz_places_init(&queries, false);
    char *const ref[2] = {make_block(&random, 5, &refs, 0), make_block(&random, 4, &refs, 1)};
    char *const query = make_block(&random, 4, &queries, 0);
    const size_t query_len = strlen(query);
    struct hspz_output *output = NULL;
    assert_int_equal(hspz_output_open("/dev/null", &output, NULL), HSPZ_OK);
    const struct hspz_rows rows = {
        .refs = &refs,
        .queries = &queries,
        .query_len = query_len,
        .span = SPAN,
        .output = output,
    };
    for (unsigned n = 0; n < 3000; n++) {
        const uint32_t block = (uint32_t)(test_random(&random) % 2);
        const enum hspz_strand strand = (enum hspz_strand)(test_random(&random) % 2);
        const uint64_t r = test_random(&random) % (strlen(ref[block]) + 8);
        const uint64_t q = test_random(&random) % (query_len + 8);
        char *line = one_line(&rows, strand, block, r, q);
        size_t rs, ro, qs, qo;
        bool good =
            r >= SPAN && q >= SPAN && q <= query_len && look_up(ref[block], r - SPAN, &rs, &ro);
        if (good) {
            /* A window that ends at q on the reverse strand begins at query_len - q. */
            good = look_up(query, strand == HSPZ_STRAND_PLUS ? q - SPAN : query_len - q, &qs, &qo);
        }
        assert_int_equal(line != NULL, good);
        if (good) {
            char want[128];
            snprintf(want, sizeof(want), "b%us%zu\t%zu\t%zu\tb0s%zu\t%zu\t%zu\t%c\n", block, rs, ro,
                     ro + SPAN, qs, qo, qo + SPAN, strand == HSPZ_STRAND_PLUS ? '+' : '-');
            assert_string_equal(line, want);
        }
        free(line);
    }
    hspz_output_close(&output);
    hspz_places_fini(&refs);
    hspz_places_fini(&queries);
    free(ref[0]);
    free(ref[1]);
    free(query);
}

static void
test_rows_equal_looking_it_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        check_all_places(seed);
    }
}

static void
test_numbers_print_as_printf_does(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (unsigned n = 0; n < 100000; n++) {
        const uint64_t value = test_random(&random) >> (test_random(&random) % 64);
        char got[32];
        char want[32];
        *hspz_rows_number(got, value) = '\0';
        snprintf(want, sizeof(want), "%" PRIu64, value);
        assert_string_equal(got, want);
    }
    char got[32];
    *hspz_rows_number(got, UINT64_MAX) = '\0';
    assert_string_equal(got, "18446744073709551615");
}

static void
test_places_refuse_what_overlaps(void **state)
{
    (void)state;
    struct hspz_places places;
    hspz_places_init(&places, false);
    assert_int_equal(hspz_places_add(&places, "a", 1, 10, 1, 5), HSPZ_OK);
    assert_int_equal(hspz_places_add(&places, "b", 1, 10, 1, 14), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_places_add(&places, "b", 1, 10, 0, 50), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_places_add(&places, "b", 1, 10, UINT64_C(1) << 32, 0),
                     HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_places_add(&places, "b", 1, UINT64_MAX, 1, 16), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_places_add(&places, "b", 1, 10, 1, 16), HSPZ_OK);
    size_t hint = 0;
    assert_ptr_equal(hspz_places_find(&places, 1, 16, 26, &hint), &places.items[1]);
    assert_null(hspz_places_find(&places, 1, 14, 17, &hint));
    assert_null(hspz_places_find(&places, 0, 5, 6, &hint));
    hspz_places_fini(&places);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_equal_looking_it_up),
        cmocka_unit_test(test_numbers_print_as_printf_does),
        cmocka_unit_test(test_places_refuse_what_overlaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
