#include "client/cutter.h"

#include "protocol/limits.h"

#include <string.h>

static bool
is_cut(const struct hspz_discover_request *request, uint64_t span)
{
    return !request->given_seeds && request->begin == 0 && request->end == UINT64_MAX &&
           request->interval == 0 && request->bases.len >= span &&
           (request->records == HSPZ_RECORDS_ANCHORS || request->scoring.scope == HSPZ_SCOPE_JOB);
}

void
hspz_cutter_init(struct hspz_cutter *cutter, const struct hspz_discover_request *request,
                 uint32_t span)
{
    *cutter = (struct hspz_cutter){
        .request = request,
        .span = span,
        .by = !is_cut(request, span)                     ? HSPZ_CUT_NOT
              : request->records == HSPZ_RECORDS_ANCHORS ? HSPZ_CUT_BATCHES
                                                         : HSPZ_CUT_SEQUENCES,
        .strand = request->strands == HSPZ_STRANDS_MINUS ? HSPZ_STRAND_MINUS : HSPZ_STRAND_PLUS,
    };
}

/* Bases [begin, end) of the strand. */
static struct hspz_span
bases_of(const struct hspz_cutter *cutter, uint64_t begin, uint64_t end)
{
    const struct hspz_span all = cutter->request->bases;
    const uint64_t from = cutter->strand == HSPZ_STRAND_PLUS ? begin : all.len - end;
    return (struct hspz_span){.bytes = all.bytes + from, .len = (size_t)(end - begin)};
}

/* Where the sequence ends on the strand that holds `at`, or begins with a separator there. */
static uint64_t
sequence_end(const struct hspz_cutter *cutter, uint64_t at)
{
    const struct hspz_span all = cutter->request->bases;
    const uint8_t *found;
    if (at >= all.len) {
        return all.len;
    }
    if (cutter->strand == HSPZ_STRAND_PLUS) {
        found = memchr(all.bytes + at, HSPZ_SEPARATOR, all.len - at);
        return found != NULL ? (uint64_t)(found - all.bytes) : all.len;
    }
    found = memrchr(all.bytes, HSPZ_SEPARATOR, all.len - at);
    return found != NULL ? all.len - 1 - (uint64_t)(found - all.bytes) : all.len;
}

/* The strand is through. */
static void
end_strand(struct hspz_cutter *cutter)
{
    cutter->at = 0;
    cutter->over =
        cutter->strand == HSPZ_STRAND_MINUS || cutter->request->strands == HSPZ_STRANDS_PLUS;
    cutter->strand = HSPZ_STRAND_MINUS;
}

static void
cut_batches(struct hspz_cutter *cutter, uint64_t want, struct hspz_unit_cut *unit)
{
    const uint64_t windows = cutter->request->bases.len - cutter->span + 1;
    const uint64_t batches = want / HSPZ_BATCH_POSITIONS;
    const uint64_t most = (batches > 0 ? batches : 1) * HSPZ_BATCH_POSITIONS;
    const uint64_t end = windows - cutter->at < most ? windows : cutter->at + most;
    unit->bases = bases_of(cutter, cutter->at, end + cutter->span - 1);
    unit->positions = end - cutter->at;
    unit->batch_shift = (uint32_t)(cutter->at / HSPZ_BATCH_POSITIONS);
    cutter->at = end;
    if (end == windows) {
        end_strand(cutter);
    }
}

static void
cut_sequences(struct hspz_cutter *cutter, uint64_t want, struct hspz_unit_cut *unit)
{
    const uint64_t len = cutter->request->bases.len;
    const uint64_t least = want < len - cutter->at ? cutter->at + want : len;
    const uint64_t end = sequence_end(cutter, least);
    unit->bases = bases_of(cutter, cutter->at, end);
    unit->positions = end - cutter->at;
    cutter->at = end + 1;
    if (cutter->at >= len) {
        end_strand(cutter);
    }
}

bool
hspz_cutter_next(struct hspz_cutter *cutter, uint64_t want, struct hspz_unit_cut *unit)
{
    const struct hspz_discover_request *request = cutter->request;
    if (cutter->over) {
        return false;
    }
    if (cutter->by == HSPZ_CUT_NOT) {
        const struct hspz_span all = request->given_seeds ? request->seeds : request->bases;
        *unit =
            (struct hspz_unit_cut){.bases = all, .strands = request->strands, .positions = all.len};
        cutter->over = true;
        return true;
    }
    *unit = (struct hspz_unit_cut){
        .strands = cutter->strand == HSPZ_STRAND_PLUS ? HSPZ_STRANDS_PLUS : HSPZ_STRANDS_MINUS,
        .query_shift = cutter->at,
    };
    if (cutter->by == HSPZ_CUT_BATCHES) {
        cut_batches(cutter, want, unit);
    } else {
        cut_sequences(cutter, want, unit);
    }
    return true;
}
