/* Exact counts on the CPU (engine/filter.h): shards of engine/cpu/counter.h, which the threads of a
 * call share out.
 *
 * An insert takes a piece of its keys at a time: slices of it become mixed keys, counted by shard;
 * those are put in order of shard; then each shard takes its own, in the order of the call. */
#include "engine/cpu/filter_counter.h"
#include "engine/cpu/pool.h"
#include "engine/kmer.h"

#include <string.h>

/* Keys of a piece, and of a slice, a multiple of 8: bits of one byte are one thread's. */
#define PIECE_KEYS ((size_t)1 << 20)
#define SLICE_KEYS ((size_t)1 << 14)
#define SLICES_MOST (PIECE_KEYS / SLICE_KEYS)
/* Keys between one that is counted and one whose memory is asked for. */
#define FETCH_AHEAD 12u
/* Fewer keys are not worth threads. */
#define THREADED_KEYS ((size_t)1 << 15)
/* What growing may need (`room`): of the bytes that are there, and for each new key. */
#define ROOM_TIMES 1u
#define ROOM_KEY_BYTES 48u
#define ROOM_SPARE_BYTES (UINT64_C(1) << 18)

void
hspz_counter_destroy(struct hspz_filter **filter)
{
    if (*filter != NULL) {
        for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
            hspz_counter_shard_fini(&(*filter)->shards[i]);
        }
        free(*filter);
        *filter = NULL;
    }
}

struct hspz_filter *
hspz_counter_empty(const struct hspz_filter_plan *plan)
{
    struct hspz_filter *f = calloc(1, sizeof(*f));
    if (f != NULL) {
        f->plan = *plan;
        f->salt = hspz_filter_salt(plan->spec.seed);
        f->key_bits = hspz_counter_key_bits(&plan->spec);
    }
    return f;
}

enum hspz_status
hspz_counter_create(const struct hspz_filter_plan *plan, struct hspz_filter **out,
                    struct hspz_error *err)
{
    struct hspz_filter *f = hspz_counter_empty(plan);
    bool good = f != NULL;
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS && good; i++) {
        good = hspz_counter_shard_init(&f->shards[i], f->key_bits,
                                       plan->spec.slots / HSPZ_COUNTER_SHARDS, &f->memory);
    }
    if (!good) {
        hspz_counter_destroy(&f);
        return hspz_filter_no_memory(plan, err);
    }
    *out = f;
    return HSPZ_OK;
}

static const struct hspz_filter_plan *
plan_of(const struct hspz_filter *f)
{
    return &f->plan;
}

static uint64_t
room(const struct hspz_filter *f, uint64_t keys)
{
    return ROOM_TIMES * atomic_load(&f->memory.used) + keys * ROOM_KEY_BYTES + ROOM_SPARE_BYTES;
}

/* ---- a piece of a call ---- */

struct piece {
    struct hspz_filter *f;
    struct hspz_filter_call *call;
    size_t first, count;    /* keys of the call */
    uint64_t *keys, *mixed; /* by slice; by shard */
    uint32_t *from, *order; /* of each the place in the piece */
    size_t slices;
    size_t valid[SLICES_MOST];                         /* keys of a slice */
    uint32_t at[SLICES_MOST][HSPZ_COUNTER_SHARDS + 1]; /* how many; then where they go */
    size_t shard_at[HSPZ_COUNTER_SHARDS + 1];
    size_t in[HSPZ_COUNTER_SHARDS]; /* that went in */
};

/* Keys of a slice and their places, to keys and from; how many. */
static size_t
read_slice(const struct piece *p, size_t begin, size_t end)
{
    const struct hspz_filter_call *call = p->call;
    uint64_t *const keys = p->keys + begin;
    uint32_t *const from = p->from + begin;
    if (call->sequence != NULL) {
        const struct hspz_kmers kmers = {.bases = call->sequence,
                                         .len = call->sequence_len,
                                         .k = p->f->plan.spec.k,
                                         .canonical = p->f->plan.spec.canonical};
        const size_t n = hspz_kmers_extract(&kmers, p->first + begin, p->first + end, keys, from);
        for (size_t i = 0; i < n; i++) {
            from[i] += (uint32_t)begin;
        }
        return n;
    }
    for (size_t i = begin; i < end; i++) {
        p->keys[i] = call->keys[p->first + i];
        p->from[i] = (uint32_t)i;
    }
    return end - begin;
}

static size_t
slice_end(const struct piece *p, size_t slice)
{
    const size_t end = (slice + 1) * SLICE_KEYS;
    return end < p->count ? end : p->count;
}

static void
set_yes(const struct piece *p, size_t i)
{
    if (p->call->yes != NULL) {
        const size_t at = p->first + i;
        p->call->yes[at / 8] |= (uint8_t)(1u << at % 8);
    }
}

/* Another shard's thread may be at bits of the same byte. */
static void
clear_yes(const struct piece *p, size_t i)
{
    if (p->call->yes != NULL) {
        const size_t at = p->first + i;
        (void)__sync_fetch_and_and(&p->call->yes[at / 8], (uint8_t) ~(1u << at % 8));
    }
}

