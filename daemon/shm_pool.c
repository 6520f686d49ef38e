#include "daemon/shm_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct hspz_shm_pool {
    const struct hspz_engine_ops *ops;
    struct hspz_engine *engine;
    size_t ring_bytes, input_bytes;
    uint64_t most, made, used;
    struct hspz_shm_segment *unused;
};

static enum hspz_status
make_file(const char *name, size_t bytes, mode_t mode, int *out, struct hspz_error *err)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "no memory to share: memfd_create");
    }
    if (fchmod(fd, mode) != 0 || ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        const int error = errno;
        (void)close(fd);
        return hspz_error_errno(err, HSPZ_E_IO, error, "no memory to share: %zu bytes", bytes);
    }
    *out = fd;
    return HSPZ_OK;
}

static void
segment_destroy(struct hspz_shm_pool *pool, struct hspz_shm_segment **segment)
{
    struct hspz_shm_segment *s = *segment;
    if (s == NULL) {
        return;
    }
    if (s->adopted) {
        pool->ops->memory_disown(pool->engine, s->ring, pool->ring_bytes);
    }
    if (s->ring != NULL) {
        (void)munmap(s->ring, pool->ring_bytes);
    }
    if (s->ring_fd >= 0) {
        (void)close(s->ring_fd);
    }
    if (s->input_fd >= 0) {
        (void)close(s->input_fd);
    }
    free(s);
    pool->made--;
    *segment = NULL;
}

static enum hspz_status
fill_segment(struct hspz_shm_pool *pool, struct hspz_shm_segment *s, struct hspz_error *err)
{
    enum hspz_status status = make_file("hspz ring", pool->ring_bytes, 0400, &s->ring_fd, err);
    if (status == HSPZ_OK) {
        status = make_file("hspz input", pool->input_bytes, 0600, &s->input_fd, err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    void *ring = mmap(NULL, pool->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->ring_fd, 0);
    if (ring == MAP_FAILED) {
        return hspz_error_errno(err, HSPZ_E_OUT_OF_MEMORY, errno, "no memory to share");
    }
    s->ring = ring;
    if (pool->ops->memory_adopt != NULL) {
        status = pool->ops->memory_adopt(pool->engine, s->ring, pool->ring_bytes);
        if (status != HSPZ_OK) {
            return hspz_error_set(err, status, "the engine cannot use memory to share: %s",
                                  hspz_status_text(status));
        }
        s->adopted = true;
    }
    return HSPZ_OK;
}

static enum hspz_status
segment_create(struct hspz_shm_pool *pool, struct hspz_shm_segment **out, struct hspz_error *err)
{
    struct hspz_shm_segment *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to share");
    }
    s->ring_fd = s->input_fd = -1;
    pool->made++;
    const enum hspz_status status = fill_segment(pool, s, err);
    if (status != HSPZ_OK) {
        segment_destroy(pool, &s);
        return status;
    }
    *out = s;
    return HSPZ_OK;
}

enum hspz_status
hspz_shm_pool_create(const struct hspz_engine_ops *ops, struct hspz_engine *engine,
                     const struct hspz_shm_sizes *sizes, struct hspz_shm_pool **out,
                     struct hspz_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t ring_bytes = (sizes->ring_bytes + page - 1) / page * page;
    const uint64_t room = sizes->total_bytes / (ring_bytes + sizes->input_bytes);
    if (room == 0) {
        *out = NULL;
        return HSPZ_OK;
    }
    struct hspz_shm_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to share");
    }
    *pool = (struct hspz_shm_pool){.ops = ops,
                                   .engine = engine,
                                   .ring_bytes = ring_bytes,
                                   .input_bytes = sizes->input_bytes,
                                   .most = room < sizes->most ? room : sizes->most};
    while (ops->memory_adopt != NULL && pool->made < pool->most) {
        struct hspz_shm_segment *segment = NULL;
        const enum hspz_status status = segment_create(pool, &segment, err);
        if (status != HSPZ_OK) {
            hspz_shm_pool_destroy(&pool);
            return status;
        }
        segment->next = pool->unused;
        pool->unused = segment;
    }
    *out = pool;
    return HSPZ_OK;
}

