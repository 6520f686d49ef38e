/* k-mers of a sequence against windows cut out as text, and calls by sequence against calls by
 * those keys. */
#include "engine/filter.h"
#include "engine/kmer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <ctype.h>

#define LONGEST 600

/* Mostly bases of both cases, some N and other bytes. */
static size_t
random_sequence(uint64_t *random, uint8_t *out)
{
    static const char letters[] = "ACGTACGTACGTacgtACGTTTTT";
    static const char others[] = "NnUR-*.\n>@&\xff";
    const size_t len = (size_t)(test_random(random) % LONGEST);
    const uint64_t rare = 2 + test_random(random) % 200;
    for (size_t i = 0; i < len; i++) {
        const uint64_t r = test_random(random);
        out[i] = (uint8_t)(r % rare == 0 ? others[r / 256 % (sizeof(others) - 1)]
                                         : letters[r / 256 % (sizeof(letters) - 1)]);
    }
    return len;
}

/* The window as text, upper case; false: it is no k-mer. */
static bool
cut(const uint8_t *bases, size_t len, size_t at, unsigned k, char *out)
{
    if (len - at < k) {
        return false;
    }
    for (unsigned i = 0; i < k; i++) {
        out[i] = (char)toupper(bases[at + i]);
        if (memchr("ACGT", out[i], 4) == NULL) {
            return false;
        }
    }
    out[k] = '\0';
    return true;
}

static void
turn(const char *from, unsigned k, char *out)
{
    for (unsigned i = 0; i < k; i++) {
        const char c = from[k - 1 - i];
        out[i] = c == 'A' ? 'T' : c == 'C' ? 'G' : c == 'G' ? 'C' : 'A';
    }
    out[k] = '\0';
}

static uint64_t
number_of(const char *text)
{
    uint64_t number = 0;
    for (; *text != '\0'; text++) {
        number = number * 4 + (uint64_t)(strchr("ACGT", *text) - "ACGT");
    }
    return number;
}

/* Keys and places of all windows, the plain way. */
static size_t
expect(const struct hspz_kmers *kmers, uint64_t *keys, uint32_t *from)
{
    size_t count = 0;
    for (size_t at = 0; at < kmers->len; at++) {
        char text[33], turned[33];
        if (cut(kmers->bases, kmers->len, at, kmers->k, text)) {
            turn(text, kmers->k, turned);
            keys[count] = number_of(kmers->canonical && strcmp(turned, text) < 0 ? turned : text);
            from[count++] = (uint32_t)at;
        }
    }
    return count;
}

static void
test_kmers_are_the_windows_of_the_sequence(void **state)
{
    (void)state;
    static uint8_t bases[LONGEST];
    static uint64_t want[LONGEST], got[LONGEST];
    static uint32_t want_from[LONGEST], got_from[LONGEST];
    uint64_t random = 1, all = 0;
    for (unsigned round = 0; round < test_rounds(3000); round++) {
        const size_t len = random_sequence(&random, bases);
        const struct hspz_kmers kmers = {.bases = bases,
                                         .len = len,
                                         .k = 1 + round % HSPZ_KMER_MOST,
                                         .canonical = round / HSPZ_KMER_MOST % 2 == 1};
        const size_t count = expect(&kmers, want, want_from);
        /* In two pieces, which overlap in what windows reach over. */
        const size_t middle = len > 0 ? (size_t)(test_random(&random) % (len + 1)) : 0;
        const size_t first = hspz_kmers_extract(&kmers, 0, middle, got, got_from);
        const size_t rest = hspz_kmers_extract(&kmers, middle, len, got + first, got_from + first);
        for (size_t i = first; i < first + rest; i++) {
            got_from[i] += (uint32_t)middle;
        }
        assert_int_equal(first + rest, count);
        assert_memory_equal(got, want, count * sizeof(*want));
        assert_memory_equal(got_from, want_from, count * sizeof(*want_from));
        all += count;
    }
    assert_true(all > 1000);
}

