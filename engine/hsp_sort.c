#include "engine/hsp_sort.h"

#include <stdbool.h>

/* Below this an insertion sort is faster than a pass. */
#define SMALL_COUNT 24u
#define DIGIT_BITS 10u
#define DIGITS (1u << DIGIT_BITS)
/* Below this threads cost more than they give. */
#define SHARE_COUNT (1u << 16)

static inline bool
is_less(const struct hspz_hsp_key *a, const struct hspz_hsp_key *b)
{
    return a->key[0] < b->key[0] || (a->key[0] == b->key[0] && a->key[1] < b->key[1]);
}

static void
sort_small(struct hspz_hsp_key *keys, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct hspz_hsp_key key = keys[i];
        size_t at = i;
        for (; at > 0 && is_less(&key, &keys[at - 1]); at--) {
            keys[at] = keys[at - 1];
        }
        keys[at] = key;
    }
}

/* One pass: keys are told apart by (key[word] - least) >> shift. */
struct pass {
    unsigned word, shift;
    uint64_t least;
    size_t next[DIGITS], ends[DIGITS];
};

static inline size_t
digit(const struct pass *pass, const struct hspz_hsp_key *key)
{
    return (size_t)((key->key[pass->word] - pass->least) >> pass->shift);
}

static unsigned
bits_of(uint64_t number)
{
    return number == 0 ? 0 : 64 - (unsigned)__builtin_clzll(number);
}

/* The first word from *word on in which keys differ; false when there is none. */
static bool
plan_pass(const struct hspz_hsp_key *keys, size_t count, unsigned word, struct pass *pass)
{
    for (; word < 2; word++) {
        uint64_t least = keys[0].key[word];
        uint64_t most = least;
        for (size_t i = 1; i < count; i++) {
            const uint64_t key = keys[i].key[word];
            least = key < least ? key : least;
            most = key > most ? key : most;
        }
        if (least != most) {
            const unsigned bits = bits_of(most - least);
            const unsigned wanted = bits_of(count / 4);
            const unsigned digit_bits = wanted < DIGIT_BITS ? wanted : DIGIT_BITS;
            pass->word = word;
            pass->least = least;
            pass->shift = bits > digit_bits ? bits - digit_bits : 0;
            return true;
        }
    }
    return false;
}

/* Moves every key to its digit's stretch, along the cycles of the permutation. */
static void
permute(struct pass *pass, struct hspz_hsp_key *keys)
{
    for (size_t d = 0; d < DIGITS; d++) {
        while (pass->next[d] < pass->ends[d]) {
            struct hspz_hsp_key key = keys[pass->next[d]];
            size_t home = digit(pass, &key);
            while (home != d) {
                const struct hspz_hsp_key other = keys[pass->next[home]];
                keys[pass->next[home]++] = key;
                key = other;
                home = digit(pass, &key);
            }
            keys[pass->next[d]++] = key;
        }
    }
}

static void
do_pass(struct pass *pass, struct hspz_hsp_key *keys, size_t count)
{
    size_t sum = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        pass->next[d] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        pass->next[digit(pass, &keys[i])]++;
    }
    for (size_t d = 0; d < DIGITS; d++) {
        const size_t begin = sum;
        sum += pass->next[d];
        pass->next[d] = begin;
        pass->ends[d] = sum;
    }
    permute(pass, keys);
}

/* Keys that are equal in the words before `word`. */
static void
sort_from(struct hspz_hsp_key *keys, size_t count, unsigned word)
{
    struct pass pass;
    if (count <= SMALL_COUNT) {
        sort_small(keys, count);
        return;
    }
    if (!plan_pass(keys, count, word, &pass)) {
        return;
    }
    do_pass(&pass, keys, count);
    size_t begin = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        const size_t end = pass.ends[d];
        if (end - begin > 1) {
            sort_from(keys + begin, end - begin, pass.word);
        }
        begin = end;
    }
}

struct shared {
    struct hspz_hsp_key *keys;
    struct pass pass;
};

static void
sort_stretch(void *user, size_t d)
{
    const struct shared *s = user;
    const size_t begin = d == 0 ? 0 : s->pass.ends[d - 1];
    sort_from(s->keys + begin, s->pass.ends[d] - begin, s->pass.word);
}

void
hspz_hsp_sort(struct hspz_hsp_key *keys, size_t count, struct hspz_pool *pool)
{
    size_t sorted = 1;
    while (sorted < count && !is_less(&keys[sorted], &keys[sorted - 1])) {
        sorted++;
    }
    if (sorted >= count) {
        return;
    }
    struct shared shared = {.keys = keys};
    if (pool != NULL && count >= SHARE_COUNT && plan_pass(keys, count, 0, &shared.pass)) {
        do_pass(&shared.pass, keys, count);
        hspz_pool_run(pool, sort_stretch, &shared, DIGITS);
    } else {
        sort_from(keys, count, 0);
    }
}
