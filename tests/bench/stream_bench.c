/* The CUDA engine from end to end: anchors in pinned host memory, packed and by columns, beside the
 * bus; independent batches on one device and on two, four, ...; small batches.
 *
 *   stream_bench [--bases N] [--devices]     --devices: only what more devices change
 *
 * The bus is measured in the same run, with parts of the same size. All devices are checked to give
 * the same anchors, in order. 503316480 bases have 30 hits a seed. */
#include "engine/engine.h"
#include "engine/sequences.h"
#include "tests/bench/bench.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_ANCHORS (UINT64_C(1) << 20)
#define LANES_MAX 4
#define DEVICES_MAX 8
#define DEVICE_LANES 2 /* on each of several devices */
#define WORKERS_MAX (DEVICES_MAX * DEVICE_LANES)
#define QUERY_BASES 8000000
#define ROUNDS 4
#define SMALL_SEEDS 1000
#define SMALL_RUNS 3000
#define TINY_RUNS 10000
#define WINDOW 19

static uint64_t
draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static char *
random_bases(size_t len, uint64_t seed)
{
    char *bases = malloc(len);
    for (size_t i = 0; i < len; i++) {
        bases[i] = "ACGT"[draw(&seed) & 3];
    }
    return bases;
}

static struct hspz_index *
random_index(const char *pattern, size_t len)
{
    struct hspz_error err = {0};
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    struct hspz_index_params params = {.step = 1};
    size_t bad;
    char *bases = random_bases(len, 1);
    must(hspz_shape_parse(pattern, strlen(pattern), &params.shape, &err), &err);
    must(hspz_sequences_create(0, &seqs), &err);
    must(hspz_sequences_begin(seqs, "r", 1, 0, &err), &err);
    must(hspz_sequences_append(seqs, (const uint8_t *)bases, len, &bad, &err), &err);
    must(hspz_sequences_end(seqs, &err), &err);
    must(hspz_index_build(&seqs, &params, 16, 0, NULL, NULL, &index, &err), &err);
    free(bases);
    return index;
}

/* One lane's share of the work. */
struct worker {
    pthread_t thread;
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    struct hspz_ref *ref;
    struct hspz_lane *lane;
    struct hspz_job_spec spec;
    void *buffer;
    bool digesting;
    uint64_t anchors, bytes;
    uint64_t digest; /* of all anchors, in order */
};

static void
digest_part(struct worker *w, const struct hspz_part *part)
{
    for (uint64_t i = 0; i < part->count; i++) {
        w->digest = (w->digest ^ part->anchors[i]) * UINT64_C(0x100000001b3);
        w->digest ^= w->digest >> 32;
    }
}

static void *
work(void *arg)
{
    struct worker *w = arg;
    struct hspz_error err = {0};
    struct hspz_job *job = NULL;
    must(w->ops->job_begin(w->engine, w->ref, &w->spec, &job, &err), &err);
    struct hspz_part part = {.anchors = w->buffer, .capacity = PART_ANCHORS};
    w->anchors = w->bytes = w->digest = 0;
    do {
        must(w->ops->job_step(w->lane, job, &part, &err), &err);
        w->anchors += part.count;
        w->bytes += part.bytes;
        if (w->digesting) {
            digest_part(w, &part);
        }
    } while (part.kind != HSPZ_STEP_DONE);
    w->ops->job_end(&job);
    return NULL;
}

static double
bus_rate(void *host)
{
    void *device;
    cudaStream_t stream;
    if (cudaMalloc(&device, PART_ANCHORS * 8) != cudaSuccess ||
        cudaStreamCreate(&stream) != cudaSuccess) {
        exit(1);
    }
    const int copies = 200;
    double best = 0;
    for (int round = 0; round < 5; round++) {
        const double from = now_s();
        for (int i = 0; i < copies; i++) {
            cudaMemcpyAsync(host, device, PART_ANCHORS * 8, cudaMemcpyDeviceToHost, stream);
        }
        cudaStreamSynchronize(stream);
        const double rate = (double)copies * PART_ANCHORS * 8 / 1e9 / (now_s() - from);
        best = rate > best ? rate : best;
    }
    cudaFree(device);
    cudaStreamDestroy(stream);
    return best;
}

