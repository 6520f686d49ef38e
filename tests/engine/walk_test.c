/* The order of work against plain loops, over a batch that is only numbers: one that is lost, short
 * of memory, or smaller than asked at random. */
#include "engine/walk.h"

#include "engine/score.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define PART_LIMIT 64u
#define WORD_RUNS 1000u

/* ---- what the numbers are ---- */

static uint64_t
mix(uint64_t a, uint64_t b)
{
    uint64_t state = a * 0x100000001b3u + b;
    return test_random(&state);
}

/* Hits of window `w` of a strand in a block; most windows have none. */
static uint64_t
hits_of(unsigned strand, size_t block, uint64_t w)
{
    const uint64_t r = mix(strand * 7 + block, w);
    return r % WORD_RUNS == 0 ? 1 + r / WORD_RUNS % 5 : 0;
}

static uint64_t
anchor_of(unsigned strand, size_t block, uint64_t w, uint64_t k)
{
    return (uint64_t)strand << 63 | (uint64_t)block << 56 | w << 8 | k;
}

/* The HSP that a hit becomes: alone on its diagonal. */
static struct hspz_hsp
hsp_of(uint64_t anchor)
{
    const uint32_t place = (uint32_t)(anchor >> 8) * 8 + (uint32_t)(anchor & 7);
    return (struct hspz_hsp){place, 0, 1, 1 + (int32_t)(anchor >> 56)};
}

static uint64_t
number_of(const struct hspz_hsp *h)
{
    return (uint64_t)h->score << 32 | h->ref_start;
}

/* Everything that comes, as one list of numbers: of each part that is a chunk's first its place and
 * cut, then the anchors; of a chunk's later parts the anchors alone. */
struct list {
    uint64_t *at;
    size_t count, capacity;
};

static void
push(struct list *list, uint64_t value)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 1000;
        list->at = realloc(list->at, list->capacity * sizeof(*list->at));
        assert_non_null(list->at);
    }
    list->at[list->count++] = value;
}

static void
push_chunk(struct list *list, uint64_t interval, unsigned strand, uint64_t batch, size_t block,
           uint64_t number, struct hspz_chunk chunk)
{
    const uint64_t head[] = {UINT64_MAX,      interval,     strand,           batch,
                             block,           number,       chunk.seed_begin, chunk.seed_end,
                             chunk.hit_begin, chunk.hit_end};
    for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
        push(list, head[i]);
    }
}

/* One batch, one block, one chunk after another of at most `cap` hits (no bucket reaches it). */
static void
expect_block(struct list *list, const struct hspz_job_spec *spec, uint64_t interval,
             unsigned strand, uint64_t batch, struct hspz_range windows, size_t block,
             struct hspz_strand_totals *totals)
{
    struct list anchors = {0}, owners = {0};
    for (uint64_t w = windows.begin; w < windows.end; w++) {
        for (uint64_t k = 0; k < hits_of(strand, block, w); k++) {
            push(&anchors, anchor_of(strand, block, w, k));
            push(&owners, w - windows.begin);
        }
    }
    uint64_t number = 0;
    for (uint64_t hit = 0, seed = 0; hit < anchors.count; number++) {
        struct hspz_chunk chunk = {seed, windows.end - windows.begin, hit, anchors.count};
        if (anchors.count - hit > spec->max_hits) {
            chunk.seed_end = owners.at[hit + spec->max_hits - 1];
            while (owners.at[chunk.hit_end - 1] >= chunk.seed_end) {
                chunk.hit_end--;
            }
        }
        push_chunk(list, interval, strand, batch, block, number, chunk);
        for (; hit < chunk.hit_end; hit++) {
            const struct hspz_hsp h = hsp_of(anchors.at[hit]);
            push(list, spec->output == HSPZ_RECORDS_HSPS ? number_of(&h) : anchors.at[hit]);
        }
        seed = chunk.seed_end;
    }
    totals->hits += anchors.count;
    totals->chunks += number;
    free(anchors.at);
    free(owners.at);
}

