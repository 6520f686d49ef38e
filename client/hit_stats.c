#include "client/hit_stats.h"

#include <inttypes.h>
#include <stdlib.h>

#define LANES 32u
#define WARP_FROM 16u /* hits per seed, SPEC C.4 */

static const struct {
    const char *name;
    uint64_t most;
} bounds[HSPZ_HIT_CLASSES] = {
    {"0", 0}, {"1", 1}, {"2-4", 4}, {"5-32", 32}, {"33-256", 256}, {">256", UINT64_MAX},
};

enum hspz_status
hspz_hit_stats_init(struct hspz_hit_stats *stats, struct hspz_error *err)
{
    *stats = (struct hspz_hit_stats){.seeds_with = calloc(HSPZ_HITS_DENSE, sizeof(uint64_t))};
    return stats->seeds_with != NULL
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count hits");
}

void
hspz_hit_stats_fini(struct hspz_hit_stats *stats)
{
    free(stats->seeds_with);
    free(stats->large);
    *stats = (struct hspz_hit_stats){0};
}

static enum hspz_status
add_large(struct hspz_hit_stats *stats, uint64_t hits, struct hspz_error *err)
{
    if (stats->large_count == stats->large_capacity) {
        const size_t capacity = 2 * stats->large_capacity + 64;
        uint64_t *grown = realloc(stats->large, capacity * sizeof(*grown));
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to count hits");
        }
        stats->large = grown;
        stats->large_capacity = capacity;
    }
    stats->large[stats->large_count++] = hits;
    stats->sorted = false;
    return HSPZ_OK;
}

enum hspz_status
hspz_hit_stats_add(struct hspz_hit_stats *stats, const uint64_t *hits, size_t count,
                   struct hspz_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (hits[i] < HSPZ_HITS_DENSE) {
            stats->seeds_with[hits[i]]++;
        } else {
            const enum hspz_status status = add_large(stats, hits[i], err);
            if (status != HSPZ_OK) {
                return status;
            }
        }
        stats->seeds++;
        stats->hits += hits[i];
    }
    return HSPZ_OK;
}

void
hspz_hit_stats_launch(struct hspz_hit_stats *stats, const uint32_t *hits, size_t count)
{
    uint64_t all = 0, by_thread = 0, by_warp = 0;
    for (size_t begin = 0; begin < count; begin += LANES) {
        const size_t end = count - begin < LANES ? count : begin + LANES;
        uint32_t turns = 0;
        for (size_t i = begin; i < end; i++) {
            turns = hits[i] > turns ? hits[i] : turns;
            all += hits[i];
            by_warp += ((uint64_t)hits[i] + LANES - 1) / LANES * LANES;
        }
        by_thread += (uint64_t)turns * LANES;
    }
    stats->expanded += all;
    stats->thread_slots += by_thread;
    stats->warp_slots += by_warp;
    stats->adaptive_slots += all / WARP_FROM < count ? by_thread : by_warp;
}

static int
compare_hits(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void
sort_large(struct hspz_hit_stats *stats)
{
    if (!stats->sorted && stats->large_count > 0) {
        qsort(stats->large, stats->large_count, sizeof(*stats->large), compare_hits);
    }
    stats->sorted = true;
}

void
hspz_hit_stats_classes(const struct hspz_hit_stats *stats,
                       struct hspz_hit_class classes[HSPZ_HIT_CLASSES])
{
    uint64_t seeds = 0, hits = 0, value = 0;
    for (size_t c = 0; c < HSPZ_HIT_CLASSES; c++) {
        classes[c] = (struct hspz_hit_class){.name = bounds[c].name};
        for (; c + 1 < HSPZ_HIT_CLASSES && value <= bounds[c].most; value++) {
            classes[c].seeds += stats->seeds_with[value];
            classes[c].hits += stats->seeds_with[value] * value;
        }
        seeds += classes[c].seeds;
        hits += classes[c].hits;
    }
    classes[HSPZ_HIT_CLASSES - 1].seeds = stats->seeds - seeds;
    classes[HSPZ_HIT_CLASSES - 1].hits = stats->hits - hits;
}

/* The hits of the seed of this rank, 0-based from the fewest hits on. */
static uint64_t
hits_at(const struct hspz_hit_stats *stats, uint64_t rank)
{
    uint64_t before = 0;
    for (uint64_t value = 0; value < HSPZ_HITS_DENSE; value++) {
        before += stats->seeds_with[value];
        if (rank < before) {
            return value;
        }
    }
    return stats->large[rank - before];
}

/* Of `seeds` seeds after the first `skipped`. */
static uint64_t
percentile(const struct hspz_hit_stats *stats, uint64_t skipped, uint64_t seeds, unsigned percent)
{
    const uint64_t rank = seeds / 100 * percent + (seeds % 100 * percent + 99) / 100;
    return hits_at(stats, skipped + rank - 1);
}

void
hspz_hit_stats_summary(struct hspz_hit_stats *stats, bool with_hits, struct hspz_hit_summary *out)
{
    const uint64_t skipped = with_hits ? stats->seeds_with[0] : 0;
    const uint64_t seeds = stats->seeds - skipped;
    *out = (struct hspz_hit_summary){0};
    if (seeds == 0) {
        return;
    }
    sort_large(stats);
    out->mean = (double)stats->hits / (double)seeds;
    out->median = percentile(stats, skipped, seeds, 50);
    out->p95 = percentile(stats, skipped, seeds, 95);
    out->p99 = percentile(stats, skipped, seeds, 99);
    out->most = hits_at(stats, stats->seeds - 1);
}

bool
hspz_hit_stats_next(struct hspz_hit_stats *stats, uint64_t *at, uint64_t *hits, uint64_t *seeds)
{
    sort_large(stats);
    if (*at < stats->large_count) {
        const uint64_t value = stats->large[stats->large_count - 1 - *at];
        *hits = value;
        *seeds = 0;
        while (*at < stats->large_count && stats->large[stats->large_count - 1 - *at] == value) {
            ++*at;
            ++*seeds;
        }
        return true;
    }
    uint64_t value = HSPZ_HITS_DENSE - (*at - stats->large_count);
    while (value > 0) {
        value--;
        ++*at;
        if (stats->seeds_with[value] > 0) {
            *hits = value;
            *seeds = stats->seeds_with[value];
            return true;
        }
    }
    return false;
}

static double
share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0.0;
}

