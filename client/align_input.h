/* The sequences of an alignment as LASTZ is to read them: those that HSPs name, in groups, each
 * group a FASTA file in the work folder. A name there is "s" and the number of the name, because
 * LASTZ takes a # in a segment file for a comment and keeps lines of it to 1023 bytes.
 *
 * A group is whole sequences in input order, closed once it exceeds the group size.
 *
 * Errors: HSPZ_E_BAD_REQUEST (two sequences of one name), what reading sequences gives, HSPZ_E_IO.
 */
#pragma once

#include "client/align_folder.h"
#include "client/names.h"
#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

#define HSPZ_ALIGN_ABSENT UINT32_MAX

struct hspz_align_sequence {
    uint32_t name;
    uint32_t group;
    uint64_t len;
};

struct hspz_align_group {
    char file[HSPZ_ALIGN_NAME_BYTES]; /* in the work folder; its name holds its digest */
    uint64_t bases;
};

/* The target or the query. */
struct hspz_align_side {
    struct hspz_align_sequence *sequences; /* those needed, in input order */
    size_t count;
    struct hspz_align_group *groups;
    size_t group_count;
    uint32_t *by_name; /* place in `sequences` of each name, or HSPZ_ALIGN_ABSENT */
};

struct hspz_align_source {
    const char *path;
    char letter;           /* begins the names of its files */
    const uint8_t *needed; /* by number of name: whether HSPs name it */
    uint64_t group_bases;
};

HSPZ_MUST_USE enum hspz_status
hspz_align_side_read(const struct hspz_align_source *source, const struct hspz_names *names,
                     struct hspz_align_folder *folder, hspz_progress_fn progress, void *user,
                     struct hspz_align_side *out, struct hspz_error *err);
void hspz_align_side_fini(struct hspz_align_side *side);
