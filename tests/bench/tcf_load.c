/* How full a two-choice filter gets, on the CPU.
 *
 *   tcf_load [LOG2 [SEEDS]]     slots, 20; seeds, 20
 *
 * without   keys into the emptier of two blocks at random, or the first while that is not three
 *           quarters full, until one finds both full: the load then, lowest and mean over the seeds
 * refused   the engine's filter, which has a backing table of a hundredth: the load at the first
 *           key that does not go in */
#include "engine/filter.h"
#include "engine/filter_hash.h"
#include "tests/bench/bench.h"

#include <string.h>

struct shape {
    unsigned tag, slots;
};

static double
load_without(uint64_t blocks, unsigned slots, uint64_t seed, uint8_t *used)
{
    memset(used, 0, blocks);
    for (uint64_t i = 0;; i++) {
        const uint64_t hash = hspz_filter_hash(i, hspz_filter_salt(seed));
        const uint64_t a = hspz_filter_scale(hash, blocks);
        const uint64_t b = hspz_filter_scale(hspz_filter_mix(hash), blocks);
        const uint64_t to = 4u * used[a] < 3 * slots || used[a] <= used[b] ? a : b;
        if (used[to] == slots) {
            return (double)i / (double)(blocks * slots);
        }
        used[to]++;
    }
}

static void
insert(struct hspz_filter *filter, const struct hspz_filter_ops *ops, uint64_t first, size_t count,
       uint64_t *inside)
{
    struct hspz_error err = {0};
    uint64_t *keys = malloc(count * sizeof(*keys));
    if (keys == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = first + i;
    }
    struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT, .keys = keys, .count = count};
    must(ops->run(filter, &call, &err), &err);
    *inside += call.yes_count;
    free(keys);
}

/* The load at the first key that is refused. */
static double
load_of_filter(const struct shape *shape, uint64_t slots, uint64_t seed)
{
    const struct hspz_filter_ops *ops = hspz_cpu_filter(HSPZ_FILTER_TCF);
    const struct hspz_filter_spec spec = {.kind = HSPZ_FILTER_TCF,
                                          .slots = slots,
                                          .slot_bits = shape->tag,
                                          .block_slots = shape->slots,
                                          .seed = seed};
    struct hspz_filter_plan plan;
    struct hspz_filter *filter = NULL;
    struct hspz_error err = {0};
    uint64_t asked = slots / 10 * 8, inside = 0;
    must(hspz_filter_plan(&spec, 0, &plan, &err), &err);
    must(ops->create(&plan, &filter, &err), &err);
    insert(filter, ops, 0, asked, &inside);
    while (inside == asked) {
        const size_t few = slots / 4096;
        insert(filter, ops, asked, few, &inside);
        asked += few;
    }
    ops->destroy(&filter);
    return (double)inside / (double)slots;
}

int
main(int argc, char **argv)
{
    static const struct shape shapes[] = {{16, 16}, {8, 16}, {16, 32}, {12, 32}, {16, 64}, {8, 64}};
    const uint64_t slots = UINT64_C(1) << (argc > 1 ? strtoul(argv[1], NULL, 10) : 20);
    const uint64_t seeds = argc > 2 ? strtoul(argv[2], NULL, 10) : 20;
    uint8_t *used = malloc(slots);
    if (used == NULL || slots < 1 << 12) {
        fprintf(stderr, "usage: tcf_load [LOG2 [SEEDS]], LOG2 from 12 on\n");
        return 2;
    }
    printf("tag slots   without: lowest  mean   refused: lowest  mean\n");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        double low[2] = {1, 1}, sum[2] = {0, 0};
        for (uint64_t seed = 0; seed < seeds; seed++) {
            const double load[2] = {
                load_without(slots / shapes[i].slots, shapes[i].slots, seed, used),
                load_of_filter(&shapes[i], slots, seed)};
            for (int w = 0; w < 2; w++) {
                low[w] = load[w] < low[w] ? load[w] : low[w];
                sum[w] += load[w];
            }
        }
        printf("%3u %5u            %.3f  %.3f            %.3f  %.3f\n", shapes[i].tag,
               shapes[i].slots, low[0], sum[0] / (double)seeds, low[1], sum[1] / (double)seeds);
    }
    free(used);
    return 0;
}
