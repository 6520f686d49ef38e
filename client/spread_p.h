/* Inside spread.h: what its thread and those of its servers share. All of it is guarded by the
 * mutex, but what a comment says otherwise of. */
#pragma once

#include "client/cutter.h"
#include "client/held.h"
#include "client/servers.h"
#include "client/spread.h"

#include <pthread.h>

struct hspz_spread_unit {
    struct hspz_spread_unit *next;
    struct hspz_unit_cut cut;
    unsigned runners;  /* servers at work on it */
    unsigned failures; /* calls that ended badly */
    bool handed_on;    /* waits only for those who came too late with it */
    bool done;         /* and then: */
    struct hspz_held_list parts;
    struct hspz_discover_summary summary;
};

enum hspz_spread_state {
    HSPZ_SERVER_NEW,    /* not tried yet */
    HSPZ_SERVER_GOOD,   /* answers */
    HSPZ_SERVER_FALTER, /* failed once, and is tried again at once */
    HSPZ_SERVER_FAILED  /* is tried again after a while */
};

struct hspz_spread_server {
    struct hspz_spread *spread;
    struct hspz_address address;
    char where[HSPZ_ADDRESS_TEXT_BYTES];
    int stop_fd;                /* an eventfd: its call ends */
    struct hspz_client *client; /* of its thread, while that runs; NULL: none, or not checked */
    pthread_t thread;
    bool running;  /* there is a thread; */
    bool ended;    /* which is at its end, to be joined */
    bool wanted;   /* still named */
    unsigned rank; /* not asked while one of lower rank is left */
    enum hspz_spread_state state;
    bool answered;                 /* at least once */
    unsigned failures;             /* since it last did a unit */
    int64_t again_ms;              /* not before */
    struct hspz_error failure;     /* the last one */
    bool told;                     /* that it failed */
    struct hspz_spread_unit *unit; /* under way, */
    int64_t begun_ms;              /* since */
    double rate;                   /* positions a second; 0: not known */
    double weight;                 /* bytes of results a position */
    uint64_t units, positions, busy_ms, failed;
};

struct hspz_spread {
    const struct hspz_cli *cli; /* read only */
    struct hspz_client *client; /* the one server */
    bool own_client;
    struct hspz_servers *addresses; /* of the caller's thread; NULL: one server */
    struct hspz_held *held;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for servers */
    int wake_fd;            /* an eventfd: for the caller's thread */
    struct hspz_spread_server **servers;
    size_t server_count;
    /* Of the index, fixed once it is described: */
    char *index;
    char digest[17];
    char described_by[HSPZ_ADDRESS_TEXT_BYTES];
    uint32_t span;
    uint64_t ref_blocks;
    uint64_t most_bases;
    /* Of a job: */
    const struct hspz_discover_request *request; /* read only */
    struct hspz_cutter cutter;
    bool cut_all;
    struct hspz_spread_unit *first, *last; /* those not handed on */
    size_t unit_count;
    bool over;                 /* servers end */
    struct hspz_error failure; /* that ends the job */
};

/* Looks who is named now. That a file cannot be read is no failure while some are known. */
HSPZ_MUST_USE enum hspz_status hspz_spread_refresh(struct hspz_spread *spread,
                                                   struct hspz_error *err);
/* A note on standard error, in place of a line of progress; on the caller's thread. */
void hspz_spread_note(const struct hspz_spread *spread, const char *format, ...) HSPZ_PRINTF(2, 3);
/* What a failure says, without the server's address before it. */
const char *hspz_spread_reason(const struct hspz_spread_server *server,
                               const struct hspz_error *why);
/* Wakes the caller's thread. */
void hspz_spread_wake(const struct hspz_spread *spread);
/* The calls of a server end. */
void hspz_spread_interrupt(const struct hspz_spread_server *server);
/* A server's thread: `user` is a struct hspz_spread_server. */
void *hspz_spread_serve(void *user);
