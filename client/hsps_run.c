#include "client/hsps_run.h"

#include "client/query.h"
#include "client/query_block.h"
#include "client/reading.h"
#include "client/ref_bases.h"
#include "client/spread.h"
#include "engine/sequence_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Steps: connect; describe the index; read the query; plan; per query block a job (or several,
 * where the server takes no more at a time), whose HSPs go to the sink as they come. */

struct state {
    const struct hspz_hsps_run *run;
    struct hspz_spread *spread;
    struct hspz_places refs, queries; /* queries: of the block under way */
    struct hspz_file_plan ref_plan, query_plan;
    struct hspz_sequences *seqs;
    struct hspz_ref_bases ref_bases; /* of run->bases */
    struct hspz_hsp_bases bases;
    char digest[17]; /* of the index described */
    char sequence_digest[17];
    uint32_t span;
    struct hspz_hsp_sink *sink;
    struct hspz_query_block block;
    struct hspz_query_block_piece piece;
    struct hspz_hsp *hsps; /* a part's, in block coordinates */
    size_t hsps_room;
    struct hspz_reading reading;
    uint64_t hsp_count, block_count; /* came, whole */
    struct hspz_error failure;       /* of a callback */
};

static void
forget_index(void *user)
{
    struct state *s = user;
    hspz_places_fini(&s->refs);
    hspz_places_init(&s->refs, s->run->target.format == HSPZ_HSP_JSONL);
}

static bool
note_index(void *user, const struct hspz_index_info *info)
{
    struct state *s = user;
    snprintf(s->digest, sizeof(s->digest), "%s", info->digest);
    snprintf(s->sequence_digest, sizeof(s->sequence_digest), "%s", info->sequence_digest);
    s->span = (uint32_t)info->span;
    if (info->span == 0 || info->span > 64) {
        hspz_error_set(&s->failure, HSPZ_E_BAD_PEER, "index %s: its span is %" PRIu64, info->name,
                       info->span);
        return false;
    }
    if (s->run->cli->verbose) {
        fprintf(stderr, "index: %s, digest %s, seed %s, step %" PRIu64 ", %" PRIu64 " words\n",
                info->name, info->digest, info->shape, info->step, info->words);
    }
    return true;
}

/* A sequence under its name in the output. */
static enum hspz_status
add_place(struct hspz_places *places, const char *prefix, const char *name, uint64_t len,
          uint64_t block, uint64_t offset, struct hspz_error *err)
{
    char *whole = NULL;
    if (asprintf(&whole, "%s%s", prefix != NULL ? prefix : "", name) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names");
    }
    const enum hspz_status status =
        hspz_places_add(places, whole, strlen(whole), len, block, offset);
    free(whole);
    return status == HSPZ_OK
               ? HSPZ_OK
               : hspz_error_set(err, status == HSPZ_E_BAD_REQUEST ? HSPZ_E_BAD_PEER : status,
                                "sequence %.200s: %s", name,
                                status == HSPZ_E_BAD_REQUEST ? "it overlaps the one before"
                                                             : hspz_status_text(status));
}

static bool
note_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct state *s = user;
    return add_place(&s->refs, s->run->target_prefix, sequence->name, sequence->len,
                     sequence->block, sequence->offset, &s->failure) == HSPZ_OK;
}

/* Segments name their sequences: of two with one name LASTZ would take either. */
static bool
goes_by_name(const struct hspz_hsp_target *target)
{
    return target->output == NULL || target->format == HSPZ_HSP_SEGMENTS;
}

