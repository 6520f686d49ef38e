#include "engine/sequence_file.h"

#include "protocol/limits.h"
#include "tests/engine/twobit_writer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK 65536

int __real_inflateInit2_(z_stream *stream, int bits, const char *version, int size);
int __wrap_inflateInit2_(z_stream *stream, int bits, const char *version, int size);

static bool inflate_has_no_memory;

int
__wrap_inflateInit2_(z_stream *stream, int bits, const char *version, int size)
{
    return inflate_has_no_memory ? Z_MEM_ERROR : __real_inflateInit2_(stream, bits, version, size);
}

struct bytes {
    uint8_t *bytes;
    size_t len;
};

static void
append(struct bytes *to, const void *bytes, size_t len)
{
    to->bytes = realloc(to->bytes, to->len + len + 1);
    assert_non_null(to->bytes);
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

/* One gzip member. */
static void
append_member(struct bytes *to, const void *text, size_t len)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t room = deflateBound(&stream, len);
    uint8_t *member = malloc(room);
    uint8_t *input = malloc(len + 1);
    assert_true(member != NULL && input != NULL);
    memcpy(input, text, len);
    stream.next_in = input;
    stream.avail_in = (unsigned)len;
    stream.next_out = member;
    stream.avail_out = (unsigned)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    append(to, member, stream.total_out);
    deflateEnd(&stream);
    free(member);
    free(input);
}

struct fixture {
    char *dir;
    char *path; /* the file under test */
};

static int
set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->dir = test_tmpdir_make();
    fixture->path = test_path(fixture->dir, "x");
    *state = fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;
    test_tmpdir_remove(&fixture->dir);
    free(fixture->path);
    free(fixture);
    return 0;
}

static void
save(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* "name:bases " for each sequence, malloc'ed. */
static char *
describe(const struct hspz_sequences *seqs)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < hspz_sequences_count(seqs); i++) {
        const struct hspz_sequence *item = hspz_sequences_get(seqs, i);
        const struct hspz_block block = hspz_sequences_block(seqs, item->block);
        fprintf(out, "%s:", item->name);
        fwrite(block.bases + item->offset, 1, item->len, out);
        fputc(' ', out);
    }
    fclose(out);
    return text;
}

