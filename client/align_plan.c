#include "client/align_plan.h"

#include <stdlib.h>
#include <string.h>

/* What an alignment costs beyond its length: the bases that LASTZ looks at around it. */
#define EXTENSION_COST 2000u
#define PIECE_COST_LEAST 1000000u
#define BASES_PER_COST 30u /* so that reading the sequences is a small part */
#define TORN (HSPZ_ALIGN_NO_PIECE - 1)

void
hspz_align_plan_fini(struct hspz_align_plan *plan)
{
    free(plan->segments);
    free(plan->cell);
    free(plan->piece);
    free(plan->pieces);
    hspz_cells_fini(&plan->cells);
    *plan = (struct hspz_align_plan){0};
}

static int
by(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

/* Sequences of a group follow each other, so order by sequence keeps groups together too; the query
 * first, as LASTZ wants its segments. */
static int
compare_segments(const void *a, const void *b)
{
    const struct hspz_segment *x = a, *y = b;
    const uint64_t keys[][2] = {
        {x->minus, y->minus},
        {x->query, y->query},
        {x->target, y->target},
        {x->target_start, y->target_start},
        {x->query_start, y->query_start},
        {x->len, y->len},
    };
    int order = 0;
    for (size_t i = 0; order == 0 && i < sizeof(keys) / sizeof(keys[0]); i++) {
        order = by(keys[i][0], keys[i][1]);
    }
    return order != 0 ? order : (y->score > x->score) - (y->score < x->score);
}

static bool
same_place(const struct hspz_segment *x, const struct hspz_segment *y)
{
    return x->minus == y->minus && x->query == y->query && x->target == y->target &&
           x->target_start == y->target_start && x->query_start == y->query_start &&
           x->len == y->len;
}

static void
sort_and_drop_equal(struct hspz_align_plan *plan)
{
    size_t kept = 0;
    if (plan->count > 0) {
        qsort(plan->segments, plan->count, sizeof(*plan->segments), compare_segments);
    }
    for (size_t i = 0; i < plan->count; i++) {
        if (kept == 0 || !same_place(&plan->segments[i], &plan->segments[kept - 1])) {
            plan->segments[kept++] = plan->segments[i];
        }
    }
    plan->count = kept;
}

static struct hspz_align_piece
piece_for(const struct hspz_align_plan *plan, const struct hspz_segment *s)
{
    return (struct hspz_align_piece){
        .target_group = plan->target->sequences[s->target].group,
        .query_group = plan->query->sequences[s->query].group,
        .minus = s->minus,
    };
}

static enum hspz_status
add_piece(struct hspz_align_plan *plan, struct hspz_align_piece piece, uint32_t *number)
{
    if (plan->piece_count == plan->piece_capacity) {
        const size_t want = 2 * plan->piece_capacity + 64;
        struct hspz_align_piece *grown = realloc(plan->pieces, want * sizeof(*grown));
        if (grown == NULL) {
            return HSPZ_E_OUT_OF_MEMORY;
        }
        plan->pieces = grown;
        plan->piece_capacity = want;
    }
    *number = (uint32_t)plan->piece_count;
    plan->pieces[plan->piece_count++] = piece;
    return HSPZ_OK;
}

static enum hspz_status
occupy(struct hspz_align_plan *plan, uint64_t reach)
{
    /* One cell holds a whole strand when there is no cutting. */
    hspz_cells_init(&plan->cells, reach != 0 ? reach : UINT64_MAX);
    enum hspz_status status = HSPZ_OK;
    for (size_t i = 0; status == HSPZ_OK && i < plan->count; i++) {
        const struct hspz_segment *s = &plan->segments[i];
        const struct hspz_plane plane = {.target = s->target, .query = s->query, .minus = s->minus};
        status = hspz_cells_occupy(&plan->cells, plane, s->target_start, s->query_start, s->len,
                                   &plan->cell[i]);
        plan->piece[i] = HSPZ_ALIGN_NO_PIECE;
    }
    return status;
}

static uint64_t
cost_of(const struct hspz_segment *s)
{
    return s->len + EXTENSION_COST;
}

static uint64_t
full_at(const struct hspz_align_plan *plan, const struct hspz_align_piece *piece,
        struct hspz_align_cut cut)
{
    if (cut.reach == 0) {
        return UINT64_MAX;
    }
    const uint64_t bases = plan->target->groups[piece->target_group].bases +
                           plan->query->groups[piece->query_group].bases;
    const uint64_t least = bases / BASES_PER_COST;
    return cut.piece_cost != 0        ? cut.piece_cost
           : least > PIECE_COST_LEAST ? least
                                      : PIECE_COST_LEAST;
}

/* The pieces that are being filled: one for each pair of groups and strand. */
struct filling {
    uint32_t *open; /* number of the piece, or HSPZ_ALIGN_NO_PIECE */
    uint64_t *component_cost;
    uint32_t *component_piece;
};

/* The piece for the component of segment `i`, which is met for the first time. */
static enum hspz_status
assign(struct hspz_align_plan *plan, const struct filling *filling, size_t i, uint32_t root,
       struct hspz_align_cut cut)
{
    struct hspz_align_piece piece = piece_for(plan, &plan->segments[i]);
    uint32_t *open =
        &filling->open[(size_t)piece.target_group * plan->query->group_count + piece.query_group];
    enum hspz_status status = HSPZ_OK;
    if (*open == HSPZ_ALIGN_NO_PIECE || plan->pieces[*open].minus != piece.minus ||
        plan->pieces[*open].cost + filling->component_cost[root] / 2 >=
            full_at(plan, &piece, cut)) {
        status = add_piece(plan, piece, open);
    }
    if (status == HSPZ_OK) {
        filling->component_piece[root] = *open;
        plan->pieces[*open].cost += filling->component_cost[root];
    }
    return status;
}

static enum hspz_status
fill_pieces(struct hspz_align_plan *plan, const struct filling *filling, struct hspz_align_cut cut)
{
    enum hspz_status status = HSPZ_OK;
    for (size_t c = 0; c < plan->cells.count; c++) {
        filling->component_piece[c] = HSPZ_ALIGN_NO_PIECE;
    }
    for (size_t g = 0; g < plan->target->group_count * plan->query->group_count; g++) {
        filling->open[g] = HSPZ_ALIGN_NO_PIECE;
    }
    for (size_t i = 0; i < plan->count; i++) {
        filling->component_cost[hspz_cells_find(&plan->cells, plan->cell[i])] +=
            cut.by_number ? 1 : cost_of(&plan->segments[i]);
    }
    for (size_t i = 0; status == HSPZ_OK && i < plan->count; i++) {
        const uint32_t root = hspz_cells_find(&plan->cells, plan->cell[i]);
        if (filling->component_piece[root] == HSPZ_ALIGN_NO_PIECE) {
            status = assign(plan, filling, i, root, cut);
        }
        if (status == HSPZ_OK) {
            plan->piece[i] = filling->component_piece[root];
            plan->pieces[plan->piece[i]].segments++;
        }
    }
    return status;
}

static enum hspz_status
cut_into_pieces(struct hspz_align_plan *plan, struct hspz_align_cut cut)
{
    const size_t groups = plan->target->group_count * plan->query->group_count;
    const struct filling filling = {
        .open = malloc((groups + 1) * sizeof(*filling.open)),
        .component_cost = calloc(plan->cells.count + 1, sizeof(*filling.component_cost)),
        .component_piece = malloc((plan->cells.count + 1) * sizeof(*filling.component_piece)),
    };
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (filling.open != NULL && filling.component_cost != NULL && filling.component_piece != NULL) {
        status = fill_pieces(plan, &filling, cut);
    }
    free(filling.open);
    free(filling.component_cost);
    free(filling.component_piece);
    return status;
}

enum hspz_status
hspz_align_plan_make(const struct hspz_align_side *target, const struct hspz_align_side *query,
                     const struct hspz_segment_list *segments, struct hspz_align_cut cut,
                     struct hspz_align_plan *out, struct hspz_error *err)
{
    struct hspz_align_plan plan = {
        .target = target,
        .query = query,
        .count = segments->count,
        .segments = malloc((segments->count + 1) * sizeof(*plan.segments)),
        .cell = malloc((segments->count + 1) * sizeof(*plan.cell)),
        .piece = malloc((segments->count + 1) * sizeof(*plan.piece)),
    };
    enum hspz_status status = HSPZ_E_OUT_OF_MEMORY;
    if (plan.segments != NULL && plan.cell != NULL && plan.piece != NULL) {
        if (segments->count > 0) {
            memcpy(plan.segments, segments->segments, segments->count * sizeof(*plan.segments));
        }
        sort_and_drop_equal(&plan);
        status = occupy(&plan, cut.reach);
    }
    if (status == HSPZ_OK) {
        status = cut_into_pieces(&plan, cut);
    }
    if (status != HSPZ_OK) {
        hspz_align_plan_fini(&plan);
        return hspz_error_set(err, status, "no memory to plan the alignment");
    }
    *out = plan;
    return HSPZ_OK;
}

enum hspz_status
hspz_align_plan_owners(struct hspz_align_plan *plan, uint32_t **piece_of_component,
                       struct hspz_error *err)
{
    uint32_t *owner = malloc((plan->cells.count + 1) * sizeof(*owner));
    if (owner == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to plan the alignment");
    }
    for (size_t c = 0; c < plan->cells.count; c++) {
        owner[c] = HSPZ_ALIGN_NO_PIECE;
    }
    for (size_t i = 0; i < plan->count; i++) {
        const uint32_t root = hspz_cells_find(&plan->cells, plan->cell[i]);
        owner[root] = owner[root] == HSPZ_ALIGN_NO_PIECE || owner[root] == plan->piece[i]
                          ? plan->piece[i]
                          : TORN;
    }
    *piece_of_component = owner;
    return HSPZ_OK;
}

enum hspz_status
hspz_align_plan_mend(struct hspz_align_plan *plan, size_t *pieces, struct hspz_error *err)
{
    uint32_t *owner = NULL;
    const size_t before = plan->piece_count;
    enum hspz_status status = hspz_align_plan_owners(plan, &owner, err);
    for (size_t i = 0; status == HSPZ_OK && i < plan->count; i++) {
        const struct hspz_segment *s = &plan->segments[i];
        const uint32_t root = hspz_cells_find(&plan->cells, plan->cell[i]);
        if (owner[root] == TORN) {
            status = add_piece(plan, piece_for(plan, s), &owner[root]);
        }
        if (status == HSPZ_OK && owner[root] != plan->piece[i]) {
            struct hspz_align_piece *old = &plan->pieces[plan->piece[i]];
            struct hspz_align_piece *new = &plan->pieces[owner[root]];
            old->segments--;
            old->over = old->segments == 0;
            new->segments++;
            new->cost += cost_of(s);
            plan->piece[i] = owner[root];
        }
    }
    free(owner);
    *pieces = plan->piece_count - before;
    return status == HSPZ_OK ? HSPZ_OK
                             : hspz_error_set(err, status, "no memory to plan the alignment");
}
