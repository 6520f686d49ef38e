/* KegAlign's own anchors, extended, de-duplicated chunk by chunk and written as KegAlign does: the
 * bytes of its .segments files. */
#include "engine/cpu/cpu_extend.h"
#include "engine/score.h"
#include "engine/sequence_file.h"
#include "tests/support/test.h"

struct set {
    const char *name, *target, *query;
    const char *anchors; /* the set that has them, in the same order */
    int32_t threshold;
    bool entropy;
    size_t hsps; /* as KegAlign's README says */
};

static const struct set sets[] = {
    {"mini8", "mini_t.fa", "mini_q.fa", NULL, 3000, true, 488},
    {"mini8t", "mini_t.fa", "mini_q.fa", NULL, 3000, true, 561},
    {"mini12", "mini_t.fa", "mini_q.fa", NULL, 1500, true, 1351},
    {"mini12step3", "mini_t.fa", "mini_q.fa", NULL, 1500, true, 588},
    {"mini14", "mini_t.fa", "mini_q.fa", NULL, 1500, false, 590},
    {"apple", "apple.fasta.gz", "orange.fasta.gz", NULL, 3000, true, 1226},
    {"applecap", "apple.fasta.gz", "orange.fasta.gz", "apple", 3000, true, 1235},
};

struct lines {
    char **text;
    size_t count, capacity;
};

struct run {
    char *folder, *anchors;
    struct hspz_sequences *target, *query;
    struct hspz_scoring scoring;
    struct hspz_pool *pool;
    struct lines lines[2]; /* of strands */
};

static char *
format(const char *pattern, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, pattern);
    assert_true(vasprintf(&text, pattern, list) >= 0);
    va_end(list);
    return text;
}

static uint8_t *
read_dump(const char *folder, unsigned call, const char *what, size_t *len)
{
    char *path = format("%s/dump/call%u.%s", folder, call, what);
    FILE *there = fopen(path, "rb");
    uint8_t *bytes = NULL;
    if (there != NULL) {
        fclose(there);
        bytes = test_read_file(path, len);
    }
    free(path);
    return bytes;
}

/* As a .segments file has it: 1-based, both ends in; the query counts on its own strand. */
static char *
line_of(const struct run *run, bool minus, const struct hspz_hsp *h)
{
    const uint64_t block_len = hspz_sequences_block(run->query, 0).len;
    const uint64_t first = minus ? block_len - h->query_start - h->length : h->query_start;
    const struct hspz_sequence *t = hspz_sequences_locate(run->target, 0, h->ref_start);
    const struct hspz_sequence *q = hspz_sequences_locate(run->query, 0, (uint32_t)first);
    const uint64_t r = h->ref_start - t->offset;
    const uint64_t s = minus ? q->len - (first - q->offset) - h->length : first - q->offset;
    return format("%s\t%lu\t%lu\t%s\t%lu\t%lu\t%c\t%d\n", t->name, (unsigned long)r + 1,
                  (unsigned long)r + h->length, q->name, (unsigned long)s + 1,
                  (unsigned long)s + h->length, minus ? '-' : '+', h->score);
}

static void
add_line(struct lines *lines, char *text)
{
    if (lines->count == lines->capacity) {
        lines->capacity = lines->capacity * 2 + 64;
        lines->text = realloc(lines->text, lines->capacity * sizeof(*lines->text));
        assert_non_null(lines->text);
    }
    lines->text[lines->count++] = text;
}

static void
extend_chunk(struct run *run, struct hspz_cpu_extender *e, bool minus, const uint64_t *anchors,
             size_t count)
{
    struct hspz_hsp_set set;
    hspz_hsp_set_init(&set, HSPZ_SCOPE_CHUNK, UINT64_MAX);
    for (size_t at = 0; at < count;) {
        size_t extended = 0;
        /* Calls of odd lengths: where one ends changes nothing. */
        const size_t some = count - at < 7777 ? count - at : 7777;
        assert_int_equal(hspz_cpu_extend(e, run->pool, anchors + at, some, &set, &extended, NULL),
                         HSPZ_OK);
        at += extended;
    }
    assert_int_equal(hspz_hsp_set_settle(&set, NULL), HSPZ_OK);
    for (size_t i = 0; i < set.count; i++) {
        add_line(&run->lines[minus], line_of(run, minus, &set.hsps[i]));
    }
    hspz_hsp_set_fini(&set);
}

