#include "client/tar.h"

#include "protocol/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 2000-01-01: GNU tar warns of times at the epoch. */
#define FIXED_TIME 946684800u
#define OCTAL_SIZE_LIMIT (UINT64_C(1) << 33)

static void
put_octal(uint8_t *field, size_t digits, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%0*" PRIo64, (int)digits, value);
    memcpy(field, text, digits + 1);
}

void
hspz_tar_header(uint8_t header[HSPZ_TAR_BLOCK], const char *name, uint64_t size)
{
    const size_t name_len = strlen(name);
    HSPZ_REQUIRE(name_len < HSPZ_TAR_NAME_BYTES);
    memset(header, 0, HSPZ_TAR_BLOCK);
    memcpy(header, name, name_len);
    put_octal(header + 100, 7, 0644);
    put_octal(header + 108, 7, 0);
    put_octal(header + 116, 7, 0);
    if (size < OCTAL_SIZE_LIMIT) {
        put_octal(header + 124, 11, size);
    } else {
        header[124] = 0x80;
        for (int i = 0; i < 8; i++) {
            header[135 - i] = (uint8_t)(size >> (8 * i));
        }
    }
    put_octal(header + 136, 11, FIXED_TIME);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar", 6);
    memcpy(header + 263, "00", 2);
    put_octal(header + 329, 7, 0);
    put_octal(header + 337, 7, 0);
    uint32_t sum = 0;
    for (size_t i = 0; i < HSPZ_TAR_BLOCK; i++) {
        sum += header[i];
    }
    put_octal(header + 148, 6, sum);
    header[155] = ' ';
}
