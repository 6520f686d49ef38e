#include "client/segment_split.h"

#include "client/align_plan.h"
#include "client/output.h"
#include "client/segment_file.h"
#include "engine/shown_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char option[] = "--segments=";
static const char end_of_name[] = ".segments";

/* Where a command names its segment file, as it stands there: up to its end, quoted or not. */
struct named {
    const char *stem;
    size_t stem_len;
    bool quoted; /* it begins inside quotes */
};

void
hspz_split_files_remove(const struct hspz_split_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        (void)unlink(files->paths[i]);
    }
}

void
hspz_split_files_fini(struct hspz_split_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->paths[i]);
    }
    free(files->paths);
    *files = (struct hspz_split_files){0};
}

void
hspz_split_text_fini(struct hspz_split_text *text)
{
    free(text->bytes);
    *text = (struct hspz_split_text){0};
}

static enum hspz_status
append(struct hspz_split_text *text, const char *bytes, size_t len, struct hspz_error *err)
{
    if (text->capacity - text->len < len) {
        const size_t want = 2 * (text->len + len) + 256;
        char *grown = realloc(text->bytes, want);
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for commands");
        }
        text->bytes = grown;
        text->capacity = want;
    }
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    return HSPZ_OK;
}

/* The end of the word that begins at `text`, which may be inside quotes from before. */
static const char *
word_end(const char *text, bool quoted)
{
    for (; *text != '\0' && (quoted || (*text != ' ' && *text != '\n')); text++) {
        if (*text == '\'') {
            quoted = !quoted;
        } else if (*text == '\\' && !quoted && text[1] != '\0') {
            text++;
        }
    }
    return text;
}

static bool
find_name(const char *line, struct named *out)
{
    const char *at = strstr(line, option);
    if (at == NULL) {
        return false;
    }
    out->quoted = at > line && at[-1] == '\'';
    out->stem = at + sizeof(option) - 1;
    const char *end = word_end(out->stem, out->quoted);
    end -= out->quoted && end > out->stem && end[-1] == '\'';
    const size_t len = (size_t)(end - out->stem), tail = sizeof(end_of_name) - 1;
    out->stem_len = len > tail ? len - tail : 0;
    return len > tail && memcmp(end - tail, end_of_name, tail) == 0;
}

/* As a shell takes it: quotes and backslashes gone. */
static char *
unquote(const struct named *name, const char *behind)
{
    char *plain = malloc(name->stem_len + strlen(behind) + 1);
    bool quoted = name->quoted;
    size_t n = 0;
    for (size_t i = 0; plain != NULL && i < name->stem_len; i++) {
        if (name->stem[i] == '\'') {
            quoted = !quoted;
        } else {
            i += name->stem[i] == '\\' && !quoted && i + 1 < name->stem_len;
            plain[n++] = name->stem[i];
        }
    }
    if (plain != NULL) {
        memcpy(plain + n, behind, strlen(behind) + 1);
    }
    return plain;
}

/* The command of a part: the stem, where a dot follows, gets the part's number. */
static enum hspz_status
print_command(struct hspz_split_text *to, const char *line, const struct named *name, size_t part,
              struct hspz_error *err)
{
    char number[32];
    const int number_len = snprintf(number, sizeof(number), ".split%zu", part + 1);
    enum hspz_status status = HSPZ_OK;
    for (const char *at = line; status == HSPZ_OK && *at != '\0';) {
        if (strncmp(at, name->stem, name->stem_len) == 0 && at[name->stem_len] == '.') {
            status = append(to, at, name->stem_len, err);
            if (status == HSPZ_OK) {
                status = append(to, number, (size_t)number_len, err);
            }
            at += name->stem_len;
        } else {
            status = append(to, at++, 1, err);
        }
    }
    return status;
}

static int
compare_lines(const void *a, const void *b, void *user)
{
    const struct hspz_align_plan *plan = user;
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    if (plan->piece[x] != plan->piece[y]) {
        return plan->piece[x] < plan->piece[y] ? -1 : 1;
    }
    return (plan->segments[x].line > plan->segments[y].line) -
           (plan->segments[x].line < plan->segments[y].line);
}

