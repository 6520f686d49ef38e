/* How fast HSPs become files of segments: millions of lines and bytes a second, for 1, 2, 4, ...
 * threads, into a folder (or an archive in it).
 *
 *   segments_bench FOLDER [MILLIONS [archive]] */
#include "client/segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PIECE 65536u
#define BASES 200000000u

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
fill(struct hspz_hsp *hsps, size_t count, uint32_t begin)
{
    uint64_t x = begin + 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        hsps[i] = (struct hspz_hsp){.ref_start = (uint32_t)(x >> 33) % (BASES - 1000),
                                    .query_start = begin + (uint32_t)i * 2,
                                    .length = (uint32_t)(x >> 50) % 500 + 30,
                                    .score = (int32_t)((x >> 40) % 20000) + 3000};
    }
}

static bool
measure(const char *folder, size_t millions, unsigned threads, bool archive,
        const struct hspz_places *refs, const struct hspz_places *queries)
{
    struct hspz_error err = {0};
    struct hspz_segments *segments = NULL;
    struct hspz_segments_file *file = NULL;
    char path[4096];
    struct hspz_hsp *hsps = malloc(PIECE * sizeof(*hsps));
    snprintf(path, sizeof(path), "%s/%s", folder, archive ? "bench.tar.gz" : "bench.segments");
    const struct hspz_segments_target target = {
        .folder = archive ? NULL : folder, .archive = archive ? path : NULL, .threads = threads};
    const struct hspz_hsp_rows rows = {.refs = refs, .queries = queries, .query_len = BASES};
    const size_t pieces = millions * 1000000 / PIECE;
    double seconds = 0.0;
    fill(hsps, PIECE, 0);
    enum hspz_status status =
        hsps != NULL ? hspz_segments_open(&target, &segments, &err) : HSPZ_E_OUT_OF_MEMORY;
    if (status == HSPZ_OK) {
        status = hspz_segments_file(segments, "bench.segments", &file, &err);
    }
    const double begun = now();
    for (size_t i = 0; i < pieces && status == HSPZ_OK; i++) {
        status = hspz_segments_add(segments, file, &rows, hsps, PIECE, false, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_commit(segments, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_finish(segments, &err);
    }
    seconds = now() - begun;
    struct stat st = {0};
    (void)stat(path, &st);
    hspz_segments_close(&segments);
    free(hsps);
    (void)remove(path);
    if (status != HSPZ_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    printf("%2u threads: %6.1f M lines/s, %7.1f MB/s, %" PRIu64 " bytes\n", threads,
           (double)(pieces * PIECE) / seconds / 1e6, (double)st.st_size / seconds / 1e6,
           (uint64_t)st.st_size);
    return true;
}

int
main(int argc, char **argv)
{
    const size_t millions = argc > 2 ? strtoul(argv[2], NULL, 10) : 10;
    struct hspz_places refs, queries;
    bool good = argc > 1;
    hspz_places_init(&refs, false);
    hspz_places_init(&queries, false);
    good = good && hspz_places_add(&refs, "chr10", 5, BASES, 0, 0) == HSPZ_OK &&
           hspz_places_add(&queries, "chr7", 4, BASES, 0, 0) == HSPZ_OK;
    for (unsigned threads = 1; threads <= 16 && good; threads *= 2) {
        good = measure(argv[1], millions, threads, argc > 3, &refs, &queries);
    }
    hspz_places_fini(&refs);
    hspz_places_fini(&queries);
    return good ? 0 : 1;
}
