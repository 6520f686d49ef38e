/* The filters that are served: by tenant and name, in memory until they are dropped, counted while
 * jobs use them.
 *
 *   coming    its name and its memory are taken; seen by nobody
 *   listed    jobs may use it
 *   leaving   out of the list, its memory freed when the last job on it ends
 *
 * A filter is its tenant's; a shared one may be read by all. What a tenant may not see is as if it
 * were not there. Memory counts against the budget of all filters (filter_memory) and, with that of
 * indexes, against the tenant's quota; some work needs more for a while, which is charged as well.
 *
 * One writer or many readers work on a filter at a time. A lock is held while a piece of work runs,
 * never while anybody's reader is waited for.
 *
 * Threads: the loop thread; a filter itself is that of who holds the lock. */
#pragma once

#include "daemon/aside.h"
#include "daemon/service.h"
#include "engine/filter.h"
#include "protocol/filter_message.h"
#include "protocol/limits.h"
#include "protocol/status.h"
#include "protocol/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hspz_filters;

/* A place in the line for a filter's lock. Embedded in its owner. */
struct hspz_filter_wait {
    struct hspz_filter_wait *next;
    bool writes, in_line;
};

struct hspz_named_filter {
    struct hspz_filters *filters;
    struct hspz_named_filter *next; /* in the list */
    char owner[HSPZ_TENANT_NAME_LIMIT + 1];
    char name[HSPZ_FILTER_NAME_LIMIT + 1];
    bool shared;
    bool coming, gone;
    const struct hspz_filter_ops *ops;
    struct hspz_filter *filter; /* NULL: coming */
    unsigned device;            /* of its first part; HSPZ_ANY_DEVICE: the host's */
    uint64_t bytes;             /* that it counts for */
    unsigned uses;              /* jobs, and the list itself */
    unsigned readers;
    bool writer;
    struct hspz_filter_wait *first, **last; /* who could not have the lock, in turn */
    uint64_t version;                       /* one more with each writer */
    struct hspz_aside_piece end;            /* frees it */
};

HSPZ_MUST_USE enum hspz_status hspz_filters_create(struct hspz_service *service,
                                                   struct hspz_filters **out);
/* Nothing is at work, and no job uses a filter. */
void hspz_filters_destroy(struct hspz_filters **filters);
/* Takes every filter out of the list. */
void hspz_filters_clear(struct hspz_filters *filters);
bool hspz_filters_idle(const struct hspz_filters *filters); /* nothing is at work */
/* After tenants have changed: filters of those that are gone go, too. */
void hspz_filters_reload(struct hspz_filters *filters);
struct hspz_aside *hspz_filters_aside(struct hspz_filters *filters);

/* What a name that a peer gave means to a tenant. */
struct hspz_filter_ref {
    char owner[HSPZ_TENANT_NAME_LIMIT + 1];
    char name[HSPZ_FILTER_NAME_LIMIT + 1];
    bool own;
};
/* HSPZ_E_BAD_REQUEST: it can be the name of none. */
HSPZ_MUST_USE enum hspz_status hspz_filter_ref_parse(const struct hspz_tenant *tenant,
                                                     struct hspz_text text,
                                                     struct hspz_filter_ref *out,
                                                     struct hspz_error *err);
/* As `tenant` is told it. */
#define HSPZ_FILTER_SHOWN_BYTES (HSPZ_TENANT_NAME_LIMIT + HSPZ_FILTER_NAME_LIMIT + 2)
const char *hspz_filter_ref_shown(const struct hspz_filter_ref *ref,
                                  char out[HSPZ_FILTER_SHOWN_BYTES]);

enum hspz_filter_access {
    HSPZ_FILTER_READS,
    HSPZ_FILTER_WRITES,
    HSPZ_FILTER_DROPS, /* as an operator, any */
    HSPZ_FILTER_DROPS_ANY
};
/* Counts one use. HSPZ_E_UNKNOWN_FILTER, HSPZ_E_FORBIDDEN. */
HSPZ_MUST_USE enum hspz_status hspz_filters_acquire(struct hspz_filters *filters,
                                                    const struct hspz_filter_ref *ref,
                                                    enum hspz_filter_access access,
                                                    struct hspz_named_filter **out,
                                                    struct hspz_error *err);
