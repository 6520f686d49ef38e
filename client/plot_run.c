#include "client/plot_run.h"

#include "client/hit_run.h"
#include "client/places.h"
#include "client/plot_draw.h"
#include "client/plot_hits.h"
#include "client/plot_read.h"
#include "client/query.h"
#include "client/reading.h"
#include "engine/sequence_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Steps: the axes, from the files given, the server's index, or the matches; what of them is
 * shown, and so how large a grid; the matches, into the grid as they come; the picture, which gets
 * its name when it is whole. */

struct state {
    const struct hspz_plot_run *run;
    struct hspz_reading reading;
    struct hspz_client *client;
    struct hspz_sequences *seqs; /* the query */
    struct hspz_places refs;     /* of the index, in the order of the axis */
    struct hspz_plot_axis ref, query;
    struct hspz_plot_reader reader;
    struct hspz_plot_layout layout;
    struct hspz_plot_grid grid;
    struct hspz_hit_stats hits;
    struct hspz_hit_run hit_run;
    uint64_t span;
    char shape[HSPZ_SHAPE_SPAN_MAX + 1], digest[17];
    /* The piece of the query under way: */
    struct hspz_query_piece piece;
    uint64_t matches;
    struct hspz_error failure; /* of a callback */
};

static enum hspz_status
axis_of_file(struct state *s, const char *path, struct hspz_sequences **out,
             struct hspz_plot_axis *axis, struct hspz_error *err)
{
    struct hspz_sequences *seqs = NULL;
    enum hspz_status status = hspz_sequence_file_read(path, HSPZ_BLOCK_BASES_DEFAULT,
                                                      hspz_reading_show, &s->reading, &seqs, err);
    hspz_progress_clear(&s->reading.progress);
    for (size_t i = 0; status == HSPZ_OK && i < hspz_sequences_count(seqs); i++) {
        const struct hspz_sequence *q = hspz_sequences_get(seqs, i);
        uint32_t number = 0;
        status = hspz_plot_axis_add(axis, q->name, strlen(q->name), q->len, &number, err);
        if (status == HSPZ_OK && number != i) {
            status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                    "%.200s: two sequences are named %.200s", path, q->name);
        }
    }
    axis->fixed = true;
    if (status == HSPZ_OK && out != NULL) {
        *out = seqs;
        seqs = NULL;
    }
    hspz_sequences_destroy(&seqs);
    return status;
}

/* The axes are known: what is shown, and room for it. */
static enum hspz_status
settle(struct state *s, struct hspz_error *err)
{
    const struct hspz_plot_run *run = s->run;
    enum hspz_status status = hspz_plot_axis_settle(&s->ref, err);
    if (status == HSPZ_OK) {
        status = hspz_plot_axis_settle(&s->query, err);
    }
    if (status == HSPZ_OK && run->ref_range != NULL) {
        status = hspz_plot_axis_show(&s->ref, "--ref-range", run->ref_range, err);
    }
    if (status == HSPZ_OK && run->query_range != NULL) {
        status = hspz_plot_axis_show(&s->query, "--query-range", run->query_range, err);
    }
    if (status == HSPZ_OK && (s->ref.begin == s->ref.end || s->query.begin == s->query.end)) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST, "nothing to plot: there are no %s",
                                s->ref.all == 0 && !s->ref.fixed ? "matches" : "bases");
    }
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_plot_layout_make(&s->ref, &s->query, (double)run->width, (double)run->height, &s->layout);
    return hspz_plot_grid_init(&s->grid, &s->ref, &s->query, s->layout.columns, s->layout.rows,
                               err);
}

static enum hspz_status
plot_file(struct state *s, struct hspz_error *err)
{
    const struct hspz_plot_run *run = s->run;
    enum hspz_status status = HSPZ_OK;
    if (run->ref != NULL) {
        status = axis_of_file(s, run->ref, NULL, &s->ref, err);
    }
    if (status == HSPZ_OK && run->query != NULL) {
        status = axis_of_file(s, run->query, NULL, &s->query, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_plot_reader_init(&s->reader, &s->ref, &s->query, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_plot_reader_read(&s->reader, run->input, hspz_reading_show, &s->reading, err);
    }
    hspz_progress_clear(&s->reading.progress);
    if (status == HSPZ_OK && s->reader.needs_lengths && !s->query.fixed) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "%.200s: segments count minus positions from the end of their "
                                "query: name its file with --query",
                                run->input);
    }
    if (status == HSPZ_OK) {
        status = settle(s, err);
    }
    for (size_t i = 0; status == HSPZ_OK && i < s->reader.count; i++) {
        struct hspz_plot_match match;
        hspz_plot_reader_place(&s->reader, &s->reader.records[i], &match);
        hspz_plot_grid_add(&s->grid, &match);
    }
    return status;
}

