/* What score.c and score_file.c share. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>

#define HSPZ_BAD_SCORE_DEFAULT (-1000)
#define HSPZ_FILL_SCORE_DEFAULT (-100)

/* Every score but those of the separator: `acgt` row by row. */
void hspz_scores_fill(int32_t *scores, const int32_t *acgt, int32_t bad, int32_t fill);

/* A whole text as an integer within HSPZ_SCORE_LIMIT; false when it is none. */
bool hspz_score_parse(const char *text, int32_t *out);
