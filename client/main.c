#include "client/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A signal wakes whatever waits through a pipe. One that comes later ends the program; those of the
 * same stop do not: a terminal, `timeout` and job managers signal a process and its group. */
static struct {
    int write_end;
    volatile sig_atomic_t signals;
    struct timespec first;
} stop;

#define SAME_STOP_MS 1000

#define KEGALIGN_HELP                                                                              \
    "Writes for the QUERY's HSPs in TARGET the files that KegAlign writes, into this folder, "     \
    "and\n"                                                                                        \
    "prints the LASTZ commands that make alignments of them. TARGET is a sequence file, whose\n"   \
    "index is built once, kept and loaded, or the name of an index of the server. The commands\n"  \
    "name ref.2bit and query.2bit in DATA_FOLDER, or without it the files given (a FASTA copy\n"   \
    "where LASTZ cannot read them).\n"                                                             \
    "\n"                                                                                           \
    "KegAlign's options, with _ or -:\n"                                                           \
    "  --strand both|plus|minus   --seed 12of19|14of22|PATTERN   --step N   --notransition\n"      \
    "  --xdrop N   --hspthresh N   --noentropy   --ambiguous n|iupac[,REWARD,PENALTY]\n"           \
    "  --scoring FILE   --target_prefix TEXT   --query_prefix TEXT   --lastz_interval_size N\n"    \
    "  --seq_block_size N   --num_gpu N   --num_threads N   --debug (as -v)   --segment_size N\n"  \
    "  for LASTZ: --nogapped (no commands)   --ydrop N   --gappedthresh N   --inner N\n"           \
    "  --notrivial   --format FORMAT\n"                                                            \
    "  --wga_chunk_size 250000, --output and --markend are taken and change nothing.\n"            \
    "And:\n"                                                                                       \
    "  --out-dir DIR          write there instead\n"                                               \
    "  --tar FILE             one tar.gz instead, with the commands in it\n"                       \
    "  --compat none          a result that depends on no cap (default kegalign-0.1: "             \
    "KegAlign's)\n"                                                                                \
    "  --max-hits N           cap on the hits of a chunk (default 268435456), or kegalign:GIB "    \
    "for\n"                                                                                        \
    "                         what KegAlign makes of a card of so many GiB\n"                      \
    "  --query-block-size N   for the query another than --seq_block_size\n"                       \
    "  --balanced             query blocks of about the same size\n"                               \
    "  --plan                 only say which jobs and files it would be\n"                         \
    "  --private              start an hspzd for this run alone, and stop it after\n"              \
    "  --unload               have the server drop TARGET's index at the end, if this run had "    \
    "it\n"                                                                                         \
    "                         loaded; not where other runs use it at the same time\n"              \
    "  --cache DIR            where indexes are kept (default ~/.cache/hspz)\n"                    \
    "\n"

