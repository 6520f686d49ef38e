#include "client/align_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
print_head(const struct hspz_align_printing *p, struct hspz_output *output)
{
    char line[128];
    if (p->lastz->format == HSPZ_ALIGN_PAF) {
        return true;
    }
    if (p->lastz->format == HSPZ_ALIGN_MAF) {
        snprintf(line, sizeof(line), "##maf version=1 scoring=lastz.v%s\n", p->lastz->version);
    } else {
        snprintf(line, sizeof(line), "# lastz.v%s\n", p->lastz->version);
    }
    bool good = hspz_output_write(output, line, strlen(line)) &&
                hspz_output_write(output, "# hspz-client align", 19);
    for (size_t i = 0; good && i < p->lastz->option_count; i++) {
        const char *option = p->lastz->options[i];
        good =
            hspz_output_write(output, " ", 1) && hspz_output_write(output, option, strlen(option));
    }
    return good && hspz_output_write(output, "\n", 1);
}

/* The text of an alignment into *text, which grows as needed. */
static enum hspz_status
load_text(const struct hspz_align_printing *p, int fd, const struct hspz_alignment *a, char **text,
          size_t *room, struct hspz_error *err)
{
    if (a->len > *room) {
        char *grown = realloc(*text, a->len);
        if (grown == NULL) {
            return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an alignment");
        }
        *text = grown;
        *room = a->len;
    }
    for (uint64_t at = 0; at < a->len;) {
        const ssize_t n = pread(fd, *text + at, a->len - at, (off_t)(a->offset + at));
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            return hspz_error_errno(err, HSPZ_E_IO, n == 0 ? EIO : errno, "%s/%s: cannot read it",
                                    p->folder->path, p->files[a->piece]);
        }
        at += n > 0 ? (uint64_t)n : 0;
    }
    return HSPZ_OK;
}

static enum hspz_status
print_alignments(const struct hspz_align_printing *p, struct hspz_output *output,
                 struct hspz_error *err)
{
    const struct hspz_alignments *all = p->alignments;
    char *text = NULL;
    size_t room = 0;
    uint32_t open_piece = HSPZ_ALIGN_NO_PIECE;
    int fd = -1;
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < all->count; i++) {
        const struct hspz_alignment *a = &all->items[i];
        if (a->piece != open_piece) {
            if (fd >= 0) {
                close(fd);
            }
            fd = openat(p->folder->fd, p->files[a->piece], O_RDONLY | O_CLOEXEC);
            open_piece = a->piece;
        }
        status = fd >= 0 ? load_text(p, fd, a, &text, &room, err)
                         : hspz_error_errno(err, HSPZ_E_IO, errno, "%s/%s: cannot read it",
                                            p->folder->path, p->files[a->piece]);
        if (status == HSPZ_OK) {
            const uint32_t target = p->target->sequences[a->target].name;
            const uint32_t query = p->query->sequences[a->query].name;
            status = hspz_alignment_print(p->lastz->format, text, a->len,
                                          hspz_names_get(p->names, target),
                                          hspz_names_get(p->names, query), i, output, err);
        }
        if (status == HSPZ_OK && i % 1024 == 0 && hspz_cli_stopped(p->cli)) {
            status = hspz_error_set(err, HSPZ_E_STOPPED, "stopped by the caller");
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return status;
}

enum hspz_status
hspz_align_print(const struct hspz_align_printing *p, struct hspz_error *err)
{
    struct hspz_output *output = NULL;
    bool quiet = false;
    enum hspz_status status = hspz_output_open(p->path, &output, err);
    if (status == HSPZ_OK && !print_head(p, output)) {
        status = hspz_output_error(output, &quiet, err);
    }
    if (status == HSPZ_OK) {
        status = print_alignments(p, output, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_output_commit(output, err);
    }
    hspz_output_close(&output);
    return status;
}
