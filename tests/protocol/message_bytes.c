#include "tests/protocol/message_bytes.h"

#include "tests/support/test.h"

void
message_bytes_free(struct message_bytes *m)
{
    free(m->bytes);
    *m = (struct message_bytes){0};
}

void
message_bytes_add(struct message_bytes *m, const void *bytes, size_t len)
{
    if (len > m->capacity - m->len) {
        m->capacity = 2 * m->capacity + len + 64;
        m->bytes = realloc(m->bytes, m->capacity);
        assert_non_null(m->bytes);
    }
    if (len > 0) {
        memcpy(m->bytes + m->len, bytes, len);
        m->len += len;
    }
}

void
message_bytes_hex(struct message_bytes *m, const char *hex)
{
    static const char digits[] = "0123456789abcdef";
    unsigned value = 0;
    unsigned count = 0;
    for (; *hex != '\0'; hex++) {
        if (*hex == ' ') {
            continue;
        }
        const char *digit = strchr(digits, *hex);
        assert_non_null(digit);
        value = value << 4 | (unsigned)(digit - digits);
        if (++count % 2 == 0) {
            const uint8_t byte = (uint8_t)value;
            message_bytes_add(m, &byte, 1);
            value = 0;
        }
    }
    assert_int_equal(count % 2, 0);
}

void
message_bytes_fill(struct message_bytes *m, uint8_t byte, size_t count)
{
    uint8_t piece[1024];
    memset(piece, byte, sizeof(piece));
    while (count > 0) {
        const size_t n = count < sizeof(piece) ? count : sizeof(piece);
        message_bytes_add(m, piece, n);
        count -= n;
    }
}

void
message_bytes_head(struct message_bytes *m, unsigned first, uint64_t length, unsigned width)
{
    uint8_t head[9] = {(uint8_t)first};
    for (unsigned i = 0; i < width; i++) {
        head[1 + i] = (uint8_t)(length >> (8 * (width - 1 - i)));
    }
    message_bytes_add(m, head, 1 + width);
}

struct maker {
    struct random_message *m;
    uint64_t *random;
    unsigned values_left;
    size_t header_left;
    bool with_large;
};

static uint64_t
below(struct maker *k, uint64_t n)
{
    return test_random(k->random) % n;
}

static void
head(struct maker *k, unsigned first, uint64_t length, unsigned width)
{
    message_bytes_head(&k->m->message, first, length, width);
    message_bytes_head(&k->m->twin, first, length, width);
    k->header_left -= 1 + width;
}

static void
body(struct maker *k, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = (uint8_t)test_random(k->random);
        message_bytes_add(&k->m->message, &byte, 1);
        message_bytes_add(&k->m->twin, &byte, 1);
    }
    k->header_left -= len;
}

/* The narrowest width for `length`, or a wider one. `fix` is the largest length of the one-byte
 * form, `has1` whether a one-byte length exists. */
static unsigned
pick_width(struct maker *k, uint64_t length, uint64_t fix, bool has1)
{
    const unsigned widths[4] = {0, 1, 2, 4};
    for (;;) {
        const unsigned width = widths[below(k, 4)];
        if ((width == 0 && length <= fix) || (width == 1 && has1 && length <= 0xff) ||
            (width == 2 && length <= 0xffff) || width == 4) {
            return width;
        }
    }
}

static void
make_str(struct maker *k)
{
    const uint64_t length = below(k, 4) == 0 ? below(k, 300) : below(k, 20);
    const unsigned width = pick_width(k, length, 31, true);
    head(k,
         width == 0   ? 0xa0 | (unsigned)length
         : width == 1 ? 0xd9
         : width == 2 ? 0xda
                      : 0xdb,
         length, width);
    body(k, length);
}

static void
make_bin(struct maker *k)
{
    uint64_t length = below(k, 40);
    if (below(k, 16) == 0) {
        length = 4090 + below(k, 7); /* up to 4096, still small */
    }
    const bool large = k->with_large && below(k, 4) == 0;
    if (large) {
        length = 4097 + below(k, 3) * below(k, 30000);
    }
    const unsigned width = pick_width(k, length, 0, true);
    const unsigned real_width = width == 0 ? 4 : width;
    const unsigned first = real_width == 1 ? 0xc4 : real_width == 2 ? 0xc5 : 0xc6;
    if (!large) {
        head(k, first, length, real_width);
        body(k, length);
        return;
    }
    message_bytes_head(&k->m->message, first, length, real_width);
    message_bytes_fill(&k->m->message, (uint8_t)test_random(k->random), length);
    message_bytes_head(&k->m->twin, 0xc4, 0, 1);
    k->header_left -= 1 + real_width;
    k->m->large_bytes += length;
    k->m->large_count++;
}

static void
make_ext(struct maker *k)
{
    if (below(k, 2) == 0) {
        const unsigned power = (unsigned)below(k, 5);
        head(k, 0xd4 + power, 0, 0);
        body(k, 1 + ((size_t)1 << power));
        return;
    }
    const uint64_t length = below(k, 50);
    unsigned width = pick_width(k, length, 0, true);
    width = width == 0 ? 1 : width;
    head(k, width == 1 ? 0xc7 : width == 2 ? 0xc8 : 0xc9, length, width);
    body(k, 1 + length);
}

static void
make_scalar(struct maker *k)
{
    static const struct {
        unsigned first;
        size_t body;
    } scalars[] = {{0xc0, 0}, {0xc2, 0}, {0xc3, 0}, {0xca, 4}, {0xcb, 8}, {0xcc, 1}, {0xcd, 2},
                   {0xce, 4}, {0xcf, 8}, {0xd0, 1}, {0xd1, 2}, {0xd2, 4}, {0xd3, 8}};
    const uint64_t kind = below(k, 15);
    if (kind < 13) {
        head(k, scalars[kind].first, 0, 0);
        body(k, scalars[kind].body);
    } else {
        head(k, kind == 13 ? (unsigned)below(k, 128) : 0xe0 | (unsigned)below(k, 32), 0, 0);
    }
}

static void make_value(struct maker *k, unsigned depth);

static void
make_container(struct maker *k, unsigned depth)
{
    const bool map = below(k, 2) == 0;
    const unsigned each = map ? 2 : 1;
    uint64_t count = below(k, 8);
    count = count * each > k->values_left ? 0 : count;
    k->values_left -= (unsigned)count * each;
    k->m->values += (unsigned)count * each;
    const unsigned width = pick_width(k, count, 15, false);
    head(k,
         width == 0   ? (map ? 0x80u : 0x90u) | (unsigned)count
         : width == 2 ? (map ? 0xdeu : 0xdcu)
                      : (map ? 0xdfu : 0xddu),
         count, width);
    for (uint64_t i = 0; i < count * each; i++) {
        make_value(k, depth + 1);
    }
}

static void
make_value(struct maker *k, unsigned depth)
{
    const uint64_t kind = below(k, 10);
    if (kind < 5 && depth < 16) {
        make_container(k, depth);
    } else if (k->header_left < 8192 || kind == 5) {
        make_scalar(k);
    } else if (kind == 6) {
        make_str(k);
    } else if (kind == 7) {
        make_bin(k);
    } else if (kind == 8) {
        make_ext(k);
    } else {
        make_scalar(k);
    }
}

void
random_message_make(struct random_message *m, uint64_t *random, bool with_large)
{
    *m = (struct random_message){.values = 1};
    struct maker k = {m, random, 300, 60000, with_large};
    make_container(&k, 0);
}

void
random_message_free(struct random_message *m)
{
    message_bytes_free(&m->message);
    message_bytes_free(&m->twin);
}
