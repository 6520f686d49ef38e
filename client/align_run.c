#include "client/align_run.h"

#include "client/align_output.h"
#include "client/align_pieces.h"
#include "client/progress.h"
#include "engine/cpu/pool.h"
#include "engine/shown_path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOPSIDED_COST UINT64_C(20000000)
#define GROUP_BASES UINT64_C(50000000) /* a longer sequence is a group of its own */

struct run {
    const struct hspz_align_request *request;
    struct hspz_align_lastz lastz;
    struct hspz_align_folder folder;
    bool temporary; /* the folder goes in any case */
    struct hspz_names names;
    struct hspz_segment_paths paths;
    struct hspz_segment_list segments;
    struct hspz_align_side target, query;
    struct hspz_align_plan plan;
    struct hspz_align_pieces pieces;
    char (*files)[HSPZ_ALIGN_NAME_BYTES]; /* of pieces, in the folder */
    struct hspz_alignments alignments;
    size_t mended; /* pieces made of parts of others */
    struct hspz_progress progress;
    const char *doing;
};

static bool
show_progress(void *user, uint64_t done, uint64_t total)
{
    struct run *run = user;
    if (hspz_progress_due(&run->progress)) {
        hspz_progress_reading(&run->progress, run->doing, done, total);
    }
    return !hspz_cli_stopped(run->request->cli);
}

/* Has a server find HSPs: a segment file in the work folder. */
static enum hspz_status
discover(struct run *run, struct hspz_error *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s/hspz-hsps", run->folder.path) < 0) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a name");
    }
    struct hspz_hsps_run hsps = *run->request->discovery;
    hsps.target = (struct hspz_hsp_target){.output = path, .format = HSPZ_HSP_SEGMENTS};
    const int code = hspz_hsps_run(&hsps, NULL);
    enum hspz_status status =
        code == HSPZ_EXIT_DONE
            ? hspz_segment_paths_add(&run->paths, path, err)
            : hspz_error_set(err, HSPZ_E_INCOMPLETE, "without HSPs nothing can be aligned");
    if (hspz_cli_stopped(run->request->cli)) {
        status = hspz_error_set(err, HSPZ_E_STOPPED, "stopped by the caller");
    }
    free(path);
    return status;
}

static enum hspz_status
read_segments(struct run *run, struct hspz_error *err)
{
    const struct hspz_align_request *request = run->request;
    enum hspz_status status = request->discovery != NULL ? discover(run, err) : HSPZ_OK;
    run->doing = "reading segments";
    for (size_t i = 0; status == HSPZ_OK && i < request->segment_count; i++) {
        status = hspz_segment_paths_add(&run->paths, request->segments[i], err);
    }
    if (status == HSPZ_OK) {
        status = hspz_segment_paths_read(&run->paths, &run->segments, show_progress, run, err);
    }
    return status;
}

static enum hspz_status
read_side(struct run *run, bool target, struct hspz_align_side *out, struct hspz_error *err)
{
    const struct hspz_align_request *request = run->request;
    uint8_t *needed = calloc(run->names.count + 1, 1);
    if (needed == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names");
    }
    for (size_t i = 0; i < run->segments.count; i++) {
        const struct hspz_segment *s = &run->segments.segments[i];
        needed[target ? s->target : s->query] = 1;
    }
    const struct hspz_align_source source = {
        .path = target ? request->target : request->query,
        .letter = target ? 't' : 'q',
        .needed = needed,
        .group_bases = request->cut.reach != 0 ? GROUP_BASES : UINT64_MAX,
    };
    run->doing = target ? "reading the target" : "reading the query";
    const enum hspz_status status =
        hspz_align_side_read(&source, &run->names, &run->folder, show_progress, run, out, err);
    free(needed);
    return status;
}

static enum hspz_status
misfit(const struct run *run, const struct hspz_segment *s, bool target, const char *what,
       struct hspz_error *err)
{
    const struct hspz_shown_path shown = hspz_shown_path_make(run->paths.paths[s->file]);
    return hspz_error_set(err, HSPZ_E_BAD_FILE, "%s: line %" PRIu64 ": %s %.100s %s %.100s",
                          shown.text, s->line, target ? "target" : "query",
                          hspz_names_get(&run->names, target ? s->target : s->query), what,
                          target ? run->request->target : run->request->query);
}

/* Segments get places of sequences instead of names; those that do not fit are refused. */
static enum hspz_status
place_segments(struct run *run, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < run->segments.count; i++) {
        struct hspz_segment *s = &run->segments.segments[i];
        const uint32_t target = run->target.by_name[s->target];
        const uint32_t query = run->query.by_name[s->query];
        if (target == HSPZ_ALIGN_ABSENT || query == HSPZ_ALIGN_ABSENT) {
            status = misfit(run, s, target == HSPZ_ALIGN_ABSENT, "is no sequence of", err);
        } else if (s->target_start + s->len > run->target.sequences[target].len) {
            status = misfit(run, s, true, "is not that long in", err);
        } else if (s->query_start + s->len > run->query.sequences[query].len) {
            status = misfit(run, s, false, "is not that long in", err);
        } else {
            s->target = target;
            s->query = query;
        }
    }
    return status;
}

