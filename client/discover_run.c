#include "client/discover_run.h"

#include "client/hit_mask.h"
#include "client/hit_run.h"
#include "client/query.h"
#include "client/reading.h"
#include "client/seed_file.h"
#include "client/spread.h"
#include "engine/sequence_file.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Steps: connect; describe the index (its sequences, for their names and places); read the query;
 * per piece of the query one discover call, whose parts are written as they come; commit the
 * output.
 *
 * A failure leaves no file behind. What a call brought before it failed stands on standard output,
 * and the message says how much that is; nothing says "done" but the exit status 0. */

struct state {
    const struct hspz_discover_run *run;
    struct hspz_spread *spread;
    struct hspz_output *output;
    struct hspz_rows rows;
    struct hspz_places refs, queries;
    struct hspz_hit_mask mask;
    enum hspz_strand strand; /* of the part before */
    struct hspz_hit_stats hits;
    struct hspz_hit_run hit_run;
    uint64_t hit_limit;                  /* what is left of it, with hit_stats */
    bool no_rows;                        /* only the table */
    char digest[17];                     /* of the index described */
    char shape[HSPZ_SHAPE_SPAN_MAX + 1]; /* as above */
    struct hspz_reading reading;
    uint64_t anchors, pieces;                            /* came */
    uint64_t positions, positions_done, piece_positions; /* of the query: all, before, now */
    struct hspz_sequences *seqs;
    const char *missing;       /* name of the first sequence of the piece under way; in `seqs` */
    struct hspz_error failure; /* of a callback */
};

static void
forget_index(void *user)
{
    struct state *s = user;
    hspz_places_fini(&s->refs);
    hspz_places_init(&s->refs, s->run->format == HSPZ_FORMAT_JSONL);
    hspz_hit_mask_fini(&s->mask);
}

static bool
note_index(void *user, const struct hspz_index_info *info)
{
    struct state *s = user;
    snprintf(s->digest, sizeof(s->digest), "%s", info->digest);
    snprintf(s->shape, sizeof(s->shape), "%s", info->shape);
    s->rows.span = (uint32_t)info->span;
    if (info->span == 0 || info->span > 64) {
        hspz_error_set(&s->failure, HSPZ_E_BAD_PEER, "index %s: its span is %" PRIu64, info->name,
                       info->span);
        return false;
    }
    if (s->run->masking != 0) {
        hspz_hit_mask_init(&s->mask, s->run->masking, s->rows.span);
    }
    if (s->run->cli->verbose) {
        fprintf(stderr, "index: %s, digest %s, seed %s, step %" PRIu64 ", %" PRIu64 " words\n",
                info->name, info->digest, info->shape, info->step, info->words);
    }
    return true;
}

static bool
note_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct state *s = user;
    if (s->run->masking != 0) {
        const enum hspz_status grown = hspz_hit_mask_grow(
            &s->mask, (size_t)sequence->block, sequence->offset + sequence->len, &s->failure);
        if (grown != HSPZ_OK) {
            return false;
        }
    }
    const enum hspz_status status =
        hspz_places_add(&s->refs, sequence->name, strlen(sequence->name), sequence->len,
                        sequence->block, sequence->offset);
    if (status != HSPZ_OK) {
        hspz_error_set(&s->failure, status == HSPZ_E_BAD_REQUEST ? HSPZ_E_BAD_PEER : status,
                       "reference sequence %.200s: %s", sequence->name,
                       status == HSPZ_E_BAD_REQUEST ? "it overlaps the one before"
                                                    : hspz_status_text(status));
    }
    return status == HSPZ_OK;
}

static enum hspz_status
describe_index(struct state *s, struct hspz_error *err)
{
    const bool rows = s->run->format == HSPZ_FORMAT_TSV || s->run->format == HSPZ_FORMAT_JSONL;
    const bool places = (rows && !s->no_rows) || s->run->masking != 0;
    const enum hspz_status status =
        hspz_spread_describe(s->spread, s->run->request.index, forget_index, note_index,
                             places ? note_sequence : NULL, s, err);
    return hspz_cli_settle(&s->failure, status, err);
}

