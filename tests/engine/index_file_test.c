#include "engine/index.h"

#include "tests/engine/index_cases.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

/* Calls of the writer, the n-th of which fails; `short_writes` makes each write one byte long. */
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
ssize_t __real_pread64(int fd, void *data, size_t bytes, off_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off_t offset);

static struct {
    bool armed, short_writes, happened;
    long left;
    int error;
} fault;

static bool
fails_now(void)
{
    if (!fault.armed || --fault.left != 0) {
        return false;
    }
    fault.happened = true;
    errno = fault.error;
    return true;
}

ssize_t
__wrap_write(int fd, const void *data, size_t bytes)
{
    if (fails_now()) {
        return -1;
    }
    return __real_write(fd, data, fault.short_writes && bytes > 7 ? 7 : bytes);
}

int
__wrap_fsync(int fd)
{
    return fails_now() ? -1 : __real_fsync(fd);
}

int
__wrap_close(int fd)
{
    const bool fails = fails_now();
    const int error = errno;
    const int result = __real_close(fd);
    errno = error;
    return fails ? -1 : result;
}

int
__wrap_rename(const char *from, const char *to)
{
    return fails_now() ? -1 : __real_rename(from, to);
}

ssize_t
__wrap_pread64(int fd, void *data, size_t bytes, off_t offset)
{
    if (fails_now()) {
        return -1;
    }
    return __real_pread64(fd, data, fault.short_writes && bytes > 100 ? 100 : bytes, offset);
}