/* What came to the host, and in which time. */
struct stream {
    uint64_t anchors, bytes;
    double seconds;
};

/* Runs them side by side. */
static struct stream
run_together(struct worker *workers, unsigned count)
{
    const double from = now_s();
    struct stream stream = {0};
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            exit(1);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        stream.anchors += workers[i].anchors;
        stream.bytes += workers[i].bytes;
    }
    stream.seconds = now_s() - from;
    return stream;
}

/* The best of some rounds. */
static struct stream
run_rounds(struct worker *workers, unsigned count)
{
    struct stream best = {0};
    for (int round = 0; round < ROUNDS; round++) {
        const struct stream stream = run_together(workers, count);
        best = round == 0 || stream.seconds < best.seconds ? stream : best;
    }
    return best;
}

/* Of bytes, and of anchors in 10^9. */
static double
gigabytes_s(const struct stream *stream)
{
    return (double)stream->bytes / 1e9 / stream->seconds;
}

static double
anchors_s(const struct stream *stream)
{
    return (double)stream->anchors / 1e9 / stream->seconds;
}

/* The query in as many pieces as there are workers. */
static void
share_query(struct worker *workers, unsigned count, const char *query)
{
    const size_t len = QUERY_BASES / count;
    for (unsigned i = 0; i < count; i++) {
        workers[i].spec.bases = (struct hspz_span){(const uint8_t *)query + i * len, len};
    }
}

static void
run_lanes(struct worker *workers, unsigned lanes, const char *query, double bus)
{
    share_query(workers, lanes, query);
    const struct stream packed = run_rounds(workers, lanes);
    for (unsigned i = 0; i < lanes; i++) {
        workers[i].spec.encoding = HSPZ_ENCODING_COLUMNAR;
    }
    const struct stream columnar = run_rounds(workers, lanes);
    for (unsigned i = 0; i < lanes; i++) {
        workers[i].spec.encoding = HSPZ_ENCODING_PACKED;
    }
    printf("end to end, lanes, %u, anchors, %llu, GB/s, %.2f, of the bus, %.3f\n", lanes,
           (unsigned long long)packed.anchors, gigabytes_s(&packed), gigabytes_s(&packed) / bus);
    printf("by columns, lanes, %u, anchors, %llu, GB/s, %.2f, of the bus, %.3f, anchors as packed, "
           "%.3f\n",
           lanes, (unsigned long long)columnar.anchors, gigabytes_s(&columnar),
           gigabytes_s(&columnar) / bus, anchors_s(&columnar) / anchors_s(&packed));
    if (columnar.anchors != packed.anchors || packed.anchors == 0) {
        exit(1);
    }
}

/* Each device has the same batches, by lanes of its own. */
static void
share_to_devices(struct worker *workers, unsigned devices, const char *query)
{
    for (unsigned d = 0; d < devices; d++) {
        share_query(workers + d * DEVICE_LANES, DEVICE_LANES, query);
    }
}

static void
check_devices(struct worker *workers, unsigned devices)
{
    const unsigned count = devices * DEVICE_LANES;
    for (unsigned i = 0; i < count; i++) {
        workers[i].digesting = true;
    }
    (void)run_together(workers, count);
    for (unsigned i = 0; i < count; i++) {
        const struct worker *one = &workers[i % DEVICE_LANES], *other = &workers[i];
        workers[i].digesting = false;
        if (one->anchors != other->anchors || one->digest != other->digest || one->anchors == 0) {
            printf("device %u, batch %u, anchors, %llu, digest, %016llx, of device 0, %llu, "
                   "%016llx  WRONG\n",
                   i / DEVICE_LANES, i % DEVICE_LANES, (unsigned long long)other->anchors,
                   (unsigned long long)other->digest, (unsigned long long)one->anchors,
                   (unsigned long long)one->digest);
            exit(1);
        }
    }
    printf("%u devices, anchors each, %llu, digests, %016llx, %016llx, of all  ok\n", devices,
           (unsigned long long)(workers[0].anchors + workers[1].anchors),
           (unsigned long long)workers[0].digest, (unsigned long long)workers[1].digest);
}

