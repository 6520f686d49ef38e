/* Sequences of files in batches: every k-mer once, whatever the form of the file; and every
 * allocation fails once. */
#include "client/kmer_file.h"
#include "engine/kmer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <limits.h>
#include <unistd.h>
#include <zlib.h>

#define K 7u
#define LONG_BASES 3000u

/* What a file has: its k-mers in order, and sequences. */
struct found {
    uint64_t keys[8192];
    size_t count, sequences, batches;
    size_t most; /* bytes of a batch */
};

static void
add_kmers(struct found *to, const uint8_t *bases, size_t len)
{
    const struct hspz_kmers kmers = {.bases = bases, .len = len, .k = K, .canonical = true};
    static uint32_t from[LONG_BASES + 1];
    assert_true(to->count + len <= sizeof(to->keys) / sizeof(to->keys[0]));
    to->count += hspz_kmers_extract(&kmers, 0, len, to->keys + to->count, from);
}

static enum hspz_status
take(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    struct found *found = user;
    (void)err;
    found->batches++;
    found->most = batch->len > found->most ? batch->len : found->most;
    for (size_t i = 0; i < batch->count; i++) {
        const struct hspz_kmer_piece *piece = &batch->pieces[i];
        add_kmers(found, batch->bases + piece->begin, piece->end - piece->begin);
        found->sequences += piece->last;
    }
    return HSPZ_OK;
}

static enum hspz_status
read_file(const char *path, size_t batch_bytes, struct found *found, struct hspz_error *err)
{
    const struct hspz_kmer_reading reading = {
        .path = path, .k = K, .batch_bytes = batch_bytes, .batch = take, .user = found};
    *found = (struct found){0};
    return hspz_kmer_file_read(&reading, err);
}

/* ---- files ---- */

#define RECORDS 40u

static char *records[RECORDS];

static void
make_records(void)
{
    uint64_t random = 5;
    for (size_t i = 0; i < RECORDS; i++) {
        const size_t len = i == 20 ? LONG_BASES : i == 7 ? 0 : test_random(&random) % 90;
        records[i] = malloc(len + 1);
        assert_non_null(records[i]);
        for (size_t b = 0; b < len; b++) {
            records[i][b] = "ACGTACGTacgtTTTTN"[test_random(&random) % 17];
        }
        records[i][len] = '\0';
    }
}

static void
write_records(FILE *file, bool fastq, const char *end)
{
    for (size_t i = 0; i < RECORDS; i++) {
        const size_t len = strlen(records[i]);
        fprintf(file, "%cr%zu more%s%s%s", fastq ? '@' : '>', i, end, records[i], end);
        if (fastq) {
            fprintf(file, "+%s", end);
            for (size_t b = 0; b < len; b++) {
                fputc("@+>I"[(i + b) % 4], file);
            }
            fputs(end, file);
        }
    }
}

/* The n-th of FORMS. */
#define FORMS 5u
static void
write_form(const char *path, unsigned form)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    write_records(file, form % 2 == 1, form >= 3 ? "\r\n" : "\n");
    assert_int_equal(fclose(file), 0);
    gzFile out = gzopen(path, form == 2 ? "wb" : "wbT"); /* T: as it is */
    assert_non_null(out);
    assert_int_equal(gzwrite(out, text, (unsigned)len), len);
    assert_int_equal(gzclose(out), Z_OK);
    free(text);
}

static void
expect(struct found *want)
{
    *want = (struct found){.sequences = RECORDS};
    for (size_t i = 0; i < RECORDS; i++) {
        add_kmers(want, (const uint8_t *)records[i], strlen(records[i]));
    }
    assert_true(want->count > 2000);
}

static void
check(const struct found *found, const struct found *want)
{
    assert_int_equal(found->sequences, want->sequences);
    assert_int_equal(found->count, want->count);
    assert_memory_equal(found->keys, want->keys, want->count * sizeof(want->keys[0]));
}

static void
test_batches_of_any_form_have_each_kmer_once(void **state)
{
    const char *path = *state;
    static struct found want, found;
    static const size_t sizes[] = {1, 300, 1 << 20};
    expect(&want);
    for (unsigned form = 0; form < FORMS; form++) {
        write_form(path, form);
        for (size_t i = 0; i < 3; i++) {
            struct hspz_error err = {0};
            if (read_file(path, sizes[i], &found, &err) != HSPZ_OK) {
                fail_msg("form %u: %s", form, err.text);
            }
            check(&found, &want);
            assert_true(found.most <= (sizes[i] < 256 ? 256 : sizes[i]));
            assert_int_equal(found.batches == 1, i == 2);
        }
    }
}

