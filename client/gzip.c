#include "client/gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib's way to ask for gzip */
/* Lines of numbers: higher levels take several times as long and gain a few percent. */
#define LEVEL 4

enum hspz_status
hspz_gzip_member(const void *bytes, size_t len, uint8_t **out, size_t *out_len,
                 struct hspz_error *err)
{
    z_stream z = {0};
    HSPZ_REQUIRE(len <= UINT_MAX / 2);
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to compress");
    }
    const uLong most = deflateBound(&z, (uLong)len);
    uint8_t *member = malloc(most);
    if (member == NULL) {
        (void)deflateEnd(&z);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to compress");
    }
    z.next_in = (z_const Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)len;
    z.next_out = member;
    z.avail_out = (uInt)most;
    const int result = deflate(&z, Z_FINISH);
    HSPZ_REQUIRE(result == Z_STREAM_END);
    *out_len = (size_t)z.total_out;
    *out = member;
    (void)deflateEnd(&z);
    return HSPZ_OK;
}
