/* Exact counters on a device against sorted arrays, and against the CPU's: the same counts and, by
 * files, the same content.
 *
 *   cuda_counter_test [quick|least]     least: under a sanitizer */
#include "engine/cuda/filter_counter.h"
#include "engine/filter_hash.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define MEMORY (UINT64_C(1) << 30)

static const struct hspz_filter_ops *
ops(void)
{
    return hspz_cuda_filter(HSPZ_FILTER_COUNTER);
}

/* ---- what is to be there ---- */

/* Everything that went in: keys, and how often; a key may be there again and again. */
struct log {
    uint64_t (*all)[2];
    size_t count;
};

static void
log_add(struct log *log, uint64_t key, uint64_t n)
{
    if (log->count % 4096 == 0) {
        log->all = realloc(log->all, (log->count + 4096) * sizeof(*log->all));
        assert_non_null(log->all);
    }
    log->all[log->count][0] = key;
    log->all[log->count++][1] = n;
}

static int
by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t
plus(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Each key once, in order, those that are never there left out; the sum of counts. */
static uint64_t
log_reduce(struct log *log)
{
    uint64_t total = 0;
    size_t made = 0;
    if (log->count > 0) {
        qsort(log->all, log->count, sizeof(*log->all), by_key);
    }
    for (size_t i = 0; i < log->count; i++) {
        const uint64_t key = log->all[i][0], n = log->all[i][1];
        total = plus(total, n);
        if (n == 0) {
            continue;
        }
        if (made > 0 && log->all[made - 1][0] == key) {
            log->all[made - 1][1] = plus(log->all[made - 1][1], n);
        } else {
            log->all[made][0] = key;
            log->all[made++][1] = n;
        }
    }
    log->count = made;
    return total;
}

/* ---- what is there ---- */

static size_t
enumerate(const struct hspz_filter_ops *with, struct hspz_filter *f, size_t at_once,
          uint64_t (**out)[2])
{
    struct hspz_filter_entry *some = malloc(at_once * sizeof(*some));
    uint64_t cursor = 0;
    size_t all = 0, count = 1;
    *out = NULL;
    while (count > 0) {
        assert_int_equal(with->enumerate(f, &cursor, some, at_once, &count, NULL), HSPZ_OK);
        assert_true(count <= at_once);
        *out = realloc(*out, (all + count + 1) * sizeof(**out));
        assert_non_null(*out);
        for (size_t i = 0; i < count; i++, all++) {
            (*out)[all][0] = some[i].fingerprint;
            (*out)[all][1] = some[i].count;
            assert_int_equal(some[i].value, 0);
        }
    }
    free(some);
    return all;
}

static void
must_run(const struct hspz_filter_ops *with, struct hspz_filter *f, struct hspz_filter_call *call)
{
    struct hspz_error err = {0};
    if (hspz_filter_run(with, f, call, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

/* That the filter has the log's keys and no others, by listing, numbers, counts and queries. */
static void
check(const struct hspz_filter_ops *with, struct hspz_filter *f, struct log *log, uint64_t total)
{
    uint64_t(*got)[2];
    /* One place at a time would take a launch each. */
    const size_t entries = enumerate(with, f, 100 + log->count % 5000, &got);
    qsort(got, entries, sizeof(*got), by_key);
    assert_int_equal(entries, log->count);
    if (entries > 0) {
        assert_memory_equal(got, log->all, entries * sizeof(*got));
    }
    struct hspz_filter_stats stats;
    with->stats(f, &stats);
    assert_int_equal(stats.entries, entries);
    assert_int_equal(stats.total, total);
    uint64_t *keys = malloc((entries + 1) * sizeof(*keys));
    uint64_t *found = malloc((entries + 1) * sizeof(*found));
    uint8_t *yes = malloc(entries / 8 + 1);
    for (size_t i = 0; i < entries; i++) {
        keys[i] = got[entries - 1 - i][0];
    }
    struct hspz_filter_call call = {
        .op = HSPZ_FILTER_COUNT, .keys = keys, .count = entries, .yes = yes, .found = found};
    must_run(with, f, &call);
    assert_int_equal(call.yes_count, entries);
    for (size_t i = 0; i < entries; i++) {
        assert_true(bit(yes, i));
        assert_int_equal(found[i], got[entries - 1 - i][1]);
    }
    call.op = HSPZ_FILTER_QUERY;
    must_run(with, f, &call);
    assert_int_equal(call.yes_count, entries);
    for (size_t i = 0; i < entries; i++) {
        assert_true(bit(yes, i) && found[i] == 0);
    }
    free(keys);
    free(found);
    free(yes);
    free(got);
}

/* Both engines' image of the device's filter, and the device's of the CPU's. */
static void
check_files(struct pair *pair, struct log *log, uint64_t total)
{
    for (int i = 0; i < 2; i++) {
        struct hspz_filter_image image;
        struct hspz_filter *made = NULL;
        struct hspz_error err = {0};
        assert_int_equal(pair->ops[i]->save(pair->filter[i], NULL, &image, &err), HSPZ_OK);
        assert_int_equal(image.entries, log->count);
        assert_int_equal(image.total, total);
        assert_int_equal(pair->ops[i]->image_bytes(pair->filter[i]),
                         image.bytes[0] + image.bytes[1]);
        if (pair->ops[1 - i]->load(&pair->plan, &image, NULL, &made, &err) != HSPZ_OK) {
            fail_msg("%s", err.text);
        }
        check(pair->ops[1 - i], made, log, total);
        pair->ops[1 - i]->destroy(&made);
        hspz_filter_image_fini(&image);
    }
}

/* ---- counts ---- */

/* n keys, of which many are there once and some often. */
static uint64_t *
random_keys(uint64_t *random, size_t n, unsigned k)
{
    const uint64_t mask = k == 0 ? UINT64_MAX : UINT64_MAX >> (64 - 2 * k);
    uint64_t *keys = malloc((n + 1) * sizeof(*keys));
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = test_random(random);
        keys[i] = (r % 4 == 0    ? hspz_filter_mix(r >> 8 & 1023)
                   : r % 97 == 1 ? UINT64_MAX
                   : r % 97 == 2 ? 0
                                 : hspz_filter_mix(r)) &
                  mask;
    }
    return keys;
}

/* To both, which have room for all, and to the log; how many there were. */
static size_t
insert(struct pair *pair, struct log *log, const uint64_t *keys, const uint64_t *counts, size_t n)
{
    struct answers answers[2];
    const struct hspz_filter_call call = {
        .op = HSPZ_FILTER_INSERT, .keys = keys, .counts = counts, .count = n};
    run_both(pair, &call, answers);
    for (size_t i = 0; i < n; i++) {
        assert_true(bit(answers[0].yes, i));
        log_add(log, keys[i], counts != NULL ? counts[i] : 1);
    }
    assert_int_equal(answers[0].call.yes_count, n);
    assert_int_equal(answers[1].call.yes_count, n);
    assert_false(answers[0].call.full);
    free_answers(answers);
    return n;
}

static void
test_counts_are_exact_for_every_k(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    static const unsigned ks[] = {0, 1, 2, 4, 5, 8, 9, 11, 13, 15, 21, 27, 31, 32};
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 4;
    for (size_t i = 0; i<sizeof(ks) / sizeof(ks[0]); i += less> 1 ? 4 : 1) {
        const size_t n = less > 1 ? 5000 : less == 1 ? 20000 + 30000 * (i % 3 == 0) : 700000;
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){
                        .kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = ks[i], .seed = i});
        struct log log = {0};
        uint64_t *keys = random_keys(&random, n, ks[i]);
        uint64_t *counts = malloc(n * sizeof(*counts));
        for (size_t at = 0; at < n; at++) {
            counts[at] = test_random(&random) % 7 == 0 ? test_random(&random) >> 30 : at % 3;
        }
        const size_t part[] = {n / 2, n / 4, 33, 0, n / 4 - 33};
        size_t done = 0;
        for (size_t p = 0; p < sizeof(part) / sizeof(part[0]); p++) {
            done += insert(&pair, &log, keys + done, p % 2 == 1 ? counts : NULL, part[p]);
        }
        const uint64_t total = log_reduce(&log);
        check(pair.ops[0], pair.filter[0], &log, total);
        check_files(&pair, &log, total);
        struct answers answers[2];
        uint64_t *others = random_keys(&random, 3000, ks[i]);
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_COUNT, .keys = others, .count = 3000};
        run_both(&pair, &call, answers);
        assert_memory_equal(answers[0].yes, answers[1].yes, 3000 / 8);
        assert_memory_equal(answers[0].found, answers[1].found, 3000 * sizeof(uint64_t));
        free_answers(answers);
        free(others);
        free(keys);
        free(counts);
        free(log.all);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* One key alone, in runs of all lengths; and the most that a count can be. */
static void
test_equal_keys_and_the_largest_counts(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 32});
    const size_t most = less > 1 ? 6000 : less == 1 ? 20000 : 3000000;
    struct log log = {0};
    uint64_t *keys = malloc(most * sizeof(*keys)), random = 3;
    for (size_t i = 0, key = 0; i < most; key++) {
        const size_t run = key < 70 ? key : key == 70 ? most / 2 : 1 + test_random(&random) % 900;
        for (size_t r = 0; r < run && i < most; r++) {
            keys[i++] = key * UINT64_C(0x1234567890abcdef);
        }
    }
    insert(&pair, &log, keys, NULL, most);
    uint64_t total = log_reduce(&log);
    check(pair.ops[0], pair.filter[0], &log, total);
    const uint64_t large[] = {7, 8, 7, 9, 8, 10, 0, UINT64_MAX};
    const uint64_t counts[] = {1, UINT64_MAX - 1, 5, 0, 3, 1, UINT64_MAX, 2};
    insert(&pair, &log, large, counts, 8);
    check(pair.ops[0], pair.filter[0], &log, (log_reduce(&log), UINT64_MAX));
    check_files(&pair, &log, UINT64_MAX);
    insert(&pair, &log, large, NULL, 8);
    check(pair.ops[0], pair.filter[0], &log, (log_reduce(&log), UINT64_MAX));
    free(keys);
    free(log.all);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* Both strands of a text with gaps, in both engines, with and without answers. */
static void
test_sequences_are_counted_as_the_cpu_does(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    static const unsigned ks[] = {1, 2, 15, 21, 31, 32};
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 9;
    for (size_t i = 0; i<2 * sizeof(ks) / sizeof(ks[0]); i += less> 1 ? 7 : 1) {
        const size_t len = less > 1 ? 3000 : less == 1 ? 9000 : 400000;
        struct pair pair = open_pair(engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER,
                                                                       .capacity = 1,
                                                                       .k = ks[i / 2],
                                                                       .canonical = i % 2 == 0});
        uint8_t *bases = malloc(len);
        for (size_t at = 0; at < len; at++) {
            const uint64_t r = test_random(&random);
            /* It comes again, and it is its own complement here and there. */
            bases[at] = at > 500 && r % 1000 != 0 ? bases[at - 300 - at % 2]
                                                  : (uint8_t) "ACGTacgtNACGTAT"[r / 1000 % 15];
        }
        memcpy(bases + len / 2, "ACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT", 40);
        struct answers answers[2];
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len - 7};
        for (int round = 0; round < 2; round++) {
            struct hspz_filter_call silent = call;
            run_both(&pair, &call, answers);
            assert_int_equal(answers[0].call.yes_count, answers[1].call.yes_count);
            assert_memory_equal(answers[0].yes, answers[1].yes, (len - 7) / 8);
            free_answers(answers);
            for (int e = 0; e < 2; e++) {
                must_run(pair.ops[e], pair.filter[e], &silent);
            }
        }
        struct log log = {0};
        log.count = enumerate(pair.ops[1], pair.filter[1], 1000, &log.all);
        const uint64_t total = log_reduce(&log);
        assert_true(total > 0);
        check(pair.ops[0], pair.filter[0], &log, total);
        struct hspz_filter_call asked = call;
        asked.op = HSPZ_FILTER_COUNT;
        run_both(&pair, &asked, answers);
        assert_memory_equal(answers[0].found, answers[1].found, (len - 7) * sizeof(uint64_t));
        free_answers(answers);
        free(log.all);
        free(bases);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* ---- memory ---- */

/* With less and less of it: what went in is exact, what did not is said. */
static void
test_what_did_not_fit_is_said_and_the_rest_is_exact(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 31;
    unsigned full = 0;
    for (unsigned round = 0; round < (less > 1 ? 2u : less == 1 ? 12u : 40u); round++) {
        const unsigned k = (const unsigned[]){31, 0, 8, 21}[round % 4];
        const size_t n = 30000;
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = k});
        struct hspz_filter *f = pair.filter[0];
        struct log log = {0};
        struct hspz_filter_stats stats;
        uint64_t *keys = random_keys(&random, n, k);
        uint64_t *counts = malloc(n * sizeof(*counts));
        uint8_t *yes = malloc(n / 8 + 1);
        for (size_t i = 0; i < n; i++) {
            counts[i] = 1 + (i % 5 == 0) * (test_random(&random) >> 20) - (i % 17 == 0);
        }
        ops()->stats(f, &stats);
        const uint64_t least = stats.bytes;
        for (unsigned part = 0; part < 3; part++) {
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                            .keys = keys,
                                            .count = n / (part + 1),
                                            .counts = part == 1 ? counts : NULL,
                                            .memory_bytes = least + round * 40000 + part * 9000,
                                            .yes = yes};
            memset(yes, 0xaa, n / 8 + 1);
            must_run(ops(), f, &call);
            uint64_t went = 0;
            for (size_t i = 0; i < call.count; i++) {
                if (bit(yes, i)) {
                    went++;
                    log_add(&log, keys[i], part == 1 ? counts[i] : 1);
                } else {
                    assert_true(part != 1 || counts[i] != 0);
                }
            }
            assert_int_equal(went, call.yes_count);
            assert_int_equal(call.full, went < call.count);
            full += call.full;
            ops()->stats(f, &stats);
            assert_true(stats.bytes <= call.memory_bytes);
            const uint64_t total = log_reduce(&log);
            struct log copy = {malloc((log.count + 4096) / 4096 * 4096 * sizeof(*log.all)),
                               log.count};
            memcpy(copy.all, log.all, log.count * sizeof(*log.all));
            if (part == 0) {
                check(ops(), f, &copy, total);
            } else {
                uint64_t(*got)[2];
                assert_int_equal(enumerate(ops(), f, 3000, &got), log.count);
                qsort(got, log.count, sizeof(*got), by_key);
                assert_memory_equal(got, log.all, log.count * sizeof(*got));
                free(got);
            }
            free(log.all);
            log = copy;
        }
        /* The rest goes in as soon as there is memory. */
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n};
        must_run(ops(), f, &call);
        assert_int_equal(call.yes_count, n);
        free(keys);
        free(counts);
        free(yes);
        free(log.all);
        close_pair(&pair);
    }
    assert_true(full > (less > 1 ? 0 : 10));
    hspz_cuda_engine.close(&engine);
}

