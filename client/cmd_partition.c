#include "client/cli.h"
#include "client/output.h"
#include "client/reading.h"
#include "client/segment_split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* partition: LASTZ commands and the segment files they name, cut so that many processes share the
 * work. Commands go to standard output when all files are written; only then are files removed.
 * After a failure it is the parts that are. */

#define MOST_DEFAULT 5000u
#define REACH_DEFAULT 10000u

static enum hspz_status
split_all(const struct hspz_split *split, FILE *in, const char *name, struct hspz_error *err)
{
    char *line = NULL;
    size_t room = 0;
    enum hspz_status status = HSPZ_OK;
    errno = 0;
    for (uint64_t number = 1; status == HSPZ_OK && getline(&line, &room, in) >= 0; number++) {
        status = hspz_split_command(split, line, number, err);
        errno = 0;
    }
    if (status == HSPZ_OK && !feof(in)) {
        status = hspz_error_errno(err, HSPZ_E_IO, errno, "%.200s: cannot read it", name);
    }
    free(line);
    return status;
}

/* The exit status. */
static int
hand_over(const struct hspz_cli *cli, const struct hspz_split_text *text, bool keep,
          const struct hspz_split_files *files)
{
    struct hspz_output *output = NULL;
    struct hspz_error err = {0};
    bool quiet = false;
    enum hspz_status status = hspz_output_open("-", &output, &err);
    if (status == HSPZ_OK && text->len > 0 && !hspz_output_write(output, text->bytes, text->len)) {
        status = hspz_output_error(output, &quiet, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, &err);
    }
    hspz_output_close(&output);
    if (status == HSPZ_OK && !keep) {
        hspz_split_files_remove(files);
    }
    return status == HSPZ_OK ? HSPZ_EXIT_DONE : hspz_cli_fail(cli, &err);
}

int
hspz_cmd_partition(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    struct hspz_reading p = {.cli = cli, .doing = "reading"};
    struct hspz_split_files done = {0}, made = {0};
    struct hspz_split_text text = {0};
    struct hspz_split split = {.most = MOST_DEFAULT,
                               .reach = REACH_DEFAULT,
                               .progress = hspz_reading_show,
                               .user = &p,
                               .commands = &text,
                               .done = &done,
                               .made = &made};
    bool keep = false;
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--segments",
         .target = &split.most,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--reach",
         .target = &split.reach,
         .least = 100,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_FLAG, .name = "--keep", .target = &keep},
        {.kind = HSPZ_OPTION_END},
    };
    const char *name = "-";
    struct hspz_error err = {0};
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, &name, 1, 1, &status)) {
        return status;
    }
    hspz_progress_begin(&p.progress, cli->quiet);
    split.source = name;
    FILE *in = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    const enum hspz_status good =
        in == NULL ? hspz_error_errno(&err, HSPZ_E_IO, errno, "%.200s: cannot open it", name)
                   : split_all(&split, in, name, &err);
    hspz_progress_clear(&p.progress);
    status = good == HSPZ_OK ? hand_over(cli, &text, keep, &done) : hspz_cli_fail(cli, &err);
    if (status != HSPZ_EXIT_DONE) {
        hspz_split_files_remove(&made);
    }
    if (in != NULL && in != stdin) {
        fclose(in);
    }
    hspz_split_text_fini(&text);
    hspz_split_files_fini(&done);
    hspz_split_files_fini(&made);
    return status;
}
