#include "client/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct hspz_shared {
    const uint8_t *ring;
    size_t ring_bytes;
    int input_fd;
    uint64_t input_bytes;
};

/* A file that could shrink would be a fault at the next read. */
static bool
is_sound(int fd, uint64_t bytes)
{
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &st) == 0 && st.st_size >= 0 &&
           (uint64_t)st.st_size >= bytes;
}

static enum hspz_status
map_ring(struct hspz_shared *shared, const char *where, int ring_fd,
         const struct hspz_shm_result *result, struct hspz_error *err)
{
    if (result->ring_bytes > SIZE_MAX || !is_sound(ring_fd, result->ring_bytes)) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "%s: the memory that the server shares is not what it says", where);
    }
    const size_t bytes = (size_t)result->ring_bytes;
    void *ring = mmap(NULL, bytes, PROT_READ, MAP_SHARED, ring_fd, 0);
    if (ring == MAP_FAILED) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: shared memory cannot be mapped", where);
    }
    shared->ring = ring;
    shared->ring_bytes = bytes;
    shared->input_bytes = result->input_bytes;
    return HSPZ_OK;
}

/* The answer, and the descriptors that came with it, which are taken over. */
static enum hspz_status
take_answer(const struct hspz_client *client, const struct hspz_node *node, int fds[2],
            size_t count, struct hspz_shared **out, struct hspz_error *err)
{
    struct hspz_shm_result result;
    struct hspz_error why = {0};
    enum hspz_status status = hspz_shm_result_decode(node, &result, &why);
    if (status == HSPZ_OK && count != 2) {
        status = hspz_error_set(&why, HSPZ_E_BAD_PEER, "%zu descriptors came with it", count);
    }
    if (status != HSPZ_OK) {
        return hspz_client_bad_answer(client, "shm.open", &why, err);
    }
    struct hspz_shared *shared = calloc(1, sizeof(*shared));
    if (shared == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for an answer");
    }
    status = map_ring(shared, client->where, fds[0], &result, err);
    if (status != HSPZ_OK) {
        free(shared);
        return status;
    }
    shared->input_fd = fds[1];
    fds[1] = -1;
    *out = shared;
    return HSPZ_OK;
}

enum hspz_status
hspz_shared_open(struct hspz_client *client, struct hspz_shared **out, struct hspz_error *err)
{
    struct hspz_reply reply;
    int fds[2] = {-1, -1};
    size_t count = 0;
    if (client->channel == NULL) {
        return hspz_error_set(err, HSPZ_E_NO_SERVER, "%s: the connection has ended", client->where);
    }
    hspz_channel_expect_fds(client->channel, true);
    enum hspz_status status = hspz_client_ask(client, HSPZ_METHOD_SHM_OPEN, &reply, err);
    if (client->channel != NULL) {
        count = hspz_channel_take_fds(client->channel, fds);
        hspz_channel_expect_fds(client->channel, false);
    }
    if (status == HSPZ_OK) {
        status = take_answer(client, reply.result, fds, count, out, err);
        hspz_reply_fini(&reply);
    }
    for (size_t i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return status;
}

void
hspz_shared_close(struct hspz_shared **shared)
{
    if (*shared != NULL) {
        (void)munmap((void *)(uintptr_t)(*shared)->ring, (*shared)->ring_bytes);
        (void)close((*shared)->input_fd);
        free(*shared);
        *shared = NULL;
    }
}

enum hspz_status
hspz_shared_choose(struct hspz_client *client, enum hspz_transport transport, bool *shm,
                   struct hspz_error *err)
{
    *shm = false;
    if (transport == HSPZ_TRANSPORT_STREAM ||
        (transport == HSPZ_TRANSPORT_AUTO && (client->tcp || client->asked_shared))) {
        *shm = client->shared != NULL && transport == HSPZ_TRANSPORT_AUTO;
        return HSPZ_OK;
    }
    if (client->shared == NULL) {
        const enum hspz_status status = hspz_shared_open(client, &client->shared, err);
        client->asked_shared = client->channel != NULL;
        if (status != HSPZ_OK && (transport == HSPZ_TRANSPORT_SHM || client->channel == NULL)) {
            return status;
        }
    }
    *shm = client->shared != NULL;
    return HSPZ_OK;
}

enum hspz_status
hspz_shared_find(const struct hspz_shared *shared, uint64_t offset, struct hspz_span *payload,
                 struct hspz_error *err)
{
    if (shared == NULL || offset > shared->ring_bytes ||
        payload->len > shared->ring_bytes - offset) {
        return hspz_error_set(err, HSPZ_E_BAD_PEER,
                              "a part of %zu bytes is at %llu, outside the shared memory",
                              payload->len, (unsigned long long)offset);
    }
    payload->bytes = shared->ring + offset;
    return HSPZ_OK;
}

bool
hspz_shared_put(const struct hspz_shared *shared, uint64_t offset, struct hspz_span payload)
{
    if (offset > shared->input_bytes || payload.len > shared->input_bytes - offset) {
        return false;
    }
    size_t done = 0;
    while (done < payload.len) {
        const ssize_t n = pwrite(shared->input_fd, payload.bytes + done, payload.len - done,
                                 (off_t)(offset + done));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

enum hspz_status
hspz_shared_free(struct hspz_client *client, uint64_t offset, struct hspz_error *err)
{
    struct hspz_writer w;
    hspz_writer_init(&w);
    hspz_shm_free_encode(&w, &offset, 1);
    enum hspz_status status =
        w.failed ? HSPZ_E_OUT_OF_MEMORY : hspz_channel_post(client->channel, w.bytes, w.len);
    if (status != HSPZ_OK) {
        status = hspz_error_set(err, status, "no memory for a message");
    }
    hspz_writer_fini(&w);
    return status;
}