static int
ascending(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Chunks' HSPs of a strand and block, joined into one group. */
static void
join_groups(const struct list *chunks, unsigned strand, size_t block, struct list *out)
{
    struct list hsps = {0};
    bool ours = false;
    for (size_t i = 0; i < chunks->count; i++) {
        if (chunks->at[i] == UINT64_MAX) {
            ours = chunks->at[i + 2] == strand && chunks->at[i + 4] == block;
            i += 9;
        } else if (ours) {
            push(&hsps, chunks->at[i]);
        }
    }
    if (hsps.count == 0) {
        return;
    }
    qsort(hsps.at, hsps.count, sizeof(*hsps.at), ascending);
    push_chunk(out, 0, strand, 0, block, 0, (struct hspz_chunk){0});
    for (size_t i = 0; i < hsps.count; i++) {
        if (i == 0 || hsps.at[i] != hsps.at[i - 1]) {
            push(out, hsps.at[i]);
        }
    }
    free(hsps.at);
}

static struct list
in_groups(struct list chunks, size_t block_count)
{
    struct list out = {0};
    for (unsigned strand = 0; strand < 2; strand++) {
        for (size_t block = 0; block < block_count; block++) {
            join_groups(&chunks, strand, block, &out);
        }
    }
    free(chunks.at);
    return out;
}

/* Of HSPs parts count their own: no hits then. */
static void
forget_hits(struct list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i] == UINT64_MAX) {
            list->at[i + 8] = 0;
        }
    }
}

static struct list
expect(const struct hspz_walk *walk, struct hspz_job_totals *totals)
{
    struct list list = {0};
    struct hspz_plan_place place;
    for (bool more = hspz_plan_first(&walk->plan, &place); more;
         more = hspz_plan_next(&walk->plan, &place)) {
        const struct hspz_range windows = hspz_plan_windows(&walk->plan, &place);
        struct hspz_strand_totals *t = &totals->strand[place.strand];
        t->batches++;
        t->seeds += windows.end - windows.begin;
        for (size_t block = 0; block < walk->block_count; block++) {
            expect_block(&list, &walk->spec, place.interval, place.strand, place.batch, windows,
                         block, t);
        }
    }
    if (walk->spec.output == HSPZ_RECORDS_HSPS) {
        if (walk->spec.scoring.scope == HSPZ_SCOPE_JOB) {
            list = in_groups(list, walk->block_count);
        }
        forget_hits(&list);
    }
    return list;
}

/* ---- an engine of numbers ---- */

struct fake {
    struct hspz_walk walk;
    uint64_t random;
    bool failing; /* short of memory now and then */
    /* The batch: all of it is gone when it is lost. */
    uint64_t made, counted;
    bool whole;   /* all seeds are made */
    size_t block; /* counted of */
    bool placed;
    uint32_t *sums;
    unsigned losses, failures, smalls;
    uint64_t hsps;  /* that came */
    bool had_batch; /* this step made calls */
};

static bool
chance(struct fake *f, uint64_t one_in)
{
    return test_random(&f->random) % one_in == 0;
}

static enum hspz_status
maybe_fail(struct fake *f)
{
    f->had_batch = true;
    const bool fail = f->failing && chance(f, 20);
    f->failures += fail;
    return fail ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK;
}

static uint64_t
windows_of(const struct fake *f)
{
    return f->walk.at.windows.end - f->walk.at.windows.begin;
}

static void
forget(struct fake *f)
{
    f->made = f->counted = 0;
    f->whole = f->placed = false;
}

static enum hspz_status
fake_seeds(void *user, bool *more)
{
    struct fake *f = user;
    f->made = f->whole ? 0 : f->made;
    f->whole = f->placed = false;
    f->counted = 0;
    const enum hspz_status status = maybe_fail(f);
    if (status == HSPZ_OK) {
        f->made = chance(f, 50) ? windows_of(f) : f->made + (windows_of(f) - f->made + 1) / 2;
        f->whole = f->made == windows_of(f);
        *more = !f->whole;
    }
    return status;
}

static enum hspz_status
fake_count(void *user, struct hspz_walk_count *count)
{
    struct fake *f = user;
    assert_true(f->whole);
    assert_int_equal(f->made, windows_of(f));
    if (count->counted == 0) {
        f->counted = 0;
        f->placed = false;
        assert_int_equal(count->hits, 0);
    }
    assert_int_equal(count->counted, f->counted);
    const enum hspz_status status = maybe_fail(f);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t rest = f->made - f->counted;
    const uint64_t end = chance(f, 2) ? f->made : f->counted + (rest + 1) / 2;
    for (; f->counted < end; f->counted++) {
        count->hits += hits_of(f->walk.at.place.strand, f->walk.at.block,
                               f->walk.at.windows.begin + f->counted);
        f->sums[f->counted] = (uint32_t)count->hits;
    }
    count->seeds = f->made;
    count->counted = f->counted;
    f->block = f->walk.at.block;
    return HSPZ_OK;
}