static const struct hspz_command commands[] = {
    {"index build",
     hspz_cmd_index_build,
     "build an index file from sequences (no server needed)",
     "index build REF -o FILE [OPTION...]\n"
     "\n"
     "Builds the seed index of REF (FASTA, FASTQ or 2bit, gzip or not; - is standard input).\n"
     "\n"
     "  -o, --output FILE   index file to write (replaced only when the new one is whole)\n"
     "  --seed SHAPE        12of19 (default), 14of22, or a pattern of 1 and 0\n"
     "  --step N            index every Nth position (default 1)\n"
     "  --unmask            lower case counts as upper (it is left out otherwise)\n"
     "  --all-positions     index from position 0, as LASTZ does (KegAlign skips the first)\n"
     "  --threads N         threads (default: all processors)\n"
     "  --block-size N      bases after which a block is closed (default 500000000)\n"
     "  --memory MIB        refuse to take more memory than this\n"
     "\n"
     "Example: hspz-client index build hg38.fa.gz -o hg38.hspz --seed 14of22\n",
     {"REF"}},
    {"index load",
     hspz_cmd_index_load,
     "have the server load an index file",
     "index load NAME FILE\n"
     "\n"
     "Loads FILE and serves it as NAME. FILE is a name under the server's index directory;\n"
     "an absolute path is for operators.\n"
     "\n"
     "Example: hspz-client index load hg38 hg38.hspz\n",
     {"NAME", "FILE"}},
    {"index list",
     hspz_cmd_index_list,
     "list the server's indexes",
     "index list\n"
     "\n"
     "One line per index: name, state, bytes in memory, file.\n"
     "\n"
     "Example: hspz-client index list\n",
     {NULL}},
    {"index describe",
     hspz_cmd_index_describe,
     "describe an index and its sequences",
     "index describe NAME [--sequences]\n"
     "\n"
     "  --sequences   also the sequences, one line each: name, bases, block, offset in the block\n"
     "\n"
     "Example: hspz-client index describe hg38\n",
     {"NAME"}},
    {"index unload",
     hspz_cmd_index_unload,
     "have the server drop an index",
     "index unload NAME\n"
     "\n"
     "Jobs that run on it finish first; new ones are refused from now on.\n"
     "\n"
     "Example: hspz-client index unload hg38\n",
     {"NAME"}},
    {"discover",
     hspz_cmd_discover,
     "find the anchors of a query",
     "discover NAME QUERY [OPTION...]\n"
     "       hspz-client discover NAME --seeds FILE [OPTION...]\n"
     "\n"
     "Prints every seed hit of QUERY (FASTA, FASTQ or 2bit, gzip or not; - is standard input) in\n"
     "index NAME: ref, ref_start, ref_end, query, query_start, query_end, strand; 0-based,\n"
     "half-open, on plus strands. Exit status 0 means that all of them came.\n"
     "\n"
     "  -o, --output FILE      where to write; appears under its name only when whole\n"
     "  --format FORMAT        tsv (default), jsonl, or packed (little-endian u64: reference end "
     "in\n"
     "                         the low half, query end in the high half)\n"
     "  --strand STRAND        both (default), plus or minus\n"
     "  --no-transitions       exact words only\n"
     "  --unmask               seed lower case too\n"
     "  --max-hits N           cap on the hits of a chunk (default 268435456), or kegalign:GIB\n"
     "  --hit-limit N          give up when there are more hits than this\n"
     "  --max-word-count N     leave out words that are more frequent in the index than this\n"
     "  --deadline SECONDS     give up when the server has not finished by then\n"
     "  --priority N           0 to 9, larger first among your own jobs (default 4)\n"
     "  --chunk-walk WALK      blocks (default) or full (or HSPZ_CHUNK_WALK); the result is the\n"
     "                         same\n"
     "  --encoding FORM        how anchors travel: packed (default), or columnar, fewer bytes "
     "where\n"
     "                         windows have several hits; the result is the same\n"
     "  --transport HOW        auto (default): through memory shared with a server on this "
     "machine, "
     "if\n"
     "                         it has some left; stream: through the connection; shm: shared "
     "memory or\n"
     "                         nothing. The result is the same\n"
     "  --no-digest            do not have the digest of the anchors computed and checked\n"
     "  --seeds FILE           little-endian u64 seeds (word << 32 | position) instead of QUERY\n"
     "  --hit-stats            print how many hits seeds have, as a table (or JSON, with --format\n"
     "                         jsonl); anchors only where -o says\n"
     "\n"
     "Example: hspz-client discover hg38 mouse.2bit --strand plus -o hits.tsv\n",
     {"NAME"}},
    {"hsps",
     hspz_cmd_hsps,
     "find the HSPs of a query: ungapped alignments that score",
     "hsps NAME QUERY [OPTION...]\n"
     "\n"
     "Extends every seed hit of QUERY (FASTA, FASTQ or 2bit, gzip or not; - is standard input) in\n"
     "index NAME without gaps, and prints those that score enough: ref, ref_start, ref_end, "
     "query,\n"
     "query_start, query_end, strand, score; 0-based, half-open, on plus strands. Exit status 0\n"
     "means that all of them came.\n"
     "\n"
     "  -o, --output FILE      where to write; appears under its name only when whole\n"
     "  --format FORMAT        tsv (default), segments (LASTZ's --segments, query by query), paf,\n"
     "                         jsonl, or packed (little-endian u32: ref start, query start, "
     "length,\n"
     "                         i32 score; block coordinates)\n"
     "  --target FILE          for paf: the index's sequences, to count which bases match\n"
     "                         (otherwise all are given as matching)\n"
     "  --out-dir DIR          KegAlign's files there: "
     "tmp<n>.block<q>.r<r>.{plus,minus}.segments,\n"
     "                         ref_block<n>.name, query_block<n>.name; those of an earlier run go\n"
     "  --tar FILE             the same in one tar.gz, which is the same every time\n"
     "  --pairs DIR            one REF=QUERY.segments.gz for each pair of sequences there\n"
     "  --strand STRAND        both (default), plus or minus\n"
     "  --xdrop N              how far a score may drop before an extension ends (default 910)\n"
     "  --hspthresh N          least score (default 3000)\n"
     "  --noentropy            do not adjust low scores by entropy\n"
     "  --ambiguous HOW        n or iupac, with ,REWARD,PENALTY: how N and IUPAC codes score\n"
     "  --scoring FILE         scores in LASTZ's format (default HOXD70)\n"
     "  --no-transitions       exact words only\n"
     "  --unmask               seed lower case too\n"
     "  --compat kegalign-0.1  KegAlign's result at the same cap, chunk by chunk; by default the\n"
     "                         result depends on no cap\n"
     "  --interval N           query positions in a file (default 10000000)\n"
     "  --query-block-size N   bases after which a query block is closed (default 500000000)\n"
     "  --balanced             query blocks of about the same size\n"
     "  --plan                 only say which jobs and files it would be\n"
     "  --max-hits N           cap on the hits of a chunk (default 268435456), or kegalign:GIB\n"
     "  --hit-limit N, --hsp-limit N\n"
     "                         give up when there are more hits, or HSPs, than this\n"
     "  --max-word-count N     leave out words that are more frequent in the index than this\n"
     "  --deadline SECONDS     give up when the server has not finished by then\n"
     "  --priority N           0 to 9, larger first among your own jobs (default 4)\n"
     "  --no-digest            do not have the digest of the HSPs computed and checked\n"
     "\n"
     "Example: hspz-client hsps hg38 mouse.2bit --out-dir segments --noentropy\n",
     {"NAME", "QUERY"}},
    {"kegalign",
     hspz_cmd_kegalign,
     "as KegAlign: segments, and the LASTZ commands for them",
     "kegalign TARGET QUERY [DATA_FOLDER] [OPTION...]\n"
     "\n" KEGALIGN_HELP
     "Example: hspz-client kegalign --private ref.fa query.fa work/ > lastz-commands.txt\n",
     {"TARGET", "QUERY"}},
    {"hspz-run",
     hspz_cmd_kegalign,
     "the same under hspZ's name",
     "hspz-run TARGET QUERY [DATA_FOLDER] [OPTION...]\n"
     "\n" KEGALIGN_HELP
     "Example: hspz-client hspz-run hg38 query.fa work/ --hspthresh 2200 --tar segments.tar.gz\n",
     {"TARGET", "QUERY"}},
    {"align",
     hspz_cmd_align,
     "align with LASTZ, from HSPs made before or found by the server",
     "align TARGET QUERY SEGMENTS... [OPTION...] [-- LASTZ OPTION...]\n"
     "       hspz-client align TARGET QUERY --index NAME [OPTION...] [-- LASTZ OPTION...]\n"
     "\n"
     "Extends HSPs to gapped alignments: runs LASTZ over SEGMENTS (segment files as LASTZ reads\n"
     "and KegAlign writes them, gzip or not, or folders of *.segments), several processes at a\n"
     "time, and writes one file. TARGET and QUERY are FASTA, FASTQ or 2bit, gzip or not.\n"
     "Segments far from each other go to different processes; the result is that of one LASTZ\n"
     "over all of them, whatever the number of processes. When it ends early, the same command\n"
     "goes on from where it was.\n"
     "\n"
     "  -o, --output FILE    where to write (default: standard output); appears when whole\n"
     "  --format FORMAT      maf (default), axt or paf\n"
     "  --processes N        LASTZ processes at a time (default: all processors)\n"
     "  --ydrop N            give up an extension this far below its best (default 9430)\n"
     "  --gappedthresh N     least score of an alignment (default 3000)\n"
     "  --inner N            also look between alignments, for HSPs of this score\n"
     "  --scoring FILE       LASTZ score file\n"
     "  --ambiguous KIND     n or iupac, as LASTZ takes it\n"
     "  --notrivial          leave out the alignment of a sequence with itself\n"
     "  --lastz PATH         the program (default: lastz of PATH)\n"
     "  --work FOLDER        where unfinished work is kept (default: FILE.pieces)\n"
     "  --reach N            segments nearer than N bases in both sequences stay together\n"
     "                       (default 10000, with --inner 50000)\n"
     "  --whole              one LASTZ for each strand\n"
     "  --piece-cost N       work of a piece: bases of its segments, and 2000 for each\n"
     "                       (default 1000000, more for long sequences)\n"
     "With --index NAME HSPs are found first, as hsps does with\n"
     "  --strand STRAND, --xdrop N, --hspthresh N, --noentropy, --no-transitions, --unmask,\n"
     "  --scoring and --ambiguous\n"
     "NAME must be the server's index of TARGET: names and bases are compared, masked or not.\n"
     "\n"
     "Example: hspz-client align hg38.2bit mm39.2bit segments/ -o hg38-mm39.maf\n",
     {"TARGET", "QUERY"}},
    {"compare",
     hspz_cmd_compare,
     "say how two sets of HSPs differ",
     "compare A B [OPTION...]\n"
     "\n"
     "Compares two sets of HSPs, each a segment file (LASTZ's and KegAlign's format, gzip or not)\n"
     "or a folder of *.segments and *.segments.gz, and counts how many are equal, have another\n"
     "score, are shifted, lie inside one of the other set, or stand in one set only. The order\n"
     "does not matter. Exit status 0 when all are equal, 1 when not, 2 when it cannot be told.\n"
     "\n"
     "  --tolerance N   shifted: starts and ends differ by at most N bases (default 10)\n"
     "  --list          also each that is not equal: class, set, the HSP and its counterpart\n"
     "\n"
     "Example: hspz-client compare kegalign/ hspz/ --list\n",
     {"A", "B"}},
    {"partition",
     hspz_cmd_partition,
     "cut LASTZ commands and their segment files for more processes",
     "partition COMMANDS [OPTION...]\n"
     "\n"
     "Reads LASTZ commands, a line each, as kegalign and KegAlign print them (- is standard\n"
     "input), cuts the segment files they name that have many segments, and prints the commands\n"
     "for all parts. x.segments becomes x.split1.segments and so on, and is removed at the end.\n"
     "Segments that are near each other stay in one part, so that a part's alignments are those\n"
     "of the whole; one that reaches farther than --reach beyond its segments may come twice,\n"
     "which align looks for and mends.\n"
     "\n"
     "  --segments N   segments of a part, about (default 5000)\n"
     "  --reach N      segments nearer than N bases in both sequences stay together\n"
     "                 (default 10000)\n"
     "  --keep         keep the files that were cut\n"
     "\n"
     "Example: hspz-client partition lastz-commands.txt | parallel\n",
     {"COMMANDS"}},
    {"plot",
     hspz_cmd_plot,
     "draw a dot plot, or how many hits seeds have",
     "plot MATCHES -o FILE [OPTION...]\n"
     "       hspz-client plot NAME QUERY -o FILE [--hits] [OPTION...]\n"
     "\n"
     "Draws MATCHES (TSV of discover or hsps, segments or a folder of them, PAF; gzip or not), or\n"
     "the HSPs that the server finds of QUERY in index NAME; plus strand blue, minus orange.\n"
     "\n"
     "  -o, --output FILE      PNG, or SVG where it ends in .svg or --format png|svg says so\n"
     "  --hits                 hits per seed and cumulative hit share instead\n"
     "  --anchors              anchors instead of HSPs\n"
     "  --ref-range NAME[:BEGIN-END], --query-range NAME[:BEGIN-END]\n"
     "                         show only this (0-based, half-open)\n"
     "  --ref FILE, --query FILE\n"
     "                         with MATCHES: sequence files for names, order and lengths\n"
     "  --width N, --height N  pixels (default 1200, and what the lengths want)\n"
     "  --title TEXT           instead of the names of the files\n"
     "  --strand plus|minus|both, --no-transitions, --unmask, --hspthresh N,\n"
     "  --max-word-count N     as of discover and hsps\n"
     "\n"
     "Example: hspz-client plot ecoli query.fa -o query.png\n",
     {"MATCHES, or NAME and QUERY,"}},
    {"filter",
     hspz_cmd_filter,
     "keep sets and counts of keys on the server",
     "filter COMMAND ...\n"
     "\n"
     "Approximate filters: sets and counts of 64-bit numbers that the server keeps in little\n"
     "memory.\n"
     "\n",
     {NULL}},
    {"stats",
     hspz_cmd_stats,
     "show the server's counters",
     "stats [--json]\n"
     "\n"
     "Counters since the server's start: connections, requests, jobs, anchors, memory, indexes;\n"
     "one \"name: value\" a line, or JSON.\n"
     "\n"
     "Example: hspz-client stats --json\n",
     {NULL}},
    {"top",
     hspz_cmd_top,
     "show who uses the server",
     "top [--every SECONDS] [--once]\n"
     "\n"
     "Tenants, indexes and devices: jobs running and waiting, jobs, hits and bytes a second, "
     "lanes\n"
     "kept busy, and the time within which half and 99 % of the jobs ended. Refreshed every 2\n"
     "seconds in a terminal; otherwise, or with --once, printed once, as rates since the start.\n"
     "\n"
     "Example: hspz-client top\n",
     {NULL}},
    {"health",
     hspz_cmd_health,
     "ask how the server is; exit status 0 when it is ready",
     "health [--json]\n"
     "\n"
     "Whether the server is ready, still loading (and how far) or draining. Exit status 0 when it\n"
     "is ready, 1 when it is not or no server answers.\n"
     "\n"
     "Example: hspz-client --wait 60 health\n",
     {NULL}},
    {"drain",
     hspz_cmd_drain,
     "have the server finish its jobs and end",
     "drain [--no-wait]\n"
     "\n"
     "For operators: the server takes no more connections and jobs, finishes those it has, and\n"
     "ends. Says how far it is, until it is done; exit status 1 when that cannot be told. With\n"
     "--no-wait only begins it, or says how far it is.\n"
     "\n"
     "Example: hspz-client drain\n",
     {NULL}},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const char common_help[] =
    "Options of every command:\n"
    "  --server ADDRESS    unix:PATH, tcp:HOST:PORT or tls:HOST:PORT (default: HSPZ_SERVER, then\n"
    "                      $XDG_RUNTIME_DIR/hspz.sock, then /run/hspz/hspz.sock)\n"
    "  --wait SECONDS      wait for a server that is not up, still loading or full; -1 for ever\n"
    "  --timeout SECONDS   give up on a server that is silent for so long\n"
    "                      (default 30, for discover and index load 300)\n"
    "  --token-file FILE   token, where the server asks for one (or HSPZ_TOKEN)\n"
    "  --ca FILE           tls: whose certificates to trust (default: the system's)\n"
    "  --server-name NAME  tls: what the server's certificate must name (default: HOST)\n"
    "  --certificate FILE, --key FILE\n"
    "                      tls: what to show the server\n"
    "  -q, --quiet         no progress       -v, --verbose   server, digests and times\n"
    "  -h, --help          of a command      --version\n";

static int
print_help(FILE *to)
{
    fprintf(to, "Usage: hspz-client [OPTION...] COMMAND ...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(to, "  %-15s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(to, "\n%s\nExample: hspz-client discover hg38 query.fa > hits.tsv\n", common_help);
    return hspz_cli_finish_stdout();
}

static void
on_signal(int number)
{
    const int error = errno;
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (stop.signals == 0) {
        stop.signals = 1;
        stop.first = now;
        const ssize_t n = write(stop.write_end, "x", 1);
        (void)n;
    } else if ((now.tv_sec - stop.first.tv_sec) * 1000 +
                   (now.tv_nsec - stop.first.tv_nsec) / 1000000 >=
               SAME_STOP_MS) {
        /* Comes when this handler returns, and is not caught. */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    errno = error;
}

/* *read_end becomes readable when the program is to end. */
static bool
catch_signals(int *read_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    *read_end = ends[0];
    stop.write_end = ends[1];
    /* Without SA_RESTART, so that a blocked write ends too. */
    struct sigaction action = {.sa_handler = on_signal};
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        (void)sigaddset(&action.sa_mask, numbers[i]); /* one at a time */
    }
    for (size_t i = 0; i < 3; i++) {
        struct sigaction was;
        /* What nohup or a background shell ignores stays ignored. */
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) {
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
    /* Who started us may ignore the ends of programs: we ask how ours ended. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR) {
        return false;
    }
    /* A reader that went away and a file that may not grow are errors of write. */
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR && signal(SIGXFSZ, SIG_IGN) != SIG_ERR;
}

/* Descriptors 0 to 2 are taken, so that no file of ours becomes standard output. */
static bool
hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

/* Words before the command: options of every command. Returns the place of the command's name. */
static int
options_before(const struct hspz_option *common, int argc, char **argv, struct hspz_error *err)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
        const struct hspz_option none = {.kind = HSPZ_OPTION_END};
        size_t count = 0;
        bool with_value = strchr(argv[at], '=') == NULL;
        for (const struct hspz_option *o = common; o->kind != HSPZ_OPTION_END; o++) {
            if (o->kind == HSPZ_OPTION_FLAG &&
                (strcmp(o->name, argv[at]) == 0 ||
                 (o->letter != NULL && strcmp(o->letter, argv[at]) == 0))) {
                with_value = false;
            }
        }
        const int words = with_value && at + 1 < argc ? 2 : 1;
        if (hspz_options_parse(&none, common, words + 1, argv + at - 1, NULL, 0, &count, err) !=
            HSPZ_OK) {
            return 0;
        }
        at += words;
    }
    return at;
}

static const struct hspz_command *
find_command(int argc, char **argv, int *words)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const char *name = commands[i].name;
        const char *space = strchr(name, ' ');
        const size_t first = space != NULL ? (size_t)(space - name) : strlen(name);
        if (strlen(argv[0]) != first || memcmp(argv[0], name, first) != 0) {
            continue;
        }
        *words = space != NULL ? 2 : 1;
        if (space == NULL || (argc > 1 && strcmp(argv[1], space + 1) == 0)) {
            return &commands[i];
        }
    }
    return NULL;
}

