#include "client/scoring_options.h"

#include "engine/score.h"

#include <errno.h>
#include <stdio.h>

static enum hspz_status
read_file(const char *path, struct hspz_scoring *scoring, struct hspz_error *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return hspz_error_errno(err, HSPZ_E_IO, errno, "%s: cannot read the scores", path);
    }
    const enum hspz_status status = hspz_scoring_read(scoring, file, path, err);
    fclose(file);
    return status;
}

enum hspz_status
hspz_scoring_options_apply(const struct hspz_scoring_options *options,
                           struct hspz_discover_request *request, struct hspz_error *err)
{
    struct hspz_scoring scoring;
    enum hspz_status status = HSPZ_OK;
    hspz_scoring_init(&scoring);
    scoring.xdrop = (int32_t)options->xdrop;
    scoring.threshold = (int32_t)options->threshold;
    scoring.entropy = options->entropy;
    scoring.limit = options->limit;
    scoring.scope = options->compat ? HSPZ_SCOPE_CHUNK : HSPZ_SCOPE_JOB;
    if (options->file != NULL) {
        status = read_file(options->file, &scoring, err);
    }
    if (status == HSPZ_OK && options->ambiguous != NULL) {
        status = hspz_scoring_ambiguous(&scoring, options->ambiguous, err);
    }
    if (status == HSPZ_OK) {
        status = hspz_scoring_check(&scoring, err);
    }
    if (status == HSPZ_OK) {
        request->records = HSPZ_RECORDS_HSPS;
        request->scoring = scoring;
        request->own_scores = options->file != NULL || options->ambiguous != NULL;
    }
    return status;
}
