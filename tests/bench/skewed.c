#include "tests/bench/skewed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS (UINT32_C(1) << SKEWED_LOG2_WORDS)
#define POISSON_MOST 256u
#define TAIL_CAP 2e5

static uint64_t
draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double
draw_unit(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1.0p-53;
}

static void *
take(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void
poisson_sizes(uint32_t *sizes, double mean, uint64_t *state)
{
    double below[POISSON_MOST]; /* probability of at most i */
    double p = exp(-mean), sum = 0;
    for (uint32_t i = 0; i < POISSON_MOST; i++) {
        sum += p;
        below[i] = sum;
        p *= mean / (i + 1);
    }
    for (uint32_t w = 0; w < WORDS; w++) {
        const double u = draw_unit(state);
        uint32_t low = 0, high = POISSON_MOST - 1;
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (below[middle] <= u) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        sizes[w] = low;
    }
}

static void
tailed_sizes(uint32_t *sizes, double mean, double tail, uint64_t *state)
{
    float *raw = take(WORDS * sizeof(*raw));
    double sum = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        const double x = pow(1 - draw_unit(state), -1 / tail) - 1;
        raw[w] = (float)(x < TAIL_CAP ? x : TAIL_CAP);
        sum += raw[w];
    }
    const double scale = mean * WORDS / sum;
    for (uint32_t w = 0; w < WORDS; w++) {
        sizes[w] = (uint32_t)(raw[w] * scale + draw_unit(state));
    }
    free(raw);
}

static uint32_t
word_at(const uint32_t *table, uint32_t position)
{
    uint32_t low = 0, high = WORDS - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (table[middle] <= position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t
bucket_size(const uint32_t *table, uint32_t word)
{
    return table[word] - (word == 0 ? 0 : table[word - 1]);
}

static uint64_t
window_hits(const uint32_t *table, uint32_t word)
{
    uint64_t hits = bucket_size(table, word);
    for (uint32_t t = 0; t + 1 < SKEWED_PER_WINDOW; t++) {
        hits += bucket_size(table, word ^ (2u << (2 * t)));
    }
    return hits;
}

struct skewed_input
skewed_make(const struct skewed_case *c, uint64_t most_hits)
{
    uint64_t state = 7;
    struct skewed_input in = {.table = take(WORDS * sizeof(uint32_t))};
    if (c->tail == 0) {
        poisson_sizes(in.table, c->mean, &state);
    } else {
        tailed_sizes(in.table, c->mean, c->tail, &state);
    }
    for (uint32_t w = 0; w < WORDS; w++) {
        in.positions += in.table[w];
        in.table[w] = (uint32_t)in.positions;
    }
    const uint64_t windows = c->seeds / SKEWED_PER_WINDOW;
    in.windows = take(windows * sizeof(uint64_t));
    while (in.window_count < windows) {
        const uint32_t word = word_at(in.table, (uint32_t)(draw(&state) % in.positions));
        const uint64_t hits = window_hits(in.table, word);
        if (in.hits + hits > most_hits) {
            break;
        }
        in.hits += hits;
        in.windows[in.window_count] = (uint64_t)word << 32 | in.window_count;
        in.window_count++;
    }
    return in;
}

void
skewed_free(struct skewed_input *input)
{
    free(input->table);
    free(input->windows);
    *input = (struct skewed_input){0};
}
