#include "client/cli.h"
#include "client/progress.h"
#include "client/query.h"
#include "client/target.h"
#include "engine/index.h"
#include "engine/sequence_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* index build: reads the sequences, says what memory the index takes, builds and writes it. */

struct build {
    const struct hspz_cli *cli;
    const char *source, *output;
    char *file; /* what `output` stands for */
    const char *seed;
    uint64_t step, threads, block_size, memory_mib;
    bool unmask, all_positions;
    struct hspz_progress progress;
    const char *doing;
};

static bool
show_progress(void *user, uint64_t done, uint64_t total)
{
    struct build *build = user;
    if (hspz_progress_due(&build->progress)) {
        hspz_progress_reading(&build->progress, build->doing, done, total);
    }
    return !hspz_cli_stopped(build->cli);
}

static void
say_need(const struct build *build, const struct hspz_sequences *seqs,
         const struct hspz_index_need *need)
{
    hspz_query_say(build->source, seqs, build->unmask);
    fprintf(stderr,
            "memory: %" PRIu64 " bytes (table %" PRIu64 ", positions %" PRIu64 ", sequence %" PRIu64
            ", work %" PRIu64 ")\n",
            need->total_bytes, need->table_bytes, need->position_bytes, need->sequence_bytes,
            need->work_bytes);
}

static enum hspz_status
build_and_write(struct build *build, const struct hspz_index_params *params,
                struct hspz_sequences **seqs, struct hspz_error *err)
{
    struct hspz_index *index = NULL;
    struct hspz_index_need need = {0};
    enum hspz_status status =
        hspz_index_build_need(*seqs, params, (unsigned)build->threads, &need, err);
    if (status != HSPZ_OK) {
        return status;
    }
    hspz_progress_clear(&build->progress);
    if (!build->cli->quiet) {
        say_need(build, *seqs, &need);
    }
    build->doing = "building";
    status = hspz_index_build(seqs, params, (unsigned)build->threads, build->memory_mib << 20,
                              show_progress, build, &index, err);
    hspz_progress_clear(&build->progress);
    if (status == HSPZ_OK) {
        status = hspz_index_write(index, build->file, err);
    }
    if (status == HSPZ_OK && !build->cli->quiet) {
        uint64_t words = 0;
        for (size_t b = 0; b < hspz_index_block_count(index); b++) {
            words += hspz_index_get_block(index, b).pos_count;
        }
        fprintf(stderr, "%s: digest %s, %" PRIu64 " words, %.1f s\n", build->output,
                hspz_index_digest(index), words, hspz_progress_seconds(&build->progress));
        if (words == 0) {
            fprintf(stderr,
                    "warning: nothing can be found in this index: no %u bases in a row are A, C, G "
                    "or T%s\n",
                    params->shape.span, params->unmask ? "" : " in upper case (see --unmask)");
        }
    }
    hspz_index_release(&index);
    return status;
}

static enum hspz_status
run_build(struct build *build, const struct hspz_shape *shape, struct hspz_error *err)
{
    const struct hspz_index_params params = {
        .shape = *shape,
        .step = (uint32_t)build->step,
        .unmask = build->unmask,
        .all_positions = build->all_positions,
    };
    struct hspz_sequences *seqs = NULL;
    hspz_progress_begin(&build->progress, build->cli->quiet);
    build->doing = "reading";
    enum hspz_status status =
        hspz_sequence_file_read(build->source, build->block_size, show_progress, build, &seqs, err);
    if (status == HSPZ_OK) {
        status = hspz_sequences_check_unique(seqs, build->source, err);
    }
    if (status == HSPZ_OK) {
        status = build_and_write(build, &params, &seqs, err);
    }
    hspz_progress_clear(&build->progress);
    hspz_sequences_destroy(&seqs);
    return status;
}

int
hspz_cmd_index_build(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                     char **argv)
{
    struct build build = {
        .cli = cli,
        .seed = "12of19",
        .step = 1,
        .block_size = HSPZ_BLOCK_BASES_DEFAULT,
    };
    const struct hspz_option own[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--output", .letter = "-o", .target = &build.output},
        {.kind = HSPZ_OPTION_TEXT, .name = "--seed", .target = &build.seed},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--step",
         .target = &build.step,
         .least = 1,
         .most = UINT32_MAX},
        {.kind = HSPZ_OPTION_FLAG, .name = "--unmask", .target = &build.unmask},
        {.kind = HSPZ_OPTION_FLAG, .name = "--all-positions", .target = &build.all_positions},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--threads",
         .target = &build.threads,
         .least = 1,
         .most = 1024},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--block-size",
         .target = &build.block_size,
         .least = 1,
         .most = HSPZ_BLOCK_BASES_LIMIT},
        {.kind = HSPZ_OPTION_NUMBER,
         .name = "--memory",
         .target = &build.memory_mib,
         .least = 1,
         .most = UINT64_MAX >> 20},
        {.kind = HSPZ_OPTION_END},
    };
    int status = 0;
    if (!hspz_cli_parse(cli, command, own, argc, argv, &build.source, 1, 1, &status)) {
        return status;
    }
    struct hspz_error err = {0};
    struct hspz_shape shape;
    if (build.output == NULL || strcmp(build.output, "-") == 0) {
        hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "-o FILE is needed%s",
                       build.output != NULL ? ": an index goes to a file, not to a pipe" : "");
        return hspz_cli_usage_error(command, &err);
    }
    if (hspz_target_check(build.source, build.output, &err) != HSPZ_OK) {
        return hspz_cli_usage_error(command, &err);
    }
    if (hspz_shape_parse(build.seed, strlen(build.seed), &shape, &err) != HSPZ_OK) {
        const struct hspz_error why = err;
        hspz_error_set(&err, HSPZ_E_BAD_REQUEST, "--seed \"%.80s\": %.300s", build.seed, why.text);
        return hspz_cli_usage_error(command, &err);
    }
    enum hspz_status good = hspz_target_resolve(build.output, &build.file, &err);
    if (good == HSPZ_OK) {
        good = run_build(&build, &shape, &err);
    }
    free(build.file);
    return good == HSPZ_OK ? HSPZ_EXIT_DONE : hspz_cli_fail(cli, &err);
}