static void
print_summary(struct hspz_hit_stats *stats, bool with_hits, bool json, FILE *to)
{
    struct hspz_hit_summary s;
    hspz_hit_stats_summary(stats, with_hits, &s);
    fprintf(to,
            json ? ",\"%s\":{\"mean\":%.6f,\"median\":%" PRIu64 ",\"p95\":%" PRIu64
                   ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}"
                 : "%-15s %12.3f %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
            with_hits ? "seeds_with_hits" : "all_seeds", s.mean, s.median, s.p95, s.p99, s.most);
}

static void
print_json(struct hspz_hit_stats *stats, const struct hspz_hit_class *classes, FILE *to)
{
    fprintf(to, "{\"seeds\":%" PRIu64 ",\"hits\":%" PRIu64 ",\"classes\":[", stats->seeds,
            stats->hits);
    for (size_t c = 0; c < HSPZ_HIT_CLASSES; c++) {
        fprintf(to, "%s{\"hits_per_seed\":\"%s\",\"seeds\":%" PRIu64 ",\"hits\":%" PRIu64 "}",
                c > 0 ? "," : "", classes[c].name, classes[c].seeds, classes[c].hits);
    }
    fprintf(to, "]");
    print_summary(stats, false, true, to);
    print_summary(stats, true, true, to);
    fprintf(to,
            ",\"zero_hit_share\":%.6f,\"lane_use\":{\"thread_per_seed\":%.6f,"
            "\"warp_per_seed\":%.6f,\"chosen\":%.6f},\"distribution\":[",
            share(stats->seeds_with[0], stats->seeds), share(stats->expanded, stats->thread_slots),
            share(stats->expanded, stats->warp_slots),
            share(stats->expanded, stats->adaptive_slots));
    uint64_t at = 0, hits = 0, seeds = 0;
    for (const char *join = ""; hspz_hit_stats_next(stats, &at, &hits, &seeds); join = ",") {
        fprintf(to, "%s[%" PRIu64 ",%" PRIu64 "]", join, hits, seeds);
    }
    fprintf(to, "]}\n");
}

void
hspz_hit_stats_print(struct hspz_hit_stats *stats, bool json, FILE *to)
{
    struct hspz_hit_class classes[HSPZ_HIT_CLASSES];
    hspz_hit_stats_classes(stats, classes);
    if (json) {
        print_json(stats, classes, to);
        return;
    }
    fprintf(to, "%-15s %12s %8s %14s %8s\n", "#hits_per_seed", "seeds", "seeds_%", "hits",
            "hits_%");
    for (size_t c = 0; c < HSPZ_HIT_CLASSES; c++) {
        fprintf(to, "%-15s %12" PRIu64 " %8.3f %14" PRIu64 " %8.3f\n", classes[c].name,
                classes[c].seeds, 100.0 * share(classes[c].seeds, stats->seeds), classes[c].hits,
                100.0 * share(classes[c].hits, stats->hits));
    }
    fprintf(to, "%-15s %12" PRIu64 " %8.3f %14" PRIu64 " %8.3f\n", "all", stats->seeds,
            stats->seeds > 0 ? 100.0 : 0.0, stats->hits, stats->hits > 0 ? 100.0 : 0.0);
    fprintf(to, "#hits           %12s %10s %10s %10s %10s\n", "mean", "median", "p95", "p99",
            "max");
    print_summary(stats, false, false, to);
    print_summary(stats, true, false, to);
    fprintf(to, "#lanes_busy_%%   thread_per_seed  warp_per_seed  chosen\n");
    fprintf(to, "%-15s %15.3f %14.3f %7.3f\n", "expand",
            100.0 * share(stats->expanded, stats->thread_slots),
            100.0 * share(stats->expanded, stats->warp_slots),
            100.0 * share(stats->expanded, stats->adaptive_slots));
    fprintf(to, "%-15s %12.3f\n", "zero_hit_%", 100.0 * share(stats->seeds_with[0], stats->seeds));
}
