/* A score file, whatever its bytes: it is refused with its name and leaves the scores alone, or
 * gives scores that may be used. */
#include "engine/score.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_scoring scoring;
    struct hspz_scoring before;
    struct hspz_error err = {0};
    FILE *file = size == 0 ? NULL : fmemopen((void *)(uintptr_t)data, size, "r");
    if (file == NULL) {
        return 0;
    }
    memset(&scoring, 0, sizeof(scoring));
    hspz_scoring_init(&scoring);
    memcpy(&before, &scoring, sizeof(before));
    const enum hspz_status status = hspz_scoring_read(&scoring, file, "fuzz", &err);
    if (status == HSPZ_OK) {
        HSPZ_REQUIRE(hspz_scoring_check(&scoring, NULL) == HSPZ_OK);
    } else {
        HSPZ_REQUIRE(status == HSPZ_E_BAD_REQUEST && strncmp(err.text, "fuzz: ", 6) == 0);
        HSPZ_REQUIRE(memcmp(&before, &scoring, sizeof(before)) == 0);
    }
    fclose(file);
    return 0;
}
