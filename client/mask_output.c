#include "client/mask_output.h"

#include "client/output.h"
#include "client/rows.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BASES 60u

static enum hspz_status
failed(const struct hspz_output *output, struct hspz_error *err)
{
    bool quiet;
    return hspz_output_error(output, &quiet, err);
}

static bool
write_text(struct hspz_output *output, const char *text)
{
    return hspz_output_write(output, text, strlen(text));
}

/* "\t" begin "\t" end "\n" */
static bool
write_run(struct hspz_output *output, const char *name, uint64_t begin, uint64_t end)
{
    char numbers[64];
    char *to = numbers;
    *to++ = '\t';
    to = hspz_rows_number(to, begin);
    *to++ = '\t';
    to = hspz_rows_number(to, end);
    *to++ = '\n';
    return write_text(output, name) && hspz_output_write(output, numbers, (size_t)(to - numbers));
}

static bool
write_runs(const struct hspz_mask_output *how, struct hspz_self_cover *cover,
           struct hspz_output *output)
{
    for (size_t i = 0; i < hspz_sequences_count(how->seqs); i++) {
        const struct hspz_sequence *sequence = hspz_sequences_get(how->seqs, i);
        const uint64_t start = how->starts[i];
        uint64_t at = start, end;
        while (hspz_self_cover_next(cover, &at, start + sequence->len, how->least, &end)) {
            if (!write_run(output, sequence->name, at - start, end - start)) {
                return false;
            }
            at = end;
        }
    }
    return !how->markend || write_text(output, HSPZ_MASK_END);
}

enum hspz_status
hspz_mask_write_bed(const struct hspz_mask_output *how, struct hspz_self_cover *cover,
                    const char *path, struct hspz_error *err)
{
    struct hspz_output *output = NULL;
    enum hspz_status status = hspz_output_open(path, &output, err);
    if (status == HSPZ_OK && !write_runs(how, cover, output)) {
        status = failed(output, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    return status;
}

static bool
write_lines(struct hspz_output *output, const char *bases, uint64_t len)
{
    for (uint64_t at = 0; at < len; at += LINE_BASES) {
        const uint64_t rest = len - at;
        if (!hspz_output_write(output, bases + at, rest < LINE_BASES ? rest : LINE_BASES) ||
            !write_text(output, "\n")) {
            return false;
        }
    }
    return true;
}

static bool
write_sequence(const struct hspz_mask_output *how, struct hspz_self_cover *cover, size_t i,
               char *bases, struct hspz_output *output)
{
    const struct hspz_sequence *sequence = hspz_sequences_get(how->seqs, i);
    const struct hspz_block block = hspz_sequences_block(how->seqs, sequence->block);
    const uint64_t start = how->starts[i];
    uint64_t at = start, end;
    memcpy(bases, block.bases + sequence->offset, sequence->len);
    while (hspz_self_cover_next(cover, &at, start + sequence->len, how->least, &end)) {
        for (; at < end; at++) {
            char *base = &bases[at - start];
            *base = *base >= 'A' && *base <= 'Z' ? (char)(*base + ('a' - 'A')) : *base;
        }
    }
    return write_text(output, ">") && write_text(output, sequence->name) &&
           write_text(output, "\n") && write_lines(output, bases, sequence->len);
}

enum hspz_status
hspz_mask_write_fasta(const struct hspz_mask_output *how, struct hspz_self_cover *cover,
                      const char *path, struct hspz_error *err)
{
    const size_t count = hspz_sequences_count(how->seqs);
    struct hspz_output *output = NULL;
    uint64_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t len = hspz_sequences_get(how->seqs, i)->len;
        longest = len > longest ? len : longest;
    }
    char *bases = malloc(longest + 1);
    if (bases == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a sequence");
    }
    enum hspz_status status = hspz_output_open(path, &output, err);
    for (size_t i = 0; i < count && status == HSPZ_OK; i++) {
        if (!write_sequence(how, cover, i, bases, output)) {
            status = failed(output, err);
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    free(bases);
    return status;
}