/* With what `room` says beside what it has, nothing is refused. */
static void
test_room_is_enough(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 33;
    for (unsigned round = 0; round < (less > 1 ? 1u : 6u); round++) {
        const unsigned k = (const unsigned[]){31, 0, 14}[round % 3];
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = k});
        struct hspz_filter *f = pair.filter[0];
        for (unsigned part = 0; part < 9; part++) {
            const size_t n = 100 + test_random(&random) % 20000;
            uint64_t *keys = random_keys(&random, n, k), *counts = malloc(n * sizeof(*counts));
            struct hspz_filter_stats stats;
            for (size_t i = 0; i < n; i++) {
                counts[i] = 1 + (round + part) % 2;
            }
            ops()->stats(f, &stats);
            struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                            .keys = keys,
                                            .count = n,
                                            .counts = counts,
                                            .memory_bytes = stats.bytes + ops()->room(f, n)};
            must_run(ops(), f, &call);
            assert_false(call.full);
            assert_int_equal(call.yes_count, n);
            free(keys);
            free(counts);
        }
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* A device with little memory: the same, without a word of a limit. */
static void
test_a_small_device_refuses_and_gives_back(void **state)
{
    if (*(const unsigned *)*state > 1) {
        skip();
    }
    struct hspz_engine *engine = open_engine(UINT64_C(24) << 20);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 31});
    struct hspz_filter *f = pair.filter[0];
    const size_t n = 100000;
    uint64_t *keys = malloc(n * sizeof(*keys)), went = 0, sure = 0, random = 12;
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n};
    while (!call.full) {
        struct hspz_error err = {0};
        for (size_t i = 0; i < n; i++) {
            keys[i] = test_random(&random) >> 2;
        }
        const enum hspz_status status = ops()->run(f, &call, &err);
        if (status != HSPZ_OK) { /* no memory for the keys themselves */
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            break;
        }
        went += call.yes_count;
        sure++;
        assert_true(sure < 100);
    }
    struct hspz_filter_stats stats;
    ops()->stats(f, &stats);
    assert_true(went > 200000);
    assert_int_equal(stats.total, went);
    assert_true(stats.bytes < UINT64_C(24) << 20);
    free(keys);
    close_pair(&pair);
    /* All of it is there again. */
    pair = open_pair(engine, (struct hspz_filter_spec){
                                 .kind = HSPZ_FILTER_COUNTER, .capacity = 1000000, .k = 31});
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

