/* The indexes served: loaded, built and unloaded off the loop, counted while jobs use them.
 *
 *   building   its file is being made
 *   loading    being read and made resident; waiters are told the end
 *   ready      jobs may use it
 *   dropping   its memory is being given back, but its entry stays
 *   dropped    not in memory; loaded again when a job or a describe names it, which wait for that
 *   leaving    out of the list, its memory freed when the last job ends
 *
 * Loads and unloads run one at a time, in order; builds one at a time beside them. The memory
 * budget holds for everything that is resident, leaving ones included until freed. A load that
 * finds no room, in the budget or on a device, has idle indexes dropped, least recently used first,
 * those of the configuration never. NAME.hspz in index_dir counts as a dropped index of that name;
 * a file that was served before has to have the same digest still.
 *
 * Threads: the loop thread; the work itself on libuv's pool. */
#pragma once

#include "daemon/service.h"
#include "engine/index.h"
#include "protocol/message.h"
#include "protocol/status.h"
#include "protocol/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_served;

/* Somebody who is told once when a load or build has ended. Embedded in its owner. */
struct hspz_waiter {
    struct hspz_waiter *next;
    void *user; /* the owner's */
    /* `served` is NULL when it failed; `err` says why. */
    void (*done)(struct hspz_waiter *waiter, struct hspz_served *served,
                 const struct hspz_error *err);
};

HSPZ_MUST_USE enum hspz_status hspz_catalog_create(struct hspz_service *service,
                                                   struct hspz_catalog **out);
/* Nothing is at work, and no job holds an index. */
void hspz_catalog_destroy(struct hspz_catalog **catalog);
/* Asks loads and builds under way to stop, and drops those that have not begun. */
void hspz_catalog_stop(struct hspz_catalog *catalog);
/* Takes every index out of the list. */
void hspz_catalog_clear(struct hspz_catalog *catalog);
bool hspz_catalog_idle(const struct hspz_catalog *catalog); /* nothing is at work */

/* Loads the file at `path` (any path) under `name`, for the configuration. One of it that is served
 * under that name from another file stays until the new one is ready. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_load_path(struct hspz_catalog *catalog,
                                                      const char *name, const char *path,
                                                      struct hspz_waiter *waiter,
                                                      struct hspz_error *err);
/* Loads params->file under params->index. Served already from that file: told at once (done runs
 * before the return), or refused when the file has another digest now; being loaded: waits with the
 * others. On success `waiter` is told once. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_load(struct hspz_catalog *catalog,
                                                 const struct hspz_load_params *params,
                                                 struct hspz_waiter *waiter,
                                                 struct hspz_error *err);
HSPZ_MUST_USE enum hspz_status hspz_catalog_build(struct hspz_catalog *catalog,
                                                  const struct hspz_build_params *params,
                                                  struct hspz_waiter *waiter,
                                                  struct hspz_error *err);
/* Writes the response. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_unload(struct hspz_catalog *catalog,
                                                   struct hspz_text name, uint32_t id,
                                                   struct hspz_writer *w, struct hspz_error *err);
void hspz_catalog_forget(struct hspz_catalog *catalog, struct hspz_waiter *waiter);

/* Room for `need` more bytes of a tenant (`what` and `name` go into the error), by dropping idle
 * indexes of its. HSPZ_E_QUOTA_EXCEEDED, HSPZ_E_TOO_LARGE. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_make_room(struct hspz_catalog *catalog,
                                                      const struct hspz_tenant *tenant,
                                                      const char *what, const char *name,
                                                      uint64_t need, struct hspz_error *err);

/* Takes an index of the configuration out of the list, if it is there, or once it is loaded. */
void hspz_catalog_retire(struct hspz_catalog *catalog, const char *name);
/* Has it loaded for `tenant` if it is dropped, and tells `waiter` once it is ready or cannot be.
 * HSPZ_E_UNKNOWN_INDEX; HSPZ_E_NOT_READY when it is not loaded on demand; the tenant's quota. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_demand(struct hspz_catalog *catalog,
                                                   struct hspz_text name,
                                                   const struct hspz_tenant *tenant,
                                                   struct hspz_waiter *waiter,
                                                   struct hspz_error *err);
/* Once a second: drops what was idle for idle_unload_s. */
void hspz_catalog_tick(struct hspz_catalog *catalog);

/* Counts one use; an index that is dropped is then on its way, for `tenant`. HSPZ_E_UNKNOWN_INDEX;
 * HSPZ_E_NOT_READY with the percentage; the tenant's quota. */
HSPZ_MUST_USE enum hspz_status hspz_catalog_acquire(struct hspz_catalog *catalog,
                                                    struct hspz_text name,
                                                    const struct hspz_tenant *tenant,
                                                    struct hspz_served **out,
                                                    struct hspz_error *err);
/* One more use. */
struct hspz_served *hspz_served_share(struct hspz_served *served);
void hspz_served_release(struct hspz_served **served);
/* For who holds a use, and whose turn is next: until unhold the index is not dropped, and one that
 * was dropped meanwhile is loaded again. Who waits behind another job must not hold: that one may
 * wait for the memory. */
void hspz_served_hold(struct hspz_served *served);
void hspz_served_unhold(struct hspz_served *served);
/* For who holds a use: whether waiting is over, and whether it was of no use. */
bool hspz_served_settled(const struct hspz_served *served);
bool hspz_served_failed(const struct hspz_served *served, struct hspz_error *err);
const struct hspz_index *hspz_served_index(const struct hspz_served *served); /* NULL: not ready */
struct hspz_ref *hspz_served_ref(const struct hspz_served *served);
/* The devices that hold a block of a settled one; NULL: all. */
const bool *hspz_served_holders(const struct hspz_served *served, size_t block);
const char *hspz_served_name(const struct hspz_served *served);
/* What jobs used of the index. */
struct hspz_usage *hspz_served_usage(struct hspz_served *served);
struct hspz_served_view {
    const char *name, *state;
    const char *owner; /* the tenant that it is in memory for; NULL: none */
    uint64_t bytes;    /* resident */
    struct hspz_usage *usage;
};
typedef void (*hspz_served_view_fn)(void *user, const struct hspz_served_view *view);
/* Each in the list. */
void hspz_catalog_each(const struct hspz_catalog *catalog, hspz_served_view_fn view, void *user);

/* How far the loads are, 0 to 100, and a number that grows while they move. */
double hspz_catalog_percent(const struct hspz_catalog *catalog);
uint64_t hspz_catalog_progress(const struct hspz_catalog *catalog);
unsigned hspz_catalog_loading(const struct hspz_catalog *catalog); /* loads and builds not ended */
uint64_t hspz_catalog_bytes(const struct hspz_catalog *catalog);

/* Responses to index.list and index.describe, to load, build and unload. */
void hspz_catalog_list_encode(struct hspz_writer *w, uint32_t id,
                              const struct hspz_catalog *catalog,
                              const struct hspz_list_params *params);
HSPZ_MUST_USE enum hspz_status
hspz_catalog_describe_encode(struct hspz_writer *w, uint32_t id, const struct hspz_catalog *catalog,
                             const struct hspz_describe_params *params, struct hspz_error *err);
void hspz_served_encode(struct hspz_writer *w, uint32_t id, const struct hspz_served *served);
