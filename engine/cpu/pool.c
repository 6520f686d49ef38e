#include "engine/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct hspz_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    unsigned started; /* helper threads */
    bool stopping;
    /* The set under way, guarded by the mutex. */
    hspz_pool_fn fn;
    void *user;
    size_t tasks, next, finished;
    pthread_t threads[];
};

/* Takes tasks until none is left; called and returns with the mutex held. */
static void
work_on(struct hspz_pool *pool)
{
    while (pool->next < pool->tasks) {
        const size_t task = pool->next++;
        const hspz_pool_fn fn = pool->fn;
        void *user = pool->user;
        pthread_mutex_unlock(&pool->mutex);
        fn(user, task);
        pthread_mutex_lock(&pool->mutex);
        if (++pool->finished == pool->tasks) {
            pthread_cond_signal(&pool->done);
        }
    }
}

static void *
helper_main(void *arg)
{
    struct hspz_pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stopping) {
        work_on(pool);
        if (!pool->stopping) {
            pthread_cond_wait(&pool->work, &pool->mutex);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

enum hspz_status
hspz_pool_create(unsigned threads, struct hspz_pool **out)
{
    const unsigned helpers = threads > 1 ? threads - 1 : 0;
    struct hspz_pool *pool = calloc(1, sizeof(*pool) + helpers * sizeof(pthread_t));
    if (pool == NULL) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->started < helpers &&
           pthread_create(&pool->threads[pool->started], NULL, helper_main, pool) == 0) {
        pool->started++;
    }
    *out = pool;
    return HSPZ_OK;
}

void
hspz_pool_destroy(struct hspz_pool **pool)
{
    struct hspz_pool *p = *pool;
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->started; i++) {
        pthread_join(p->threads[i], NULL);
    }
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mutex);
    free(p);
    *pool = NULL;
}

unsigned
hspz_pool_threads(const struct hspz_pool *pool)
{
    return pool->started + 1;
}

void
hspz_pool_run(struct hspz_pool *pool, hspz_pool_fn fn, void *user, size_t tasks)
{
    if (pool->started == 0 || tasks <= 1) {
        for (size_t task = 0; task < tasks; task++) {
            fn(user, task);
        }
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->fn = fn;
    pool->user = user;
    pool->tasks = tasks;
    pool->next = 0;
    pool->finished = 0;
    pthread_cond_broadcast(&pool->work);
    work_on(pool);
    while (pool->finished < pool->tasks) {
        pthread_cond_wait(&pool->done, &pool->mutex);
    }
    pool->tasks = 0;
    pool->next = 0;
    pthread_mutex_unlock(&pool->mutex);
}

unsigned
hspz_pool_processors(void)
{
    cpu_set_t set;
    /* A machine with more processors than the set holds: all of them. */
    const long count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                                    : sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}
