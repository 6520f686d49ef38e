/* Text to matches to plot: whatever the bytes, pieces of any size give the same matches or the same
 * error, and what is taken lies inside its sequences. The first byte is the size of the pieces. */
#include "client/plot_read.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct parsed {
    struct hspz_plot_axis ref, query;
    struct hspz_plot_reader reader;
    struct hspz_error err;
    enum hspz_status status;
};

static void
parse(const uint8_t *data, size_t size, size_t piece, struct parsed *out)
{
    out->err = (struct hspz_error){0};
    hspz_plot_axis_init(&out->ref);
    hspz_plot_axis_init(&out->query);
    out->status = hspz_plot_reader_init(&out->reader, &out->ref, &out->query, &out->err);
    HSPZ_REQUIRE(out->status == HSPZ_OK);
    hspz_plot_reader_begin(&out->reader, "fuzz");
    for (size_t at = 0; out->status == HSPZ_OK && at < size;) {
        const size_t count = size - at < piece ? size - at : piece;
        out->status = hspz_plot_reader_feed(&out->reader, data + at, count, &out->err);
        at += count;
    }
    if (out->status == HSPZ_OK) {
        out->status = hspz_plot_reader_end(&out->reader, &out->err);
    }
}

static void
check(struct parsed *p)
{
    struct hspz_error err;
    HSPZ_REQUIRE(p->status == HSPZ_OK || p->err.text[0] != '\0');
    HSPZ_REQUIRE(hspz_plot_axis_settle(&p->ref, &err) == HSPZ_OK);
    HSPZ_REQUIRE(hspz_plot_axis_settle(&p->query, &err) == HSPZ_OK);
    for (size_t i = 0; i < p->reader.count; i++) {
        const struct hspz_plot_record *record = &p->reader.records[i];
        struct hspz_plot_match match;
        hspz_plot_reader_place(&p->reader, record, &match);
        HSPZ_REQUIRE(match.ref_begin >= p->ref.begins[record->ref] &&
                     match.ref_begin < match.ref_end &&
                     match.ref_end <= p->ref.begins[record->ref + 1]);
        HSPZ_REQUIRE(match.query_begin >= p->query.begins[record->query] &&
                     match.query_begin < match.query_end &&
                     match.query_end <= p->query.begins[record->query + 1]);
    }
}

static void
drop(struct parsed *p)
{
    hspz_plot_reader_fini(&p->reader);
    hspz_plot_axis_fini(&p->ref);
    hspz_plot_axis_fini(&p->query);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct parsed whole, pieces;
    parse(data + 1, size - 1, size, &whole);
    parse(data + 1, size - 1, 1 + (size_t)data[0], &pieces);
    HSPZ_REQUIRE(whole.status == pieces.status && strcmp(whole.err.text, pieces.err.text) == 0);
    HSPZ_REQUIRE(whole.reader.count == pieces.reader.count);
    check(&whole);
    check(&pieces);
    HSPZ_REQUIRE(whole.ref.all == pieces.ref.all && whole.query.all == pieces.query.all);
    drop(&whole);
    drop(&pieces);
    return 0;
}
