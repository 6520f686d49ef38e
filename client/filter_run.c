#include "client/filter_run.h"

#include "client/filter_warn.h"
#include "client/json.h"
#include "client/key_file.h"
#include "client/output.h"
#include "client/progress.h"
#include "client/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Steps: connect; per batch of the input one call, whose answers are written as they come; commit
 * the output; say how many. With a full filter it ends after the batch that showed it.
 *
 * A failure leaves no file behind. What was done to the filter before stays done, and the message
 * says how many keys that were. */

#define ROW_BYTES 64u

struct state {
    const struct hspz_key_run *run;
    struct hspz_client *client;
    struct hspz_key_file *input;
    struct hspz_key_batch batch;
    struct hspz_output *output; /* NULL: nothing is written of each */
    const char *header;         /* not yet written; NULL: it is */
    struct hspz_progress progress;
    uint64_t done, total; /* bytes of the input */
    uint64_t keys, yes;   /* answered */
    bool full;
    uint64_t refused_place;    /* of the first key that did not go in; 0: none, or not known */
    uint64_t last_place;       /* of the last key that was sent */
    struct hspz_error failure; /* of a callback */
};

static const char *
done_word(enum hspz_keys_operation operation)
{
    static const char *const words[] = {
        [HSPZ_KEYS_INSERT] = "inserted", [HSPZ_KEYS_INSERT_IF_ABSENT] = "inserted",
        [HSPZ_KEYS_QUERY] = "present",   [HSPZ_KEYS_COUNT] = "present",
        [HSPZ_KEYS_DELETE] = "deleted",  [HSPZ_KEYS_DECREMENT] = "decremented",
    };
    return words[operation];
}

static bool
inserts(const struct hspz_key_run *run)
{
    return run->operation <= HSPZ_KEYS_INSERT_IF_ABSENT;
}

/* Whether the server's array of numbers is wanted, beside the bits. */
static bool
wants_array(const struct hspz_key_run *run)
{
    return run->format != HSPZ_KEY_FORMAT_NONE &&
           (run->operation == HSPZ_KEYS_COUNT ||
            (run->operation == HSPZ_KEYS_QUERY && run->values));
}

/* A callback's own failure comes before the stop that it caused. */
static enum hspz_status
settle(struct state *s, enum hspz_status status, struct hspz_error *err)
{
    if (status == HSPZ_E_STOPPED && s->failure.status != HSPZ_OK) {
        *err = s->failure;
        status = s->failure.status;
    }
    return status;
}

/* ---- what is written ---- */

static char *
put_key(char *to, uint64_t key, bool hex)
{
    return hex ? to + snprintf(to, 20, "0x%016" PRIx64, key) : hspz_rows_number(to, key);
}

static bool
write_row(struct state *s, uint64_t key, bool yes, const uint8_t *array, size_t i)
{
    char *const row = hspz_output_room(s->output, ROW_BYTES);
    if (row == NULL) {
        return false;
    }
    char *to = put_key(row, key, s->run->hex);
    if (s->run->operation != HSPZ_KEYS_COUNT) {
        *to++ = '\t';
        *to++ = yes ? '1' : '0';
    }
    if (array != NULL) {
        *to++ = '\t';
        to = hspz_rows_number(to, hspz_anchor_at(array, i));
    }
    *to++ = '\n';
    hspz_output_advance(s->output, (size_t)(to - row));
    return true;
}

/* Before the first row: what is refused at once writes nothing. */
static bool
write_header(struct state *s)
{
    const char *header = s->header;
    s->header = NULL;
    return header == NULL || s->run->format != HSPZ_KEY_FORMAT_TSV ||
           hspz_output_write(s->output, header, strlen(header));
}

static bool
write_answers(struct state *s, uint64_t first, size_t count, const uint8_t *bitmap,
              const uint8_t *array)
{
    if (s->output == NULL) {
        return true;
    }
    if (!write_header(s)) {
        return false;
    }
    if (s->run->format == HSPZ_KEY_FORMAT_RAW) {
        return array != NULL ? hspz_output_write(s->output, array, count * sizeof(uint64_t))
                             : hspz_output_write(s->output, bitmap, (count + 7) / 8);
    }
    for (size_t i = 0; i < count; i++) {
        const bool yes = (bitmap[i / 8] >> i % 8 & 1) != 0;
        if (!write_row(s, s->batch.columns[0][first + i], yes, array, i)) {
            return false;
        }
    }
    return true;
}

