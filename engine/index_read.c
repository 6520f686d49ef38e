/* Reading an index file; index_p.h has its layout.
 *
 *   head       index_header.c: parameters and section table, the wanted shape, step and digest
 *   budget     from the section table, before anything large is allocated
 *   sections   in file order, each against its checksum; sequences are rebuilt base by base
 *   tables     every entry and position, see hspz_index_check
 *
 * Nothing in the file is trusted; a forged file can at most hold wrong positions that are in range.
 */
#include "engine/index.h"

#include "engine/index_p.h"
#include "engine/index_reader_p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

/* The bases of a block, chunk by chunk. */
struct base_stream {
    struct hspz_index_reader *reader;
    struct hspz_index_span section;
    XXH64_state_t hash;
    uint64_t done; /* bytes read so far */
    const uint8_t *at;
    size_t ready;
};

/* A row of section names. */
struct name_row {
    uint64_t len, line;
    uint32_t block, offset, name_len;
};

static enum hspz_status
report(const struct hspz_index_reader *reader, uint64_t done)
{
    if (reader->progress != NULL && !reader->progress(reader->user, done, reader->file_bytes)) {
        return hspz_error_set(reader->err, HSPZ_E_STOPPED, "reading %s was stopped",
                              reader->shown.text);
    }
    return HSPZ_OK;
}

static enum hspz_status
wrong_hash(const struct hspz_index_reader *reader, const struct hspz_index_span *section)
{
    return hspz_index_reader_bad(reader, "damaged: wrong checksum of section %s of block %" PRIu32,
                                 hspz_index_section_name(section->kind), section->block);
}

