#include "engine/twobit.h"

#include "engine/shown_path.h"

#include <inttypes.h>
#include <string.h>

/* Header: signature, version, record count, reserved; then the index: length byte, name, offset of
 * the record (32 bits, in version 1 64). Record: bases, N blocks (count, starts, lengths), mask
 * blocks (the same), reserved, bases packed four to a byte, the first one highest. */

#define SIGNATURE UINT32_C(0x1a412743)
#define HEADER_BYTES 16u
#define PIECE_BASES 16384u /* a multiple of 4 */

struct reader {
    struct hspz_span bytes;
    struct hspz_shown_path shown;
    bool big_endian;
    bool wide;     /* version 1 */
    uint64_t used; /* bytes of header, index entries and records so far */
};

/* A list of blocks, checked; `at` is the first that does not end before the bases at hand. */
struct block_list {
    uint64_t starts, lengths; /* offsets in the file */
    uint32_t count, at;
};

struct record {
    uint32_t bases;
    struct block_list unknown, masked;
    const uint8_t *packed;
};

static uint32_t
get_u32(const struct reader *reader, uint64_t offset)
{
    const uint8_t *b = reader->bytes.bytes + offset;
    if (reader->big_endian) {
        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static uint64_t
get_u64(const struct reader *reader, uint64_t offset)
{
    const uint64_t first = get_u32(reader, offset);
    const uint64_t second = get_u32(reader, offset + 4);
    return reader->big_endian ? first << 32 | second : second << 32 | first;
}

/* That `need` bytes from `offset` on are there. */
static enum hspz_status
check_room(const struct reader *reader, uint64_t offset, uint64_t need, const char *what,
           struct hspz_error *err)
{
    const uint64_t len = reader->bytes.len;
    if (offset <= len && need <= len - offset) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_BAD_FILE,
                          "%s: damaged or cut short: %s needs %" PRIu64 " bytes at byte %" PRIu64
                          ", and the file has %" PRIu64,
                          reader->shown.text, what, need, offset, len);
}

/* Reads a list's place from `*offset`, which moves behind it. */
static enum hspz_status
read_blocks(const struct reader *reader, uint64_t *offset, uint32_t bases, const char *what,
            struct block_list *out, struct hspz_error *err)
{
    enum hspz_status status = check_room(reader, *offset, 4, what, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint32_t count = get_u32(reader, *offset);
    status = check_room(reader, *offset + 4, (uint64_t)count * 8, what, err);
    if (status != HSPZ_OK) {
        return status;
    }
    *out = (struct block_list){
        .starts = *offset + 4,
        .lengths = *offset + 4 + (uint64_t)count * 4,
        .count = count,
    };
    *offset = out->lengths + (uint64_t)count * 4;
    uint64_t end = 0; /* of the block before */
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t start = get_u32(reader, out->starts + (uint64_t)i * 4);
        const uint64_t stop = start + get_u32(reader, out->lengths + (uint64_t)i * 4);
        if (start < end || stop > bases) {
            return hspz_error_set(err, HSPZ_E_BAD_FILE,
                                  "%s: damaged: entry %" PRIu32 " of %s at byte %" PRIu64
                                  " is %" PRIu64 " to %" PRIu64 ", out of order or past %" PRIu32
                                  " bases",
                                  reader->shown.text, i, what, out->starts, start, stop, bases);
        }
        end = stop;
    }
    return HSPZ_OK;
}

static enum hspz_status
read_record(struct reader *reader, uint64_t offset, struct record *out, struct hspz_error *err)
{
    if (offset < HEADER_BYTES) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: damaged: a record at byte %" PRIu64 ", inside the header",
                              reader->shown.text, offset);
    }
    enum hspz_status status = check_room(reader, offset, 4, "a record", err);
    if (status != HSPZ_OK) {
        return status;
    }
    uint64_t at = offset + 4;
    out->bases = get_u32(reader, offset);
    status = read_blocks(reader, &at, out->bases, "a list of N blocks", &out->unknown, err);
    if (status == HSPZ_OK) {
        status = read_blocks(reader, &at, out->bases, "a list of mask blocks", &out->masked, err);
    }
    const uint64_t packed = ((uint64_t)out->bases + 3) / 4;
    if (status == HSPZ_OK) {
        status = check_room(reader, at, 4 + packed, "packed sequence", err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (out->bases > HSPZ_BLOCK_BASES_LIMIT) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: the record at byte %" PRIu64 " has %" PRIu32
                              " bases, and a block holds at most %" PRIu32,
                              reader->shown.text, offset, out->bases, HSPZ_BLOCK_BASES_LIMIT);
    }
    out->packed = reader->bytes.bytes + at + 4;
    reader->used += at + 4 + packed - offset;
    return HSPZ_OK;
}

static void
unpack(uint8_t *bases, const uint8_t *packed, size_t count)
{
    static const char letters[] = "TCAG";
    for (size_t i = 0; i < (count + 3) / 4; i++) {
        const uint8_t byte = packed[i];
        bases[4 * i] = (uint8_t)letters[byte >> 6];
        bases[4 * i + 1] = (uint8_t)letters[byte >> 4 & 3];
        bases[4 * i + 2] = (uint8_t)letters[byte >> 2 & 3];
        bases[4 * i + 3] = (uint8_t)letters[byte & 3];
    }
}