struct fixture {
    char *dir, *path;
    struct hspz_index *index;
    uint8_t *bytes; /* of the file */
    size_t len;
};

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->dir = test_tmpdir_make();
    f->path = test_path(f->dir, "ref.hspz");
    f->index = index_case_small(11, "110101", 2);
    struct hspz_error err;
    if (hspz_index_write(f->index, f->path, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    f->bytes = test_read_file(f->path, &f->len);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    fault.armed = fault.short_writes = false;
    hspz_index_release(&f->index);
    test_tmpdir_remove(&f->dir);
    free(f->path);
    free(f->bytes);
    free(f);
    return 0;
}

static void
put_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static size_t
count_files(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(d);
    return count;
}

/* Refused as a bad file, with the path and `reason` in the text. */
static void
assert_refused(const char *path, const struct hspz_index_want *want, const char *reason)
{
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    const enum hspz_status status = hspz_index_read(path, want, 0, NULL, NULL, &index, &err);
    if (status != HSPZ_E_BAD_FILE || index != NULL || strstr(err.text, path) == NULL ||
        strstr(err.text, reason) == NULL) {
        fail_msg("status %s, '%s', wanted is '%s'", hspz_status_name(status), err.text, reason);
    }
}

static void
assert_bytes_refused(const struct fixture *f, const uint8_t *bytes, size_t len, const char *reason)
{
    put_file(f->path, bytes, len);
    assert_refused(f->path, NULL, reason);
}

static void
assert_same_index(const struct hspz_index *a, const struct hspz_index *b)
{
    const struct hspz_index_params *p = hspz_index_get_params(a);
    const struct hspz_index_params *q = hspz_index_get_params(b);
    assert_true(hspz_shape_equal(&p->shape, &q->shape));
    assert_memory_equal(&p->shape.runs, &q->shape.runs, sizeof(p->shape.runs));
    assert_int_equal(p->step, q->step);
    assert_int_equal(p->unmask, q->unmask);
    assert_int_equal(p->all_positions, q->all_positions);
    assert_string_equal(hspz_index_digest(a), hspz_index_digest(b));
    assert_string_equal(hspz_index_version(a), hspz_index_version(b));
    assert_int_equal(hspz_index_bytes(a), hspz_index_bytes(b));
    assert_int_equal(hspz_index_block_count(a), hspz_index_block_count(b));
    for (size_t i = 0; i < hspz_index_block_count(a); i++) {
        const struct hspz_index_block x = hspz_index_get_block(a, i);
        const struct hspz_index_block y = hspz_index_get_block(b, i);
        assert_int_equal(x.bases_len, y.bases_len);
        assert_memory_equal(x.bases, y.bases, x.bases_len);
        assert_memory_equal(x.table, y.table, sizeof(uint32_t) << (2 * p->shape.weight));
        assert_int_equal(x.pos_count, y.pos_count);
        assert_memory_equal(x.pos, y.pos, sizeof(uint32_t) * x.pos_count);
    }
    const struct hspz_sequences *s = hspz_index_sequences(a);
    const struct hspz_sequences *t = hspz_index_sequences(b);
    assert_int_equal(hspz_sequences_count(s), hspz_sequences_count(t));
    assert_int_equal(hspz_sequences_masked(s), hspz_sequences_masked(t));
    for (size_t i = 0; i < hspz_sequences_count(s); i++) {
        const struct hspz_sequence *x = hspz_sequences_get(s, i);
        const struct hspz_sequence *y = hspz_sequences_get(t, i);
        assert_string_equal(x->name, y->name);
        assert_true(x->len == y->len && x->block == y->block && x->offset == y->offset &&
                    x->line == y->line);
    }
}

static struct hspz_index *
read_back(const char *path)
{
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    if (hspz_index_read(path, NULL, 0, NULL, NULL, &index, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return index;
}

static void
test_file_gives_the_same_index(void **state)
{
    struct fixture *f = *state;
    static const char *const patterns[] = {"1111", "1101011", "0101100000000000000000000011010"};
    uint64_t random = 9;
    for (unsigned round = 0; round < 60; round++) {
        const struct hspz_index_params params =
            index_case_params(patterns[round % 3], 1 + round % 4, round % 2 == 0, round % 5 == 0);
        struct hspz_sequences *seqs = index_case_random(&random, 1 + test_random(&random) % 30, 200,
                                                        1 + test_random(&random) % 600);
        struct hspz_index *index = index_case_build(&seqs, &params, 1 + round % 3);
        assert_int_equal(hspz_index_write(index, f->path, NULL), HSPZ_OK);
        struct hspz_index *again = read_back(f->path);
        assert_same_index(index, again);
        hspz_index_release(&index);
        hspz_index_release(&again);
    }
    assert_int_equal(count_files(f->dir), 1);
}

static void
test_file_is_laid_out_as_documented(void **state)
{
    struct fixture *f = *state;
    const uint8_t head[] = {'H', 'S', 'P', 'Z', 'I', 'D', 'X', 0x1a, 4, 3, 2, 1, 1, 0, 0, 0};
    assert_memory_equal(f->bytes, head, sizeof(head));
    assert_string_equal(f->bytes + 40, HSPZ_VERSION);
    assert_int_equal(f->bytes[72], 2);
    assert_int_equal(f->bytes[84], 6);
    assert_string_equal(f->bytes + 88, "110101");
    uint64_t pos_offset, pos_bytes;
    const uint8_t *row = f->bytes + 192 + 32 * 4; /* names, blocks, bases, table, positions */
    memcpy(&pos_offset, row + 8, 8);
    memcpy(&pos_bytes, row + 16, 8);
    const struct hspz_index_block block = hspz_index_get_block(f->index, 0);
    assert_int_equal(pos_bytes, 4 * block.pos_count);
    assert_int_equal(pos_offset % 64, 0);
    assert_memory_equal(f->bytes + pos_offset, block.pos, pos_bytes);
}

static void
test_what_is_no_index_is_told_so(void **state)
{
    struct fixture *f = *state;
    static const char fasta[] = ">chr1\nACGTACGT\n";
    assert_bytes_refused(f, (const uint8_t *)fasta, sizeof(fasta) - 1, "FASTA");
    assert_bytes_refused(f, (const uint8_t *)"\x1f\x8b\x08", 3, "gzip");
    assert_bytes_refused(f, (const uint8_t *)"x", 1, "no hspz index");
    assert_bytes_refused(f, (const uint8_t *)"", 0, "empty");
    assert_refused(f->dir, NULL, "not a regular file");
    char *fifo = test_path(f->dir, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_refused(fifo, NULL, "not a regular file");
    assert_refused("/dev/zero", NULL, "not a regular file");
    free(fifo);
    struct hspz_index *index = NULL;
    struct hspz_error err;
    char *absent = test_path(f->dir, "absent");
    assert_int_equal(hspz_index_read(absent, NULL, 0, NULL, NULL, &index, &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, absent));
    free(absent);
}

/* A header's checksum made right again, so that what lies behind it is reached. */
static void
rehash(uint8_t *bytes)
{
    uint32_t header_bytes;
    memcpy(&header_bytes, bytes + 16, 4);
    memset(bytes + 32, 0, 8);
    const uint64_t hash = XXH64(bytes, header_bytes, 0);
    memcpy(bytes + 32, &hash, 8);
}

/* The same for section `number` (0 names, 1 blocks, 2 bases, 3 table, 4 positions, ...). */
static void
rehash_section(uint8_t *bytes, unsigned number)
{
    uint64_t offset, len;
    uint8_t *row = bytes + 192 + 32 * number;
    memcpy(&offset, row + 8, 8);
    memcpy(&len, row + 16, 8);
    const uint64_t hash = XXH64(bytes + offset, len, 0);
    memcpy(row + 24, &hash, 8);
    rehash(bytes);
}

static uint8_t *
section(uint8_t *bytes, unsigned number)
{
    uint64_t offset;
    memcpy(&offset, bytes + 192 + 32 * number + 8, 8);
    return bytes + offset;
}

static void
test_other_formats_are_told_apart(void **state)
{
    struct fixture *f = *state;
    uint8_t *bytes = f->bytes;
    for (uint8_t format = 0; format <= 2; format += 2) {
        bytes[12] = format;
        memcpy(bytes + 40, "9.8.7", 6);
        rehash(bytes);
        assert_bytes_refused(f, bytes, f->len, format == 0 ? "index format 0" : "index format 2");
        assert_bytes_refused(f, bytes, f->len, "written by hspz 9.8.7");
        assert_bytes_refused(f, bytes, f->len, "reads format 1");
    }
    bytes[12] = 1;
    rehash(bytes);
    put_file(f->path, bytes, f->len);
    struct hspz_index *index = read_back(f->path);
    assert_string_equal(hspz_index_version(index), "9.8.7");
    assert_string_equal(hspz_index_digest(index), hspz_index_digest(f->index));
    hspz_index_release(&index);
    const uint8_t foreign[] = {1, 2, 3, 4, 0, 0, 0, 1};
    memcpy(bytes + 8, foreign, sizeof(foreign));
    assert_bytes_refused(f, bytes, f->len, "byte order");
    rehash(bytes);
    assert_bytes_refused(f, bytes, f->len, "byte order");
}

static void
test_other_parameters_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct hspz_index_params other = index_case_params("14of22", 1, false, false);
    const struct hspz_index_params same = index_case_params("110101", 1, false, false);
    char digest[17];
    strcpy(digest, hspz_index_digest(f->index));
    const struct hspz_index_want good = {.shape = &same.shape, .step = 2, .digest = digest};
    struct hspz_index *index = NULL;
    assert_int_equal(hspz_index_read(f->path, &good, 0, NULL, NULL, &index, NULL), HSPZ_OK);
    hspz_index_release(&index);

    const struct hspz_index_want shape = {.shape = &other.shape};
    assert_refused(f->path, &shape, "110101");
    assert_refused(f->path, &shape, "1110101100110010101111");
    assert_refused(f->path, &shape, "hspz " HSPZ_VERSION);
    const struct hspz_index_want step = {.step = 3};
    assert_refused(f->path, &step, "step 2, wanted is step 3");
    assert_refused(f->path, &step, "hspz " HSPZ_VERSION);
    const struct hspz_index_want none = {.digest = "0123456789abcdef"};
    assert_refused(f->path, &none, digest);
    assert_refused(f->path, &none, "0123456789abcdef");
    assert_refused(f->path, &none, "hspz " HSPZ_VERSION);
}

static void
test_need_is_what_reading_takes(void **state)
{
    struct fixture *f = *state;
    struct hspz_index_need need;
    struct hspz_error err = {0};
    assert_int_equal(hspz_index_file_need(f->path, &need, &err), HSPZ_OK);
    assert_int_equal(need.table_bytes, 1024 * hspz_index_block_count(f->index));
    assert_int_equal(need.table_bytes + need.position_bytes + need.sequence_bytes,
                     hspz_index_bytes(f->index));
    struct hspz_index *index = NULL;
    assert_int_equal(hspz_index_read(f->path, NULL, need.total_bytes - 1, NULL, NULL, &index, &err),
                     HSPZ_E_TOO_LARGE);
    assert_int_equal(hspz_index_read(f->path, NULL, need.total_bytes, NULL, NULL, &index, &err),
                     HSPZ_OK);
    hspz_index_release(&index);

    const struct hspz_index_need before = need;
    put_file(f->path, f->bytes, f->len - 1);
    assert_int_equal(hspz_index_file_need(f->path, &need, &err), HSPZ_E_BAD_FILE);
    assert_non_null(strstr(err.text, "cut short"));
    assert_memory_equal(&need, &before, sizeof(need));
}

static void
test_every_cut_is_refused(void **state)
{
    struct fixture *f = *state;
    put_file(f->path, f->bytes, f->len);
    for (size_t len = f->len; len-- > 0;) {
        if (len > 600 && len < f->len - 100 && len % 97 != 0 && len != f->len / 2) {
            continue;
        }
        assert_int_equal(truncate(f->path, (off_t)len), 0);
        assert_refused(f->path, NULL, len == 0 ? "empty" : len < 8 ? "" : "cut short");
    }
    uint8_t *longer = calloc(1, f->len + 1);
    assert_non_null(longer);
    memcpy(longer, f->bytes, f->len);
    assert_bytes_refused(f, longer, f->len + 1, "too long");
    free(longer);
}

static void
test_every_flipped_byte_is_refused(void **state)
{
    struct fixture *f = *state;
    put_file(f->path, f->bytes, f->len);
    const int fd = open(f->path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < f->len; at++) {
        if (at > 4000 && at % 13 != 0) {
            continue;
        }
        const uint8_t flipped = f->bytes[at] ^ (uint8_t)(1u << at % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        assert_refused(f->path, NULL, "");
        assert_int_equal(pwrite(fd, &f->bytes[at], 1, (off_t)at), 1);
    }
    close(fd);
    struct hspz_index *index = read_back(f->path);
    assert_same_index(index, f->index);
    hspz_index_release(&index);
}

static void
test_damage_is_told_by_section(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"section names of block 0",     "section blocks of block 0",
                                        "section bases of block 0",     "section table of block 0",
                                        "section positions of block 0", "section bases of block 1"};
    for (unsigned s = 0; s < 6; s++) {
        uint8_t *at = section(f->bytes, s);
        at[s == 2 ? 3 : 12] ^= s == 2 || s == 5 ? 0x20 : 1; /* in bases: another case */
        assert_bytes_refused(f, f->bytes, f->len, names[s]);
        at[s == 2 ? 3 : 12] ^= s == 2 || s == 5 ? 0x20 : 1;
    }
}

/* Right checksums everywhere: what is forged must be seen by itself. */
static void
test_forged_content_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct hspz_index_block block = hspz_index_get_block(f->index, 0);
    const struct {
        unsigned section;
        size_t at;
        uint32_t value;
        const char *reason;
    } forged[] = {
        {3, 4 * 100, 0xffffffff, "table entry 100"},
        {3, 4 * 255, block.pos_count - 1, "table entry 255"},
        {4, 0, block.bases_len, "past the end of its block"},
        {4, 0, block.bases_len - 5, "past the end of its block"},
        {4, 4 * (block.pos_count - 1), 0xffffffff, "past the end of its block"},
        {2, 0, 0x26262626, "no"}, /* separators */
        {2, 0, 0x0a0a0a0a, "0x0a"},
        {0, 0, 1, "names"},
        {0, 16, 1, "names"},
        {0, 20, 1, "names"},
        {0, 24, 0xffffffff, "names"},
        {0, 24, 0, "names"},
        {1, 0, 1, "blocks"},
        {1, 4, 1, "blocks"},
        {1, 8, block.pos_count + 1, "blocks"},
        {1, 16, 1, "blocks"},
        {1, 24, 0, "blocks"},
        {1, 24, 1, "names"},
        {1, 28, 0xffffffff, "blocks"},
    };
    uint8_t *bytes = malloc(f->len);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        memcpy(bytes, f->bytes, f->len);
        memcpy(section(bytes, forged[i].section) + forged[i].at, &forged[i].value, 4);
        rehash_section(bytes, forged[i].section);
        assert_bytes_refused(f, bytes, f->len, forged[i].reason);
    }
    /* The first of two bases changed, everything else in order: only the digest tells. */
    memcpy(bytes, f->bytes, f->len);
    section(bytes, 2)[0] = section(bytes, 2)[0] == 'A' ? 'C' : 'A';
    rehash_section(bytes, 2);
    assert_bytes_refused(f, bytes, f->len, "digest");
    free(bytes);
}

static void
test_forged_header_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct {
        size_t at;
        uint32_t value;
        const char *reason;
    } forged[] = {
        {16, 0xffffffff, "damaged"}, {20, 0xffffffff, "damaged"},
        {24, 1, "too long"},         {72, 0, "step 0"},
        {76, 4, "flags 0x4"},        {80, 0, "0 blocks"},
        {80, 0xffffffff, "blocks"},  {84, 65, "65 places"},
        {84, 0, "pattern"},          {84, 3, "pattern"},
        {88, 0x78787878, "pattern"}, {156, 0xffffffff, "section 0"},
        {160, 0, "section 0"},       {164, 0xffffffff, "section 0"},
        {192, 5, "section 0"},       {196, 1, "section 0"},
        {200, 0, "section 0"},       {204, 0x80000000, "section 0"},
        {208, 0, "section 0"},       {212, 0xffffffff, "section 0"},
        {224 + 16, 0, "section 1"},  {256 + 20, 1, "section 2"},
        {288 + 16, 4, "section 3"},  {320 + 16, 0xfffffffc, "section 4"},
        {320 + 8, 64, "section 4"},
    };
    uint8_t *bytes = malloc(f->len);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        memcpy(bytes, f->bytes, f->len);
        memcpy(bytes + forged[i].at, &forged[i].value, 4);
        if (forged[i].at != 16) {
            rehash(bytes);
        }
        assert_bytes_refused(f, bytes, f->len, forged[i].reason);
    }
    /* A sparse file as long as a forged header promises must not be believed either. */
    memcpy(bytes, f->bytes, f->len);
    const uint32_t sections = 100000000;
    const uint32_t header_bytes = 192 + sections * 32;
    memcpy(bytes + 16, &header_bytes, 4);
    memcpy(bytes + 20, &sections, 4);
    put_file(f->path, bytes, f->len);
    assert_int_equal(truncate(f->path, (off_t)header_bytes + 100), 0);
    failing_malloc_arm(1);
    assert_refused(f->path, NULL, "100000000 sections");
    assert_false(failing_malloc_disarm());
    free(bytes);
}

