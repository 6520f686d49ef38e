/* The budget of the jobs' scratch memory: pure accounting, no memory of its own.
 *
 * A job that is under way reserves the most it may come to hold in that turn; one that rests, what
 * it holds. When a job does not fit, jobs at rest are to be parked (their scratch given back, but
 * for what they keep): those that wait for their reader first, then the most recently used, whose
 * turn is farthest.
 *
 * Threads: the loop thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Embedded in a job. */
struct hspz_scratch_user {
    struct hspz_scratch_user *prev, *next; /* at rest and holding something; NULL otherwise */
    uint64_t reserved;
    uint64_t kept; /* of that, what parking leaves */
    uint64_t most; /* what its next turn may come to hold */
    bool stalled;  /* waits for its reader */
};

struct hspz_scratch {
    uint64_t budget, reserved;
    uint64_t resting;              /* of reserved: of jobs at rest */
    struct hspz_scratch_user rest; /* sentinel; most recently used first */
};

void hspz_scratch_init(struct hspz_scratch *scratch, uint64_t budget);
uint64_t hspz_scratch_left(const struct hspz_scratch *scratch);
/* Takes the user from rest to work with `bytes`; false, and nothing changed, when they do not fit.
 */
bool hspz_scratch_reserve(struct hspz_scratch *scratch, struct hspz_scratch_user *user,
                          uint64_t bytes);
/* Puts it to rest holding `bytes`, of which it keeps `kept` when parked and which may be `most` in
 * its next turn, or ends it with 0. */
void hspz_scratch_settle(struct hspz_scratch *scratch, struct hspz_scratch_user *user,
                         uint64_t bytes, uint64_t kept, uint64_t most);
/* Whether anything of others may come free without their being parked, stopped or read. */
bool hspz_scratch_moves(const struct hspz_scratch *scratch, const struct hspz_scratch_user *except);
/* Whether another one at rest that keeps something, and whose reader does not let it wait, could go
 * on if all the others were parked; only to be asked when nothing moves. Who waits for that tries
 * again when one keeps less or is stalled: until then there is no more room than now. */
bool hspz_scratch_other_fits(const struct hspz_scratch *scratch,
                             const struct hspz_scratch_user *except);
/* Whom to park for `except`; NULL when nobody at rest would give anything. */
struct hspz_scratch_user *hspz_scratch_victim(struct hspz_scratch *scratch,
                                              const struct hspz_scratch_user *except);
