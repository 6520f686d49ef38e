/* A LASTZ command cut into several, each over a part of its segment file: what
 * client/align_plan.h keeps together stays in one part.
 *
 * A command is a line as KegAlign prints it, quoted for a shell. Its segment file ends in
 * .segments; what stands before that, wherever it is followed by a dot (the output's and the log's
 * names too), becomes that and ".split" with the number of the part. Lines of a part keep their
 * order.
 *
 * Errors: HSPZ_E_BAD_REQUEST (a command without segment file), what reading and writing files give,
 *         HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "engine/sequence_file.h"
#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

struct hspz_split_files {
    char **paths;
    size_t count, capacity;
};

struct hspz_split_text {
    char *bytes;
    size_t len, capacity;
};

struct hspz_split {
    const char *source; /* of the commands, for messages */
    uint64_t most;      /* segments of a part, about; those near each other may be more */
    uint64_t reach;     /* bases */
    hspz_progress_fn progress;
    void *user;
    struct hspz_split_text *commands; /* get those of the parts at their end */
    struct hspz_split_files *done;    /* gets the files that were cut; they are still there */
    struct hspz_split_files *made; /* gets those that were written, also after a failure; or NULL */
};

HSPZ_MUST_USE enum hspz_status hspz_split_command(const struct hspz_split *split, const char *line,
                                                  uint64_t number, struct hspz_error *err);
void hspz_split_files_remove(const struct hspz_split_files *files); /* from the disk */
void hspz_split_files_fini(struct hspz_split_files *files);
void hspz_split_text_fini(struct hspz_split_text *text);