static void
test_single_keys_need_far_less_than_pairs(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 21});
    const size_t n = less > 0 ? 60000 : 3000000;
    uint64_t *keys = malloc(n * sizeof(*keys)), random = 14;
    for (size_t i = 0; i < n; i++) {
        keys[i] = test_random(&random) >> 22;
    }
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = n};
    for (call.count = n / 64; call.keys < keys + n; call.keys += call.count) {
        call.count =
            call.keys + call.count > keys + n ? (size_t)(keys + n - call.keys) : call.count;
        must_run(ops(), pair.filter[0], &call);
    }
    struct hspz_filter_stats stats;
    ops()->stats(pair.filter[0], &stats);
    assert_true(stats.entries > n / 10 * 9);
    /* A third of what pairs need in a table that is full. */
    if (3 * stats.bytes > stats.entries * 16 * 16 / HSPZ_COUNTER_PAIRS_16THS) {
        fail_msg("%" PRIu64 " bytes for %" PRIu64 " keys", stats.bytes, stats.entries);
    }
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* Keys that have room in the first front, but not in the next larger one, where all have the same
 * two blocks. */
static void
test_keys_that_growth_has_no_slot_for_are_kept(void **state)
{
    (void)state;
    enum { CROWD = 48, OTHERS = 14400 };
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 31});
    const struct hspz_filter *f = pair.filter[0];
    const struct hspz_counter_shape larger = hspz_counter_shape_next(&f->counter.shape);
    const uint64_t slots = hspz_counter_shape_slots(&f->counter.shape);
    uint64_t *keys = malloc((CROWD + OTHERS) * sizeof(*keys)), random = 90;
    struct log log = {0};
    for (size_t i = 0; i < CROWD;) {
        const uint64_t x = test_random(&random) >> 2 & UINT64_MAX >> 10;
        const struct hspz_counter_choice choice = hspz_counter_choose(&larger, x);
        if (choice.block[0] == 1 && choice.block[1] == 700) {
            keys[i++] = hspz_counter_unmix(x, f->salt, 62);
        }
    }
    for (size_t i = CROWD; i < CROWD + OTHERS; i++) {
        keys[i] = test_random(&random) >> 2;
    }
    insert(&pair, &log, keys, NULL, CROWD);
    assert_int_equal(f->counter.pairs, 0);
    insert(&pair, &log, keys + CROWD, NULL, OTHERS);
    assert_int_equal(hspz_counter_shape_slots(&f->counter.shape), slots / 4 * 5);
    assert_true(f->counter.pairs >= CROWD - 2 * HSPZ_COUNTER_BLOCK_SLOTS);
    log_reduce(&log);
    check(ops(), pair.filter[0], &log, CROWD + OTHERS);
    check_files(&pair, &log, CROWD + OTHERS);
    free(log.all);
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* ---- all at once ---- */