static void
test_every_allocation_may_fail(void **state)
{
    const char *path = *state;
    static struct found want, found;
    expect(&want);
    for (unsigned form = 0; form < FORMS; form++) {
        bool done = false;
        unsigned refused = 0;
        write_form(path, form);
        for (long nth = 1; !done; nth++) {
            struct hspz_error err = {0};
            failing_malloc_arm(nth);
            const enum hspz_status status = read_file(path, 300, &found, &err);
            done = !failing_malloc_disarm();
            if (status == HSPZ_OK) { /* done without what it did not get */
                check(&found, &want);
            } else {
                assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
                assert_non_null(strstr(err.text, "memory"));
                assert_false(done);
                refused++;
            }
        }
        assert_true(refused >= 4);
    }
}

/* ---- endings ---- */

#define CHUNK_BYTES ((size_t)65536) /* that are read at a time, and fit into a pipe */

struct ending {
    size_t batches, least; /* that came; how many are taken */
    unsigned looks, most;  /* calls of progress; how many say to go on */
};

static enum hspz_status
take_some(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    struct ending *ending = user;
    (void)batch;
    return ++ending->batches < ending->least
               ? HSPZ_OK
               : hspz_error_set(err, HSPZ_E_QUOTA_EXCEEDED, "enough batches");
}

static bool
look(void *user, uint64_t done, uint64_t total)
{
    struct ending *ending = user;
    assert_true(done <= CHUNK_BYTES && total == 0);
    return ++ending->looks <= ending->most;
}

/* A pipe that nobody closes: of `len` bytes of one sequence, and no more. */
static enum hspz_status
read_pipe(size_t len, struct ending *ending, struct hspz_error *err)
{
    static char text[CHUNK_BYTES];
    int ends[2];
    char path[32];
    assert_true(len <= sizeof(text));
    memset(text, 'C', sizeof(text));
    memcpy(text, ">s\n", 3);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, len), len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    const struct hspz_kmer_reading reading = {.path = path,
                                              .k = K,
                                              .batch_bytes = 300,
                                              .progress = look,
                                              .batch = take_some,
                                              .user = ending};
    const enum hspz_status status = hspz_kmer_file_read(&reading, err);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    return status;
}

static void
test_a_failing_batch_ends_the_wait_for_bytes(void **state)
{
    (void)state;
    struct ending ending = {.least = 3, .most = UINT_MAX};
    struct hspz_error err = {0};
    assert_int_equal(read_pipe(CHUNK_BYTES, &ending, &err), HSPZ_E_QUOTA_EXCEEDED);
    assert_string_equal(err.text, "enough batches");
    assert_int_equal(ending.batches, 3);
}

static void
test_a_caller_that_had_enough_ends_the_wait_for_bytes(void **state)
{
    (void)state;
    struct ending ending = {.least = SIZE_MAX, .most = 2};
    struct hspz_error err = {0};
    assert_int_equal(read_pipe(0, &ending, &err), HSPZ_E_STOPPED);
    assert_non_null(strstr(err.text, "stopped by the caller"));
    assert_int_equal(ending.looks, 3);
    assert_int_equal(ending.batches, 0);
}

/* What stands before a line that is wrong comes first. */
static void
test_batches_before_an_error_are_handed_out(void **state)
{
    const char *path = *state;
    struct ending ending = {.least = SIZE_MAX};
    struct hspz_error err = {0};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (unsigned i = 0; i < 1000; i++) {
        fprintf(file, ">s%u\n%s\n", i, "ACGTTGCAACGTTGCAACGTTGCAACGTTGCAACGTTGCA");
    }
    fprintf(file, ">bad\nAC GT\n");
    assert_int_equal(fclose(file), 0);
    const struct hspz_kmer_reading reading = {
        .path = path, .k = K, .batch_bytes = 4100, .batch = take_some, .user = &ending};
    assert_int_equal(hspz_kmer_file_read(&reading, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "line 2002: byte 0x20 in column 3 is no base"));
    assert_int_equal(ending.batches, 10); /* of 97: room for 128 bases ends one */
    ending = (struct ending){.least = 2};
    assert_int_equal(hspz_kmer_file_read(&reading, &err), HSPZ_E_QUOTA_EXCEEDED);
}

int
main(void)
{
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "sequences");
    make_records();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_batches_of_any_form_have_each_kmer_once, path),
        cmocka_unit_test_prestate(test_every_allocation_may_fail, path),
        cmocka_unit_test(test_a_failing_batch_ends_the_wait_for_bytes),
        cmocka_unit_test(test_a_caller_that_had_enough_ends_the_wait_for_bytes),
        cmocka_unit_test_prestate(test_batches_before_an_error_are_handed_out, path),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < RECORDS; i++) {
        free(records[i]);
    }
    free(path);
    test_tmpdir_remove(&dir);
    return failed;
}
