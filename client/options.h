/* Command lines: `--name value`, `--name=value`, `-n value`, flags, `--` before what begins with a
 * dash. Options and operands may stand in any order.
 *
 * Errors: HSPZ_E_BAD_REQUEST, naming the option and the value. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hspz_option_kind {
    HSPZ_OPTION_END,      /* closes a table */
    HSPZ_OPTION_FLAG,     /* bool: becomes true */
    HSPZ_OPTION_OFF,      /* bool: becomes false */
    HSPZ_OPTION_ZERO,     /* uint32_t: becomes 0 */
    HSPZ_OPTION_TEXT,     /* const char *, not empty */
    HSPZ_OPTION_ANY_TEXT, /* const char * */
    HSPZ_OPTION_LIST,     /* struct hspz_texts: each value, not empty, is added */
    HSPZ_OPTION_NUMBER,   /* uint64_t from least to most */
    HSPZ_OPTION_NUMBER32, /* uint32_t from least to most */
    HSPZ_OPTION_FRACTION, /* double, 0 or more */
    HSPZ_OPTION_SECONDS,  /* int64_t milliseconds */
    HSPZ_OPTION_FOREVER,  /* the same, or -1 */
    HSPZ_OPTION_CHOICE,   /* int: the place of the value in `choices` */
};

#define HSPZ_TEXTS_MOST 64u
struct hspz_texts {
    const char *items[HSPZ_TEXTS_MOST];
    size_t count;
};

struct hspz_option {
    enum hspz_option_kind kind;
    const char *name;   /* with its dashes */
    const char *letter; /* "-o", or NULL */
    void *target;
    uint64_t least, most;
    const char *const *choices; /* NULL at the end */
};

/* Parses argv[1..] by two tables. What is no option goes to operands, in order. */
HSPZ_MUST_USE enum hspz_status hspz_options_parse(const struct hspz_option *own,
                                                  const struct hspz_option *common, int argc,
                                                  char **argv, const char **operands,
                                                  size_t operands_most, size_t *operand_count,
                                                  struct hspz_error *err);
