#include "tests/engine/scene.h"

#include "engine/score.h"
#include "tests/support/test.h"

static uint64_t
draw(uint64_t *state, uint64_t below)
{
    return test_random(state) % below;
}

static void
draw_scoring(uint64_t *state, struct hspz_scoring *scoring)
{
    hspz_scoring_init(scoring);
    const uint64_t kind = draw(state, 8);
    if (kind < 3) {
        scoring->xdrop = (int32_t)draw(state, 700);
        scoring->threshold = 1 + (int32_t)draw(state, 4000);
        scoring->entropy = kind > 0;
    } else if (kind == 3) { /* the whole range */
        for (int i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
            scoring->scores[i] = (int32_t)draw(state, 2 * HSPZ_SCORE_LIMIT + 1) - HSPZ_SCORE_LIMIT;
        }
        scoring->xdrop = (int32_t)draw(state, HSPZ_XDROP_LIMIT + 1);
        scoring->threshold = 1 + (int32_t)draw(state, HSPZ_XDROP_LIMIT);
    } else if (kind < 6) { /* ties, and steps of the size of the drop */
        const int32_t unit = kind == 4 ? 1 : 16383;
        for (int i = 0; i < HSPZ_CLASSES * HSPZ_CLASSES; i++) {
            scoring->scores[i] = ((int32_t)draw(state, 4) - 2) * unit;
        }
        for (int i = 0; i < 4; i++) {
            scoring->scores[i * HSPZ_CLASSES + i] = unit;
        }
        scoring->xdrop = (int32_t)draw(state, 5) * unit;
        scoring->threshold = 1 + (int32_t)draw(state, 30) * unit;
    }
}

/* Text of an alphabet, or a short word again and again. */
static void
draw_bases(uint64_t *state, uint8_t *bases, uint32_t len)
{
    static const char *const alphabets[] = {
        "ACGT", "ACGT", "AC", "A", "ACGTacgt", "ACGTNnRx&", "ACGTACGTACGTACGTN"};
    const char *alphabet = alphabets[draw(state, 7)];
    const uint32_t period = draw(state, 3) == 0 ? 1 + (uint32_t)draw(state, 7) : len;
    for (uint32_t i = 0; i < len; i++) {
        bases[i] =
            i < period ? (uint8_t)alphabet[draw(state, strlen(alphabet))] : bases[i - period];
    }
}

static void
complement(uint8_t *bases, uint32_t len)
{
    static const char from[] = "ACGTacgtR";
    static const char to[] = "TGCAtgcaY";
    for (uint32_t i = 0, j = len; i < j--; i++) {
        const uint8_t b = bases[i];
        bases[i] = bases[j];
        bases[j] = b;
    }
    for (uint32_t i = 0; i < len; i++) {
        const char *at = strchr(from, bases[i]);
        bases[i] = at == NULL ? bases[i] : (uint8_t)to[at - from];
    }
}

void
scene_draw(uint64_t *state, struct scene *s)
{
    s->ref_len = 1 + (uint32_t)draw(state, draw(state, 3) == 0 ? 20 : SCENE_BASES);
    s->query_len = 1 + (uint32_t)draw(state, draw(state, 3) == 0 ? 20 : SCENE_BASES);
    s->minus = draw(state, 2) == 0;
    s->unmask[0] = draw(state, 2) == 0;
    s->unmask[1] = draw(state, 2) == 0;
    draw_scoring(state, &s->scoring);
    draw_bases(state, s->ref, s->ref_len);
    const uint64_t change = draw(state, 4) == 0 ? 2 : 1 + draw(state, 60);
    const uint32_t shift = (uint32_t)draw(state, s->ref_len);
    for (uint32_t i = 0; i < s->query_len; i++) {
        s->query[i] = draw(state, change) == 0 ? (uint8_t) "ACGTACGTACGTACGaN&"[draw(state, 18)]
                                               : s->ref[(shift + i) % s->ref_len];
    }
    const uint32_t spread = draw(state, 2) == 0 ? 1 : 1 + (uint32_t)draw(state, 8);
    const uint64_t sparse = 1 + draw(state, 6);
    s->count = 0;
    for (uint32_t q = 0; q <= s->query_len; q++) {
        for (uint32_t d = spread; d-- > 0 && s->count < SCENE_ANCHORS;) {
            const uint32_t r = (shift + q) % s->ref_len + d;
            if (r <= s->ref_len && draw(state, sparse) == 0) {
                s->anchors[s->count++] = (uint64_t)q << 32 | r;
            }
        }
    }
    for (size_t i = 0; draw(state, 4) == 0 && i < s->count; i++) {
        const size_t j = draw(state, s->count);
        const uint64_t a = s->anchors[i];
        s->anchors[i] = s->anchors[j];
        s->anchors[j] = a;
    }
    if (s->minus) { /* the query as it is handed over */
        complement(s->query, s->query_len);
    }
    s->plain_ref =
        (struct hspz_extend_seq){s->ref, hspz_base_classes(s->unmask[0], false), s->ref_len, false};
    s->plain_query = (struct hspz_extend_seq){s->query, hspz_base_classes(s->unmask[1], s->minus),
                                              s->query_len, s->minus};
}

static int
by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct hspz_hsp));
}

size_t
scene_sort(struct hspz_hsp *hsps, size_t count)
{
    size_t kept = 0;
    if (count > 0) {
        qsort(hsps, count, sizeof(*hsps), by_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || by_bytes(&hsps[kept - 1], &hsps[i]) != 0) {
            hsps[kept++] = hsps[i];
        }
    }
    return kept;
}

size_t
scene_extend(const struct scene *s, size_t begin, size_t end, struct hspz_hsp *out)
{
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        count += hspz_extend_anchor(&s->plain_ref, HSPZ_ANCHOR_REF(s->anchors[i]), &s->plain_query,
                                    HSPZ_ANCHOR_QUERY(s->anchors[i]), &s->scoring, &out[count]);
    }
    return scene_sort(out, count);
}