static enum hspz_status
fake_count_whole(void *user, struct hspz_walk_count *count)
{
    enum hspz_status status;
    do {
        status = fake_count(user, count);
    } while (status == HSPZ_OK && count->counted < count->seeds);
    return status;
}

static void
require_counted(const struct fake *f)
{
    assert_int_equal(f->counted, windows_of(f));
    assert_int_equal(f->block, f->walk.at.block);
}

static enum hspz_status
fake_counted(void *user)
{
    struct fake *f = user;
    require_counted(f);
    const enum hspz_status status = maybe_fail(f);
    f->placed = status == HSPZ_OK;
    return status;
}

static enum hspz_status
fake_cut(void *user, struct hspz_chunk *chunk, bool *more)
{
    struct fake *f = user;
    require_counted(f);
    assert_true(f->placed);
    const enum hspz_status status = maybe_fail(f);
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_prefix prefix = {.sums = f->sums, .count = f->counted};
    *more = hspz_cut_next(f->counted, f->counted == 0 ? 0 : f->sums[f->counted - 1],
                          f->walk.spec.max_hits, hspz_prefix_find_full, &prefix,
                          chunk) == HSPZ_CUT_CHUNK;
    return HSPZ_OK;
}

static void
write_hits(const struct fake *f, uint64_t begin, uint64_t end, uint64_t *out)
{
    uint64_t w = hspz_prefix_lower_bound(f->sums, 0, f->counted, begin + 1);
    for (uint64_t hit = begin; hit < end; hit++) {
        while (f->sums[w] <= hit) {
            w++;
        }
        const uint64_t k = hit - (w == 0 ? 0 : f->sums[w - 1]);
        out[hit - begin] =
            anchor_of(f->walk.at.place.strand, f->walk.at.block, f->walk.at.windows.begin + w, k);
    }
}

static enum hspz_status
fake_expand(void *user, uint64_t begin, uint64_t end, uint64_t *out, uint64_t *count)
{
    struct fake *f = user;
    require_counted(f);
    assert_true(begin < end);
    const enum hspz_status status = maybe_fail(f);
    if (status == HSPZ_OK) {
        *count = chance(f, 3) ? 1 : end - begin;
        write_hits(f, begin, begin + *count, out);
    }
    return status;
}

/* Fails now and then when some HSPs are in the set already. */
static enum hspz_status
fake_extend(void *user, uint64_t begin, uint64_t end, struct hspz_hsp_set *set, uint64_t *count)
{
    struct fake *f = user;
    uint64_t anchors[PART_LIMIT];
    require_counted(f);
    assert_true(f->placed && begin < end);
    uint64_t some = 1 + test_random(&f->random) % PART_LIMIT;
    some = some < end - begin ? some : end - begin;
    write_hits(f, begin, begin + some, anchors);
    for (uint64_t i = 0; i < some; i++) {
        const struct hspz_hsp h = hsp_of(anchors[i]);
        assert_int_equal(hspz_hsp_set_add(set, &h, 1, NULL), HSPZ_OK);
        if (i == 2) {
            const enum hspz_status status = maybe_fail(f);
            if (status != HSPZ_OK) {
                return status;
            }
        }
    }
    f->had_batch = true;
    *count = some;
    return HSPZ_OK;
}

static enum hspz_status
fake_small(void *user, uint64_t *out, size_t capacity, struct hspz_walk_count *count, bool *done)
{
    struct fake *f = user;
    assert_int_equal(f->walk.block_count, 1);
    *done = false;
    forget(f);
    enum hspz_status status = maybe_fail(f);
    if (status != HSPZ_OK || windows_of(f) > 100000) {
        return status;
    }
    f->made = windows_of(f);
    f->whole = true;
    const bool failing = f->failing;
    f->failing = false;
    status = fake_count_whole(f, count);
    f->failing = failing;
    assert_int_equal(status, HSPZ_OK);
    *done = count->hits <= capacity;
    if (*done) {
        write_hits(f, 0, count->hits, out);
        f->smalls++;
    }
    forget(f);
    return HSPZ_OK;
}