static void *
work_tiny(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < TINY_RUNS; i++) {
        (void)work(w);
    }
    return NULL;
}

/* Microseconds of a batch of one window, with one lane of each device at such, one after the other.
 */
static double
tiny_us(struct worker *workers, unsigned devices, const char *query)
{
    const double from = now_s();
    for (unsigned i = 0; i < devices * DEVICE_LANES; i += DEVICE_LANES) {
        workers[i].spec.bases = (struct hspz_span){(const uint8_t *)query, WINDOW};
        if (pthread_create(&workers[i].thread, NULL, work_tiny, &workers[i]) != 0) {
            exit(1);
        }
    }
    for (unsigned i = 0; i < devices * DEVICE_LANES; i += DEVICE_LANES) {
        pthread_join(workers[i].thread, NULL);
    }
    return (now_s() - from) * 1e6 / TINY_RUNS;
}

/* As many times the batches as there are devices, against those of the first alone. */
static void
run_devices(struct worker *workers, unsigned devices, const char *query, double bus)
{
    share_to_devices(workers, devices, query);
    check_devices(workers, devices);
    const struct stream one = run_rounds(workers, DEVICE_LANES);
    const struct stream all = run_rounds(workers, devices * DEVICE_LANES);
    printf("%u devices, lanes each, %u, anchors, %llu, GB/s, %.2f, one, %.2f, ratio, %.3f, of %u "
           "buses, %.3f\n",
           devices, (unsigned)DEVICE_LANES, (unsigned long long)all.anchors, gigabytes_s(&all),
           gigabytes_s(&one), gigabytes_s(&all) / gigabytes_s(&one), devices,
           gigabytes_s(&all) / devices / bus);
    printf("%u devices, batches of one window, us, %.2f, one, %.2f\n", devices,
           tiny_us(workers, devices, query), tiny_us(workers, 1, query));
    fflush(stdout);
}

static int
by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
run_small(struct worker *w, const char *what)
{
    static double times[SMALL_RUNS];
    struct hspz_error err = {0};
    uint64_t anchors = 0;
    for (int i = 0; i < SMALL_RUNS; i++) {
        struct hspz_job *job = NULL;
        struct hspz_part part = {.anchors = w->buffer, .capacity = PART_ANCHORS};
        const double from = now_s();
        must(w->ops->job_begin(w->engine, w->ref, &w->spec, &job, &err), &err);
        do {
            must(w->ops->job_step(w->lane, job, &part, &err), &err);
        } while (part.kind == HSPZ_STEP_WORKED);
        times[i] = now_s() - from;
        anchors = part.count;
        w->ops->job_end(&job);
    }
    qsort(times, SMALL_RUNS, sizeof(times[0]), by_value);
    printf("small batch, %s, anchors, %llu, us p50, %.1f, p99, %.1f\n", what,
           (unsigned long long)anchors, times[SMALL_RUNS / 2] * 1e6,
           times[SMALL_RUNS * 99 / 100] * 1e6);
}

/* 1,000 random seeds against 2^20 buckets of 30 positions. */
static void
small_batches(struct worker *w, const char *what)
{
    struct hspz_error err = {0};
    static uint64_t seeds[SMALL_SEEDS];
    uint64_t state = 3;
    struct hspz_index *index = random_index("11101001100101011", 30u << 20);
    const uint32_t words = hspz_shape_words(&hspz_index_get_params(index)->shape);
    for (uint64_t i = 0; i < SMALL_SEEDS; i++) {
        seeds[i] = draw(&state) % words << 32 | i;
    }
    struct hspz_job_spec spec = {.given_seeds = true,
                                 .seeds = (const uint8_t *)seeds,
                                 .seed_count = SMALL_SEEDS,
                                 .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                 .hit_limit = UINT64_MAX,
                                 .keep_words = HSPZ_KEEP_ALL,
                                 .max_word_count = UINT64_MAX};
    must(w->ops->load(w->engine, index, &w->ref, &err), &err);
    w->spec = spec;
    run_small(w, what);
    w->ops->unload(&w->ref);
    hspz_index_release(&index);
}

