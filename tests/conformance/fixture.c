#include "tests/conformance/fixture.h"

#include "tests/support/test.h"

void
fixture_open(struct fixture *f, const struct hspz_engine_ops *ops, unsigned threads,
             const char *pattern)
{
    *f = (struct fixture){.params = {.step = 1, .all_positions = true}};
    runner_open(&f->runner, ops, threads);
    assert_int_equal(hspz_shape_parse(pattern, strlen(pattern), &f->params.shape, NULL), HSPZ_OK);
}

static void
make_blocks(struct fixture *f, size_t count)
{
    f->block_count = count;
    f->blocks = calloc(count, sizeof(*f->blocks));
    f->bases = calloc(count, sizeof(*f->bases));
    assert_non_null(f->blocks);
    assert_non_null(f->bases);
}

static void
make_block(struct fixture *f, size_t b, const char *bases, size_t len)
{
    f->bases[b] = strndup(bases, len);
    assert_non_null(f->bases[b]);
    f->blocks[b] = model_index_make(f->params.shape.pattern, bases, len, 0, 1);
}

void
fixture_load(struct fixture *f, const char *bases)
{
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    const size_t len = strlen(bases);
    make_blocks(f, 1);
    make_block(f, 0, bases, len);
    if (hspz_index_from_tables(&f->params, (const uint8_t *)bases, (uint32_t)len,
                               f->blocks[0].table, f->blocks[0].pos, f->blocks[0].pos_count, &index,
                               &err) != HSPZ_OK ||
        f->runner.ops->load(f->runner.engine, index, &f->ref, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    hspz_index_release(&index);
}

static void
add_sequence(struct hspz_sequences *seqs, int number, uint64_t *seed)
{
    struct hspz_error err = {0};
    char *bases = random_sequence(seed, number == 4 ? 0 : 200 + test_random(seed) % 900);
    for (char *c = bases; *c != '\0'; c++) {
        *c = *c == '&' ? 'N' : *c;
    }
    char name[8];
    snprintf(name, sizeof(name), "s%d", number);
    size_t bad;
    assert_int_equal(hspz_sequences_begin(seqs, name, strlen(name), 0, &err), HSPZ_OK);
    assert_int_equal(hspz_sequences_append(seqs, (const uint8_t *)bases, strlen(bases), &bad, &err),
                     HSPZ_OK);
    assert_int_equal(hspz_sequences_end(seqs, &err), HSPZ_OK);
    free(bases);
}

void
fixture_load_blocks(struct fixture *f, uint64_t *seed)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequences_create(1500, &seqs), HSPZ_OK);
    for (int i = 0; i < 9; i++) {
        add_sequence(seqs, i, seed);
    }
    if (hspz_index_build(&seqs, &f->params, 2, 0, NULL, NULL, &index, &err) != HSPZ_OK ||
        f->runner.ops->load(f->runner.engine, index, &f->ref, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    make_blocks(f, hspz_index_block_count(index));
    assert_true(f->block_count > 2);
    for (size_t b = 0; b < f->block_count; b++) {
        const struct hspz_index_block block = hspz_index_get_block(index, b);
        make_block(f, b, (const char *)block.bases, block.bases_len);
    }
    hspz_index_release(&index);
}

void
fixture_unload(struct fixture *f)
{
    f->runner.ops->unload(&f->ref);
    for (size_t i = 0; i < f->block_count; i++) {
        model_index_free(&f->blocks[i]);
        free(f->bases[i]);
    }
    free(f->blocks);
    free(f->bases);
    f->blocks = NULL;
    f->bases = NULL;
    f->block_count = 0;
}

void
fixture_close(struct fixture *f)
{
    fixture_unload(f);
    runner_close(&f->runner);
}

struct model_job
fixture_job(const struct fixture *f, const char *query)
{
    return (struct model_job){
        .pattern = f->params.shape.pattern,
        .blocks = f->blocks,
        .bases = (const char *const *)f->bases,
        .block_count = f->block_count,
        .query = query,
        .strands = HSPZ_STRANDS_BOTH,
        .transitions = 1,
        .end = UINT64_MAX,
        .max_hits = HSPZ_MAX_HITS_DEFAULT,
        .max_word_count = UINT64_MAX,
        .keep_words = HSPZ_KEEP_ALL,
    };
}

char *
random_sequence(uint64_t *seed, size_t len)
{
    char *bases = malloc(len + 1);
    assert_non_null(bases);
    for (size_t i = 0; i < len; i++) {
        const uint64_t r = test_random(seed);
        bases[i] = "ACGT"[r & 3];
        if (i > 40 && r >> 8 & 1) {
            bases[i] = bases[i - 37];
        }
        if ((r >> 16) % 61 == 0) {
            bases[i] = "NacgtRY&n-"[(r >> 24) % 10];
        }
    }
    bases[len] = '\0';
    return bases;
}
