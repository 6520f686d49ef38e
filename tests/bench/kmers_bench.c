/* From bases in pinned host memory to counts and sets of k-mers on a card, beside the bus and
 * beside inserts of the same k-mers when they are on the card already.
 *
 *   kmers_bench [--bases N] [--counter N] [--fasta FILE BASES]     N: 2^28 and 2^26
 *
 * Inputs: a random genome, canonical 31-mers and 21-mers; the same with repeats, a family of 300
 * bases in a tenth of it, one base of ten another, and runs of A and of AC in a hundredth; and
 * reads of 100 bases from another, 30 of each place, one base of 128 read wrong, canonical 21-mers,
 * which come again. --fasta writes such reads for other programs, and nothing is measured.
 *
 * Exact counts have rows of their own: in a counter that was made for the keys, and in one that
 * grows from nothing; beside sorts of the same keys, as many at a time, and random sectors.
 * --counter has those alone. */
#include "engine/cuda/filter_counter.h"
#include "engine/cuda/kernels/kmer.h"
#include "engine/engine.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/filter_time.h"
#include "tests/bench/floors.h"

#include <string.h>

#define READ_BASES 100u
#define DEPTH 30u
#define FAMILY_BASES 300u
#define FAMILY_EVERY 3000u
#define RUN_BASES 200u
#define RUN_EVERY 20000u
#define BUS_CHUNK (UINT64_C(1) << 24)

struct input {
    const char *name;
    const uint8_t *bases; /* pinned */
    uint64_t len;
    unsigned k;
    uint64_t kmers;
    unsigned log2_slots;
    bool again; /* some come often: a tcf keeps each copy, in two blocks */
};

/* ---- bases ---- */

static void
make_genome(uint8_t *out, uint64_t len, uint64_t seed)
{
    uint64_t word = 0;
    for (uint64_t i = 0; i < len; i++, word >>= 2) {
        if (i % 32 == 0) {
            word = floors_mix(seed << 40 ^ i);
        }
        out[i] = (uint8_t) "ACGT"[word & 3];
    }
}

static void
add_repeats(uint8_t *bases, uint64_t len)
{
    uint8_t family[FAMILY_BASES];
    make_genome(family, FAMILY_BASES, 3);
    for (uint64_t at = 0; at + FAMILY_BASES < len; at += FAMILY_EVERY) {
        for (uint64_t i = 0; i < FAMILY_BASES; i++) {
            const uint64_t random = floors_mix(at + i);
            bases[at + i] = random % 10 == 0 ? (uint8_t) "ACGT"[random >> 32 & 3] : family[i];
        }
    }
    for (uint64_t at = FAMILY_BASES; at + RUN_BASES < len; at += RUN_EVERY) {
        for (uint64_t i = 0; i < RUN_BASES; i++) {
            bases[at + i] = at / RUN_EVERY % 2 == 0 ? 'A' : (uint8_t) "AC"[i % 2];
        }
    }
}

/* Reads, each with an N behind it; whole ones, the rest is N. How many. */
static uint64_t
make_reads(uint8_t *out, uint64_t len)
{
    const uint64_t genome = len / DEPTH + READ_BASES;
    uint8_t *const from = malloc(genome);
    uint64_t reads = 0;
    if (from == NULL) {
        fprintf(stderr, "no memory for a genome\n");
        exit(1);
    }
    make_genome(from, genome, 2);
    memset(out, 'N', len);
    for (uint64_t at = 0; at + READ_BASES < len; at += READ_BASES + 1, reads++) {
        memcpy(out + at, from + floors_mix(reads) % (genome - READ_BASES), READ_BASES);
        for (uint64_t i = floors_mix(~reads) % 128; i < READ_BASES; i += 128) {
            out[at + i] = (uint8_t) "CAGT"[out[at + i] >> 1 & 3];
        }
    }
    free(from);
    return reads;
}

static void
write_fasta(const char *path, uint64_t len)
{
    uint8_t *bases = malloc(len);
    FILE *file = fopen(path, "w");
    if (bases == NULL || file == NULL) {
        fprintf(stderr, "%s: cannot be written\n", path);
        exit(1);
    }
    const uint64_t reads = make_reads(bases, len);
    for (uint64_t i = 0; i < reads; i++) {
        fprintf(file, ">r\n%.*s\n", (int)READ_BASES, (const char *)bases + i * (READ_BASES + 1));
    }
    if (fclose(file) != 0) {
        fprintf(stderr, "%s: cannot be written\n", path);
        exit(1);
    }
    free(bases);
    printf("%llu reads, %llu bases, %llu 21-mers\n", (unsigned long long)reads,
           (unsigned long long)(reads * READ_BASES), (unsigned long long)(reads * 80));
}

/* ---- measuring ---- */

