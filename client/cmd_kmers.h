/* hspz-client kmers: its commands, from the table in cmd_kmers.c. */
#pragma once

#include "client/cli.h"

int hspz_cmd_kmers_count(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                         char **argv);
/* query, screen */
int hspz_cmd_kmers_ask(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                       char **argv);
/* dump, histogram */
int hspz_cmd_kmers_list(struct hspz_cli *cli, const struct hspz_command *command, int argc,
                        char **argv);