static void
mix_slice(void *user, size_t slice)
{
    struct piece *p = user;
    const size_t begin = slice * SLICE_KEYS;
    uint32_t *const counts = p->at[slice];
    memset(counts, 0, sizeof(p->at[slice]));
    p->valid[slice] = read_slice(p, begin, slice_end(p, slice));
    for (size_t i = begin; i < begin + p->valid[slice]; i++) {
        p->keys[i] = hspz_counter_mix(p->keys[i], p->f->salt, p->f->key_bits);
        counts[hspz_counter_shard_of(p->f, p->keys[i])]++;
        set_yes(p, p->from[i]);
    }
}

/* From how many each slice has of each shard to where they go. */
static void
place_slices(struct piece *p)
{
    size_t at = 0;
    for (unsigned shard = 0; shard < HSPZ_COUNTER_SHARDS; shard++) {
        p->shard_at[shard] = at;
        for (size_t slice = 0; slice < p->slices; slice++) {
            const uint32_t count = p->at[slice][shard];
            p->at[slice][shard] = (uint32_t)at;
            at += count;
        }
    }
    p->shard_at[HSPZ_COUNTER_SHARDS] = at;
}

static void
order_slice(void *user, size_t slice)
{
    struct piece *p = user;
    const size_t begin = slice * SLICE_KEYS;
    for (size_t i = begin; i < begin + p->valid[slice]; i++) {
        const uint32_t to = p->at[slice][hspz_counter_shard_of(p->f, p->keys[i])]++;
        p->mixed[to] = p->keys[i];
        p->order[to] = p->from[i];
    }
}

static void
fill_shard(void *user, size_t shard)
{
    struct piece *p = user;
    const uint64_t *const counts = p->call->counts;
    struct hspz_counter_shard *const s = &p->f->shards[shard];
    const size_t end = p->shard_at[shard + 1];
    p->in[shard] = 0;
    for (size_t i = p->shard_at[shard]; i < end; i++) {
        if (i + FETCH_AHEAD < end) {
            hspz_counter_shard_fetch(s, hspz_counter_x_of(p->f, p->mixed[i + FETCH_AHEAD]));
        }
        const uint64_t n = counts != NULL ? counts[p->first + p->order[i]] : 1;
        if (n == 0 ||
            hspz_counter_shard_add(s, hspz_counter_x_of(p->f, p->mixed[i]), n, &p->f->memory)) {
            p->in[shard]++;
        } else {
            clear_yes(p, p->order[i]);
        }
    }
}

static void
insert_piece(struct piece *p, struct hspz_pool *pool)
{
    hspz_pool_run(pool, mix_slice, p, p->slices);
    place_slices(p);
    hspz_pool_run(pool, order_slice, p, p->slices);
    hspz_pool_run(pool, fill_shard, p, HSPZ_COUNTER_SHARDS);
    size_t in = 0;
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        in += p->in[i];
    }
    p->call->yes_count += in;
    p->call->full = p->call->full || in < p->shard_at[HSPZ_COUNTER_SHARDS];
}

static void
count_slice(void *user, size_t slice)
{
    struct piece *p = user;
    const struct hspz_filter *f = p->f;
    const size_t begin = slice * SLICE_KEYS, end = slice_end(p, slice);
    const bool counts = p->call->op == HSPZ_FILTER_COUNT && p->call->found != NULL;
    const size_t n = read_slice(p, begin, end);
    if (p->call->found != NULL) {
        memset(p->call->found + p->first + begin, 0, (end - begin) * sizeof(uint64_t));
    }
    p->valid[slice] = 0;
    for (size_t i = begin; i < begin + n; i++) {
        p->keys[i] = hspz_counter_mix(p->keys[i], f->salt, f->key_bits);
    }
    for (size_t i = begin; i < begin + n; i++) {
        if (i + FETCH_AHEAD < begin + n) {
            const uint64_t later = p->keys[i + FETCH_AHEAD];
            hspz_counter_shard_fetch(&f->shards[hspz_counter_shard_of(f, later)],
                                     hspz_counter_x_of(f, later));
        }
        const uint64_t mixed = p->keys[i];
        const uint64_t count = hspz_counter_shard_count(&f->shards[hspz_counter_shard_of(f, mixed)],
                                                        hspz_counter_x_of(f, mixed));
        if (counts) {
            p->call->found[p->first + p->from[i]] = count;
        }
        if (count > 0) {
            p->valid[slice]++;
            set_yes(p, p->from[i]);
        }
    }
}

static void
count_piece(struct piece *p, struct hspz_pool *pool)
{
    hspz_pool_run(pool, count_slice, p, p->slices);
    for (size_t slice = 0; slice < p->slices; slice++) {
        p->call->yes_count += p->valid[slice];
    }
}

/* ---- calls ---- */

