#include "tests/engine/index_cases.h"

#include <zlib.h>

struct hspz_index_params
index_case_params(const char *pattern, uint32_t step, bool unmask, bool all_positions)
{
    struct hspz_index_params params = {
        .step = step, .unmask = unmask, .all_positions = all_positions};
    assert_int_equal(hspz_shape_parse(pattern, strlen(pattern), &params.shape, NULL), HSPZ_OK);
    return params;
}

void
index_case_add(struct hspz_sequences *seqs, const char *name, const uint8_t *bases, size_t len)
{
    size_t bad;
    assert_int_equal(hspz_sequences_begin(seqs, name, strlen(name), 1, NULL), HSPZ_OK);
    assert_int_equal(hspz_sequences_append(seqs, bases, len, &bad, NULL), HSPZ_OK);
    assert_int_equal(hspz_sequences_end(seqs, NULL), HSPZ_OK);
}

static void
fill_random(uint64_t *random, uint8_t *bases, size_t len)
{
    for (size_t at = 0; at < len;) {
        const size_t piece = 1 + test_random(random) % 60;
        const uint64_t kind = test_random(random) % 10;
        for (size_t i = 0; i < piece && at < len; i++, at++) {
            const char *letters = kind == 0 ? "acgt" : kind == 1 ? "ACGT" : "ACGTACGTACGTACGT";
            bases[at] = (uint8_t)letters[test_random(random) % strlen(letters)];
            if (kind == 2) {
                bases[at] = 'A';
            } else if (kind == 3 && i < 3) {
                bases[at] = (uint8_t) "NnRyx*-."[test_random(random) % 8];
            } else if (kind == 4 && at > 100) {
                bases[at] = bases[at - 100];
            }
        }
    }
}

struct hspz_sequences *
index_case_random(uint64_t *random, size_t count, size_t most, uint64_t block_size)
{
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(block_size, &seqs), HSPZ_OK);
    uint8_t *bases = malloc(most + 1);
    assert_non_null(bases);
    for (size_t s = 0; s < count; s++) {
        const uint64_t kind = test_random(random) % 6;
        size_t len = test_random(random) % (most + 1);
        if (kind < 2) {
            len = kind == 0 ? 0 : len % 30;
        }
        fill_random(random, bases, len);
        char name[32];
        snprintf(name, sizeof(name), "chr%zu|%llu", s, (unsigned long long)kind);
        index_case_add(seqs, name, bases, len);
    }
    free(bases);
    return seqs;
}

struct hspz_sequences *
index_case_fasta(const char *path)
{
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequences_create(0, &seqs), HSPZ_OK);
    static char line[1 << 20];
    bool open = false;
    size_t bad;
    while (gzgets(file, line, sizeof(line)) != NULL) {
        const size_t len = strcspn(line, "\r\n");
        if (line[0] == '>') {
            if (open) {
                assert_int_equal(hspz_sequences_end(seqs, NULL), HSPZ_OK);
            }
            open = true;
            assert_int_equal(
                hspz_sequences_begin(seqs, line + 1, strcspn(line + 1, " \t\r\n"), 1, NULL),
                HSPZ_OK);
        } else {
            assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)line, len, &bad, NULL),
                             HSPZ_OK);
        }
    }
    assert_true(open);
    assert_int_equal(hspz_sequences_end(seqs, NULL), HSPZ_OK);
    gzclose(file);
    return seqs;
}

struct hspz_index *
index_case_build(struct hspz_sequences **seqs, const struct hspz_index_params *params,
                 unsigned threads)
{
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    if (hspz_index_build(seqs, params, threads, 0, NULL, NULL, &index, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    assert_null(*seqs);
    assert_non_null(index);
    return index;
}

struct hspz_index *
index_case_small(uint64_t seed, const char *pattern, uint32_t step)
{
    const struct hspz_index_params params = index_case_params(pattern, step, false, false);
    struct hspz_sequences *seqs = index_case_random(&seed, 12, 400, 700);
    assert_true(hspz_sequences_block_count(seqs) > 1);
    return index_case_build(&seqs, &params, 2);
}