static void
test_merging_counts_what_both_counted(void **state)
{
    const unsigned less = *(const unsigned *)*state;
    const size_t n = less > 1 ? 3001 : less == 1 ? 30001 : 500001;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 21;
    for (unsigned k = 4; k <= 32; k += less > 1 ? 21 : 7) {
        uint64_t *keys = random_keys(&random, n, k);
        struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = k};
        struct pair one = open_pair(engine, spec), other;
        spec.capacity = 900;
        other = open_pair(engine, spec);
        struct log first = {0}, second = {0}, all = {0};
        insert(&one, &first, keys, NULL, n / 2);
        insert(&other, &second, keys + n / 2, NULL, n - n / 2);
        for (size_t i = 0; i < n; i++) {
            log_add(&all, keys[i], 1);
        }
        log_reduce(&first);
        log_reduce(&second);
        log_reduce(&all);
        struct hspz_filter *copy = NULL;
        bool full = true;
        assert_int_equal(ops()->copy(one.filter[0], &copy, NULL), HSPZ_OK);
        assert_int_equal(ops()->merge(one.filter[0], other.filter[0], NULL, &full, NULL), HSPZ_OK);
        assert_false(full);
        check(ops(), one.filter[0], &all, n);
        check(ops(), other.filter[0], &second, n - n / 2);
        check(ops(), copy, &first, n / 2);
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .keys = keys + n / 2, .count = n - n / 2};
        must_run(ops(), copy, &call);
        check(ops(), copy, &all, n);
        /* With itself. */
        assert_int_equal(ops()->merge(copy, copy, NULL, &full, NULL), HSPZ_OK);
        for (size_t i = 0; i < all.count; i++) {
            all.all[i][1] *= 2;
        }
        check(ops(), copy, &all, 2 * n);
        ops()->destroy(&copy);
        close_pair(&one);
        close_pair(&other);
        free(first.all);
        free(second.all);
        free(all.all);
        free(keys);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_counters_that_differ_are_not_merged(void **state)
{
    (void)state;
    const struct hspz_filter_spec specs[] = {{.slots = 1, .k = 21},
                                             {.slots = 1, .k = 20},
                                             {.slots = 1, .k = 21, .canonical = true},
                                             {.slots = 1, .k = 21, .seed = 3},
                                             {.slots = 1}};
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pairs[5];
    for (size_t i = 0; i < 5; i++) {
        struct hspz_filter_spec spec = specs[i];
        bool full;
        spec.kind = HSPZ_FILTER_COUNTER;
        pairs[i] = open_pair(engine, spec);
        assert_int_equal(ops()->merge(pairs[0].filter[0], pairs[i].filter[0], NULL, &full, NULL),
                         i == 0 ? HSPZ_OK : HSPZ_E_BAD_REQUEST);
    }
    for (size_t i = 0; i < 5; i++) {
        close_pair(&pairs[i]);
    }
    hspz_cuda_engine.close(&engine);
}