static void
lose(struct fake *f)
{
    forget(f);
    if (f->sums != NULL) {
        memset(f->sums, 0xa5, HSPZ_BATCH_POSITIONS * sizeof(*f->sums));
    }
    hspz_walk_lose(&f->walk);
    f->losses++;
}

/* ---- runs ---- */

static void
keep_part(struct list *got, const struct hspz_part *part, struct hspz_part_id *last)
{
    const struct hspz_part_id *id = &part->id;
    assert_true(part->count >= 1);
    assert_int_equal(id->hit_end - id->hit_begin, part->count);
    assert_int_equal(id->part, last->last_part ? 0 : last->part + 1);
    if (id->part == 0) {
        push_chunk(got, id->interval, id->strand, id->batch, id->ref_block, id->chunk,
                   (struct hspz_chunk){id->seed_begin, id->seed_end, id->hit_begin, 0});
    } else {
        assert_int_equal(id->hit_begin, last->hit_end);
    }
    for (size_t i = 0; i < part->count; i++) {
        const struct hspz_hsp *hsps = (const struct hspz_hsp *)(const void *)part->anchors;
        push(got, part->kind == HSPZ_STEP_HSPS ? number_of(&hsps[i]) : part->anchors[i]);
    }
    *last = *id;
}

/* Chunk ends are known from the last part only: the list's heads come without. */
static void
forget_ends(struct list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i] == UINT64_MAX) {
            list->at[i + 9] = 0;
        }
    }
}

struct way {
    bool at_once, small, failing;
    unsigned lose_every;    /* steps; 0: never */
    unsigned replace_every; /* the same: another walk goes on for this one; for HSPs each time after
                               twice as many */
};

static void
replace(struct fake *f, struct hspz_job_spec spec, const struct hspz_shape *shape, size_t blocks)
{
    struct hspz_job_place place = f->walk.kept;
    hspz_walk_end(&f->walk);
    forget(f);
    memset(f->sums, 0xa5, HSPZ_BATCH_POSITIONS * sizeof(*f->sums));
    spec.from = &place;
    assert_int_equal(hspz_walk_begin(&f->walk, &spec, shape, blocks, NULL), HSPZ_OK);
    memset(&place, 0xa5, sizeof(place));
    f->losses++;
}

