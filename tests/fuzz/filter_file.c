/* A filter file of any content: read as it is, and once more with all checksums put right. A filter
 * that was loaded takes every operation without going out of range. */
#include "engine/filter.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER_BYTES 256u
#define ARRAYS_AT 120u
#define ALIGN 64u
#define BUDGET (UINT64_C(1) << 20)

static void
repair(uint8_t *data, size_t size)
{
    if (size < HEADER_BYTES) {
        return;
    }
    memcpy(data, "HSPZFLT\x1a\4\3\2\1\1\0\0\0\0\1\0\0", 20);
    data[12] = data[20] == HSPZ_FILTER_TCF ? 2 : 1;
    memcpy(data + 24, &(uint64_t){size}, 8);
    size_t at = HEADER_BYTES;
    for (unsigned i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        uint64_t bytes;
        memcpy(&bytes, data + ARRAYS_AT + 16 * i, 8);
        at = (at + ALIGN - 1) / ALIGN * ALIGN;
        if (at > size || bytes > size - at) {
            return;
        }
        const uint64_t hash = XXH64(data + at, bytes, 0);
        memcpy(data + ARRAYS_AT + 16 * i + 8, &hash, 8);
        at += bytes;
    }
    memset(data + 32, 0, 8);
    const uint64_t hash = XXH64(data, HEADER_BYTES, 0);
    memcpy(data + 32, &hash, 8);
}

static void
work_with(const struct hspz_filter_ops *ops, struct hspz_filter *filter)
{
    static const uint64_t keys[] = {0, 1, 2, UINT64_MAX, UINT64_C(6827347471803364)};
    for (int op = 0; op < HSPZ_FILTER_OPS; op++) {
        uint64_t found[5];
        struct hspz_filter_call call = {.op = (enum hspz_filter_op)op,
                                        .keys = keys,
                                        .count = 5,
                                        .found = found,
                                        .memory_bytes = BUDGET};
        HSPZ_REQUIRE(ops->run(filter, &call, NULL) <= HSPZ_E_INTERNAL);
    }
    if (ops->enumerate != NULL) {
        size_t count = 1;
        struct hspz_filter_entry entries[64];
        for (uint64_t cursor = 0; count > 0;) {
            HSPZ_REQUIRE(ops->enumerate(filter, &cursor, entries, 64, &count, NULL) == HSPZ_OK);
        }
    }
    struct hspz_filter_stats stats;
    ops->stats(filter, &stats);
    HSPZ_REQUIRE(stats.bytes <= BUDGET);
}

static void
read_file(int fd, const uint8_t *data, size_t size)
{
    HSPZ_REQUIRE(ftruncate(fd, 0) == 0);
    HSPZ_REQUIRE(pwrite(fd, data, size, 0) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct hspz_filter_plan plan;
    struct hspz_filter_image image;
    struct hspz_error err = {0};
    if (hspz_filter_read(path, BUDGET, NULL, &plan, &image, &err) != HSPZ_OK) {
        HSPZ_REQUIRE(err.text[0] != '\0');
        return;
    }
    const struct hspz_filter_ops *ops = hspz_filter_ops_of(&plan, hspz_cpu_filter(plan.spec.kind));
    struct hspz_filter *filter = NULL;
    if (ops->load(&plan, &image, NULL, &filter, &err) == HSPZ_OK) {
        work_with(ops, filter);
        ops->destroy(&filter);
    }
    hspz_filter_image_fini(&image);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t copy[1 << 16];
    if (size > sizeof(copy)) {
        return 0;
    }
    const int fd = memfd_create("filter", MFD_CLOEXEC);
    HSPZ_REQUIRE(fd >= 0);
    read_file(fd, data, size);
    memcpy(copy, data, size);
    repair(copy, size);
    read_file(fd, copy, size);
    close(fd);
    return 0;
}
