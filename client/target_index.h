/* The index of a sequence file: looked for on the server and in a cache, else built.
 *
 * A sequence file's index is called kegalign-<digest>: of the file's bytes and of how the index is
 * built, so that a changed file gets another. The cache is a folder; when it is the server's index
 * folder, the server loads it by name, otherwise by its path, which is for operators.
 *
 * Owns:    names and paths, from malloc.
 * Errors:  HSPZ_E_IO, HSPZ_E_BAD_FILE, HSPZ_E_BAD_REQUEST (sequences), those of libhspz. */
#pragma once

#include "client/cli.h"
#include "engine/shape.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_target_index {
    char *name;  /* of the index */
    char *path;  /* of its file in the cache */
    bool loaded; /* by us: the server did not have it */
};

struct hspz_target_build {
    const char *source; /* sequence file */
    const char *cache;  /* NULL: $XDG_CACHE_HOME/hspz or ~/.cache/hspz */
    struct hspz_shape shape;
    uint64_t step, block_size;
};

/* The names; reads the source. */
HSPZ_MUST_USE enum hspz_status hspz_target_index_name(const struct hspz_cli *cli,
                                                      const struct hspz_target_build *build,
                                                      struct hspz_target_index *out,
                                                      struct hspz_error *err);
/* Builds the file unless an index is there, by its header. */
HSPZ_MUST_USE enum hspz_status hspz_target_index_build(const struct hspz_cli *cli,
                                                       const struct hspz_target_build *build,
                                                       const struct hspz_target_index *index,
                                                       struct hspz_error *err);
/* After a server could not use it: builds the file anew if it is damaged, and says so in *mended.
 */
HSPZ_MUST_USE enum hspz_status hspz_target_index_mend(const struct hspz_cli *cli,
                                                      const struct hspz_target_build *build,
                                                      const struct hspz_target_index *index,
                                                      bool *mended, struct hspz_error *err);
/* Has the server load it, after building it if need be, unless it has it. */
HSPZ_MUST_USE enum hspz_status hspz_target_index_load(const struct hspz_cli *cli,
                                                      struct hspz_client *client,
                                                      const struct hspz_target_build *build,
                                                      struct hspz_target_index *index,
                                                      struct hspz_error *err);
void hspz_target_index_fini(struct hspz_target_index *index);