/* Steps that neither send nor get the job further would go on for ever: so many are too many. */
static void
run(const struct hspz_job_spec *spec, const struct hspz_shape *shape, size_t blocks,
    const struct way *way, uint64_t seed)
{
    struct fake f = {.random = seed, .failing = way->failing};
    f.sums = malloc(HSPZ_BATCH_POSITIONS * sizeof(*f.sums));
    assert_non_null(f.sums);
    const struct hspz_walk_ops ops = {
        .seeds = fake_seeds,
        .count = way->at_once ? fake_count_whole : fake_count,
        .counts_at_once = way->at_once,
        .counted = fake_counted,
        .cut = fake_cut,
        .expand = fake_expand,
        .extend = fake_extend,
        .small = way->small ? fake_small : NULL,
    };
    struct hspz_error err = {0};
    assert_int_equal(hspz_walk_begin(&f.walk, spec, shape, blocks, &err), HSPZ_OK);
    struct hspz_job_totals totals = {0};
    struct list want = expect(&f.walk, &totals), got = {0};
    forget_ends(&want);
    struct hspz_part_id last = {.last_part = true};
    uint64_t buffer[PART_LIMIT];
    unsigned idle = 0, replace_next = way->replace_every, replace_at = replace_next;
    uint64_t sent = 0;
    for (unsigned step = 1;; step++) {
        const bool needed = hspz_walk_needs_batch(&f.walk);
        struct hspz_part part = {.anchors = buffer,
                                 .capacity = 2 + mix(seed, step) % (PART_LIMIT - 1)};
        f.had_batch = false;
        const enum hspz_status status = hspz_walk_step(&f.walk, &ops, &f, &part, &err);
        assert_true(needed || !f.had_batch);
        if (status != HSPZ_OK) {
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            if (way->replace_every != 0 && spec->output != HSPZ_RECORDS_HSPS) {
                replace(&f, *spec, shape, blocks);
            } else {
                lose(&f);
            }
            continue;
        }
        if (part.kind == HSPZ_STEP_DONE) {
            break;
        }
        if (part.kind != HSPZ_STEP_WORKED) {
            const bool hsps = spec->output == HSPZ_RECORDS_HSPS;
            assert_int_equal(part.kind, hsps ? HSPZ_STEP_HSPS : HSPZ_STEP_ANCHORS);
            keep_part(&got, &part, &last);
            f.hsps += hsps ? part.count : 0;
        }
        idle = part.kind != HSPZ_STEP_WORKED ? 0 : idle + 1;
        assert_true(idle < (spec->output == HSPZ_RECORDS_HSPS ? 4000 : 200));
        if (way->lose_every != 0 && step % way->lose_every == 0) {
            lose(&f);
        }
        if (replace_at != 0 && step >= replace_at) {
            replace(&f, *spec, shape, blocks);
            replace_next *= spec->output == HSPZ_RECORDS_HSPS ? 2 : 1;
            replace_at = step + replace_next;
        }
    }
    assert_true(last.last_part);
    assert_int_equal(got.count, want.count);
    assert_memory_equal(got.at, want.at, want.count * sizeof(*want.at));
    assert_true(spec->begin > 0 || want.count > 100);
    for (unsigned strand = 0; strand < 2; strand++) {
        totals.strand[strand].hsps = f.walk.at.totals.strand[strand].hsps;
        sent += totals.strand[strand].hsps;
    }
    assert_int_equal(sent, f.hsps);
    assert_memory_equal(&f.walk.at.totals, &totals, sizeof(totals));
    hspz_walk_end(&f.walk);
    assert_true(way->lose_every == 0 || f.losses > 0);
    assert_true(!way->failing || f.failures > 0);
    assert_true(!way->small || blocks > 1 || spec->interval != 3000 || f.smalls > 5);
    free(want.at);
    free(got.at);
    free(f.sums);
}

static void
test_every_way_gives_the_same_chunks_and_bytes(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {false, false, false, 0, 0}, {true, false, false, 0, 0},  {false, false, false, 1, 0},
        {true, false, false, 1, 0},  {true, true, false, 0, 0},   {true, true, false, 1, 0},
        {true, false, true, 0, 0},   {true, true, true, 0, 0},    {false, false, true, 2, 0},
        {true, true, true, 3, 0},    {false, false, false, 0, 1}, {true, true, false, 3, 2},
        {true, false, true, 2, 5},
    };
    struct hspz_shape shape;
    assert_int_equal(hspz_shape_parse("1111", 4, &shape, NULL), HSPZ_OK);
    const size_t len = 530000;
    uint8_t *query = malloc(len);
    assert_non_null(query);
    memset(query, 'A', len);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        for (size_t blocks = 1; blocks <= 2; blocks++) {
            struct hspz_job_spec spec = {
                .bases = {query, len},
                .strands = HSPZ_STRANDS_BOTH,
                .end = UINT64_MAX,
                .max_hits = w % 2 == 0 ? 100 : 333,
                .hit_limit = UINT64_MAX,
                .keep_words = HSPZ_KEEP_ALL,
                .max_word_count = UINT64_MAX,
            };
            run(&spec, &shape, blocks, &ways[w], w + 1);
            spec.interval = 90000; /* small batches */
            spec.bases.len = 200000;
            spec.max_hits = 50;
            run(&spec, &shape, blocks, &ways[w], w + 100);
            spec.max_hits = HSPZ_MAX_HITS_DEFAULT;
            spec.interval = 3000;
            spec.bases.len = 50000;
            run(&spec, &shape, blocks, &ways[w], w + 200);
            spec.output = HSPZ_RECORDS_HSPS;
            hspz_scoring_init(&spec.scoring);
            for (int scope = 0; scope < 2; scope++) {
                spec.scoring.scope = (enum hspz_hsp_scope)scope;
                spec.max_hits = 20;
                spec.interval = 20000;
                run(&spec, &shape, blocks, &ways[w], w + 300);
                spec.max_hits = HSPZ_MAX_HITS_DEFAULT;
                spec.interval = 0;
                spec.bases.len = 300000;
                run(&spec, &shape, blocks, &ways[w], w + 400);
            }
        }
    }
    free(query);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_gives_the_same_chunks_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