static void
assert_reads(const char *path, const char *want)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    if (hspz_sequence_file_read(path, 0, NULL, NULL, &seqs, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    char *got = describe(seqs);
    assert_string_equal(got, want);
    free(got);
    hspz_sequences_destroy(&seqs);
}

static void
assert_reads_bytes(const struct fixture *fixture, const void *bytes, size_t len, const char *want)
{
    save(fixture->path, bytes, len);
    assert_reads(fixture->path, want);
}

static void
assert_refused(const struct fixture *fixture, const void *bytes, size_t len, enum hspz_status want,
               const char *word)
{
    save(fixture->path, bytes, len);
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    const enum hspz_status status =
        hspz_sequence_file_read(fixture->path, 0, NULL, NULL, &seqs, &err);
    if (status != want || strstr(err.text, word) == NULL ||
        strncmp(err.text, fixture->path, strlen(fixture->path)) != 0) {
        fail_msg("%zu bytes: %s, '%s', no '%s'", len, hspz_status_name(status), err.text, word);
    }
    assert_null(seqs);
}

static void
test_file_records_at_chunk_borders(void **state)
{
    const struct fixture *fixture = *state;
    static char text[2 * CHUNK + 100];
    /* The second record's '>' and the name and line end around it, at every place near a border. */
    for (size_t border = CHUNK; border <= 2 * CHUNK; border += CHUNK) {
        for (size_t place = border - 12; place <= border + 2; place++) {
            for (int crlf = 0; crlf < 2; crlf++) {
                const char *tail =
                    crlf ? "\r\n>second x\r\nACGT\r\nTT\r\n" : "\n>second x\nACGT\nTT\n";
                memset(text, 'A', place);
                memcpy(text, ">first\n", 7);
                strcpy(text + place, tail);
                save(fixture->path, text, strlen(text));
                struct hspz_sequences *seqs = NULL;
                struct hspz_error err = {0};
                assert_int_equal(hspz_sequence_file_read(fixture->path, 0, NULL, NULL, &seqs, &err),
                                 HSPZ_OK);
                assert_int_equal(hspz_sequences_count(seqs), 2);
                assert_int_equal(hspz_sequences_get(seqs, 0)->len, place - 7);
                const struct hspz_sequence *second = hspz_sequences_get(seqs, 1);
                assert_string_equal(second->name, "second");
                assert_int_equal(second->line, 3);
                assert_int_equal(second->len, 6);
                const struct hspz_block block = hspz_sequences_block(seqs, 0);
                assert_memory_equal(block.bases + second->offset, "ACGTTT", 6);
                hspz_sequences_destroy(&seqs);
            }
        }
    }
}

static const char plain[] = ">a x\nACGTacgtNN\nGG\n>empty\n>b\nTTTT\n";
static const char plain_want[] = "a:ACGTacgtNNGG empty: b:TTTT ";

static void
test_file_reads_gzip_whatever_its_name(void **state)
{
    const struct fixture *fixture = *state;
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    static const char *const names[] = {"x.fa.gz", "x.fa", "x"};
    for (size_t i = 0; i < 3; i++) {
        char *path = test_path(fixture->dir, names[i]);
        save(path, gz.bytes, gz.len);
        assert_reads(path, plain_want);
        free(path);
    }
    free(gz.bytes);
    assert_reads_bytes(fixture, plain, sizeof(plain) - 1, plain_want);
}

static void
test_file_reads_many_members_and_bgzip(void **state)
{
    const struct fixture *fixture = *state;
    /* The empty block that ends a bgzip file (SAM specification, section 4.1.2). */
    static const uint8_t bgzip_end[28] = {0x1f, 0x8b, 8,  4, 0, 0, 0, 0, 0, 0xff, 6, 0, 0x42, 0x43,
                                          2,    0,    27, 0, 3, 0, 0, 0, 0, 0,    0, 0, 0,    0};
    for (size_t cut = 0; cut < sizeof(plain); cut++) {
        struct bytes gz = {0};
        append_member(&gz, plain, cut);
        append_member(&gz, plain + cut, sizeof(plain) - 1 - cut);
        assert_reads_bytes(fixture, gz.bytes, gz.len, plain_want);
        append(&gz, bgzip_end, sizeof(bgzip_end));
        assert_reads_bytes(fixture, gz.bytes, gz.len, plain_want);
        append_member(&gz, ">late\nA\n", 8);
        assert_reads_bytes(fixture, gz.bytes, gz.len, "a:ACGTacgtNNGG empty: b:TTTT late:A ");
        free(gz.bytes);
    }
    struct bytes empty = {0};
    append(&empty, bgzip_end, sizeof(bgzip_end));
    assert_refused(fixture, empty.bytes, empty.len, HSPZ_E_BAD_FILE, "empty");
    append_member(&empty, plain, sizeof(plain) - 1);
    assert_reads_bytes(fixture, empty.bytes, empty.len, plain_want);
    free(empty.bytes);
}

static void
test_file_tolerates_zero_padding_only(void **state)
{
    const struct fixture *fixture = *state;
    static const uint8_t zeros[CHUNK + 500];
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    const size_t whole = gz.len;
    append(&gz, zeros, 1);
    assert_reads_bytes(fixture, gz.bytes, gz.len, plain_want);
    append(&gz, zeros, sizeof(zeros));
    assert_reads_bytes(fixture, gz.bytes, gz.len, plain_want);
    gz.bytes[gz.len - 1] = 'x';
    char word[64];
    snprintf(word, sizeof(word), "byte 0x78 at byte %zu", gz.len - 1);
    assert_refused(fixture, gz.bytes, gz.len, HSPZ_E_BAD_FILE, word);
    gz.bytes[whole] = 'y';
    snprintf(word, sizeof(word), "byte 0x79 at byte %zu", whole);
    assert_refused(fixture, gz.bytes, gz.len, HSPZ_E_BAD_FILE, word);
    free(gz.bytes);
}

static void
test_file_refuses_gzip_cut_anywhere(void **state)
{
    const struct fixture *fixture = *state;
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    const size_t first = gz.len;
    append_member(&gz, ">more\nACGT\n", 11);
    for (size_t len = 2; len < gz.len; len++) {
        if (len == first) {
            assert_reads_bytes(fixture, gz.bytes, len, plain_want);
        } else {
            assert_refused(fixture, gz.bytes, len, HSPZ_E_BAD_FILE, "cut short");
        }
    }
    assert_refused(fixture, gz.bytes, 1, HSPZ_E_BAD_FILE, "0x1f");
    free(gz.bytes);

    /* A long one in half: many whole records come before. */
    static char text[400000];
    uint64_t random = 1;
    for (size_t i = 0; i + 20 < sizeof(text); i += 19) {
        snprintf(text + i, 20, ">%09u\nACGTACG\n", (unsigned)(test_random(&random) % 1000000000));
    }
    struct bytes big = {0};
    append_member(&big, text, strlen(text));
    assert_true(big.len > 60000);
    assert_refused(fixture, big.bytes, big.len / 2, HSPZ_E_BAD_FILE, "cut short");
    free(big.bytes);
}

static void
test_file_refuses_damaged_gzip(void **state)
{
    const struct fixture *fixture = *state;
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    for (size_t k = 1; k <= 8; k++) { /* checksum and length */
        gz.bytes[gz.len - k] ^= 1;
        assert_refused(fixture, gz.bytes, gz.len, HSPZ_E_BAD_FILE, "damaged gzip data");
        gz.bytes[gz.len - k] ^= 1;
    }
    gz.bytes[2] = 9; /* compression method */
    assert_refused(fixture, gz.bytes, gz.len, HSPZ_E_BAD_FILE, "damaged gzip data");
    free(gz.bytes);

    struct bytes twice = {0};
    struct bytes inner = {0};
    append_member(&inner, plain, sizeof(plain) - 1);
    append_member(&twice, inner.bytes, inner.len);
    assert_refused(fixture, twice.bytes, twice.len, HSPZ_E_BAD_FILE, "begins with byte 0x1f");
    free(inner.bytes);
    free(twice.bytes);
}

/* Only bits that gzip does not check (time, system) may change and pass; never the sequences. */
static void
test_file_gzip_with_any_bit_flipped_is_refused_or_the_same(void **state)
{
    const struct fixture *fixture = *state;
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    size_t same = 0;
    for (size_t bit = 0; bit < 8 * gz.len; bit++) {
        gz.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        save(fixture->path, gz.bytes, gz.len);
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err = {0};
        const enum hspz_status status =
            hspz_sequence_file_read(fixture->path, 0, NULL, NULL, &seqs, &err);
        if (status == HSPZ_OK) {
            char *got = describe(seqs);
            assert_string_equal(got, plain_want);
            free(got);
            same++;
        } else {
            assert_int_equal(status, HSPZ_E_BAD_FILE);
            assert_null(seqs);
        }
        hspz_sequences_destroy(&seqs);
        gz.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_in_range(same, 32, 60);
    free(gz.bytes);
}

static const struct twobit_record records[] = {
    {"chr1", "NNACGTacgtNNnnTTTT"}, {"empty", ""}, {"chr2.1|x", "acgtA"}, {"n", "NNNN"}};
static const char records_fasta[] =
    ">chr1 of the sample\nNNACGTacgt\nNNnnTTTT\n>empty\n>chr2.1|x\nacgtA\n>n\nNNNN\n";
static const char records_want[] = "chr1:NNACGTacgtNNnnTTTT empty: chr2.1|x:acgtA n:NNNN ";

static void
test_file_reads_the_same_from_fasta_and_2bit(void **state)
{
    const struct fixture *fixture = *state;
    assert_reads_bytes(fixture, records_fasta, sizeof(records_fasta) - 1, records_want);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct twobit_bytes file = twobit_write(
            records, 4,
            (struct twobit_format){.big_endian = (kind & 1) != 0, .version = kind >> 1});
        assert_reads_bytes(fixture, file.bytes, file.len, records_want);
        struct bytes gz = {0};
        append_member(&gz, file.bytes, file.len);
        assert_reads_bytes(fixture, gz.bytes, gz.len, records_want);
        free(gz.bytes);
        assert_refused(fixture, file.bytes, file.len - 1, HSPZ_E_BAD_FILE, "cut short");
        twobit_poke(&file, 4, 2);
        assert_refused(fixture, file.bytes, file.len, HSPZ_E_BAD_FILE, "version 2");
        free(file.bytes);
    }
}

static void
test_file_refuses_what_is_not_there(void **state)
{
    const struct fixture *fixture = *state;
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    assert_int_equal(hspz_sequence_file_read(fixture->path, 0, NULL, NULL, &seqs, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, fixture->path));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(hspz_sequence_file_read(fixture->dir, 0, NULL, NULL, &seqs, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "directory"));
    assert_null(seqs);
    assert_refused(fixture, "", 0, HSPZ_E_BAD_FILE, "empty");
    assert_refused(fixture, "\n\n", 2, HSPZ_E_BAD_FILE, "blank");
    static uint8_t zeros[3 * CHUNK];
    assert_refused(fixture, zeros, sizeof(zeros), HSPZ_E_BAD_FILE, "byte 0x00");
    memset(zeros, '\n', sizeof(zeros));
    assert_refused(fixture, zeros, sizeof(zeros), HSPZ_E_BAD_FILE, "blank");
    zeros[sizeof(zeros) - 1] = '!';
    assert_refused(fixture, zeros, sizeof(zeros), HSPZ_E_BAD_FILE, "line 196608 begins with");
}

static volatile sig_atomic_t interrupted;

static void
on_alarm(int number)
{
    (void)number;
    interrupted = 1;
}

static bool
until_interrupted(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return interrupted == 0;
}

/* A pipe that nobody writes to: only the signal ends the wait. */
static void
test_signal_ends_a_read_that_waits(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[32];
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    struct sigaction was;
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {.it_interval = {.tv_usec = 100000},
                                    .it_value = {.tv_usec = 100000}};
    assert_int_equal(sigaction(SIGALRM, &action, &was), 0);
    interrupted = 0;
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err;
    const enum hspz_status status =
        hspz_sequence_file_read(path, 0, until_interrupted, NULL, &seqs, &err);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &was, NULL), 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(status, HSPZ_E_STOPPED);
    assert_null(seqs);
}

