#include "client/plot_run.h"

int
hspz_plot_run(const struct hspz_plot_run *run)
{
    struct hspz_error err = {0};
    hspz_error_set(&err, HSPZ_E_UNSUPPORTED,
                   "this hspz-client was built without cairo: it draws nothing");
    return hspz_cli_fail(run->cli, &err);
}
