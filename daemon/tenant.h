/* Who may use the daemon, and how a peer is recognised.
 *
 * A peer is told by one credential: a token or a TLS client certificate it showed, else on the UNIX
 * socket its user or one of its groups, as the kernel says. Each credential belongs to one tenant.
 * The kernel shows users and groups that it cannot map as its overflow ids: those match nobody.
 *
 * Without tenants in the configuration there is one, without a name: the daemon's own user and
 * root on the UNIX socket, as operators, and whoever reaches a TCP listener, as a user.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/scheduler.h"
#include "daemon/usage.h"
#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSPZ_SHA256_BYTES 32u
#define HSPZ_TENANT_NAME_LIMIT 64u
#define HSPZ_TENANT_WEIGHT_LIMIT 1000u

enum hspz_role { HSPZ_ROLE_USER, HSPZ_ROLE_OPERATOR };

const char *hspz_role_name(enum hspz_role role);

enum hspz_credential_kind {
    HSPZ_CREDENTIAL_NONE, /* whoever is let in without tenants */
    HSPZ_CREDENTIAL_UID,
    HSPZ_CREDENTIAL_GID,
    HSPZ_CREDENTIAL_TOKEN,
    HSPZ_CREDENTIAL_CERTIFICATE,
};

struct hspz_credential {
    enum hspz_credential_kind kind;
    uint32_t id;                       /* of a user or group */
    uint8_t sha256[HSPZ_SHA256_BYTES]; /* of a token, or of a certificate in DER */
};

/* What the configuration says of a tenant. A limit of 0 is none. */
struct hspz_tenant_settings {
    char *name; /* letters, digits, '.', '_', '-'; "" without tenants */
    unsigned role;
    uint64_t weight;             /* share of device time against other tenants', 1 to 1000 */
    uint64_t max_jobs;           /* waiting or running, of all its connections */
    uint64_t max_queued_bytes;   /* of requests, held */
    uint64_t max_resident_bytes; /* of indexes that are in memory for it, and of its filters */
    uint64_t max_shm_bytes;      /* of memory shared with its connections */
    uint64_t max_filters;
    uint64_t device_share; /* percent of device time, 1 to 100 */
    struct hspz_credential *credentials;
    size_t credential_count;
};

void hspz_tenant_settings_fini(struct hspz_tenant_settings *settings);

/* A tenant at work. It lives until it is in no configuration and has no connection. */
struct hspz_tenant {
    struct hspz_tenant *next;
    struct hspz_tenant_settings settings; /* may change at a reload */
    bool gone;                            /* in the configuration no more: nobody matches it */
    unsigned uses;                        /* connections */

    struct hspz_share share;
    struct hspz_usage usage;
    struct hspz_pace pace;          /* its jobs end */
    uint64_t jobs;                  /* waiting or running */
    uint64_t ingest_bytes;          /* of requests, held; part of the service's */
    uint64_t resident_bytes;        /* of indexes that are in memory for it */
    uint64_t shm_bytes;             /* shared with its connections */
    uint64_t filters, filter_bytes; /* its filters, as of the last look */
    unsigned asides;                /* pieces of slow work under way (daemon/aside.h) */
    uint64_t aside_turn;            /* when one last began, in a count of such turns */
};

struct hspz_tenants {
    struct hspz_tenant *first; /* in the configuration's order */
    bool named;                /* the configuration names tenants */
    uint32_t overflow_uid, overflow_gid;
};

/* The kernel's overflow ids. */
uint32_t hspz_overflow_uid(void);
uint32_t hspz_overflow_gid(void);

/* Makes the set match `settings`, which move in (the array stays the caller's): tenants are the
 * same by name. `named` false: the one without a name. On HSPZ_E_OUT_OF_MEMORY nothing changed. */
HSPZ_MUST_USE enum hspz_status hspz_tenants_apply(struct hspz_tenants *tenants, bool named,
                                                  struct hspz_tenant_settings *settings,
                                                  size_t count);
/* No connection is left. */
void hspz_tenants_fini(struct hspz_tenants *tenants);

/* The tenant of a credential, or NULL. Secrets are compared in constant time. */
struct hspz_tenant *hspz_tenants_find(const struct hspz_tenants *tenants,
                                      const struct hspz_credential *credential);

/* What all tenants together have a limit on. A quarter of it is kept in equal parts, one for each
 * tenant, so that none can use up what another has to begin with. */
enum hspz_held { HSPZ_HELD_CONNECTIONS, HSPZ_HELD_JOBS, HSPZ_HELD_INGEST };

/* The most that one may hold of a limit: when the others hold nothing. */
uint64_t hspz_tenants_most(const struct hspz_tenants *tenants, uint64_t limit);
/* Whether it may hold so much more. */
bool hspz_tenant_has_room(const struct hspz_tenants *tenants, const struct hspz_tenant *tenant,
                          enum hspz_held what, uint64_t more, uint64_t limit);

void hspz_tenant_hold(struct hspz_tenant *tenant);
/* Frees a tenant that is gone with its last use; *tenant becomes NULL. */
void hspz_tenant_release(struct hspz_tenants *tenants, struct hspz_tenant **tenant);
