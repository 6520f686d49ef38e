#include "daemon/tls_choice.h"

#include <sys/stat.h>

static const char *
given(const char *text)
{
    return text != NULL && *text != '\0' ? text : NULL;
}

static bool
has_tokens(const struct hspz_config *config)
{
    for (size_t i = 0; i < config->tenant_count; i++) {
        const struct hspz_tenant_settings *t = &config->tenants[i];
        for (size_t k = 0; k < t->credential_count; k++) {
            if (t->credentials[k].kind == HSPZ_CREDENTIAL_TOKEN) {
                return true;
            }
        }
    }
    return false;
}

enum hspz_status
hspz_tls_configure(const struct hspz_config *config, struct hspz_log *log,
                   struct hspz_tls_context **out, struct hspz_error *err)
{
    uint8_t digest[HSPZ_SHA256_BYTES];
    const struct hspz_tls_files files = {.certificate = given(config->tls_certificate),
                                         .key = given(config->tls_key),
                                         .client_ca = given(config->tls_client_ca)};
    if (has_tokens(config) && hspz_sha256("", 0, digest) == HSPZ_E_UNSUPPORTED) {
        return hspz_error_set(err, HSPZ_E_UNSUPPORTED,
                              "token_sha256: hspzd was built without TLS, which has SHA-256");
    }
    *out = NULL;
    if (files.certificate == NULL) {
        return HSPZ_OK;
    }
    const enum hspz_status status = hspz_tls_context_create(&files, out, err);
    struct stat st;
    if (status == HSPZ_OK && log != NULL && stat(files.key, &st) == 0 &&
        (st.st_mode & S_IRWXO) != 0) {
        HSPZ_LOG(log, HSPZ_LOG_WARNING, "everybody on this machine may use the key",
                 hspz_kv("file", files.key));
    }
    if (status == HSPZ_OK && log != NULL) {
        const bool valid = hspz_tls_context_valid_now(*out);
        HSPZ_LOG(log, valid ? HSPZ_LOG_INFO : HSPZ_LOG_WARNING,
                 valid ? "certificate loaded" : "the certificate is not valid now",
                 hspz_kv("file", files.certificate),
                 hspz_kv("expires", hspz_tls_context_expires(*out)));
    }
    return status;
}
