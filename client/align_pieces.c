#include "client/align_pieces.h"

#include "client/children.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ARGUMENTS 256u
#define LAYOUT 1u /* part of every digest: what a piece is made from and how */
#define WAIT_MS 200
#define MOST_EXPLAINED 4u

static const char *const formats[] = {"--format=maf-", "--format=axt", "--format=paf"};

/* A LASTZ that runs on a piece. */
struct job {
    size_t piece;
    struct hspz_align_file file;
    char segments[HSPZ_ALIGN_NAME_BYTES];
};

struct round {
    struct hspz_align_pieces *pieces;
    struct hspz_children *children;
    size_t first, count;
    char (*names)[HSPZ_ALIGN_NAME_BYTES];
    size_t *order;    /* of pieces, the most work first */
    size_t *segments; /* places in the plan, piece after piece */
    size_t *begin;    /* of each piece in `segments` */
    struct job *jobs;
    uint64_t cost, cost_done;
};

/* The words of a command, in memory of their own. */
struct command {
    char target[HSPZ_ALIGN_NAME_BYTES + 48], query[HSPZ_ALIGN_NAME_BYTES + 48];
    char segments[HSPZ_ALIGN_NAME_BYTES + 16], scores[HSPZ_ALIGN_NAME_BYTES + 16];
    const char *words[MOST_ARGUMENTS];
};

static const char *
file_of(const struct hspz_align_pieces *p, const struct hspz_align_piece *piece, bool target)
{
    return target ? p->plan->target->groups[piece->target_group].file
                  : p->plan->query->groups[piece->query_group].file;
}

static void
make_command(const struct hspz_align_pieces *p, const struct hspz_align_piece *piece,
             const char *segments, struct command *out)
{
    const struct hspz_align_lastz *lastz = p->lastz;
    size_t n = 0;
    snprintf(out->target, sizeof(out->target), "%s[nameparse=darkspace][multiple]",
             file_of(p, piece, true));
    snprintf(out->query, sizeof(out->query), "%s[nameparse=darkspace]", file_of(p, piece, false));
    snprintf(out->segments, sizeof(out->segments), "--segments=%s", segments);
    out->words[n++] = lastz->program;
    out->words[n++] = out->target;
    out->words[n++] = out->query;
    out->words[n++] = formats[lastz->format];
    out->words[n++] = piece->minus ? "--strand=minus" : "--strand=plus";
    out->words[n++] = out->segments;
    out->words[n++] = "--markend";
    if (lastz->scores[0] != '\0') {
        snprintf(out->scores, sizeof(out->scores), "--scores=%s", lastz->scores);
        out->words[n++] = out->scores;
    }
    HSPZ_REQUIRE(n + lastz->option_count < MOST_ARGUMENTS);
    for (size_t i = 0; i < lastz->option_count; i++) {
        out->words[n++] = lastz->options[i];
    }
    out->words[n] = NULL;
}

/* Puts the segments of the round's pieces together, each piece's in the plan's order. */
static bool
gather_segments(struct round *round)
{
    const struct hspz_align_plan *plan = round->pieces->plan;
    round->begin = calloc(round->count + 1, sizeof(*round->begin));
    round->segments = malloc((plan->count + 1) * sizeof(*round->segments));
    if (round->begin == NULL || round->segments == NULL) {
        return false;
    }
    size_t at = 0;
    for (size_t i = 0; i < round->count; i++) {
        round->begin[i] = at;
        at += plan->pieces[round->first + i].segments;
    }
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->piece[i] >= round->first) {
            round->segments[round->begin[plan->piece[i] - round->first]++] = i;
        }
    }
    for (size_t i = 0; i < round->count; i++) {
        round->begin[i] -= plan->pieces[round->first + i].segments;
    }
    return true;
}

/* The segments of a piece as LASTZ reads them. */
static enum hspz_status
print_segments(const struct round *round, size_t number, char **text, size_t *len,
               struct hspz_error *err)
{
    const struct hspz_align_plan *plan = round->pieces->plan;
    const size_t count = plan->pieces[number].segments;
    const size_t room = count * (HSPZ_SEGMENT_TEXT_BYTES + 32) + 1;
    const size_t *places = round->segments + round->begin[number - round->first];
    char *to = malloc(room);
    if (to == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a piece's segments");
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct hspz_segment *s = &plan->segments[places[i]];
        char target[16], query[16];
        snprintf(target, sizeof(target), "s%" PRIu32, plan->target->sequences[s->target].name);
        snprintf(query, sizeof(query), "s%" PRIu32, plan->query->sequences[s->query].name);
        at += hspz_segment_print(s, target, query, to + at, room - at);
    }
    *text = to;
    *len = at;
    return HSPZ_OK;
}

