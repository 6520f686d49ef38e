/* Limits of protocol 1 that are the same everywhere. What an operator may set is in the daemon's
 * configuration, and `hello` tells a client what is in force. */
#pragma once

#define HSPZ_PROTOCOL_VERSION 1u

#define HSPZ_FRAME_DEPTH_LIMIT 16u      /* nesting of arrays and maps in a message */
#define HSPZ_FRAME_ITEMS_LIMIT 4096u    /* values in a message */
#define HSPZ_FRAME_HEADER_LIMIT 65536u  /* bytes of a message outside its large bins */
#define HSPZ_FRAME_INLINE_BIN 4096u     /* bins up to this count as header bytes */
#define HSPZ_NAME_BYTES_LIMIT 255u      /* index names, client names, shapes, other short texts */
#define HSPZ_TOKEN_BYTES_LIMIT 1024u    /* token in hello */
#define HSPZ_PATH_BYTES_LIMIT 4095u     /* file names in load and build */
#define HSPZ_PART_BYTES_LIMIT 8388608u  /* anchor bytes in one notification */
#define HSPZ_SEQUENCE_NAME_LIMIT 65535u /* bytes of a sequence's name */
#define HSPZ_PAGE_SEQUENCES_LIMIT 500u  /* sequences, and blocks, in one reply to describe */
#define HSPZ_PAGE_INDEXES_LIMIT 300u    /* indexes in one reply to list */
#define HSPZ_PAGE_FILTERS_LIMIT 300u    /* filters in one reply to filter.list */
#define HSPZ_FILTER_NAME_LIMIT 64u      /* bytes of a filter's name, its tenant's apart */
#define HSPZ_DRAIN_WAIT_LIMIT 60000u    /* milliseconds that one call of drain may wait */
#define HSPZ_PAGE_BYTES_LIMIT 49152u    /* a page ends early rather than pass this */