static void
test_budget_is_kept_when_reading(void **state)
{
    struct fixture *f = *state;
    struct hspz_index *index = NULL;
    struct hspz_error err;
    assert_int_equal(hspz_index_read(f->path, NULL, 10000, NULL, NULL, &index, &err),
                     HSPZ_E_TOO_LARGE);
    char table[40];
    snprintf(table, sizeof(table), "table %zu,", 1024 * hspz_index_block_count(f->index));
    assert_non_null(strstr(err.text, table));
    assert_non_null(strstr(err.text, "10000"));
    assert_non_null(strstr(err.text, f->path));
    assert_true(err.has_limit && err.limit == 10000);
    assert_int_equal(hspz_index_read(f->path, NULL, UINT64_C(1) << 30, NULL, NULL, &index, &err),
                     HSPZ_OK);
    hspz_index_release(&index);
}

static bool
count_calls(void *user, uint64_t done, uint64_t total)
{
    long *left = user;
    assert_true(done <= total && total > 0);
    return --*left != 0;
}

static void
test_reading_can_be_stopped(void **state)
{
    struct fixture *f = *state;
    long calls = -1;
    struct hspz_index *index = NULL;
    assert_int_equal(hspz_index_read(f->path, NULL, 0, count_calls, &calls, &index, NULL), HSPZ_OK);
    hspz_index_release(&index);
    const long all = -1 - calls;
    assert_true(all > 5);
    for (long n = 1; n <= all; n++) {
        long left = n;
        assert_int_equal(hspz_index_read(f->path, NULL, 0, count_calls, &left, &index, NULL),
                         HSPZ_E_STOPPED);
        assert_null(index);
    }
}

