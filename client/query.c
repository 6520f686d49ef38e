#include "client/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Room a request needs beside its bases. */
#define REQUEST_EXTRA_BYTES 4096u

uint64_t
hspz_query_most_bases(const struct hspz_server_info *server)
{
    const uint64_t of_message = server->max_message > REQUEST_EXTRA_BYTES
                                    ? server->max_message - REQUEST_EXTRA_BYTES
                                    : server->max_message;
    return of_message < server->max_query_bases ? of_message : server->max_query_bases;
}

enum hspz_status
hspz_query_next(struct hspz_query_pieces *pieces, struct hspz_query_piece *out,
                struct hspz_error *err)
{
    const size_t count = hspz_sequences_count(pieces->seqs);
    *out = (struct hspz_query_piece){.first_sequence = pieces->next};
    if (pieces->next >= count) {
        return HSPZ_OK;
    }
    const struct hspz_sequence *first = hspz_sequences_get(pieces->seqs, pieces->next);
    if (first->len > pieces->most_bases) {
        return hspz_error_set(err, HSPZ_E_TOO_LARGE,
                              "query %.200s: %" PRIu64 " bases, and the server takes %" PRIu64
                              " at a time: raise max_query_bases and max_message there, or cut "
                              "the sequence",
                              first->name, first->len, pieces->most_bases);
    }
    size_t end = pieces->next;
    uint64_t len = 0;
    while (end < count) {
        const struct hspz_sequence *next = hspz_sequences_get(pieces->seqs, end);
        const uint64_t with_next = next->offset + next->len - first->offset;
        if (next->block != first->block || with_next > pieces->most_bases ||
            (pieces->alone && end > pieces->next)) {
            break;
        }
        len = with_next;
        end++;
    }
    const struct hspz_block block = hspz_sequences_block(pieces->seqs, first->block);
    out->bases = (struct hspz_span){.bytes = block.bases + first->offset, .len = (size_t)len};
    out->sequence_count = end - pieces->next;
    out->offset = first->offset;
    pieces->next = end;
    return HSPZ_OK;
}

void
hspz_query_say(const char *path, const struct hspz_sequences *seqs, bool unmask)
{
    const uint64_t bases = hspz_sequences_bases(seqs);
    const uint64_t masked = hspz_sequences_masked(seqs);
    const size_t count = hspz_sequences_count(seqs), blocks = hspz_sequences_block_count(seqs);
    fprintf(stderr, "%s: %zu sequence%s, %" PRIu64 " bases in %zu block%s, %.1f %% lower case%s\n",
            strcmp(path, "-") == 0 ? "standard input" : path, count, count == 1 ? "" : "s", bases,
            blocks, blocks == 1 ? "" : "s",
            bases > 0 ? 100.0 * (double)masked / (double)bases : 0.0,
            masked == 0 ? ""
            : unmask    ? " (seeded: --unmask)"
                        : " (not seeded)");
}
