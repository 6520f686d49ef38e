#include "client/kmer_file.h"

#include "engine/alphabet.h"
#include "engine/byte_source.h"
#include "engine/fasta.h"
#include "engine/kmer.h"
#include "engine/shown_path.h"
#include "engine/twobit.h"
#include "protocol/limits.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_LEAST ((size_t)256)
/* Short and empty sequences end a batch early. */
#define PIECES_MOST ((size_t)1 << 16)
#define SEPARATOR '\n'

struct reader {
    const struct hspz_kmer_reading *reading;
    struct hspz_kmer_batch batch;
    size_t capacity, pieces_capacity, names_len, names_capacity;
    uint64_t done;             /* bases of the sequence at hand */
    struct hspz_error failure; /* of a batch, or of memory: no fault of the text */
};

static enum hspz_status
no_memory(struct reader *r)
{
    return hspz_error_set(&r->failure, HSPZ_E_OUT_OF_MEMORY, "no memory for sequences");
}

/* Room for one more of `size` bytes each. */
static bool
make_room(void **array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return true;
    }
    const size_t wanted = need + *capacity + 64;
    void *const grown = realloc(*array, wanted * size);
    if (grown != NULL) {
        *array = grown;
        *capacity = wanted;
    }
    return grown != NULL;
}

/* Hands out the batch, if there is anything in it, and empties it. */
static enum hspz_status
flush(struct reader *r)
{
    enum hspz_status status = HSPZ_OK;
    if (r->batch.count > 0) {
        status = r->reading->batch(r->reading->user, &r->batch, &r->failure);
        r->failure.status = status;
    }
    r->batch.len = r->batch.count = r->names_len = 0;
    return status;
}

/* A piece that begins with the next base. */
static enum hspz_status
begin_piece(struct reader *r, const char *name, size_t name_len)
{
    struct hspz_kmer_batch *b = &r->batch;
    void *pieces = b->pieces, *names = b->names;
    const bool room = make_room(&pieces, &r->pieces_capacity, b->count + 1, sizeof(*b->pieces)) &&
                      make_room(&names, &r->names_capacity, r->names_len + name_len + 1, 1);
    b->pieces = pieces;
    b->names = names;
    if (!room) {
        return no_memory(r);
    }
    if (b->len > 0) {
        b->bases[b->len++] = SEPARATOR;
    }
    b->pieces[b->count++] = (struct hspz_kmer_piece){
        .name = r->names_len, .begin = b->len, .end = b->len, .start = r->done};
    memcpy(b->names + r->names_len, name, name_len);
    r->names_len += name_len;
    b->names[r->names_len++] = '\0';
    return HSPZ_OK;
}

/* The batch goes out with a part of the sequence, whose end begins the next one. */
static enum hspz_status
carry_on(struct reader *r)
{
    struct hspz_kmer_batch *b = &r->batch;
    const struct hspz_kmer_piece piece = b->pieces[b->count - 1];
    const size_t len = piece.end - piece.begin;
    const size_t kept = len < r->reading->k - 1 ? len : r->reading->k - 1;
    uint8_t tail[HSPZ_KMER_MOST];
    char *const name = strdup(b->names + piece.name);
    if (name == NULL) {
        return no_memory(r);
    }
    memcpy(tail, b->bases + piece.end - kept, kept);
    enum hspz_status status = flush(r);
    r->done -= kept;
    if (status == HSPZ_OK) {
        status = begin_piece(r, name, strlen(name));
    }
    free(name);
    if (status == HSPZ_OK) {
        memcpy(b->bases + b->len, tail, kept);
        b->len += kept;
        b->pieces[0].end = b->len;
        r->done += kept;
    }
    return status;
}

