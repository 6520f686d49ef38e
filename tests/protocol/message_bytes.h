/* Messages for tests, written byte by byte from the MessagePack specification: independent of
 * msgpack-c and of protocol/writer.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message_bytes {
    uint8_t *bytes;
    size_t len, capacity;
};

void message_bytes_free(struct message_bytes *m);
void message_bytes_add(struct message_bytes *m, const void *bytes, size_t len);
/* Bytes from hexadecimal text, blanks ignored. */
void message_bytes_hex(struct message_bytes *m, const char *hex);
void message_bytes_fill(struct message_bytes *m, uint8_t byte, size_t count);
/* First byte and big-endian length of `width` bytes (0, 1, 2 or 4). */
void message_bytes_head(struct message_bytes *m, unsigned first, uint64_t length, unsigned width);

/* What a random message is made of. `twin` is the message with each bin above 4096 bytes replaced
 * by an empty one. */
struct random_message {
    struct message_bytes message;
    struct message_bytes twin;
    uint64_t large_bytes; /* of all bins above 4096 bytes */
    unsigned large_count;
    unsigned values;
};

/* A valid message within every limit: arrays and maps nested at random, any form of any type, in
 * short and long encodings. */
void random_message_make(struct random_message *m, uint64_t *random, bool with_large);
void random_message_free(struct random_message *m);
