#include "client/hsp_sink.h"

#include "client/hsp_files.h"
#include "client/hsp_store.h"
#include "client/output.h"
#include "client/segment_split.h"
#include "client/segments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMANDS_NAME "lastz-commands.txt"

struct hspz_hsp_sink {
    struct hspz_hsp_target target;
    struct hspz_hsp_sink_plan plan;
    struct hspz_output *output; /* of the stream */
    struct hspz_segments *segments;
    struct hspz_segments_file *stream;
    struct hspz_hsp_files files;
    struct hspz_hsp_store store;
    bool stored;    /* HSPs are kept until the block is whole */
    bool named;     /* KegAlign's files */
    bool alone;     /* those of earlier runs are gone */
    size_t block;   /* under way */
    char *commands; /* of an archive */
    size_t commands_len, commands_room;
    uint64_t commands_given;
    struct hspz_split_files cut; /* since the last block */
};

static enum hspz_status
open_parts(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    const struct hspz_hsp_target *target = &sink->target;
    enum hspz_status status = HSPZ_OK;
    struct hspz_segments_target to = {
        .folder = target->pairs != NULL ? target->pairs : target->folder,
        .archive = target->archive,
        .gzip = target->pairs != NULL,
    };
    if (target->output != NULL) {
        status = hspz_output_open(target->output, &sink->output, err);
        to.output = sink->output;
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_open(&to, &sink->segments, err);
    }
    if (status == HSPZ_OK && sink->stored) {
        status = hspz_hsp_store_init(&sink->store, sink->plan.refs->block_count, err);
    }
    return status;
}

/* The names of a block's sequences, a line each. */
static enum hspz_status
write_names(struct hspz_hsp_sink *sink, const char *side, size_t block,
            const struct hspz_places *places, size_t first, size_t count, struct hspz_error *err)
{
    char name[64];
    size_t len = 0;
    for (size_t i = first; i < first + count; i++) {
        len += places->items[i].text_len + 1u;
    }
    char *const text = malloc(len + 1);
    if (text == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names");
    }
    char *to = text;
    for (size_t i = first; i < first + count; i++) {
        const struct hspz_place *place = &places->items[i];
        memcpy(to, places->text + place->text, place->text_len);
        to += place->text_len;
        *to++ = '\n';
    }
    snprintf(name, sizeof(name), "%s_block%zu.name", side, block);
    const enum hspz_status status = hspz_segments_text(sink->segments, name, text, len, err);
    free(text);
    return status;
}

enum hspz_status
hspz_hsp_sink_open(const struct hspz_hsp_target *target, const struct hspz_hsp_sink_plan *plan,
                   struct hspz_hsp_sink **out, struct hspz_error *err)
{
    struct hspz_hsp_sink *sink = calloc(1, sizeof(*sink));
    if (sink == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write HSPs");
    }
    sink->target = *target;
    sink->plan = *plan;
    sink->named = target->folder != NULL || target->archive != NULL;
    sink->stored =
        target->pairs != NULL || (target->output != NULL && target->format == HSPZ_HSP_SEGMENTS);
    enum hspz_status status = open_parts(sink, err);
    sink->files = (struct hspz_hsp_files){
        .segments = sink->segments,
        .refs = plan->refs,
        .ref_places = plan->ref_places,
        .query_places = plan->query_places,
        .span = plan->span,
        .interval = plan->interval,
        .job_intervals = plan->job_intervals,
    };
    if (status == HSPZ_OK && target->output != NULL && target->format == HSPZ_HSP_TSV &&
        !hspz_output_write(sink->output, HSPZ_HSP_TSV_HEADER, sizeof(HSPZ_HSP_TSV_HEADER) - 1)) {
        bool quiet;
        status = hspz_output_error(sink->output, &quiet, err);
    }
    for (size_t b = 0; sink->named && b < plan->refs->block_count && status == HSPZ_OK; b++) {
        const struct hspz_file_plan_block *block = &plan->refs->blocks[b];
        status = write_names(sink, "ref", b, plan->ref_places, block->first, block->count, err);
    }
    if (status != HSPZ_OK) {
        hspz_hsp_sink_close(&sink);
        return status;
    }
    *out = sink;
    return HSPZ_OK;
}

