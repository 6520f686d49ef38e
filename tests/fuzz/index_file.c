/* An index file of any content: read as it is, and once more with all checksums put right, so that
 * what lies behind them is reached too. An index that was read must not lead out of range. */
#include "engine/index.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER_BYTES 192u
#define ROW_BYTES 32u

static void
repair(uint8_t *data, size_t size)
{
    uint32_t sections;
    if (size < HEADER_BYTES) {
        return;
    }
    memcpy(data, "HSPZIDX\x1a\4\3\2\1\1\0\0\0", 16);
    memcpy(&sections, data + 20, sizeof(sections));
    if (sections > (size - HEADER_BYTES) / ROW_BYTES) {
        return;
    }
    const uint32_t header_bytes = HEADER_BYTES + sections * ROW_BYTES;
    memcpy(data + 16, &header_bytes, sizeof(header_bytes));
    memcpy(data + 24, &(uint64_t){size}, 8);
    for (uint32_t s = 0; s < sections; s++) {
        uint8_t *row = data + HEADER_BYTES + s * ROW_BYTES;
        uint64_t offset, bytes;
        memcpy(&offset, row + 8, 8);
        memcpy(&bytes, row + 16, 8);
        if (offset <= size && bytes <= size - offset) {
            const uint64_t hash = XXH64(data + offset, (size_t)bytes, 0);
            memcpy(row + 24, &hash, 8);
        }
    }
    memset(data + 32, 0, 8);
    const uint64_t hash = XXH64(data, header_bytes, 0);
    memcpy(data + 32, &hash, 8);
}

static void
walk(const struct hspz_index *index)
{
    const struct hspz_shape *shape = &hspz_index_get_params(index)->shape;
    const struct hspz_sequences *seqs = hspz_index_sequences(index);
    uint64_t positions = 0;
    for (size_t b = 0; b < hspz_index_block_count(index); b++) {
        const struct hspz_index_block block = hspz_index_get_block(index, b);
        uint32_t begin = 0;
        for (uint32_t w = 0; w < hspz_shape_words(shape); w++) {
            for (uint32_t j = begin; j < block.table[w]; j++) {
                HSPZ_REQUIRE((uint64_t)block.pos[j] + shape->span <= block.bases_len);
                HSPZ_REQUIRE(block.bases[block.pos[j]] != 0);
                HSPZ_REQUIRE(hspz_sequences_locate(seqs, b, block.pos[j])->block == b);
                positions++;
            }
            begin = block.table[w];
        }
    }
    HSPZ_REQUIRE(positions * sizeof(uint32_t) <= hspz_index_bytes(index));
}

static void
read_file(int fd, const uint8_t *data, size_t size)
{
    HSPZ_REQUIRE(ftruncate(fd, 0) == 0);
    HSPZ_REQUIRE(pwrite(fd, data, size, 0) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct hspz_index *index = NULL;
    struct hspz_error err = {0};
    const enum hspz_status status =
        hspz_index_read(path, NULL, UINT64_C(64) << 20, NULL, NULL, &index, &err);
    HSPZ_REQUIRE((status == HSPZ_OK) == (index != NULL));
    if (index != NULL) {
        walk(index);
    } else {
        HSPZ_REQUIRE(err.status == status && err.text[0] != '\0');
    }
    hspz_index_release(&index);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("index", MFD_CLOEXEC);
    uint8_t *repaired = malloc(size + 1);
    HSPZ_REQUIRE(fd >= 0 && repaired != NULL);
    read_file(fd, data, size);
    if (size > 0) {
        memcpy(repaired, data, size);
    }
    repair(repaired, size);
    read_file(fd, repaired, size);
    free(repaired);
    close(fd);
    return 0;
}