static bool
note_index(void *user, const struct hspz_index_info *info)
{
    struct state *s = user;
    snprintf(s->digest, sizeof(s->digest), "%s", info->digest);
    snprintf(s->shape, sizeof(s->shape), "%s", info->shape);
    s->span = info->span;
    return true;
}

static bool
note_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct state *s = user;
    uint32_t number = 0;
    const size_t len = strlen(sequence->name);
    enum hspz_status status = hspz_places_add(&s->refs, sequence->name, len, sequence->len,
                                              sequence->block, sequence->offset);
    if (status == HSPZ_OK) {
        status =
            hspz_plot_axis_add(&s->ref, sequence->name, len, sequence->len, &number, &s->failure);
    }
    if (status == HSPZ_OK && number + 1 != s->refs.count) {
        status = HSPZ_E_BAD_PEER;
    }
    if (status != HSPZ_OK) {
        hspz_error_set(&s->failure, status, "reference sequence %.200s: %s", sequence->name,
                       hspz_status_text(status));
    }
    return status == HSPZ_OK;
}

/* Begin .. end of the query piece on its plus strand, as a place on the axis; false when it is not
 * inside one sequence. */
static bool
place_query(const struct state *s, uint64_t begin, uint64_t end, uint64_t *at)
{
    size_t low = s->piece.first_sequence;
    size_t high = low + s->piece.sequence_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (hspz_sequences_get(s->seqs, middle)->offset - s->piece.offset <= begin) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const struct hspz_sequence *q = hspz_sequences_get(s->seqs, low);
    const uint64_t first = q->offset - s->piece.offset;
    *at = s->query.begins[low] + begin - first;
    return begin >= first && end <= first + q->len;
}

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct state *s = user;
    const struct hspz_part_id *id = &part->id;
    size_t hint = 0;
    for (size_t i = 0; i < part->count; i++) {
        struct hspz_hsp hsp;
        if (s->run->anchors) {
            const uint64_t anchor = hspz_anchor_at(part->records, i);
            hsp = (struct hspz_hsp){.ref_start = HSPZ_ANCHOR_REF(anchor) - (uint32_t)s->span,
                                    .query_start = HSPZ_ANCHOR_QUERY(anchor) - (uint32_t)s->span,
                                    .length = (uint32_t)s->span};
        } else {
            hsp = hspz_hsp_at(part->records, i);
        }
        const uint64_t ref_end = (uint64_t)hsp.ref_start + hsp.length;
        const uint64_t query_end = (uint64_t)hsp.query_start + hsp.length;
        const uint64_t len = s->piece.bases.len;
        const bool minus = id->strand == HSPZ_STRAND_MINUS;
        const struct hspz_place *ref =
            hspz_places_find(&s->refs, id->ref_block, hsp.ref_start, ref_end, &hint);
        const uint64_t begin = minus ? len - query_end : hsp.query_start;
        uint64_t query = 0;
        if (ref == NULL || query_end > len || !place_query(s, begin, begin + hsp.length, &query)) {
            hspz_error_set(&s->failure, HSPZ_E_BAD_PEER,
                           "a match is outside every sequence: ref_block %" PRIu32
                           ", reference %" PRIu32 ", query %" PRIu32 ", length %" PRIu32,
                           id->ref_block, hsp.ref_start, hsp.query_start, hsp.length);
            return false;
        }
        struct hspz_plot_match match = {
            .ref_begin = s->ref.begins[ref - s->refs.items] + hsp.ref_start - ref->begin,
            .query_begin = query,
            .query_end = query + hsp.length,
            .strand = id->strand,
        };
        match.ref_end = match.ref_begin + hsp.length;
        hspz_plot_grid_add(&s->grid, &match);
    }
    s->matches += part->count;
    if (hspz_progress_due(&s->reading.progress)) {
        hspz_progress_show(&s->reading.progress, "%" PRIu64 " %s", s->matches,
                           s->run->anchors ? "anchors" : "HSPs");
    }
    return true;
}

static enum hspz_status
ask_piece(struct state *s, struct hspz_error *err)
{
    struct hspz_discover_request request = s->run->request;
    struct hspz_discover_summary summary;
    request.index = s->run->index;
    request.index_digest = s->digest;
    request.bases = s->piece.bases;
    request.records = s->run->anchors || s->run->hits ? HSPZ_RECORDS_ANCHORS : HSPZ_RECORDS_HSPS;
    uint64_t no_limit = request.hit_limit;
    const enum hspz_status status =
        s->run->hits ? hspz_hit_run_query(&s->hit_run, &request, &no_limit, NULL, NULL, err)
                     : hspz_client_discover(s->client, &request, take_part, s, &summary, err);
    hspz_progress_clear(&s->reading.progress);
    return hspz_cli_settle(&s->failure, status, err);
}

