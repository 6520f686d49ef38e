/* How frequent a word may be before its seeds are dropped (LASTZ's --maxwordcount).
 *
 * A limit is a number of hits, or follows from the share of a block's indexed positions that are to
 * be kept: the least limit under which at least so many positions remain. That is LASTZ's
 * --maxwordcount=P%, in whole numbers: words are taken from the rarest on, all words of one count
 * together, until they hold ceil(positions * share) positions; those of a higher count are dropped.
 *
 * Units:   a share is in millionths: 1 to HSPZ_KEEP_ALL. */
#pragma once

#include "engine/index.h"
#include "protocol/status.h"

#include <stdint.h>

/* The least limit that keeps `keep` millionths of a table's positions; 0 when there are none.
 * HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_word_limit_of(const uint32_t *table, uint32_t words,
                                                  uint64_t keep, uint32_t *out);

/* The same of an index's block, with a limit given as well: the lower of the two. The index keeps
 * the last answer of each block, as finding one reads the whole table. Any thread. */
HSPZ_MUST_USE enum hspz_status hspz_word_limit(struct hspz_index *index, size_t block,
                                               uint64_t max_word_count, uint64_t keep,
                                               uint64_t *out, struct hspz_error *err);
