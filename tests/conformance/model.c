#include "tests/conformance/model.h"

#include "tests/support/test.h"

#include <ctype.h>

static int
code_of(char base)
{
    switch (base) {
    case 'A':
        return 0;
    case 'C':
        return 1;
    case 'G':
        return 2;
    case 'T':
        return 3;
    default:
        return -1;
    }
}

/* Word of the window at `at`, or -1. */
static long
word_at(const char *pattern, const char *bases, size_t at)
{
    long word = 0;
    for (size_t i = 0; pattern[i] != '\0'; i++) {
        const int code = code_of(bases[at + i]);
        if (code < 0) {
            return -1;
        }
        if (pattern[i] == '1') {
            word = word * 4 + code;
        }
    }
    return word;
}

static size_t
weight_of(const char *pattern)
{
    size_t weight = 0;
    for (; *pattern != '\0'; pattern++) {
        weight += *pattern == '1';
    }
    return weight;
}

static void *
grab(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    assert_non_null(memory);
    return memory;
}

struct model_index
model_index_make(const char *pattern, const char *bases, size_t len, size_t first, size_t step)
{
    const size_t span = strlen(pattern);
    struct model_index index = {.words = 1u << 2 * weight_of(pattern)};
    index.table = grab(index.words * sizeof(uint32_t));
    index.pos = grab((len + 1) * sizeof(uint32_t));
    for (size_t p = first; p + span <= len; p += step) {
        const long word = word_at(pattern, bases, p);
        if (word >= 0) {
            index.table[word]++;
            index.pos_count++;
        }
    }
    for (uint32_t w = 1; w < index.words; w++) {
        index.table[w] += index.table[w - 1];
    }
    uint32_t *filled = grab(index.words * sizeof(uint32_t));
    for (size_t p = first; p + span <= len; p += step) {
        const long word = word_at(pattern, bases, p);
        if (word >= 0) {
            const uint32_t begin = word == 0 ? 0 : index.table[word - 1];
            index.pos[begin + filled[word]++] = (uint32_t)p;
        }
    }
    free(filled);
    return index;
}

void
model_index_free(struct model_index *index)
{
    free(index->table);
    free(index->pos);
    *index = (struct model_index){0};
}

static char
complement_of(char base)
{
    static const char from[] = "ACGTRYKMBVDHUacgtrykmbvdhu";
    static const char to[] = "TGCAYRMKVBHDAtgcayrmkvbhda";
    const char *at = base == '\0' ? NULL : strchr(from, base);
    return at == NULL ? base : to[at - from];
}

char *
model_strand(const struct model_job *job, enum hspz_strand strand)
{
    const size_t len = strlen(job->query);
    char *bases = grab(len);
    for (size_t i = 0; i < len; i++) {
        const char base =
            strand == HSPZ_STRAND_PLUS ? job->query[i] : complement_of(job->query[len - 1 - i]);
        bases[i] = job->unmask ? (char)toupper((unsigned char)base) : base;
    }
    return bases;
}

static bool
is_masked(const struct model_job *job, const char *bases, size_t len, size_t q)
{
    char kmer[33] = {0};
    if (job->mask_count == NULL || q + job->mask_k > len) {
        return false;
    }
    for (size_t i = 0; i < job->mask_k; i++) {
        kmer[i] = (char)toupper((unsigned char)bases[q + i]);
        if (code_of(kmer[i]) < 0) {
            return false;
        }
    }
    return job->mask_count(job->mask_user, kmer) > job->mask_above;
}

size_t
model_seeds(const struct model_job *job, enum hspz_strand strand, uint64_t begin, uint64_t end,
            uint64_t **out)
{
    char *bases = model_strand(job, strand);
    const size_t len = strlen(bases), span = strlen(job->pattern);
    const size_t weight = weight_of(job->pattern);
    uint64_t *seeds = grab((end - begin) * (1 + weight + weight * weight / 2) * sizeof(uint64_t));
    size_t count = 0;
    for (uint64_t q = begin; q < end && q + span <= len; q++) {
        const long word = word_at(job->pattern, bases, q);
        if (word < 0 || is_masked(job, bases, len, q)) {
            continue;
        }
        seeds[count++] = (uint64_t)word << 32 | q;
        for (size_t t = 0; job->transitions >= 1 && t < weight; t++) {
            seeds[count++] = (uint64_t)(word ^ (2L << 2 * t)) << 32 | q;
        }
        for (size_t u = 1; job->transitions >= 2 && u < weight; u++) {
            for (size_t t = 0; t < u; t++) {
                seeds[count++] = (uint64_t)(word ^ (2L << 2 * t) ^ (2L << 2 * u)) << 32 | q;
            }
        }
    }
    free(bases);
    *out = seeds;
    return count;
}

static void
add_chunk(struct model_result *result, const struct model_chunk *chunk)
{
    result->chunks = realloc(result->chunks, (result->count + 1) * sizeof(*chunk));
    assert_non_null(result->chunks);
    result->chunks[result->count++] = *chunk;
}