/* GB/s to the card, in pieces of the size that the engine copies. */
static double
bus_rate(const struct filter_time *t, const uint8_t *pinned, uint64_t len)
{
    float ms[FILTER_REPEATS];
    void *there = NULL;
    must_cuda(cudaMalloc(&there, BUS_CHUNK));
    for (int r = 0; r < FILTER_REPEATS; r++) {
        must_cuda(cudaEventRecord(t->from, t->stream));
        for (uint64_t at = 0; at + BUS_CHUNK <= len; at += BUS_CHUNK) {
            must_cuda(
                cudaMemcpyAsync(there, pinned + at, BUS_CHUNK, cudaMemcpyHostToDevice, t->stream));
        }
        must_cuda(cudaEventRecord(t->to, t->stream));
        must_cuda(cudaEventSynchronize(t->to));
        must_cuda(cudaEventElapsedTime(&ms[r], t->from, t->to));
    }
    must_cuda(cudaFree(there));
    return (double)(len / BUS_CHUNK * BUS_CHUNK) / 1e6 / (double)filter_time_median(ms);
}

/* Milliseconds from the call to its return. */
static float
time_sequence(const struct filter_time *t, enum hspz_filter_kind kind, struct hspz_filter *filter,
              const struct input *in)
{
    float ms[FILTER_REPEATS];
    for (int r = -1; r < FILTER_REPEATS; r++) {
        struct hspz_error err = {0};
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                        .sequence = in->bases,
                                        .sequence_len = in->len,
                                        .count = in->len};
        filter_time_clear(t, filter);
        must_cuda(cudaStreamSynchronize(t->stream));
        const double from = now_s();
        must(hspz_filter_run(hspz_cuda_filter(kind), filter, &call, &err), &err);
        ms[r < 0 ? 0 : r] = (float)((now_s() - from) * 1e3); /* the first one makes scratch */
        if (call.full || call.yes_count != in->kmers) {
            fprintf(stderr, "%s: %llu k-mers went in, of %llu\n", in->name,
                    (unsigned long long)call.yes_count, (unsigned long long)in->kmers);
            exit(1);
        }
    }
    return filter_time_median(ms);
}

/* The k-mers of the input on the card. */
static uint64_t *
make_keys(const struct filter_time *t, const struct input *in, float *ms)
{
    uint64_t *keys, *starts;
    uint8_t *bases;
    must_cuda(cudaMalloc((void **)&keys, in->len * sizeof(*keys)));
    must_cuda(cudaMalloc((void **)&bases, in->len));
    must_cuda(cudaMalloc((void **)&starts, (hspz_cuda_kmer_tiles(in->len) + 1) * sizeof(*starts)));
    must_cuda(cudaMemcpy(bases, in->bases, in->len, cudaMemcpyHostToDevice));
    const struct hspz_cuda_kmers kmers = {
        .bases = bases, .windows = in->len, .len = in->len, .k = in->k, .canonical = true};
    const struct hspz_cuda_kmer_keys out = {.keys = keys, .starts = starts};
    for (int r = 0; r < 2; r++) {
        must_cuda(cudaEventRecord(t->from, t->stream));
        must_cuda(hspz_cuda_launch_kmer_starts(&kmers, starts, t->stream));
        must_cuda(hspz_cuda_launch_kmer_keys(&kmers, &out, t->stream));
        must_cuda(cudaEventRecord(t->to, t->stream));
        must_cuda(cudaEventSynchronize(t->to));
        must_cuda(cudaEventElapsedTime(ms, t->from, t->to));
    }
    must_cuda(cudaFree(bases));
    must_cuda(cudaFree(starts));
    return keys;
}

static float
time_keys(const struct filter_time *t, struct hspz_filter *filter, const struct input *in,
          const uint64_t *keys)
{
    float ms[FILTER_REPEATS];
    const struct hspz_cuda_filter_call call = {
        .op = HSPZ_FILTER_INSERT, .keys = keys, .count = in->kmers};
    for (int r = -1; r < FILTER_REPEATS; r++) {
        filter_time_clear(t, filter);
        ms[r < 0 ? 0 : r] = filter_time_sure(t, filter, &call);
    }
    return filter_time_median(ms);
}