/* Content that no counter has; both engines say the same of it. */
static void
test_images_that_no_counter_has_are_refused(void **state)
{
    (void)state;
    enum { SINGLES = 3, PAIRS = 2 };
    static const struct {
        int array;
        size_t at;
        uint64_t value;
    } cases[] = {
        {0, 1, UINT64_C(1) << 42}, {0, 2, 10}, {1, 0, 11}, {1, 2, 20}, {1, 3, 0}, {1, 1, 7},
    };
    struct hspz_engine *engine = open_engine(MEMORY);
    for (size_t c = 0; c < 10; c++) {
        uint64_t singles[SINGLES] = {10, 11, 12}, pairs[2 * PAIRS] = {20, 5, 21, UINT64_MAX};
        struct hspz_filter_image image = {.arrays = {singles, pairs, pairs},
                                          .bytes = {sizeof(singles), sizeof(pairs)},
                                          .entries = 5,
                                          .total = UINT64_MAX};
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .slots = 1, .k = 21});
        struct hspz_filter *f[2] = {NULL, NULL};
        struct hspz_error err[2] = {{0}, {0}};
        if (c < sizeof(cases) / sizeof(cases[0])) {
            (cases[c].array == 0 ? singles : pairs)[cases[c].at] = cases[c].value;
        }
        pairs[3] = c == 5 ? 2 : pairs[3]; /* no sum that stays at the largest */
        image.entries -= c == 6;
        image.bytes[0] -= c == 7;
        image.bytes[2] += c == 8;
        for (int i = 0; i < 2; i++) {
            const enum hspz_status status =
                pair.ops[i]->load(&pair.plan, &image, NULL, &f[i], &err[i]);
            assert_int_equal(status, c == 9 ? HSPZ_OK : HSPZ_E_BAD_FILE);
            pair.ops[i]->destroy(&f[i]);
        }
        assert_string_equal(err[0].text, err[1].text);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static bool
