/* Writes 2bit files for tests, after UCSC's description of the format; shares nothing with the
 * reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twobit_record {
    const char *name;
    const char *bases; /* ACGTN, either case: lower case becomes mask blocks, N blocks */
};

struct twobit_format {
    bool big_endian;
    uint32_t version; /* written as is; 1 has 64-bit offsets */
};

struct twobit_bytes {
    uint8_t *bytes; /* malloc'ed */
    size_t len;
    bool big_endian;
};

struct twobit_bytes twobit_write(const struct twobit_record *records, size_t count,
                                 struct twobit_format format);

/* Changes four bytes in the file's byte order. */
void twobit_poke(struct twobit_bytes *file, size_t offset, uint32_t value);
/* Offset of a record's first byte: its base count. Version 0 or 1. */
size_t twobit_record_offset(const struct twobit_bytes *file, size_t record);
