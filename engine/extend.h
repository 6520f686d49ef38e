/* X-drop extension of one anchor, as every engine does it; also compiled for the device.
 *
 * Right: s = 0, best = 0; for i = 0, 1, ... while inside both sequences: s += score(ref[r + i],
 * query[q + i]); s > best moves best and its end to i; best - s > xdrop stops. Left the same from
 * i = 1 with ref[r - i], query[q - i]. A separator stops at once. The total of both decides:
 * threshold <= total <= 3 * threshold, entropy wanted and 20 matching ACGT or more inside: entropy
 * = -sum over ACGT of p ln p / ln 4, p = matches of that base / bases covered, in double, ln 4
 * rounded to float; else 1. Kept if (int)((float)total * entropy) >= threshold, with score
 * (int)(total * entropy). (KegAlign's rules; where it reads past sequence ends or counts matches
 * outside ACGT, these do not.)
 *
 * Here stands the plain way, base by base: what any faster one must equal.
 *
 * Numbers: sums are 64 bits wide; a total beyond INT32_MAX counts as INT32_MAX. Logarithms are our
 *          own: libraries differ in the last bit, which may move a score. No product is joined with
 *          a sum.
 * Units:   r and q are 0-based, of the first base after the window, r <= ref_len, q <= query_len.
 */
#pragma once

#include "protocol/types.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef HSPZ_DEVICE
#ifdef __CUDACC__
#define HSPZ_DEVICE __host__ __device__
#else
#define HSPZ_DEVICE
#endif
#endif

/* Fewer matches than these have no entropy. */
#define HSPZ_ENTROPY_MATCHES 20u

/* A sequence as extensions read it: base i is classes[bases[i]], or from the end of a strand that
 * is read backwards, with a table that complements, classes[bases[len - 1 - i]]. */
struct hspz_extend_seq {
    const uint8_t *bases;
    const uint8_t *classes; /* 256, by byte (hspz_base_classes) */
    uint32_t len;
    bool backwards;
};

HSPZ_DEVICE static inline uint8_t
hspz_extend_class(const struct hspz_extend_seq *seq, uint32_t i)
{
    return seq->classes[seq->bases[seq->backwards ? seq->len - 1 - i : i]];
}

/* One side of an extension so far. Starts as zeros. */
struct hspz_extend_side {
    int64_t sum, best;
    uint32_t bases;      /* added */
    uint32_t best_bases; /* of them, up to the best sum */
};

/* Adds a pair's score; false when the drop ends the side. */
HSPZ_DEVICE static inline bool
hspz_extend_add(struct hspz_extend_side *side, int32_t score, int32_t xdrop)
{
    side->sum += score;
    side->bases++;
    if (side->sum > side->best) {
        side->best = side->sum;
        side->best_bases = side->bases;
    }
    return side->best - side->sum <= xdrop;
}

/* The right side of (r, q), and the left one. */
HSPZ_DEVICE static inline struct hspz_extend_side
hspz_extend_half(const struct hspz_extend_seq *ref, uint32_t r, const struct hspz_extend_seq *query,
                 uint32_t q, bool right, const struct hspz_scoring *scoring)
{
    struct hspz_extend_side side = {0, 0, 0, 0};
    bool open = true;
    while (open && (right ? r < ref->len && q < query->len : r > 0 && q > 0)) {
        const uint8_t a = hspz_extend_class(ref, right ? r++ : --r);
        const uint8_t b = hspz_extend_class(query, right ? q++ : --q);
        open = a != HSPZ_CLASS_SEPARATOR && b != HSPZ_CLASS_SEPARATOR &&
               hspz_extend_add(&side, scoring->scores[a * HSPZ_CLASSES + b], scoring->xdrop);
    }
    return side;
}

HSPZ_DEVICE static inline int32_t
hspz_extend_total(int64_t right, int64_t left)
{
    return right + left > INT32_MAX ? INT32_MAX : (int32_t)(right + left);
}

HSPZ_DEVICE static inline bool
hspz_extend_wants_entropy(int32_t total, const struct hspz_scoring *scoring)
{
    return scoring->entropy && total >= scoring->threshold &&
           total <= 3 * (int64_t)scoring->threshold;
}