/* How far into the query a part is: whole batches before it. */
static int
percent_done(const struct state *s, const struct hspz_part_id *id)
{
    const bool both = s->run->request.strands == HSPZ_STRANDS_BOTH;
    const double batch = (double)id->batch * HSPZ_BATCH_POSITIONS;
    const double len = (double)s->piece_positions;
    const double strands = both ? 2.0 : 1.0;
    const double done = (double)s->positions_done * strands + (batch < len ? batch : len) +
                        (both && id->strand == HSPZ_STRAND_MINUS ? len : 0.0);
    const double all = (double)s->positions * strands;
    return done < all ? (int)(100.0 * done / all) : 100;
}

/* What masking leaves of a part. */
static enum hspz_status
mask_part(struct state *s, const struct hspz_part_id *id, const uint8_t **anchors, size_t *count)
{
    if (s->run->masking == 0) {
        return HSPZ_OK;
    }
    if (id->strand != s->strand) {
        hspz_hit_mask_end_strand(&s->mask);
        s->strand = id->strand;
    }
    return hspz_hit_mask_take(&s->mask, id->ref_block, *anchors, *count, anchors, count,
                              &s->failure);
}

/* A part of the format `columns`: a head, then the columns as they came. */
static bool
write_columns(struct state *s, const struct hspz_part_view *part)
{
    const struct hspz_columns *const columns = &part->columns;
    const uint32_t head[] = {htole32((uint32_t)s->pieces),
                             htole32((uint32_t)part->id.strand),
                             htole32(part->id.batch),
                             htole32(part->id.ref_block),
                             htole32((uint32_t)columns->run_count),
                             htole32((uint32_t)columns->count)};
    return hspz_output_write(s->output, head, sizeof(head)) &&
           hspz_output_write(s->output, part->records,
                             columns->run_count * HSPZ_RUN_BYTES +
                                 columns->count * HSPZ_COLUMN_REF_BYTES);
}

static bool
write_part(struct state *s, const struct hspz_part_view *part, const uint8_t *anchors, size_t count)
{
    bool quiet, good;
    switch (s->run->format) {
    case HSPZ_FORMAT_PACKED:
        good = hspz_output_write(s->output, anchors, count * HSPZ_ANCHOR_BYTES);
        break;
    case HSPZ_FORMAT_COLUMNS:
        good = write_columns(s, part);
        break;
    default:
        return hspz_rows_write(&s->rows, &part->id, anchors, count, &s->failure) == HSPZ_OK;
    }
    return good || hspz_output_error(s->output, &quiet, &s->failure) == HSPZ_OK;
}

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct state *s = user;
    const uint8_t *anchors = part->records;
    size_t count = part->count;
    if (mask_part(s, &part->id, &anchors, &count) != HSPZ_OK ||
        (!s->no_rows && !write_part(s, part, anchors, count))) {
        return false;
    }
    s->anchors += count;
    if (hspz_progress_due(&s->reading.progress)) {
        const double seconds = hspz_progress_seconds(&s->reading.progress);
        char percent[16] = "";
        if (s->positions > 0) {
            snprintf(percent, sizeof(percent), "%d %%, ", percent_done(s, &part->id));
        }
        hspz_progress_show(&s->reading.progress, "%s%" PRIu64 " anchors, %.1f M/s", percent,
                           s->anchors, seconds > 0 ? (double)s->anchors / seconds / 1e6 : 0.0);
    }
    return true;
}

static void
say_summary(const struct state *s, const struct hspz_discover_summary *summary)
{
    fprintf(stderr,
            "piece %" PRIu64 ": %" PRIu64 " anchors (plus %" PRIu64 ", minus %" PRIu64
            ") in %" PRIu64 " chunks, digest %s; index digest %s, cap %" PRIu64 "\n",
            s->pieces, summary->anchors, summary->totals[0].hits, summary->totals[1].hits,
            summary->chunks, summary->digest[0] != '\0' ? summary->digest : "not asked for",
            summary->index_digest, summary->max_hits);
    fprintf(stderr, "server: %.3f s queued, %.3f s in the engine, %.3f s in all\n",
            (double)summary->queued_ns / 1e9, (double)summary->engine_ns / 1e9,
            (double)summary->total_ns / 1e9);
}