static enum hspz_status
on_begin(void *user, const char *name, size_t name_len, uint64_t line, struct hspz_error *err)
{
    struct reader *r = user;
    (void)line;
    if (name_len == 0 || name_len > HSPZ_SEQUENCE_NAME_LIMIT ||
        memchr(name, '\0', name_len) != NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s",
                              name_len == 0 ? "a sequence without a name"
                                            : "a name that is too long or holds a NUL");
    }
    r->done = 0;
    /* Room for a separator and what carry_on needs. */
    if (r->batch.len + BATCH_LEAST / 2 > r->capacity || r->batch.count == PIECES_MOST) {
        const enum hspz_status status = flush(r);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return begin_piece(r, name, name_len);
}

static enum hspz_status
on_append(void *user, const uint8_t *bases, size_t len, size_t *bad, struct hspz_error *err)
{
    struct reader *r = user;
    struct hspz_kmer_batch *b = &r->batch;
    *bad = hspz_bases_allowed(bases, len, 'A');
    if (*bad < len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a byte that is no base");
    }
    while (len > 0) {
        const size_t room = r->capacity - b->len, n = len < room ? len : room;
        memcpy(b->bases + b->len, bases, n);
        b->len += n;
        b->pieces[b->count - 1].end = b->len;
        r->done += n;
        bases += n;
        len -= n;
        if (len > 0) {
            const enum hspz_status status = carry_on(r);
            if (status != HSPZ_OK) {
                return status;
            }
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
on_end(void *user, struct hspz_error *err)
{
    struct reader *r = user;
    (void)err;
    r->batch.pieces[r->batch.count - 1].last = true;
    return HSPZ_OK;
}

static enum hspz_status
feed(struct hspz_byte_source *source, struct hspz_fasta *fasta, const char *path,
     struct hspz_error *err)
{
    struct hspz_span chunk = {0};
    bool first = true;
    enum hspz_status status = HSPZ_OK;
    do {
        status = hspz_byte_source_next(source, &chunk.bytes, &chunk.len, err);
        if (status == HSPZ_OK && first && hspz_twobit_recognise(chunk)) {
            status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                    "%s: a 2bit file; k-mers are read from FASTA and FASTQ",
                                    hspz_shown_path_make(path).text);
        }
        if (status == HSPZ_OK && chunk.len > 0) {
            status = hspz_fasta_feed(fasta, chunk.bytes, chunk.len, err);
        }
        first = false;
    } while (status == HSPZ_OK && chunk.len > 0);
    return status == HSPZ_OK ? hspz_fasta_finish(fasta, err) : status;
}

enum hspz_status
hspz_kmer_file_read(const struct hspz_kmer_reading *reading, struct hspz_error *err)
{
    struct reader r = {.reading = reading};
    const struct hspz_fasta_sink sink = {
        .begin = on_begin, .append = on_append, .end = on_end, .user = &r};
    struct hspz_byte_source *source = NULL;
    struct hspz_fasta *fasta = NULL;
    HSPZ_REQUIRE(reading->k >= 1 && reading->k <= HSPZ_KMER_MOST);
    r.capacity = reading->batch_bytes < BATCH_LEAST ? BATCH_LEAST : reading->batch_bytes;
    r.batch.bases = malloc(r.capacity);
    enum hspz_status status =
        r.batch.bases == NULL
            ? hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for sequences")
            : hspz_byte_source_open(reading->path, reading->progress, reading->user, &source, err);
    if (status == HSPZ_OK) {
        status = hspz_fasta_create_to(&sink, reading->path, &fasta, err);
    }
    if (status == HSPZ_OK) {
        status = feed(source, fasta, reading->path, err);
    }
    if (status == HSPZ_OK) {
        status = flush(&r);
    }
    if (r.failure.status != HSPZ_OK) {
        *err = r.failure;
        status = r.failure.status;
    }
    hspz_fasta_destroy(&fasta);
    hspz_byte_source_close(&source);
    free(r.batch.bases);
    free(r.batch.pieces);
    free(r.batch.names);
    return status;
}
