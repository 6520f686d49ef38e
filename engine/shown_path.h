/* A path as error texts show it: whole when short, else "..." and its end, so that what follows it
 * in the text is not cut off. "-" is shown as standard input. */
#pragma once

#include <stdio.h>
#include <string.h>

#define HSPZ_SHOWN_PATH_BYTES 204u

struct hspz_shown_path {
    char text[HSPZ_SHOWN_PATH_BYTES];
};

static inline struct hspz_shown_path
hspz_shown_path_make(const char *path)
{
    struct hspz_shown_path shown;
    const char *text = path == NULL || strcmp(path, "-") == 0 ? "standard input" : path;
    const size_t len = strlen(text);
    const size_t room = sizeof(shown.text) - 4;
    snprintf(shown.text, sizeof(shown.text), "%s%s", len > room ? "..." : "",
             len > room ? text + (len - room) : text);
    return shown;
}