void
hspz_hsp_sink_close(struct hspz_hsp_sink **sink)
{
    struct hspz_hsp_sink *s = *sink;
    if (s == NULL) {
        return;
    }
    hspz_hsp_files_end(&s->files);
    hspz_segments_close(&s->segments);
    hspz_output_close(&s->output);
    hspz_hsp_store_fini(&s->store);
    hspz_split_files_fini(&s->cut);
    free(s->commands);
    free(s);
    *sink = NULL;
}

static uint64_t
block_bases(const struct hspz_hsp_sink *sink)
{
    return sink->plan.queries->blocks[sink->block].bases;
}

enum hspz_status
hspz_hsp_sink_begin(struct hspz_hsp_sink *sink, size_t query_block, struct hspz_error *err)
{
    const struct hspz_places *places = sink->plan.query_places;
    sink->block = query_block;
    if (sink->stored) {
        hspz_hsp_store_clear(&sink->store);
    }
    if (!sink->named) {
        return sink->output != NULL ? hspz_segments_file(sink->segments, NULL, &sink->stream, err)
                                    : HSPZ_OK;
    }
    const enum hspz_status status =
        write_names(sink, "query", query_block, places, 0, places->count, err);
    return status == HSPZ_OK
               ? hspz_hsp_files_begin(&sink->files, query_block, block_bases(sink), err)
               : status;
}

static struct hspz_hsp_rows
rows_of(const struct hspz_hsp_sink *sink)
{
    return (struct hspz_hsp_rows){
        .format = sink->target.format,
        .refs = sink->plan.ref_places,
        .queries = sink->plan.query_places,
        .query_len = block_bases(sink),
        .bases = sink->plan.bases,
    };
}

enum hspz_status
hspz_hsp_sink_take(struct hspz_hsp_sink *sink, const struct hspz_part_id *id,
                   const struct hspz_hsp *hsps, size_t count, struct hspz_error *err)
{
    if (sink->stored) {
        return hspz_hsp_store_add(&sink->store, id, hsps, count, err);
    }
    if (sink->named) {
        return hspz_hsp_files_take(&sink->files, id, hsps, count, err);
    }
    struct hspz_hsp_rows rows = rows_of(sink);
    rows.strand = id->strand;
    rows.ref_block = id->ref_block;
    return hspz_segments_add(sink->segments, sink->stream, &rows, hsps, count, false, err);
}

enum hspz_status
hspz_hsp_sink_flush(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    return sink->named ? hspz_hsp_files_flush(&sink->files, err) : HSPZ_OK;
}

/* To standard output, or kept for the archive. */
static enum hspz_status
pass_command(struct hspz_hsp_sink *sink, const char *line, struct hspz_error *err)
{
    if (sink->target.archive == NULL && sink->target.segment_size > 0) {
        struct hspz_split_text commands = {0};
        const struct hspz_split split = {
            .source = "commands",
            .most = sink->target.segment_size,
            .reach = sink->target.reach,
            .commands = &commands,
            .done = &sink->cut,
        };
        const enum hspz_status status =
            hspz_split_command(&split, line, ++sink->commands_given, err);
        if (commands.len > 0) {
            (void)fwrite(commands.bytes, 1, commands.len, stdout);
        }
        hspz_split_text_fini(&commands);
        return status;
    }
    if (sink->target.archive == NULL) {
        (void)fputs(line, stdout);
        return HSPZ_OK;
    }
    const size_t len = strlen(line);
    if (sink->commands_room - sink->commands_len < len) {
        const size_t want = 2 * (sink->commands_len + len);
        char *grown = realloc(sink->commands, want);
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for commands");
        }
        sink->commands = grown;
        sink->commands_room = want;
    }
    memcpy(sink->commands + sink->commands_len, line, len);
    sink->commands_len += len;
    return HSPZ_OK;
}

/* The command for one file, if there is one. */
static enum hspz_status
put_command(struct hspz_hsp_sink *sink, uint64_t interval, size_t r, enum hspz_strand strand,
            struct hspz_error *err)
{
    char name[HSPZ_SEGMENTS_NAME_BYTES];
    if (!hspz_hsp_files_has(&sink->files, interval, r, strand)) {
        return HSPZ_OK;
    }
    hspz_file_plan_segments_name(name, interval, sink->block, sink->plan.refs->blocks[r].start,
                                 strand);
    char *line = hspz_lastz_line(sink->target.lastz, r, sink->block, strand, name);
    const enum hspz_status status =
        line != NULL ? pass_command(sink, line, err)
                     : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for commands");
    free(line);
    return status;
}