static void
run_input(const struct filter_time *t, const struct input *in, double bus)
{
    static const struct {
        enum hspz_filter_kind kind;
        unsigned slot_bits, bits; /* of a slot of its own: 1, or bits a key */
    } kinds[] = {{HSPZ_FILTER_GQF, 8, 1}, {HSPZ_FILTER_TCF, 16, 1}, {HSPZ_FILTER_BLOCKED, 0, 16}};
    float cut_ms = 0;
    uint64_t *keys = make_keys(t, in, &cut_ms);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const enum hspz_filter_kind kind = kinds[i].kind;
        if (kind == HSPZ_FILTER_TCF && in->again) {
            continue;
        }
        const unsigned log2 = in->log2_slots;
        const struct hspz_filter_plan plan = filter_time_plan(
            t, &(struct hspz_filter_spec){.kind = kind,
                                          .slots = kinds[i].bits * (UINT64_C(1) << log2),
                                          .slot_bits = kinds[i].slot_bits,
                                          .k = in->k,
                                          .canonical = true,
                                          .seed = 1});
        struct hspz_filter *filter = filter_time_create(&plan);
        struct hspz_filter_stats stats;
        const float ms = time_sequence(t, kind, filter, in);
        const float keys_ms = time_keys(t, filter, in, keys);
        hspz_cuda_filter(kind)->stats(filter, &stats);
        const double rate = (double)in->len / 1e6 / (double)ms;
        printf("%-7s %-7s %2u %7.1f 2^%-3u %7.1f %5.2f %8.2f %8.2f %5.2f %8.2f %8.1f\n", in->name,
               hspz_filter_kind_name(kind), in->k, (double)in->len / 1e6, log2,
               (double)stats.entries / 1e6, stats.load, (double)ms, rate, rate / bus,
               (double)in->kmers / 1e6 / (double)keys_ms, (double)in->len / 1e6 / (double)cut_ms);
        fflush(stdout);
        hspz_cuda_filter(kind)->destroy(&filter);
    }
    must_cuda(cudaFree(keys));
}

/* ---- exact counts ---- */

#define SORTED_KEYS (UINT64_C(1) << 23)

/* Sorts of the keys, as many at a time as a call takes. */
static float
time_sorts(const struct filter_time *t, const struct input *in, const uint64_t *keys)
{
    float ms[FILTER_REPEATS];
    uint64_t *x[2], *const none[2] = {NULL, NULL};
    void *temp;
    size_t temp_bytes;
    must_cuda(hspz_cuda_counter_temp_bytes(SORTED_KEYS, 2 * in->k, false, &temp_bytes));
    must_cuda(cudaMalloc(&temp, temp_bytes));
    for (int i = 0; i < 2; i++) {
        must_cuda(cudaMalloc((void **)&x[i], SORTED_KEYS * sizeof(uint64_t)));
    }
    for (int r = 0; r < FILTER_REPEATS; r++) {
        ms[r] = 0;
        for (uint64_t at = 0; at < in->kmers; at += SORTED_KEYS) {
            const uint64_t count = in->kmers - at < SORTED_KEYS ? in->kmers - at : SORTED_KEYS;
            unsigned now = 0;
            float some;
            must_cuda(cudaMemcpy(x[0], keys + at, count * sizeof(*keys), cudaMemcpyDeviceToDevice));
            must_cuda(cudaEventRecord(t->from, t->stream));
            must_cuda(hspz_cuda_launch_counter_sort(x, none, &now, count, 2 * in->k, temp,
                                                    temp_bytes, t->stream));
            must_cuda(cudaEventRecord(t->to, t->stream));
            must_cuda(cudaEventSynchronize(t->to));
            must_cuda(cudaEventElapsedTime(&some, t->from, t->to));
            ms[r] += some;
        }
    }
    must_cuda(cudaFree(temp));
    must_cuda(cudaFree(x[0]));
    must_cuda(cudaFree(x[1]));
    return filter_time_median(ms);
}

/* From nothing, with all its growth; the filter stays for a look at it. */
static float
time_growing(const struct filter_time *t, const struct input *in, struct hspz_filter **out)
{
    float ms[FILTER_REPEATS];
    const struct hspz_filter_ops *ops = hspz_cuda_filter(HSPZ_FILTER_COUNTER);
    const struct hspz_filter_plan plan = filter_time_plan(
        t,
        &(struct hspz_filter_spec){
            .kind = HSPZ_FILTER_COUNTER, .capacity = 1, .k = in->k, .canonical = true, .seed = 1});
    for (int r = 0; r < FILTER_REPEATS; r++) {
        struct hspz_error err = {0};
        struct hspz_filter_call call = {.op = HSPZ_FILTER_INSERT,
                                        .sequence = in->bases,
                                        .sequence_len = in->len,
                                        .count = in->len};
        ops->destroy(out);
        *out = filter_time_create(&plan);
        const double from = now_s();
        must(hspz_filter_run(ops, *out, &call, &err), &err);
        ms[r] = (float)((now_s() - from) * 1e3);
    }
    return filter_time_median(ms);
}

