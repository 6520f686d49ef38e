#include "client/mask_run.h"

#include "client/mask_kmers.h"
#include "client/mask_output.h"
#include "client/private_server.h"
#include "client/query.h"
#include "client/reading.h"
#include "client/target_index.h"
#include "engine/sequence_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Steps: read the genome; have its index ready; describe it, which must have the genome's
 * sequences; per piece of the genome a job, whose HSPs are counted as they come; write what that
 * masks. */

struct state {
    const struct hspz_mask_run *run;
    struct hspz_cli cli;
    struct hspz_target_index own;
    struct hspz_private_server *server;
    struct hspz_client *client;
    struct hspz_reading reading;
    struct hspz_sequences *seqs;
    struct hspz_self_cover cover;
    uint64_t *starts; /* of each sequence, and of what would follow: numbers of their first bases */
    uint64_t *ref_starts; /* of the index's blocks */
    size_t ref_blocks;
    size_t noted;    /* sequences of the index */
    char digest[17]; /* of the index */
    const char *index;
    uint32_t span;
    uint64_t piece_start, piece_bases;
    uint64_t hsps;
    struct hspz_error failure; /* of a callback */
};

/* ---- the genome and its index ---- */

static enum hspz_status
number_bases(struct state *s, struct hspz_error *err)
{
    const size_t count = hspz_sequences_count(s->seqs);
    s->starts = calloc(count + 1, sizeof(*s->starts));
    s->ref_starts = calloc(count + 1, sizeof(*s->ref_starts));
    if (s->starts == NULL || s->ref_starts == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu sequences", count);
    }
    for (size_t i = 0; i < count; i++) {
        s->starts[i + 1] = s->starts[i] + hspz_sequences_get(s->seqs, i)->len + 1;
    }
    return hspz_self_cover_init(&s->cover, s->starts[count], s->run->interval, s->run->neighbors,
                                err);
}

static enum hspz_status
read_genome(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = hspz_sequence_file_read(
        s->run->genome, HSPZ_BLOCK_BASES_DEFAULT, hspz_reading_show, &s->reading, &s->seqs, err);
    hspz_progress_clear(&s->reading.progress);
    if (status == HSPZ_OK) {
        status = hspz_sequences_check_unique(s->seqs, s->run->genome, err);
    }
    return status == HSPZ_OK ? number_bases(s, err) : status;
}

/* A server for this run alone, with the genome's index. */
static enum hspz_status
serve_own(struct state *s, struct hspz_error *err)
{
    const struct hspz_target_build build = {
        .source = s->run->genome,
        .cache = s->run->cache,
        .shape = s->run->shape,
        .step = s->run->step,
        .block_size = HSPZ_BLOCK_BASES_DEFAULT,
    };
    enum hspz_status status = hspz_target_index_name(&s->cli, &build, &s->own, err);
    if (status == HSPZ_OK) {
        status = hspz_target_index_build(&s->cli, &build, &s->own, err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_private_settings how = {
            .index = s->own.name,
            .file = s->own.path,
            .threads = s->run->threads,
            .gpus = -1,
        };
        status = hspz_private_server_start(&s->cli, &how, &s->server, err);
    }
    if (status == HSPZ_OK) {
        s->index = s->own.name;
        hspz_cli_use_server(&s->cli, hspz_private_server_address(s->server));
    }
    return status;
}

static bool
note_index(void *user, const struct hspz_index_info *info)
{
    struct state *s = user;
    snprintf(s->digest, sizeof(s->digest), "%s", info->digest);
    s->span = (uint32_t)info->span;
    return true;
}

/* The index's sequences are the genome's, in its order. */
static bool
note_sequence(void *user, const struct hspz_sequence_info *sequence)
{
    struct state *s = user;
    const size_t i = s->noted++;
    const struct hspz_sequence *own =
        i < hspz_sequences_count(s->seqs) ? hspz_sequences_get(s->seqs, i) : NULL;
    if (own == NULL || own->len != sequence->len || strcmp(own->name, sequence->name) != 0) {
        hspz_error_set(&s->failure, HSPZ_E_BAD_REQUEST,
                       "index %.200s is not of %.200s: its sequence %zu is %.200s", s->index,
                       s->run->genome, i + 1, sequence->name);
        return false;
    }
    if (sequence->offset == 0) {
        if (sequence->block != s->ref_blocks) {
            hspz_error_set(&s->failure, HSPZ_E_BAD_PEER, "block %" PRIu64 " after %zu",
                           sequence->block, s->ref_blocks);
            return false;
        }
        s->ref_starts[s->ref_blocks++] = s->starts[i];
    }
    return true;
}

static enum hspz_status
describe_index(struct state *s, struct hspz_error *err)
{
    enum hspz_status status =
        hspz_client_index_describe(s->client, s->index, note_index, note_sequence, s, err);
    status = hspz_cli_settle(&s->failure, status, err);
    if (status == HSPZ_OK && s->noted != hspz_sequences_count(s->seqs)) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "index %.200s is not of %.200s: it has %zu sequences, not %zu",
                                s->index, s->run->genome, s->noted, hspz_sequences_count(s->seqs));
    }
    if (status != HSPZ_OK) {
        hspz_cli_explain(s->client, err);
    }
    return status;
}