/* In KegAlign's order. */
static enum hspz_status
put_commands(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t r = 0; r < sink->plan.refs->block_count; r++) {
        for (uint64_t n = 1; n <= sink->files.intervals && status == HSPZ_OK; n++) {
            status = put_command(sink, n, r, HSPZ_STRAND_PLUS, err);
            if (status == HSPZ_OK) {
                status = put_command(sink, n, r, HSPZ_STRAND_MINUS, err);
            }
        }
    }
    return status;
}

/* Files that were cut go once the commands for their parts are out. */
static void
remove_cut(struct hspz_hsp_sink *sink)
{
    for (size_t i = 0; i < sink->cut.count; i++) {
        (void)unlink(sink->cut.paths[i]);
    }
    hspz_split_files_fini(&sink->cut);
    sink->cut = (struct hspz_split_files){0};
}

static enum hspz_status
flush_stdout(struct hspz_error *err)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0
               ? HSPZ_OK
               : hspz_error_errno(err, HSPZ_E_IO, errno, "standard output: cannot write");
}

/* A reader takes all of a folder: before the first files get their names there, those go that an
 * earlier run left. */
static enum hspz_status
remove_old(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    const char *folder = sink->target.folder;
    size_t count = 0;
    if (folder == NULL || sink->alone) {
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_hsp_files_remove_old(folder, &count, err);
    if (status == HSPZ_OK && count > 0 && !sink->plan.quiet) {
        fprintf(stderr, "hspz-client: note: %s: %zu file%s of an earlier run removed\n", folder,
                count, count == 1 ? "" : "s");
    }
    sink->alone = status == HSPZ_OK;
    return status;
}

enum hspz_status
hspz_hsp_sink_end(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    const struct hspz_hsp_rows rows = rows_of(sink);
    enum hspz_status status = HSPZ_OK;
    if (sink->target.pairs != NULL) {
        status = hspz_hsp_store_write_pairs(&sink->store, sink->segments, &rows,
                                            sink->plan.queries->blocks[sink->block].first, err);
    } else if (sink->stored) {
        status = hspz_hsp_store_write(&sink->store, sink->segments, sink->stream, &rows, err);
    }
    if (status == HSPZ_OK) {
        status = remove_old(sink, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_commit(sink->segments, err);
    }
    if (status == HSPZ_OK && sink->output != NULL) {
        hspz_output_flush(sink->output);
    }
    if (status == HSPZ_OK && sink->target.lastz != NULL) {
        status = put_commands(sink, err);
    }
    if (status == HSPZ_OK && sink->target.lastz != NULL) {
        status = flush_stdout(err);
    }
    if (status == HSPZ_OK) {
        remove_cut(sink);
    }
    return status;
}

enum hspz_status
hspz_hsp_sink_finish(struct hspz_hsp_sink *sink, struct hspz_error *err)
{
    const bool kept = sink->target.lastz != NULL && sink->target.archive != NULL;
    enum hspz_status status = HSPZ_OK;
    if (kept) {
        status = hspz_segments_text(sink->segments, COMMANDS_NAME, sink->commands,
                                    sink->commands_len, err);
    }
    if (status == HSPZ_OK && kept) {
        status = hspz_segments_commit(sink->segments, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segments_finish(sink->segments, err);
    }
    if (status == HSPZ_OK && sink->output != NULL) {
        status = hspz_output_commit(sink->output, err);
    }
    if (status == HSPZ_OK && kept) {
        (void)fwrite(sink->commands != NULL ? sink->commands : "", 1, sink->commands_len, stdout);
        status = flush_stdout(err);
    }
    return status;
}

bool
hspz_hsp_sink_unread(const struct hspz_hsp_sink *sink)
{
    struct hspz_error ignored;
    bool quiet = false;
    return sink != NULL && sink->output != NULL &&
           hspz_output_error(sink->output, &quiet, &ignored) != HSPZ_OK && quiet;
}