/* False: no memory. */
static bool
piece_make(struct piece **out, struct hspz_filter *f, struct hspz_filter_call *call)
{
    const size_t keys = call->count < PIECE_KEYS ? call->count : PIECE_KEYS;
    const size_t arrays = call->op == HSPZ_FILTER_INSERT ? 2 : 1;
    struct piece *p = malloc(sizeof(*p));
    uint64_t *const words = malloc(arrays * (keys + 1) * sizeof(*words));
    uint32_t *const places = malloc(arrays * (keys + 1) * sizeof(*places));
    if (p == NULL || words == NULL || places == NULL) {
        free(p);
        free(words);
        free(places);
        return false;
    }
    p->f = f;
    p->call = call;
    p->keys = words;
    p->from = places;
    p->mixed = words + (arrays - 1) * keys;
    p->order = places + (arrays - 1) * keys;
    *out = p;
    return true;
}

static void
piece_free(struct piece *p)
{
    free(p->keys);
    free(p->from);
    free(p);
}

static enum hspz_status
run(struct hspz_filter *f, struct hspz_filter_call *call, struct hspz_error *err)
{
    const bool inserts = call->op == HSPZ_FILTER_INSERT;
    if (!inserts && call->op != HSPZ_FILTER_QUERY && call->op != HSPZ_FILTER_COUNT) {
        return hspz_filter_cannot(&f->plan, call->op, err);
    }
    enum hspz_status status = hspz_counter_check_keys(&f->plan, call, err);
    if (status == HSPZ_OK) {
        status = hspz_filter_check_values(&f->plan, call, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_pool *pool = NULL;
    struct piece *p = NULL;
    const unsigned threads = call->count < THREADED_KEYS ? 1
                             : f->plan.threads != 0      ? f->plan.threads
                                                         : hspz_pool_processors();
    hspz_filter_call_begin(call);
    if (hspz_pool_create(threads, &pool) != HSPZ_OK || !piece_make(&p, f, call)) {
        hspz_pool_destroy(&pool);
        return hspz_filter_no_memory(&f->plan, err);
    }
    if (inserts) {
        f->memory.limit = call->memory_bytes;
    }
    for (p->first = 0; p->first < call->count; p->first += p->count) {
        const size_t left = call->count - p->first;
        p->count = left < PIECE_KEYS ? left : PIECE_KEYS;
        p->slices = (p->count + SLICE_KEYS - 1) / SLICE_KEYS;
        (inserts ? insert_piece : count_piece)(p, pool);
    }
    piece_free(p);
    hspz_pool_destroy(&pool);
    return HSPZ_OK;
}

static void
stats(const struct hspz_filter *f, struct hspz_filter_stats *out)
{
    *out = (struct hspz_filter_stats){.bytes = atomic_load(&f->memory.used)};
    for (unsigned i = 0; i < HSPZ_COUNTER_SHARDS; i++) {
        const struct hspz_counter_shard *s = &f->shards[i];
        out->entries += s->front.singles + s->pair_count;
        const uint64_t total = out->total + s->total;
        out->total = total < s->total ? UINT64_MAX : total;
    }
    out->used = out->entries;
    out->load = (double)out->used / (double)f->plan.spec.slots;
}

/* The cursor: place << 8 | shard. */
static enum hspz_status
enumerate(const struct hspz_filter *f, uint64_t *cursor, struct hspz_filter_entry *out,
          size_t capacity, size_t *count, struct hspz_error *err)
{
    (void)err;
    uint64_t shard = *cursor % HSPZ_COUNTER_SHARDS, place = *cursor / HSPZ_COUNTER_SHARDS;
    bool more = true;
    *count = 0;
    while (more && *count < capacity) {
        const struct hspz_counter_shard *s = &f->shards[shard];
        if (place == hspz_counter_shard_places(s)) {
            more = shard + 1 < HSPZ_COUNTER_SHARDS;
            shard += more;
            place = more ? 0 : place;
            continue;
        }
        uint64_t x = 0;
        const uint64_t times = hspz_counter_shard_at(s, place++, &x);
        if (times > 0) {
            const uint64_t mixed = shard << (f->key_bits - HSPZ_COUNTER_SHARD_BITS) | x;
            out[(*count)++] = (struct hspz_filter_entry){
                .fingerprint = hspz_counter_unmix(mixed, f->salt, f->key_bits), .count = times};
        }
    }
    *cursor = place * HSPZ_COUNTER_SHARDS + shard;
    return HSPZ_OK;
}

const struct hspz_filter_ops hspz_cpu_filter_counter = {
    .create = hspz_counter_create,
    .destroy = hspz_counter_destroy,
    .plan = plan_of,
    .run = run,
    .takes_sequence = true,
    .room = room,
    .image_bytes = hspz_counter_image_bytes,
    .stats = stats,
    .enumerate = enumerate,
    .merge = hspz_counter_merge,
    .copy = hspz_counter_copy,
    .save = hspz_counter_save,
    .load = hspz_counter_load,
};