static int
usage(const char *what, const char *value)
{
    fprintf(stderr, "hspz-client: %s%s\nTry: hspz-client --help\n", what, value);
    return HSPZ_EXIT_USAGE;
}

static int
run(struct hspz_cli *cli, int argc, char **argv)
{
    struct hspz_error err = {0};
    const int at = options_before(cli->common, argc, argv, &err);
    if (at == 0) {
        return usage(err.text, "");
    }
    if (cli->version) {
        hspz_cli_print_version();
        return hspz_cli_finish_stdout();
    }
    if (cli->help || (at < argc && strcmp(argv[at], "help") == 0)) {
        return print_help(stdout);
    }
    if (at == argc) {
        return usage("a command is missing", "");
    }
    int words = 1;
    const struct hspz_command *command = find_command(argc - at, argv + at, &words);
    if (command == NULL && strcmp(argv[at], "index") == 0) {
        const char *next = at + 1 < argc ? argv[at + 1] : "";
        if (strcmp(next, "--help") == 0 || strcmp(next, "-h") == 0) {
            return print_help(stdout);
        }
        return usage("index needs one of build, load, list, describe, unload", "");
    }
    if (command == NULL) {
        return usage("unknown command ", argv[at]);
    }
    return command->run(cli, command, argc - at - words + 1, argv + at + words - 1);
}