/* One call, or one for each batch. */
static enum hspz_status
discover_piece(struct state *s, const struct hspz_discover_request *request, struct hspz_error *err)
{
    struct hspz_discover_summary summary;
    enum hspz_status status =
        s->run->hit_stats
            ? hspz_hit_run_query(&s->hit_run, request, &s->hit_limit, take_part, s, err)
            : hspz_spread_discover(s->spread, request, take_part, s, &summary, err);
    status = hspz_cli_settle(&s->failure, status, err);
    if (s->output != NULL) {
        hspz_output_flush(s->output); /* what came is passed on, whatever comes next */
    }
    hspz_progress_clear(&s->reading.progress);
    if (status == HSPZ_OK) {
        s->pieces++;
        if (s->run->cli->verbose && !s->run->hit_stats) {
            say_summary(s, &summary);
        }
    }
    return status;
}

static enum hspz_status
discover_seeds(struct state *s, struct hspz_error *err)
{
    struct hspz_discover_request request = s->run->request;
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum hspz_status status = hspz_seed_file_read(s->run->seeds, &bytes, &len, err);
    if (status == HSPZ_OK) {
        request.given_seeds = true;
        request.seeds = (struct hspz_span){.bytes = bytes, .len = len};
        request.index_digest = s->digest;
        status = discover_piece(s, &request, err);
    }
    free(bytes);
    return status;
}

/* The sequences of a piece, by their place in it. */
static enum hspz_status
note_queries(struct state *s, const struct hspz_sequences *seqs,
             const struct hspz_query_piece *piece, struct hspz_error *err)
{
    hspz_places_fini(&s->queries);
    hspz_places_init(&s->queries, s->run->format == HSPZ_FORMAT_JSONL);
    for (size_t i = 0; i < piece->sequence_count; i++) {
        const struct hspz_sequence *q = hspz_sequences_get(seqs, piece->first_sequence + i);
        const enum hspz_status status = hspz_places_add(&s->queries, q->name, strlen(q->name),
                                                        q->len, 0, q->offset - piece->offset);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "query %.200s: %s", q->name,
                                  hspz_status_text(status));
        }
    }
    s->rows.queries = &s->queries;
    s->rows.query_len = piece->bases.len;
    return HSPZ_OK;
}