static void
test_palindromes_and_poly_bases_are_what_they_should_be(void **state)
{
    (void)state;
    static const struct {
        const char *bases;
        unsigned k;
        const char *canonical;
    } cases[] = {
        {"ACGT", 4, "ACGT"},
        {"GAATTC", 6, "GAATTC"},
        {"TTTT", 4, "AAAA"},
        {"TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT", 32, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"gGgGg", 5, "CCCCC"},
        {"T", 1, "A"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct hspz_kmers kmers = {.bases = (const uint8_t *)cases[i].bases,
                                         .len = strlen(cases[i].bases),
                                         .k = cases[i].k,
                                         .canonical = true};
        uint64_t key[32];
        uint32_t from[32];
        assert_int_equal(hspz_kmers_extract(&kmers, 0, kmers.len, key, from), 1);
        assert_int_equal(key[0], number_of(cases[i].canonical));
        assert_int_equal(from[0], 0);
    }
}

/* ---- calls ---- */

static struct hspz_filter *
create(const struct hspz_filter_spec *spec)
{
    struct hspz_filter_plan plan;
    struct hspz_filter *f = NULL;
    assert_int_equal(hspz_filter_plan(spec, 0, &plan, NULL), HSPZ_OK);
    assert_int_equal(hspz_cpu_filter(spec->kind)->create(&plan, &f, NULL), HSPZ_OK);
    return f;
}

static void
run(const struct hspz_filter_ops *ops, struct hspz_filter *f, struct hspz_filter_call *call)
{
    struct hspz_error err = {0};
    if (hspz_filter_run(ops, f, call, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

static void
test_a_sequence_says_what_its_keys_say_with_every_kind(void **state)
{
    (void)state;
    static uint8_t bases[LONGEST];
    static uint64_t keys[LONGEST], found[LONGEST], plain[LONGEST];
    static uint32_t from[LONGEST];
    uint64_t random = 5, hits = 0;
    for (int kind = 0; kind < HSPZ_FILTER_KINDS; kind++) {
        const struct hspz_filter_ops *ops = hspz_cpu_filter((enum hspz_filter_kind)kind);
        for (unsigned round = 0; round < test_rounds(40); round++) {
            /* A tcf takes each of a few short ones over and over into two blocks. */
            const unsigned least = kind == HSPZ_FILTER_TCF ? 16 : 1;
            const struct hspz_filter_spec spec = {
                .kind = (enum hspz_filter_kind)kind,
                .slots = 4096,
                .k = least + (unsigned)(test_random(&random) % (33 - least)),
                .canonical = round % 2 == 0};
            struct hspz_filter *one = create(&spec), *other = create(&spec);
            const size_t len = random_sequence(&random, bases);
            const struct hspz_kmers kmers = {
                .bases = bases, .len = len, .k = spec.k, .canonical = spec.canonical};
            const size_t count = expect(&kmers, keys, from);
            uint8_t yes[LONGEST / 8 + 1], want_yes[LONGEST / 8 + 1] = {0};
            struct hspz_filter_call call = {
                .sequence = bases, .sequence_len = len, .count = len, .yes = yes};
            struct hspz_filter_call by_keys = {.keys = keys, .count = count};
            run(ops, one, &call);
            run(ops, other, &by_keys);
            assert_int_equal(call.yes_count, count);
            for (size_t i = 0; i < count; i++) {
                want_yes[from[i] / 8] |= (uint8_t)(1u << from[i] % 8);
            }
            assert_memory_equal(yes, want_yes, (len + 7) / 8);
            /* Half of the sequence, by one; its keys, by the other. */
            call.op = by_keys.op =
                kind == HSPZ_FILTER_TCF || kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_COUNTER
                    ? HSPZ_FILTER_COUNT
                    : HSPZ_FILTER_QUERY;
            const bool counts = call.op == HSPZ_FILTER_COUNT;
            call.found = found;
            call.count = len / 2;
            by_keys.found = plain;
            run(ops, one, &call);
            run(ops, other, &by_keys);
            size_t n = 0;
            for (size_t i = 0; i < call.count; i++) {
                const bool is_key = n < count && from[n] == i;
                assert_int_equal(found[i], is_key && counts ? plain[n] : 0);
                assert_int_equal(yes[i / 8] >> i % 8 & 1, is_key);
                n += is_key;
                hits += is_key;
            }
            assert_int_equal(call.yes_count, n);
            ops->destroy(&one);
            ops->destroy(&other);
        }
    }
    assert_true(hits > 100);
}

static void
test_a_sequence_is_refused_without_k(void **state)
{
    (void)state;
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_BLOOM, .slots = 64};
    struct hspz_filter *f = create(&spec);
    struct hspz_filter_call call = {
        .sequence = (const uint8_t *)"ACGT", .sequence_len = 4, .count = 4};
    struct hspz_error err = {0};
    assert_int_equal(hspz_filter_run(hspz_cpu_filter(spec.kind), f, &call, &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "no k"));
    hspz_cpu_filter(spec.kind)->destroy(&f);
    struct hspz_filter_plan plan;
    const struct hspz_filter_spec bad[] = {
        {.kind = HSPZ_FILTER_GQF, .slots = 64, .k = 33},
        {.kind = HSPZ_FILTER_GQF, .slots = 64, .canonical = true},
        {.kind = HSPZ_FILTER_COUNTER, .slots = 64, .k = 3, .rate = 0.1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hspz_filter_plan(&bad[i], 0, &plan, &err), HSPZ_E_BAD_REQUEST);
    }
}

static void
test_every_allocation_of_a_call_may_fail(void **state)
{
    (void)state;
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_BLOOM, .slots = 640, .k = 3};
    const struct hspz_filter_ops *ops = hspz_cpu_filter(spec.kind);
    struct hspz_filter *f = create(&spec);
    uint8_t yes[1];
    uint64_t found[8];
    bool done = false;
    long nth = 0;
    while (!done) {
        struct hspz_filter_call call = {.op = HSPZ_FILTER_QUERY,
                                        .sequence = (const uint8_t *)"ACGTACGT",
                                        .sequence_len = 8,
                                        .count = 8,
                                        .yes = yes,
                                        .found = found};
        failing_malloc_arm(++nth);
        const enum hspz_status status = hspz_filter_run(ops, f, &call, NULL);
        done = !failing_malloc_disarm();
        assert_int_equal(status, done ? HSPZ_OK : HSPZ_E_OUT_OF_MEMORY);
    }
    assert_int_equal(nth, 5);
    ops->destroy(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kmers_are_the_windows_of_the_sequence),
        cmocka_unit_test(test_palindromes_and_poly_bases_are_what_they_should_be),
        cmocka_unit_test(test_a_sequence_says_what_its_keys_say_with_every_kind),
        cmocka_unit_test(test_a_sequence_is_refused_without_k),
        cmocka_unit_test(test_every_allocation_of_a_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
