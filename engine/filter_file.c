/* Filter file, format 1, of a tcf format 2; of a filter in parts format 3. Numbers are
 * little-endian. A header of 256 bytes, then the arrays of the image, each at the next multiple of
 * 64; the bytes between are zero.
 *
 *     0  magic, 8 bytes                        56  slots, u64
 *     8  endian mark, u32 0x01020304           64  seed, u64
 *    12  format version, u32                   72  rate, f64
 *    16  header bytes, u32                     80  entries, u64
 *    20  kind, u32                             88  total, u64
 *    24  file bytes, u64                       96  slot bits, block slots, hashes, value bits, u32
 *    32  XXH64 of the header, this zeroed     112  remainder bits, u32; k, and 256 if canonical,
 * u32 40  0                                    120  bytes, then XXH64, of each array, u64 48
 * capacity, u64                        168  parts, u32; 0: 1
 *                                          172  0
 *
 * tcf            blocks: tags, slot_bits a slot, and behind them their values, value_bits a slot,
 *                if those of a block are a multiple of 32 bytes; the other values, at the next
 *                multiple of 8 bytes those of the backing table; this, 64 bits a slot: lower block
 *                << 32 | tag
 * gqf sqf rsqf   symbols, slot_bits a slot; occupied; runend (engine/cpu/quotient.h)
 * bloom blocked  bits
 * counter        keys that are there once, u64; key and count of the others, u64 each; in any order
 *
 * In parts: arrays are those of the parts, one behind the other, and behind the first array stand
 * the entries and the total of each part, u64 both.
 *
 * Slots follow one another; those of fewer bits are packed, lowest bit first. */
#include "engine/file_write.h"
#include "engine/filter.h"
#include "engine/filter_plan_p.h"
#include "engine/shown_path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie");

#define MAGIC "HSPZFLT\x1a"
#define ENDIAN_MARK UINT32_C(0x01020304)
#define ALIGN 64u
#define CANONICAL 256u
#define PIECE_BYTES (UINT64_C(1) << 24) /* at a time; between them a stop is asked */

/* As it lies in the file. */
struct header {
    char magic[8];
    uint32_t endian, format, header_bytes, kind;
    uint64_t file_bytes, hash, zero;
    uint64_t capacity, slots, seed;
    double rate;
    uint64_t entries, total;
    uint32_t slot_bits, block_slots, hashes, value_bits, remainder_bits, kmers;
    uint64_t array[HSPZ_FILTER_ARRAYS][2];
    uint32_t parts;
    uint8_t rest[84];
};
_Static_assert(sizeof(struct header) == 256, "the header's size is the format's");

static uint32_t
format_of(uint32_t kind, uint32_t parts)
{
    return parts > 1 ? 3 : kind == HSPZ_FILTER_TCF ? 2 : 1;
}

