/* Filters over the GPUs of a host: one on each at the same time, and one in parts over all of them,
 * against the same on one: 10^9 keys a second, medians.
 *
 *   split_bench [LOG2 ...]     slots of a tcf or gqf, keys of a blocked Bloom filter; 26 28
 *
 * On one, two, four, ... GPUs. Each has keys and answers of a filter of its own in its memory;
 * those of one in parts are on the first, and on one GPU there are two parts, which shows what the
 * sharing out costs. Keys that are in must be found; what is answered about others must be the same
 * on every GPU where the calls determine it, and is compared for parts. */
#include "engine/filter_split.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/filter_time.h"
#include "tests/bench/floors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 8
#define PROBES (UINT64_C(1) << 16) /* keys that are not in, behind those that are */

/* A device with keys, and what is done there in one go. */
struct site {
    pthread_t thread;
    int device;
    cudaStream_t stream;
    uint64_t *keys;
    uint32_t *yes;
    struct hspz_cuda_filter_result *result;
    struct hspz_filter *const *parts; /* or the whole filter, the only one of them */
    unsigned count;
    struct hspz_cuda_filter_call call;
    unsigned long long answered; /* yes */
};

struct row {
    const char *name;
    struct hspz_filter_spec spec;
    unsigned log2_slots;
    uint64_t keys;
    uint64_t first_other; /* of the keys behind those that may go in */
    bool determined;      /* what it says of them */
};

struct rates {
    double insert, query;
};

static void *
run_site(void *arg)
{
    struct site *s = arg;
    struct hspz_error err = {0};
    struct hspz_cuda_filter_result result;
    must_cuda(cudaSetDevice(s->device));
    must(s->count == 1 ? hspz_cuda_filter_run(s->parts[0], &s->call, s->stream, &err)
                       : hspz_cuda_filter_run_split(s->parts, s->count, &s->call, s->stream, &err),
         &err);
    must_cuda(cudaStreamSynchronize(s->stream));
    must_cuda(cudaMemcpy(&result, s->result, sizeof(result), cudaMemcpyDeviceToHost));
    if (result.refused != 0) {
        fprintf(stderr, "%s: %llu keys are refused\n", hspz_filter_op_name(s->call.op),
                result.refused);
        exit(1);
    }
    s->answered = result.yes;
    return NULL;
}

/* The call at all sites at once; milliseconds until all are done. */
static float
run_sites(struct site *sites, unsigned count, enum hspz_filter_op op, uint64_t first, uint64_t keys)
{
    for (unsigned i = 0; i < count; i++) {
        struct site *s = &sites[i];
        s->call = (struct hspz_cuda_filter_call){.op = op,
                                                 .keys = s->keys + first,
                                                 .count = keys,
                                                 .yes = op == HSPZ_FILTER_QUERY ? s->yes : NULL,
                                                 .result = s->result};
        must_cuda(cudaSetDevice(s->device));
        must_cuda(cudaMemset(s->result, 0, sizeof(*s->result)));
        must_cuda(cudaDeviceSynchronize());
    }
    const double from = now_s();
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&sites[i].thread, NULL, run_site, &sites[i]) != 0) {
            exit(1);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(sites[i].thread, NULL);
    }
    return (float)((now_s() - from) * 1e3);
}

static float
run_sure(struct site *sites, unsigned count, enum hspz_filter_op op, uint64_t keys)
{
    const float ms = run_sites(sites, count, op, 0, keys);
    for (unsigned i = 0; i < count; i++) {
        if (sites[i].answered != keys) {
            fprintf(stderr, "%s: of %llu keys %llu are answered yes\n", hspz_filter_op_name(op),
                    (unsigned long long)keys, sites[i].answered);
            exit(1);
        }
    }
    return ms;
}

