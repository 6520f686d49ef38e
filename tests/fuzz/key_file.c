/* Keys of filters, whatever the bytes: refused with line or byte, or records of the columns asked
 * for. The first byte says how they are read; batches of any size give the same. */
#include "client/key_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST 4096

struct all {
    uint64_t numbers[HSPZ_KEY_COLUMNS][MOST];
    size_t count;
    uint64_t last_place;
    enum hspz_status status;
};

static void
read_all(const char *path, bool raw, unsigned columns, size_t capacity, struct all *all)
{
    struct hspz_key_file *file = NULL;
    struct hspz_key_batch batch;
    struct hspz_error err = {0};
    memset(all, 0, sizeof(*all));
    HSPZ_REQUIRE(hspz_key_batch_init(&batch, columns, capacity, &err) == HSPZ_OK);
    HSPZ_REQUIRE(hspz_key_file_open(path, raw, columns, NULL, NULL, &file, &err) == HSPZ_OK);
    do {
        all->status = hspz_key_file_next(file, &batch, &err);
        for (size_t i = 0; i < batch.count && all->count < MOST; i++, all->count++) {
            HSPZ_REQUIRE(batch.places[i] > all->last_place);
            all->last_place = batch.places[i];
            for (unsigned c = 0; c < columns; c++) {
                all->numbers[c][all->count] = batch.columns[c][i];
            }
        }
    } while (all->status == HSPZ_OK && batch.count > 0);
    HSPZ_REQUIRE(all->status == HSPZ_OK || all->status == HSPZ_E_BAD_REQUEST ||
                 all->status == HSPZ_E_BAD_FILE);
    HSPZ_REQUIRE(all->status == HSPZ_OK || strncmp(err.text, path, strlen(path)) == 0);
    hspz_key_file_close(&file);
    hspz_key_batch_fini(&batch);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct all a, b;
    if (size == 0) {
        return 0;
    }
    const int fd = memfd_create("keys", MFD_CLOEXEC);
    HSPZ_REQUIRE(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const bool raw = (data[0] & 4) != 0;
    const unsigned columns = 1 + (data[0] & 3) % HSPZ_KEY_COLUMNS;
    read_all(path, raw, columns, 1, &a);
    read_all(path, raw, columns, 1000, &b);
    HSPZ_REQUIRE(memcmp(&a, &b, sizeof(a)) == 0);
    close(fd);
    return 0;
}
