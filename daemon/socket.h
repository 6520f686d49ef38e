/* Sockets before libuv has them: binding, probing, matching what was inherited.
 *
 * Threads: hspz_socket_bind_unix sets the process's umask for a moment: no other thread may run.
 * Errors:  name the address, and the process that has it when that is known. */
#pragma once

#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define HSPZ_ADDRESS_BYTES 320

struct hspz_socket {
    int fd;      /* listening; -1: none */
    int lock_fd; /* -1: none */
    bool tcp, inherited;
    char address[HSPZ_ADDRESS_BYTES]; /* unix:PATH or tcp:HOST:PORT, as bound */
    char *path;                       /* bound by us, to be unlinked; else NULL */
    dev_t dev;                        /* of the path */
    ino_t ino;
};

/* `make_parent`: the path's folder is made if only it is missing. */
HSPZ_MUST_USE enum hspz_status hspz_socket_bind_unix(const char *path, bool make_parent,
                                                     struct hspz_socket *out,
                                                     struct hspz_error *err);
/* Gives a UNIX socket that we bound its group (name or number; NULL: none) and permissions. */
HSPZ_MUST_USE enum hspz_status hspz_socket_share(const struct hspz_socket *socket,
                                                 const char *group, unsigned mode,
                                                 struct hspz_error *err);
/* HOST:PORT; the first of its addresses that can be bound. `network`: one that is not loopback may
 * be, too. */
HSPZ_MUST_USE enum hspz_status hspz_socket_bind_tcp(const char *listen, bool network,
                                                    struct hspz_socket *out,
                                                    struct hspz_error *err);
/* What binding would refuse, an address in use apart; binds nothing. `is_default`: nobody named the
 * path, so say how. */
HSPZ_MUST_USE enum hspz_status hspz_socket_check_unix(const char *path, bool make_parent,
                                                      bool is_default, struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_socket_check_tcp(const char *listen, bool network,
                                                     struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_socket_check_group(const char *group, struct hspz_error *err);
/* Takes over a descriptor that we were started with. */
HSPZ_MUST_USE enum hspz_status hspz_socket_adopt(int fd, bool network, struct hspz_socket *out,
                                                 struct hspz_error *err);
/* Whether a socket listens on (one of) the address(es) of HOST:PORT. */
HSPZ_MUST_USE enum hspz_status hspz_socket_is_at(const struct hspz_socket *socket,
                                                 const char *listen, bool *out,
                                                 struct hspz_error *err);
/* Unlinks what is ours, closes, gives up the lock. */
void hspz_socket_unlink(struct hspz_socket *socket);
void hspz_socket_fini(struct hspz_socket *socket);
