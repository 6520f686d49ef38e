/* One input of tests/bench/skewed.h on a card, with everything the kernels need, and a clock.
 * Failures end the program. */
#pragma once

#include "engine/cuda/kernels/launch.h"
#include "tests/bench/skewed.h"

#define CARD_SPAN 19u
#define CARD_NOT_WRITTEN 0xee /* a byte of what no kernel has written */

struct card {
    unsigned multiprocessors;
    cudaStream_t stream;
    cudaEvent_t from, to;

    struct skewed_input in;
    uint64_t seed_count, blocks;
    uint64_t *seeds; /* host */
    uint64_t *host_blocks;
    struct hspz_cuda_index index;   /* without what is derived from the table */
    uint32_t *present;              /* derived */
    struct hspz_cuda_group *groups; /* derived */
    uint64_t full_buckets, cut_groups;
    struct hspz_cuda_seeds given, windows;
    struct hspz_cuda_counts counts;
    struct hspz_cuda_records records;
    struct hspz_cuda_window window; /* all hits */
    /* of the call being timed */
    const struct hspz_cuda_seeds *source;
    enum hspz_cuda_mapping mapping;
    struct hspz_cuda_query query; /* of seeding: its windows go to made[] */
    uint64_t *made;
    uint32_t *made_counts;
};

typedef cudaError_t (*card_call_fn)(struct card *);

void card_check(cudaError_t error, const char *what);
void *card_take(uint64_t bytes);
void *card_upload(const void *from, uint64_t bytes);
struct hspz_cuda_seeds card_seeds(const uint64_t *words, uint64_t count, uint32_t per_window);

void card_open(struct card *card, const struct skewed_case *row, uint64_t most_hits);
void card_close(struct card *card);
/* Block totals, in host_blocks, to offsets; hits and records. */
void card_scan(struct card *card);
/* Room for what card_scan found. */
void card_open_records(struct card *card, uint32_t tile_log2);

/* Median milliseconds of a call. */
double card_time(struct card *card, card_call_fn call, const char *what);
double card_median(float *times, int count);
/* So many things in so many milliseconds, as 10^9 a second. */
double card_rate(uint64_t things, double ms);

uint32_t card_bucket_begin(const struct card *card, uint32_t word);