/* Applies a list to the `count` bases from `first` on: N, or lower case. */
static void
apply_blocks(const struct reader *reader, struct block_list *list, uint64_t first, size_t count,
             uint8_t *bases, bool mask)
{
    const uint64_t last = first + count;
    for (; list->at < list->count; list->at++) {
        const uint64_t start = get_u32(reader, list->starts + (uint64_t)list->at * 4);
        const uint64_t stop = start + get_u32(reader, list->lengths + (uint64_t)list->at * 4);
        const uint64_t from = start > first ? start : first;
        const uint64_t to = stop < last ? stop : last;
        for (uint64_t i = from; i < to; i++) {
            bases[i - first] = mask ? bases[i - first] | 0x20 : 'N';
        }
        if (stop > last) {
            break;
        }
    }
}

static enum hspz_status
add_bases(const struct reader *reader, struct record *record, struct hspz_sequences *seqs,
          struct hspz_error *err)
{
    uint8_t piece[PIECE_BASES];
    for (uint64_t first = 0; first < record->bases; first += PIECE_BASES) {
        const uint64_t left = record->bases - first;
        const size_t count = left < PIECE_BASES ? (size_t)left : PIECE_BASES;
        unpack(piece, record->packed + first / 4, count);
        apply_blocks(reader, &record->unknown, first, count, piece, false);
        apply_blocks(reader, &record->masked, first, count, piece, true);
        size_t bad = 0;
        const enum hspz_status status = hspz_sequences_append(seqs, piece, count, &bad, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

/* Reads index entry `number` (from 1) at *offset, which moves behind it, and its record. */
static enum hspz_status
add_record(struct reader *reader, uint64_t *offset, uint32_t number, struct hspz_sequences *seqs,
           struct hspz_error *err)
{
    enum hspz_status status = check_room(reader, *offset, 1, "the index", err);
    if (status != HSPZ_OK) {
        return status;
    }
    const char *name = (const char *)reader->bytes.bytes + *offset + 1;
    const size_t field = reader->bytes.bytes[*offset];
    const size_t entry = 1 + field + (reader->wide ? 8 : 4);
    status = check_room(reader, *offset, entry, "the index", err);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t at = *offset + 1 + field;
    const uint64_t place = reader->wide ? get_u64(reader, at) : get_u32(reader, at);
    *offset += entry;
    reader->used += entry;
    struct record record = {0};
    status = read_record(reader, place, &record, err);
    if (status == HSPZ_OK && reader->used > reader->bytes.len) {
        status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                "%s: damaged: the record at byte %" PRIu64 " overlaps others",
                                reader->shown.text, place);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    size_t name_len = 0;
    while (name_len < field && name[name_len] != ' ' && name[name_len] != '\t') {
        name_len++;
    }
    struct hspz_error cause;
    status = hspz_sequences_begin(seqs, name, name_len, 0, &cause);
    if (status == HSPZ_OK) {
        status = add_bases(reader, &record, seqs, &cause);
    }
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "%s: record %" PRIu32 ": %s", reader->shown.text, number,
                              cause.text);
    }
    return hspz_sequences_end(seqs, err);
}

bool
hspz_twobit_recognise(struct hspz_span bytes)
{
    static const uint8_t little[4] = {0x43, 0x27, 0x41, 0x1a};
    static const uint8_t big[4] = {0x1a, 0x41, 0x27, 0x43};
    return bytes.len >= 4 &&
           (memcmp(bytes.bytes, little, 4) == 0 || memcmp(bytes.bytes, big, 4) == 0);
}

enum hspz_status
hspz_twobit_read(struct hspz_span bytes, const char *path, hspz_twobit_go_on_fn go_on, void *user,
                 struct hspz_sequences *seqs, struct hspz_error *err)
{
    struct reader reader = {
        .bytes = bytes,
        .shown = hspz_shown_path_make(path),
        .used = HEADER_BYTES,
    };
    if (!hspz_twobit_recognise(bytes)) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: not a 2bit file", reader.shown.text);
    }
    enum hspz_status status = check_room(&reader, 0, HEADER_BYTES, "the header", err);
    if (status != HSPZ_OK) {
        return status;
    }
    reader.big_endian = get_u32(&reader, 0) != SIGNATURE;
    const uint32_t version = get_u32(&reader, 4);
    const uint32_t count = get_u32(&reader, 8);
    reader.wide = version == 1;
    if (version > 1) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE,
                              "%s: 2bit version %" PRIu32 " is not known; 0 and 1 are",
                              reader.shown.text, version);
    }
    if (count == 0) {
        return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: holds no sequence", reader.shown.text);
    }
    uint64_t offset = HEADER_BYTES;
    for (uint32_t i = 0; i < count && status == HSPZ_OK; i++) {
        status = go_on == NULL || go_on(user)
                     ? add_record(&reader, &offset, i + 1, seqs, err)
                     : hspz_error_set(err, HSPZ_E_STOPPED, "%s: stopped by the caller",
                                      reader.shown.text);
    }
    return status;
}
