#include "engine/refuse.h"

#include "engine/alphabet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum hspz_status
hspz_refuse_bases(struct hspz_span bases, uint64_t begin, uint64_t end, struct hspz_error *err)
{
    if (begin >= end) {
        return HSPZ_OK;
    }
    const uint64_t i =
        begin + hspz_bases_allowed(bases.bytes + begin, (size_t)(end - begin), HSPZ_SEPARATOR);
    return i == end ? HSPZ_OK
                    : hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                     "query base %" PRIu64 " is the byte 0x%02x, which is no base",
                                     i, bases.bytes[i]);
}

enum hspz_status
hspz_refuse_query(uint64_t bases, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "the query has %" PRIu64 " bases; a query holds at most %u", bases,
                          HSPZ_BLOCK_BASES_LIMIT);
}

enum hspz_status
hspz_refuse_seed(const struct hspz_shape *shape, uint64_t i, uint64_t seed, struct hspz_error *err)
{
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                          "seed %" PRIu64 " has word %" PRIu32 " at position %" PRIu32
                          "; words are below %" PRIu32 " here and positions at most %" PRIu32,
                          i, HSPZ_SEED_WORD(seed), HSPZ_SEED_QUERY(seed), hspz_shape_words(shape),
                          UINT32_MAX - shape->span);
}

static const char *
strand_name(enum hspz_strand strand)
{
    return strand == HSPZ_STRAND_PLUS ? "plus" : "minus";
}

struct batch_name {
    char text[128];
};

static struct batch_name
name_of(struct hspz_refused_batch batch)
{
    struct batch_name name;
    const int len = snprintf(name.text, sizeof(name.text), "batch %" PRIu64, batch.batch);
    if (batch.interval != UINT64_MAX) {
        snprintf(name.text + len, sizeof(name.text) - (size_t)len, " of interval %" PRIu64,
                 batch.interval);
    }
    const size_t used = strlen(name.text);
    snprintf(name.text + used, sizeof(name.text) - used, " (%s strand, reference block %zu)",
             strand_name(batch.strand), batch.block);
    return name;
}

static enum hspz_status
with_numbers(enum hspz_status status, uint64_t hits, uint64_t limit, struct hspz_error *err)
{
    if (err != NULL) {
        err->has_hits = true;
        err->hits = hits;
    }
    return hspz_error_limit(err, status, limit);
}

enum hspz_status
hspz_refuse_batch_hits(struct hspz_refused_batch batch, uint64_t hits, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_error_set(err, HSPZ_E_HITS_OVERFLOW, "%s has %" PRIu64 " hits; a batch may have %u",
                       name_of(batch).text, hits, HSPZ_HITS_LIMIT);
    return with_numbers(status, hits, HSPZ_HITS_LIMIT, err);
}

enum hspz_status
hspz_refuse_job_hits(struct hspz_refused_batch batch, uint64_t hits, uint64_t hit_limit,
                     struct hspz_error *err)
{
    const enum hspz_status status = hspz_error_set(
        err, HSPZ_E_TOO_LARGE, "the job has %" PRIu64 " hits up to %s; its hit_limit is %" PRIu64,
        hits, name_of(batch).text, hit_limit);
    return with_numbers(status, hits, hit_limit, err);
}

enum hspz_status
hspz_refuse_job_hsps(uint64_t hsps, uint64_t limit, struct hspz_error *err)
{
    const enum hspz_status status =
        hspz_error_set(err, HSPZ_E_TOO_LARGE,
                       "the job has come to %" PRIu64 " HSPs; its limit is %" PRIu64
                       ", the smaller of its hsp_limit and the server's max_hsps",
                       hsps, limit);
    return with_numbers(status, hsps, limit, err);
}
