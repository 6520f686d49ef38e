#include "client/cli.h"
#include "client/hsp_compare.h"
#include "client/progress.h"
#include "client/segment_file.h"

#include <inttypes.h>
#include <stdlib.h>

/* compare: two sets of HSPs, each a file or all segment files of a folder. */

#define TOLERANCE_DEFAULT 10u
#define TOLERANCE_MOST 1000000u

struct comparison {
    const struct hspz_cli *cli;
    struct hspz_names names;
    struct hspz_segment_list lists[2];
    struct hspz_hsp_match *matches[2];
    struct hspz_progress progress;
    bool list;
};

static bool
show_progress(void *user, uint64_t done, uint64_t total)
{
    struct comparison *c = user;
    if (hspz_progress_due(&c->progress)) {
        hspz_progress_reading(&c->progress, "reading", done, total);
    }
    return !hspz_cli_stopped(c->cli);
}

static enum hspz_status
read_set(struct comparison *c, const char *path, struct hspz_segment_list *list,
         struct hspz_error *err)
{
    struct hspz_segment_paths paths = {0};
    enum hspz_status status = hspz_segment_paths_add(&paths, path, err);
    if (status == HSPZ_OK) {
        status = hspz_segment_paths_read(&paths, list, show_progress, c, err);
    }
    hspz_segment_paths_fini(&paths);
    return status;
}

static void
print_segment(const struct comparison *c, const struct hspz_segment *s)
{
    printf("\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%c\t%" PRId32,
           hspz_names_get(&c->names, s->target), s->target_start + 1, s->target_start + s->len,
           hspz_names_get(&c->names, s->query), s->query_start + 1, s->query_start + s->len,
           s->minus ? '-' : '+', s->score);
}

/* A line for each HSP that is not equal; one for both of a pair. */
static void
print_list(const struct comparison *c)
{
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c->lists[side].count; i++) {
            const struct hspz_hsp_match *match = &c->matches[side][i];
            const bool paired = match->of < HSPZ_HSP_CONTAINED;
            if (match->of == HSPZ_HSP_EQUAL || (paired && side == 1)) {
                continue;
            }
            printf("%s\t%s", hspz_hsp_class_name(match->of), paired ? "AB" : side == 0 ? "A" : "B");
            print_segment(c, &c->lists[side].segments[i]);
            if (match->of != HSPZ_HSP_ONLY) {
                print_segment(c, &c->lists[1 - side].segments[match->other]);
            }
            printf("\n");
        }
    }
}

/* The exit status. */
static int
print(const struct comparison *c)
{
    size_t counts[2][HSPZ_HSP_CLASSES] = {{0}, {0}};
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c->lists[side].count; i++) {
            counts[side][c->matches[side][i].of]++;
        }
    }
    printf("#class\tA\tB\n");
    for (int of = 0; of < HSPZ_HSP_CLASSES; of++) {
        printf("%s\t%zu\t%zu\n", hspz_hsp_class_name((enum hspz_hsp_class)of), counts[0][of],
               counts[1][of]);
    }
    if (c->list) {
        print_list(c);
    }
    const bool same = counts[0][HSPZ_HSP_EQUAL] == c->lists[0].count &&
                      counts[1][HSPZ_HSP_EQUAL] == c->lists[1].count;
    const int written = hspz_cli_finish_stdout();
    return written != HSPZ_EXIT_DONE || same ? written : HSPZ_EXIT_FAILED;
}

int
hspz_cmd_compare(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    struct comparison c = {.cli = cli};
    uint64_t tolerance = TOLERANCE_DEFAULT;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--tolerance",
         .target = &tolerance,
         .most = TOLERANCE_MOST},
        {.kind = HSPZ_OPTION_FLAG, .name = "--list", .target = &c.list},
        {.kind = HSPZ_OPTION_END},
    };
    const char *sets[2] = {NULL, NULL};
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, sets, 2, 2, &status)) {
        return status;
    }
    hspz_names_init(&c.names);
    hspz_segment_list_init(&c.lists[0], &c.names);
    hspz_segment_list_init(&c.lists[1], &c.names);
    hspz_progress_begin(&c.progress, cli->quiet);
    enum hspz_status good = HSPZ_OK;
    for (size_t i = 0; good == HSPZ_OK && i < 2; i++) {
        good = read_set(&c, sets[i], &c.lists[i], &err);
    }
    if (good == HSPZ_OK) {
        struct hspz_segment_list *const lists[2] = {&c.lists[0], &c.lists[1]};
        good = hspz_hsp_compare(lists, tolerance, c.matches, &err);
    }
    hspz_progress_clear(&c.progress);
    /* Two sets that could not be read do not differ: that is no answer. */
    status = good == HSPZ_OK ? print(&c) : (hspz_cli_fail(cli, &err), HSPZ_EXIT_USAGE);
    for (size_t i = 0; i < 2; i++) {
        free(c.matches[i]);
        hspz_segment_list_fini(&c.lists[i]);
    }
    hspz_names_fini(&c.names);
    return status;
}
