#include "protocol/text.h"

#include <stdio.h>
#include <string.h>

/* Length of the valid character at the start of `b`, 0 if there is none. */
static size_t
character(const uint8_t *b, size_t len)
{
    if (b[0] < 0x80) {
        return 1;
    }
    const size_t n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || n > len) {
        return 0;
    }
    /* The second byte has a narrower range after these: no long forms, surrogates, or > U+10FFFF.
     */
    const uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[1] < low || b[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

size_t
hspz_utf8_prefix(const uint8_t *bytes, size_t len)
{
    size_t at = 0;
    while (at < len) {
        const size_t n = character(bytes + at, len - at);
        if (n == 0) {
            break;
        }
        at += n;
    }
    return at;
}

size_t
hspz_text_control(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const bool c1 = bytes[i] == 0xc2 && i + 1 < len && bytes[i + 1] < 0xa0;
        if (bytes[i] < 0x20 || bytes[i] == 0x7f || c1) {
            return i;
        }
    }
    return len;
}

void
hspz_text_clean(char *text)
{
    const size_t len = strlen(text);
    uint8_t *bytes = (uint8_t *)text;
    size_t at = 0;
    while ((at += hspz_utf8_prefix(bytes + at, len - at)) < len) {
        bytes[at] = '?';
    }
}

const char *
hspz_text_quote(struct hspz_span text, char out[HSPZ_QUOTE_BYTES])
{
    const size_t limit = 40;
    size_t len = text.len;
    if (len > limit) {
        len = limit;
        while (len > limit - 3 && (text.bytes[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    char copy[48] = "";
    if (len > 0) {
        memcpy(copy, text.bytes, len);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7f) {
            copy[i] = '?';
        }
    }
    hspz_text_clean(copy);
    snprintf(out, HSPZ_QUOTE_BYTES, "\"%s%s\"", copy, text.len > len ? "..." : "");
    return out;
}
