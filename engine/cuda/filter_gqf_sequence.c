/* k-mers of a long sequence into a quotient filter. While the bases of one segment are copied,
 * those of the ones before are dealt to parts (engine/cuda/filter_gqf_parts.c); then the parts are
 * merged with what is there, in one pass. The last segments are shorter and shorter, so that little
 * is left to deal when all bases are there.
 *
 * Where k-mers do not fit, nothing is changed, and they are left for the way that takes them in
 * order. */
#include "engine/cuda/filter_gqf.h"

/* Of a segment, and of the slots, for which it pays; of a segment, the last one. */
#define SHARE 16u

/* Windows begin .. end; *tally says whether they fit, and how many keys they were. */
static enum hspz_status
insert_piece(struct hspz_gqf_work *w, const struct hspz_filter_call *call, uint64_t begin,
             uint64_t end, struct hspz_cuda_quotient_tally *tally, struct hspz_error *err)
{
    struct hspz_filter *f = w->f;
    enum hspz_status status =
        hspz_cuda_feed_start(f, call, begin, end, f->segment, f->segment / SHARE, err);
    if (status == HSPZ_OK) {
        status = hspz_gqf_parts_begin(w, err);
    }
    while (status == HSPZ_OK && hspz_cuda_feed_has_more(f)) {
        struct hspz_cuda_kmers kmers;
        status = hspz_cuda_feed_take(f, &kmers, err);
        if (status == HSPZ_OK) {
            status = hspz_gqf_parts_deal_kmers(w, &kmers, err);
        }
        if (status == HSPZ_OK) {
            status = hspz_cuda_feed_next(f, err);
        }
    }
    return status == HSPZ_OK ? hspz_gqf_parts_merge(w, HSPZ_FILTER_INSERT, tally, err) : status;
}

enum hspz_status
hspz_gqf_insert_sequence(struct hspz_filter *f, const struct hspz_filter_call *call,
                         uint64_t *windows, uint64_t *keys, struct hspz_error *err)
{
    const struct hspz_cuda_quotient q = hspz_gqf_view(f);
    const struct hspz_gqf_needs needs = {.wide = hspz_gqf_is_wide(&q),
                                         .key_bits = q.fingerprint_bits + q.value_bits};
    const uint64_t most = hspz_gqf_parts_most(f);
    bool fits = hspz_gqf_is_for_parts(&q, &needs, HSPZ_FILTER_INSERT);
    *windows = *keys = 0;
    while (fits && *windows < call->count) {
        struct hspz_gqf_work w;
        struct hspz_cuda_quotient_tally tally;
        const uint64_t left = call->count - *windows, piece = left < most ? left : most;
        if (piece < f->segment / SHARE || piece < q.quotients / SHARE) {
            break;
        }
        enum hspz_status status = hspz_gqf_parts_open(&w, f, &needs, piece, f->stream, err);
        if (status == HSPZ_E_OUT_OF_MEMORY) {
            break;
        }
        if (status == HSPZ_OK) {
            status = insert_piece(&w, call, *windows, *windows + piece, &tally, err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        fits = tally.fits;
        *windows += fits ? piece : 0;
        *keys += fits ? tally.dealt : 0;
    }
    return HSPZ_OK;
}