static enum hspz_status
open_output(struct state *s, const char *header, struct hspz_error *err)
{
    s->header = header;
    return s->run->format == HSPZ_KEY_FORMAT_NONE
               ? HSPZ_OK
               : hspz_output_open(s->run->output, &s->output, err);
}

static enum hspz_status
commit_output(struct state *s, struct hspz_error *err)
{
    bool quiet;
    if (s->output == NULL) {
        return HSPZ_OK;
    }
    return write_header(s) ? hspz_output_commit(s->output, err)
                           : hspz_output_error(s->output, &quiet, err);
}

static const char *
header_of(const struct hspz_key_run *run)
{
    switch (run->operation) {
    case HSPZ_KEYS_QUERY:
        return run->values ? "#key\tpresent\tvalue\n" : "#key\tpresent\n";
    case HSPZ_KEYS_COUNT:
        return "#key\tcount\n";
    case HSPZ_KEYS_DELETE:
        return "#key\tdeleted\n";
    case HSPZ_KEYS_DECREMENT:
        return "#key\tdecremented\n";
    default:
        return "#key\tinserted\n";
    }
}

/* ---- keys ---- */

static bool
show_reading(void *user, uint64_t done, uint64_t total)
{
    struct state *s = user;
    s->done = done;
    s->total = total;
    return !hspz_cli_stopped(s->run->cli);
}

static void
show_progress(struct state *s, const char *noun)
{
    if (!hspz_progress_due(&s->progress)) {
        return;
    }
    const double seconds = hspz_progress_seconds(&s->progress);
    char percent[16] = "";
    if (s->total > 0) {
        snprintf(percent, sizeof(percent), "%d %%, ",
                 (int)(100.0 * (double)s->done / (double)s->total));
    }
    hspz_progress_show(&s->progress, "%s%" PRIu64 " %s, %.1f M/s", percent, s->keys, noun,
                       seconds > 0 ? (double)s->keys / seconds / 1e6 : 0.0);
}

static void
note_refused(struct state *s, uint64_t first, size_t count, const uint8_t *bitmap)
{
    for (size_t i = 0; i < count && s->refused_place == 0; i++) {
        if ((bitmap[i / 8] >> i % 8 & 1) == 0) {
            s->refused_place = s->batch.places[first + i];
        }
    }
}

static bool
take_answers(void *user, uint64_t first, size_t count, const uint8_t *bitmap, const uint8_t *array)
{
    struct state *s = user;
    bool quiet;
    if (!write_answers(s, first, count, bitmap, array)) {
        (void)hspz_output_error(s->output, &quiet, &s->failure);
        return false;
    }
    if (s->run->operation == HSPZ_KEYS_INSERT) {
        note_refused(s, first, count, bitmap);
    }
    s->keys += count;
    show_progress(s, "keys");
    return true;
}

static struct hspz_span
column(const struct state *s, unsigned i)
{
    return (struct hspz_span){(const uint8_t *)s->batch.columns[i],
                              s->batch.count * sizeof(uint64_t)};
}

static enum hspz_status
run_batch(struct state *s, struct hspz_error *err)
{
    const struct hspz_key_run *run = s->run;
    struct hspz_keys_request request = HSPZ_KEYS_REQUEST_DEFAULT;
    request.filter = run->filter;
    request.operation = run->operation;
    request.bitmap = true;
    request.array = wants_array(run);
    request.deadline_ms = run->deadline_ms;
    request.priority = run->priority;
    request.keys = column(s, 0);
    unsigned next = 1;
    if (inserts(run) && run->values) {
        request.values = column(s, next++);
    }
    if (run->counts) {
        request.counts = column(s, next);
    }
    struct hspz_keys_summary summary;
    s->last_place = s->batch.places[s->batch.count - 1];
    enum hspz_status status =
        hspz_client_filter_keys(s->client, &request, take_answers, s, &summary, err);
    status = settle(s, status, err);
    if (s->output != NULL) {
        hspz_output_flush(s->output);
    }
    hspz_progress_clear(&s->progress);
    if (status == HSPZ_OK) {
        s->yes += summary.yes;
        s->full = s->full || summary.full;
    }
    return status;
}

