/* A folder beside where files are to be: what is written into it gets its final name when all of it
 * is whole, or goes with the folder.
 *
 * Owns:    the folder. Threads: append to different files from any; the rest from one.
 * Errors:  HSPZ_E_IO naming the file where it was to be, HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "client/output.h"
#include "protocol/status.h"

#include <stddef.h>

struct hspz_stage;

/* In `folder`, which exists. `archive`: the file that is named in errors, as all goes into it;
 * NULL: the files keep their names. */
HSPZ_MUST_USE enum hspz_status hspz_stage_open(const char *folder, const char *archive,
                                               struct hspz_stage **out, struct hspz_error *err);
void hspz_stage_close(struct hspz_stage **stage);

/* Behind what the file has so far. */
HSPZ_MUST_USE enum hspz_status hspz_stage_append(struct hspz_stage *stage, const char *name,
                                                 const void *bytes, size_t len,
                                                 struct hspz_error *err);
/* Before files are moved: what was written reaches the disk. */
HSPZ_MUST_USE enum hspz_status hspz_stage_sync(struct hspz_stage *stage, struct hspz_error *err);
/* To its name in `folder`; a file of that name is replaced. */
HSPZ_MUST_USE enum hspz_status hspz_stage_move(struct hspz_stage *stage, const char *name,
                                               struct hspz_error *err);
/* To the end of a stream, and away. */
HSPZ_MUST_USE enum hspz_status hspz_stage_pour(struct hspz_stage *stage, const char *name,
                                               struct hspz_output *output, struct hspz_error *err);
