#include "client/kmer_file.h"
#include "client/kmers_run.h"
#include "client/rows.h"
#include "engine/kmer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* query: a row for each k-mer, as it stands in the sequence. screen: a row for each sequence.
 *
 * Steps: connect; what the filter is; per batch one call, whose answers are kept until all of them
 * are there; then the batch's rows. */

#define ROW_BYTES 128u

struct state {
    struct hspz_kmers_ask *ask;
    uint64_t *counts; /* of each window of the batch; without counts 1 for one that is there */
    size_t room;
    uint64_t kmers, hits; /* of the sequence at hand */
};

static bool
on_progress(void *user, uint64_t done, uint64_t total)
{
    struct state *s = user;
    hspz_kmers_show(&s->ask->run, done, total);
    return !hspz_cli_stopped(s->ask->run.cli);
}

static bool
wants_counts(const struct hspz_kmers_ask *ask)
{
    return !ask->screen || ask->least > 1;
}

static bool
take_answers(void *user, uint64_t first, size_t count, const uint8_t *bitmap, const uint8_t *array)
{
    struct state *s = user;
    for (size_t i = 0; i < count; i++) {
        s->counts[first + i] =
            array != NULL ? hspz_anchor_at(array, i) : (bitmap[i / 8] >> i % 8 & 1u);
    }
    return !hspz_cli_stopped(s->ask->run.cli);
}

static bool
write_kmer(struct state *s, const char *name, uint64_t start, uint64_t key, uint64_t count)
{
    struct hspz_output *out = s->ask->run.out;
    if (!hspz_output_write(out, name, strlen(name))) {
        return false;
    }
    char *const row = hspz_output_room(out, ROW_BYTES);
    if (row == NULL) {
        return false;
    }
    char *to = row;
    *to++ = '\t';
    to = hspz_rows_number(to, start);
    *to++ = '\t';
    to = hspz_kmers_text(to, key, (unsigned)s->ask->run.state.k);
    *to++ = '\t';
    to = hspz_rows_number(to, count);
    *to++ = '\n';
    hspz_output_advance(out, (size_t)(to - row));
    return true;
}

static bool
write_sequence(struct state *s, const char *name)
{
    struct hspz_output *out = s->ask->run.out;
    char row[ROW_BYTES];
    const int len = snprintf(row, sizeof(row), "\t%" PRIu64 "\t%" PRIu64 "\t%.6f\n", s->kmers,
                             s->hits, s->kmers > 0 ? (double)s->hits / (double)s->kmers : 0.0);
    s->kmers = s->hits = 0;
    return hspz_output_write(out, name, strlen(name)) && hspz_output_write(out, row, (size_t)len);
}

static bool
write_piece(struct state *s, const struct hspz_kmer_batch *batch,
            const struct hspz_kmer_piece *piece)
{
    struct hspz_kmers_ask *ask = s->ask;
    const unsigned k = (unsigned)ask->run.state.k;
    const char *name = batch->names + piece->name;
    struct hspz_kmer_roll roll = {0};
    bool good = true;
    for (size_t i = piece->begin; i < piece->end && good; i++) {
        if (hspz_kmer_next(&roll, k, batch->bases[i])) {
            const size_t at = i + 1 - k;
            const uint64_t least = ask->least > 1 ? ask->least : 1;
            s->kmers++;
            s->hits += s->counts[at] >= least;
            ask->run.kmers++;
            good = ask->screen || write_kmer(s, name, piece->start + (at - piece->begin),
                                             roll.forward, s->counts[at]);
        }
    }
    return good && (!ask->screen || !piece->last || write_sequence(s, name));
}

static enum hspz_status
ask_server(struct state *s, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    const bool counts = wants_counts(s->ask);
    struct hspz_keys_request request =
        hspz_kmers_request(&s->ask->run, counts ? HSPZ_KEYS_COUNT : HSPZ_KEYS_QUERY);
    request.keys = (struct hspz_span){batch->bases, batch->len};
    request.bitmap = !counts;
    request.array = counts;
    if (batch->len > s->room) {
        free(s->counts);
        s->counts = malloc(batch->len * sizeof(*s->counts));
        s->room = s->counts != NULL ? batch->len : 0;
    }
    if (batch->len > s->room) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for answers");
    }
    return hspz_client_filter_keys(s->ask->run.client, &request, take_answers, s, NULL, err);
}

static enum hspz_status
on_batch(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    struct state *s = user;
    const enum hspz_status status = batch->len > 0 ? ask_server(s, batch, err) : HSPZ_OK;
    if (status != HSPZ_OK) {
        return status;
    }
    s->ask->run.bases += batch->len;
    bool good = true;
    for (size_t i = 0; i < batch->count && good; i++) {
        good = write_piece(s, batch, &batch->pieces[i]);
    }
    bool quiet;
    return good ? HSPZ_OK : hspz_output_error(s->ask->run.out, &quiet, err);
}

static enum hspz_status
ask_file(struct state *s, struct hspz_error *err)
{
    struct hspz_kmers_run *run = &s->ask->run;
    const char *const header =
        s->ask->screen ? "#sequence\tkmers\thits\tfraction\n" : "#sequence\tstart\tkmer\tcount\n";
    enum hspz_status status = hspz_kmers_connect(run, err);
    if (status == HSPZ_OK) {
        status = hspz_kmers_find(run, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_output_open(run->output, &run->out, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    bool quiet;
    if (!hspz_kmers_write_kind(run) || !hspz_output_write(run->out, header, strlen(header))) {
        return hspz_output_error(run->out, &quiet, err);
    }
    const struct hspz_kmer_reading reading = {.path = s->ask->file,
                                              .k = (unsigned)run->state.k,
                                              .batch_bytes = hspz_kmers_batch(run),
                                              .progress = on_progress,
                                              .batch = on_batch,
                                              .user = s};
    status = hspz_kmer_file_read(&reading, err);
    return status == HSPZ_OK ? hspz_output_commit(run->out, err) : status;
}

int
hspz_kmers_ask_run(struct hspz_kmers_ask *ask)
{
    struct state s = {.ask = ask};
    struct hspz_error err = {0};
    const enum hspz_status status = ask_file(&s, &err);
    free(s.counts);
    return hspz_kmers_end(&ask->run, status, &err);
}