int
main(int argc, char **argv)
{
    bool said_waiting = false;
    struct hspz_cli cli = {.said_waiting = &said_waiting};
    const struct hspz_option common[] = {
        {.kind = HSPZ_OPTION_TEXT, .name = "--server", .target = &cli.server},
        {.kind = HSPZ_OPTION_FOREVER, .name = "--wait", .target = &cli.wait_ms},
        {.kind = HSPZ_OPTION_SECONDS, .name = "--timeout", .target = &cli.timeout_ms},
        {.kind = HSPZ_OPTION_TEXT, .name = "--token-file", .target = &cli.token_file},
        {.kind = HSPZ_OPTION_TEXT, .name = "--ca", .target = &cli.ca},
        {.kind = HSPZ_OPTION_TEXT, .name = "--server-name", .target = &cli.server_name},
        {.kind = HSPZ_OPTION_TEXT, .name = "--certificate", .target = &cli.certificate},
        {.kind = HSPZ_OPTION_TEXT, .name = "--key", .target = &cli.key},
        {.kind = HSPZ_OPTION_FLAG, .name = "--quiet", .letter = "-q", .target = &cli.quiet},
        {.kind = HSPZ_OPTION_FLAG, .name = "--verbose", .letter = "-v", .target = &cli.verbose},
        {.kind = HSPZ_OPTION_FLAG, .name = "--help", .letter = "-h", .target = &cli.help},
        {.kind = HSPZ_OPTION_FLAG, .name = "--version", .target = &cli.version},
        {.kind = HSPZ_OPTION_END},
    };
    cli.common = common;
    if (!hold_standard_descriptors() || !catch_signals(&cli.stop_fd)) {
        return HSPZ_EXIT_FAILED;
    }
    return run(&cli, argc, argv);
}
