/* The query of a discover command, cut into pieces a server takes: whole sequences, in order. */
#pragma once

#include "client/hspz.h"
#include "engine/sequences.h"
#include "protocol/status.h"
#include "protocol/types.h"

#include <stdbool.h>

struct hspz_query_piece {
    struct hspz_span bases;
    size_t first_sequence, sequence_count;
    uint32_t offset; /* of the piece in its block */
};

struct hspz_query_pieces {
    const struct hspz_sequences *seqs;
    uint64_t most_bases; /* of a piece */
    bool alone;          /* a sequence is a piece */
    size_t next;         /* sequence */
};

/* The most bases of a piece that the server takes in one job. */
uint64_t hspz_query_most_bases(const struct hspz_server_info *server);

/* The next piece: a block, or as many of its remaining sequences as fit. Its sequence_count is 0
 * when nothing is left. HSPZ_E_TOO_LARGE, naming the sequence, when one alone does not fit. */
HSPZ_MUST_USE enum hspz_status hspz_query_next(struct hspz_query_pieces *pieces,
                                               struct hspz_query_piece *out,
                                               struct hspz_error *err);

/* One line on standard error: what was read from `path`. `unmask` is whether lower case seeds too.
 */
void hspz_query_say(const char *path, const struct hspz_sequences *seqs, bool unmask);
