#include "daemon/scheduler.h"

#include "protocol/status.h"

#include <stddef.h>

void
hspz_scheduler_init(struct hspz_scheduler *scheduler, unsigned lanes, hspz_give_fn give,
                    hspz_clock_fn clock, hspz_wake_fn wake, void *user)
{
    *scheduler = (struct hspz_scheduler){
        .lanes = lanes, .give = give, .clock = clock, .wake = wake, .user = user};
    scheduler->busy.prev = scheduler->busy.next = &scheduler->busy;
}

void
hspz_scheduler_resize(struct hspz_scheduler *scheduler, unsigned lanes)
{
    scheduler->lanes = lanes;
}

void
hspz_share_init(struct hspz_share *share, uint64_t weight)
{
    *share = (struct hspz_share){.weight = weight, .turn_ns = HSPZ_TURN_NS};
    for (unsigned i = 0; i < HSPZ_PRIORITIES; i++) {
        share->lines[i].prev = share->lines[i].next = &share->lines[i];
    }
}

static bool
is_idle(const struct hspz_share *share)
{
    return share->ready == 0 && share->under_way == 0;
}

static void
leave_busy(struct hspz_share *share)
{
    if (share->next != NULL) {
        share->prev->next = share->next;
        share->next->prev = share->prev;
        share->prev = share->next = NULL;
    }
}

void
hspz_share_fini(struct hspz_share *share)
{
    HSPZ_REQUIRE(is_idle(share));
    leave_busy(share);
}

/* A share that comes back has no claim on the time it was away. */
static void
join_busy(struct hspz_scheduler *scheduler, struct hspz_share *share)
{
    if (share->next != NULL) {
        return;
    }
    if (share->time < scheduler->time) {
        share->time = scheduler->time;
    }
    share->prev = scheduler->busy.prev;
    share->next = &scheduler->busy;
    share->prev->next = share->next->prev = share;
}

static void
insert(struct hspz_source *before, struct hspz_source *source)
{
    source->prev = before->prev;
    source->next = before;
    before->prev->next = source;
    before->prev = source;
}

static void
put_in_line(struct hspz_scheduler *scheduler, struct hspz_source *before,
            struct hspz_source *source, struct hspz_share *share)
{
    join_busy(scheduler, share);
    insert(before, source);
    source->share = share;
    share->ready++;
    scheduler->ready++;
}

void
hspz_scheduler_push(struct hspz_scheduler *scheduler, struct hspz_source *source,
                    struct hspz_share *share, unsigned priority)
{
    HSPZ_REQUIRE(priority < HSPZ_PRIORITIES);
    if (source->next == NULL) {
        put_in_line(scheduler, &share->lines[priority], source, share);
    }
}

void
hspz_scheduler_remove(struct hspz_scheduler *scheduler, struct hspz_source *source)
{
    if (source->next != NULL) {
        source->prev->next = source->next;
        source->next->prev = source->prev;
        source->prev = source->next = NULL;
        source->share->ready--;
        source->share = NULL;
        scheduler->ready--;
    }
}

/* What a share's cap gives for a nanosecond. */
static double
cap_rate(const struct hspz_scheduler *scheduler, const struct hspz_share *share)
{
    return (double)share->cap_percent / 100 * (double)scheduler->lanes;
}

/* Gives the capped ones what the time since has earned them. */
static void
credit(struct hspz_scheduler *scheduler, uint64_t now_ns)
{
    for (struct hspz_share *s = scheduler->busy.next; s != &scheduler->busy; s = s->next) {
        if (s->cap_percent == 0) {
            continue;
        }
        const double rate = cap_rate(scheduler, s);
        s->credit_ns += (double)(now_ns - s->credited_ns) * rate;
        s->credited_ns = now_ns;
        if (s->credit_ns > HSPZ_CAP_NS * rate) {
            s->credit_ns = HSPZ_CAP_NS * rate;
        }
    }
}

static bool
is_capped(const struct hspz_share *share)
{
    return share->cap_percent != 0 && share->credit_ns <= 0;
}

/* Asks to be called when the first of those that wait for their cap has earned a turn. */
static void
ask_to_wake(struct hspz_scheduler *scheduler, uint64_t now_ns)
{
    double least = -1;
    for (struct hspz_share *s = scheduler->busy.next; s != &scheduler->busy; s = s->next) {
        if (s->ready > 0 && is_capped(s)) {
            const double wait = -s->credit_ns / cap_rate(scheduler, s) + 1;
            least = least < 0 || wait < least ? wait : least;
        }
    }
    if (least >= 0) {
        scheduler->wake(scheduler->user, now_ns + (uint64_t)least);
    }
}