/* The least count whose words, with the rarer ones, hold the share of positions to be kept. */
static uint64_t
word_limit(const struct model_job *job, const struct model_index *index)
{
    uint64_t limit = 0;
    for (uint64_t kept = 0; job->keep_words < 1000000; limit++) {
        for (uint32_t w = 0; w < index->words; w++) {
            const uint64_t c = index->table[w] - (w == 0 ? 0 : index->table[w - 1]);
            kept += c == limit ? c : 0;
        }
        if (kept * 1000000 >= index->pos_count * job->keep_words) {
            break;
        }
    }
    return job->keep_words < 1000000 && limit < job->max_word_count ? limit : job->max_word_count;
}

/* SPEC C.1 to C.5 over one batch and block. */
static void
discover_block(const struct model_job *job, const struct model_index *index, const uint64_t *seeds,
               size_t n, struct model_chunk chunk, struct model_result *result)
{
    const uint64_t span = strlen(job->pattern);
    uint64_t *P = grab((n + 1) * sizeof(*P));
    uint64_t H = 0, start_hit = 0;
    const uint64_t most = word_limit(job, index);
    for (size_t i = 0; i < n; i++) {
        const uint32_t w = (uint32_t)(seeds[i] >> 32);
        const uint64_t c = index->table[w] - (w == 0 ? 0 : index->table[w - 1]);
        P[i] = H += c > most ? 0 : c;
    }
    struct hspz_strand_totals *totals = &result->totals[chunk.id.strand];
    totals->hits += H;
    for (size_t first = 0; start_hit < H;) {
        size_t last = n - 1;
        if (H - start_hit > job->max_hits) {
            size_t b = first;
            while (P[b] < start_hit + job->max_hits) {
                b++;
            }
            last = b > first && P[b - 1] > start_hit ? b - 1 : b;
        }
        chunk.count = P[last] - start_hit;
        chunk.anchors = grab(chunk.count * sizeof(uint64_t));
        for (size_t i = first; i <= last; i++) {
            const uint64_t c = P[i] - (i == 0 ? 0 : P[i - 1]);
            const uint32_t w = (uint32_t)(seeds[i] >> 32);
            const uint32_t begin = w == 0 ? 0 : index->table[w - 1];
            for (uint64_t j = 0; j < c; j++) {
                chunk.anchors[P[i] - 1 - start_hit - j] =
                    (index->pos[begin + j] + span) | ((seeds[i] & UINT32_MAX) + span) << 32;
            }
        }
        chunk.id.seed_begin = first;
        chunk.id.seed_end = last + 1;
        chunk.id.hit_begin = start_hit;
        chunk.id.hit_end = P[last];
        add_chunk(result, &chunk);
        totals->chunks++;
        chunk.id.chunk++;
        start_hit = P[last];
        first = last + 1;
    }
    free(P);
}

/* Batches at `from`, `from` + 250,000, ... below `to`, of window starts below `end`. */
static void
discover_stretch(const struct model_job *job, uint32_t interval, int strand, uint64_t from,
                 uint64_t to, uint64_t end, struct model_result *result)
{
    uint32_t batch = 0;
    for (uint64_t at = from; at < to && (job->strands >> strand & 1) != 0; at += 250000, batch++) {
        uint64_t *seeds;
        const size_t n = model_seeds(job, (enum hspz_strand)strand, at,
                                     at + 250000 < end ? at + 250000 : end, &seeds);
        result->totals[strand].batches += n > 0;
        result->totals[strand].seeds += n;
        for (size_t b = 0; b < job->block_count; b++) {
            const struct model_chunk chunk = {.id = {.interval = interval,
                                                     .strand = (enum hspz_strand)strand,
                                                     .batch = batch,
                                                     .ref_block = (uint32_t)b}};
            discover_block(job, &job->blocks[b], seeds, n, chunk, result);
        }
        free(seeds);
    }
}

struct model_result
model_discover(const struct model_job *job)
{
    struct model_result result = {0};
    struct model_chunk chunk = {0};
    if (job->query == NULL) {
        result.totals[0].batches = job->seed_count > 0;
        result.totals[0].seeds = job->seed_count;
        for (size_t b = 0; b < job->block_count; b++) {
            chunk.id.ref_block = (uint32_t)b;
            discover_block(job, &job->blocks[b], job->seeds, job->seed_count, chunk, &result);
        }
        return result;
    }
    const uint64_t len = strlen(job->query), span = strlen(job->pattern);
    const uint64_t positions = len >= span ? len - span + 1 : 0;
    if (job->interval == 0) {
        const uint64_t end = job->end < positions ? job->end : positions;
        for (int strand = 0; strand < 2; strand++) {
            discover_stretch(job, 0, strand, job->begin, end, end, &result);
        }
        return result;
    }
    const uint64_t E = positions == 0 ? 0 : positions - 1;
    for (uint64_t a = 0; a < E; a += job->interval) {
        const uint64_t b = E < a + job->interval ? E : a + job->interval;
        const uint32_t number = (uint32_t)(a / job->interval);
        discover_stretch(job, number, 0, a, b, b + 1, &result);
        discover_stretch(job, number, 1, E - b, E - a, E - a + 1, &result);
    }
    return result;
}

void
model_result_free(struct model_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        free(result->chunks[i].anchors);
    }
    free(result->chunks);
    *result = (struct model_result){0};
}
