/* A server in a child process, for tests of libhspz: one index "ref", two parts of anchors, or as
 * many HSPs, for every discover; of the keys of a filter every second is there, and its number is
 * itself. Built with the daemon's own encoders. */
#pragma once

#include "client/hspz.h"

#include <sys/types.h>

#define TINY_SEQUENCES 700u     /* two pages */
#define TINY_SMALL_ANCHORS 3u   /* plus strand */
#define TINY_LARGE_ANCHORS 900u /* minus strand: more than an inline bin holds */
#define TINY_KEYS_MOST 2000u
/* A discover of index "slow" pauses for so long, deaf, between its two parts. */
#define TINY_SLOW_MS 1900u

struct tiny_server {
    pid_t pid;
    char *dir;
    struct hspz_address address;
};

void tiny_server_start(struct tiny_server *server);
void tiny_server_stop(struct tiny_server *server);
/* The i-th anchor of the stream; the i-th HSP has the bytes of anchors 2 * i and 2 * i + 1. */
uint64_t tiny_server_anchor(uint64_t i);