/* Columns of the input. */
static unsigned
columns_of(const struct hspz_key_run *run)
{
    return 1u + (inserts(run) && run->values) + run->counts;
}

static enum hspz_status
run_keys(struct state *s, struct hspz_error *err)
{
    const struct hspz_key_run *run = s->run;
    enum hspz_status status = hspz_cli_connect(run->cli, &s->client, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const uint64_t most = hspz_client_server(s->client)->max_keys;
    uint64_t batch = run->batch < most ? run->batch : most;
    if (run->format == HSPZ_KEY_FORMAT_RAW) {
        batch = batch < 8 ? 8 : batch - batch % 8; /* bits of one batch follow those of another */
    }
    status =
        hspz_key_file_open(run->input, run->raw, columns_of(run), show_reading, s, &s->input, err);
    if (status == HSPZ_OK) {
        status = hspz_key_batch_init(&s->batch, columns_of(run), (size_t)batch, err);
    }
    if (status == HSPZ_OK) {
        status = open_output(s, header_of(run), err);
    }
    while (status == HSPZ_OK && !s->full) {
        status = hspz_key_file_next(s->input, &s->batch, err);
        if (status == HSPZ_OK && s->batch.count == 0) {
            break;
        }
        if (status == HSPZ_OK) {
            status = run_batch(s, err);
        }
    }
    return status == HSPZ_OK ? commit_output(s, err) : status;
}

/* ---- what is said ---- */

/* Says what failed; not a word when the reader of our output went away. */
static void
say_failure(const struct state *s, const char *noun, const struct hspz_error *err)
{
    struct hspz_error ignored;
    bool quiet = false;
    if (s->output != NULL) {
        (void)hspz_output_error(s->output, &quiet, &ignored);
    }
    if (quiet) {
        return;
    }
    (void)hspz_cli_fail(s->run->cli, err);
    const bool reads = s->last_place == 0 || s->run->operation == HSPZ_KEYS_QUERY ||
                       s->run->operation == HSPZ_KEYS_COUNT;
    /* A call that was refused did nothing; one without an end may have. */
    if (s->keys > 0 || (!reads && err->status == HSPZ_E_INCOMPLETE)) {
        fprintf(stderr, "hspz-client: failed after %" PRIu64 " %s%s\n", s->keys, noun,
                reads ? "" : "; what was done to the filter stays done");
    }
}

static void
say_full(const struct state *s)
{
    const char *place = s->run->raw ? "record" : "line";
    fprintf(stderr, "hspz-client: filter %s is full", s->run->filter);
    if (s->run->operation == HSPZ_KEYS_INSERT) {
        fprintf(stderr, ": %" PRIu64 " of %" PRIu64 " keys did not go in", s->keys - s->yes,
                s->keys);
        if (s->refused_place > 0) {
            fprintf(stderr, ", the first on %s %" PRIu64, place, s->refused_place);
        }
    }
    fprintf(stderr, "; what follows %s %" PRIu64 " was not sent\n", place, s->last_place);
}

static void
print_json_name(const char *name)
{
    char text[HSPZ_JSON_GROWTH * HSPZ_FILTER_NAME_BYTES];
    const size_t len = strlen(name);
    const size_t most = sizeof(text) / HSPZ_JSON_GROWTH;
    printf("{\"filter\": \"%.*s\"", (int)hspz_json_escape(text, name, len < most ? len : most),
           text);
}

static void
say_summary(const struct state *s)
{
    const struct hspz_key_run *run = s->run;
    const char *word = done_word(run->operation);
    if (run->json) {
        print_json_name(run->filter);
        printf(", \"keys\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"full\": %s}\n", s->keys, word,
               s->yes, s->full ? "true" : "false");
    } else if (run->format == HSPZ_KEY_FORMAT_NONE) {
        printf("%" PRIu64 " keys, %" PRIu64 " %s\n", s->keys, s->yes, word);
    } else if (run->cli->verbose) {
        fprintf(stderr, "%" PRIu64 " keys, %" PRIu64 " %s, %.3f s\n", s->keys, s->yes, word,
                hspz_progress_seconds(&s->progress));
    }
}

/* What was put in may be more than the filter was made for; nothing is wrong where that is not
 * known.
 */
static void
warn_of_rate(const struct state *s)
{
    struct hspz_filter_state state;
    struct hspz_error ignored = {0};
    const enum hspz_keys_operation operation = s->run->operation;
    if ((operation == HSPZ_KEYS_INSERT || operation == HSPZ_KEYS_INSERT_IF_ABSENT) && !s->full &&
        s->keys > 0 &&
        hspz_client_filter_stats(s->client, s->run->filter, &state, &ignored) == HSPZ_OK) {
        hspz_filter_warn(&state);
    }
}

int
hspz_key_run_do(const struct hspz_key_run *run)
{
    struct state s = {.run = run};
    struct hspz_error err = {0};
    hspz_progress_begin(&s.progress, run->cli->quiet);
    const enum hspz_status status = run_keys(&s, &err);
    hspz_progress_clear(&s.progress);
    int done = HSPZ_EXIT_FAILED;
    if (status != HSPZ_OK) {
        say_failure(&s, "keys", &err);
    } else {
        say_summary(&s);
        warn_of_rate(&s);
        done = hspz_cli_finish_stdout();
        if (s.full) {
            say_full(&s);
            done = HSPZ_EXIT_FAILED;
        }
    }
    hspz_output_close(&s.output);
    hspz_key_batch_fini(&s.batch);
    hspz_key_file_close(&s.input);
    hspz_client_close(&s.client);
    return done;
}

/* ---- enumerate ---- */

static bool
take_entries(void *user, const uint8_t *entries, size_t count)
{
    struct state *s = user;
    bool good = write_header(s);
    if (good && s->run->format == HSPZ_KEY_FORMAT_RAW) {
        good = hspz_output_write(s->output, entries, 3 * count * sizeof(uint64_t));
    }
    for (size_t i = 0; good && i < count && s->run->format == HSPZ_KEY_FORMAT_TSV; i++) {
        char *const row = hspz_output_room(s->output, 2 * ROW_BYTES);
        good = row != NULL;
        if (good) {
            char *to = put_key(row, hspz_anchor_at(entries, 3 * i), s->run->hex);
            *to++ = '\t';
            to = hspz_rows_number(to, hspz_anchor_at(entries, 3 * i + 1));
            *to++ = '\t';
            to = hspz_rows_number(to, hspz_anchor_at(entries, 3 * i + 2));
            *to++ = '\n';
            hspz_output_advance(s->output, (size_t)(to - row));
        }
    }
    if (!good) {
        bool quiet;
        (void)hspz_output_error(s->output, &quiet, &s->failure);
        return false;
    }
    s->keys += count;
    show_progress(s, "entries");
    return true;
}

static enum hspz_status
run_enumerate(struct state *s, struct hspz_error *err)
{
    enum hspz_status status = hspz_cli_connect(s->run->cli, &s->client, err);
    if (status == HSPZ_OK) {
        status = open_output(s, "#fingerprint\tvalue\tcount\n", err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_keys_summary summary;
    status = hspz_client_filter_enumerate(s->client, s->run->filter, s->run->deadline_ms,
                                          take_entries, s, &summary, err);
    status = settle(s, status, err);
    hspz_output_flush(s->output);
    return status == HSPZ_OK ? commit_output(s, err) : status;
}

int
hspz_filter_enumerate_run(const struct hspz_key_run *run)
{
    struct state s = {.run = run};
    struct hspz_error err = {0};
    hspz_progress_begin(&s.progress, run->cli->quiet);
    const enum hspz_status status = run_enumerate(&s, &err);
    hspz_progress_clear(&s.progress);
    if (status != HSPZ_OK) {
        say_failure(&s, "entries", &err);
    } else if (run->cli->verbose) {
        fprintf(stderr, "%" PRIu64 " entries, %.3f s\n", s.keys,
                hspz_progress_seconds(&s.progress));
    }
    hspz_output_close(&s.output);
    hspz_client_close(&s.client);
    return status == HSPZ_OK ? HSPZ_EXIT_DONE : HSPZ_EXIT_FAILED;
}
