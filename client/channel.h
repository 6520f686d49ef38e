/* One connection: sends a message while it receives others.
 *
 * Reading never stops for writing, so a server that answers before it has read everything cannot
 * lock up with us. The body of a large bin is received into its place in the message.
 *
 * Owns:    the descriptor and the message under way. A delivered frame is the caller's.
 * Threads: one at a time.
 * Errors:  HSPZ_E_INCOMPLETE (the peer closed, or the connection broke), HSPZ_E_BAD_PEER (not
 *          messages), HSPZ_E_OUT_OF_MEMORY, HSPZ_E_STOPPED, HSPZ_E_IO. After any but HSPZ_E_STOPPED
 *          the channel is only good for closing. */
#pragma once

#include "client/hspz.h"
#include "client/tls.h"
#include "protocol/stream.h"

struct hspz_channel;

/* A message on its way out: head, then body. Borrowed until it is sent. */
struct hspz_outgoing {
    struct hspz_span head, body;
    size_t sent;
};

/* Takes fd, and what secures it (NULL: nothing), over on success. `where` names the peer in
 * messages, and is kept. */
HSPZ_MUST_USE enum hspz_status hspz_channel_open(int fd, struct hspz_secure *secure,
                                                 const char *where, struct hspz_channel **out);
void hspz_channel_close(struct hspz_channel **channel);

/* Sends what is left of `out` (NULL: nothing) and receives, until a message is whole (*ready), or
 * until nothing has moved for idle_ms, or until the time `deadline_ms`. */
HSPZ_MUST_USE enum hspz_status hspz_channel_turn(struct hspz_channel *channel,
                                                 struct hspz_outgoing *out, int stop_fd,
                                                 int64_t idle_ms, int64_t deadline_ms, bool *ready,
                                                 struct hspz_frame *frame, struct hspz_error *err);

/* Sends a whole small message before others, now or in the next turns, or after the one that is in
 * mid-air. Plain connections only. */
HSPZ_MUST_USE enum hspz_status hspz_channel_post(struct hspz_channel *channel, const uint8_t *bytes,
                                                 size_t len);
/* While descriptors are expected, the first two that come are kept until taken. */
void hspz_channel_expect_fds(struct hspz_channel *channel, bool expected);
size_t hspz_channel_take_fds(struct hspz_channel *channel, int fds[2]);

bool hspz_outgoing_done(const struct hspz_outgoing *out);
/* When bytes last moved, either way. */
int64_t hspz_channel_moved_ms(const struct hspz_channel *channel);
