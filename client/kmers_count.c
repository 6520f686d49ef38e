#include "client/filter_warn.h"
#include "client/kmer_file.h"
#include "client/kmers_run.h"
#include "engine/shown_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Steps: look whether all files can be read; connect; make the filter, or ask what it is; per batch
 * of each file one call; say how many k-mers went in. A filter that was made for it goes again when
 * something fails; another keeps what it got. */

static bool
on_progress(void *user, uint64_t done, uint64_t total)
{
    struct hspz_kmers_count *c = user;
    hspz_kmers_show(&c->run, done, total);
    return !hspz_cli_stopped(c->run.cli);
}

static enum hspz_status
on_batch(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    struct hspz_kmers_count *c = user;
    struct hspz_keys_request request = hspz_kmers_request(&c->run, HSPZ_KEYS_INSERT);
    struct hspz_keys_summary summary = {0};
    request.keys = (struct hspz_span){batch->bases, batch->len};
    const enum hspz_status status =
        batch->len == 0
            ? HSPZ_OK
            : hspz_client_filter_keys(c->run.client, &request, NULL, NULL, &summary, err);
    c->run.bases += batch->len;
    c->run.kmers += summary.yes;
    if (status == HSPZ_OK && summary.full) {
        return hspz_error_set(err, HSPZ_E_QUOTA_EXCEEDED,
                              "filter %s is full after %" PRIu64 " k-mers: %s", c->run.filter,
                              c->run.kmers,
                              strcmp(c->run.state.kind, "counter") == 0
                                  ? "no memory is left for it (the server's --filter-memory)"
                                  : "make it with a larger --capacity");
    }
    return status;
}

/* The last of many files is found wanting before the first is counted. */
static enum hspz_status
check_files(const struct hspz_kmers_count *c, struct hspz_error *err)
{
    for (size_t i = 0; i < c->file_count; i++) {
        if (strcmp(c->files[i], "-") != 0 && access(c->files[i], R_OK) != 0) {
            return hspz_error_errno(err, HSPZ_E_IO, errno, "%s",
                                    hspz_shown_path_make(c->files[i]).text);
        }
    }
    return HSPZ_OK;
}

static enum hspz_status
count_files(struct hspz_kmers_count *c, struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; i < c->file_count && status == HSPZ_OK; i++) {
        const struct hspz_kmer_reading reading = {.path = c->files[i],
                                                  .k = (unsigned)c->run.state.k,
                                                  .batch_bytes = hspz_kmers_batch(&c->run),
                                                  .progress = on_progress,
                                                  .batch = on_batch,
                                                  .user = c};
        status = hspz_kmer_file_read(&reading, err);
    }
    return status;
}

static enum hspz_status
make_or_find(struct hspz_kmers_count *c, bool *made, struct hspz_error *err)
{
    *made = false;
    if (!c->add) {
        const enum hspz_status status =
            hspz_client_filter_create(c->run.client, &c->create, &c->run.state, err);
        *made = status == HSPZ_OK;
        return status;
    }
    const enum hspz_status status = hspz_kmers_find(&c->run, err);
    if (status == HSPZ_OK && c->create.k != 0 && c->create.k != c->run.state.k) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "filter %s has k %" PRIu64, c->run.filter,
                              c->run.state.k);
    }
    return status;
}

/* Kinds that keep each key once; others know of copies only. */
static bool
knows_different(const struct hspz_filter_state *s)
{
    static const char *const kinds[] = {"counter", "gqf", "sqf", "rsqf"};
    bool found = false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        found = found || strcmp(s->kind, kinds[i]) == 0;
    }
    return found;
}

static void
say(const struct hspz_kmers_count *c)
{
    const struct hspz_filter_state *s = &c->run.state;
    const char *const end = c->json ? "" : " different, ";
    char different[40] = "";
    if (knows_different(s)) {
        snprintf(different, sizeof(different), "%" PRIu64 "%s", s->entries, end);
    } else if (c->json) {
        snprintf(different, sizeof(different), "null");
    }
    printf(c->json ? "{\"filter\": \"%s\", \"kind\": \"%s\", \"k\": %" PRIu64
                     ", \"kmers\": %" PRIu64 ", \"different\": %s, \"bytes\": %" PRIu64
                     ", \"rate\": %.15g}\n"
                   : "%s: %s, k %" PRIu64 ": %" PRIu64 " k-mers, %s%" PRIu64
                     " bytes, false positives %.3g\n",
           s->name, s->kind, s->k, c->run.kmers, different, s->bytes, s->rate);
}

/* After a failure. A stop is over by now, and the connection maybe, too. */
static void
drop(const struct hspz_kmers_count *c)
{
    struct hspz_cli cli = *c->run.cli;
    struct hspz_client *client = NULL;
    struct hspz_error ignored = {0};
    cli.stop_fd = 0;
    cli.wait_ms = 0;
    cli.verbose = false;
    if (hspz_cli_connect(&cli, &client, &ignored) == HSPZ_OK) {
        (void)!hspz_client_filter_drop(client, c->run.filter, false, NULL, &ignored);
        hspz_client_close(&client);
    }
}

int
hspz_kmers_count_run(struct hspz_kmers_count *c)
{
    struct hspz_error err = {0};
    bool made = false;
    enum hspz_status status = check_files(c, &err);
    if (status == HSPZ_OK) {
        status = hspz_kmers_connect(&c->run, &err);
    }
    if (status == HSPZ_OK) {
        status = make_or_find(c, &made, &err);
    }
    if (status == HSPZ_OK) {
        status = count_files(c, &err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_stats(c->run.client, c->run.filter, &c->run.state, &err);
    }
    if (status != HSPZ_OK && made) {
        drop(c);
    }
    if (status == HSPZ_OK) {
        hspz_progress_clear(&c->run.progress);
        say(c);
        hspz_filter_warn(&c->run.state);
    }
    const int done = hspz_kmers_end(&c->run, status, &err);
    if (done == HSPZ_EXIT_FAILED && c->add && c->run.kmers > 0) {
        fprintf(stderr, "hspz-client: %" PRIu64 " k-mers or more went into filter %s, and stay\n",
                c->run.kmers, c->run.filter);
    }
    return done == HSPZ_EXIT_DONE ? hspz_cli_finish_stdout() : done;
}
