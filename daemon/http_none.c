/* Built without libmicrohttpd. */
#include "daemon/http.h"

enum hspz_status
hspz_http_bind(const struct hspz_config *config, struct hspz_log *log, struct hspz_http **out,
               struct hspz_error *err)
{
    (void)config;
    (void)log;
    (void)out;
    return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                          "metrics: hspzd was built without libmicrohttpd");
}

enum hspz_status
hspz_http_start(struct hspz_http *http, struct hspz_service *service, struct hspz_error *err)
{
    (void)http;
    (void)service;
    (void)err;
    return HSPZ_OK;
}

void
hspz_http_stop(struct hspz_http *http)
{
    (void)http;
}

void
hspz_http_destroy(struct hspz_http **http)
{
    (void)http;
}
