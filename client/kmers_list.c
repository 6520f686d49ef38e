#include "client/kmers_run.h"
#include "client/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* dump: all k-mers with their counts, in order of the k-mers. histogram: how many k-mers have each
 * count, in order of the counts.
 *
 * Steps: connect; what the filter is; its entries come in any order and are kept, 16 bytes each;
 * they are sorted by key, or by count, and written. */

#define ROW_BYTES 96u
#define ROOM_LEAST ((size_t)1 << 16)
#define DIGIT_BITS 8u
#define DIGITS (1u << DIGIT_BITS)

struct pair {
    uint64_t number, count; /* the k-mer, or for a histogram how many */
};

struct state {
    struct hspz_kmers_list *list;
    struct pair *pairs, *spare;
    size_t count, room;
    bool no_memory;
};

/* By number: digit by digit, the lowest first, as far as any has some. */
static bool
sort(struct state *s)
{
    uint64_t all = 0;
    for (size_t i = 0; i < s->count; i++) {
        all |= s->pairs[i].number;
    }
    free(s->spare);
    s->spare = malloc((s->room + 1) * sizeof(*s->spare));
    if (s->spare == NULL) {
        return false;
    }
    for (unsigned shift = 0; shift < 64 && all >> shift != 0; shift += DIGIT_BITS) {
        size_t at[DIGITS + 1] = {0};
        for (size_t i = 0; i < s->count; i++) {
            at[(s->pairs[i].number >> shift) % DIGITS + 1]++;
        }
        for (unsigned d = 0; d < DIGITS; d++) {
            at[d + 1] += at[d];
        }
        for (size_t i = 0; i < s->count; i++) {
            s->spare[at[(s->pairs[i].number >> shift) % DIGITS]++] = s->pairs[i];
        }
        struct pair *const sorted = s->spare;
        s->spare = s->pairs;
        s->pairs = sorted;
    }
    return true;
}

static void
add_up(struct state *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (kept > 0 && s->pairs[kept - 1].number == s->pairs[i].number) {
            s->pairs[kept - 1].count += s->pairs[i].count;
        } else {
            s->pairs[kept++] = s->pairs[i];
        }
    }
    s->count = kept;
}

/* Room for `count` more. A histogram has few different counts. */
static bool
make_room(struct state *s, size_t count)
{
    if (count <= s->room - s->count) {
        return true;
    }
    if (s->list->histogram) {
        if (!sort(s)) {
            return false;
        }
        add_up(s);
    }
    const size_t wanted = s->count + count + (s->room / 2 > ROOM_LEAST ? s->room / 2 : ROOM_LEAST);
    if (wanted <= s->room) {
        return true;
    }
    struct pair *grown = realloc(s->pairs, wanted * sizeof(*grown));
    if (grown != NULL) {
        s->pairs = grown;
        s->room = wanted;
    }
    return grown != NULL;
}

static bool
take_entries(void *user, const uint8_t *entries, size_t count)
{
    struct state *s = user;
    s->no_memory = !make_room(s, count);
    if (s->no_memory) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = hspz_anchor_at(entries, 3 * i);
        const uint64_t times = hspz_anchor_at(entries, 3 * i + 2);
        if (s->list->histogram) {
            s->pairs[s->count++] = (struct pair){times, 1};
        } else if (times >= s->list->least) {
            s->pairs[s->count++] = (struct pair){key, times};
        }
    }
    s->list->run.kmers += count;
    hspz_kmers_show(&s->list->run, 0, 0);
    return !hspz_cli_stopped(s->list->run.cli);
}

static bool
write_pair(const struct state *s, const struct pair *pair)
{
    const struct hspz_kmers_list *list = s->list;
    if (list->raw) {
        uint8_t bytes[16];
        for (unsigned i = 0; i < 8; i++) {
            bytes[i] = (uint8_t)(pair->number >> 8 * i);
            bytes[8 + i] = (uint8_t)(pair->count >> 8 * i);
        }
        return hspz_output_write(list->run.out, bytes, sizeof(bytes));
    }
    char *const row = hspz_output_room(list->run.out, ROW_BYTES);
    if (row == NULL) {
        return false;
    }
    char *to = list->histogram ? hspz_rows_number(row, pair->number)
                               : hspz_kmers_text(row, pair->number, (unsigned)list->run.state.k);
    *to++ = '\t';
    to = hspz_rows_number(to, pair->count);
    *to++ = '\n';
    hspz_output_advance(list->run.out, (size_t)(to - row));
    return true;
}

static enum hspz_status
write_all(struct state *s, struct hspz_error *err)
{
    struct hspz_kmers_run *run = &s->list->run;
    const char *const header = s->list->histogram ? "#count\tkmers\n" : "#kmer\tcount\n";
    enum hspz_status status = hspz_output_open(run->output, &run->out, err);
    if (status != HSPZ_OK) {
        return status;
    }
    bool good = s->list->raw ||
                (hspz_kmers_write_kind(run) && hspz_output_write(run->out, header, strlen(header)));
    for (size_t i = 0; i < s->count && good; i++) {
        good = write_pair(s, &s->pairs[i]);
    }
    bool quiet;
    return good ? hspz_output_commit(run->out, err) : hspz_output_error(run->out, &quiet, err);
}

static enum hspz_status
check_kind(const struct hspz_kmers_list *list, struct hspz_error *err)
{
    const char *const kind = list->run.state.kind;
    if (strcmp(kind, "counter") == 0 || (list->histogram && strcmp(kind, "gqf") == 0)) {
        return HSPZ_OK;
    }
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                          list->histogram
                              ? "filter %s is a %s filter, which has no counts"
                              : "filter %s is a %s filter, which cannot tell its k-mers: "
                                "only a counter can",
                          list->run.filter, kind);
}

static enum hspz_status
run_list(struct state *s, struct hspz_error *err)
{
    struct hspz_kmers_run *run = &s->list->run;
    enum hspz_status status = hspz_kmers_connect(run, err);
    if (status == HSPZ_OK) {
        status = hspz_kmers_find(run, err);
    }
    if (status == HSPZ_OK) {
        status = check_kind(s->list, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_client_filter_enumerate(run->client, run->filter, run->deadline_ms,
                                              take_entries, s, NULL, err);
    }
    if (s->no_memory || (status == HSPZ_OK && !sort(s))) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu k-mers", s->count);
    }
    if (status == HSPZ_OK && s->list->histogram) {
        add_up(s);
    }
    hspz_progress_clear(&run->progress);
    return status == HSPZ_OK ? write_all(s, err) : status;
}

int
hspz_kmers_list_run(struct hspz_kmers_list *list)
{
    struct state s = {.list = list};
    struct hspz_error err = {0};
    const enum hspz_status status = run_list(&s, &err);
    free(s.pairs);
    free(s.spare);
    return hspz_kmers_end(&list->run, status, &err);
}
