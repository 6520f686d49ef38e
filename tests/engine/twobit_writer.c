#include "tests/engine/twobit_writer.h"

#include "tests/support/test.h"

#include <ctype.h>

static void
put_byte(struct twobit_bytes *file, uint8_t byte)
{
    if ((file->len & (file->len - 1)) == 0) {
        file->bytes = realloc(file->bytes, file->len == 0 ? 1 : 2 * file->len);
        assert_non_null(file->bytes);
    }
    file->bytes[file->len++] = byte;
}

static void
put_number(struct twobit_bytes *file, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const size_t place = file->big_endian ? bytes - 1 - i : i;
        put_byte(file, (uint8_t)(value >> (8 * place)));
    }
}

static bool
is_unknown(char base)
{
    return base == 'N' || base == 'n';
}

static bool
is_masked(char base)
{
    return islower((unsigned char)base) != 0;
}

/* Count, starts and lengths of the longest stretches for which `in` is true. */
static void
put_blocks(struct twobit_bytes *file, const char *bases, bool (*in)(char))
{
    const size_t len = strlen(bases);
    uint64_t *starts = calloc(len + 1, sizeof(*starts));
    uint64_t *lengths = calloc(len + 1, sizeof(*lengths));
    assert_true(starts != NULL && lengths != NULL);
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        if (!in(bases[i])) {
            continue;
        }
        if (i == 0 || !in(bases[i - 1])) {
            starts[count++] = i;
        }
        lengths[count - 1]++;
    }
    put_number(file, count, 4);
    for (size_t i = 0; i < count; i++) {
        put_number(file, starts[i], 4);
    }
    for (size_t i = 0; i < count; i++) {
        put_number(file, lengths[i], 4);
    }
    free(starts);
    free(lengths);
}

static void
put_packed(struct twobit_bytes *file, const char *bases)
{
    const size_t len = strlen(bases);
    for (size_t i = 0; i < len; i += 4) {
        unsigned byte = 0;
        for (size_t k = i; k < i + 4; k++) {
            unsigned code = 0;
            if (k < len) {
                switch (toupper((unsigned char)bases[k])) {
                case 'C':
                    code = 1;
                    break;
                case 'A':
                    code = 2;
                    break;
                case 'G':
                    code = 3;
                    break;
                default:
                    break;
                }
            }
            byte = byte << 2 | code;
        }
        put_byte(file, (uint8_t)byte);
    }
}

struct twobit_bytes
twobit_write(const struct twobit_record *records, size_t count, struct twobit_format format)
{
    struct twobit_bytes file = {.big_endian = format.big_endian};
    put_number(&file, 0x1A412743, 4);
    put_number(&file, format.version, 4);
    put_number(&file, count, 4);
    put_number(&file, 0, 4);
    for (size_t i = 0; i < count; i++) {
        const size_t name_len = strlen(records[i].name);
        assert_true(name_len < 256);
        put_number(&file, name_len, 1);
        for (size_t k = 0; k < name_len; k++) {
            put_byte(&file, (uint8_t)records[i].name[k]);
        }
        put_number(&file, 0, format.version == 1 ? 8 : 4);
    }
    size_t entry = 16;
    for (size_t i = 0; i < count; i++) {
        const uint64_t offset = file.len;
        entry += 1 + strlen(records[i].name);
        if (format.version == 1 && format.big_endian) {
            entry += 4; /* the high half stays 0 */
        }
        twobit_poke(&file, entry, (uint32_t)offset);
        entry += format.version == 1 && !format.big_endian ? 8 : 4;
        put_number(&file, strlen(records[i].bases), 4);
        put_blocks(&file, records[i].bases, is_unknown);
        put_blocks(&file, records[i].bases, is_masked);
        put_number(&file, 0, 4);
        put_packed(&file, records[i].bases);
    }
    return file;
}

void
twobit_poke(struct twobit_bytes *file, size_t offset, uint32_t value)
{
    for (size_t i = 0; i < 4; i++) {
        const size_t place = file->big_endian ? 3 - i : i;
        file->bytes[offset + i] = (uint8_t)(value >> (8 * place));
    }
}

static uint32_t
peek(const struct twobit_bytes *file, size_t offset)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        const size_t place = file->big_endian ? 3 - i : i;
        value |= (uint32_t)file->bytes[offset + i] << (8 * place);
    }
    return value;
}

size_t
twobit_record_offset(const struct twobit_bytes *file, size_t record)
{
    const bool wide = peek(file, 4) == 1;
    size_t at = 16;
    for (size_t i = 0; i < record; i++) {
        at += 1 + (size_t)file->bytes[at] + (wide ? 8 : 4);
    }
    at += 1 + (size_t)file->bytes[at];
    return peek(file, wide && file->big_endian ? at + 4 : at);
}
