/* How fast a client reads and parses sequences for k-mers, with nobody behind it: 10^9 bases a
 * second of the clock and of processor time, the middle of five.
 *
 *   kmer_read_bench FILE... */
#include "client/kmer_file.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#define RUNS 5
#define BATCH_BASES ((size_t)4 << 20)

static enum hspz_status
count(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    uint64_t *bases = user;
    (void)err;
    for (size_t i = 0; i < batch->count; i++) {
        *bases += batch->pieces[i].end - batch->pieces[i].begin;
    }
    return HSPZ_OK;
}

static double
processor_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        double wall[RUNS], cpu[RUNS];
        uint64_t bases = 0;
        for (int run = 0; run < RUNS; run++) {
            bases = 0;
            const struct hspz_kmer_reading reading = {.path = argv[i],
                                                      .k = 21,
                                                      .batch_bytes = BATCH_BASES,
                                                      .batch = count,
                                                      .user = &bases};
            struct hspz_error err = {0};
            const double from = now_s(), used = processor_s();
            must(hspz_kmer_file_read(&reading, &err), &err);
            wall[run] = now_s() - from;
            cpu[run] = processor_s() - used;
        }
        qsort(wall, RUNS, sizeof(wall[0]), compare);
        qsort(cpu, RUNS, sizeof(cpu[0]), compare);
        printf("%s: %" PRIu64 " bases, %.3f of the clock, %.3f of a processor\n", argv[i], bases,
               (double)bases / 1e9 / wall[RUNS / 2], (double)bases / 1e9 / cpu[RUNS / 2]);
    }
    return 0;
}
