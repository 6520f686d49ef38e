/* One connection: reads, writes, its jobs in order, its close.
 *
 * Reading goes on while jobs run, so that the peer's end is seen; it pauses while the answers that
 * wait for the peer exceed HSPZ_REPLY_BYTES, or the requests held for it its ingest budget. End of
 * file is a disconnect and cancels all its jobs. A connection closes by one path, hspz_conn_close,
 * and is freed when its handles are closed and its jobs have come back.
 *
 * Threads: the loop thread only. */
#pragma once

#include "daemon/buffers.h"
#include "daemon/conn_state.h"
#include "daemon/handle.h"
#include "daemon/scheduler.h"
#include "daemon/send.h"
#include "daemon/service.h"
#include "daemon/shake.h"
#include "daemon/tls.h"
#include "protocol/stream.h"
#include "protocol/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define HSPZ_REPLY_BYTES (UINT64_C(1) << 20)

struct hspz_conn_job;
struct hspz_conn_shm;
struct hspz_wait;

/* TLS of a connection, and what waits to go through it. */
struct hspz_conn_tls {
    struct hspz_tls *tls; /* NULL: plain */
    bool begun;           /* something came */
    struct hspz_shaker shaker;
    bool paused; /* what was fed may not be read up */
    bool failed; /* only what TLS has to say is still sent */
    bool ending, finished, shut;
    struct hspz_send *waiting, **waiting_last; /* not, or partly, encrypted */
    struct hspz_send *sending;                 /* end with the next slice */
    uint64_t waiting_bytes;                    /* not encrypted */
};

/* A call of `drain` that waits (daemon/drain.h). */
struct hspz_drain_wait {
    bool waits;
    uint32_t id;
    uint64_t begin_ns, until_ms;
    uint64_t told_ms; /* one that waited was told that it goes on; 0: none was */
};

struct hspz_conn {
    struct hspz_service *service;
    struct hspz_conn *prev, *next; /* in the service */
    uint64_t id;
    enum hspz_conn_state state;
    struct hspz_handles handles;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    bool tcp; /* the peer's user is not known */
    bool reading, in_input;
    uv_shutdown_t shutdown;
    struct hspz_conn_tls tls;

    struct hspz_tenant *tenant;      /* counted; NULL before hello */
    struct hspz_credential known_by; /* how it was recognised */
    bool revoked;                    /* and would not be any more */

    struct hspz_stream *splitter;
    uint8_t *stash; /* bytes read but not yet looked at, when reading paused midway */
    size_t stash_len;

    struct hspz_conn_job *jobs, **jobs_last; /* the first is worked on */
    size_t job_count;
    struct hspz_wait *waits; /* loads and builds it waits for */
    unsigned wait_count;
    struct hspz_drain_wait drain;
    struct hspz_source source;
    struct hspz_pace pace;     /* its jobs end */
    unsigned parts_held;       /* part buffers being filled, queued, written or lent */
    struct hspz_conn_shm *shm; /* NULL: none was asked for */
    unsigned strays;           /* steps that were given up and may yet write into its memory */

    uint64_t reply_bytes;  /* answers handed to libuv and not yet written */
    uint64_t ingest_bytes; /* of its requests, held; part of the service's */
    uint64_t submitted_bytes, progress_bytes, progress_ms; /* of writes; how far, and since when */
    uint64_t active_ms; /* something was asked for, or under way */
    uint64_t opened_ms, window_ms, window_bytes, last_ms;
};

/* Accepts one connection from `server`. HSPZ_E_OUT_OF_MEMORY leaves it for a later try; other
 * errors have dropped it. */
HSPZ_MUST_USE enum hspz_status hspz_conn_accept(struct hspz_service *service, uv_stream_t *server,
                                                bool tcp, struct hspz_error *err);
/* Idempotent. `why` goes to the log. */
void hspz_conn_close(struct hspz_conn *conn, const char *why);
/* Goes on with the handshake of a connection whose turn it is. */
void hspz_conn_shake(struct hspz_shaker *shaker);
/* Its own deadlines; called once a second. May close the connection, never frees it at once. */
void hspz_conn_tick(struct hspz_conn *conn, uint64_t now_ms);
/* Ends its jobs whose deadline has passed; returns the first of the others, UINT64_MAX for none. */
uint64_t hspz_conn_deadlines(struct hspz_conn *conn, uint64_t now_ns);

/* Sends what was written; the writer is emptied. A connection that cannot be answered is closed. */
void hspz_conn_reply(struct hspz_conn *conn, struct hspz_writer *w);
void hspz_conn_reply_error(struct hspz_conn *conn, uint32_t id, const struct hspz_error *err);
/* Answers, then ends the connection once the answer is written. */
void hspz_conn_reply_last(struct hspz_conn *conn, uint32_t id, const struct hspz_error *err);
/* Sends a part (takes the buffer over), or drops it when the connection is ending. */
void hspz_conn_send_part(struct hspz_conn *conn, struct hspz_buffer *buffer);
/* Gives a buffer back and wakes the head job, which may have waited for it. */
void hspz_conn_give_part(struct hspz_conn *conn, struct hspz_buffer *buffer);

/* Jobs: append; unlink what ended, before anything that may close the connection. */
void hspz_conn_add_job(struct hspz_conn *conn, struct hspz_conn_job *job);
void hspz_conn_remove_job(struct hspz_conn *conn, struct hspz_conn_job *job);
void hspz_conn_replace_job(struct hspz_conn *conn, struct hspz_conn_job *job,
                           struct hspz_conn_job *by);
/* After a job is unlinked and answered: the next one's turn; a closing connection may be freed. */
void hspz_conn_settle(struct hspz_conn *conn);
/* Stands in line for a turn if its head job can use one. */
void hspz_conn_update(struct hspz_conn *conn);
/* Counts `bytes` of a request against the budgets of its tenant and of all: HSPZ_E_QUOTA_EXCEEDED,
 * or HSPZ_E_TOO_LARGE for what never fits. */
HSPZ_MUST_USE enum hspz_status hspz_conn_charge(struct hspz_conn *conn, uint64_t bytes);
/* Gives back `bytes` of them. */
void hspz_conn_refund(struct hspz_conn *conn, uint64_t bytes);
/* Answers every job and load that it has with `err`, then closes. */
void hspz_conn_end(struct hspz_conn *conn, const struct hspz_error *err);
/* Ends its jobs with `status`: all, or those that are on `device` or on none yet. */
void hspz_conn_cancel_jobs(struct hspz_conn *conn, enum hspz_status status, unsigned device);
/* Whether nothing is left to do or to write. */
bool hspz_conn_idle(const struct hspz_conn *conn);
uint64_t hspz_conn_unsent(const struct hspz_conn *conn); /* bytes, as they are now */
