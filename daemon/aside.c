#include "daemon/aside.h"

void
hspz_aside_init(struct hspz_aside *aside, uv_loop_t *loop)
{
    *aside = (struct hspz_aside){.loop = loop};
    aside->last = &aside->first;
}

bool
hspz_aside_idle(const struct hspz_aside *aside)
{
    return aside->first == NULL && aside->running == 0 && aside->others == 0;
}

void
hspz_aside_remove(struct hspz_aside *aside, struct hspz_aside_piece *piece)
{
    if (!piece->in_line) {
        return;
    }
    struct hspz_aside_piece **link = &aside->first;
    while (*link != piece) {
        link = &(*link)->next;
    }
    *link = piece->next;
    if (aside->last == &piece->next) {
        aside->last = link;
    }
    piece->in_line = false;
}

static void look(struct hspz_aside *aside);

static void
run(uv_work_t *work)
{
    struct hspz_aside_piece *piece = work->data;
    piece->run(piece);
}

static void
on_done(uv_work_t *work, int result)
{
    (void)result;
    struct hspz_aside_piece *piece = work->data;
    struct hspz_aside *aside = piece->aside;
    if (piece->tenant != NULL) {
        piece->tenant->asides--;
        aside->running--;
    } else {
        aside->others--;
    }
    piece->done(piece);
    look(aside);
}

static void
start(struct hspz_aside *aside, struct hspz_aside_piece *piece)
{
    if (piece->tenant != NULL) {
        piece->tenant->asides++;
        piece->tenant->aside_turn = ++aside->turns;
        aside->running++;
    } else {
        aside->others++;
    }
    piece->aside = aside;
    piece->work.data = piece;
    /* Only a missing callback makes it fail. */
    HSPZ_REQUIRE(uv_queue_work(aside->loop, &piece->work, run, on_done) == 0);
}

/* The next one that may run: of the tenant whose last turn is longest ago, in line order. */
static struct hspz_aside_piece *
choose(const struct hspz_aside *aside)
{
    struct hspz_aside_piece *best = NULL;
    for (struct hspz_aside_piece *p = aside->first; p != NULL; p = p->next) {
        const bool nameless = *p->tenant->settings.name == '\0';
        if ((nameless || p->tenant->asides == 0) &&
            (best == NULL || p->tenant->aside_turn < best->tenant->aside_turn)) {
            best = p;
        }
    }
    return best;
}

static void
look(struct hspz_aside *aside)
{
    /* One that begins may end another, which queues a third: taken up by the call outside. */
    if (aside->looking) {
        return;
    }
    aside->looking = true;
    struct hspz_aside_piece *piece;
    while (aside->running < HSPZ_ASIDE_PIECES && (piece = choose(aside)) != NULL) {
        hspz_aside_remove(aside, piece);
        if (piece->begin == NULL || piece->begin(piece)) {
            start(aside, piece);
        }
    }
    aside->looking = false;
}

void
hspz_aside_queue(struct hspz_aside *aside, struct hspz_aside_piece *piece)
{
    if (piece->in_line) {
        return;
    }
    if (piece->tenant == NULL) {
        start(aside, piece);
        return;
    }
    piece->next = NULL;
    piece->in_line = true;
    *aside->last = piece;
    aside->last = &piece->next;
    look(aside);
}