static void
test_every_failing_allocation_is_survived(void **state)
{
    struct fixture *f = *state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_index_write(f->index, f->path, NULL);
        reached = failing_malloc_disarm();
        assert_int_equal(status, reached ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        assert_int_equal(count_files(f->dir), 1);
    }
    reached = true;
    unsigned failures = 0;
    for (long n = 1; reached; n++) {
        struct hspz_index *index = NULL;
        failing_malloc_arm(n);
        const enum hspz_status status = hspz_index_read(f->path, NULL, 0, NULL, NULL, &index, NULL);
        reached = failing_malloc_disarm();
        if (status == HSPZ_OK) { /* also when memory could only not be given back */
            assert_same_index(index, f->index);
        } else {
            assert_true(reached);
            assert_int_equal(status, HSPZ_E_OUT_OF_MEMORY);
            assert_null(index);
            failures++;
        }
        hspz_index_release(&index);
    }
    assert_true(failures > 8);
}

static void
test_every_failing_call_of_the_writer_leaves_no_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(unlink(f->path), 0);
    size_t failures = 0;
    for (long n = 1;; n++) {
        struct hspz_error err = {0};
        fault.armed = true;
        fault.happened = false;
        fault.left = n;
        fault.error = n % 2 == 0 ? ENOSPC : EIO;
        const enum hspz_status status = hspz_index_write(f->index, f->path, &err);
        fault.armed = false;
        if (status == HSPZ_OK) {
            break;
        }
        assert_true(fault.happened);
        failures++;
        assert_int_equal(status, HSPZ_E_IO);
        assert_non_null(strstr(err.text, f->path));
        assert_non_null(strstr(err.text, strerror(fault.error)));
        if (access(f->path, F_OK) == 0) { /* after the rename only: then it is whole */
            assert_non_null(strstr(err.text, "directory"));
            struct hspz_index *index = read_back(f->path);
            assert_same_index(index, f->index);
            hspz_index_release(&index);
            assert_int_equal(unlink(f->path), 0);
        }
        assert_int_equal(count_files(f->dir), 0);
    }
    assert_true(failures > 10);
}

