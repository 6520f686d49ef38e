/* 2bit to sequences: no input makes more bases than four times its bytes, and what is read holds
 * only ACGTN in either case. */
#include "engine/twobit.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    HSPZ_REQUIRE(hspz_sequences_create(100, &seqs) == HSPZ_OK);
    const enum hspz_status status =
        hspz_twobit_read((struct hspz_span){data, size}, "fuzz", NULL, NULL, seqs, &err);
    HSPZ_REQUIRE(hspz_sequences_bases(seqs) <= 4 * (uint64_t)size);
    HSPZ_REQUIRE(status == HSPZ_OK ? hspz_sequences_count(seqs) > 0 : err.text[0] != '\0');
    for (size_t b = 0; status == HSPZ_OK && b < hspz_sequences_block_count(seqs); b++) {
        const struct hspz_block block = hspz_sequences_block(seqs, b);
        for (uint32_t i = 0; i < block.len; i++) {
            HSPZ_REQUIRE(block.bases[i] != '\0' && strchr("ACGTNacgtn&", block.bases[i]) != NULL);
        }
    }
    hspz_sequences_destroy(&seqs);
    return 0;
}
