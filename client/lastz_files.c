#include "client/lastz_files.h"

#include "client/output.h"
#include "client/reading.h"
#include "engine/sequence_file.h"

#include <stdio.h>
#include <string.h>

#define LINE_BASES 80u

bool
hspz_lastz_takes_name(const char *path)
{
    return strpbrk(path, "[{") == NULL && strstr(path, "::") == NULL;
}

bool
hspz_lastz_reads(const char *path)
{
    static const unsigned char twobit[2][4] = {{0x43, 0x27, 0x41, 0x1a}, {0x1a, 0x41, 0x27, 0x43}};
    unsigned char head[4] = {0};
    FILE *file = fopen(path, "re");
    const size_t len = file != NULL ? fread(head, 1, sizeof(head), file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return hspz_lastz_takes_name(path) && len == sizeof(head) &&
           (head[0] == '>' || memcmp(head, twobit[0], sizeof(head)) == 0 ||
            memcmp(head, twobit[1], sizeof(head)) == 0);
}

static bool
put_sequence(struct hspz_output *output, const char *prefix, const struct hspz_sequence *sequence,
             const uint8_t *bases)
{
    bool good = hspz_output_write(output, ">", 1) &&
                hspz_output_write(output, prefix, strlen(prefix)) &&
                hspz_output_write(output, sequence->name, strlen(sequence->name)) &&
                hspz_output_write(output, "\n", 1);
    for (uint64_t at = 0; at < sequence->len && good; at += LINE_BASES) {
        const uint64_t rest = sequence->len - at;
        good = hspz_output_write(output, bases + at, rest < LINE_BASES ? rest : LINE_BASES) &&
               hspz_output_write(output, "\n", 1);
    }
    return good;
}

enum hspz_status
hspz_lastz_copy(const struct hspz_cli *cli, const char *source, const char *prefix,
                const char *path, struct hspz_error *err)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_output *output = NULL;
    struct hspz_reading shown = {.cli = cli, .doing = "copying for LASTZ"};
    bool quiet;
    hspz_progress_begin(&shown.progress, cli->quiet);
    enum hspz_status status = hspz_sequence_file_read(source, HSPZ_BLOCK_BASES_DEFAULT,
                                                      hspz_reading_show, &shown, &seqs, err);
    hspz_progress_clear(&shown.progress);
    if (status == HSPZ_OK) {
        status = hspz_output_open(path, &output, err);
    }
    const size_t count = status == HSPZ_OK ? hspz_sequences_count(seqs) : 0;
    for (size_t i = 0; i < count && status == HSPZ_OK; i++) {
        const struct hspz_sequence *sequence = hspz_sequences_get(seqs, i);
        const struct hspz_block block = hspz_sequences_block(seqs, sequence->block);
        const uint8_t *bases = sequence->len > 0 ? block.bases + sequence->offset : NULL;
        if (!put_sequence(output, prefix != NULL ? prefix : "", sequence, bases)) {
            status = hspz_output_error(output, &quiet, err);
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    hspz_sequences_destroy(&seqs);
    return status;
}
