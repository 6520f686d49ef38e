/* The head of an index file; index_p.h has its layout.
 *
 * Magic, byte order and format come first, then the checksum of the header, then parameters and the
 * section table, whose rows must follow each other as a writer lays them out. */
#include "engine/index_reader_p.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum hspz_status
hspz_index_reader_bad(const struct hspz_index_reader *reader, const char *format, ...)
{
    char text[HSPZ_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return hspz_error_set(reader->err, HSPZ_E_BAD_FILE, "%s: %s", reader->shown.text, text);
}

enum hspz_status
hspz_index_reader_no_memory(const struct hspz_index_reader *reader)
{
    return hspz_error_set(reader->err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to read an index",
                          reader->shown.text);
}

const char *
hspz_index_section_name(uint32_t kind)
{
    switch (kind) {
    case HSPZ_INDEX_NAMES:
        return "names";
    case HSPZ_INDEX_BLOCKS:
        return "blocks";
    case HSPZ_INDEX_BASES:
        return "bases";
    case HSPZ_INDEX_TABLE:
        return "table";
    case HSPZ_INDEX_POSITIONS:
        return "positions";
    default:
        return "unknown";
    }
}

enum hspz_status
hspz_index_reader_read(const struct hspz_index_reader *reader, void *data, uint64_t bytes,
                       uint64_t offset)
{
    uint8_t *at = data;
    while (bytes > 0) {
        const ssize_t got =
            pread(reader->fd, at, bytes < HSPZ_INDEX_CHUNK_BYTES ? bytes : HSPZ_INDEX_CHUNK_BYTES,
                  (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return hspz_error_errno(reader->err, HSPZ_E_IO, errno, "cannot read %s",
                                    reader->shown.text);
        }
        if (got == 0) {
            return hspz_index_reader_bad(reader, "cut short at byte %" PRIu64 " while it was read",
                                         offset);
        }
        at += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return HSPZ_OK;
}

static struct hspz_index_span
get_section(const struct hspz_index_reader *reader, uint64_t number)
{
    const uint8_t *row = reader->header + HSPZ_INDEX_HEADER_BYTES + number * HSPZ_INDEX_ROW_BYTES;
    return (struct hspz_index_span){
        .kind = hspz_index_get_u32(row),
        .block = hspz_index_get_u32(row + 4),
        .offset = hspz_index_get_u64(row + 8),
        .bytes = hspz_index_get_u64(row + 16),
        .hash = hspz_index_get_u64(row + 24),
    };
}

struct hspz_index_span
hspz_index_reader_section(const struct hspz_index_reader *reader, uint64_t block,
                          enum hspz_index_section kind)
{
    if (kind < HSPZ_INDEX_BASES) {
        return get_section(reader, kind - HSPZ_INDEX_NAMES);
    }
    return get_section(reader, HSPZ_INDEX_SECTIONS_FIXED + block * HSPZ_INDEX_SECTIONS_PER_BLOCK +
                                   (kind - HSPZ_INDEX_BASES));
}

static enum hspz_status
open_file(struct hspz_index_reader *reader, const char *path)
{
    /* Not blocking: opening a FIFO would otherwise wait for a writer. */
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (reader->fd < 0 || fstat(reader->fd, &st) != 0) {
        return hspz_error_errno(reader->err, HSPZ_E_IO, errno, "cannot open %s",
                                reader->shown.text);
    }
    if (!S_ISREG(st.st_mode)) {
        return hspz_index_reader_bad(reader, "no hspz index: not a regular file");
    }
    reader->file_bytes = (uint64_t)st.st_size;
    return HSPZ_OK;
}

/* Another release's file is told apart before its checksum, which may cover other things there. */
static enum hspz_status
check_kind(struct hspz_index_reader *reader, const uint8_t fixed[HSPZ_INDEX_HEADER_BYTES],
           size_t bytes)
{
    if (bytes == 0) {
        return hspz_index_reader_bad(reader, "empty");
    }
    if (memcmp(fixed, HSPZ_INDEX_MAGIC, bytes < 8 ? bytes : 8) != 0) {
        const char *guess = "";
        if (fixed[0] == '>') {
            guess = " (it looks like FASTA: build an index of it first)";
        } else if (fixed[0] == 0x1f && fixed[1] == 0x8b) {
            guess = " (it is compressed with gzip)";
        }
        return hspz_index_reader_bad(reader, "no hspz index%s", guess);
    }
    if (bytes < HSPZ_INDEX_HEADER_BYTES) {
        return hspz_index_reader_bad(reader, "cut short: %zu bytes, less than the header", bytes);
    }
    const uint32_t endian = hspz_index_get_u32(fixed + HSPZ_INDEX_AT_ENDIAN);
    if (endian != HSPZ_INDEX_ENDIAN) {
        return hspz_index_reader_bad(reader, endian == HSPZ_INDEX_ENDIAN_FOREIGN
                                                 ? "written in the other byte order (big-endian)"
                                                 : "damaged: wrong byte order mark in the header");
    }
    for (size_t i = 0; i < HSPZ_INDEX_VERSION_BYTES; i++) {
        const char c = (char)fixed[HSPZ_INDEX_AT_VERSION + i];
        if (c == '\0') {
            break;
        }
        reader->version[i] = c > ' ' && c < 0x7f ? c : '?';
    }
    const uint32_t format = hspz_index_get_u32(fixed + HSPZ_INDEX_AT_FORMAT);
    if (format != HSPZ_INDEX_FORMAT) {
        return hspz_index_reader_bad(reader,
                                     "index format %" PRIu32
                                     ", written by hspz %s; this is hspz %s, which reads "
                                     "format %u: build the index again",
                                     format, reader->version, HSPZ_VERSION, HSPZ_INDEX_FORMAT);
    }
    return HSPZ_OK;
}

static enum hspz_status
read_header(struct hspz_index_reader *reader)
{
    uint8_t fixed[HSPZ_INDEX_HEADER_BYTES] = {0};
    const size_t bytes =
        reader->file_bytes < sizeof(fixed) ? (size_t)reader->file_bytes : sizeof(fixed);
    enum hspz_status status = hspz_index_reader_read(reader, fixed, bytes, 0);
    if (status == HSPZ_OK) {
        status = check_kind(reader, fixed, bytes);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    reader->header_bytes = hspz_index_get_u32(fixed + HSPZ_INDEX_AT_HEADER_BYTES);
    const uint64_t sections = hspz_index_get_u32(fixed + HSPZ_INDEX_AT_SECTIONS);
    if (sections > HSPZ_INDEX_SECTIONS_MAX ||
        reader->header_bytes != HSPZ_INDEX_HEADER_BYTES + sections * HSPZ_INDEX_ROW_BYTES) {
        return hspz_index_reader_bad(
            reader, "damaged: the header says it has %" PRIu64 " bytes and %" PRIu64 " sections",
            reader->header_bytes, sections);
    }
    if (reader->header_bytes > reader->file_bytes) {
        return hspz_index_reader_bad(reader,
                                     "cut short: %" PRIu64 " bytes, its header alone has %" PRIu64,
                                     reader->file_bytes, reader->header_bytes);
    }
    reader->header = malloc((size_t)reader->header_bytes);
    if (reader->header == NULL) {
        return hspz_index_reader_no_memory(reader);
    }
    status = hspz_index_reader_read(reader, reader->header, reader->header_bytes, 0);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t hash = hspz_index_get_u64(fixed + HSPZ_INDEX_AT_HASH);
    memset(reader->header + HSPZ_INDEX_AT_HASH, 0, 8);
    if (XXH64(reader->header, (size_t)reader->header_bytes, 0) != hash) {
        return hspz_index_reader_bad(reader, "damaged: wrong checksum of the header");
    }
    const uint64_t file_bytes = hspz_index_get_u64(reader->header + HSPZ_INDEX_AT_FILE_BYTES);
    if (file_bytes != reader->file_bytes) {
        return hspz_index_reader_bad(reader, "%s: %" PRIu64 " bytes, its header says %" PRIu64,
                                     file_bytes > reader->file_bytes ? "cut short" : "too long",
                                     reader->file_bytes, file_bytes);
    }
    return HSPZ_OK;
}

static enum hspz_status
parse_params(struct hspz_index_reader *reader)
{
    const uint8_t *header = reader->header;
    const uint32_t flags = hspz_index_get_u32(header + HSPZ_INDEX_AT_FLAGS);
    const uint32_t pattern_len = hspz_index_get_u32(header + HSPZ_INDEX_AT_PATTERN_LEN);
    reader->params.step = hspz_index_get_u32(header + HSPZ_INDEX_AT_STEP);
    reader->params.unmask = (flags & HSPZ_INDEX_UNMASK) != 0;
    reader->params.all_positions = (flags & HSPZ_INDEX_ALL_POSITIONS) != 0;
    reader->part_count = hspz_index_get_u32(header + HSPZ_INDEX_AT_BLOCKS);
    reader->sequence_count = hspz_index_get_u64(header + HSPZ_INDEX_AT_SEQUENCES);
    reader->name_bytes = hspz_index_get_u64(header + HSPZ_INDEX_AT_NAME_BYTES);
    if (reader->params.step == 0 || flags > (HSPZ_INDEX_UNMASK | HSPZ_INDEX_ALL_POSITIONS)) {
        return hspz_index_reader_bad(reader,
                                     "header: step %" PRIu32 ", flags 0x%" PRIx32 ": not valid",
                                     reader->params.step, flags);
    }
    const uint64_t sections = hspz_index_get_u32(header + HSPZ_INDEX_AT_SECTIONS);
    if (reader->part_count == 0 ||
        sections !=
            HSPZ_INDEX_SECTIONS_FIXED + HSPZ_INDEX_SECTIONS_PER_BLOCK * reader->part_count) {
        return hspz_index_reader_bad(
            reader, "header: %" PRIu64 " blocks and %" PRIu64 " sections: not valid",
            reader->part_count, sections);
    }
    struct hspz_error reason;
    if (pattern_len > HSPZ_SHAPE_SPAN_MAX) {
        return hspz_index_reader_bad(reader, "header: a seed pattern of %" PRIu32 " places",
                                     pattern_len);
    }
    if (hspz_shape_parse((const char *)header + HSPZ_INDEX_AT_PATTERN, pattern_len,
                         &reader->params.shape, &reason) != HSPZ_OK) {
        return hspz_index_reader_bad(reader, "header: %s", reason.text);
    }
    return HSPZ_OK;
}

/* Whether section `number` is what belongs there, behind one that ends at `end`. */
static enum hspz_status
check_section(const struct hspz_index_reader *reader, uint64_t number, uint64_t end,
              uint64_t bases_len)
{
    const struct hspz_index_span section = get_section(reader, number);
    const uint64_t above = number - HSPZ_INDEX_SECTIONS_FIXED;
    const bool fixed = number < HSPZ_INDEX_SECTIONS_FIXED;
    const uint64_t kind = fixed ? HSPZ_INDEX_NAMES + number
                                : HSPZ_INDEX_BASES + above % HSPZ_INDEX_SECTIONS_PER_BLOCK;
    const uint64_t block = fixed ? 0 : above / HSPZ_INDEX_SECTIONS_PER_BLOCK;
    const uint64_t offset = (end + HSPZ_INDEX_ALIGN - 1) / HSPZ_INDEX_ALIGN * HSPZ_INDEX_ALIGN;
    bool valid = section.kind == kind && section.block == block && section.offset == offset &&
                 offset <= reader->file_bytes && section.bytes <= reader->file_bytes - offset;
    switch (section.kind) {
    case HSPZ_INDEX_NAMES:
        valid = valid && reader->sequence_count <= section.bytes / HSPZ_INDEX_ROW_BYTES &&
                reader->name_bytes == section.bytes - reader->sequence_count * HSPZ_INDEX_ROW_BYTES;
        break;
    case HSPZ_INDEX_BLOCKS:
        valid = valid && section.bytes == reader->part_count * HSPZ_INDEX_ROW_BYTES;
        break;
    case HSPZ_INDEX_BASES:
        valid = valid && section.bytes <= HSPZ_BLOCK_BASES_LIMIT;
        break;
    case HSPZ_INDEX_TABLE:
        valid = valid && section.bytes ==
                             sizeof(uint32_t) * (uint64_t)hspz_shape_words(&reader->params.shape);
        break;
    default:
        valid = valid && section.bytes % sizeof(uint32_t) == 0 &&
                section.bytes / sizeof(uint32_t) <=
                    hspz_index_windows(&reader->params, bases_len).count;
    }
    if (!valid) {
        return hspz_index_reader_bad(reader,
                                     "section %" PRIu64 " (%s of block %" PRIu32
                                     "): offset %" PRIu64 " with %" PRIu64
                                     " bytes is not what belongs there",
                                     number, hspz_index_section_name(section.kind), section.block,
                                     section.offset, section.bytes);
    }
    return HSPZ_OK;
}

static uint64_t
section_count(const struct hspz_index_reader *reader)
{
    return HSPZ_INDEX_SECTIONS_FIXED + HSPZ_INDEX_SECTIONS_PER_BLOCK * reader->part_count;
}

static enum hspz_status
check_sections(const struct hspz_index_reader *reader)
{
    uint64_t end = reader->header_bytes;
    uint64_t bases_len = 0;
    for (uint64_t s = 0; s < section_count(reader); s++) {
        const enum hspz_status status = check_section(reader, s, end, bases_len);
        if (status != HSPZ_OK) {
            return status;
        }
        const struct hspz_index_span section = get_section(reader, s);
        bases_len = section.kind == HSPZ_INDEX_BASES ? section.bytes : bases_len;
        end = section.offset + section.bytes;
    }
    if (end != reader->file_bytes) {
        return hspz_index_reader_bad(reader,
                                     "the sections end at byte %" PRIu64 ", the file at %" PRIu64,
                                     end, reader->file_bytes);
    }
    return HSPZ_OK;
}

struct hspz_index_need
hspz_index_reader_need(const struct hspz_index_reader *reader)
{
    /* No sum passes the file's length, but for the chunk. */
    struct hspz_index_need need = {
        .sequence_bytes = reader->name_bytes,
        .work_bytes = HSPZ_INDEX_CHUNK_BYTES + reader->header_bytes,
    };
    for (uint64_t s = 0; s < section_count(reader); s++) {
        const struct hspz_index_span section = get_section(reader, s);
        switch (section.kind) {
        case HSPZ_INDEX_BASES:
            need.sequence_bytes += section.bytes;
            break;
        case HSPZ_INDEX_TABLE:
            need.table_bytes += section.bytes;
            break;
        case HSPZ_INDEX_POSITIONS:
            need.position_bytes += section.bytes;
            break;
        default:
            need.work_bytes += section.bytes;
        }
    }
    need.total_bytes =
        need.table_bytes + need.position_bytes + need.sequence_bytes + need.work_bytes;
    return need;
}

enum hspz_status
hspz_index_reader_check_want(const struct hspz_index_reader *reader,
                             const struct hspz_index_want *want)
{
    const struct hspz_shape *shape = &reader->params.shape;
    if (want == NULL) {
        return HSPZ_OK;
    }
    if (want->shape != NULL && !hspz_shape_equal(want->shape, shape)) {
        return hspz_index_reader_bad(
            reader, "built with seed pattern %s, wanted is %s (written by hspz %s)", shape->pattern,
            want->shape->pattern, reader->version);
    }
    if (want->step != 0 && want->step != reader->params.step) {
        return hspz_index_reader_bad(
            reader, "built with step %" PRIu32 ", wanted is step %" PRIu32 " (written by hspz %s)",
            reader->params.step, want->step, reader->version);
    }
    char digest[17];
    hspz_index_digest_text(hspz_index_get_u64(reader->header + HSPZ_INDEX_AT_DIGEST), digest);
    if (want->digest != NULL && strcmp(want->digest, digest) != 0) {
        return hspz_index_reader_bad(reader,
                                     "its digest is %s, wanted is %.40s (written by hspz %s)",
                                     digest, want->digest, reader->version);
    }
    return HSPZ_OK;
}

/* The bytes between sections. */
static enum hspz_status
check_zeros(const struct hspz_index_reader *reader)
{
    static const uint8_t zeros[HSPZ_INDEX_ALIGN];
    uint8_t bytes[HSPZ_INDEX_ALIGN];
    uint64_t end = reader->header_bytes;
    for (uint64_t s = 0; s < section_count(reader); s++) {
        const struct hspz_index_span section = get_section(reader, s);
        const uint64_t gap = section.offset - end;
        const enum hspz_status status = hspz_index_reader_read(reader, bytes, gap, end);
        if (status != HSPZ_OK) {
            return status;
        }
        if (memcmp(bytes, zeros, (size_t)gap) != 0) {
            return hspz_index_reader_bad(
                reader, "damaged: bytes before section %s of block %" PRIu32 " are not zero",
                hspz_index_section_name(section.kind), section.block);
        }
        end = section.offset + section.bytes;
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_index_reader_open(struct hspz_index_reader *reader, const char *path)
{
    enum hspz_status status = open_file(reader, path);
    if (status == HSPZ_OK) {
        status = read_header(reader);
    }
    if (status == HSPZ_OK) {
        status = parse_params(reader);
    }
    if (status == HSPZ_OK) {
        status = check_sections(reader);
    }
    return status == HSPZ_OK ? check_zeros(reader) : status;
}

void
hspz_index_reader_fini(struct hspz_index_reader *reader)
{
    free(reader->header);
    free(reader->names);
    free(reader->blocks);
    free(reader->chunk);
    if (reader->fd >= 0) {
        close(reader->fd);
    }
    *reader = (struct hspz_index_reader){.fd = -1};
}
