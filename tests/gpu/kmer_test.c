/* k-mers that a device makes of a sequence, against windows cut out as text; and filters that take
 * a sequence there, against the CPU's that take the keys of those. */
#include "engine/cuda/filter_p.h"
#include "engine/cuda/kernels/quotient.h"
#include "engine/filter_hash.h"
#include "tests/gpu/card_here.h"
#include "tests/gpu/filter_pair.h"
#include "tests/support/test.h"

#include <ctype.h>

#define MEMORY (UINT64_C(1) << 30)

/* Mostly bases of both cases; other bytes, now and then a stretch of them, ends of records. */
static uint8_t *
random_sequence(uint64_t *random, size_t len)
{
    static const char letters[] = "ACGTACGTACGTacgtACGTTTTT";
    static const char others[] = "NnUR-*.\n>@&\xff\0";
    uint8_t *bases = malloc(len + 1);
    const uint64_t rare = 2 + test_random(random) % 300;
    for (size_t i = 0; i < len; i++) {
        const uint64_t r = test_random(random);
        bases[i] = (uint8_t)(r % rare == 0 ? others[r / 512 % (sizeof(others) - 1)]
                                           : letters[r / 512 % (sizeof(letters) - 1)]);
    }
    return bases;
}

/* The smaller of the window and its reverse complement, or the window, as a number; false: it is no
 * k-mer. */
static bool
cut(const uint8_t *window, unsigned k, bool canonical, uint64_t *key)
{
    uint64_t number[2] = {0, 0};
    for (unsigned i = 0; i < k; i++) {
        const char *first = memchr("ACGT", toupper(window[i]), 4);
        const char *last = memchr("TGCA", toupper(window[k - 1 - i]), 4);
        if (first == NULL || last == NULL) {
            return false;
        }
        number[0] = number[0] * 4 + (uint64_t)strcspn("ACGT", (char[]){*first, '\0'});
        number[1] = number[1] * 4 + (uint64_t)strcspn("TGCA", (char[]){*last, '\0'});
    }
    *key = canonical && number[1] < number[0] ? number[1] : number[0];
    return true;
}

struct expected {
    uint64_t *keys;
    uint32_t *from;
    size_t count;
};

static struct expected
expect(const uint8_t *bases, size_t windows, size_t len, unsigned k, bool canonical)
{
    struct expected e = {malloc((windows + 1) * sizeof(uint64_t)),
                         malloc((windows + 1) * sizeof(uint32_t)), 0};
    for (size_t i = 0; i < windows && i + k <= len; i++) {
        if (cut(bases + i, k, canonical, &e.keys[e.count])) {
            e.from[e.count++] = (uint32_t)i;
        }
    }
    return e;
}

static void
free_expected(struct expected *e)
{
    free(e->keys);
    free(e->from);
}

/* ---- kernels ---- */

