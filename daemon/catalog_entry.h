/* An index of the catalog, and the catalog, as catalog.c and its two helpers see them. */
#pragma once

#include "daemon/catalog.h"
#include "daemon/placing.h"

#include <stdatomic.h>
#include <uv.h>

enum hspz_served_state {
    HSPZ_SERVED_BUILDING,
    HSPZ_SERVED_LOADING,
    HSPZ_SERVED_READY,
    HSPZ_SERVED_DROPPING,
    HSPZ_SERVED_DROPPED,
    HSPZ_SERVED_LEAVING,
};

enum hspz_served_op { HSPZ_OP_BUILD, HSPZ_OP_LOAD, HSPZ_OP_ADOPT, HSPZ_OP_UNLOAD };

struct hspz_served {
    struct hspz_catalog *catalog;
    struct hspz_served *next; /* in the list */
    char *name, *path;
    enum hspz_served_state state;
    unsigned uses;  /* jobs, and the list itself */
    unsigned holds; /* jobs that are next on their connection: it stays in memory */
    struct hspz_index *index;
    struct hspz_ref *ref;
    bool pinned;    /* of the configuration */
    bool on_demand; /* being loaded for those who named it */
    bool known;     /* was ready before: digest is set */
    bool starved;   /* loading, but waiting for others to be idle */
    bool fed;       /* starved no more, and about to be in line */
    bool gone;      /* taken out of the list */
    bool wanted;    /* while dropping: to be loaded again */
    bool coming;    /* loading, to take the place of another of its name, which it stands behind */
    bool unwanted;  /* loading, but to be forgotten when it is there */
    char digest[17];
    uint64_t used_ns;          /* last use begun or ended */
    struct hspz_error why_not; /* dropped: how the last load failed; HSPZ_OK: it did not */
    uint64_t bytes;            /* resident, counted in the catalog */
    struct hspz_waiter *waiters;
    struct hspz_usage usage;
    bool owned; /* loaded because a tenant named it: in memory for that one */
    char owner[HSPZ_TENANT_NAME_LIMIT + 1];
    uint64_t expected_bytes; /* that it will take once it is loaded */

    /* The operation queued or under way. */
    uv_work_t work;
    struct hspz_served *work_next;
    enum hspz_served_op op;
    struct hspz_placing placing; /* where it is, or is to be */
    uint64_t budget;             /* bytes it may take; 0: any */
    uint64_t need;               /* bytes, when they did not fit the budget */
    bool no_room;                /* the engine had no memory for the index, which is kept */
    bool want_digest_set;
    char want_digest[17];
    struct hspz_index_want want;
    struct hspz_shape want_shape;
    char *source; /* builds */
    struct hspz_index_params build_params;
    uint64_t build_block_size;
    enum hspz_status result;
    struct hspz_error err;
    _Atomic uint64_t done, total; /* progress */
};

struct hspz_work_line {
    struct hspz_served *first, **last; /* waiting */
    struct hspz_served *running;
};

struct hspz_catalog {
    struct hspz_service *service;
    struct hspz_served *list;
    struct hspz_work_line loads, builds;
    uint64_t bytes; /* resident */
    unsigned loading;
    unsigned batch, batch_done; /* loads since there were none */
    atomic_bool stop;
    _Atomic uint64_t progress;
};

/* catalog_quota.c: before a tenant has one loaded by naming it. Drops idle ones of the tenant to
 * stay within its quota; HSPZ_E_QUOTA_EXCEEDED, HSPZ_E_TOO_LARGE. */
HSPZ_MUST_USE enum hspz_status hspz_served_admit(struct hspz_served *served,
                                                 const struct hspz_tenant *tenant,
                                                 struct hspz_error *err);

/* catalog_work.c: the pool's part. */
void hspz_served_run(uv_work_t *work);

/* catalog_line.c: hands an entry to a line of work; what follows is its affair. */
void hspz_served_enqueue(struct hspz_served *served, struct hspz_work_line *line);
/* Tries loads again that waited for memory. */
void hspz_catalog_feed(struct hspz_catalog *catalog);
/* Begins to load an entry that is in the list. */
void hspz_served_begin_load(struct hspz_served *served);
/* Begins to drop a ready one that nobody holds. */
void hspz_served_begin_drop(struct hspz_served *served, const char *why);
void hspz_served_remove(struct hspz_served *served); /* from the list; freed after its last use */
/* A dropped one that is gone: why the jobs that still wait for their turn fail. */
void hspz_served_tell_gone(struct hspz_served *served);
void hspz_served_unlist(struct hspz_served *served);
void hspz_served_destroy(struct hspz_served *served); /* the entry itself; nothing is resident */
void hspz_catalog_count_loading(struct hspz_catalog *catalog, bool begin);
