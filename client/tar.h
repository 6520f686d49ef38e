/* Headers of a ustar archive that is the same whenever and wherever it is made: owner 0, mode 0644,
 * one fixed time. */
#pragma once

#include <stdint.h>

#define HSPZ_TAR_BLOCK 512u
#define HSPZ_TAR_NAME_BYTES 100u

/* `name` is shorter than HSPZ_TAR_NAME_BYTES. Sizes from 8 GiB on are written as GNU tar and POSIX
 * readers know them, in base 256. */
void hspz_tar_header(uint8_t header[HSPZ_TAR_BLOCK], const char *name, uint64_t size);
/* Zero bytes behind a file of that size. */
static inline uint32_t
hspz_tar_padding(uint64_t size)
{
    return (uint32_t)(-size % HSPZ_TAR_BLOCK);
}
/* The archive ends with two blocks of zeros. */
#define HSPZ_TAR_END_BYTES (2u * HSPZ_TAR_BLOCK)
