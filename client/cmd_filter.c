#include "client/cmd_filter.h"

/* filter: the table of its commands. */

#define KEYS_HELP                                                                                  \
    "KEYS (default -, standard input; gzip or not) has a key a line, decimal or\n"                 \
    "0x hexadecimal, 0 to 2^64 - 1; blank lines and # lines are passed over.\n"                    \
    "\n"                                                                                           \
    "  --raw               KEYS are little-endian u64, as are the columns\n"
#define FORMAT_HELP(what)                                                                          \
    "  --format none|tsv|raw  " what "\n"                                                          \
    "  --json              how many, as JSON\n"
#define RAW_BITS "raw: bit i % 8 of byte i / 8"
#define RAW_NUMBERS "raw: little-endian u64"
#define OUTPUT_HELP                                                                                \
    "  --hex               keys in hexadecimal in what is written\n"                               \
    "  -o, --output FILE   appears under its name only when whole\n"
#define JOB_HELP                                                                                   \
    "  --batch N           keys of a request (default 1048576)\n"                                  \
    "  --deadline SECONDS  give up when a request is not done by then\n"                           \
    "  --priority N        0 to 9, larger first among your own jobs (default 4)\n"                 \
    "\n"

static const struct hspz_command commands[] = {
    {"filter create",
     hspz_cmd_filter_create,
     "make a filter, empty",
     "filter create NAME --kind KIND --capacity N [OPTION...]\n"
     "\n"
     "  --kind tcf|gqf|bloom|blocked|sqf|rsqf|counter\n"
     "                    tcf: set or multiset with values and delete; gqf: counts,\n"
     "                    values, delete, merge; bloom, blocked (faster): only\n"
     "                    added to; sqf (with delete), rsqf: sets; counter: exact\n"
     "                    counts, which grows from --capacity on\n"
     "  --capacity N      keys that it must take, and\n"
     "  --rate R          how often an absent key may be found then: 0.001 or 1e-3\n"
     "                    (default: what the usual slots give, of bloom 0.01)\n"
     "  --value-bits N    tcf, gqf: keep with each key a value of up to 48 bits\n"
     "  --seed N          of the hash; only filters of one seed can be merged\n"
     "  --k K             keys are k-mers of K bases, up to 32, for kmers commands\n"
     "  --canonical       with --k: a k-mer and its reverse complement are one\n"
     "  --parts N         2, 4, 8 or 16 parts, which go to the server's GPUs in turn\n"
     "  --shared          other tenants may read it, as TENANT/NAME\n"
     "Instead of capacity and rate:\n"
     "  --slots N         slots; of bloom and blocked bits; not of a counter\n"
     "  --slot-bits N     tcf 8, 12, 16, 32: of a tag; others 8 to 64: of a remainder\n"
     "  --block-slots N   tcf: 16, 32 or 64 slots of a block\n"
     "  --hashes N        bloom, blocked: bits of a key, 1 to 16\n"
     "  --json            what it has come to as JSON\n"
     "\n"
     "Example: hspz-client filter create seen --kind tcf --capacity 1000000\n",
     {"NAME"}},
    {"filter insert",
     hspz_cmd_filter_keys,
     "put keys in",
     "filter insert NAME [KEYS] [OPTION...]\n"
     "\n" KEYS_HELP "  --values            a second column has values, to be kept with the keys\n"
     "  --counts            another column has counts: gqf only\n"
     "  --if-absent         only keys that are not there\n" FORMAT_HELP(
         "tsv: key and 1 or 0; " RAW_BITS) OUTPUT_HELP JOB_HELP
     "When the filter is full it says how many and which keys did not go in.\n"
     "\n"
     "Example: seq 1000 | hspz-client filter insert seen\n",
     {"NAME"}},
    {"filter query",
     hspz_cmd_filter_keys,
     "say which keys are there",
     "filter query NAME [KEYS] [OPTION...]\n"
     "\n"
     "Writes each key with 1 if it is there, else 0. A key that went in is always\n"
     "found; one that did not as often as the filter's rate says.\n"
     "\n" KEYS_HELP
     "  --values            their values, too; raw: u64 values instead of bits\n" FORMAT_HELP(
         "(default tsv: key, 1 or 0) " RAW_BITS) OUTPUT_HELP JOB_HELP
     "Example: hspz-client filter query seen keys.txt > there.tsv\n",
     {"NAME"}},
    {"filter count",
     hspz_cmd_filter_keys,
     "say how often keys are there",
     "filter count NAME [KEYS] [OPTION...]\n"
     "\n"
     "Writes each key with its count, 0 if it is not there: of gqf, and of tcf its\n"
     "copies. A count is never too small.\n"
     "\n" KEYS_HELP FORMAT_HELP("(default tsv: key and count) " RAW_NUMBERS) OUTPUT_HELP JOB_HELP
     "Example: hspz-client filter count kmers words.u64 --raw -o counts.tsv\n",
     {"NAME"}},
    {"filter delete",
     hspz_cmd_filter_keys,
     "take keys away",
     "filter delete NAME [KEYS] [OPTION...]\n"
     "\n"
     "tcf: one copy of each; gqf and sqf: the key. Keys that never went in should not\n"
     "be deleted: as often as the filter's rate says another key goes.\n"
     "\n" KEYS_HELP FORMAT_HELP("tsv: key and 1 or 0; " RAW_BITS) OUTPUT_HELP JOB_HELP
     "Example: hspz-client filter delete seen old.txt\n",
     {"NAME"}},
    {"filter decrement",
     hspz_cmd_filter_keys,
     "lower the counts of keys",
     "filter decrement NAME [KEYS] [OPTION...]\n"
     "\n"
     "By 1, or by what a second column says; at 0 a key is gone. gqf only.\n"
     "\n" KEYS_HELP "  --counts            a second column has counts\n" FORMAT_HELP(
         "tsv: key and 1 or 0; " RAW_BITS) OUTPUT_HELP JOB_HELP
     "Example: hspz-client filter decrement kmers words.txt\n",
     {"NAME"}},
    {"filter enumerate",
     hspz_cmd_filter_enumerate,
     "write all entries",
     "filter enumerate NAME [OPTION...]\n"
     "\n"
     "Writes fingerprint (the bits of the key's hash that are kept), value and count\n"
     "of each entry: not of bloom and blocked.\n"
     "\n"
     "  --format tsv|raw    tsv (default), or raw (three little-endian u64 each)\n"
     "  --hex               fingerprints in hexadecimal\n"
     "  -o, --output FILE   where to write; appears under its name only when whole\n"
     "  --deadline SECONDS  give up when the server has not finished by then\n"
     "\n"
     "Example: hspz-client filter enumerate kmers -o kmers.tsv\n",
     {"NAME"}},
    {"filter merge",
     hspz_cmd_filter_named,
     "put into one filter what another has",
     "filter merge NAME FROM\n"
     "\n"
     "Puts into NAME what FROM has, counts added up. Both are of one kind, seed and\n"
     "length of fingerprints; not of tcf. FROM stays as it is.\n"
     "\n"
     "Example: hspz-client filter merge all lane1\n",
     {"NAME", "FROM"}},
    {"filter save",
     hspz_cmd_filter_named,
     "write a filter to the server's disk",
     "filter save NAME\n"
     "\n"
     "Under its name, in the server's folder for filters.\n"
     "\n"
     "Example: hspz-client filter save seen\n",
     {"NAME"}},
    {"filter load",
     hspz_cmd_filter_named,
     "take up a filter that was saved",
     "filter load NAME [--shared]\n"
     "\n"
     "  --shared   other tenants may read it, as TENANT/NAME\n"
     "\n"
     "Example: hspz-client filter load seen\n",
     {"NAME"}},
    {"filter drop",
     hspz_cmd_filter_named,
     "remove a filter",
     "filter drop NAME [--saved]\n"
     "\n"
     "  --saved   what was saved under its name goes, too\n"
     "\n"
     "Example: hspz-client filter drop seen\n",
     {"NAME"}},
    {"filter list",
     hspz_cmd_filter_named,
     "list filters",
     "filter list [--json]\n"
     "\n"
     "One line per filter that you may see: name, kind, whether it is shared, bytes\n"
     "in memory.\n"
     "\n"
     "Example: hspz-client filter list\n",
     {NULL}},
    {"filter stats",
     hspz_cmd_filter_named,
     "say what a filter is and how full",
     "filter stats NAME [--json]\n"
     "\n"
     "Example: hspz-client filter stats seen\n",
     {"NAME"}},
};

int
hspz_cmd_filter(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    return hspz_cli_run_group(cli, command, commands, sizeof(commands) / sizeof(commands[0]), argc,
                              argv);
}
