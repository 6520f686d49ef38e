#include "client/ref_bases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
hspz_ref_bases_fini(struct hspz_ref_bases *bases)
{
    hspz_sequences_destroy(&bases->seqs);
    free(bases->bases);
    *bases = (struct hspz_ref_bases){0};
}

static bool
is_place(const struct hspz_sequence *sequence, const struct hspz_places *places, size_t i,
         size_t prefix_len)
{
    const struct hspz_place *place = &places->items[i];
    const size_t len = strlen(sequence->name);
    return sequence->len == place->end - place->begin && len == place->text_len - prefix_len &&
           memcmp(sequence->name, places->text + place->text + prefix_len, len) == 0;
}

static bool
has_digest(const struct hspz_sequences *seqs, const char *digest)
{
    char text[17];
    snprintf(text, sizeof(text), "%016" PRIx64, hspz_sequences_digest(seqs));
    return digest[0] == '\0' || strcmp(text, digest) == 0;
}

enum hspz_status
hspz_ref_bases_read(struct hspz_ref_bases *out, const char *path, const struct hspz_places *places,
                    size_t prefix_len, const char *digest, hspz_progress_fn progress, void *user,
                    struct hspz_error *err)
{
    struct hspz_ref_bases bases = {.bases = calloc(places->count + 1, sizeof(*bases.bases))};
    enum hspz_status status =
        bases.bases != NULL
            ? hspz_sequence_file_read(path, HSPZ_BLOCK_BASES_DEFAULT, progress, user, &bases.seqs,
                                      err)
            : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%s: no memory to read it", path);
    const size_t count = status == HSPZ_OK ? hspz_sequences_count(bases.seqs) : 0;
    bool same = count == places->count;
    for (size_t i = 0; i < count && same; i++) {
        const struct hspz_sequence *sequence = hspz_sequences_get(bases.seqs, i);
        same = is_place(sequence, places, i, prefix_len);
        if (same && sequence->len > 0) {
            bases.bases[i] =
                hspz_sequences_block(bases.seqs, sequence->block).bases + sequence->offset;
        }
    }
    if (status == HSPZ_OK && !same) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "%s: its sequences are not those of the index", path);
    }
    if (status == HSPZ_OK && !has_digest(bases.seqs, digest)) {
        status = hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                "%s: its sequences have names and lengths of those of the index, "
                                "but other bases",
                                path);
    }
    if (status != HSPZ_OK) {
        hspz_ref_bases_fini(&bases);
        return status;
    }
    *out = bases;
    return HSPZ_OK;
}