/* Gives `bytes` as standard input in writes of `piece` bytes, and reads "-". */
static void
assert_reads_stdin(const void *bytes, size_t len, size_t piece, const char *want)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        for (size_t at = 0; at < len;) {
            const size_t count = len - at < piece ? len - at : piece;
            const ssize_t put = write(ends[1], (const uint8_t *)bytes + at, count);
            if (put <= 0) {
                _exit(1);
            }
            at += (size_t)put;
        }
        _exit(0);
    }
    close(ends[1]);
    const int saved = dup(STDIN_FILENO);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    assert_reads("-", want);
    /* It is not ours to close. */
    assert_true(lseek(STDIN_FILENO, 0, SEEK_CUR) < 0);
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void
test_file_reads_standard_input(void **state)
{
    (void)state;
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    struct twobit_bytes file = twobit_write(records, 4, (struct twobit_format){0});
    static const size_t pieces[] = {1, 3, 4096};
    for (size_t i = 0; i < 3; i++) {
        assert_reads_stdin(plain, sizeof(plain) - 1, pieces[i], plain_want);
        assert_reads_stdin(gz.bytes, gz.len, pieces[i], plain_want);
        assert_reads_stdin(file.bytes, file.len, pieces[i], records_want);
    }
    free(gz.bytes);
    free(file.bytes);
}

