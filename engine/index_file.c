/* Writing an index file; index_p.h has its layout. */
#include "engine/index.h"

#include "engine/file_write.h"
#include "engine/index_p.h"
#include "engine/shown_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct section {
    uint32_t kind, block;
    uint64_t offset, bytes, hash;
    const void *data;
};

struct layout {
    uint8_t *header;
    uint64_t header_bytes, file_bytes;
    uint8_t *names, *blocks;
    size_t section_count;
    struct section *sections;
};

static uint64_t
align_up(uint64_t offset)
{
    return (offset + HSPZ_INDEX_ALIGN - 1) / HSPZ_INDEX_ALIGN * HSPZ_INDEX_ALIGN;
}

static void
put_u32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
}

static void
put_u64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

/* NULL: out of memory. */
static uint8_t *
make_names(const struct hspz_sequences *seqs, uint64_t *bytes)
{
    const size_t count = hspz_sequences_count(seqs);
    const uint64_t row_bytes = (uint64_t)count * HSPZ_INDEX_ROW_BYTES;
    *bytes = row_bytes + hspz_index_name_bytes(seqs);
    uint8_t *names = calloc(1, (size_t)*bytes + 1);
    if (names == NULL) {
        return NULL;
    }
    uint8_t *text = names + row_bytes;
    for (size_t i = 0; i < count; i++) {
        const struct hspz_sequence *sequence = hspz_sequences_get(seqs, i);
        const size_t name_len = strlen(sequence->name);
        uint8_t *row = names + i * HSPZ_INDEX_ROW_BYTES;
        put_u64(row, sequence->len);
        put_u64(row + 8, sequence->line);
        put_u32(row + 16, sequence->block);
        put_u32(row + 20, sequence->offset);
        put_u32(row + 24, (uint32_t)name_len);
        memcpy(text, sequence->name, name_len);
        text += name_len;
    }
    return names;
}

static uint8_t *
make_blocks(const struct hspz_index *index, uint64_t *bytes)
{
    *bytes = (uint64_t)index->part_count * HSPZ_INDEX_ROW_BYTES;
    uint8_t *blocks = calloc(1, (size_t)*bytes);
    if (blocks == NULL) {
        return NULL;
    }
    for (size_t p = 0; p < index->part_count; p++) {
        const struct hspz_block block = hspz_sequences_block(index->seqs, p);
        uint8_t *row = blocks + p * HSPZ_INDEX_ROW_BYTES;
        put_u64(row, block.len);
        put_u64(row + 8, index->parts[p].pos_count);
        put_u64(row + 16, block.first_sequence);
        put_u64(row + 24, block.sequence_count);
    }
    return blocks;
}

static void
add_section(struct layout *layout, enum hspz_index_section kind, size_t block, const void *data,
            uint64_t bytes, uint64_t hash)
{
    const uint64_t offset = align_up(layout->file_bytes);
    layout->sections[layout->section_count++] = (struct section){
        .kind = kind,
        .block = (uint32_t)block,
        .offset = offset,
        .bytes = bytes,
        .hash = hash,
        .data = data,
    };
    layout->file_bytes = offset + bytes;
}

static void
make_header(const struct hspz_index *index, struct layout *layout)
{
    const struct hspz_index_params *params = &index->params;
    uint8_t *header = layout->header;
    memcpy(header, HSPZ_INDEX_MAGIC, 8);
    put_u32(header + HSPZ_INDEX_AT_ENDIAN, HSPZ_INDEX_ENDIAN);
    put_u32(header + HSPZ_INDEX_AT_FORMAT, HSPZ_INDEX_FORMAT);
    put_u32(header + HSPZ_INDEX_AT_HEADER_BYTES, (uint32_t)layout->header_bytes);
    put_u32(header + HSPZ_INDEX_AT_SECTIONS, (uint32_t)layout->section_count);
    put_u64(header + HSPZ_INDEX_AT_FILE_BYTES, layout->file_bytes);
    memcpy(header + HSPZ_INDEX_AT_VERSION, index->version, HSPZ_INDEX_VERSION_BYTES);
    put_u32(header + HSPZ_INDEX_AT_STEP, params->step);
    put_u32(header + HSPZ_INDEX_AT_FLAGS,
            (params->unmask ? HSPZ_INDEX_UNMASK : 0u) |
                (params->all_positions ? HSPZ_INDEX_ALL_POSITIONS : 0u));
    put_u32(header + HSPZ_INDEX_AT_BLOCKS, (uint32_t)index->part_count);
    put_u32(header + HSPZ_INDEX_AT_PATTERN_LEN, params->shape.span);
    memcpy(header + HSPZ_INDEX_AT_PATTERN, params->shape.pattern, params->shape.span);
    put_u64(header + HSPZ_INDEX_AT_SEQUENCES, hspz_sequences_count(index->seqs));
    put_u64(header + HSPZ_INDEX_AT_NAME_BYTES, hspz_index_name_bytes(index->seqs));
    put_u64(header + HSPZ_INDEX_AT_DIGEST, index->digest);
    for (size_t s = 0; s < layout->section_count; s++) {
        const struct section *section = &layout->sections[s];
        uint8_t *row = header + HSPZ_INDEX_HEADER_BYTES + s * HSPZ_INDEX_ROW_BYTES;
        put_u32(row, section->kind);
        put_u32(row + 4, section->block);
        put_u64(row + 8, section->offset);
        put_u64(row + 16, section->bytes);
        put_u64(row + 24, section->hash);
    }
    put_u64(header + HSPZ_INDEX_AT_HASH, XXH64(header, (size_t)layout->header_bytes, 0));
}