void
hspz_shm_pool_destroy(struct hspz_shm_pool **pool)
{
    struct hspz_shm_pool *p = *pool;
    if (p == NULL) {
        return;
    }
    HSPZ_REQUIRE(p->used == 0);
    while (p->unused != NULL) {
        struct hspz_shm_segment *segment = p->unused;
        p->unused = segment->next;
        segment_destroy(p, &segment);
    }
    free(p);
    *pool = NULL;
}

/* The place in the list of the user's own, or of one that was nobody's yet; NULL: neither. */
static struct hspz_shm_segment **
find(struct hspz_shm_pool *pool, uid_t uid)
{
    struct hspz_shm_segment **fresh = NULL;
    for (struct hspz_shm_segment **at = &pool->unused; *at != NULL; at = &(*at)->next) {
        if ((*at)->owned && (*at)->uid == uid) {
            return at;
        }
        fresh = (*at)->owned ? fresh : at;
    }
    return fresh;
}

static struct hspz_shm_segment *
unlink_segment(struct hspz_shm_segment **at)
{
    struct hspz_shm_segment *segment = *at;
    *at = segment->next;
    segment->next = NULL;
    return segment;
}

enum hspz_status
hspz_shm_pool_take(struct hspz_shm_pool *pool, uid_t uid, struct hspz_shm_segment **out,
                   struct hspz_error *err)
{
    struct hspz_shm_segment *segment = NULL;
    struct hspz_shm_segment **at = find(pool, uid);
    if (at != NULL) {
        segment = unlink_segment(at);
    } else {
        if (pool->made == pool->most && pool->unused != NULL) {
            struct hspz_shm_segment *others = unlink_segment(&pool->unused);
            segment_destroy(pool, &others);
        }
        if (pool->made == pool->most) {
            return hspz_error_set(err, HSPZ_E_QUOTA_EXCEEDED,
                                  "all %" PRIu64 " segments of shared memory are in use",
                                  pool->most);
        }
        const enum hspz_status status = segment_create(pool, &segment, err);
        if (status != HSPZ_OK) {
            return status;
        }
    }
    segment->owned = true;
    segment->uid = uid;
    pool->used++;
    *out = segment;
    return HSPZ_OK;
}

static bool
punch(int fd, size_t bytes)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0;
}

/* What one client had is not for the next. Adopted pages are pinned and have to stay. */
static bool
clear(const struct hspz_shm_pool *pool, struct hspz_shm_segment *segment)
{
    if (segment->adopted) {
        memset(segment->ring, 0, pool->ring_bytes);
    } else if (!punch(segment->ring_fd, pool->ring_bytes)) {
        return false;
    }
    return pool->input_bytes == 0 || punch(segment->input_fd, pool->input_bytes);
}

void
hspz_shm_pool_give(struct hspz_shm_pool *pool, struct hspz_shm_segment **segment)
{
    struct hspz_shm_segment *s = *segment;
    if (s == NULL) {
        return;
    }
    HSPZ_REQUIRE(pool->used > 0);
    pool->used--;
    *segment = NULL;
    if (!clear(pool, s)) {
        segment_destroy(pool, &s);
        return;
    }
    s->next = pool->unused;
    pool->unused = s;
}

enum hspz_status
hspz_shm_segment_reader(const struct hspz_shm_segment *segment, int *out, struct hspz_error *err)
{
    /* A descriptor of the same file that was opened anew: a copy would write as well. */
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", segment->ring_fd);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "no memory to share: %s", path);
    }
    *out = fd;
    return HSPZ_OK;
}

size_t
hspz_shm_pool_ring_bytes(const struct hspz_shm_pool *pool)
{
    return pool->ring_bytes;
}

size_t
hspz_shm_pool_input_bytes(const struct hspz_shm_pool *pool)
{
    return pool->input_bytes;
}

uint64_t
hspz_shm_pool_segment_bytes(const struct hspz_shm_pool *pool)
{
    return (uint64_t)pool->ring_bytes + pool->input_bytes;
}

uint64_t
hspz_shm_pool_used(const struct hspz_shm_pool *pool)
{
    return pool != NULL ? pool->used : 0;
}

uint64_t
hspz_shm_pool_most(const struct hspz_shm_pool *pool)
{
    return pool != NULL ? pool->most : 0;
}

uint64_t
hspz_shm_pool_descriptors(const struct hspz_shm_pool *pool)
{
    return pool != NULL ? 2 * pool->most + 1 : 0;
}
