/* Who works next: shares by weight, within a share by priority, within that in turn.
 *
 * A source (a connection) is pushed when it becomes able to use a turn and stands in line once, in
 * its share (a tenant) with the priority of its job. Shares are served by start-time fair queueing:
 * each has a virtual time, the lane time it used over its weight, and the one that is least far
 * gets the next turn. Turns are charged ahead with what the share's last ones took and put right
 * when they end. A share that comes back from having nothing to do starts where the oldest turn
 * under way did: it keeps no claim, and waits behind no turn that has not begun. One that cannot
 * use all of its part (few connections) keeps a claim of HSPZ_SHARE_CLAIM_NS at most.
 *
 * Up to two turns a lane are under way, so that a worker finds the next one without waiting for the
 * loop; the second is not given away when a share that is less far has a turn under way, and may
 * come back for it. A share with none under way may have one more: its `order` puts it before those
 * that have not begun.
 *
 * A share may be capped: it gets no turn while it has used more than so many percent of the lanes'
 * time, whatever else they do, but for HSPZ_CAP_NS at once.
 *
 * Threads: the loop thread only. */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>

/* A turn ends after the step that used up so much, or four times that when nobody waits for its
 * lane; when its parts are full; and when one of less order waits. About a part's time on one core.
 */
#define HSPZ_TURN_NS UINT64_C(1000000)
#define HSPZ_TURN_NS_ALONE (4 * HSPZ_TURN_NS)
/* Parts a turn may fill, when others wait and when none does. */
#define HSPZ_TURN_PARTS 2u
#define HSPZ_TURN_PARTS_ALONE 4u

#define HSPZ_SHARE_CLAIM_NS 20e6
#define HSPZ_CAP_NS 50e6
#define HSPZ_WEIGHT_LIMIT 1000u
/* Priorities are 0 to HSPZ_PRIORITIES - 1; larger ones first. */
#define HSPZ_PRIORITIES (HSPZ_PRIORITY_LIMIT + 1)

struct hspz_share;

/* Embedded in its owner. */
struct hspz_source {
    struct hspz_source *prev, *next; /* NULL when not in line */
    struct hspz_share *share;        /* that it stands in line for */
};

/* Embedded in its owner, which keeps it until it is idle. */
struct hspz_share {
    struct hspz_share *prev, *next;            /* of the busy ones; NULL when it is none */
    struct hspz_source lines[HSPZ_PRIORITIES]; /* sentinels of rings */
    uint64_t weight;                           /* 1 to HSPZ_WEIGHT_LIMIT; may change any time */
    double time;                               /* virtual: nanoseconds of lanes over weight */
    uint64_t turn_ns;                          /* what the next turn is expected to take */
    unsigned ready, under_way;                 /* sources in line; turns */

    uint64_t cap_percent; /* of all lanes' time; 0: none; may change any time */
    double credit_ns;     /* that it may use now; as of: */
    uint64_t credited_ns;
};

/* One turn, as it is given. */
struct hspz_turn {
    struct hspz_share *share;
    uint64_t charged_ns;
    double order;   /* turns that have not begun are taken up by it, least first */
    unsigned parts; /* most to fill */
};

enum hspz_give {
    HSPZ_GAVE,      /* a turn was submitted: hspz_scheduler_done follows */
    HSPZ_GAVE_NONE, /* the source cannot use one after all; it will be pushed again */
    HSPZ_GIVE_WAIT, /* not now for anybody: the source keeps its place until a turn ends */
};

typedef enum hspz_give (*hspz_give_fn)(void *user, struct hspz_source *source,
                                       const struct hspz_turn *turn);
/* For caps: the time, and a call at which to pump again (at the latest). */
typedef uint64_t (*hspz_clock_fn)(void *user);
typedef void (*hspz_wake_fn)(void *user, uint64_t at_ns);

struct hspz_scheduler {
    struct hspz_share busy; /* sentinel of a ring: those not idle when last looked at by the pump */
    double time;            /* where a share that was idle starts */
    unsigned lanes, ready, under_way;
    bool pumping;
    hspz_give_fn give;
    hspz_clock_fn clock;
    hspz_wake_fn wake;
    void *user;
};

void hspz_scheduler_init(struct hspz_scheduler *scheduler, unsigned lanes, hspz_give_fn give,
                         hspz_clock_fn clock, hspz_wake_fn wake, void *user);
/* How many lanes there are now. */
void hspz_scheduler_resize(struct hspz_scheduler *scheduler, unsigned lanes);
void hspz_share_init(struct hspz_share *share, uint64_t weight);
/* Nothing of it is in line or under way. */
void hspz_share_fini(struct hspz_share *share);

/* Does nothing for a source that is in line. */
void hspz_scheduler_push(struct hspz_scheduler *scheduler, struct hspz_source *source,
                         struct hspz_share *share, unsigned priority);
void hspz_scheduler_remove(struct hspz_scheduler *scheduler, struct hspz_source *source);
/* Gives turns while there is room; a call from within `give` is taken up by the one outside. */
void hspz_scheduler_pump(struct hspz_scheduler *scheduler);
/* A turn ended that took `ns` of a lane. Pushing its source again before the pump keeps its place.
 */
void hspz_scheduler_done(struct hspz_scheduler *scheduler, const struct hspz_turn *turn,
                         uint64_t ns);
