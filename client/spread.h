/* Discover jobs of one server or of several, with the same result.
 *
 *   open       one server: connects. Several (servers.h): nothing yet
 *   describe   the index, by the first server that answers
 *   discover   as hspz_client_discover
 *
 * With several, a job is cut into units (cutter.h). Each server has a connection and a thread, and
 * takes the next unit as soon as it is through with one: of the size that it does in about a
 * second, as it was seen to do before. What comes is kept until the unit is whole and checked, and
 * handed on in the order of units: exactly once, whichever server did it.
 *
 * Failures: a server that fails gives its unit back, for another, and is asked again after a
 * while; after one failure at once, so that a connection through a proxy may come to another server
 * behind it. One that is much slower with the unit that all wait for than another would be gets
 * company by that. When none is left the job waits as long as cli->wait_ms says for one, then
 * fails; hspz_spread_say_failures tells each server's reason. What is wrong with the request itself
 * ends the job at once, as does a server whose index is another than the one described.
 *
 * Memory:  results that wait: 256 MiB, then in a file (held.h); past 2 GiB nothing new is begun.
 * Limits:  `limit` of HSPs and `deadline_ms` are of each unit, `hit_limit` of the job.
 * Threads: one caller, on whose thread callbacks run.
 * Errors:  those of the calls; HSPZ_E_NO_SERVER: none is left; HSPZ_E_STOPPED by a signal. */
#pragma once

#include "client/cli.h"
#include "client/hspz.h"

struct hspz_spread;

/* `client`: a server that is connected to already, borrowed; NULL: those that the options say. */
HSPZ_MUST_USE enum hspz_status hspz_spread_open(const struct hspz_cli *cli,
                                                struct hspz_client *client,
                                                struct hspz_spread **out, struct hspz_error *err);
void hspz_spread_close(struct hspz_spread **spread);

/* As hspz_client_index_describe; of several servers those that answer first are asked until one has
 * answered whole. `begin` (may be NULL) is called before each try: what came before is void. */
HSPZ_MUST_USE enum hspz_status hspz_spread_describe(struct hspz_spread *spread, const char *index,
                                                    void (*begin)(void *user),
                                                    hspz_index_fn index_fn,
                                                    hspz_sequence_fn sequence, void *user,
                                                    struct hspz_error *err);
/* Of the index described, which the request names. */
HSPZ_MUST_USE enum hspz_status hspz_spread_discover(struct hspz_spread *spread,
                                                    const struct hspz_discover_request *request,
                                                    hspz_part_fn part, void *user,
                                                    struct hspz_discover_summary *summary,
                                                    struct hspz_error *err);
/* The most bases that a job may have: as the first server says. */
uint64_t hspz_spread_most_bases(const struct hspz_spread *spread);
/* The one server; NULL when there are several. */
struct hspz_client *hspz_spread_client(struct hspz_spread *spread);
/* On standard error: what each server did; after HSPZ_E_NO_SERVER: how each failed. */
void hspz_spread_say_work(const struct hspz_spread *spread);
void hspz_spread_say_failures(const struct hspz_spread *spread);