static void
test_a_failed_write_keeps_the_old_file(void **state)
{
    struct fixture *f = *state;
    struct hspz_index *other = index_case_small(12, "11111", 1);
    fault.armed = true;
    fault.left = 5;
    fault.error = ENOSPC;
    assert_int_equal(hspz_index_write(other, f->path, NULL), HSPZ_E_IO);
    fault.armed = false;
    struct hspz_index *index = read_back(f->path);
    assert_same_index(index, f->index);
    hspz_index_release(&index);
    assert_int_equal(hspz_index_write(other, f->path, NULL), HSPZ_OK);
    index = read_back(f->path);
    assert_same_index(index, other);
    hspz_index_release(&index);
    hspz_index_release(&other);
    assert_int_equal(count_files(f->dir), 1);
}

static void
test_short_and_interrupted_calls_are_gone_on_with(void **state)
{
    struct fixture *f = *state;
    fault.short_writes = true;
    for (long n = 1; n < 300; n += 23) {
        fault.armed = true;
        fault.left = n;
        fault.error = EINTR;
        fault.happened = false;
        assert_int_equal(hspz_index_write(f->index, f->path, NULL), HSPZ_OK);
        assert_true(fault.happened);
        fault.happened = false;
        fault.left = 1 + n % 40;
        struct hspz_index *index = read_back(f->path);
        assert_true(fault.happened);
        fault.armed = false;
        assert_same_index(index, f->index);
        hspz_index_release(&index);
    }
    fault.armed = true;
    fault.error = EIO;
    for (fault.left = 1; fault.left < 30;) {
        const long n = fault.left;
        struct hspz_index *index = NULL;
        assert_int_equal(hspz_index_read(f->path, NULL, 0, NULL, NULL, &index, NULL), HSPZ_E_IO);
        fault.left = n + 1;
    }
}