/* Standard output, a device or a pipe: written straight, and opened once. */
static bool
is_stream(const char *output)
{
    struct stat st;
    return strcmp(output, "-") == 0 ||
           (stat(output, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* What cannot be written is told before the work, not after it. */
static enum hspz_status
check_output(const char *path, struct hspz_error *err)
{
    struct hspz_output *output = NULL;
    const enum hspz_status status =
        is_stream(path) ? HSPZ_OK : hspz_output_open(path, &output, err);
    hspz_output_close(&output);
    return status;
}

static enum hspz_status
open_folder(struct run *run, struct hspz_error *err)
{
    const struct hspz_align_request *request = run->request;
    char *path = NULL;
    if (request->work != NULL) {
        path = strdup(request->work);
    } else if (!is_stream(request->output)) {
        path = asprintf(&path, "%s.pieces", request->output) < 0 ? NULL : path;
    } else {
        const char *tmp = hspz_cli_environment("TMPDIR");
        path =
            asprintf(&path, "%s/hspz-align.XXXXXX", tmp != NULL ? tmp : "/tmp") < 0 ? NULL : path;
        run->temporary = path != NULL && mkdtemp(path) != NULL;
        if (path != NULL && !run->temporary) {
            const enum hspz_status status = hspz_error_errno(err, HSPZ_E_IO, errno, "%s", path);
            free(path);
            return status;
        }
    }
    if (path == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the work folder's name");
    }
    const enum hspz_status status = hspz_align_folder_open(path, &run->folder, err);
    free(path);
    return status;
}

static enum hspz_status
read_piece(struct run *run, size_t piece, struct hspz_error *err)
{
    char path[512];
    const struct hspz_align_reading reading = {
        .format = run->request->format,
        .target = &run->target,
        .query = &run->query,
        .cells = &run->plan.cells,
        .path = hspz_align_folder_path(&run->folder, run->files[piece], path, sizeof(path)),
        .piece = (uint32_t)piece,
    };
    const int fd = openat(run->folder.fd, run->files[piece], O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "rbe") : NULL;
    if (file == NULL) {
        const int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        return hspz_error_errno(err, HSPZ_E_IO, error, "%s: cannot read it", path);
    }
    const enum hspz_status status =
        hspz_alignments_read(&reading, file, run->names.count, &run->alignments, err);
    fclose(file);
    if (status == HSPZ_E_BAD_FILE) {
        (void)unlinkat(run->folder.fd, run->files[piece], 0); /* nothing to go on from */
    }
    return status;
}

/* Runs pieces `first` and later, and reads what they give. */
static enum hspz_status
run_pieces(struct run *run, size_t first, struct hspz_error *err)
{
    char(*files)[HSPZ_ALIGN_NAME_BYTES] =
        realloc(run->files, (run->plan.piece_count + 1) * sizeof(*files));
    if (files == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for the pieces' names");
    }
    run->files = files;
    enum hspz_status status = hspz_align_pieces_run(&run->pieces, first, files + first, err);
    for (size_t i = first; status == HSPZ_OK && i < run->plan.piece_count; i++) {
        status = read_piece(run, i, err);
    }
    return status;
}

/* Drops alignments of components that were done again, and those of identical sequences that LASTZ
 * adds to every piece. */
static enum hspz_status
keep_owned(struct run *run, struct hspz_error *err)
{
    uint32_t *owners = NULL;
    const enum hspz_status status = hspz_align_plan_owners(&run->plan, &owners, err);
    size_t kept = 0;
    for (size_t i = 0; status == HSPZ_OK && i < run->alignments.count; i++) {
        const struct hspz_alignment *a = &run->alignments.items[i];
        const uint32_t owner = owners[hspz_cells_find(&run->plan.cells, a->cell)];
        if (owner == a->piece || owner == HSPZ_ALIGN_NO_PIECE) {
            run->alignments.items[kept++] = *a;
        }
    }
    run->alignments.count = status == HSPZ_OK ? kept : run->alignments.count;
    free(owners);
    return status;
}

static enum hspz_status
align(struct run *run, struct hspz_error *err)
{
    size_t again = 0, first = 0;
    enum hspz_status status = HSPZ_OK;
    do {
        status = run_pieces(run, first, err);
        first = run->plan.piece_count;
        if (status == HSPZ_OK) {
            status = hspz_align_plan_mend(&run->plan, &again, err);
            run->mended += again;
        }
    } while (status == HSPZ_OK && again > 0);
    if (status == HSPZ_OK) {
        status = keep_owned(run, err);
    }
    return status;
}

static enum hspz_status
print(struct run *run, struct hspz_error *err)
{
    hspz_alignments_sort(&run->alignments);
    return hspz_align_print(
        &(struct hspz_align_printing){
            .cli = run->request->cli,
            .path = run->request->output,
            .lastz = &run->lastz,
            .folder = &run->folder,
            .files = (const char(*)[HSPZ_ALIGN_NAME_BYTES])run->files,
            .names = &run->names,
            .target = &run->target,
            .query = &run->query,
            .alignments = &run->alignments,
        },
        err);
}

static void
say_done(const struct run *run)
{
    const struct hspz_cli *cli = run->request->cli;
    if (run->pieces.cut_alignments > 0) {
        fprintf(stderr,
                "warning: LASTZ cut %" PRIu64 " extensions short for want of memory; "
                "-- --allocate:traceback=1.99G gives it more\n",
                run->pieces.cut_alignments);
    }
    if (!cli->quiet) {
        fprintf(stderr, "%zu alignments of %zu segments, %zu pieces (%zu done before",
                run->alignments.count, run->plan.count, run->pieces.done, run->pieces.reused);
        if (run->mended > 0) {
            fprintf(stderr, ", %zu done again", run->mended);
        }
        fprintf(stderr, "), %.1f s\n", hspz_progress_seconds(&run->progress));
    }
}

/* One piece that is most of the work decides how long all takes. */
static void
say_if_lopsided(const struct run *run)
{
    uint64_t all = 0, most = 0;
    for (size_t i = 0; i < run->plan.piece_count; i++) {
        const uint64_t cost = run->plan.pieces[i].cost;
        all += cost;
        most = cost > most ? cost : most;
    }
    if (!run->request->cli->quiet && run->request->cut.reach != 0 && most > LOPSIDED_COST &&
        most > all / 2) {
        fprintf(stderr,
                "note: %.0f %% of the work are segments near each other, which stay in one process;"
                " a lower --reach may part them\n",
                100.0 * (double)most / (double)all);
    }
}

static enum hspz_status
prepare(struct run *run, struct hspz_error *err)
{
    enum hspz_status status = hspz_align_lastz_find(&run->lastz, run->request->cli->stop_fd, err);
    if (status == HSPZ_OK) {
        status = check_output(run->request->output, err);
    }
    if (status == HSPZ_OK) {
        status = open_folder(run, err);
    }
    if (status == HSPZ_OK) {
        status = read_segments(run, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_align_scores_copy(run->request->scores, &run->folder, &run->lastz, err);
    }
    if (status == HSPZ_OK) {
        status = read_side(run, true, &run->target, err);
    }
    if (status == HSPZ_OK) {
        status = read_side(run, false, &run->query, err);
    }
    if (status == HSPZ_OK) {
        status = place_segments(run, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_align_plan_make(&run->target, &run->query, &run->segments, run->request->cut,
                                      &run->plan, err);
    }
    hspz_segment_list_fini(&run->segments); /* the plan has its own */
    hspz_progress_clear(&run->progress);
    if (status == HSPZ_OK) {
        say_if_lopsided(run);
    }
    return status;
}

static void
run_fini(struct run *run, bool done)
{
    if (run->folder.path != NULL && (done || run->temporary)) {
        hspz_align_folder_remove(&run->folder);
    } else if (run->folder.path != NULL) {
        fprintf(stderr, "%s is kept in %s: the same command goes on from there\n",
                run->pieces.done > 0 ? "what is done" : "what is prepared", run->folder.path);
        hspz_align_folder_close(&run->folder);
    }
    hspz_alignments_fini(&run->alignments);
    free(run->files);
    hspz_align_plan_fini(&run->plan);
    hspz_align_side_fini(&run->target);
    hspz_align_side_fini(&run->query);
    hspz_segment_list_fini(&run->segments);
    hspz_segment_paths_fini(&run->paths);
    hspz_names_fini(&run->names);
}

int
hspz_align_run(const struct hspz_align_request *request)
{
    struct run run = {
        .request = request,
        .lastz = {.program = request->lastz,
                  .format = request->format,
                  .options = request->options,
                  .option_count = request->option_count},
    };
    struct hspz_error err = {0};
    hspz_names_init(&run.names);
    hspz_segment_list_init(&run.segments, &run.names);
    hspz_progress_begin(&run.progress, request->cli->quiet);
    enum hspz_status status = prepare(&run, &err);
    run.pieces = (struct hspz_align_pieces){
        .cli = request->cli,
        .lastz = &run.lastz,
        .folder = &run.folder,
        .plan = &run.plan,
        .names = &run.names,
        .progress = &run.progress,
        .processes = request->processes != 0 ? request->processes : hspz_pool_processors(),
    };
    if (status == HSPZ_OK) {
        status = align(&run, &err);
    }
    if (status == HSPZ_OK) {
        status = print(&run, &err);
    }
    hspz_progress_clear(&run.progress);
    if (status == HSPZ_OK) {
        say_done(&run);
    }
    const int code = status == HSPZ_OK ? HSPZ_EXIT_DONE : hspz_cli_fail(request->cli, &err);
    run_fini(&run, status == HSPZ_OK);
    return code;
}