/* False when there is no such call. */
static bool
extend_call(struct run *run, unsigned call)
{
    size_t rev_len = 0;
    size_t limits_len = 0;
    size_t anchors_len = 0;
    uint8_t *rev = read_dump(run->folder, call, "rev", &rev_len);
    if (rev == NULL) {
        return false;
    }
    char *limits = (char *)read_dump(run->folder, call, "limits.txt", &limits_len);
    uint8_t *bytes = read_dump(run->anchors, call, "anchors.u64", &anchors_len);
    assert_non_null(limits);
    assert_non_null(bytes);
    uint64_t *anchors = malloc(anchors_len + 1);
    assert_non_null(anchors);
    memcpy(anchors, bytes, anchors_len);
    const bool minus = rev[0] == '1';
    const struct hspz_block target = hspz_sequences_block(run->target, 0);
    const struct hspz_block query = hspz_sequences_block(run->query, 0);
    struct hspz_cpu_extender *e = NULL;
    assert_int_equal(
        hspz_cpu_extender_create(
            &(struct hspz_cpu_extend_spec){.ref = {target.bases, target.len},
                                           .query = {query.bases, query.len},
                                           .strand = minus ? HSPZ_STRAND_MINUS : HSPZ_STRAND_PLUS,
                                           .scoring = &run->scoring},
            &e, NULL),
        HSPZ_OK);
    int used = 0;
    unsigned long begin, end;
    for (char *at = limits; sscanf(at, "%*u %*u %lu %lu%n", &begin, &end, &used) == 2; at += used) {
        assert_true(begin <= end && end <= anchors_len / 8);
        extend_chunk(run, e, minus, anchors + begin, end - begin);
    }
    hspz_cpu_extender_destroy(&e);
    free(rev);
    free(limits);
    free(bytes);
    free(anchors);
    return true;
}

static void
compare_lines(const struct run *run, bool minus)
{
    size_t len = 0;
    char *path = format("%s/tmp1.block0.r0.%s.segments", run->folder, minus ? "minus" : "plus");
    char *want = (char *)test_read_file(path, &len);
    const struct lines *lines = &run->lines[minus];
    const char *at = want;
    for (size_t i = 0; i < lines->count; i++) {
        const char *line = lines->text[minus ? lines->count - 1 - i : i];
        if (strncmp(at, line, strlen(line)) != 0) {
            fail_msg("%s: line %zu is not %s", path, i + 1, line);
        }
        at += strlen(line);
    }
    assert_int_equal(at - want, len);
    free(want);
    free(path);
}

static void
check_set(const char *shared, const struct set *set)
{
    struct run run = {0};
    run.folder = format("%s/oracle/%s", shared, set->name);
    run.anchors = format("%s/oracle/%s", shared, set->anchors != NULL ? set->anchors : set->name);
    char *paths[2] = {format("%s/data/%s", shared, set->target),
                      format("%s/data/%s", shared, set->query)};
    assert_int_equal(hspz_sequence_file_read(paths[0], 0, NULL, NULL, &run.target, NULL), HSPZ_OK);
    assert_int_equal(hspz_sequence_file_read(paths[1], 0, NULL, NULL, &run.query, NULL), HSPZ_OK);
    assert_int_equal(hspz_pool_create(2, &run.pool), HSPZ_OK);
    hspz_scoring_init(&run.scoring);
    run.scoring.threshold = set->threshold;
    run.scoring.entropy = set->entropy;
    run.scoring.scope = HSPZ_SCOPE_CHUNK;
    for (unsigned call = 0; extend_call(&run, call); call++) {
    }
    assert_int_equal(run.lines[0].count + run.lines[1].count, set->hsps);
    for (int minus = 0; minus < 2; minus++) {
        compare_lines(&run, minus);
        for (size_t i = 0; i < run.lines[minus].count; i++) {
            free(run.lines[minus].text[i]);
        }
        free(run.lines[minus].text);
    }
    hspz_pool_destroy(&run.pool);
    hspz_sequences_destroy(&run.target);
    hspz_sequences_destroy(&run.query);
    free(paths[0]);
    free(paths[1]);
    free(run.folder);
    free(run.anchors);
}

static void
test_segments_are_kegaligns_byte_for_byte(void **state)
{
    (void)state;
    const char *shared = test_shared_dir();
    if (shared == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        check_set(shared, &sets[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_are_kegaligns_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