static void
test_a_full_disk_and_a_killed_writer_leave_no_index(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(unlink(f->path), 0);
    for (unsigned killed = 0; killed < 2; killed++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            const struct rlimit limit = {.rlim_cur = f->len / 2, .rlim_max = f->len / 2};
            struct hspz_error err;
            const struct rlimit no_core = {0};
            setrlimit(RLIMIT_CORE, &no_core);
            setrlimit(RLIMIT_FSIZE, &limit);
            /* With the signal's default action the limit kills the writer half-way. */
            signal(SIGXFSZ, killed ? SIG_DFL : SIG_IGN);
            _exit(hspz_index_write(f->index, f->path, &err) == HSPZ_E_IO ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (killed) {
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
            assert_int_equal(count_files(f->dir), 1); /* the temporary */
        } else {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            assert_int_equal(count_files(f->dir), 0);
        }
        assert_int_equal(access(f->path, F_OK), -1);
    }
    assert_int_equal(hspz_index_write(f->index, f->path, NULL), HSPZ_OK);
    struct hspz_index *index = read_back(f->path);
    assert_same_index(index, f->index);
    hspz_index_release(&index);
}

static void
test_only_regular_files_are_replaced(void **state)
{
    struct fixture *f = *state;
    struct hspz_error err;
    assert_int_equal(hspz_index_write(f->index, f->dir, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_index_write(f->index, "/dev/full", &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "/dev/full"));
    char *below = test_path(f->path, "x");
    assert_int_equal(hspz_index_write(f->index, below, &err), HSPZ_E_IO);
    free(below);
    char *missing = test_path(f->dir, "missing/x");
    assert_int_equal(hspz_index_write(f->index, missing, &err), HSPZ_E_IO);
    free(missing);
    assert_int_equal(hspz_index_write(f->index, "", &err), HSPZ_E_IO);

    struct hspz_index *bare = NULL;
    const struct hspz_index_params params = index_case_params("1111", 1, false, false);
    assert_int_equal(
        hspz_index_from_tables(&params, NULL, 100, (uint32_t[256]){0}, NULL, 0, &bare, &err),
        HSPZ_OK);
    assert_int_equal(hspz_index_write(bare, f->path, &err), HSPZ_E_BAD_REQUEST);
    hspz_index_release(&bare);
    struct hspz_index *index = read_back(f->path);
    hspz_index_release(&index);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_file_gives_the_same_index),
        CASE(test_file_is_laid_out_as_documented),
        CASE(test_what_is_no_index_is_told_so),
        CASE(test_other_formats_are_told_apart),
        CASE(test_other_parameters_are_refused),
        CASE(test_need_is_what_reading_takes),
        CASE(test_every_cut_is_refused),
        CASE(test_every_flipped_byte_is_refused),
        CASE(test_damage_is_told_by_section),
        CASE(test_forged_content_is_refused),
        CASE(test_forged_header_is_refused),
        CASE(test_budget_is_kept_when_reading),
        CASE(test_reading_can_be_stopped),
        CASE(test_every_failing_allocation_is_survived),
        CASE(test_every_failing_call_of_the_writer_leaves_no_file),
        CASE(test_a_failed_write_keeps_the_old_file),
        CASE(test_short_and_interrupted_calls_are_gone_on_with),
        CASE(test_a_full_disk_and_a_killed_writer_leave_no_index),
        CASE(test_only_regular_files_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