static uint64_t
align_up(uint64_t at)
{
    return (at + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t
header_hash(const struct header *header)
{
    struct header h = *header;
    h.hash = 0;
    return XXH64(&h, sizeof(h), 0);
}

/* ---- writing ---- */

struct content {
    struct header header;
    const struct hspz_filter_image *image;
    const struct hspz_filter_stop *stop;
    enum hspz_status stopped;
    struct hspz_error *err;
};

/* XXH64 of an array. */
static enum hspz_status
hash_array(const void *data, uint64_t bytes, const struct hspz_filter_stop *stop, uint64_t *out,
           struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    XXH64_state_t *state = XXH64_createState();
    if (state == NULL || XXH64_reset(state, 0) != XXH_OK) {
        XXH64_freeState(state);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a checksum");
    }
    for (uint64_t at = 0; at < bytes && status == HSPZ_OK; at += PIECE_BYTES) {
        const uint64_t left = bytes - at;
        status = hspz_filter_stopped(stop, err);
        (void)XXH64_update(state, (const char *)data + at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    *out = XXH64_digest(state);
    XXH64_freeState(state);
    return status;
}

static enum hspz_status
make_header(const struct hspz_filter_plan *plan, struct content *c)
{
    const struct hspz_filter_spec *s = &plan->spec;
    struct header *h = &c->header;
    *h = (struct header){.endian = ENDIAN_MARK,
                         .format = format_of(s->kind, s->parts),
                         .header_bytes = sizeof(*h),
                         .kind = s->kind,
                         .capacity = s->capacity,
                         .slots = s->slots,
                         .seed = s->seed,
                         .rate = s->rate,
                         .entries = c->image->entries,
                         .total = c->image->total,
                         .slot_bits = s->slot_bits,
                         .block_slots = s->block_slots,
                         .hashes = s->hashes,
                         .value_bits = s->value_bits,
                         .remainder_bits = plan->remainder_bits,
                         .kmers = s->k | (s->canonical ? CANONICAL : 0),
                         .parts = s->parts > 1 ? s->parts : 0};
    memcpy(h->magic, MAGIC, sizeof(h->magic));
    h->file_bytes = sizeof(*h);
    enum hspz_status status = HSPZ_OK;
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && status == HSPZ_OK; i++) {
        h->array[i][0] = c->image->bytes[i];
        status =
            hash_array(c->image->arrays[i], c->image->bytes[i], c->stop, &h->array[i][1], c->err);
        h->file_bytes = align_up(h->file_bytes) + c->image->bytes[i];
    }
    h->hash = header_hash(h);
    return status;
}

static int
write_array(struct content *c, int fd, const void *data, uint64_t bytes)
{
    int error = 0;
    for (uint64_t at = 0; at < bytes && error == 0; at += PIECE_BYTES) {
        const uint64_t left = bytes - at;
        c->stopped = hspz_filter_stopped(c->stop, c->err);
        error = c->stopped != HSPZ_OK ? ECANCELED
                                      : hspz_write_all(fd, (const char *)data + at,
                                                       left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    return error;
}

static int
write_content(void *user, int fd)
{
    struct content *c = user;
    static const uint8_t zeros[ALIGN];
    int error = hspz_write_all(fd, &c->header, sizeof(c->header));
    uint64_t at = sizeof(c->header);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS && error == 0; i++) {
        error = hspz_write_all(fd, zeros, align_up(at) - at);
        if (error == 0) {
            error = write_array(c, fd, c->image->arrays[i], c->image->bytes[i]);
        }
        at = align_up(at) + c->image->bytes[i];
    }
    return error;
}

enum hspz_status
hspz_filter_write(const struct hspz_filter_ops *ops, const struct hspz_filter *filter,
                  const char *path, const struct hspz_filter_stop *stop, struct hspz_error *err)
{
    struct hspz_filter_image image;
    enum hspz_status status = ops->save(filter, stop, &image, err);
    if (status != HSPZ_OK) {
        return status;
    }
    struct content content = {.image = &image, .stop = stop, .err = err};
    status = make_header(ops->plan(filter), &content);
    if (status == HSPZ_OK) {
        status = hspz_file_write(path, "filter file", content.header.file_bytes, write_content,
                                 &content, err);
    }
    if (content.stopped != HSPZ_OK) { /* which was told as an error of the file */
        status = hspz_error_set(err, content.stopped, "the work on a filter was stopped");
    }
    hspz_filter_image_fini(&image);
    return status;
}

/* ---- reading ---- */

struct reader {
    int fd;
    uint64_t file_bytes;
    struct hspz_shown_path shown;
    const struct hspz_filter_stop *stop;
    struct hspz_error *err;
};

static enum hspz_status
bad(const struct reader *r, const char *why)
{
    return hspz_error_set(r->err, HSPZ_E_BAD_FILE, "%s is no filter file that can be used: %s",
                          r->shown.text, why);
}

static enum hspz_status
read_all(const struct reader *r, void *data, uint64_t bytes, uint64_t at)
{
    uint8_t *to = data;
    while (bytes > 0) {
        const enum hspz_status status = hspz_filter_stopped(r->stop, r->err);
        if (status != HSPZ_OK) {
            return status;
        }
        const ssize_t got = pread(r->fd, to, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return hspz_error_errno(r->err, HSPZ_E_IO, errno, "cannot read %s", r->shown.text);
        }
        if (got == 0) {
            return bad(r, "it ends early");
        }
        to += got;
        at += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return HSPZ_OK;
}

/* A counter is as large as what it holds. */
static enum hspz_status
plan_counter(const struct reader *r, uint64_t budget_bytes, const struct header *h,
             struct hspz_filter_plan *plan)
{
    uint64_t bytes[HSPZ_FILTER_ARRAYS];
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        bytes[i] = h->array[i][0];
        if (bytes[i] > r->file_bytes) {
            return bad(r, "its arrays are longer than the file");
        }
    }
    hspz_filter_plan_counter_holds(plan, bytes);
    if (budget_bytes != 0 && plan->bytes > budget_bytes) {
        const enum hspz_status status = hspz_error_set(
            r->err, HSPZ_E_TOO_LARGE, "%s needs %" PRIu64 " bytes, over the budget of %" PRIu64,
            r->shown.text, plan->bytes, budget_bytes);
        (void)hspz_error_limit(r->err, status, budget_bytes);
        return status;
    }
    return HSPZ_OK;
}

/* What the header says, as a plan; lengths are believed once they are what the plan asks for. */
static enum hspz_status
read_header(const struct reader *r, uint64_t budget_bytes, struct header *h,
            struct hspz_filter_plan *plan)
{
    if (r->file_bytes < sizeof(*h)) {
        return bad(r, "it is too short");
    }
    const enum hspz_status status = read_all(r, h, sizeof(*h), 0);
    if (status != HSPZ_OK) {
        return status;
    }
    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0) {
        return bad(r, "it is of another kind");
    }
    if (h->endian != ENDIAN_MARK || h->format != format_of(h->kind, h->parts) ||
        h->header_bytes != sizeof(*h)) {
        return bad(r, h->endian != ENDIAN_MARK ? "it is of the other byte order"
                                               : "it is of another version of the format");
    }
    if (h->hash != header_hash(h)) {
        return bad(r, "its header is damaged");
    }
    if (h->file_bytes != r->file_bytes) {
        return bad(r, "its length is not the one it had");
    }
    if (h->kind >= HSPZ_FILTER_KINDS) {
        return bad(r, "it holds an unknown kind of filter");
    }
    /* A grown filter's remainders are shorter than its slots ask for; all else follows. */
    const struct hspz_filter_spec spec = {.kind = (enum hspz_filter_kind)h->kind,
                                          .slots = h->slots,
                                          .slot_bits = h->slot_bits,
                                          .block_slots = h->block_slots,
                                          .hashes = h->hashes,
                                          .value_bits = h->value_bits,
                                          .seed = h->seed,
                                          .k = h->kmers & ~CANONICAL,
                                          .canonical = (h->kmers & CANONICAL) != 0,
                                          .parts = h->parts};
    const enum hspz_status planned = hspz_filter_plan(&spec, budget_bytes, plan, r->err);
    if (planned != HSPZ_OK) {
        return planned;
    }
    if (plan->spec.slots != h->slots || h->remainder_bits > plan->remainder_bits) {
        return bad(r, "its sizes cannot be");
    }
    plan->remainder_bits = h->remainder_bits;
    plan->spec.capacity = h->capacity;
    plan->spec.rate = h->rate;
    hspz_filter_plan_expect(plan);
    return h->kind == HSPZ_FILTER_COUNTER ? plan_counter(r, budget_bytes, h, plan) : HSPZ_OK;
}

static enum hspz_status
read_arrays(const struct reader *r, const struct header *h, const struct hspz_filter_plan *plan,
            struct hspz_filter_image *image)
{
    uint64_t at = sizeof(*h);
    for (int i = 0; i < HSPZ_FILTER_ARRAYS; i++) {
        const uint64_t bytes = h->array[i][0];
        /* No array is longer than all of the filter; so neither is what is allocated. */
        if (bytes > plan->bytes + (HSPZ_FILTER_PARTS_MAX + 1) * ALIGN || bytes > r->file_bytes ||
            align_up(at) > r->file_bytes - bytes) {
            return bad(r, "its arrays are longer than the file");
        }
        image->arrays[i] = malloc(bytes > 0 ? bytes : 1);
        if (image->arrays[i] == NULL) {
            return hspz_error_set(r->err, HSPZ_E_OUT_OF_MEMORY,
                                  "no memory for %" PRIu64 " bytes of %s", bytes, r->shown.text);
        }
        image->bytes[i] = bytes;
        uint64_t hash = 0;
        enum hspz_status status = read_all(r, image->arrays[i], bytes, align_up(at));
        if (status == HSPZ_OK) {
            status = hash_array(image->arrays[i], bytes, r->stop, &hash, r->err);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        if (hash != h->array[i][1]) {
            return bad(r, "an array is damaged");
        }
        at = align_up(at) + bytes;
    }
    return at == r->file_bytes ? HSPZ_OK : bad(r, "something stands behind its arrays");
}

/* Opens the file and reads its header; the descriptor is to be closed, whatever is returned. */
static enum hspz_status
open_file(struct reader *r, const char *path, uint64_t budget_bytes,
          const struct hspz_filter_stop *stop, struct header *header, struct hspz_filter_plan *plan,
          struct hspz_error *err)
{
    struct stat st;
    *r = (struct reader){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
                         .shown = hspz_shown_path_make(path),
                         .stop = stop,
                         .err = err};
    if (r->fd < 0 || fstat(r->fd, &st) != 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "cannot open %s", r->shown.text);
    }
    if (!S_ISREG(st.st_mode)) {
        return bad(r, "it is no regular file");
    }
    r->file_bytes = (uint64_t)st.st_size;
    return read_header(r, budget_bytes, header, plan);
}

static void
close_file(const struct reader *r)
{
    if (r->fd >= 0) {
        close(r->fd);
    }
}

enum hspz_status
hspz_filter_read_plan(const char *path, uint64_t budget_bytes, struct hspz_filter_plan *plan,
                      struct hspz_error *err)
{
    struct reader r;
    struct header header;
    struct hspz_filter_plan found;
    const enum hspz_status status = open_file(&r, path, budget_bytes, NULL, &header, &found, err);
    close_file(&r);
    if (status == HSPZ_OK) {
        *plan = found;
    }
    return status;
}

enum hspz_status
hspz_filter_read(const char *path, uint64_t budget_bytes, const struct hspz_filter_stop *stop,
                 struct hspz_filter_plan *plan, struct hspz_filter_image *image,
                 struct hspz_error *err)
{
    struct reader r;
    struct hspz_filter_plan found;
    struct hspz_filter_image read = {0};
    struct header header;
    enum hspz_status status = open_file(&r, path, budget_bytes, stop, &header, &found, err);
    if (status == HSPZ_OK) {
        status = read_arrays(&r, &header, &found, &read);
    }
    close_file(&r);
    if (status != HSPZ_OK) {
        hspz_filter_image_fini(&read);
        return status;
    }
    read.entries = header.entries;
    read.total = header.total;
    *plan = found;
    *image = read;
    return HSPZ_OK;
}
