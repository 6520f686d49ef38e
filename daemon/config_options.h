/* The options of hspzd, as a table: one row gives a key of the file, its flag and its help. */
#pragma once

#include "daemon/config.h"

#include <stddef.h>
#include <stdint.h>

enum hspz_option_kind {
    HSPZ_OPTION_COUNT, /* whole number, uint64_t */
    HSPZ_OPTION_BYTES, /* the same; flags may take a suffix */
    HSPZ_OPTION_TEXT,  /* char *, owned */
    HSPZ_OPTION_CHOICE,
    HSPZ_OPTION_LISTEN,
    HSPZ_OPTION_DEVICES,
    HSPZ_OPTION_INDEXES,
    HSPZ_OPTION_TENANTS, /* in the file only */
    HSPZ_OPTION_GROUPS,  /* the same */
};

struct hspz_option {
    const char *key;
    const char *flag; /* without "--" */
    enum hspz_option_kind kind;
    size_t offset; /* in the record, most often struct hspz_config */
    uint64_t min, max;
    const char *const *choices; /* ended by NULL; the value is the place in the list */
    const char *value;          /* as shown by --help */
    const char *help;
    bool common; /* shown without asking for all */
    bool live;   /* may change while the daemon runs */
};

extern const struct hspz_option hspz_options[];
extern const size_t hspz_option_count;

/* Of enum hspz_placement. */
#define HSPZ_PLACEMENTS "replicate|split|blocks"
extern const char *const hspz_placement_names[];

/* Where a value came from, for messages: "--max-jobs" or "FILE: max_jobs". */
struct hspz_config_source {
    char text[HSPZ_ERROR_TEXT_BYTES];
    enum hspz_status status; /* of a bad value */
};

/* The whole string, decimal, at most UINT64_MAX; with `suffix` one of K, M, G may be at the end. */
bool hspz_config_parse_number(const char *text, bool suffix, uint64_t *out);

/* Setters of one value, checked; of the option's place in `record`. `shown` is how a number looked;
 * `valid`, whether it was one. */
HSPZ_MUST_USE enum hspz_status hspz_config_set_text(char **slot, const char *value,
                                                    struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_config_set_number(const struct hspz_option *o, void *record,
                                                      const struct hspz_config_source *from,
                                                      bool valid, uint64_t number,
                                                      const char *shown, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_config_set_choice(const struct hspz_option *o, void *record,
                                                      const struct hspz_config_source *from,
                                                      const char *value, struct hspz_error *err);
/* config_groups.c */
void hspz_config_groups_fini(struct hspz_config *config);
HSPZ_MUST_USE enum hspz_status hspz_config_add_listen(struct hspz_config *config,
                                                      const struct hspz_config_source *from,
                                                      const char *value, struct hspz_error *err);
/* One device, or several joined by commas. */
HSPZ_MUST_USE enum hspz_status hspz_config_add_devices(struct hspz_config *config,
                                                       const struct hspz_config_source *from,
                                                       const char *value, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_config_add_index(struct hspz_config *config,
                                                     const struct hspz_config_source *from,
                                                     const char *name, size_t name_len,
                                                     const char *path, struct hspz_error *err);
/* config_access.c: what only together makes sense. HSPZ_E_BAD_REQUEST. */
HSPZ_MUST_USE enum hspz_status hspz_config_check_access(const struct hspz_config *config,
                                                        struct hspz_error *err);
/* config_file.c */
HSPZ_MUST_USE enum hspz_status hspz_config_load_file(struct hspz_config *config, const char *path,
                                                     struct hspz_error *err);
