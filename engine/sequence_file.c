#include "engine/sequence_file.h"

#include "engine/byte_source.h"
#include "engine/fasta.h"
#include "engine/shown_path.h"
#include "engine/twobit.h"

#include <stdlib.h>
#include <string.h>

struct reading {
    const char *path;
    struct hspz_byte_source *source;
    struct hspz_sequences *seqs;
};

/* Text is parsed as it comes; `first` is what was read of it. */
static enum hspz_status
read_text(struct reading *reading, struct hspz_span first, struct hspz_error *err)
{
    struct hspz_fasta *fasta = NULL;
    enum hspz_status status = hspz_fasta_create(reading->seqs, reading->path, &fasta, err);
    struct hspz_span chunk = first;
    while (status == HSPZ_OK && chunk.len > 0) {
        status = hspz_fasta_feed(fasta, chunk.bytes, chunk.len, err);
        if (status == HSPZ_OK) {
            status = hspz_byte_source_next(reading->source, &chunk.bytes, &chunk.len, err);
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_fasta_finish(fasta, err);
    }
    hspz_fasta_destroy(&fasta);
    return status;
}

static bool
go_on(void *source)
{
    return hspz_byte_source_report(source);
}

/* A 2bit file is read whole before it is looked at: its records may stand anywhere, and neither a
 * pipe nor gzip can be seeked. */
static enum hspz_status
read_twobit(struct reading *reading, struct hspz_span first, struct hspz_error *err)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    size_t capacity = 0;
    enum hspz_status status = HSPZ_OK;
    for (struct hspz_span chunk = first; status == HSPZ_OK && chunk.len > 0;) {
        if (chunk.len > capacity - len) {
            const size_t wanted = capacity + capacity / 2 + 2 * HSPZ_BYTE_SOURCE_CHUNK;
            uint8_t *grown = realloc(bytes, wanted);
            if (grown == NULL) {
                status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory",
                                        hspz_shown_path_make(reading->path).text);
                break;
            }
            bytes = grown;
            capacity = wanted;
        }
        memcpy(bytes + len, chunk.bytes, chunk.len);
        len += chunk.len;
        status = hspz_byte_source_next(reading->source, &chunk.bytes, &chunk.len, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_twobit_read((struct hspz_span){bytes, len}, reading->path, go_on,
                                  reading->source, reading->seqs, err);
    }
    free(bytes);
    return status;
}

enum hspz_status
hspz_sequence_file_read(const char *path, uint64_t block_size, hspz_progress_fn progress,
                        void *user, struct hspz_sequences **out, struct hspz_error *err)
{
    struct reading reading = {.path = path};
    struct hspz_span first = {0};
    enum hspz_status status = hspz_byte_source_open(path, progress, user, &reading.source, err);
    if (status == HSPZ_OK && hspz_sequences_create(block_size, &reading.seqs) != HSPZ_OK) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: out of memory",
                                hspz_shown_path_make(path).text);
    }
    if (status == HSPZ_OK) {
        status = hspz_byte_source_next(reading.source, &first.bytes, &first.len, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_twobit_recognise(first) ? read_twobit(&reading, first, err)
                                              : read_text(&reading, first, err);
    }
    if (status == HSPZ_OK) {
        *out = reading.seqs;
        reading.seqs = NULL;
    }
    hspz_sequences_destroy(&reading.seqs);
    hspz_byte_source_close(&reading.source);
    return status;
}