/* Inserts into empty filters, and queries with answers; of all sites together. */
static struct rates
measure(struct site *sites, unsigned count, uint64_t keys)
{
    float ms[2][FILTER_REPEATS];
    for (int r = -1; r < FILTER_REPEATS; r++) {
        const int at = r < 0 ? 0 : r; /* the first one makes scratch */
        for (unsigned i = 0; i < count; i++) {
            for (unsigned p = 0; p < sites[i].count; p++) {
                struct hspz_error err = {0};
                must(hspz_cuda_filter_clear(sites[i].parts[p], NULL, &err), &err);
                must_cuda(cudaDeviceSynchronize());
            }
        }
        ms[0][at] = run_sure(sites, count, HSPZ_FILTER_INSERT, keys);
        ms[1][at] = run_sure(sites, count, HSPZ_FILTER_QUERY, keys);
    }
    const double all = (double)count * (double)keys / 1e6;
    return (struct rates){all / filter_time_median(ms[0]), all / filter_time_median(ms[1])};
}

/* Of what it says about keys that are not in. */
static uint64_t
probe(struct site *site, uint64_t first)
{
    static uint32_t answers[PROBES / 32];
    uint64_t digest = 0;
    (void)run_sites(site, 1, HSPZ_FILTER_QUERY, first, PROBES);
    must_cuda(cudaMemcpy(answers, site->yes, sizeof(answers), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < PROBES / 32; i++) {
        digest = (digest ^ answers[i]) * UINT64_C(0x100000001b3);
        digest ^= digest >> 32;
    }
    return digest;
}

/* The filter of a site, in parts on so many devices from its own on. */
static struct hspz_filter *
create(struct hspz_engine *engine, const struct row *row, unsigned parts, unsigned device,
       unsigned devices, const struct hspz_filter_ops **ops)
{
    struct hspz_filter_spec spec = row->spec;
    struct hspz_filter_plan plan;
    struct hspz_error err = {0};
    struct hspz_filter *filter = NULL;
    spec.parts = parts;
    must(hspz_filter_plan(&spec, 0, &plan, &err), &err);
    plan.device = hspz_cuda_engine.filter_device(engine, device);
    for (unsigned p = 0; p < parts; p++) {
        plan.part_devices[p] = hspz_cuda_engine.filter_device(engine, device + p % devices);
    }
    *ops = hspz_filter_ops_of(&plan, hspz_cuda_filter(spec.kind));
    must((*ops)->create(&plan, &filter, &err), &err);
    return filter;
}

/* Those of the kind of filter before, on other devices. */
static void
must_be_same(const struct row *row, unsigned devices, uint64_t digest, uint64_t want)
{
    if (row->determined && digest != want) {
        printf("%s, %u devices: other answers than on one  WRONG\n", row->name, devices);
        exit(1);
    }
}

/* One filter on each device; *digest is of what all of them say. */
static struct rates
run_wholes(struct hspz_engine *engine, const struct row *row, struct site *sites, unsigned devices,
           uint64_t *digest)
{
    const struct hspz_filter_ops *ops = NULL;
    struct hspz_filter *filters[DEVICES_MAX];
    for (unsigned d = 0; d < devices; d++) {
        filters[d] = create(engine, row, 1, d, 1, &ops);
        sites[d].parts = &filters[d];
        sites[d].count = 1;
    }
    const struct rates rates = measure(sites, devices, row->keys);
    for (unsigned d = 0; d < devices; d++) {
        const uint64_t says = probe(&sites[d], row->first_other);
        *digest = d == 0 ? says : *digest;
        must_be_same(row, devices, says, *digest);
        ops->destroy(&filters[d]);
    }
    return rates;
}

static struct rates
run_parts(struct hspz_engine *engine, const struct row *row, struct site *site, unsigned parts,
          unsigned devices, uint64_t *digest)
{
    const struct hspz_filter_ops *ops = NULL;
    struct hspz_filter *filter = create(engine, row, parts, 0, devices, &ops);
    site->parts = hspz_filter_split_parts(filter);
    site->count = parts;
    const struct rates rates = measure(site, 1, row->keys);
    *digest = probe(site, row->first_other);
    ops->destroy(&filter);
    return rates;
}

static void
run_row(struct hspz_engine *engine, const struct row *row, struct site *sites, unsigned devices)
{
    struct rates one = {0};
    uint64_t want[2] = {0};
    unsigned parts = 2;
    while (parts * 2 <= devices) {
        parts *= 2;
    }
    for (unsigned n = 1; n <= devices; n *= 2) {
        uint64_t digests[2];
        const struct rates each = run_wholes(engine, row, sites, n, &digests[0]);
        const struct rates split = run_parts(engine, row, sites, parts, n, &digests[1]);
        for (int i = 0; i < 2; i++) {
            want[i] = n == 1 ? digests[i] : want[i];
            must_be_same(row, n, digests[i], want[i]);
        }
        one = n == 1 ? each : one;
        printf("%-8s 2^%-3u %u devices: one on each, insert %7.2f (%.3f) query %7.2f (%.3f); in %u "
               "parts, insert %6.2f (%.2f) query %6.2f (%.2f)\n",
               row->name, row->log2_slots, n, each.insert, each.insert / one.insert, each.query,
               each.query / one.query, parts, split.insert, split.insert / one.insert, split.query,
               split.query / one.query);
        fflush(stdout);
    }
}

static void
open_site(struct site *s, int device, uint64_t keys)
{
    *s = (struct site){.device = device};
    must_cuda(cudaSetDevice(device));
    must_cuda(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    must_cuda(cudaMalloc((void **)&s->result, sizeof(*s->result)));
    must_cuda(cudaMalloc((void **)&s->keys, (keys + PROBES) * sizeof(*s->keys)));
    must_cuda(cudaMalloc((void **)&s->yes, (keys > PROBES ? keys : PROBES) / 8));
    must_cuda(floors_fill((uint32_t *)s->keys, 2 * (keys + PROBES), s->stream));
    must_cuda(cudaStreamSynchronize(s->stream));
}

static void
close_site(struct site *s)
{
    must_cuda(cudaSetDevice(s->device));
    must_cuda(cudaFree(s->keys));
    must_cuda(cudaFree(s->yes));
    must_cuda(cudaFree(s->result));
    must_cuda(cudaStreamDestroy(s->stream));
}

static void
run_size(struct hspz_engine *engine, unsigned devices, unsigned log2_slots)
{
    const uint64_t count = UINT64_C(1) << log2_slots;
    const struct row rows[] = {
        {"tcf",
         {.kind = HSPZ_FILTER_TCF, .slots = count},
         log2_slots,
         count * 22 / 25,
         count,
         false},
        {"gqf",
         {.kind = HSPZ_FILTER_GQF, .slots = count, .slot_bits = 8},
         log2_slots,
         count * 9 / 10,
         count,
         true},
        {"blocked",
         {.kind = HSPZ_FILTER_BLOCKED, .slots = 16 * count, .hashes = 8},
         log2_slots,
         count,
         count,
         true},
    };
    struct site sites[DEVICES_MAX];
    for (unsigned d = 0; d < devices; d++) {
        open_site(&sites[d], (int)d, count);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run_row(engine, &rows[i], sites, devices);
    }
    for (unsigned d = 0; d < devices; d++) {
        close_site(&sites[d]);
    }
}

int
main(int argc, char **argv)
{
    struct hspz_engine *engine = NULL;
    struct hspz_error err = {0};
    must(hspz_cuda_engine.open(&(struct hspz_engine_config){0}, &engine, &err), &err);
    const unsigned all = hspz_cuda_engine.device_count(engine);
    const unsigned devices = all < DEVICES_MAX ? all : DEVICES_MAX;
    printf("%u devices; 10^9 keys a second\n", devices);
    for (int i = 1; i < argc; i++) {
        run_size(engine, devices, (unsigned)strtoul(argv[i], NULL, 10));
    }
    for (unsigned log2_slots = 26; argc == 1 && log2_slots <= 28; log2_slots += 2) {
        run_size(engine, devices, log2_slots);
    }
    hspz_cuda_engine.close(&engine);
    return 0;
}
