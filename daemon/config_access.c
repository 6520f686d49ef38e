/* What the configuration says of who gets in where. */
#include "daemon/config_options.h"

#include <string.h>

static bool
is_set(const char *text)
{
    return text != NULL && *text != '\0';
}

bool
hspz_config_serves_tls(const struct hspz_config *config)
{
    return is_set(config->tls_certificate);
}

bool
hspz_config_serves_network(const struct hspz_config *config)
{
    return config->has_tenants && (hspz_config_serves_tls(config) || config->insecure != 0);
}

static bool
parse_mode(const char *text, unsigned *out)
{
    const size_t len = strspn(text, "01234567");
    if (len == 0 || len > 4 || text[len] != '\0') {
        return false;
    }
    *out = 0;
    for (; *text != '\0'; text++) {
        *out = *out * 8 + (unsigned)(*text - '0');
    }
    return *out <= 0777;
}

unsigned
hspz_config_socket_mode(const struct hspz_config *config)
{
    unsigned mode = 0600;
    if (is_set(config->socket_mode)) {
        HSPZ_REQUIRE(parse_mode(config->socket_mode, &mode));
    } else if (config->has_tenants) {
        mode = is_set(config->socket_group) ? 0660 : 0666; /* who connects is asked who it is */
    }
    return mode;
}

enum hspz_status
hspz_config_check_access(const struct hspz_config *config, struct hspz_error *err)
{
    unsigned mode = 0600;
    if (is_set(config->socket_mode) && (!parse_mode(config->socket_mode, &mode) || mode < 0600)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "socket_mode: \"%s\" is not an octal mode from 0600 to 0777",
                              config->socket_mode);
    }
    if (is_set(config->tls_certificate) != is_set(config->tls_key)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                              "tls_certificate and tls_key need each other");
    }
    if (is_set(config->tls_client_ca) && !is_set(config->tls_certificate)) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "tls_client_ca needs tls_certificate");
    }
    for (size_t i = 0; i < config->tenant_count; i++) {
        const struct hspz_tenant_settings *t = &config->tenants[i];
        for (size_t k = 0; k < t->credential_count; k++) {
            if (t->credentials[k].kind == HSPZ_CREDENTIAL_CERTIFICATE &&
                !is_set(config->tls_client_ca)) {
                return hspz_error_set(err, HSPZ_E_BAD_REQUEST,
                                      "tenants: \"%s\" has a certificate_sha256, which needs "
                                      "tls_client_ca",
                                      t->name);
            }
        }
    }
    return HSPZ_OK;
}

uint64_t
hspz_config_max_hsps(const struct hspz_config *config)
{
    return config->max_hsps != 0 ? config->max_hsps : config->job_memory / 4 / HSPZ_HSP_BYTES;
}