/* ---- HSPs ---- */

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct state *s = user;
    const struct hspz_part_id *id = &part->id;
    const bool minus = id->strand == HSPZ_STRAND_MINUS;
    if (id->ref_block >= s->ref_blocks) {
        hspz_error_set(&s->failure, HSPZ_E_BAD_PEER, "HSPs of block %" PRIu32 " of %zu",
                       id->ref_block, s->ref_blocks);
        return false;
    }
    for (size_t i = 0; i < part->count; i++) {
        const struct hspz_hsp hsp = hspz_hsp_at(part->records, i);
        const uint64_t end = (uint64_t)hsp.query_start + hsp.length;
        if (end > s->piece_bases) {
            hspz_error_set(&s->failure, HSPZ_E_BAD_PEER,
                           "an HSP up to %" PRIu64 " of a query of %" PRIu64, end, s->piece_bases);
            return false;
        }
        const uint64_t query = s->piece_start + (minus ? s->piece_bases - end : hsp.query_start);
        if (hspz_self_cover_add(&s->cover, s->ref_starts[id->ref_block] + hsp.ref_start, query,
                                hsp.length, minus, &s->failure) != HSPZ_OK) {
            return false;
        }
    }
    s->hsps += part->count;
    if (hspz_progress_due(&s->reading.progress)) {
        hspz_progress_show(&s->reading.progress, "%" PRIu64 " HSPs", s->hsps);
    }
    return true;
}

static enum hspz_status
count_hsps(struct state *s, struct hspz_error *err)
{
    struct hspz_query_pieces pieces = {
        .seqs = s->seqs, .most_bases = hspz_query_most_bases(hspz_client_server(s->client))};
    struct hspz_discover_request request = s->run->request;
    request.index = s->index;
    request.index_digest = s->digest;
    for (;;) {
        struct hspz_query_piece piece;
        enum hspz_status status = hspz_query_next(&pieces, &piece, err);
        if (status != HSPZ_OK || piece.sequence_count == 0) {
            return status;
        }
        if (piece.bases.len < s->span) {
            continue; /* no window fits */
        }
        struct hspz_discover_summary summary;
        request.bases = piece.bases;
        s->piece_start = s->starts[piece.first_sequence];
        s->piece_bases = piece.bases.len;
        status = hspz_client_discover(s->client, &request, take_part, s, &summary, err);
        status = hspz_cli_settle(&s->failure, status, err);
        hspz_progress_clear(&s->reading.progress);
        if (status != HSPZ_OK) {
            return status;
        }
    }
}

static enum hspz_status
align_self(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = s->index == NULL ? serve_own(s, err) : HSPZ_OK;
    if (status == HSPZ_OK) {
        status = hspz_cli_connect(&s->cli, &s->client, err);
    }
    if (status == HSPZ_OK) {
        status = describe_index(s, err);
    }
    return status == HSPZ_OK ? count_hsps(s, err) : status;
}

/* ---- run ---- */

static enum hspz_status
count_kmers(struct state *s, struct hspz_error *err)
{
    const struct hspz_mask_kmers how = {
        .seqs = s->seqs,
        .starts = s->starts,
        .k = (unsigned)s->run->k,
        .least = s->run->kmers,
        .threads = (unsigned)s->run->threads,
    };
    return hspz_mask_count_kmers(&how, &s->cover, err);
}

static enum hspz_status
do_run(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = read_genome(s, err);
    if (status == HSPZ_OK) {
        status = s->run->kmers != 0 ? count_kmers(s, err) : align_self(s, err);
    }
    if (status == HSPZ_OK) {
        const struct hspz_mask_output how = {
            .seqs = s->seqs,
            .starts = s->starts,
            .least = s->run->kmers != 0 ? 1 : s->run->least,
            .markend = s->run->markend,
        };
        status = hspz_mask_write_bed(&how, &s->cover, s->run->output, err);
        if (status == HSPZ_OK && s->run->fasta != NULL) {
            status = hspz_mask_write_fasta(&how, &s->cover, s->run->fasta, err);
        }
    }
    return status;
}

int
hspz_mask_run(const struct hspz_mask_run *run)
{
    struct state s = {.run = run,
                      .cli = *run->cli,
                      .index = run->index,
                      .reading = {.cli = run->cli, .doing = "reading"}};
    struct hspz_error err = {0};
    hspz_progress_begin(&s.reading.progress, run->cli->quiet);
    const enum hspz_status status = do_run(&s, &err);
    hspz_progress_clear(&s.reading.progress);
    if (status != HSPZ_OK) {
        (void)hspz_cli_fail(&s.cli, &err);
    } else if (run->cli->verbose && run->kmers == 0) {
        fprintf(stderr,
                "%" PRIu64 " HSPs counted, %" PRIu64 " of a base with itself, %" PRIu64
                " too far apart, %.3f s\n",
                s.cover.counted, s.cover.trivial, s.cover.far,
                hspz_progress_seconds(&s.reading.progress));
    }
    hspz_client_close(&s.client);
    hspz_private_server_stop(&s.server);
    hspz_target_index_fini(&s.own);
    hspz_sequences_destroy(&s.seqs);
    hspz_self_cover_fini(&s.cover);
    free(s.starts);
    free(s.ref_starts);
    return status == HSPZ_OK ? hspz_cli_finish_stdout() : HSPZ_EXIT_FAILED;
}