asked(void *user)
{
    int *const left = user;
    return (*left)-- <= 0;
}

/* Stopped at any of its questions, it has changed nothing; in the end nobody stops it. */
static void
test_what_is_stopped_changes_nothing(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 25});
    struct log log = {0};
    uint64_t random = 77, *keys = random_keys(&random, 9000, 25);
    insert(&pair, &log, keys, NULL, 9000);
    log_reduce(&log);
    struct hspz_filter *copy = NULL, *made = NULL;
    assert_int_equal(ops()->copy(pair.filter[0], &copy, NULL), HSPZ_OK);
    unsigned stopped = 0;
    enum hspz_status status[3] = {HSPZ_E_CANCELLED, HSPZ_E_CANCELLED, HSPZ_E_CANCELLED};
    for (int most = 0; most < 100 && status[2] != HSPZ_OK; most++) {
        struct hspz_filter_image image = {0}, whole;
        int left[3] = {most, most, most};
        const struct hspz_filter_stop stops[3] = {
            {asked, &left[0]}, {asked, &left[1]}, {asked, &left[2]}};
        struct hspz_error err;
        bool full;
        status[0] = ops()->save(pair.filter[0], &stops[0], &image, &err);
        assert_int_equal(ops()->save(pair.filter[0], NULL, &whole, &err), HSPZ_OK);
        status[1] = ops()->load(&pair.plan, &whole, &stops[1], &made, &err);
        status[2] = ops()->merge(copy, pair.filter[0], &stops[2], &full, &err);
        for (int i = 0; i < 3; i++) {
            assert_true(status[i] == HSPZ_OK || status[i] == HSPZ_E_CANCELLED);
            stopped += status[i] != HSPZ_OK;
        }
        if (status[2] != HSPZ_OK) {
            check(ops(), copy, &log, 9000);
        }
        ops()->destroy(&made);
        hspz_filter_image_fini(&image);
        hspz_filter_image_fini(&whole);
    }
    assert_true(stopped >= 3);
    check(ops(), pair.filter[0], &log, 9000);
    for (size_t i = 0; i < log.count; i++) {
        log.all[i][1] *= 2;
    }
    check(ops(), copy, &log, 18000);
    ops()->destroy(&copy);
    free(log.all);
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