static void
open_worker(struct worker *w, struct hspz_engine *engine, unsigned device)
{
    struct hspz_error err = {0};
    w->ops = hspz_engine_find("cuda");
    w->engine = engine;
    must(w->ops->lane_open(engine, device, &w->lane, &err), &err);
    must(w->ops->buffer_create(engine, PART_ANCHORS * 8, &w->buffer), &err);
}

static void
close_worker(struct worker *w)
{
    w->ops->lane_close(&w->lane);
    w->ops->buffer_destroy(w->engine, &w->buffer);
}

/* So many to a device, on the first ones. */
static void
open_workers(struct worker workers[WORKERS_MAX], unsigned count, unsigned each,
             struct hspz_engine *engine, struct hspz_ref *ref)
{
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.ref = ref,
                                     .spec = {.strands = HSPZ_STRANDS_BOTH,
                                              .transitions = true,
                                              .end = UINT64_MAX,
                                              .max_hits = HSPZ_MAX_HITS_DEFAULT,
                                              .hit_limit = UINT64_MAX,
                                              .keep_words = HSPZ_KEEP_ALL,
                                              .max_word_count = UINT64_MAX}};
        open_worker(&workers[i], engine, i / each);
    }
}

static void
close_workers(struct worker workers[WORKERS_MAX], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        close_worker(&workers[i]);
    }
}

static void
large_batches(struct hspz_engine *engine, size_t bases, bool devices_only)
{
    const struct hspz_engine_ops *ops = hspz_engine_find("cuda");
    struct hspz_error err = {0};
    struct hspz_index *index = random_index("1110100110010101111", bases);
    struct hspz_ref *ref = NULL;
    struct worker workers[WORKERS_MAX];
    char *query = random_bases(QUERY_BASES, 9);
    must(ops->load(engine, index, &ref, &err), &err);

    open_workers(workers, LANES_MAX, LANES_MAX, engine, ref);
    const double bus = bus_rate(workers[0].buffer);
    printf("bus, GB/s, %.2f\n", bus);
    fflush(stdout);
    for (unsigned lanes = 1; !devices_only && lanes <= LANES_MAX; lanes *= 2) {
        run_lanes(workers, lanes, query, bus);
    }
    close_workers(workers, LANES_MAX);

    for (unsigned n = devices_only ? 1 : 2; n <= DEVICES_MAX && n <= ops->device_count(engine);
         n *= 2) {
        open_workers(workers, n * DEVICE_LANES, DEVICE_LANES, engine, ref);
        run_devices(workers, n, query, bus);
        close_workers(workers, n * DEVICE_LANES);
    }
    free(query);
    ops->unload(&ref);
    hspz_index_release(&index);
}

int
main(int argc, char **argv)
{
    size_t bases = UINT64_C(120000000);
    bool devices_only = false;
    const struct hspz_engine_ops *ops = hspz_engine_find("cuda");
    struct hspz_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--devices") == 0) {
            devices_only = true;
        } else if (strcmp(argv[i], "--bases") == 0 && i + 1 < argc) {
            bases = strtoull(argv[++i], NULL, 10);
        }
    }
    for (int wait = 0; wait < (devices_only ? 1 : 2); wait++) {
        struct hspz_engine *engine = NULL;
        const struct hspz_engine_config config = {.cuda = {.always_wait = wait == 1}};
        struct worker worker = {0};
        must(ops->open(&config, &engine, &err), &err);
        if (wait == 0) {
            large_batches(engine, bases, devices_only);
        }
        if (!devices_only) {
            open_worker(&worker, engine, 0);
            small_batches(&worker, wait == 0 ? "one submission" : "with the host's turn");
            close_worker(&worker);
        }
        ops->close(&engine);
    }
    return 0;
}
