#include "client/kmer_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Who takes looks up this often. */
#define WAIT_NS 100000000

struct hspz_kmer_queue {
    pthread_mutex_t mutex;
    pthread_cond_t put, given;
    int stop_fd;
    size_t batch_bytes;
    struct hspz_kmer_slot slots[HSPZ_KMER_QUEUE_SLOTS];
    /* Guarded by the mutex. Slots of all that was ever put; the first `puts - gives` of those from
     * `gives` on, modulo the slots, hold batches. */
    uint64_t puts, gives;
    bool stopped, ended;
    uint64_t done, total;
};

enum hspz_status
hspz_kmer_queue_create(size_t batch_bytes, struct hspz_kmer_queue **out, struct hspz_error *err)
{
    struct hspz_kmer_queue *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for sequences");
    }
    q->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->stop_fd < 0) {
        const int error = errno;
        free(q);
        return hspz_error_errno(err, HSPZ_E_IO, error, "an event descriptor cannot be made");
    }
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->put, &clock);
    pthread_cond_init(&q->given, NULL);
    pthread_condattr_destroy(&clock);
    q->batch_bytes = batch_bytes;
    *out = q;
    return HSPZ_OK;
}

void
hspz_kmer_queue_destroy(struct hspz_kmer_queue **queue)
{
    struct hspz_kmer_queue *q = *queue;
    if (q == NULL) {
        return;
    }
    for (unsigned i = 0; i < HSPZ_KMER_QUEUE_SLOTS; i++) {
        free(q->slots[i].batch.bases);
        free(q->slots[i].batch.pieces);
        free(q->slots[i].batch.names);
    }
    pthread_cond_destroy(&q->given);
    pthread_cond_destroy(&q->put);
    pthread_mutex_destroy(&q->mutex);
    close(q->stop_fd);
    free(q);
    *queue = NULL;
}

enum hspz_status
hspz_kmer_queue_fill(struct hspz_kmer_queue *queue, struct hspz_kmer_slot **slot)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->puts - queue->gives == HSPZ_KMER_QUEUE_SLOTS && !queue->stopped) {
        pthread_cond_wait(&queue->given, &queue->mutex);
    }
    const bool stopped = queue->stopped;
    pthread_mutex_unlock(&queue->mutex);
    struct hspz_kmer_slot *const s = &queue->slots[queue->puts % HSPZ_KMER_QUEUE_SLOTS];
    s->batch.len = s->batch.count = s->names_len = 0;
    if (s->batch.bases == NULL) {
        s->batch.bases = malloc(queue->batch_bytes);
    }
    *slot = s;
    return stopped ? HSPZ_E_STOPPED : s->batch.bases == NULL ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK;
}

void
hspz_kmer_queue_put(struct hspz_kmer_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->puts++;
    pthread_cond_signal(&queue->put);
    pthread_mutex_unlock(&queue->mutex);
}

void
hspz_kmer_queue_end(struct hspz_kmer_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->ended = true;
    pthread_cond_signal(&queue->put);
    pthread_mutex_unlock(&queue->mutex);
}

bool
hspz_kmer_queue_read(struct hspz_kmer_queue *queue, uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&queue->mutex);
    queue->done = done;
    queue->total = total;
    const bool stopped = queue->stopped;
    pthread_mutex_unlock(&queue->mutex);
    return !stopped;
}

int
hspz_kmer_queue_stop_fd(const struct hspz_kmer_queue *queue)
{
    return queue->stop_fd;
}

static struct timespec
a_while_from_now(void)
{
    struct timespec at = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += WAIT_NS;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

const struct hspz_kmer_batch *
hspz_kmer_queue_take(struct hspz_kmer_queue *queue, bool *over, uint64_t *done, uint64_t *total)
{
    const struct timespec until = a_while_from_now();
    int waited = 0;
    pthread_mutex_lock(&queue->mutex);
    while (queue->puts == queue->gives && !queue->ended && waited == 0) {
        waited = pthread_cond_timedwait(&queue->put, &queue->mutex, &until);
    }
    const bool there = queue->puts > queue->gives;
    *over = !there && queue->ended;
    *done = queue->done;
    *total = queue->total;
    pthread_mutex_unlock(&queue->mutex);
    return there ? &queue->slots[queue->gives % HSPZ_KMER_QUEUE_SLOTS].batch : NULL;
}

void
hspz_kmer_queue_give(struct hspz_kmer_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->gives++;
    pthread_cond_signal(&queue->given);
    pthread_mutex_unlock(&queue->mutex);
}

void
hspz_kmer_queue_stop(struct hspz_kmer_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->stopped = true;
    pthread_cond_signal(&queue->given);
    pthread_mutex_unlock(&queue->mutex);
    (void)eventfd_write(queue->stop_fd, 1);
}