/* Reads a section whole and compares its checksum. */
static enum hspz_status
read_section(const struct hspz_index_reader *reader, const struct hspz_index_span *section,
             void *data)
{
    XXH64_state_t hash;
    (void)XXH64_reset(&hash, 0);
    for (uint64_t done = 0; done < section->bytes;) {
        const uint64_t left = section->bytes - done;
        const size_t bytes = left < HSPZ_INDEX_CHUNK_BYTES ? (size_t)left : HSPZ_INDEX_CHUNK_BYTES;
        uint8_t *at = (uint8_t *)data + done;
        enum hspz_status status = hspz_index_reader_read(reader, at, bytes, section->offset + done);
        if (status == HSPZ_OK) {
            (void)XXH64_update(&hash, at, bytes);
            done += bytes;
            status = report(reader, section->offset + done);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return XXH64_digest(&hash) == section->hash ? HSPZ_OK : wrong_hash(reader, section);
}

static struct name_row
get_name_row(const struct hspz_index_reader *reader, uint64_t i)
{
    const uint8_t *row = reader->names + i * HSPZ_INDEX_ROW_BYTES;
    return (struct name_row){
        .len = hspz_index_get_u64(row),
        .line = hspz_index_get_u64(row + 8),
        .block = hspz_index_get_u32(row + 16),
        .offset = hspz_index_get_u32(row + 20),
        .name_len = hspz_index_get_u32(row + 24),
    };
}

/* The rows of one block's sequences, from *sequence on: one after the other, a separator between.
 */
static enum hspz_status
check_block_rows(const struct hspz_index_reader *reader, uint64_t b, uint64_t *sequence,
                 uint64_t *name_bytes, uint64_t *block_size)
{
    const uint8_t *row = reader->blocks + b * HSPZ_INDEX_ROW_BYTES;
    const uint64_t bases_len = hspz_index_get_u64(row);
    const uint64_t positions = hspz_index_get_u64(row + 8);
    const uint64_t count = hspz_index_get_u64(row + 24);
    if (bases_len != hspz_index_reader_section(reader, b, HSPZ_INDEX_BASES).bytes ||
        positions !=
            hspz_index_reader_section(reader, b, HSPZ_INDEX_POSITIONS).bytes / sizeof(uint32_t) ||
        hspz_index_get_u64(row + 16) != *sequence || count == 0 ||
        count > reader->sequence_count - *sequence) {
        return hspz_index_reader_bad(reader,
                                     "section blocks: row %" PRIu64 " does not fit the rest", b);
    }
    uint64_t offset = 0; /* stays in 64 bits: every length is at most bases_len */
    for (uint64_t i = 0; i < count; i++) {
        const struct name_row name = get_name_row(reader, *sequence + i);
        if (name.block != b || name.offset != offset || name.len > bases_len ||
            offset + name.len > bases_len) {
            return hspz_index_reader_bad(reader,
                                         "section names: sequence %" PRIu64 " has %" PRIu64
                                         " bases at offset %" PRIu32 " of block %" PRIu32
                                         ", which does not fit the rest",
                                         *sequence + i, name.len, name.offset, name.block);
        }
        /* The size that fills blocks as they were filled: no sequence but the last went past it. */
        if (i + 1 == count && offset > 0 && offset - 1 > *block_size) {
            *block_size = offset - 1;
        }
        offset += name.len + 1;
        *name_bytes += name.name_len;
    }
    if (offset != bases_len + 1) {
        return hspz_index_reader_bad(reader,
                                     "section names: the sequences of block %" PRIu64
                                     " end at %" PRIu64 ", the block at %" PRIu64,
                                     b, offset - 1, bases_len);
    }
    *sequence += count;
    return HSPZ_OK;
}

static enum hspz_status
check_rows(const struct hspz_index_reader *reader, uint64_t *block_size)
{
    uint64_t sequence = 0;
    uint64_t name_bytes = 0;
    *block_size = 1;
    for (uint64_t b = 0; b < reader->part_count; b++) {
        const enum hspz_status status =
            check_block_rows(reader, b, &sequence, &name_bytes, block_size);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    if (sequence != reader->sequence_count || name_bytes != reader->name_bytes) {
        return hspz_index_reader_bad(reader,
                                     "section names: %" PRIu64 " sequences with %" PRIu64
                                     " bytes of names, the header says %" PRIu64 " with %" PRIu64,
                                     sequence, name_bytes, reader->sequence_count,
                                     reader->name_bytes);
    }
    return HSPZ_OK;
}

static enum hspz_status
fill_stream(struct base_stream *stream)
{
    if (stream->ready > 0) {
        return HSPZ_OK;
    }
    struct hspz_index_reader *reader = stream->reader;
    const uint64_t left = stream->section.bytes - stream->done;
    const size_t bytes = left < HSPZ_INDEX_CHUNK_BYTES ? (size_t)left : HSPZ_INDEX_CHUNK_BYTES;
    const enum hspz_status status =
        hspz_index_reader_read(reader, reader->chunk, bytes, stream->section.offset + stream->done);
    if (status != HSPZ_OK) {
        return status;
    }
    (void)XXH64_update(&stream->hash, reader->chunk, bytes);
    stream->at = reader->chunk;
    stream->ready = bytes;
    stream->done += bytes;
    return report(reader, stream->section.offset + stream->done);
}

/* What the sequences refuse is damage here. */
static enum hspz_status
refused(const struct hspz_index_reader *reader, uint64_t sequence, enum hspz_status status,
        const struct hspz_error *reason)
{
    if (status == HSPZ_E_OUT_OF_MEMORY) {
        return hspz_index_reader_no_memory(reader);
    }
    return hspz_index_reader_bad(reader, "sequence %" PRIu64 ": %s", sequence, reason->text);
}

static enum hspz_status
read_sequence(struct base_stream *stream, uint64_t sequence, const char *name,
              struct hspz_sequences *seqs)
{
    const struct hspz_index_reader *reader = stream->reader;
    const struct name_row row = get_name_row(reader, sequence);
    struct hspz_error reason;
    enum hspz_status status = hspz_sequences_begin(seqs, name, row.name_len, row.line, &reason);
    if (status != HSPZ_OK) {
        return refused(reader, sequence, status, &reason);
    }
    for (uint64_t left = row.len; left > 0;) {
        status = fill_stream(stream);
        if (status != HSPZ_OK) {
            return status;
        }
        const size_t bytes = left < stream->ready ? (size_t)left : stream->ready;
        size_t bad;
        status = hspz_sequences_append(seqs, stream->at, bytes, &bad, &reason);
        if (status != HSPZ_OK) {
            return refused(reader, sequence, status, &reason);
        }
        stream->at += bytes;
        stream->ready -= bytes;
        left -= bytes;
    }
    status = hspz_sequences_end(seqs, &reason);
    return status == HSPZ_OK ? HSPZ_OK : refused(reader, sequence, status, &reason);
}

static enum hspz_status
skip_separator(struct base_stream *stream, uint64_t sequence)
{
    const enum hspz_status status = fill_stream(stream);
    if (status != HSPZ_OK) {
        return status;
    }
    if (*stream->at != HSPZ_SEPARATOR) {
        return hspz_index_reader_bad(stream->reader,
                                     "section bases of block %" PRIu32
                                     ": no separator before sequence %" PRIu64,
                                     stream->section.block, sequence);
    }
    stream->at++;
    stream->ready--;
    return HSPZ_OK;
}

/* Adds the sequences of block `b`; *name moves over their names. */
static enum hspz_status
read_bases(struct hspz_index_reader *reader, uint64_t b, const char **name,
           struct hspz_sequences *seqs)
{
    struct base_stream stream = {
        .reader = reader,
        .section = hspz_index_reader_section(reader, b, HSPZ_INDEX_BASES),
    };
    (void)XXH64_reset(&stream.hash, 0);
    const uint8_t *row = reader->blocks + b * HSPZ_INDEX_ROW_BYTES;
    const uint64_t first = hspz_index_get_u64(row + 16);
    const uint64_t end = first + hspz_index_get_u64(row + 24);
    for (uint64_t s = first; s < end; s++) {
        enum hspz_status status = s > first ? skip_separator(&stream, s) : HSPZ_OK;
        if (status == HSPZ_OK) {
            status = read_sequence(&stream, s, *name, seqs);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        *name += get_name_row(reader, s).name_len;
    }
    return XXH64_digest(&stream.hash) == stream.section.hash ? HSPZ_OK
                                                             : wrong_hash(reader, &stream.section);
}

static enum hspz_status
read_tables(const struct hspz_index_reader *reader, uint64_t b, struct hspz_index_part *part)
{
    const struct hspz_index_span bases = hspz_index_reader_section(reader, b, HSPZ_INDEX_BASES);
    const struct hspz_index_span table = hspz_index_reader_section(reader, b, HSPZ_INDEX_TABLE);
    const struct hspz_index_span pos = hspz_index_reader_section(reader, b, HSPZ_INDEX_POSITIONS);
    part->bases_len = (uint32_t)bases.bytes;
    part->pos_count = (uint32_t)(pos.bytes / sizeof(uint32_t));
    part->bases_hash = bases.hash;
    part->table_hash = table.hash;
    part->pos_hash = pos.hash;
    part->table = hspz_index_alloc(table.bytes);
    part->pos = hspz_index_alloc(pos.bytes);
    if (part->table == NULL || part->pos == NULL) {
        return hspz_index_reader_no_memory(reader);
    }
    enum hspz_status status = read_section(reader, &table, part->table);
    if (status == HSPZ_OK) {
        status = read_section(reader, &pos, part->pos);
    }
    if (status == HSPZ_OK) {
        char where[sizeof(reader->shown.text) + 32];
        snprintf(where, sizeof(where), "%s: block %" PRIu64, reader->shown.text, b);
        status = hspz_index_check(&reader->params, part, where, reader->err);
    }
    return status;
}

static size_t
chunk_bytes(const struct hspz_index_reader *reader)
{
    size_t most = 1;
    for (uint64_t b = 0; b < reader->part_count; b++) {
        const uint64_t bytes = hspz_index_reader_section(reader, b, HSPZ_INDEX_BASES).bytes;
        if (bytes >= HSPZ_INDEX_CHUNK_BYTES) {
            return HSPZ_INDEX_CHUNK_BYTES;
        }
        most = bytes > most ? (size_t)bytes : most;
    }
    return most;
}

static enum hspz_status
read_rows(struct hspz_index_reader *reader)
{
    const struct hspz_index_span names = hspz_index_reader_section(reader, 0, HSPZ_INDEX_NAMES);
    const struct hspz_index_span blocks = hspz_index_reader_section(reader, 0, HSPZ_INDEX_BLOCKS);
    reader->names = malloc((size_t)names.bytes + 1);
    reader->blocks = malloc((size_t)blocks.bytes + 1);
    reader->chunk = malloc(chunk_bytes(reader));
    if (reader->names == NULL || reader->blocks == NULL || reader->chunk == NULL) {
        return hspz_index_reader_no_memory(reader);
    }
    const enum hspz_status status = read_section(reader, &names, reader->names);
    return status == HSPZ_OK ? read_section(reader, &blocks, reader->blocks) : status;
}

static enum hspz_status
read_parts(struct hspz_index_reader *reader, struct hspz_index *index, struct hspz_sequences *seqs)
{
    const char *name = (const char *)reader->names + reader->sequence_count * HSPZ_INDEX_ROW_BYTES;
    for (uint64_t b = 0; b < reader->part_count; b++) {
        enum hspz_status status = read_bases(reader, b, &name, seqs);
        if (status == HSPZ_OK) {
            status = read_tables(reader, b, &index->parts[b]);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
    bool same = hspz_sequences_block_count(seqs) == reader->part_count;
    for (uint64_t b = 0; b < reader->part_count && same; b++) {
        same = hspz_sequences_block(seqs, b).len == index->parts[b].bases_len;
    }
    return same ? HSPZ_OK
                : hspz_index_reader_bad(reader, "its sequences do not fill blocks in this way");
}

/* Everything behind the header. */
static enum hspz_status
read_index(struct hspz_index_reader *reader, struct hspz_index **out)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_index *index = NULL;
    uint64_t block_size;
    enum hspz_status status = read_rows(reader);
    if (status == HSPZ_OK) {
        status = check_rows(reader, &block_size);
    }
    if (status != HSPZ_OK) {
        goto out;
    }
    index = hspz_index_create(&reader->params, (size_t)reader->part_count, reader->version);
    if (index == NULL || hspz_sequences_create(block_size, &seqs) != HSPZ_OK) {
        status = hspz_index_reader_no_memory(reader);
        goto out;
    }
    status = read_parts(reader, index, seqs);
    if (status != HSPZ_OK) {
        goto out;
    }
    hspz_index_adopt(index, &seqs);
    hspz_index_seal(index);
    if (index->digest != hspz_index_get_u64(reader->header + HSPZ_INDEX_AT_DIGEST)) {
        status = hspz_index_reader_bad(reader, "damaged: the digest is not that of its content");
        goto out;
    }
    *out = index;
    index = NULL;
out:
    hspz_index_release(&index);
    hspz_sequences_destroy(&seqs);
    return status;
}

enum hspz_status
hspz_index_read(const char *path, const struct hspz_index_want *want, uint64_t budget_bytes,
                hspz_progress_fn progress, void *user, struct hspz_index **out,
                struct hspz_error *err)
{
    struct hspz_index_reader reader = {
        .shown = hspz_shown_path_make(path),
        .fd = -1,
        .err = err,
        .progress = progress,
        .user = user,
    };
    enum hspz_status status = hspz_index_reader_open(&reader, path);
    if (status == HSPZ_OK) {
        status = hspz_index_reader_check_want(&reader, want);
    }
    if (status == HSPZ_OK) {
        const struct hspz_index_need need = hspz_index_reader_need(&reader);
        status = hspz_index_check_budget(&need, budget_bytes, reader.shown.text, err);
    }
    if (status == HSPZ_OK) {
        status = read_index(&reader, out);
    }
    hspz_index_reader_fini(&reader);
    return status;
}

enum hspz_status
hspz_index_file_check(const char *path, const struct hspz_index_want *want, struct hspz_error *err)
{
    struct hspz_index_reader reader = {
        .shown = hspz_shown_path_make(path),
        .fd = -1,
        .err = err,
    };
    enum hspz_status status = hspz_index_reader_open(&reader, path);
    if (status == HSPZ_OK) {
        status = hspz_index_reader_check_want(&reader, want);
    }
    hspz_index_reader_fini(&reader);
    return status;
}

enum hspz_status
hspz_index_file_need(const char *path, struct hspz_index_need *out, struct hspz_error *err)
{
    struct hspz_index_reader reader = {
        .shown = hspz_shown_path_make(path),
        .fd = -1,
        .err = err,
    };
    const enum hspz_status status = hspz_index_reader_open(&reader, path);
    if (status == HSPZ_OK) {
        *out = hspz_index_reader_need(&reader);
    }
    hspz_index_reader_fini(&reader);
    return status;
}
