#include "client/cmd_kmers.h"

/* kmers: the table of its commands. */

#define FILES_HELP                                                                                 \
    "FASTA or FASTQ, gzip or not; - is standard input. Lower case counts as upper\n"               \
    "case; windows with another byte than ACGT are passed over.\n"                                 \
    "\n"
#define OUTPUT_HELP "  -o, --output FILE   where to write; appears under its name only when whole\n"
#define BATCH_HELP                                                                                 \
    "  --batch N           bases of a request (default 4194304)\n"                                 \
    "  --deadline SECONDS  give up when a request is not done by then\n"                           \
    "  --priority N        0 to 9, larger first among your own jobs (default 4)\n"                 \
    "\n"
#define DEADLINE_HELP                                                                              \
    "  --deadline SECONDS  give up when the server has not finished by then\n"                     \
    "\n"

static const struct hspz_command commands[] = {
    {"kmers count",
     hspz_cmd_kmers_count,
     "count the k-mers of files in a filter",
     "kmers count NAME FILE... --k K [OPTION...]\n"
     "\n"
     "Makes filter NAME and counts into it the k-mers of the files; kmers query,\n"
     "screen, dump and histogram ask it, filter drop removes it.\n"
     "\n" FILES_HELP "  -k, --k K           bases of a k-mer, 1 to 32\n"
     "  --stranded          a k-mer and its reverse complement are two, not one\n"
     "  --kind KIND         counter (default): exact; gqf: counts in less memory,\n"
     "                      never too low; or another kind that filter create has:\n"
     "                      it knows only what is there\n"
     "  --capacity N        different k-mers; a counter needs none, it grows\n"
     "  --rate R            not of a counter: how often an absent one may be found\n"
     "  --seed N            of the hash\n"
     "  --shared            other tenants may read it, as TENANT/NAME\n"
     "  --add               into a filter that is there, with its k and strands\n"
     "  --json              what it has come to as JSON\n" BATCH_HELP
     "Example: hspz-client kmers count reads a_1.fq.gz a_2.fq.gz --k 31\n",
     {"NAME", "FILE"}},
    {"kmers histogram",
     hspz_cmd_kmers_list,
     "write how many k-mers have each count",
     "kmers histogram NAME [OPTION...]\n"
     "\n"
     "Of a counter or a gqf; counts that no k-mer has are left out.\n"
     "\n" OUTPUT_HELP DEADLINE_HELP "Example: hspz-client kmers histogram reads\n",
     {"NAME"}},
    {"kmers query",
     hspz_cmd_kmers_ask,
     "write the counts of a file's k-mers",
     "kmers query NAME FILE [OPTION...]\n"
     "\n"
     "A line for each k-mer of the sequences: sequence, place (from 0), k-mer as it\n"
     "stands there, count.\n"
     "\n" FILES_HELP OUTPUT_HELP BATCH_HELP "Example: hspz-client kmers query reads gene.fa\n",
     {"NAME", "FILE"}},
    {"kmers dump",
     hspz_cmd_kmers_list,
     "write all k-mers with their counts",
     "kmers dump NAME [OPTION...]\n"
     "\n"
     "Of a counter, in order of the k-mers, which takes 32 bytes of memory each.\n"
     "\n"
     "  --format FORMAT     tsv (default), or raw: two little-endian u64, the k-mer\n"
     "                      (2 bits a base, the last lowest) and its count\n"
     "  --least N           no k-mers of smaller counts\n" OUTPUT_HELP DEADLINE_HELP
     "Example: hspz-client kmers dump reads --least 2 -o repeated.tsv\n",
     {"NAME"}},
    {"kmers screen",
     hspz_cmd_kmers_ask,
     "say how much of each read is in a filter",
     "kmers screen NAME READS [OPTION...]\n"
     "\n"
     "A line for each sequence: its name, its k-mers, how many of them are in the\n"
     "filter, and that as a fraction.\n"
     "\n" FILES_HELP
     "  --least N           only k-mers of at least that count (counter, gqf, tcf)\n" OUTPUT_HELP
         BATCH_HELP "Example: hspz-client kmers screen host reads.fq.gz -o screened.tsv\n",
     {"NAME", "READS"}},
};

int
hspz_cmd_kmers(struct hspz_cli *cli, const struct hspz_command *command, int argc, char **argv)
{
    return hspz_cli_run_group(cli, command, commands, sizeof(commands) / sizeof(commands[0]), argc,
                              argv);
}
