#include "client/kmers_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 512u

enum hspz_status
hspz_kmers_connect(struct hspz_kmers_run *run, struct hspz_error *err)
{
    hspz_progress_begin(&run->progress, run->cli->quiet);
    return hspz_cli_connect(run->cli, &run->client, err);
}

enum hspz_status
hspz_kmers_find(struct hspz_kmers_run *run, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_client_filter_stats(run->client, run->filter, &run->state, err);
    if (status == HSPZ_OK && (run->state.k < 1 || run->state.k > 32)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "filter %s is not one of k-mers: kmers count, or filter create with "
                              "--k, makes one",
                              run->filter);
    }
    return status;
}

struct hspz_keys_request
hspz_kmers_request(const struct hspz_kmers_run *run, enum hspz_keys_operation operation)
{
    struct hspz_keys_request request = HSPZ_KEYS_REQUEST_DEFAULT;
    request.filter = run->filter;
    request.operation = operation;
    request.sequence = true;
    request.deadline_ms = run->deadline_ms;
    request.priority = run->priority;
    return request;
}

bool
hspz_kmers_write_kind(const struct hspz_kmers_run *run)
{
    const struct hspz_filter_state *s = &run->state;
    char line[LINE_BYTES];
    int len = snprintf(line, sizeof(line), "# %s %s, k %" PRIu64 "%s, ", s->kind, run->filter, s->k,
                       s->canonical ? ", canonical" : "");
    const size_t room = sizeof(line) - (size_t)len;
    if (strcmp(s->kind, "counter") == 0) {
        len += snprintf(line + len, room, "exact\n");
    } else {
        len += snprintf(line + len, room,
                        "never less than the truth, more for at most %.3g of k-mers\n",
                        s->rate > s->expected_rate ? s->rate : s->expected_rate);
    }
    return hspz_output_write(run->out, line, (size_t)len);
}

char *
hspz_kmers_text(char *to, uint64_t key, unsigned k)
{
    for (unsigned i = k; i > 0; i--) {
        to[i - 1] = "ACGT"[key & 3];
        key >>= 2;
    }
    return to + k;
}

size_t
hspz_kmers_batch(const struct hspz_kmers_run *run)
{
    const uint64_t most = hspz_client_server(run->client)->max_keys;
    return (size_t)(run->batch < most ? run->batch : most);
}

void
hspz_kmers_show(struct hspz_kmers_run *run, uint64_t done, uint64_t total)
{
    if (!hspz_progress_due(&run->progress)) {
        return;
    }
    const double seconds = hspz_progress_seconds(&run->progress);
    char percent[32] = "";
    if (total > 0) {
        snprintf(percent, sizeof(percent), "%d %%, ", (int)(100.0 * (double)done / (double)total));
    }
    hspz_progress_show(&run->progress, "%s%" PRIu64 " k-mers, %.1f Mbases/s", percent, run->kmers,
                       seconds > 0 ? (double)run->bases / seconds / 1e6 : 0.0);
}

int
hspz_kmers_end(struct hspz_kmers_run *run, enum hspz_status status, const struct hspz_error *err)
{
    hspz_progress_clear(&run->progress);
    bool quiet = false;
    struct hspz_error ignored;
    if (run->out != NULL) {
        (void)hspz_output_error(run->out, &quiet, &ignored);
    }
    int done = HSPZ_EXIT_DONE;
    if (status != HSPZ_OK) {
        done = quiet ? HSPZ_EXIT_FAILED : hspz_cli_fail(run->cli, err);
    }
    hspz_output_close(&run->out);
    hspz_client_close(&run->client);
    return done;
}
