#include "client/ordered.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define THREADS_MOST 16u
/* Queued for each thread: enough that none waits while one writes. */
#define QUEUED_PER_THREAD 4u
#define QUEUE_MOST (THREADS_MOST * QUEUED_PER_THREAD)

struct entry {
    struct hspz_ordered_line *line;
    uint64_t number; /* in its line */
    void *job;
};

struct hspz_ordered {
    struct hspz_ordered_ops ops;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* anything below */
    pthread_t threads[THREADS_MOST];
    unsigned thread_count;
    struct entry queue[QUEUE_MOST];
    unsigned first, count, room; /* a ring of `room` */
    unsigned running;
    bool ending;
    struct hspz_error failure;
};

static unsigned
usable_threads(void)
{
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : (unsigned)count;
}

/* Mutex held, given up meanwhile. */
static void
run_entry(struct hspz_ordered *o, const struct entry *entry)
{
    struct hspz_error err = {0};
    bool failed = o->failure.status != HSPZ_OK;
    if (!failed) {
        pthread_mutex_unlock(&o->mutex);
        failed = o->ops.work(o->ops.user, entry->job, &err) != HSPZ_OK;
        pthread_mutex_lock(&o->mutex);
    }
    /* Entries leave the queue in order, so the one waited for runs already. */
    while (entry->line->done != entry->number) {
        pthread_cond_wait(&o->changed, &o->mutex);
    }
    failed = failed || o->failure.status != HSPZ_OK;
    pthread_mutex_unlock(&o->mutex);
    struct hspz_error finish_err = {0};
    const bool finished =
        o->ops.finish(o->ops.user, entry->job, failed, &finish_err) == HSPZ_OK || failed;
    pthread_mutex_lock(&o->mutex);
    if (o->failure.status == HSPZ_OK) {
        o->failure = err.status != HSPZ_OK ? err : finished ? o->failure : finish_err;
    }
    entry->line->done++;
    pthread_cond_broadcast(&o->changed);
}

static void *
worker(void *user)
{
    struct hspz_ordered *o = user;
    pthread_mutex_lock(&o->mutex);
    for (;;) {
        if (o->count > 0) {
            const struct entry entry = o->queue[o->first];
            o->first = (o->first + 1) % o->room;
            o->count--;
            o->running++;
            pthread_cond_broadcast(&o->changed);
            run_entry(o, &entry);
            o->running--;
            pthread_cond_broadcast(&o->changed);
        } else if (o->ending) {
            break;
        } else {
            pthread_cond_wait(&o->changed, &o->mutex);
        }
    }
    pthread_mutex_unlock(&o->mutex);
    return NULL;
}

enum hspz_status
hspz_ordered_create(const struct hspz_ordered_ops *ops, unsigned threads, struct hspz_ordered **out,
                    struct hspz_error *err)
{
    const unsigned asked = threads == 0 ? usable_threads() : threads;
    const unsigned want = asked < THREADS_MOST ? asked : THREADS_MOST;
    struct hspz_ordered *o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write lines");
    }
    o->ops = *ops;
    o->room = want * QUEUED_PER_THREAD;
    if (pthread_mutex_init(&o->mutex, NULL) != 0) {
        free(o);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write lines");
    }
    if (pthread_cond_init(&o->changed, NULL) != 0) {
        pthread_mutex_destroy(&o->mutex);
        free(o);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory to write lines");
    }
    while (o->thread_count < want &&
           pthread_create(&o->threads[o->thread_count], NULL, worker, o) == 0) {
        o->thread_count++;
    }
    if (o->thread_count == 0) {
        hspz_ordered_destroy(&o);
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no thread to write lines");
    }
    *out = o;
    return HSPZ_OK;
}

/* The failure so far; mutex held. */
static enum hspz_status
failure(const struct hspz_ordered *o, struct hspz_error *err)
{
    if (o->failure.status != HSPZ_OK && err != NULL) {
        *err = o->failure;
    }
    return o->failure.status;
}

enum hspz_status
hspz_ordered_give(struct hspz_ordered *ordered, struct hspz_ordered_line *line, void *job,
                  struct hspz_error *err)
{
    pthread_mutex_lock(&ordered->mutex);
    while (ordered->count == ordered->room) {
        pthread_cond_wait(&ordered->changed, &ordered->mutex);
    }
    ordered->queue[(ordered->first + ordered->count) % ordered->room] = (struct entry){
        .line = line,
        .number = line->given++,
        .job = job,
    };
    ordered->count++;
    pthread_cond_broadcast(&ordered->changed);
    const enum hspz_status status = failure(ordered, err);
    pthread_mutex_unlock(&ordered->mutex);
    return status;
}

enum hspz_status
hspz_ordered_drain(struct hspz_ordered *ordered, struct hspz_error *err)
{
    pthread_mutex_lock(&ordered->mutex);
    while (ordered->count > 0 || ordered->running > 0) {
        pthread_cond_wait(&ordered->changed, &ordered->mutex);
    }
    const enum hspz_status status = failure(ordered, err);
    pthread_mutex_unlock(&ordered->mutex);
    return status;
}

void
hspz_ordered_destroy(struct hspz_ordered **ordered)
{
    struct hspz_ordered *o = *ordered;
    if (o == NULL) {
        return;
    }
    pthread_mutex_lock(&o->mutex);
    o->ending = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    for (unsigned i = 0; i < o->thread_count; i++) {
        pthread_join(o->threads[i], NULL);
    }
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->mutex);
    free(o);
    *ordered = NULL;
}
