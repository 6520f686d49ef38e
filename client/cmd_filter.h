/* hspz-client filter: its commands, from the table in cmd_filter.c. */
#pragma once

#include "client/cli.h"

int hspz_cmd_filter_create(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                           char **argv);
/* merge, save, load, drop, list, stats */
int hspz_cmd_filter_named(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                          char **argv);
/* insert, query, count, delete, decrement */
int hspz_cmd_filter_keys(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                         char **argv);
int hspz_cmd_filter_enumerate(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                              char **argv);