/* Writes segments order[0 .. count - 1], which are a part. */
static enum hspz_status
write_part(const struct hspz_align_plan *plan, const struct hspz_names *names, const size_t *order,
           size_t count, const char *path, struct hspz_error *err)
{
    struct hspz_output *output = NULL;
    bool quiet = false;
    enum hspz_status status = hspz_output_open(path, &output, err);
    for (size_t i = 0; status == HSPZ_OK && i < count; i++) {
        const struct hspz_segment *s = &plan->segments[order[i]];
        const char *target = hspz_names_get(names, s->target);
        const char *query = hspz_names_get(names, s->query);
        const size_t most = strlen(target) + strlen(query) + HSPZ_SEGMENT_TEXT_BYTES;
        char *to = hspz_output_room(output, most);
        if (to == NULL) {
            status = hspz_output_error(output, &quiet, err);
        } else {
            hspz_output_advance(output, hspz_segment_print(s, target, query, to, most));
        }
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    return status;
}

static enum hspz_status
keep_path(struct hspz_split_files *files, char *path, struct hspz_error *err)
{
    if (files == NULL) {
        free(path);
        return HSPZ_OK;
    }
    if (files->count == files->capacity) {
        const size_t want = 2 * files->capacity + 16;
        char **grown = realloc(files->paths, want * sizeof(*grown));
        if (grown == NULL) {
            free(path);
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names");
        }
        files->paths = grown;
        files->capacity = want;
    }
    files->paths[files->count++] = path;
    return HSPZ_OK;
}

static enum hspz_status
write_parts(const struct hspz_split *split, const struct hspz_align_plan *plan,
            const struct hspz_names *names, const char *line, const struct named *name,
            struct hspz_error *err)
{
    size_t *order = malloc((plan->count + 1) * sizeof(*order));
    if (order == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to cut segments");
    }
    for (size_t i = 0; i < plan->count; i++) {
        order[i] = i;
    }
    qsort_r(order, plan->count, sizeof(*order), compare_lines, (void *)(uintptr_t)plan);
    enum hspz_status status = HSPZ_OK;
    for (size_t part = 0, at = 0; status == HSPZ_OK && part < plan->piece_count; part++) {
        char tail[64];
        snprintf(tail, sizeof(tail), ".split%zu%s", part + 1, end_of_name);
        char *path = unquote(name, tail);
        status = path != NULL
                     ? write_part(plan, names, order + at, plan->pieces[part].segments, path, err)
                     : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a name");
        if (status == HSPZ_OK) {
            status = keep_path(split->made, path, err);
            path = NULL;
        }
        free(path);
        at += plan->pieces[part].segments;
        if (status == HSPZ_OK) {
            status = print_command(split->commands, line, name, part, err);
        }
    }
    free(order);
    return status;
}

/* All names count as sequences of one group: how long they are does not matter here. */
static enum hspz_status
plan_parts(const struct hspz_split *split, const struct hspz_segment_list *list,
           struct hspz_align_plan *plan, struct hspz_error *err)
{
    struct hspz_align_group group = {.bases = 0};
    struct hspz_align_side side = {
        .sequences = calloc(list->names->count + 1, sizeof(*side.sequences)),
        .count = list->names->count,
        .groups = &group,
        .group_count = 1,
    };
    if (side.sequences == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for names");
    }
    const struct hspz_align_cut cut = {
        .reach = split->reach, .piece_cost = split->most, .by_number = true};
    const enum hspz_status status = hspz_align_plan_make(&side, &side, list, cut, plan, err);
    free(side.sequences);
    return status;
}

/* A file that is not there may have been cut before, when its parts still are. */
static void
explain_absence(const struct named *name, struct hspz_error *err)
{
    char *part = unquote(name, ".split1.segments");
    if (part != NULL && access(part, F_OK) == 0) {
        const struct hspz_error was = *err;
        const struct hspz_shown_path shown = hspz_shown_path_make(part);
        hspz_error_set(err, was.status, "%.300s (it was cut already: %s is there)", was.text,
                       shown.text);
    }
    free(part);
}

enum hspz_status
hspz_split_command(const struct hspz_split *split, const char *line, uint64_t number,
                   struct hspz_error *err)
{
    struct named name;
    struct hspz_names names;
    struct hspz_segment_list list;
    struct hspz_align_plan plan = {0};
    if (line[strspn(line, " \t\r\n")] == '\0' || line[0] == '#') {
        return append(split->commands, line, strlen(line), err);
    }
    if (!find_name(line, &name)) {
        const struct hspz_shown_path shown = hspz_shown_path_make(split->source);
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "%s: line %" PRIu64 ": no --segments=NAME.segments in it: no LASTZ "
                              "command over a segment file",
                              shown.text, number);
    }
    char *path = unquote(&name, end_of_name);
    hspz_names_init(&names);
    hspz_segment_list_init(&list, &names);
    enum hspz_status status =
        path != NULL ? hspz_segment_file_read(&list, path, 0, split->progress, split->user, err)
                     : hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a name");
    if (status == HSPZ_E_IO && access(path, F_OK) != 0) {
        explain_absence(&name, err);
    }
    if (status == HSPZ_OK && list.count > split->most) {
        status = plan_parts(split, &list, &plan, err);
    }
    if (status == HSPZ_OK && plan.piece_count > 1) {
        status = write_parts(split, &plan, &names, line, &name, err);
        if (status == HSPZ_OK) {
            status = keep_path(split->done, path, err);
            path = NULL;
        }
    } else if (status == HSPZ_OK) {
        status = append(split->commands, line, strlen(line), err);
    }
    hspz_align_plan_fini(&plan);
    hspz_segment_list_fini(&list);
    hspz_names_fini(&names);
    free(path);
    return status;
}
