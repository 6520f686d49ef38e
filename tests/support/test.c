#include "tests/support/test.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

bool
test_required(const char *what)
{
    const char *required = getenv("HSPZ_REQUIRE");
    if (required == NULL) {
        return false;
    }
    const size_t len = strlen(what);
    for (const char *at = required; *at != '\0';) {
        const size_t word = strcspn(at, ",");
        if (word == len && memcmp(at, what, len) == 0) {
            return true;
        }
        at += word + (at[word] == ',');
    }
    return false;
}

const char *
test_shared_dir(void)
{
    const char *dir = getenv("HSPZ_SHARED");
    if (dir == NULL || *dir == '\0') {
        dir = HSPZ_SOURCE_ROOT "/../shared";
    }
    struct stat st;
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) {
        return dir;
    }
    if (test_required("shared")) {
        fail_msg("HSPZ_REQUIRE names shared, but %s is absent", dir);
    }
    return NULL;
}

char *
test_genome(const char *name)
{
    static const char *const folders[] = {"/usr/share/doc",
                                          HSPZ_SOURCE_ROOT "/build-genomes/usr/share/doc"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char *path = test_path(folders[i], name);
        if (access(path, R_OK) == 0) {
            return path;
        }
        free(path);
    }
    if (test_required("shared")) {
        fail_msg("HSPZ_REQUIRE names shared, but %s is absent", name);
    }
    return NULL;
}

uint8_t *
test_read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    bytes[size] = 0;
    fclose(file);
    *len = (size_t)size;
    return bytes;
}

char *
test_tmpdir_make(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = test_path(base != NULL && *base != '\0' ? base : "/tmp", "hspz-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static int
remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void
test_tmpdir_remove(char **dir)
{
    if (*dir != NULL) {
        nftw(*dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(*dir);
        *dir = NULL;
    }
}

char *
test_path(const char *dir, const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
    return path;
}

unsigned
test_share(void)
{
    const char *text = getenv("HSPZ_TEST_SHARE");
    const unsigned share = text ? (unsigned)strtoul(text, NULL, 10) : 1;
    return share > 1 ? share : 1;
}

unsigned
test_rounds(unsigned all)
{
    const unsigned rounds = all / test_share();
    return rounds < 4 ? 4 : rounds;
}

uint64_t
test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