static void
test_a_key_of_too_many_bits_is_refused(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .slots = 1, .k = 9});
    const uint64_t keys[] = {(1 << 18) - 1, 1 << 18};
    const struct {
        enum hspz_filter_op op;
        enum hspz_status status;
    } calls[] = {{HSPZ_FILTER_INSERT, HSPZ_E_BAD_REQUEST},
                 {HSPZ_FILTER_QUERY, HSPZ_E_BAD_REQUEST},
                 {HSPZ_FILTER_DELETE, HSPZ_E_UNSUPPORTED},
                 {HSPZ_FILTER_INSERT_IF_ABSENT, HSPZ_E_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct hspz_error err[2] = {{0}, {0}};
        for (int e = 0; e < 2; e++) {
            struct hspz_filter_call call = {.op = calls[i].op, .keys = keys, .count = 2};
            assert_int_equal(pair.ops[e]->run(pair.filter[e], &call, &err[e]), calls[i].status);
        }
        assert_string_equal(err[0].text, err[1].text);
    }
    struct log none = {0};
    check(ops(), pair.filter[0], &none, 0);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

/* What is there is counted when a call has failed: it comes to what it was. */
static void
test_numbers_are_counted_again(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = 22});
    struct log log = {0};
    uint64_t random = 78, *keys = random_keys(&random, 20000, 22);
    insert(&pair, &log, keys, NULL, 20000);
    log_reduce(&log);
    struct hspz_filter *f = pair.filter[0];
    f->counter.singles = f->counter.pairs = f->counter.total = 5;
    f->counter.unsure = true;
    check(ops(), f, &log, 20000);
    assert_false(f->counter.unsure);
    f->counter.singles = 0;
    f->counter.unsure = true;
    insert(&pair, &log, keys, NULL, 20000);
    log_reduce(&log);
    check(ops(), f, &log, 40000);
    free(log.all);
    free(keys);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

