/* kmers: k-mers of files are counted in a filter of the server, asked for, and written.
 *
 * All need a filter with k, which the server tells. Sequences go there as they are, in batches. */
#pragma once

#include "client/cli.h"
#include "client/output.h"
#include "client/progress.h"

#define HSPZ_KMERS_FILES_MOST 1024u

struct hspz_kmers_run {
    struct hspz_cli *cli;
    const char *filter;
    const char *output;
    uint64_t batch, deadline_ms, priority;
    struct hspz_filter_state state; /* of the filter, once it was asked */
    struct hspz_client *client;
    struct hspz_output *out;
    struct hspz_progress progress;
    uint64_t bases, kmers; /* so far */
};

/* count */
struct hspz_kmers_count {
    struct hspz_kmers_run run;
    struct hspz_filter_request create;
    bool add; /* to a filter that is there */
    bool json;
    const char *const *files;
    size_t file_count;
};
int hspz_kmers_count_run(struct hspz_kmers_count *count);

/* query and screen */
struct hspz_kmers_ask {
    struct hspz_kmers_run run;
    const char *file;
    bool screen;
    uint64_t
        least; /* screen: k-mers with a smaller count are no hits; 0 or 1: those that are there */
};
int hspz_kmers_ask_run(struct hspz_kmers_ask *ask);

/* dump and histogram */
struct hspz_kmers_list {
    struct hspz_kmers_run run;
    bool histogram, raw;
    uint64_t least; /* dump: smaller counts are left out */
};
int hspz_kmers_list_run(struct hspz_kmers_list *list);

/* ---- what they share ---- */

/* Connects; and the filter's state, which must have k. */
HSPZ_MUST_USE enum hspz_status hspz_kmers_connect(struct hspz_kmers_run *run,
                                                  struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_kmers_find(struct hspz_kmers_run *run, struct hspz_error *err);
/* A request about a batch's k-mers, but for the bases. */
struct hspz_keys_request hspz_kmers_request(const struct hspz_kmers_run *run,
                                            enum hspz_keys_operation operation);
/* The line before the header: what the filter is, and how often it is wrong. */
bool hspz_kmers_write_kind(const struct hspz_kmers_run *run);
/* Text of a k-mer; returns the place after it. */
char *hspz_kmers_text(char *to, uint64_t key, unsigned k);
/* Bases a batch: as asked, and as the server takes. */
size_t hspz_kmers_batch(const struct hspz_kmers_run *run);
void hspz_kmers_show(struct hspz_kmers_run *run, uint64_t done, uint64_t total);
/* Ends with that status: says what failed, closes output and client. The exit status. */
int hspz_kmers_end(struct hspz_kmers_run *run, enum hspz_status status,
                   const struct hspz_error *err);
