/* What an output name stands for, looked at before any work goes into its content. */
#pragma once

#include "protocol/status.h"

/* HSPZ_E_BAD_REQUEST when `output` is the file that `input` is read from ("-": standard input), by
 * whatever name: writing it would replace the user's data. Either may be NULL. */
HSPZ_MUST_USE enum hspz_status hspz_target_check(const char *input, const char *output,
                                                 struct hspz_error *err);

/* The file that `output` stands for once links are followed, from malloc, which need not exist;
 * HSPZ_E_IO or HSPZ_E_BAD_REQUEST when it cannot be created or replaced. */
HSPZ_MUST_USE enum hspz_status hspz_target_resolve(const char *output, char **out,
                                                   struct hspz_error *err);