static enum hspz_status
ask_server(struct state *s, struct hspz_error *err)
{
    struct hspz_query_pieces pieces = {
        .seqs = s->seqs, .most_bases = hspz_query_most_bases(hspz_client_server(s->client))};
    for (;;) {
        enum hspz_status status = hspz_query_next(&pieces, &s->piece, err);
        if (status != HSPZ_OK || s->piece.sequence_count == 0) {
            return status;
        }
        if (s->piece.bases.len >= s->span) {
            status = ask_piece(s, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
    }
}

static enum hspz_status
plot_server(struct state *s, struct hspz_error *err)
{
    const struct hspz_plot_run *run = s->run;
    enum hspz_status status = hspz_cli_connect(run->cli, &s->client, err);
    if (status != HSPZ_OK) {
        return status;
    }
    status = hspz_client_index_describe(s->client, run->index, note_index, note_sequence, s, err);
    status = hspz_cli_settle(&s->failure, status, err);
    if (status != HSPZ_OK) {
        hspz_cli_explain(s->client, err);
        return status;
    }
    status = axis_of_file(s, run->query, &s->seqs, &s->query, err);
    if (status == HSPZ_OK) {
        status = settle(s, err);
    }
    if (status == HSPZ_OK && run->hits) {
        status = hspz_hit_stats_init(&s->hits, err);
        if (status == HSPZ_OK) {
            status = hspz_hit_run_init(&s->hit_run, s->client, s->shape, &s->hits, err);
        }
    }
    return status == HSPZ_OK ? ask_server(s, err) : status;
}

static const char *
last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static enum hspz_status
draw_dots(struct state *s, struct hspz_canvas *canvas, const char *title, struct hspz_error *err)
{
    const struct hspz_plot_run *run = s->run;
    const struct hspz_plot_words words = {
        .title = title,
        .noun = run->index == NULL ? "matches"
                : run->anchors     ? "anchors"
                                   : "HSPs",
        .ref = run->index != NULL ? run->index
               : run->ref != NULL ? last_name(run->ref)
                                  : "reference",
        .query = run->query != NULL ? last_name(run->query) : "query",
    };
    return hspz_plot_draw(canvas, &s->layout, &s->ref, &s->query, &s->grid, &words, err);
}

static enum hspz_status
draw(struct state *s, struct hspz_error *err)
{
    const struct hspz_plot_run *run = s->run;
    struct hspz_output *output = NULL;
    struct hspz_canvas *canvas = NULL;
    char title[256];
    if (run->title != NULL) {
        snprintf(title, sizeof(title), "%s", run->title);
    } else if (run->index != NULL) {
        snprintf(title, sizeof(title), "%.100s against %.100s", last_name(run->query), run->index);
    } else {
        snprintf(title, sizeof(title), "%.200s", last_name(run->input));
    }
    const double width = run->hits ? (double)run->width : s->layout.width;
    const double height =
        run->hits ? hspz_plot_hits_height(width, (double)run->height) : s->layout.height;
    enum hspz_status status = hspz_output_open(run->output, &output, err);
    if (status == HSPZ_OK) {
        status = hspz_canvas_create(run->kind, width, height, output, &canvas, err);
    }
    if (status == HSPZ_OK && run->hits) {
        hspz_plot_hits_draw(canvas, width, height, &s->hits, title);
    } else if (status == HSPZ_OK) {
        status = draw_dots(s, canvas, title, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_canvas_write(canvas, err);
    }
    hspz_canvas_destroy(&canvas);
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    return status;
}

int
hspz_plot_run(const struct hspz_plot_run *run)
{
    struct state s = {.run = run, .reading = {.cli = run->cli, .doing = "reading"}};
    struct hspz_error err = {0};
    hspz_plot_axis_init(&s.ref);
    hspz_plot_axis_init(&s.query);
    hspz_places_init(&s.refs, false);
    hspz_progress_begin(&s.reading.progress, run->cli->quiet);
    enum hspz_status status = run->index != NULL ? plot_server(&s, &err) : plot_file(&s, &err);
    hspz_progress_clear(&s.reading.progress);
    if (status == HSPZ_OK) {
        status = draw(&s, &err);
    }
    if (status == HSPZ_OK && run->cli->verbose && !run->hits) {
        fprintf(stderr, "%" PRIu64 " matches, %" PRIu64 " of them shown, %.3f s\n", s.grid.matches,
                s.grid.lines[0].count + s.grid.lines[1].count,
                hspz_progress_seconds(&s.reading.progress));
    }
    hspz_client_close(&s.client);
    hspz_hit_run_fini(&s.hit_run);
    hspz_hit_stats_fini(&s.hits);
    hspz_plot_grid_fini(&s.grid);
    hspz_plot_reader_fini(&s.reader);
    hspz_places_fini(&s.refs);
    hspz_sequences_destroy(&s.seqs);
    hspz_plot_axis_fini(&s.ref);
    hspz_plot_axis_fini(&s.query);
    return status == HSPZ_OK ? HSPZ_EXIT_DONE : hspz_cli_fail(run->cli, &err);
}
