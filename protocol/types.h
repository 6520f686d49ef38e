/* The records that cross every border of hspz: seeds, anchors, and where a part belongs.
 *
 * Units:   positions and counts are bases, 0-based; ranges are half-open; words are the care
 *          positions of a spaced seed, 2 bits each (A=0 C=1 G=2 T=3), first care position highest.
 * Layout:  on the wire and in files a seed and an anchor are little-endian u64. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seed: word << 32 | query position (start of the window). */
#define HSPZ_SEED_WORD(seed) ((uint32_t)((seed) >> 32))
#define HSPZ_SEED_QUERY(seed) ((uint32_t)(seed))

/* Anchor: reference position in the low half, query position in the high half, both of the first
 * base after the window. */
#define HSPZ_ANCHOR_REF(anchor) ((uint32_t)(anchor))
#define HSPZ_ANCHOR_QUERY(anchor) ((uint32_t)((anchor) >> 32))

#define HSPZ_SEED_BYTES 8u
#define HSPZ_ANCHOR_BYTES 8u

/* Separates sequences inside a block; never a base. */
#define HSPZ_SEPARATOR '&'

/* Query positions in one batch of a query job. */
#define HSPZ_BATCH_POSITIONS 250000u

/* Cap on the hits of a chunk when a request names none. */
#define HSPZ_MAX_HITS_DEFAULT 268435456u

/* Shares of an index's positions are in millionths of them. */
#define HSPZ_KEEP_ALL 1000000u

/* Most care positions of a word that may hold a transition. */
#define HSPZ_TRANSITIONS_LIMIT 2u

/* A job's priority among those of its tenant: 0 to the limit, larger first. */
#define HSPZ_PRIORITY_LIMIT 9u
#define HSPZ_PRIORITY_DEFAULT 4u

/* Most hits a batch may have. */
#define HSPZ_HITS_LIMIT 4294967295u

/* Most bases, separators included, a block may hold: a position plus a span still fits 32 bits. */
#define HSPZ_BLOCK_BASES_LIMIT 4294967231u /* 2^32 - 65 */

/* Where HSPs are de-duplicated. Whole job: of the HSPs of a reference block and strand that are
 * nested on a diagonal one remains, which is LASTZ's, so the set depends on no cap, chunk or batch.
 * Chunk: KegAlign 0.1's rule, within each chunk. (engine/hsp_set.h has both.) */
enum hspz_hsp_scope { HSPZ_SCOPE_JOB = 0, HSPZ_SCOPE_CHUNK = 1 };

enum hspz_records { HSPZ_RECORDS_ANCHORS = 0, HSPZ_RECORDS_HSPS = 1 };

/* Form of a payload of anchors: u64 each, or by columns (protocol/columns.h). */
enum hspz_encoding { HSPZ_ENCODING_PACKED = 0, HSPZ_ENCODING_COLUMNAR = 1 };

/* Anchors by columns. */
#define HSPZ_RUN_BYTES 8u
#define HSPZ_COLUMN_REF_BYTES 4u

struct hspz_columns {
    const uint8_t *runs; /* and behind them, */
    size_t run_count;
    const uint8_t *refs; /* these */
    size_t count;        /* anchors */
};

/* A place between two anchors. */
struct hspz_columns_place {
    size_t run;
    uint32_t used; /* anchors of that run */
    size_t anchor;
};

/* An ungapped extension that passed the filter: bases [ref_start, ref_start + length) of a
 * reference block against [query_start, query_start + length) of the query on its strand. On the
 * wire four little-endian 32-bit numbers in this order. */
struct hspz_hsp {
    uint32_t ref_start, query_start;
    uint32_t length;
    int32_t score;
};
#define HSPZ_HSP_BYTES 16u

/* Classes of bases for scoring. */
enum hspz_base_class {
    HSPZ_CLASS_A,
    HSPZ_CLASS_C,
    HSPZ_CLASS_G,
    HSPZ_CLASS_T,
    HSPZ_CLASS_LOWER,     /* acgt */
    HSPZ_CLASS_N,         /* and n */
    HSPZ_CLASS_OTHER,     /* any other byte */
    HSPZ_CLASS_SEPARATOR, /* ends every extension, whatever its scores */
    HSPZ_CLASSES
};

/* How anchors are extended and which extensions pass. */
struct hspz_scoring {
    int32_t
        scores[HSPZ_CLASSES * HSPZ_CLASSES]; /* [reference class * HSPZ_CLASSES + query class] */
    int32_t xdrop;                           /* 0 or more */
    int32_t threshold;                       /* hspthresh, 1 or more */
    bool entropy;                            /* scores near the threshold are adjusted by it */
    enum hspz_hsp_scope scope;
    uint64_t limit; /* most HSPs a job may come to hold: HSPZ_E_TOO_LARGE beyond */
};
#define HSPZ_SCORE_LIMIT 1000000   /* of an entry of scores[], either sign */
#define HSPZ_XDROP_LIMIT 100000000 /* of xdrop and threshold */
#define HSPZ_XDROP_DEFAULT 910u
#define HSPZ_THRESHOLD_DEFAULT 3000u
#define HSPZ_SCORES_BYTES 256u /* of scores[] on the wire: little-endian i32 */

/* Borrowed bytes. */
struct hspz_span {
    const uint8_t *bytes;
    size_t len;
};

enum hspz_strand { HSPZ_STRAND_PLUS = 0, HSPZ_STRAND_MINUS = 1 };

/* Which strands a query is searched on; plus comes first. */
enum hspz_strands { HSPZ_STRANDS_PLUS = 1, HSPZ_STRANDS_MINUS = 2, HSPZ_STRANDS_BOTH = 3 };

/* How chunk boundaries are looked for (SPEC C.3); never changes a result. */
enum hspz_chunk_walk { HSPZ_WALK_BLOCKS = 0, HSPZ_WALK_FULL = 1 };

/* Where a part of the anchors belongs. Parts come in order: strand, batch, reference block, chunk,
 * part. Seeds and hits are counted from the start of the batch; seeds are those of the whole
 * chunk, hits those of this part, so the first part's hit_begin and the last part's hit_end are
 * the chunk's.
 *
 * A job with intervals (see message.h) comes interval by interval, in each strand by strand, and
 * batches are counted within interval and strand.
 *
 * Parts of HSPs have a group for a chunk: with HSPZ_SCOPE_CHUNK the chunk itself; with
 * HSPZ_SCOPE_JOB all HSPs of a strand and reference block, of interval, batch and chunk 0 and no
 * seeds. hit_begin and hit_end count the HSPs of the group. A group without HSPs has no part. */
struct hspz_part_id {
    uint32_t interval;
    enum hspz_strand strand;
    uint32_t batch;
    uint32_t ref_block;
    uint32_t chunk;
    uint32_t part;
    bool last_part; /* of the chunk */
    uint64_t seed_begin, seed_end;
    uint64_t hit_begin, hit_end;
};

/* Counts of one strand of a finished job (a job of given seeds counts as plus). */
struct hspz_strand_totals {
    uint64_t batches; /* batches that had at least one seed */
    uint64_t seeds;
    uint64_t hits;
    uint64_t chunks;
    uint64_t hsps; /* sent; 0 in jobs of anchors */
};