static void
run_counter(const struct filter_time *t, const struct input *in, double sectors)
{
    float cut_ms = 0;
    uint64_t *keys = make_keys(t, in, &cut_ms);
    struct hspz_filter *grown = NULL;
    struct hspz_filter_stats stats;
    const struct hspz_filter_ops *ops = hspz_cuda_filter(HSPZ_FILTER_COUNTER);
    const float growing_ms = time_growing(t, in, &grown);
    ops->stats(grown, &stats);
    const struct hspz_filter_plan plan =
        filter_time_plan(t, &(struct hspz_filter_spec){.kind = HSPZ_FILTER_COUNTER,
                                                       .capacity = grown->counter.singles,
                                                       .k = in->k,
                                                       .canonical = true,
                                                       .seed = 1});
    struct hspz_filter *made = filter_time_create(&plan);
    const float ms = time_sequence(t, HSPZ_FILTER_COUNTER, made, in);
    const float keys_ms = time_keys(t, made, in, keys);
    const float sorts_ms = time_sorts(t, in, keys);
    const double mega = (double)in->len / 1e6;
    printf("%-7s counter %2u %7.1f %7.1f %7.1f %8.2f %6.2f %8.2f %6.2f %6.2f %6.2f %6.1f %6.2f "
           "%6.2f %6.2f\n",
           in->name, in->k, mega, (double)stats.entries / 1e6, (double)grown->counter.singles / 1e6,
           (double)growing_ms, mega / (double)growing_ms, (double)ms, mega / (double)ms,
           (double)in->kmers / 1e6 / (double)keys_ms, (double)in->kmers / 1e6 / (double)sorts_ms,
           sectors, (double)stats.bytes / (double)stats.entries,
           (double)grown->bytes[0] / (double)grown->counter.singles,
           (double)grown->bytes[1] / (double)grown->counter.pairs);
    fflush(stdout);
    ops->destroy(&grown);
    ops->destroy(&made);
    must_cuda(cudaFree(keys));
}

static void
run_size(const struct filter_time *t, uint64_t len, bool counters_alone)
{
    uint8_t *genome, *repeats, *reads;
    unsigned log2 = 10;
    while ((UINT64_C(1) << log2) / 10 * 9 < len) {
        log2++;
    }
    must_cuda(cudaHostAlloc((void **)&genome, len, cudaHostAllocDefault));
    must_cuda(cudaHostAlloc((void **)&repeats, len, cudaHostAllocDefault));
    must_cuda(cudaHostAlloc((void **)&reads, len, cudaHostAllocDefault));
    make_genome(genome, len, 1);
    make_genome(repeats, len, 1);
    add_repeats(repeats, len);
    const uint64_t kmers = make_reads(reads, len) * (READ_BASES - 20);
    const double bus = bus_rate(t, genome, len);
    printf("bus %.1f GB/s\n", bus);
    const struct input inputs[] = {
        {"genome", genome, len, 31, len - 30, log2, false},
        {"genome", genome, len, 21, len - 20, log2, false},
        {"repeats", repeats, len, 31, len - 30, log2, true},
        {"reads", reads, len, 21, kmers, log2, true},
        {"reads", reads, len, 21, kmers, log2 - 2, true},
    };
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]) && !counters_alone; i++) {
        run_input(t, &inputs[i], bus);
    }
    const uint64_t long_kmers = make_reads(reads, len) * (READ_BASES - 30);
    const struct input counted[] = {
        inputs[0], inputs[1], inputs[3], {"reads", reads, len, 31, long_kmers, log2, true}};
    const double sectors = filter_time_sectors(t, len * 2);
    printf(
        "                        different single  growing           made   keys there sorts  "
        "sectors  bytes a\n"
        "input            k  Mbases       M       M       ms    G/s       ms    G/s    G/s    G/s  "
        "  G/s  k-mer single  pair\n");
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        run_counter(t, &counted[i], sectors);
    }
    must_cuda(cudaFreeHost(genome));
    must_cuda(cudaFreeHost(repeats));
    must_cuda(cudaFreeHost(reads));
}

int
main(int argc, char **argv)
{
    struct filter_time t = {0};
    if (argc == 4 && strcmp(argv[1], "--fasta") == 0) {
        write_fasta(argv[2], strtoull(argv[3], NULL, 10));
        return 0;
    }
    filter_time_open(&t);
    printf("                                different           to counts    of  keys there  cut\n"
           "input   filter   k  Mbases slots       M  load       ms      G/s   bus      G/s      "
           "G/s\n");
    if (argc == 3 && strcmp(argv[1], "--bases") == 0) {
        run_size(&t, strtoull(argv[2], NULL, 10), false);
    } else if (argc == 3 && strcmp(argv[1], "--counter") == 0) {
        run_size(&t, strtoull(argv[2], NULL, 10), true);
    } else {
        run_size(&t, (UINT64_C(1) << 26) / 10 * 9, false);
        run_size(&t, (UINT64_C(1) << 28) / 10 * 9, false);
    }
    filter_time_close(&t);
    return 0;
}
