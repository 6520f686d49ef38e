/* Listening sockets: inherited ones first, then UNIX and TCP ones of the configuration.
 *
 * UNIX: PATH.lock beside the path, locked as long as the daemon runs and never removed, guards
 * probe, unlink and bind; it holds our pid. At the path a dead socket is replaced, a live one left
 * alone, anything else never touched. The socket has mode 0600 from the start, and is then
 * given the configured group and mode. TCP: loopback addresses only, unless there are tenants and
 * TLS (or `insecure`). Inherited: a UNIX one stands for
 * `socket`, a TCP one for the `listen` of its address; a named address that does not match is an
 * error. They are never unlinked.
 *
 * When accepting fails (no descriptors, no memory) a listener pauses for a second rather than spin.
 *
 * Threads: the loop thread; hspz_listeners_bind before any other thread exists (it sets the umask
 * for a moment). Errors name the address, and the process that has it when that is known. */
#pragma once

#include "daemon/config.h"
#include "daemon/handle.h"
#include "daemon/log.h"
#include "daemon/service.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hspz_listeners;

HSPZ_MUST_USE enum hspz_status hspz_listeners_bind(const struct hspz_config *config,
                                                   struct hspz_log *log,
                                                   struct hspz_listeners **out,
                                                   struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_listeners_start(struct hspz_listeners *listeners,
                                                    struct hspz_service *service,
                                                    struct hspz_error *err);
size_t hspz_listeners_count(const struct hspz_listeners *listeners);
const char *hspz_listeners_address(const struct hspz_listeners *listeners, size_t i);
/* Once a second: listeners that paused try again. */
void hspz_listeners_tick(struct hspz_listeners *listeners);
/* Idempotent: no more connections; our own socket paths are removed. */
void hspz_listeners_stop(struct hspz_listeners *listeners);
/* After the loop has closed their handles. Gives up the locks. */
void hspz_listeners_destroy(struct hspz_listeners **listeners);
