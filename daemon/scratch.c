#include "daemon/scratch.h"

#include "protocol/status.h"

#include <stddef.h>

void
hspz_scratch_init(struct hspz_scratch *scratch, uint64_t budget)
{
    *scratch = (struct hspz_scratch){.budget = budget};
    scratch->rest.prev = scratch->rest.next = &scratch->rest;
}

uint64_t
hspz_scratch_left(const struct hspz_scratch *scratch)
{
    return scratch->budget > scratch->reserved ? scratch->budget - scratch->reserved : 0;
}

static void
leave_rest(struct hspz_scratch *scratch, struct hspz_scratch_user *user)
{
    if (user->next != NULL) {
        scratch->resting -= user->reserved;
        user->prev->next = user->next;
        user->next->prev = user->prev;
        user->prev = user->next = NULL;
    }
}

bool
hspz_scratch_reserve(struct hspz_scratch *scratch, struct hspz_scratch_user *user, uint64_t bytes)
{
    const uint64_t others = scratch->reserved - user->reserved;
    if (bytes > scratch->budget || others > scratch->budget - bytes) {
        return false;
    }
    leave_rest(scratch, user);
    scratch->reserved = others + bytes;
    user->reserved = bytes;
    return true;
}

void
hspz_scratch_settle(struct hspz_scratch *scratch, struct hspz_scratch_user *user, uint64_t bytes,
                    uint64_t kept, uint64_t most)
{
    HSPZ_REQUIRE(scratch->reserved >= user->reserved && kept <= bytes);
    leave_rest(scratch, user);
    scratch->reserved = scratch->reserved - user->reserved + bytes;
    user->reserved = bytes;
    user->kept = kept;
    user->most = most;
    if (bytes > 0) {
        scratch->resting += bytes;
        user->prev = &scratch->rest;
        user->next = scratch->rest.next;
        user->next->prev = user;
        scratch->rest.next = user;
    }
}

bool
hspz_scratch_moves(const struct hspz_scratch *scratch, const struct hspz_scratch_user *except)
{
    const uint64_t working = scratch->reserved - scratch->resting;
    return working > (except->next == NULL ? except->reserved : 0);
}

bool
hspz_scratch_other_fits(const struct hspz_scratch *scratch, const struct hspz_scratch_user *except)
{
    uint64_t kept = 0;
    for (const struct hspz_scratch_user *u = scratch->rest.next; u != &scratch->rest; u = u->next) {
        kept += u->kept;
    }
    for (const struct hspz_scratch_user *u = scratch->rest.next; u != &scratch->rest; u = u->next) {
        const uint64_t others = kept - u->kept;
        if (u != except && u->kept > 0 && !u->stalled && others <= scratch->budget &&
            u->most <= scratch->budget - others) {
            return true;
        }
    }
    return false;
}

struct hspz_scratch_user *
hspz_scratch_victim(struct hspz_scratch *scratch, const struct hspz_scratch_user *except)
{
    struct hspz_scratch_user *first = NULL;
    for (struct hspz_scratch_user *u = scratch->rest.next; u != &scratch->rest; u = u->next) {
        if (u == except || u->reserved == u->kept) {
            continue;
        }
        if (u->stalled) {
            return u;
        }
        if (first == NULL) {
            first = u;
        }
    }
    return first;
}