/* A coming filter of that name, with one use. HSPZ_E_BAD_REQUEST: the name is taken;
 * HSPZ_E_QUOTA_EXCEEDED: there are as many as there may be. */
HSPZ_MUST_USE enum hspz_status hspz_filters_reserve(struct hspz_filters *filters,
                                                    const struct hspz_filter_ref *ref,
                                                    const struct hspz_tenant *tenant, bool shared,
                                                    struct hspz_named_filter **out,
                                                    struct hspz_error *err);
/* Which ops, and which devices, a filter of that plan gets: the engine's, or where it has none such
 * the CPU's. Parts go to the devices in turn; the plan has them then. */
void hspz_filters_place(struct hspz_named_filter *filter, struct hspz_filter_plan *plan);
/* Keys of a piece of work, and whether it is slow (beside the lanes). */
struct hspz_filter_pace {
    size_t keys;
    bool aside;
};
struct hspz_filter_pace hspz_named_filter_pace(const struct hspz_named_filter *filter,
                                               const struct hspz_filter_plan *plan, bool writes);
/* Bytes that a filter of that plan counts for: its own, and what changing it needs. */
uint64_t hspz_named_filter_cost(const struct hspz_named_filter *filter,
                                const struct hspz_filter_plan *plan);
/* Charges `bytes` to a coming filter. HSPZ_E_TOO_LARGE, HSPZ_E_QUOTA_EXCEEDED. */
HSPZ_MUST_USE enum hspz_status hspz_filters_charge(struct hspz_named_filter *filter,
                                                   const struct hspz_tenant *tenant, uint64_t bytes,
                                                   struct hspz_error *err);
/* Memory for a while. HSPZ_E_QUOTA_EXCEEDED. */
HSPZ_MUST_USE enum hspz_status hspz_filters_borrow(struct hspz_filters *filters, uint64_t bytes,
                                                   struct hspz_error *err);
/* For one that grows: up to `want`, less where the budget or its tenant's quota has no more. */
uint64_t hspz_filters_borrow_some(struct hspz_named_filter *filter,
                                  const struct hspz_tenant *tenant, uint64_t want);
/* What one that grows has come to. */
void hspz_named_filter_settle(struct hspz_named_filter *filter, uint64_t bytes);
void hspz_filters_return(struct hspz_filters *filters, uint64_t bytes);
/* It is made: others may use it. */
void hspz_filters_list(struct hspz_named_filter *filter);
/* Out of the list. */
void hspz_filters_unlist(struct hspz_named_filter *filter);
void hspz_named_filter_share(struct hspz_named_filter *filter); /* one use more */
void hspz_named_filter_release(struct hspz_named_filter **filter);

/* Whether the lock may be had now; else `wait` is in line, and heads that lack something are woken
 * when it may. Who has a place is to take up its turn, or to give it up. */
bool hspz_named_filter_may_lock(struct hspz_named_filter *filter, struct hspz_filter_wait *wait,
                                bool writes);
void hspz_named_filter_lock(struct hspz_named_filter *filter, struct hspz_filter_wait *wait,
                            bool writes);
void hspz_named_filter_unlock(struct hspz_named_filter *filter, bool writes);
void hspz_named_filter_unwait(struct hspz_named_filter *filter, struct hspz_filter_wait *wait);

uint64_t hspz_filters_bytes(const struct hspz_filters *filters);
uint64_t hspz_filters_count(const struct hspz_filters *filters);
/* Of one tenant. */
void hspz_filters_of(const struct hspz_filters *filters, const char *owner, uint64_t *count,
                     uint64_t *bytes);
/* The response to filter.list. `all`: for an operator. */
HSPZ_MUST_USE enum hspz_status hspz_filters_list_encode(struct hspz_writer *w, uint32_t id,
                                                        const struct hspz_filters *filters,
                                                        const struct hspz_tenant *tenant, bool all,
                                                        const struct hspz_list_params *params,
                                                        struct hspz_error *err);