static enum hspz_status
read_query(struct state *s, struct hspz_error *err)
{
    const struct hspz_hsps_run *run = s->run;
    enum hspz_status status = hspz_sequence_file_read(
        run->query, run->query_block_size, hspz_reading_show, &s->reading, &s->seqs, err);
    hspz_progress_clear(&s->reading.progress);
    if (status == HSPZ_OK && goes_by_name(&run->target)) {
        status = hspz_sequences_check_unique(s->seqs, run->query, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    if (run->cli->verbose) {
        hspz_query_say(run->query, s->seqs, run->request.unmask);
    }
    const uint64_t bases = hspz_sequences_bases(s->seqs);
    if (bases > 0 && hspz_sequences_masked(s->seqs) == bases && !run->request.unmask) {
        fprintf(stderr, "warning: no HSPs to find: the query is all in lower case, which seeds "
                        "only when unmasked\n");
    }
    return HSPZ_OK;
}

static enum hspz_status
read_ref_bases(struct state *s, const char *path, struct hspz_error *err)
{
    const char *prefix = s->run->target_prefix;
    const enum hspz_status status =
        hspz_ref_bases_read(&s->ref_bases, path, &s->refs, prefix != NULL ? strlen(prefix) : 0,
                            s->sequence_digest, hspz_reading_show, &s->reading, err);
    hspz_progress_clear(&s->reading.progress);
    s->bases.refs = s->ref_bases.bases;
    return status;
}

/* Reads what the index must be of, and keeps its bases where they are wanted. */
static enum hspz_status
check_target(struct state *s, struct hspz_error *err)
{
    const struct hspz_hsps_run *run = s->run;
    enum hspz_status status = HSPZ_OK;
    if (run->index_of != NULL) {
        status = read_ref_bases(s, run->index_of, err);
        hspz_ref_bases_fini(&s->ref_bases);
        s->bases.refs = NULL;
    }
    return status == HSPZ_OK && run->bases != NULL ? read_ref_bases(s, run->bases, err) : status;
}

static enum hspz_status
make_plan(struct state *s, struct hspz_error *err)
{
    const size_t count = hspz_sequences_count(s->seqs);
    uint64_t *lens = calloc(count + 1, sizeof(*lens));
    if (lens == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the plan");
    }
    for (size_t i = 0; i < count; i++) {
        lens[i] = hspz_sequences_get(s->seqs, i)->len;
    }
    enum hspz_status status = hspz_file_plan_refs(&s->ref_plan, &s->refs, err);
    if (status == HSPZ_OK) {
        status = hspz_file_plan_queries(&s->query_plan, lens, count, s->run->query_block_size,
                                        s->run->balanced, err);
    }
    free(lens);
    return status;
}

/* A part's HSPs, in coordinates of the block. */
static bool
read_hsps(struct state *s, const struct hspz_part_view *part)
{
    const size_t count = part->count;
    if (s->hsps_room < count) {
        struct hspz_hsp *grown = realloc(s->hsps, count * sizeof(*grown));
        if (grown == NULL) {
            hspz_error_set(&s->failure, HSPZ_E_OUT_OF_MEMORY, "no memory for HSPs");
            return false;
        }
        s->hsps = grown;
        s->hsps_room = count;
    }
    const uint64_t behind = s->block.bases - s->piece.offset - s->piece.bases.len;
    const uint32_t shift =
        (uint32_t)(part->id.strand == HSPZ_STRAND_MINUS ? behind : s->piece.offset);
    for (size_t i = 0; i < count; i++) {
        s->hsps[i] = hspz_hsp_at(part->records, i);
        s->hsps[i].query_start += shift;
    }
    return true;
}

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct state *s = user;
    if (!read_hsps(s, part) ||
        hspz_hsp_sink_take(s->sink, &part->id, s->hsps, part->count, &s->failure) != HSPZ_OK) {
        return false;
    }
    s->hsp_count += part->count;
    if (hspz_progress_due(&s->reading.progress)) {
        hspz_progress_show(&s->reading.progress, "block %" PRIu64 " of %zu, %" PRIu64 " HSPs",
                           s->block_count + 1, s->query_plan.block_count, s->hsp_count);
    }
    return true;
}

static void
say_summary(const struct state *s, const struct hspz_discover_summary *summary)
{
    fprintf(stderr,
            "block %" PRIu64 ": %" PRIu64 " HSPs of %" PRIu64 " hits in %" PRIu64
            " chunks, digest %s; index digest %s, cap %" PRIu64 "\n",
            s->block_count, summary->hsps, summary->totals[0].hits + summary->totals[1].hits,
            summary->chunks, summary->digest[0] != '\0' ? summary->digest : "not asked for",
            summary->index_digest, summary->max_hits);
    fprintf(stderr, "server: %.3f s queued, %.3f s in the engine, %.3f s in all\n",
            (double)summary->queued_ns / 1e9, (double)summary->engine_ns / 1e9,
            (double)summary->total_ns / 1e9);
}

static enum hspz_status
ask_pieces(struct state *s, struct hspz_error *err)
{
    const uint64_t most = hspz_spread_most_bases(s->spread);
    if (s->run->compat && s->block.bases > most) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                              "query block %" PRIu64 " has %" PRIu64
                              " bases, and the server takes %" PRIu64
                              " at a time: KegAlign's plan needs the block whole; make blocks "
                              "smaller, or raise max_query_bases and max_message there",
                              s->block_count, s->block.bases, most);
    }
    struct hspz_discover_request request = s->run->request;
    request.index_digest = s->digest;
    request.interval = s->run->compat ? s->run->interval : 0;
    s->piece = (struct hspz_query_block_piece){0};
    for (;;) {
        struct hspz_discover_summary summary;
        enum hspz_status status = hspz_query_block_next(&s->block, most, &s->piece, err);
        if (status != HSPZ_OK || s->piece.count == 0) {
            return status;
        }
        if (s->piece.bases.len < s->span) {
            continue; /* no window fits: nothing to find */
        }
        request.bases = s->piece.bases;
        status = hspz_cli_settle(
            &s->failure, hspz_spread_discover(s->spread, &request, take_part, s, &summary, err),
            err);
        hspz_progress_clear(&s->reading.progress);
        if (status == HSPZ_OK && s->run->cli->verbose) {
            say_summary(s, &summary);
        }
        if (status == HSPZ_OK) {
            status = hspz_hsp_sink_flush(s->sink, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
}

static enum hspz_status
note_queries(struct state *s, size_t b, struct hspz_error *err)
{
    const struct hspz_file_plan *plan = &s->query_plan;
    hspz_places_fini(&s->queries);
    hspz_places_init(&s->queries, s->run->target.format == HSPZ_HSP_JSONL);
    for (size_t i = 0; i < plan->blocks[b].count; i++) {
        const size_t at = plan->blocks[b].first + i;
        const struct hspz_sequence *q = hspz_sequences_get(s->seqs, plan->order[at]);
        const enum hspz_status status = add_place(&s->queries, s->run->query_prefix, q->name,
                                                  q->len, 0, plan->offsets[at], err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
do_block(struct state *s, size_t b, struct hspz_error *err)
{
    enum hspz_status status =
        hspz_query_block_open(&s->block, s->seqs, &s->query_plan, b, s->run->balanced, err);
    s->bases.query = s->block.text;
    if (status == HSPZ_OK) {
        status = note_queries(s, b, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_hsp_sink_begin(s->sink, b, err);
    }
    if (status == HSPZ_OK) {
        status = ask_pieces(s, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_hsp_sink_end(s->sink, err);
    }
    if (status == HSPZ_OK) {
        s->block_count++;
    }
    return status;
}

static enum hspz_status
do_blocks(struct state *s, struct hspz_error *err)
{
    const struct hspz_hsp_sink_plan plan = {
        .refs = &s->ref_plan,
        .queries = &s->query_plan,
        .ref_places = &s->refs,
        .query_places = &s->queries,
        .span = s->span,
        .interval = s->run->interval,
        .job_intervals = s->run->compat,
        .bases = s->run->bases != NULL ? &s->bases : NULL,
        .quiet = s->run->cli->quiet,
    };
    enum hspz_status status = hspz_hsp_sink_open(&s->run->target, &plan, &s->sink, err);
    for (size_t b = 0; b < s->query_plan.block_count && status == HSPZ_OK; b++) {
        status = do_block(s, b, err);
    }
    return status == HSPZ_OK ? hspz_hsp_sink_finish(s->sink, err) : status;
}

static void
print_plan(const struct state *s)
{
    const struct hspz_file_plan_settings settings = {
        .span = s->span,
        .interval = s->run->interval,
        .strands = s->run->request.strands,
    };
    hspz_file_plan_print(&s->ref_plan, &s->query_plan, &settings, stdout);
}

static enum hspz_status
do_run(struct state *s, struct hspz_error *err)
{
    enum hspz_status status =
        hspz_cli_settle(&s->failure,
                        hspz_spread_describe(s->spread, s->run->request.index, forget_index,
                                             note_index, note_sequence, s, err),
                        err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = check_target(s, err);
    if (status == HSPZ_OK) {
        status = read_query(s, err);
    }
    if (status == HSPZ_OK) {
        status = make_plan(s, err);
    }
    if (status == HSPZ_OK && s->run->plan_only) {
        print_plan(s);
    } else if (status == HSPZ_OK) {
        status = do_blocks(s, err);
    }
    return status;
}

/* Says what failed and how much came before; not a word when the reader of our output went away. */
static void
say_failure(const struct state *s, const struct hspz_error *err)
{
    if (hspz_hsp_sink_unread(s->sink)) {
        return;
    }
    if (s->spread != NULL && err->status == HSPZ_E_NO_SERVER) {
        hspz_spread_say_failures(s->spread);
    }
    (void)hspz_cli_fail(s->run->cli, err);
    if (s->hsp_count > 0 || s->block_count > 0) {
        fprintf(stderr,
                "hspz-client: failed after %" PRIu64 " HSPs and %" PRIu64
                " whole of %zu block%s of the query; the output is not complete\n",
                s->hsp_count, s->block_count, s->query_plan.block_count,
                s->query_plan.block_count == 1 ? "" : "s");
    }
}

static void
clean_up(struct state *s)
{
    hspz_hsp_sink_close(&s->sink);
    hspz_query_block_close(&s->block);
    hspz_file_plan_fini(&s->ref_plan);
    hspz_file_plan_fini(&s->query_plan);
    hspz_sequences_destroy(&s->seqs);
    hspz_ref_bases_fini(&s->ref_bases);
    hspz_places_fini(&s->refs);
    hspz_places_fini(&s->queries);
    free(s->hsps);
    hspz_spread_close(&s->spread);
}

int
hspz_hsps_run(const struct hspz_hsps_run *run, struct hspz_client *client)
{
    struct state s = {.run = run, .reading = {.cli = run->cli, .doing = "reading"}};
    struct hspz_error err = {0};
    hspz_places_init(&s.refs, run->target.format == HSPZ_HSP_JSONL);
    hspz_places_init(&s.queries, run->target.format == HSPZ_HSP_JSONL);
    hspz_progress_begin(&s.reading.progress, run->cli->quiet);
    enum hspz_status status = hspz_spread_open(run->cli, client, &s.spread, &err);
    if (status == HSPZ_OK) {
        status = do_run(&s, &err);
    }
    hspz_progress_clear(&s.reading.progress);
    if (status != HSPZ_OK) {
        say_failure(&s, &err);
    } else if (run->cli->verbose) {
        fprintf(stderr, "%" PRIu64 " HSPs, %.3f s\n", s.hsp_count,
                hspz_progress_seconds(&s.reading.progress));
        hspz_spread_say_work(s.spread);
    }
    clean_up(&s);
    return status == HSPZ_OK ? hspz_cli_finish_stdout() : HSPZ_EXIT_FAILED;
}