static void
layout_fini(struct layout *layout)
{
    free(layout->header);
    free(layout->names);
    free(layout->blocks);
    free(layout->sections);
}

static enum hspz_status
layout_init(const struct hspz_index *index, struct layout *layout)
{
    const size_t sections =
        HSPZ_INDEX_SECTIONS_FIXED + HSPZ_INDEX_SECTIONS_PER_BLOCK * index->part_count;
    uint64_t name_bytes, block_bytes;
    *layout = (struct layout){
        .header_bytes = HSPZ_INDEX_HEADER_BYTES + sections * HSPZ_INDEX_ROW_BYTES,
    };
    layout->file_bytes = layout->header_bytes;
    layout->header = calloc(1, (size_t)layout->header_bytes);
    layout->sections = calloc(sections, sizeof(*layout->sections));
    layout->names = make_names(index->seqs, &name_bytes);
    layout->blocks = make_blocks(index, &block_bytes);
    if (layout->header == NULL || layout->sections == NULL || layout->names == NULL ||
        layout->blocks == NULL) {
        layout_fini(layout);
        return HSPZ_E_OUT_OF_MEMORY;
    }
    add_section(layout, HSPZ_INDEX_NAMES, 0, layout->names, name_bytes,
                XXH64(layout->names, (size_t)name_bytes, 0));
    add_section(layout, HSPZ_INDEX_BLOCKS, 0, layout->blocks, block_bytes,
                XXH64(layout->blocks, (size_t)block_bytes, 0));
    const uint64_t table_bytes =
        sizeof(uint32_t) * (uint64_t)hspz_shape_words(&index->params.shape);
    for (size_t p = 0; p < index->part_count; p++) {
        const struct hspz_index_part *part = &index->parts[p];
        add_section(layout, HSPZ_INDEX_BASES, p, part->bases, part->bases_len, part->bases_hash);
        add_section(layout, HSPZ_INDEX_TABLE, p, part->table, table_bytes, part->table_hash);
        add_section(layout, HSPZ_INDEX_POSITIONS, p, part->pos,
                    sizeof(uint32_t) * (uint64_t)part->pos_count, part->pos_hash);
    }
    make_header(index, layout);
    return HSPZ_OK;
}

static int
write_layout(void *user, int fd)
{
    const struct layout *layout = user;
    static const uint8_t zeros[HSPZ_INDEX_ALIGN];
    int error = hspz_write_all(fd, layout->header, layout->header_bytes);
    uint64_t at = layout->header_bytes;
    for (size_t s = 0; s < layout->section_count && error == 0; s++) {
        const struct section *section = &layout->sections[s];
        error = hspz_write_all(fd, zeros, section->offset - at);
        if (error == 0) {
            error = hspz_write_all(fd, section->data, section->bytes);
        }
        at = section->offset + section->bytes;
    }
    return error;
}

enum hspz_status
hspz_index_write(const struct hspz_index *index, const char *path, struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(path);
    if (hspz_sequences_block_count(index->seqs) != index->part_count) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: an index without its sequence cannot be written", shown.text);
    }
    const uint64_t sections =
        HSPZ_INDEX_SECTIONS_FIXED + HSPZ_INDEX_SECTIONS_PER_BLOCK * (uint64_t)index->part_count;
    if (sections > HSPZ_INDEX_SECTIONS_MAX) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                              "%s: an index of %zu blocks: a file holds %u sections at most",
                              shown.text, index->part_count, HSPZ_INDEX_SECTIONS_MAX);
    }
    struct layout layout;
    enum hspz_status status = layout_init(index, &layout);
    if (status != HSPZ_OK) {
        return hspz_error_set(err, status, "no memory to write %s", shown.text);
    }
    status = hspz_file_write(path, "index file", layout.file_bytes, write_layout, &layout, err);
    layout_fini(&layout);
    return status;
}
