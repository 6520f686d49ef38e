#include "client/mask_option.h"

#include "client/number.h"
#include "client/servers.h"

#include <stdio.h>
#include <string.h>

enum hspz_status
hspz_mask_option_apply(struct hspz_mask_option *option, const struct hspz_cli *cli,
                       struct hspz_discover_request *request, struct hspz_error *err)
{
    if (option->text == NULL) {
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_servers_check_one(cli, "--mask-filter", err);
    if (status != HSPZ_OK) {
        return status;
    }
    /* A tenant's name may hold a colon, a filter's may not. */
    const char *const slash = strrchr(option->text, '/');
    const char *const colon = strchr(slash != NULL ? slash : option->text, ':');
    const size_t len = colon != NULL ? (size_t)(colon - option->text) : strlen(option->text);
    if (len == 0 || len >= sizeof(option->name)) {
        return hspz_error_set(
            err, HSPZ_E_BAD_REQUEST,
            "--mask-filter \"%.100s\": wanted the name of a filter, or NAME:COUNT", option->text);
    }
    snprintf(option->name, sizeof(option->name), "%.*s", (int)len, option->text);
    request->mask_filter = option->name;
    return colon == NULL ? HSPZ_OK
                         : hspz_number_parse("--mask-filter NAME:COUNT", colon + 1, 0, UINT64_MAX,
                                             &request->mask_count, err);
}
