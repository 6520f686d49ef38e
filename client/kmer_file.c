#include "client/kmer_file.h"

#include "client/kmer_queue.h"
#include "engine/alphabet.h"
#include "engine/byte_source.h"
#include "engine/fasta.h"
#include "engine/kmer.h"
#include "engine/shown_path.h"
#include "engine/twobit.h"
#include "protocol/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_LEAST ((size_t)256)
/* Short and empty sequences end a batch early. */
#define PIECES_MOST ((size_t)1 << 16)
#define SEPARATOR '\n'

/* Reading, decompression and parsing have a thread of their own; batches are handed out by the
 * caller's. */
struct reader {
    const struct hspz_kmer_reading *reading;
    struct hspz_kmer_queue *queue;
    struct hspz_kmer_slot *slot; /* that is filled */
    size_t capacity;
    uint64_t done;             /* bases of the sequence at hand */
    struct hspz_error failure; /* of memory, or it was stopped: no fault of the text */
    struct hspz_byte_source *source;
    struct hspz_fasta *fasta;
    pthread_t thread;
    enum hspz_status status; /* what its thread ended with */
    struct hspz_error error;
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

static enum hspz_status
next_slot(struct reader *r)
{
    const enum hspz_status status = hspz_kmer_queue_fill(r->queue, &r->slot);
    return status == HSPZ_E_OUT_OF_MEMORY
               ? no_memory(r)
               : hspz_error_set(&r->failure, status, "%s", hspz_status_text(status));
}

/* Hands the batch over, and begins another. */
static enum hspz_status
flush(struct reader *r)
{
    if (r->slot->batch.count == 0) {
        return HSPZ_OK;
    }
    hspz_kmer_queue_put(r->queue);
    return next_slot(r);
}

/* A piece that begins with the next base. */
static enum hspz_status
begin_piece(struct reader *r, const char *name, size_t name_len)
{
    struct hspz_kmer_slot *const s = r->slot;
    struct hspz_kmer_batch *const b = &s->batch;
    void *pieces = b->pieces, *names = b->names;
    const bool room = make_room(&pieces, &s->pieces_capacity, b->count + 1, sizeof(*b->pieces)) &&
                      make_room(&names, &s->names_capacity, s->names_len + name_len + 1, 1);
    b->pieces = pieces;
    b->names = names;
    if (!room) {
        return no_memory(r);
    }
    if (b->len > 0) {
        b->bases[b->len++] = SEPARATOR;
    }
    b->pieces[b->count++] = (struct hspz_kmer_piece){
        .name = s->names_len, .begin = b->len, .end = b->len, .start = r->done};
    memcpy(b->names + s->names_len, name, name_len);
    s->names_len += name_len;
    b->names[s->names_len++] = '\0';
    return HSPZ_OK;
}

/* The batch goes out with a part of the sequence, whose end begins the next one. */
static enum hspz_status
carry_on(struct reader *r)
{
    const struct hspz_kmer_batch *full = &r->slot->batch;
    const struct hspz_kmer_piece piece = full->pieces[full->count - 1];
    const size_t len = piece.end - piece.begin;
    const size_t kept = len < r->reading->k - 1 ? len : r->reading->k - 1;
    uint8_t tail[HSPZ_KMER_MOST];
    char *const name = strdup(full->names + piece.name);
    if (name == NULL) {
        return no_memory(r);
    }
    memcpy(tail, full->bases + piece.end - kept, kept);
    enum hspz_status status = flush(r);
    r->done -= kept;
    if (status == HSPZ_OK) {
        status = begin_piece(r, name, strlen(name));
    }
    free(name);
    if (status == HSPZ_OK) {
        struct hspz_kmer_batch *const b = &r->slot->batch;
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
    if (r->slot->batch.len + BATCH_LEAST / 2 > r->capacity || r->slot->batch.count == PIECES_MOST) {
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
    *bad = hspz_bases_allowed(bases, len, 'A');
    if (*bad < len) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "a byte that is no base");
    }
    while (len > 0) {
        struct hspz_kmer_batch *const b = &r->slot->batch;
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
    const struct reader *r = user;
    const struct hspz_kmer_batch *b = &r->slot->batch;
    (void)err;
    b->pieces[b->count - 1].last = true;
    return HSPZ_OK;
}

static bool
on_progress(void *user, uint64_t done, uint64_t total)
{
    return hspz_kmer_queue_read(user, done, total);
}

static enum hspz_status
feed(struct reader *r, struct hspz_error *err)
{
    struct hspz_span chunk = {0};
    bool first = true;
    enum hspz_status status = HSPZ_OK;
    do {
        status = hspz_byte_source_next(r->source, &chunk.bytes, &chunk.len, err);
        if (status == HSPZ_OK && first && hspz_twobit_recognise(chunk)) {
            status = hspz_error_set(err, HSPZ_E_BAD_FILE,
                                    "%s: a 2bit file; k-mers are read from FASTA and FASTQ",
                                    hspz_shown_path_make(r->reading->path).text);
        }
        if (status == HSPZ_OK && chunk.len > 0) {
            status = hspz_fasta_feed(r->fasta, chunk.bytes, chunk.len, err);
        }
        first = false;
    } while (status == HSPZ_OK && chunk.len > 0);
    return status == HSPZ_OK ? hspz_fasta_finish(r->fasta, err) : status;
}

static void *
reader_main(void *arg)
{
    struct reader *r = arg;
    r->status = next_slot(r);
    if (r->status == HSPZ_OK) {
        r->status = feed(r, &r->error);
    }
    if (r->status == HSPZ_OK && r->slot->batch.count > 0) {
        hspz_kmer_queue_put(r->queue);
    }
    if (r->failure.status != HSPZ_OK) {
        r->error = r->failure;
        r->status = r->failure.status;
    }
    hspz_kmer_queue_end(r->queue);
    return NULL;
}

/* Until no more will come, a callback fails, or the caller has had enough. */
static enum hspz_status
hand_out(const struct reader *r, struct hspz_error *err)
{
    const struct hspz_kmer_reading *reading = r->reading;
    enum hspz_status status = HSPZ_OK;
    for (bool over = false; status == HSPZ_OK && !over;) {
        uint64_t done, total;
        const struct hspz_kmer_batch *batch = hspz_kmer_queue_take(r->queue, &over, &done, &total);
        if (reading->progress != NULL && !reading->progress(reading->user, done, total)) {
            status = hspz_error_set(err, HSPZ_E_STOPPED, "%s: stopped by the caller",
                                    hspz_shown_path_make(reading->path).text);
        } else if (batch != NULL) {
            status = reading->batch(reading->user, batch, err);
            hspz_kmer_queue_give(r->queue);
        }
    }
    return status;
}

/* What came first decides how it ends. */
static enum hspz_status
run(struct reader *r, struct hspz_error *err)
{
    const int error = pthread_create(&r->thread, NULL, reader_main, r);
    if (error != 0) {
        return hspz_error_errno(err, HSPZ_E_OUT_OF_MEMORY, error, "no thread to read %s",
                                hspz_shown_path_make(r->reading->path).text);
    }
    enum hspz_status status = hand_out(r, err);
    if (status != HSPZ_OK) {
        hspz_kmer_queue_stop(r->queue);
    }
    (void)pthread_join(r->thread, NULL);
    if (status == HSPZ_OK && r->status != HSPZ_OK) {
        status = r->status;
        *err = r->error;
    }
    return status;
}

enum hspz_status
hspz_kmer_file_read(const struct hspz_kmer_reading *reading, struct hspz_error *err)
{
    struct reader r = {.reading = reading};
    const struct hspz_fasta_sink sink = {
        .begin = on_begin, .append = on_append, .end = on_end, .user = &r};
    HSPZ_REQUIRE(reading->k >= 1 && reading->k <= HSPZ_KMER_MOST);
    r.capacity = reading->batch_bytes < BATCH_LEAST ? BATCH_LEAST : reading->batch_bytes;
    enum hspz_status status = hspz_kmer_queue_create(r.capacity, &r.queue, err);
    if (status == HSPZ_OK) {
        status = hspz_byte_source_open(reading->path, on_progress, r.queue, &r.source, err);
    }
    if (status == HSPZ_OK) {
        hspz_byte_source_wake(r.source, hspz_kmer_queue_stop_fd(r.queue));
        status = hspz_fasta_create_to(&sink, reading->path, &r.fasta, err);
    }
    if (status == HSPZ_OK) {
        status = run(&r, err);
    }
    hspz_fasta_destroy(&r.fasta);
    hspz_byte_source_close(&r.source);
    hspz_kmer_queue_destroy(&r.queue);
    return status;
}
