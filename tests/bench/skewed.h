/* Inputs for measuring expansion, by distribution: a table of 2^24 buckets and seeds that hit it.
 *
 * Bucket sizes are Poisson, or Pareto with a cap, scaled to a mean. Queries are drawn in proportion
 * to hits (the word of a random indexed position), each with its 12 transitions. */
#pragma once

#include <stdint.h>

#define SKEWED_LOG2_WORDS 24u
#define SKEWED_PER_WINDOW 13u

struct skewed_case {
    const char *name;
    double mean;
    double tail; /* exponent; 0: Poisson */
    uint64_t seeds;
};

struct skewed_input {
    uint32_t *table;
    uint64_t positions; /* == table[last] */
    uint64_t *windows;  /* exact word << 32 | query position */
    uint64_t window_count;
    uint64_t hits;
};

/* Stops taking windows before their hits exceed most_hits. Ends the program when memory is out. */
struct skewed_input skewed_make(const struct skewed_case *c, uint64_t most_hits);
void skewed_free(struct skewed_input *input);