/* The share that is least far, of those with somebody in line, or of those with nobody there but a
 * turn under way; NULL when there is none. */
static struct hspz_share *
least_far(struct hspz_scheduler *scheduler, bool ready)
{
    struct hspz_share *best = NULL;
    for (struct hspz_share *s = scheduler->busy.next; s != &scheduler->busy; s = s->next) {
        if (!is_idle(s) && !is_capped(s) && (s->ready > 0) == ready &&
            (best == NULL || s->time < best->time)) {
            best = s;
        }
    }
    return best;
}

static bool
has_room(struct hspz_scheduler *scheduler, const struct hspz_share *share)
{
    if (scheduler->under_way < scheduler->lanes) {
        return true;
    }
    const struct hspz_share *away = least_far(scheduler, false);
    return (away == NULL || share->time <= away->time) &&
           (scheduler->under_way < 2 * scheduler->lanes || share->under_way == 0);
}

static struct hspz_source *
first_line(struct hspz_share *share)
{
    unsigned i = HSPZ_PRIORITIES - 1;
    while (share->lines[i].next == &share->lines[i]) {
        HSPZ_REQUIRE(i > 0);
        i--;
    }
    return &share->lines[i];
}

/* Those that could not use what was due to them keep a bounded claim. */
static void
bound_claims(struct hspz_scheduler *scheduler, double time)
{
    for (struct hspz_share *s = scheduler->busy.next; s != &scheduler->busy; s = s->next) {
        if ((s->ready == 0 || is_capped(s)) && s->time < time - HSPZ_SHARE_CLAIM_NS) {
            s->time = time - HSPZ_SHARE_CLAIM_NS;
        }
    }
}

static double
virtual_of(const struct hspz_share *share, uint64_t ns)
{
    return (double)ns / (double)share->weight;
}

/* Returns whether to go on. */
static bool
give_one(struct hspz_scheduler *scheduler, struct hspz_share *share)
{
    struct hspz_source *line = first_line(share), *source = line->next;
    const bool alone = scheduler->ready == 1 && scheduler->under_way < scheduler->lanes;
    const struct hspz_turn turn = {
        .share = share,
        .charged_ns = share->turn_ns,
        .order = share->time,
        .parts = alone ? HSPZ_TURN_PARTS_ALONE : HSPZ_TURN_PARTS,
    };
    hspz_scheduler_remove(scheduler, source);
    const enum hspz_give given = scheduler->give(scheduler->user, source, &turn);
    if (given == HSPZ_GAVE) {
        scheduler->under_way++;
        share->under_way++;
        share->time += virtual_of(share, turn.charged_ns);
        share->credit_ns -= (double)turn.charged_ns;
        bound_claims(scheduler, turn.order);
    } else if (given == HSPZ_GIVE_WAIT && source->next == NULL) {
        put_in_line(scheduler, line->next, source, share);
    }
    return given != HSPZ_GIVE_WAIT;
}

void
hspz_scheduler_pump(struct hspz_scheduler *scheduler)
{
    if (scheduler->pumping) {
        return;
    }
    scheduler->pumping = true;
    struct hspz_share *share;
    const uint64_t now_ns = scheduler->clock(scheduler->user);
    credit(scheduler, now_ns);
    do {
        share = least_far(scheduler, true);
    } while (share != NULL && has_room(scheduler, share) && give_one(scheduler, share));
    for (struct hspz_share *s = scheduler->busy.next, *next; s != &scheduler->busy; s = next) {
        next = s->next;
        if (is_idle(s)) {
            leave_busy(s);
        }
    }
    ask_to_wake(scheduler, now_ns);
    scheduler->pumping = false;
}

void
hspz_scheduler_done(struct hspz_scheduler *scheduler, const struct hspz_turn *turn, uint64_t ns)
{
    struct hspz_share *share = turn->share;
    HSPZ_REQUIRE(scheduler->under_way > 0 && share->under_way > 0);
    scheduler->under_way--;
    share->under_way--;
    share->time += virtual_of(share, ns) - virtual_of(share, turn->charged_ns);
    share->credit_ns += (double)turn->charged_ns - (double)ns;
    share->turn_ns = (3 * share->turn_ns + ns) / 4;
    if (scheduler->time < turn->order) {
        scheduler->time = turn->order;
    }
}
