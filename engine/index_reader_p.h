/* An index file being read: what index_header.c tells of it before anything large is read, and what
 * index_read.c needs to read the rest. Nobody else includes this.
 *
 * Errors: HSPZ_E_BAD_FILE, HSPZ_E_IO, HSPZ_E_OUT_OF_MEMORY, HSPZ_E_STOPPED, in `err`, always with
 * the path. A reader of zeros with fd -1 may be finished at any time. */
#pragma once

#include "engine/index.h"
#include "engine/index_p.h"
#include "engine/shown_path.h"

#define HSPZ_INDEX_CHUNK_BYTES ((size_t)4 << 20)

struct hspz_index_reader {
    struct hspz_shown_path shown;
    int fd;
    uint64_t file_bytes;
    struct hspz_error *err;
    hspz_progress_fn progress;
    void *user;

    uint8_t *header; /* with the section table; its checksum was right */
    uint64_t header_bytes;
    struct hspz_index_params params;
    uint64_t part_count, sequence_count, name_bytes;
    char version[HSPZ_INDEX_VERSION_BYTES + 1]; /* printable */

    uint8_t *names, *blocks; /* the sections, filled by index_read.c */
    uint8_t *chunk;          /* as long as the longest bases, HSPZ_INDEX_CHUNK_BYTES at most */
};

/* A row of the section table. */
struct hspz_index_span {
    uint32_t kind, block;
    uint64_t offset, bytes, hash;
};

/* Opens the file and checks everything up to the section table: kind, format, checksum, parameters,
 * places and lengths of all sections, the zeros between them. */
HSPZ_MUST_USE enum hspz_status hspz_index_reader_open(struct hspz_index_reader *reader,
                                                      const char *path);
void hspz_index_reader_fini(struct hspz_index_reader *reader);

HSPZ_MUST_USE enum hspz_status hspz_index_reader_check_want(const struct hspz_index_reader *reader,
                                                            const struct hspz_index_want *want);
struct hspz_index_need hspz_index_reader_need(const struct hspz_index_reader *reader);

struct hspz_index_span hspz_index_reader_section(const struct hspz_index_reader *reader,
                                                 uint64_t block, enum hspz_index_section kind);
const char *hspz_index_section_name(uint32_t kind);

HSPZ_MUST_USE enum hspz_status hspz_index_reader_read(const struct hspz_index_reader *reader,
                                                      void *data, uint64_t bytes, uint64_t offset);

/* Sets HSPZ_E_BAD_FILE with the path before the text, and returns it. */
enum hspz_status hspz_index_reader_bad(const struct hspz_index_reader *reader, const char *format,
                                       ...) HSPZ_PRINTF(2, 3);
enum hspz_status hspz_index_reader_no_memory(const struct hspz_index_reader *reader);

static inline uint32_t
hspz_index_get_u32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t
hspz_index_get_u64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof(value));
    return value;
}
