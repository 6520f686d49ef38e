#include "engine/engine.h"

#include <string.h>

static const struct hspz_engine_ops *const engines[] = {
    &hspz_cpu_engine,
#ifdef HSPZ_HAVE_CUDA
    &hspz_cuda_engine,
#endif
};

const struct hspz_engine_ops *
hspz_engine_find(const char *name)
{
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            return engines[i];
        }
    }
    return NULL;
}