/* What a piece's alignments depend on, as the name of a file without its end. */
static bool
digest_piece(const struct hspz_align_pieces *p, const struct hspz_align_piece *piece,
             const char *segments, size_t len, char *name, size_t room)
{
    struct command command;
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL || XXH3_128bits_reset(state) != XXH_OK) {
        XXH3_freeState(state);
        return false;
    }
    const uint32_t layout = LAYOUT;
    make_command(p, piece, "", &command);
    XXH3_128bits_update(state, &layout, sizeof(layout));
    XXH3_128bits_update(state, p->lastz->build, strlen(p->lastz->build) + 1);
    for (const char **word = command.words + 1; *word != NULL; word++) {
        XXH3_128bits_update(state, *word, strlen(*word) + 1);
    }
    XXH3_128bits_update(state, segments, len);
    const XXH128_hash_t digest = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(name, room, "%016" PRIx64 "%016" PRIx64, (uint64_t)digest.high64,
             (uint64_t)digest.low64);
    return true;
}

static void
show(const struct round *round)
{
    struct hspz_align_pieces *p = round->pieces;
    if (!hspz_progress_due(p->progress)) {
        return;
    }
    char bar[21];
    const int full = round->cost > 0 ? (int)(20 * round->cost_done / round->cost) : 20;
    for (int i = 0; i < 20; i++) {
        bar[i] = i < full ? '#' : '.';
    }
    bar[20] = '\0';
    hspz_progress_show(p->progress, "aligning [%s] %zu of %zu pieces, %zu running, %.0f s", bar,
                       p->done, p->plan->piece_count, hspz_children_running(round->children),
                       hspz_progress_seconds(p->progress));
}

static void
count_done(struct round *round, size_t piece)
{
    round->pieces->done++;
    round->cost_done += round->pieces->plan->pieces[piece].cost;
}

/* A free place among the jobs. */
static struct job *
free_job(struct round *round)
{
    struct job *job = round->jobs;
    while (job->file.fd >= 0) {
        job++;
    }
    return job;
}

/* Whether the folder has a piece, up to LASTZ's last line. */
static bool
has_whole(const struct hspz_align_folder *folder, const char *name)
{
    const int fd = openat(folder->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const bool whole = fd >= 0 && hspz_alignments_whole(fd);
    if (fd >= 0) {
        close(fd);
    }
    return whole;
}

/* Starts LASTZ on a piece, unless the folder has what it would print. */
static enum hspz_status
start_piece(struct round *round, size_t number, struct hspz_error *err)
{
    struct hspz_align_pieces *p = round->pieces;
    const struct hspz_align_piece *piece = &p->plan->pieces[number];
    char *text = NULL;
    size_t len = 0;
    char digest[40];
    enum hspz_status status = print_segments(round, number, &text, &len, err);
    if (status == HSPZ_OK && !digest_piece(p, piece, text, len, digest, sizeof(digest))) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a digest");
    }
    if (status != HSPZ_OK) {
        free(text);
        return status;
    }
    char *name = round->names[number - round->first];
    snprintf(name, HSPZ_ALIGN_NAME_BYTES, "hspz-p-%s", digest);
    if (has_whole(p->folder, name)) {
        p->reused++;
        count_done(round, number);
        free(text);
        return HSPZ_OK;
    }
    struct job *job = free_job(round);
    struct command command;
    job->piece = number;
    snprintf(job->segments, sizeof(job->segments), "hspz-s-%s.segments", digest);
    status = hspz_align_file_put(p->folder, job->segments, text, len, err);
    free(text);
    if (status == HSPZ_OK) {
        status = hspz_align_file_create(p->folder, name, &job->file, err);
    }
    if (status == HSPZ_OK) {
        make_command(p, piece, job->segments, &command);
        status = hspz_children_start(round->children, command.words, p->folder->path, job->file.fd,
                                     (size_t)(job - round->jobs), err);
    }
    return status;
}

static void
print_command(const struct hspz_align_pieces *p, const struct job *job)
{
    struct command command;
    make_command(p, &p->plan->pieces[job->piece], job->segments, &command);
    fprintf(stderr, "command: cd '%s' &&", p->folder->path);
    for (const char **word = command.words; *word != NULL; word++) {
        fprintf(stderr, strpbrk(*word, " []*?'\"$\\") != NULL ? " '%s'" : " %s", *word);
    }
    fprintf(stderr, "\n");
}

/* Sequences that LASTZ speaks of by the names we gave them. */
static void
explain_names(const struct hspz_align_pieces *p, const char *said)
{
    unsigned explained = 0;
    for (const char *at = strchr(said, 's'); at != NULL && explained < MOST_EXPLAINED;
         at = strchr(at + 1, 's')) {
        const size_t digits = strspn(at + 1, "0123456789");
        const bool word = at == said || strchr(" >/\"'(\n", at[-1]) != NULL;
        uint64_t number = 0;
        for (size_t i = 1; word && i <= digits && number < UINT32_MAX; i++) {
            number = 10 * number + (uint64_t)(at[i] - '0');
        }
        if (word && digits > 0 && number < p->names->count) {
            fprintf(stderr, "s%" PRIu64 " is %s\n", number,
                    hspz_names_get(p->names, (uint32_t)number));
            explained++;
        }
    }
}