static void *
on_card(const void *from, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(cudaMalloc(&memory, bytes + 64), cudaSuccess);
    assert_int_equal(cudaMemset(memory, 0, bytes + 64), cudaSuccess);
    if (from != NULL && bytes > 0) {
        assert_int_equal(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    }
    return memory;
}

static void
get(void *to, const void *memory, size_t bytes)
{
    assert_int_equal(cudaMemcpy(to, memory, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

static int
by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Keys in order and their places. */
static void
check_ordered(const struct hspz_cuda_kmers *kmers, const struct expected *e)
{
    const size_t windows = kmers->windows, tiles = hspz_cuda_kmer_tiles(windows);
    uint64_t *starts = on_card(NULL, (tiles + 1) * sizeof(*starts));
    uint64_t *keys = on_card(NULL, windows * sizeof(*keys));
    uint32_t *from = on_card(NULL, windows * sizeof(*from));
    const struct hspz_cuda_kmer_keys out = {.keys = keys, .starts = starts, .from = from};
    uint64_t count;
    assert_int_equal(hspz_cuda_launch_kmer_starts(kmers, starts, NULL), cudaSuccess);
    assert_int_equal(hspz_cuda_launch_kmer_keys(kmers, &out, NULL), cudaSuccess);
    get(&count, starts + tiles, sizeof(count));
    assert_int_equal(count, e->count);
    uint64_t *got = malloc(e->count * sizeof(*got) + 1);
    uint32_t *places = malloc(e->count * sizeof(*places) + 1);
    get(got, keys, e->count * sizeof(*got));
    get(places, from, e->count * sizeof(*places));
    if (e->count > 0) {
        assert_memory_equal(got, e->keys, e->count * sizeof(*got));
        assert_memory_equal(places, e->from, e->count * sizeof(*places));
    }
    free(got);
    free(places);
    cudaFree(starts);
    cudaFree(keys);
    cudaFree(from);
}

/* Sizes of rooms for items of so many bits. */
struct dealt {
    unsigned fingerprint_bits, value_bits, item_bits, part_bits, bucket_bits;
    uint32_t bucket_room, part_room, over_room;
};

static struct hspz_cuda_quotient_rooms
make_rooms(const struct dealt *d)
{
    const size_t buckets = (size_t)1 << d->bucket_bits, parts = buckets << d->part_bits;
    struct hspz_cuda_quotient_rooms rooms = {.bucket_room = d->bucket_room,
                                             .part_room = d->part_room,
                                             .over_room = d->over_room,
                                             .item_bits = d->item_bits,
                                             .part_bits = d->part_bits,
                                             .bucket_bits = d->bucket_bits};
    rooms.buckets = on_card(NULL, buckets * d->bucket_room * sizeof(uint64_t));
    rooms.bucket_counts = on_card(NULL, buckets * sizeof(uint32_t));
    rooms.parts = on_card(NULL, parts * d->part_room * sizeof(uint32_t));
    rooms.part_counts = on_card(NULL, parts * sizeof(uint32_t));
    rooms.over = on_card(NULL, d->over_room * sizeof(uint64_t));
    return rooms;
}

static void
free_rooms(const struct hspz_cuda_quotient_rooms *rooms)
{
    cudaFree(rooms->buckets);
    cudaFree(rooms->bucket_counts);
    cudaFree(rooms->parts);
    cudaFree(rooms->part_counts);
    cudaFree(rooms->over);
}

/* All items that parts have, and that went over, in order; how many. */
static size_t
collect(const struct hspz_cuda_quotient_rooms *rooms, uint32_t over, uint64_t *out)
{
    const size_t parts = (size_t)1 << (rooms->bucket_bits + rooms->part_bits);
    const size_t room = rooms->part_room;
    uint32_t *counts = malloc(parts * sizeof(*counts));
    uint32_t *items = malloc(parts * room * sizeof(*items));
    size_t all = over;
    get(counts, rooms->part_counts, parts * sizeof(*counts));
    get(items, rooms->parts, parts * room * sizeof(*items));
    get(out, rooms->over, over * sizeof(*out));
    for (size_t p = 0; p < parts; p++) {
        const size_t count = counts[p] < room ? counts[p] : room;
        for (size_t i = 0; i < count; i++) {
            out[all++] = (uint64_t)p << rooms->item_bits | items[p * room + i];
        }
    }
    free(counts);
    free(items);
    qsort(out, all, sizeof(*out), by_number);
    return all;
}

/* Items of a quotient filter dealt to parts, by k-mers or as keys. */
static void
check_dealt(const struct hspz_cuda_kmers *kmers, const struct expected *e, const struct dealt *d,
            bool as_keys)
{
    const struct hspz_cuda_quotient q = {
        .salt = 77, .fingerprint_bits = d->fingerprint_bits, .value_bits = d->value_bits};
    const struct hspz_cuda_quotient_rooms rooms = make_rooms(d);
    struct hspz_cuda_quotient_tally *tally = on_card(NULL, sizeof(*tally)), made;
    uint64_t *keys = on_card(e->keys, e->count * sizeof(*keys));
    uint64_t *got = malloc(e->count * sizeof(*got) + 1),
             *want = malloc(e->count * sizeof(*want) + 1);
    assert_int_equal(as_keys ? hspz_cuda_launch_quotient_deal_keys(
                                   &q, keys, keys, e->count, d->value_bits, &rooms, tally, NULL)
                             : hspz_cuda_launch_quotient_deal_kmers(&q, kmers, &rooms, tally, NULL),
                     cudaSuccess);
    assert_int_equal(hspz_cuda_launch_quotient_deal_buckets(&rooms, kmers->windows, tally, NULL),
                     cudaSuccess);
    get(&made, tally, sizeof(made));
    assert_int_equal(made.dealt, e->count);
    assert_true(made.over <= d->over_room);
    assert_int_equal(collect(&rooms, made.over, got), e->count);
    for (size_t i = 0; i < e->count; i++) {
        want[i] = hspz_filter_hash(e->keys[i], 77) >> (64 - d->fingerprint_bits) << d->value_bits;
        want[i] |= as_keys ? e->keys[i] & ((UINT64_C(1) << d->value_bits) - 1) : 0;
    }
    qsort(want, e->count, sizeof(*want), by_number);
    if (e->count > 0) {
        assert_memory_equal(got, want, e->count * sizeof(*got));
    }
    free(got);
    free(want);
    cudaFree(keys);
    cudaFree(tally);
    free_rooms(&rooms);
}

/* Narrow and wide buckets, no parts and most of them, and rooms that are too small. */
static const struct dealt dealt[] = {
    {32, 0, 20, 6, 6, 9000, 600, 9000},  {40, 5, 28, 8, 9, 9000, 96, 9000},
    {20, 0, 20, 0, 0, 9000, 9000, 9000}, {24, 3, 20, 3, 4, 9000, 60, 9000},
    {40, 4, 28, 10, 6, 9000, 40, 9000},  {30, 0, 20, 5, 5, 32, 64, 9000},
    {38, 0, 28, 0, 10, 9000, 320, 9000}, {40, 4, 32, 4, 8, 200, 640, 9000},
};
#define DEALT (sizeof(dealt) / sizeof(dealt[0]))

static void
test_windows_become_keys(void **state)
{
    const bool quick = *(const bool *)*state;
    static const size_t lengths[] = {0, 1, 15, 31, 33, 500, 4095, 4096, 4097, 4126, 4128, 9000};
    uint64_t random = 3, all = 0;
    for (unsigned round = 0; round < (quick ? 32u : 160u); round++) {
        const unsigned k = 1 + round % HSPZ_KMER_MOST;
        const size_t len = round < 12 ? lengths[round] : test_random(&random) % 9000;
        const size_t windows = round % 3 == 0 ? len : test_random(&random) % (len + 1);
        uint8_t *bases = random_sequence(&random, len);
        void *memory = on_card(bases, len);
        for (unsigned canonical = 0; canonical < 2; canonical++) {
            struct expected e = expect(bases, windows, len, k, canonical != 0);
            const struct hspz_cuda_kmers kmers = {.bases = memory,
                                                  .windows = windows,
                                                  .len = len,
                                                  .k = k,
                                                  .canonical = canonical != 0};
            check_ordered(&kmers, &e);
            check_dealt(&kmers, &e, &dealt[round % DEALT], canonical != 0);
            all += e.count;
            free_expected(&e);
        }
        cudaFree(memory);
        free(bases);
    }
    assert_true(all > 10000);
}

/* More tiles than the sum of them takes at a time, of which nearly all are empty. */
static void
test_many_tiles(void **state)
{
    (void)state;
    const size_t len = (size_t)HSPZ_CUDA_KMER_TILE * 2100;
    uint8_t *bases = malloc(len);
    memset(bases, 'N', len);
    for (size_t i = 5; i < len; i += len / 9) {
        memcpy(bases + i, "GATTACAGATTACA", 14);
    }
    void *memory = on_card(bases, len);
    struct expected e = expect(bases, len, len, 11, true);
    const struct hspz_cuda_kmers kmers = {
        .bases = memory, .windows = len, .len = len, .k = 11, .canonical = true};
    assert_int_equal(e.count, 9 * 4);
    check_ordered(&kmers, &e);
    free_expected(&e);
    cudaFree(memory);
    free(bases);
}

/* ---- filters ---- */

static void
must_run(const struct hspz_filter_ops *ops, struct hspz_filter *f, struct hspz_filter_call *call)
{
    struct hspz_error err = {0};
    if (hspz_filter_run(ops, f, call, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
}

/* A call by sequence on the device and the same on the CPU; with `answers`, what both say. A device
 * sees equal keys of a call of tcf and bloom that go in if absent in another order. */
static void
both(struct pair *pair, struct hspz_filter_call call, bool answers)
{
    struct hspz_filter_call calls[2] = {call, call};
    for (int i = 0; i < 2; i++) {
        if (answers) {
            calls[i].yes = malloc(call.count / 8 + 1);
            calls[i].found = malloc(call.count * sizeof(uint64_t) + 1);
            memset(calls[i].yes, 0xaa, call.count / 8 + 1);
            memset(calls[i].found, 0xaa, call.count * sizeof(uint64_t) + 1);
        }
        must_run(pair->ops[i], pair->filter[i], &calls[i]);
    }
    assert_int_equal(calls[0].yes_count, calls[1].yes_count);
    assert_int_equal(calls[0].full, calls[1].full);
    if (answers) {
        for (size_t i = 0; i < call.count; i++) {
            assert_int_equal(bit(calls[0].yes, i), bit(calls[1].yes, i));
            assert_int_equal(calls[0].found[i], calls[1].found[i]);
        }
        for (int i = 0; i < 2; i++) {
            free(calls[i].yes);
            free(calls[i].found);
        }
    }
}

static bool
is_quotient(enum hspz_filter_kind kind)
{
    return kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_SQF || kind == HSPZ_FILTER_RSQF;
}

static void
test_filters_take_sequences_as_the_cpu(void **state)
{
    const bool quick = *(const bool *)*state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 9;
    for (unsigned round = 0; round < (quick ? 10u : 50u); round++) {
        const enum hspz_filter_kind kind = (enum hspz_filter_kind)(round % 5 == 4 ? 5 : round % 5);
        /* A tcf takes each of a few short ones over and over into two blocks. */
        const unsigned least = kind == HSPZ_FILTER_TCF ? 16 : 1;
        struct hspz_filter_spec spec = {.kind = kind,
                                        .slots = 1 << 15,
                                        .k =
                                            least + (unsigned)(test_random(&random) % (33 - least)),
                                        .canonical = round % 2 == 0,
                                        .seed = round};
        struct pair pair = open_pair(engine, spec);
        const size_t len = 1 + test_random(&random) % (quick ? 5000 : 12000);
        uint8_t *bases = random_sequence(&random, len);
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len};
        both(&pair, call, false);
        call.sequence += len / 3;
        call.sequence_len -= len / 3;
        call.count = len / 2;
        both(&pair, call, true);
        call.op = HSPZ_FILTER_QUERY;
        both(&pair, call, true);
        if (kind == HSPZ_FILTER_GQF || kind == HSPZ_FILTER_TCF) {
            call.op = HSPZ_FILTER_COUNT;
            both(&pair, call, true);
        }
        if (is_quotient(kind)) {
            call.op = HSPZ_FILTER_INSERT_IF_ABSENT;
            call.sequence = bases;
            call.sequence_len = len;
            both(&pair, call, true);
        }
        if (kind != HSPZ_FILTER_TCF) {
            check_images(&pair);
        }
        call.count = 0;
        both(&pair, call, true);
        free(bases);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* Pieces of a call meet where nothing is, and where a k-mer lies across. */
static void
test_pieces_of_a_long_sequence(void **state)
{
    const bool quick = *(const bool *)*state;
    const size_t piece = (size_t)1 << 23, len = quick ? 100000 : 2 * piece + 20000;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 10;
    uint8_t *some = random_sequence(&random, 5000), *bases = malloc(len);
    memset(bases, 'N', len);
    for (size_t at = 50; at + 5000 < len; at += piece - 2500 > len ? 20000 : piece - 2500) {
        memcpy(bases + at, some, 5000);
    }
    static const enum hspz_filter_kind kinds[] = {HSPZ_FILTER_GQF, HSPZ_FILTER_BLOOM};
    for (size_t i = 0; i < 2; i++) {
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){.kind = kinds[i], .slots = 1 << 16, .k = 27});
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len};
        both(&pair, call, false);
        check_images(&pair);
        call.op = HSPZ_FILTER_QUERY;
        both(&pair, call, true);
        close_pair(&pair);
    }
    free(some);
    free(bases);
    hspz_cuda_engine.close(&engine);
}

/* Segments of a sequence whose keys are dealt as they come: with stretches that are no k-mers, and
 * with one k-mer so often that a part has no room, and so often that there is none for what goes
 * over. */
static void
test_segments_of_a_sequence(void **state)
{
    const bool quick = *(const bool *)*state;
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 14, .slot_bits = 8, .k = 21, .canonical = true},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 15, .slot_bits = 16, .value_bits = 5, .k = 32},
        {.kind = HSPZ_FILTER_SQF, .slots = 1 << 14, .slot_bits = 8, .k = 31, .canonical = true},
        {.kind = HSPZ_FILTER_RSQF, .slots = 1 << 14, .slot_bits = 16, .k = 3},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 14, .slot_bits = 32, .k = 13},
        {.kind = HSPZ_FILTER_GQF, .slots = 128, .slot_bits = 8, .k = 2},
        {.kind = HSPZ_FILTER_GQF, .slots = 1 << 12, .slot_bits = 8, .k = 5},
    };
    static const uint64_t segments[] = {500, 2048, 4101};
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 12;
    for (unsigned round = 0; round < (quick ? 7u : 42u); round++) {
        const size_t len = 9000 + test_random(&random) % 3000;
        uint8_t *bases = random_sequence(&random, len);
        struct pair pair = open_pair(engine, specs[round % 7]);
        pair.filter[0]->segment = segments[round % 11 % 3];
        memset(bases + len / 3, 'N', len / 5);
        struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len - 10};
        both(&pair, call, false);
        check_images(&pair);
        memset(bases + 100, 'A', 8600);
        both(&pair, call, false);
        check_images(&pair);
        memset(bases, 'N', len);
        both(&pair, call, false);
        check_images(&pair);
        free(bases);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

/* A sequence taken all that way; how many of its windows were. */
static uint64_t
insert_dealt(struct pair *pair, const uint8_t *bases, size_t len)
{
    const struct hspz_filter_spec *spec = &pair->plan.spec;
    struct hspz_filter *f = pair->filter[0];
    struct expected e = expect(bases, len, len, spec->k, spec->canonical);
    uint64_t windows = 0, keys = 0;
    const struct hspz_filter_call call = {
        .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len};
    struct hspz_filter_call by_keys = {.op = HSPZ_FILTER_INSERT, .keys = e.keys, .count = e.count};
    assert_int_equal(f->kind->insert_sequence(f, &call, &windows, &keys, NULL), HSPZ_OK);
    assert_int_equal(hspz_cuda_feed_stop(f, NULL), HSPZ_OK);
    if (windows == len) {
        assert_int_equal(keys, e.count);
        must_run(pair->ops[1], pair->filter[1], &by_keys);
    } else {
        assert_int_equal(windows, 0);
        assert_int_equal(keys, 0);
    }
    check_images(pair);
    free_expected(&e);
    return windows;
}

/* Repeats: a k-mer that a bucket has no room for, others of its bucket and part after it, and what
 * goes over into a filter so full that runs are long; then so many that there is no room. */
static void
test_what_goes_over_goes_in(void **state)
{
    const bool quick = *(const bool *)*state;
    static const struct hspz_filter_spec specs[] = {
        {.kind = HSPZ_FILTER_GQF, .slot_bits = 8, .k = 21, .canonical = true},
        {.kind = HSPZ_FILTER_GQF, .slot_bits = 16, .value_bits = 3, .k = 32},
        {.kind = HSPZ_FILTER_RSQF, .slot_bits = 8, .k = 31},
    };
    struct hspz_engine *engine = open_engine(MEMORY);
    for (unsigned round = 0; round < (quick ? 1u : 3u); round++) {
        struct hspz_filter_spec spec = specs[round];
        spec.slots = UINT64_C(1) << (quick ? 15 : 18);
        const size_t len = spec.slots / 10 * 4;
        uint64_t random = 14 + round;
        uint8_t *bases = malloc(len);
        struct pair pair = open_pair(engine, spec);
        pair.filter[0]->segment = 4101;
        for (unsigned turn = 0; turn < 2; turn++) {
            for (size_t i = 0; i < len; i++) {
                bases[i] = (uint8_t) "ACGT"[test_random(&random) >> 20 & 3];
            }
            /* Together less than the eighth of the windows that may go over. */
            memset(bases + len / 9, 'A', len / 14);
            for (size_t i = len / 3; i < len / 3 + len / 30; i++) {
                bases[i] = (uint8_t) "AC"[i % 2];
            }
            assert_int_equal(insert_dealt(&pair, bases, len), len);
        }
        memset(bases, 'A', len);
        assert_int_equal(insert_dealt(&pair, bases, len), 0);
        memset(bases, 'N', len);
        assert_int_equal(insert_dealt(&pair, bases, len), len);
        free(bases);
        close_pair(&pair);
    }
    hspz_cuda_engine.close(&engine);
}

static void
test_segments_are_all_of_a_sequence(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 13;
    const size_t len = 12000;
    uint8_t *bases = random_sequence(&random, len);
    struct pair pair = open_pair(
        engine, (struct hspz_filter_spec){
                    .kind = HSPZ_FILTER_GQF, .slots = 1 << 14, .k = 21, .canonical = true});
    pair.filter[0]->segment = 1000;
    assert_int_equal(insert_dealt(&pair, bases, len), len);
    free(bases);
    close_pair(&pair);
    hspz_cuda_engine.close(&engine);
}

static void
test_a_full_filter_takes_the_first_windows(void **state)
{
    (void)state;
    struct hspz_engine *engine = open_engine(MEMORY);
    uint64_t random = 11;
    const size_t len = 9000;
    uint8_t *bases = random_sequence(&random, len);
    for (unsigned round = 0; round < 2 * HSPZ_FILTER_COUNTER; round++) {
        const enum hspz_filter_kind kind = (enum hspz_filter_kind)(round / 2);
        if (!is_quotient(kind)) {
            continue;
        }
        struct pair pair = open_pair(
            engine, (struct hspz_filter_spec){
                        .kind = kind, .slots = 1024, .slot_bits = 16, .k = 25, .canonical = true});
        pair.filter[0]->segment = round % 2 == 0 ? HSPZ_CUDA_FILTER_SEGMENT : 600;
        const struct hspz_filter_call call = {
            .op = HSPZ_FILTER_INSERT, .sequence = bases, .sequence_len = len, .count = len};
        both(&pair, call, false);
        check_images(&pair);
        both(&pair, call, false);
        check_images(&pair);
        both(&pair, call, true);
        check_images(&pair);
        close_pair(&pair);
    }
    free(bases);
    hspz_cuda_engine.close(&engine);
}

int
main(int argc, char **argv)
{
    const int without = status_without_card();
    if (without != 0) {
        return without;
    }
    bool quick = argc == 2 && strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_windows_become_keys, &quick),
        cmocka_unit_test(test_many_tiles),
        cmocka_unit_test_prestate(test_filters_take_sequences_as_the_cpu, &quick),
        cmocka_unit_test_prestate(test_pieces_of_a_long_sequence, &quick),
        cmocka_unit_test_prestate(test_segments_of_a_sequence, &quick),
        cmocka_unit_test(test_segments_are_all_of_a_sequence),
        cmocka_unit_test_prestate(test_what_goes_over_goes_in, &quick),
        cmocka_unit_test(test_a_full_filter_takes_the_first_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