struct progress {
    uint64_t calls, last, total;
    uint64_t allowed;
};

static bool
note_progress(void *user, uint64_t done, uint64_t total)
{
    struct progress *progress = user;
    assert_true(done >= progress->last);
    assert_true(total == 0 || done <= total);
    progress->last = done;
    progress->total = total;
    return ++progress->calls <= progress->allowed;
}

static void
test_file_progress_counts_up_and_can_stop(void **state)
{
    const struct fixture *fixture = *state;
    static char text[10 * CHUNK + 1];
    memset(text, 'A', sizeof(text) - 1);
    memcpy(text, ">a\n", 3);
    struct twobit_record record = {"a", text + 3};
    struct twobit_bytes twobit = twobit_write(&record, 1, (struct twobit_format){0});
    struct bytes files[3] = {{0}};
    append(&files[0], text, sizeof(text) - 1);
    append_member(&files[1], text, sizeof(text) - 1);
    append(&files[2], twobit.bytes, twobit.len);
    free(twobit.bytes);
    for (size_t i = 0; i < 3; i++) {
        save(fixture->path, files[i].bytes, files[i].len);
        struct progress progress = {.allowed = UINT64_MAX};
        struct hspz_sequences *seqs = NULL;
        struct hspz_error err = {0};
        assert_int_equal(
            hspz_sequence_file_read(fixture->path, 0, note_progress, &progress, &seqs, &err),
            HSPZ_OK);
        assert_int_equal(progress.last, files[i].len);
        assert_int_equal(progress.total, files[i].len);
        assert_int_equal(hspz_sequences_bases(seqs), sizeof(text) - 4);
        hspz_sequences_destroy(&seqs);
        const uint64_t calls = progress.calls;
        assert_true(calls >= 1);
        for (uint64_t allowed = 0; allowed < calls; allowed++) {
            progress = (struct progress){.allowed = allowed};
            assert_int_equal(
                hspz_sequence_file_read(fixture->path, 0, note_progress, &progress, &seqs, &err),
                HSPZ_E_STOPPED);
            assert_null(seqs);
            assert_int_equal(progress.calls, allowed + 1);
        }
        free(files[i].bytes);
    }
}