int
main(int argc, char **argv)
{
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    unsigned less = argc != 2                       ? 0
                    : strcmp(argv[1], "least") == 0 ? 2
                                                    : strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_counts_are_exact_for_every_k, &less),
        cmocka_unit_test_prestate(test_equal_keys_and_the_largest_counts, &less),
        cmocka_unit_test_prestate(test_sequences_are_counted_as_the_cpu_does, &less),
        cmocka_unit_test_prestate(test_what_did_not_fit_is_said_and_the_rest_is_exact, &less),
        cmocka_unit_test_prestate(test_room_is_enough, &less),
        cmocka_unit_test_prestate(test_a_small_device_refuses_and_gives_back, &less),
        cmocka_unit_test_prestate(test_single_keys_need_far_less_than_pairs, &less),
        cmocka_unit_test(test_keys_that_growth_has_no_slot_for_are_kept),
        cmocka_unit_test_prestate(test_merging_counts_what_both_counted, &less),
        cmocka_unit_test(test_counters_that_differ_are_not_merged),
        cmocka_unit_test(test_images_that_no_counter_has_are_refused),
        cmocka_unit_test(test_what_is_stopped_changes_nothing),
        cmocka_unit_test(test_a_key_of_too_many_bits_is_refused),
        cmocka_unit_test(test_numbers_are_counted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