/* As they stand: a compiler may not make one operation of both. */
HSPZ_DEVICE static inline double
hspz_extend_product(double a, double b)
{
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

HSPZ_DEVICE static inline double
hspz_extend_sum(double a, double b)
{
#ifdef __CUDA_ARCH__
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
}

/* ln x to about the last bit, for 2^-32 <= x <= 1. With x = m 2^e and f = (m - 1) / (m + 1) it is
 * e ln 2 + 2 (f + f^3 / 3 + f^5 / 5 + ...); f is below 0.172. */
HSPZ_DEVICE static inline double
hspz_extend_ln(double x)
{
    const double ln2_high = 6.93147180369123816490e-01; /* the product with e is exact */
    const double ln2_low = 1.90821492927058770002e-10;
    double e = 0, rest = 0;
    while (x < 0.70710678118654752) {
        x = hspz_extend_sum(x, x);
        e = hspz_extend_sum(e, -1);
    }
    const double f = hspz_extend_sum(x, -1) / hspz_extend_sum(x, 1);
    const double square = hspz_extend_product(f, f);
    for (int k = 23; k >= 3; k -= 2) {
        rest = hspz_extend_sum(hspz_extend_product(rest, square), 2.0 / k);
    }
    rest = hspz_extend_product(hspz_extend_product(rest, square), f);
    rest = hspz_extend_sum(rest, hspz_extend_product(e, ln2_low));
    return hspz_extend_sum(hspz_extend_product(e, ln2_high),
                           hspz_extend_sum(hspz_extend_sum(f, f), rest));
}

/* `matches` of each base among `bases` covered. */
HSPZ_DEVICE static inline double
hspz_extend_entropy(const uint32_t matches[4], uint32_t bases)
{
    double sum = 0;
    if ((uint64_t)matches[0] + matches[1] + matches[2] + matches[3] < HSPZ_ENTROPY_MATCHES) {
        return 1;
    }
    for (int base = 0; base < 4; base++) {
        const double p = (double)matches[base] / (double)bases;
        if (matches[base] != 0) {
            sum = hspz_extend_sum(sum, hspz_extend_product(p, hspz_extend_ln(p)));
        }
    }
    return -sum / (double)1.38629436111989061883F;
}

/* Whether an extension passes, and its score. The test goes through float and the score does not:
 * above 2^24 they differ. */
HSPZ_DEVICE static inline bool
hspz_extend_keep(int32_t total, double entropy, int32_t threshold, int32_t *score)
{
    if (hspz_extend_product((double)(float)total, entropy) < (double)threshold) {
        return false;
    }
    *score = (int32_t)hspz_extend_product((double)total, entropy);
    return true;
}

/* What both sides of (r, q) come to; true with the HSP when it passes. */
HSPZ_DEVICE static inline bool
hspz_extend_judge(const struct hspz_extend_seq *ref, uint32_t r,
                  const struct hspz_extend_seq *query, uint32_t q,
                  const struct hspz_extend_side *right, const struct hspz_extend_side *left,
                  const struct hspz_scoring *scoring, struct hspz_hsp *out)
{
    const int32_t total = hspz_extend_total(right->best, left->best);
    double entropy = 1;
    out->ref_start = r - left->best_bases;
    out->query_start = q - left->best_bases;
    out->length = left->best_bases + right->best_bases;
    if (hspz_extend_wants_entropy(total, scoring)) {
        uint32_t matches[HSPZ_CLASSES] = {0};
        for (uint32_t i = 0; i < out->length; i++) {
            const uint8_t a = hspz_extend_class(ref, out->ref_start + i);
            matches[a] += a == hspz_extend_class(query, out->query_start + i);
        }
        entropy = hspz_extend_entropy(matches, out->length);
    }
    return hspz_extend_keep(total, entropy, scoring->threshold, &out->score);
}

/* Extends (r, q); true with the HSP when it passes. */
HSPZ_DEVICE static inline bool
hspz_extend_anchor(const struct hspz_extend_seq *ref, uint32_t r,
                   const struct hspz_extend_seq *query, uint32_t q,
                   const struct hspz_scoring *scoring, struct hspz_hsp *out)
{
    const struct hspz_extend_side right = hspz_extend_half(ref, r, query, q, true, scoring);
    const struct hspz_extend_side left = hspz_extend_half(ref, r, query, q, false, scoring);
    return hspz_extend_judge(ref, r, query, q, &right, &left, scoring, out);
}