/* Says all that is known of a LASTZ that failed. */
static enum hspz_status
failed(const struct round *round, const struct job *job, const struct hspz_child_end *end,
       const char *how, struct hspz_error *err)
{
    hspz_progress_clear(round->pieces->progress);
    print_command(round->pieces, job);
    if (end->said[0] != '\0') {
        const size_t len = strlen(end->said);
        fprintf(stderr, "it said: %s%s%s", end->said_all ? "" : "... ", end->said,
                end->said[len - 1] == '\n' ? "" : "\n");
        explain_names(round->pieces, end->said);
    }
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "lastz failed on %zu segments: %s",
                          round->pieces->plan->pieces[job->piece].segments, how);
}

/* A LASTZ has ended: its file is taken when all is well. */
static enum hspz_status
take_piece(struct round *round, const struct hspz_child_end *end, struct hspz_error *err)
{
    struct hspz_align_pieces *p = round->pieces;
    struct job *job = &round->jobs[end->tag];
    char how[160], path[512];
    if (end->write_error != 0) {
        return hspz_error_errno(
            err, HSPZ_E_IO, end->write_error, "%s: cannot write",
            hspz_align_folder_path(p->folder, job->file.name, path, sizeof(path)));
    }
    if (WIFSIGNALED(end->wait_status)) {
        snprintf(how, sizeof(how), "killed by signal %d (%s)", WTERMSIG(end->wait_status),
                 strsignal(WTERMSIG(end->wait_status)));
        return failed(round, job, end, how, err);
    }
    if (WEXITSTATUS(end->wait_status) != 0) {
        snprintf(how, sizeof(how), "exit status %d", WEXITSTATUS(end->wait_status));
        return failed(round, job, end, how, err);
    }
    /* The part of the file that we hold can only be written: it is looked at through another. */
    if (!has_whole(p->folder, job->file.part)) {
        return failed(round, job, end, "exit status 0, but it has not written its last line", err);
    }
    const enum hspz_status status = hspz_align_file_finish(p->folder, &job->file, err);
    if (status == HSPZ_OK) {
        (void)unlinkat(p->folder->fd, job->segments, 0);
        p->cut_alignments += end->cut_alignments;
        count_done(round, job->piece);
    }
    return status;
}

static enum hspz_status
wait_for_one(struct round *round, struct hspz_error *err)
{
    struct hspz_child_end end;
    bool ended = false;
    enum hspz_status status = HSPZ_OK;
    while (status == HSPZ_OK && !ended) {
        show(round);
        status = hspz_children_wait(round->children, WAIT_MS, &ended, &end, err);
    }
    /* Who stops us may have stopped LASTZ too: then that is what happened. */
    if (status == HSPZ_OK && hspz_cli_stopped(round->pieces->cli)) {
        status = hspz_error_set(err, HSPZ_E_STOPPED, "stopped by the caller");
    }
    return status == HSPZ_OK ? take_piece(round, &end, err) : status;
}

static int
compare_cost(const void *a, const void *b, void *user)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    const struct hspz_align_piece *pieces = user;
    return pieces[x].cost != pieces[y].cost ? (pieces[x].cost < pieces[y].cost ? 1 : -1)
                                            : (x > y) - (x < y);
}

static enum hspz_status
run_all(struct round *round, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < round->count; i++) {
        if (hspz_children_running(round->children) == round->pieces->processes) {
            status = wait_for_one(round, err);
        }
        if (status == HSPZ_OK) {
            status = start_piece(round, round->order[i], err);
        }
    }
    while (status == HSPZ_OK && hspz_children_running(round->children) > 0) {
        status = wait_for_one(round, err);
    }
    return status;
}

enum hspz_status
hspz_align_pieces_run(struct hspz_align_pieces *pieces, size_t first,
                      char (*names)[HSPZ_ALIGN_NAME_BYTES], struct hspz_error *err)
{
    const size_t count = pieces->plan->piece_count - first;
    struct round round = {.pieces = pieces, .first = first, .count = count, .names = names};
    round.order = malloc((count + 1) * sizeof(*round.order));
    round.jobs = malloc(pieces->processes * sizeof(*round.jobs));
    enum hspz_status status = HSPZ_OK;
    if (round.order == NULL || round.jobs == NULL || !gather_segments(&round)) {
        status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu pieces", count);
    } else {
        for (size_t i = 0; i < pieces->processes; i++) {
            round.jobs[i].file.fd = -1;
        }
        for (size_t i = 0; i < count; i++) {
            round.order[i] = first + i;
            round.cost += pieces->plan->pieces[first + i].cost;
        }
        qsort_r(round.order, count, sizeof(*round.order), compare_cost, pieces->plan->pieces);
        status = hspz_children_create((size_t)pieces->processes, pieces->cli->stop_fd,
                                      &round.children, err);
    }
    if (status == HSPZ_OK) {
        status = run_all(&round, err);
    }
    hspz_children_destroy(&round.children);
    for (size_t i = 0; round.jobs != NULL && i < pieces->processes; i++) {
        hspz_align_file_drop(pieces->folder, &round.jobs[i].file);
    }
    hspz_progress_clear(pieces->progress);
    free(round.order);
    free(round.jobs);
    free(round.segments);
    free(round.begin);
    return status;
}
