#include "daemon/handle.h"

void
hspz_handles_init(struct hspz_handles *handles, void *owner, void (*all_closed)(void *owner))
{
    *handles = (struct hspz_handles){.owner = owner, .all_closed = all_closed};
}

void
hspz_handles_add(struct hspz_handles *handles, uv_handle_t *handle)
{
    handle->data = handles;
    handles->open++;
}

void *
hspz_handle_owner(const uv_handle_t *handle)
{
    return ((const struct hspz_handles *)handle->data)->owner;
}

static void
on_closed(uv_handle_t *handle)
{
    struct hspz_handles *handles = handle->data;
    HSPZ_REQUIRE(handles->open > 0);
    if (--handles->open == 0) {
        handles->all_closed(handles->owner);
    }
}

void
hspz_handle_close(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_closed);
    }
}

enum hspz_status
hspz_uv_status(int result)
{
    switch (result) {
    case UV_ENOMEM:
        return HSPZ_E_OUT_OF_MEMORY;
    case UV_ECANCELED:
        return HSPZ_E_CANCELLED;
    case UV_EINVAL:
    case UV_EBADF:
        return HSPZ_E_INTERNAL;
    default:
        return HSPZ_E_IO;
    }
}

enum hspz_status
hspz_uv_error(struct hspz_error *err, int result, const char *what)
{
    char text[128];
    return hspz_error_set(err, hspz_uv_status(result), "%s: %s", what,
                          uv_strerror_r(result, text, sizeof(text)));
}
