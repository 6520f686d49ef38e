/* Text to sequences: whatever the bytes, pieces of any size give the same sequences or the same
 * error. The first byte is the size of the pieces. */
#include "engine/fasta.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum hspz_status
parse(const uint8_t *data, size_t size, size_t piece, struct hspz_sequences **seqs,
      struct hspz_error *err)
{
    *err = (struct hspz_error){0};
    HSPZ_REQUIRE(hspz_sequences_create(7, seqs) == HSPZ_OK);
    struct hspz_fasta *fasta = NULL;
    enum hspz_status status = hspz_fasta_create(*seqs, "fuzz", &fasta, err);
    for (size_t at = 0; status == HSPZ_OK && at < size;) {
        const size_t count = size - at < piece ? size - at : piece;
        status = hspz_fasta_feed(fasta, data + at, count, err);
        at += count;
    }
    if (status == HSPZ_OK) {
        status = hspz_fasta_finish(fasta, err);
    }
    hspz_fasta_destroy(&fasta);
    return status;
}

static void
require_equal(const struct hspz_sequences *a, const struct hspz_sequences *b)
{
    HSPZ_REQUIRE(hspz_sequences_count(a) == hspz_sequences_count(b));
    HSPZ_REQUIRE(hspz_sequences_count(a) > 0);
    HSPZ_REQUIRE(hspz_sequences_block_count(a) == hspz_sequences_block_count(b));
    HSPZ_REQUIRE(hspz_sequences_masked(a) == hspz_sequences_masked(b));
    for (size_t i = 0; i < hspz_sequences_count(a); i++) {
        const struct hspz_sequence *x = hspz_sequences_get(a, i);
        const struct hspz_sequence *y = hspz_sequences_get(b, i);
        HSPZ_REQUIRE(strcmp(x->name, y->name) == 0 && x->len == y->len && x->block == y->block &&
                     x->offset == y->offset && x->line == y->line);
        HSPZ_REQUIRE(hspz_sequences_locate(a, x->block, x->offset) == x);
    }
    for (size_t i = 0; i < hspz_sequences_block_count(a); i++) {
        const struct hspz_block x = hspz_sequences_block(a, i);
        const struct hspz_block y = hspz_sequences_block(b, i);
        HSPZ_REQUIRE(x.len == y.len && memcmp(x.bases, y.bases, x.len) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const size_t piece = 1 + (size_t)data[0];
    struct hspz_sequences *whole = NULL;
    struct hspz_sequences *pieces = NULL;
    struct hspz_error whole_err;
    struct hspz_error pieces_err;
    const enum hspz_status status = parse(data + 1, size - 1, size, &whole, &whole_err);
    HSPZ_REQUIRE(parse(data + 1, size - 1, piece, &pieces, &pieces_err) == status);
    HSPZ_REQUIRE(strcmp(whole_err.text, pieces_err.text) == 0);
    if (status == HSPZ_OK) {
        require_equal(whole, pieces);
    }
    hspz_sequences_destroy(&whole);
    hspz_sequences_destroy(&pieces);
    return 0;
}
