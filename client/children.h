/* Programs that run beside each other: what they print goes to files of ours, what they say on
 * standard error is kept, its end at least.
 *
 * Each runs in a process group of its own, with no descriptor of ours but its three and with
 * /dev/null as standard input. When a file cannot be written its program is ended.
 *
 * Owns:    the processes and pipes; the files are the caller's.
 * Threads: one.
 * Errors:  HSPZ_E_IO (a program cannot be started: errno and its name), HSPZ_E_STOPPED,
 *          HSPZ_E_OUT_OF_MEMORY. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_CHILD_SAID_BYTES 1024u

struct hspz_children;

struct hspz_child_end {
    size_t tag;
    int wait_status;                      /* of waitpid */
    int write_error;                      /* errno of its file, 0 when all was written */
    uint64_t cut_alignments;              /* lines with which LASTZ says that it cut one short */
    bool said_all;                        /* `said` is all it said, not the end */
    char said[HSPZ_CHILD_SAID_BYTES + 1]; /* on standard error, terminated */
};

/* `stop_fd` readable means that the program is to end (-1: there is none). */
HSPZ_MUST_USE enum hspz_status
hspz_children_create(size_t most, int stop_fd, struct hspz_children **out, struct hspz_error *err);
/* Ends those that still run, with what they started: asked to first, then killed. */
void hspz_children_destroy(struct hspz_children **children);

size_t hspz_children_running(const struct hspz_children *children);

/* Starts argv[0], looked up in PATH when it holds no slash, in `folder`; its standard output goes
 * to descriptor `to`. There must be room. */
HSPZ_MUST_USE enum hspz_status hspz_children_start(struct hspz_children *children,
                                                   const char *const *argv, const char *folder,
                                                   int to, size_t tag, struct hspz_error *err);
/* Waits until one has ended (*ended is true, and *end says how) or the time is over. At least one
 * must run. */
HSPZ_MUST_USE enum hspz_status hspz_children_wait(struct hspz_children *children, int timeout_ms,
                                                  bool *ended, struct hspz_child_end *end,
                                                  struct hspz_error *err);