static void
test_file_blocks_follow_the_size_asked_for(void **state)
{
    const struct fixture *fixture = *state;
    static const char text[] = ">a\nACGT\n>b\nACGT\n>c\nA\n";
    save(fixture->path, text, sizeof(text) - 1);
    struct hspz_sequences *seqs = NULL;
    assert_int_equal(hspz_sequence_file_read(fixture->path, 4, NULL, NULL, &seqs, NULL), HSPZ_OK);
    assert_int_equal(hspz_sequences_block_count(seqs), 2);
    assert_int_equal(hspz_sequences_block(seqs, 0).len, 9);
    hspz_sequences_destroy(&seqs);
}

static void
test_file_any_allocation_may_fail(void **state)
{
    const struct fixture *fixture = *state;
    struct bytes files[3] = {{0}};
    append(&files[0], plain, sizeof(plain) - 1);
    append_member(&files[1], plain, sizeof(plain) - 1);
    struct twobit_bytes twobit = twobit_write(records, 4, (struct twobit_format){0});
    append(&files[2], twobit.bytes, twobit.len);
    free(twobit.bytes);
    for (size_t i = 0; i < 3; i++) {
        save(fixture->path, files[i].bytes, files[i].len);
        long failed = 0;
        for (long n = 1;; n++) {
            struct hspz_sequences *seqs = NULL;
            struct hspz_error err = {0};
            failing_malloc_arm(n);
            const enum hspz_status status =
                hspz_sequence_file_read(fixture->path, 0, NULL, NULL, &seqs, &err);
            if (!failing_malloc_disarm()) {
                assert_int_equal(status, HSPZ_OK);
                hspz_sequences_destroy(&seqs);
                break;
            }
            failed++;
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            assert_int_equal(err.status, HSPZ_E_OUT_OF_MEMORY);
            assert_null(seqs);
        }
        assert_true(failed >= 6);
        free(files[i].bytes);
    }
    struct bytes gz = {0};
    append_member(&gz, plain, sizeof(plain) - 1);
    inflate_has_no_memory = true;
    assert_refused(fixture, gz.bytes, gz.len, HSPZ_E_OUT_OF_MEMORY, "out of memory");
    inflate_has_no_memory = false;
    assert_reads_bytes(fixture, gz.bytes, gz.len, plain_want);
    free(gz.bytes);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_file_records_at_chunk_borders),
        FILE_TEST(test_file_reads_gzip_whatever_its_name),
        FILE_TEST(test_file_reads_many_members_and_bgzip),
        FILE_TEST(test_file_tolerates_zero_padding_only),
        FILE_TEST(test_file_refuses_gzip_cut_anywhere),
        FILE_TEST(test_file_refuses_damaged_gzip),
        FILE_TEST(test_file_gzip_with_any_bit_flipped_is_refused_or_the_same),
        FILE_TEST(test_file_reads_the_same_from_fasta_and_2bit),
        FILE_TEST(test_file_refuses_what_is_not_there),
        FILE_TEST(test_file_reads_standard_input),
        FILE_TEST(test_file_progress_counts_up_and_can_stop),
        FILE_TEST(test_file_blocks_follow_the_size_asked_for),
        FILE_TEST(test_file_any_allocation_may_fail),
        cmocka_unit_test(test_signal_ends_a_read_that_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
