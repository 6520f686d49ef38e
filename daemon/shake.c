#include "daemon/shake.h"

#include <stddef.h>

static void
on_idle(uv_idle_t *idle)
{
    struct hspz_shakes *shakes =
        (struct hspz_shakes *)(void *)((char *)idle - offsetof(struct hspz_shakes, idle));
    const uint64_t begin = uv_hrtime();
    while (shakes->line.next != &shakes->line) {
        struct hspz_shaker *shaker = shakes->line.next;
        hspz_shakes_remove(shaker);
        shakes->step(shaker);
        if (uv_hrtime() - begin >= HSPZ_SHAKES_NS) {
            return;
        }
    }
    (void)uv_idle_stop(idle);
}

enum hspz_status
hspz_shakes_init(struct hspz_shakes *shakes, uv_loop_t *loop, struct hspz_handles *handles,
                 void (*step)(struct hspz_shaker *shaker), struct hspz_error *err)
{
    *shakes = (struct hspz_shakes){.step = step};
    shakes->line.prev = shakes->line.next = &shakes->line;
    const int result = uv_idle_init(loop, &shakes->idle);
    if (result != 0) {
        return hspz_uv_error(err, result, "handle of TLS handshakes");
    }
    hspz_handles_add(handles, (uv_handle_t *)&shakes->idle);
    return HSPZ_OK;
}

void
hspz_shakes_close(struct hspz_shakes *shakes)
{
    hspz_handle_close((uv_handle_t *)&shakes->idle);
}

bool
hspz_shakes_push(struct hspz_shakes *shakes, struct hspz_shaker *shaker)
{
    if (shaker->next != NULL) {
        return true;
    }
    if (uv_idle_start(&shakes->idle, on_idle) != 0) {
        return false;
    }
    shaker->prev = shakes->line.prev;
    shaker->next = &shakes->line;
    shaker->prev->next = shaker;
    shakes->line.prev = shaker;
    return true;
}

void
hspz_shakes_remove(struct hspz_shaker *shaker)
{
    if (shaker->next != NULL) {
        shaker->prev->next = shaker->next;
        shaker->next->prev = shaker->prev;
        shaker->prev = shaker->next = NULL;
    }
}
