#include "engine/index_scan_p.h"

#include "engine/alphabet.h"

#define BATCH HSPZ_INDEX_BATCH

struct hspz_index_scan
hspz_index_scan_start(const struct hspz_index_params *params, const uint8_t *bases, uint64_t first,
                      uint64_t count)
{
    return (struct hspz_index_scan){
        .shape = &params->shape,
        .codes = hspz_base_codes(params->unmask),
        .bases = bases,
        .at = first,
        .end = count == 0 ? first : first + (count - 1) * params->step + params->shape.span,
        .next_start = first,
        .step = params->step,
    };
}

static uint64_t
batch_end(const struct hspz_index_scan *scan)
{
    return scan->end - scan->at > BATCH ? scan->at + BATCH : scan->end;
}

/* Rolls over up to BATCH bases and leaves the valid windows among the wanted ones. Two of a kind:
 * 64 bits hold a window of up to 32 bases and are much faster than 128. */
static size_t
roll_narrow(struct hspz_index_scan *scan, uint64_t windows[BATCH], uint32_t starts[BATCH])
{
    const uint64_t stop = batch_end(scan);
    const uint32_t span = scan->shape->span;
    const uint64_t step = scan->step;
    const uint8_t *const codes = scan->codes;
    const uint8_t *const bases = scan->bases;
    uint64_t window = (uint64_t)scan->window;
    uint64_t next_start = scan->next_start;
    uint32_t valid = scan->valid;
    size_t count = 0;
    for (uint64_t at = scan->at; at < stop; at++) {
        const uint8_t code = codes[bases[at]];
        window = window << 2 | (code & 3u);
        valid = code < HSPZ_BASE_INVALID ? valid + 1 : 0;
        const uint64_t start = at + 1 - span;
        if (start == next_start) {
            next_start += step;
            windows[count] = window;
            starts[count] = (uint32_t)start;
            count += valid >= span;
        }
    }
    scan->at = stop;
    scan->window = window;
    scan->next_start = next_start;
    scan->valid = valid;
    return count;
}

static size_t
roll_wide(struct hspz_index_scan *scan, hspz_window windows[BATCH], uint32_t starts[BATCH])
{
    const uint64_t stop = batch_end(scan);
    const uint32_t span = scan->shape->span;
    size_t count = 0;
    for (; scan->at < stop; scan->at++) {
        const uint8_t code = scan->codes[scan->bases[scan->at]];
        scan->window = scan->window << 2 | (code & 3u);
        scan->valid = code < HSPZ_BASE_INVALID ? scan->valid + 1 : 0;
        const uint64_t start = scan->at + 1 - span;
        if (start == scan->next_start) {
            scan->next_start += scan->step;
            windows[count] = scan->window;
            starts[count] = (uint32_t)start;
            count += scan->valid >= span;
        }
    }
    return count;
}

/* hspz_shape_word of many windows, run by run: loops that a compiler turns into vectors. */
static void
gather_narrow(const struct hspz_shape *shape, const uint64_t windows[BATCH], size_t count,
              uint32_t words[BATCH])
{
    for (size_t i = 0; i < count; i++) {
        words[i] = (uint32_t)(windows[i] >> shape->run_shift[0]) & shape->run_mask[0];
    }
    for (uint32_t r = 1; r < shape->runs; r++) {
        const uint32_t shift = shape->run_shift[r];
        const uint32_t mask = shape->run_mask[r];
        for (size_t i = 0; i < count; i++) {
            words[i] |= (uint32_t)(windows[i] >> shift) & mask;
        }
    }
}

bool
hspz_index_scan_next(struct hspz_index_scan *scan, struct hspz_index_batch *batch)
{
    if (scan->at >= scan->end) {
        return false;
    }
    if (scan->shape->span <= 32) {
        uint64_t windows[BATCH];
        batch->count = roll_narrow(scan, windows, batch->starts);
        gather_narrow(scan->shape, windows, batch->count, batch->words);
    } else {
        hspz_window windows[BATCH];
        batch->count = roll_wide(scan, windows, batch->starts);
        for (size_t i = 0; i < batch->count; i++) {
            batch->words[i] = hspz_shape_word(scan->shape, windows[i]);
        }
    }
    return true;
}