static enum hspz_status
discover_pieces(struct state *s, struct hspz_error *err)
{
    const struct hspz_sequences *seqs = s->seqs;
    struct hspz_query_pieces pieces = {
        .seqs = seqs,
        .most_bases = hspz_spread_most_bases(s->spread),
        .alone = s->run->masking != 0,
    };
    struct hspz_discover_request request = s->run->request;
    request.index_digest = s->digest;
    for (;;) {
        struct hspz_query_piece piece;
        enum hspz_status status = hspz_query_next(&pieces, &piece, err);
        if (status != HSPZ_OK || piece.sequence_count == 0) {
            return status;
        }
        if (piece.bases.len < s->rows.span) {
            continue; /* no window fits: no anchors */
        }
        s->missing = hspz_sequences_get(seqs, piece.first_sequence)->name;
        status = note_queries(s, seqs, &piece, err);
        if (status == HSPZ_OK) {
            request.bases = piece.bases;
            s->piece_positions = piece.bases.len;
            status = discover_piece(s, &request, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        hspz_hit_mask_end_strand(&s->mask);
        s->strand = HSPZ_STRAND_PLUS;
        s->missing = NULL;
        s->positions_done += piece.bases.len;
    }
}

static enum hspz_status
discover_query(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = hspz_sequence_file_read(
        s->run->query, HSPZ_BLOCK_BASES_DEFAULT, hspz_reading_show, &s->reading, &s->seqs, err);
    hspz_progress_clear(&s->reading.progress);
    if (status != HSPZ_OK) {
        return status;
    }
    if (s->run->cli->verbose) {
        hspz_query_say(s->run->query, s->seqs, s->run->request.unmask);
    }
    s->positions = hspz_sequences_bases(s->seqs);
    if (s->positions > 0 && hspz_sequences_masked(s->seqs) == s->positions &&
        !s->run->request.unmask) {
        fprintf(stderr, "warning: no anchors to find: the query is all in lower case, which seeds "
                        "only with --unmask\n");
    }
    return discover_pieces(s, err);
}

static enum hspz_status
open_output(struct state *s, struct hspz_error *err)
{
    if (s->no_rows) {
        return HSPZ_OK;
    }
    enum hspz_status status =
        hspz_output_open(s->run->output != NULL ? s->run->output : "-", &s->output, err);
    if (status != HSPZ_OK) {
        return status;
    }
    s->rows.output = s->output;
    if (s->run->format == HSPZ_FORMAT_TSV &&
        !hspz_output_write(s->output, HSPZ_TSV_HEADER, sizeof(HSPZ_TSV_HEADER) - 1)) {
        bool quiet;
        return hspz_output_error(s->output, &quiet, err);
    }
    return HSPZ_OK;
}

static enum hspz_status
do_run(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = hspz_spread_open(s->run->cli, NULL, &s->spread, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = describe_index(s, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = open_output(s, err);
    if (status == HSPZ_OK && s->run->hit_stats) {
        status = hspz_hit_stats_init(&s->hits, err);
        if (status == HSPZ_OK) {
            status = hspz_hit_run_init(&s->hit_run, hspz_spread_client(s->spread), s->shape,
                                       &s->hits, err);
        }
    }
    if (status == HSPZ_OK) {
        status = s->run->seeds != NULL ? discover_seeds(s, err) : discover_query(s, err);
    }
    if (status == HSPZ_OK && s->output != NULL) {
        status = hspz_output_commit(s->output, err);
    }
    return status;
}

/* The table goes where the anchors do not. */
static int
print_hits(struct state *s)
{
    const bool apart = s->no_rows || strcmp(s->run->output, "-") != 0;
    hspz_hit_stats_print(&s->hits, s->run->format == HSPZ_FORMAT_JSONL, apart ? stdout : stderr);
    return hspz_cli_finish_stdout();
}

/* Says what failed and how much came before; not a word when the reader of our output went away. */
static void
say_failure(const struct state *s, const struct hspz_error *err)
{
    struct hspz_error ignored;
    bool quiet = false;
    if (s->output != NULL) {
        (void)hspz_output_error(s->output, &quiet, &ignored);
    }
    if (quiet) {
        return;
    }
    if (s->spread != NULL && err->status == HSPZ_E_NO_SERVER) {
        hspz_spread_say_failures(s->spread);
    }
    (void)hspz_cli_fail(s->run->cli, err);
    if (s->anchors > 0 || s->pieces > 0) {
        fprintf(stderr,
                "hspz-client: failed after %" PRIu64 " anchors and %" PRIu64
                " whole piece%s of the query%s%.200s; the output is not complete\n",
                s->anchors, s->pieces, s->pieces == 1 ? "" : "s",
                s->missing != NULL ? "; missing from sequence " : "",
                s->missing != NULL ? s->missing : "");
    }
}

int
hspz_discover_run(const struct hspz_discover_run *run)
{
    struct state s = {.run = run,
                      .reading = {.cli = run->cli, .doing = "reading"},
                      .hit_limit = run->request.hit_limit,
                      .no_rows = run->hit_stats && run->output == NULL,
                      .rows = {.format = run->format, .refs = &s.refs}};
    struct hspz_error err = {0};
    hspz_places_init(&s.refs, run->format == HSPZ_FORMAT_JSONL);
    hspz_places_init(&s.queries, run->format == HSPZ_FORMAT_JSONL);
    hspz_progress_begin(&s.reading.progress, run->cli->quiet);
    const enum hspz_status status = do_run(&s, &err);
    hspz_progress_clear(&s.reading.progress);
    if (status != HSPZ_OK) {
        say_failure(&s, &err);
    } else if (run->cli->verbose) {
        fprintf(stderr, "%" PRIu64 " anchors, %.3f s\n", s.anchors,
                hspz_progress_seconds(&s.reading.progress));
        hspz_spread_say_work(s.spread);
        if (run->masking != 0) {
            fprintf(stderr, "masking: %" PRIu64 " bases of the index, %" PRIu64 " hits left out\n",
                    s.mask.masked, s.mask.dropped);
        }
    }
    int result = status == HSPZ_OK ? HSPZ_EXIT_DONE : HSPZ_EXIT_FAILED;
    if (status == HSPZ_OK && run->hit_stats) {
        result = print_hits(&s);
    }
    hspz_output_close(&s.output);
    hspz_spread_close(&s.spread);
    hspz_hit_run_fini(&s.hit_run);
    hspz_hit_stats_fini(&s.hits);
    hspz_sequences_destroy(&s.seqs);
    hspz_places_fini(&s.refs);
    hspz_places_fini(&s.queries);
    hspz_hit_mask_fini(&s.mask);
    return result;
}
