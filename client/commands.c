#include "client/cli.h"

/* The commands. A help fits a screen of 80 by 24; values that may be chosen stand in it as a|b|c,
 * as completion reads them. Whatever stands here stands in hspz-client.1, too. */

#define KEGALIGN_HELP                                                                              \
    "\n"                                                                                           \
    "Writes for the QUERY's HSPs in TARGET (a sequence file, or an index's name) the\n"            \
    "files that KegAlign writes, and prints LASTZ's commands for them. KegAlign's\n"               \
    "options, with _ or -, and below them those it has not:\n"                                     \
    "  --strand both|plus|minus   --seed 12of19|14of22|PATTERN   --step N\n"                       \
    "  --notransition   --xdrop N   --hspthresh N   --noentropy   --scoring FILE\n"                \
    "  --ambiguous HOW   --target_prefix TEXT   --query_prefix TEXT   --debug\n"                   \
    "  --lastz_interval_size N   --seq_block_size N   --segment_size N\n"                          \
    "  --num_gpu N   --num_threads N   --nogapped   --ydrop N   --gappedthresh N\n"                \
    "  --inner N   --notrivial   --format FORMAT\n"                                                \
    "  (--wga_chunk_size N, --output TEXT and --markend change nothing)\n"                         \
    "\n"                                                                                           \
    "  --out-dir DIR         write there instead\n"                                                \
    "  --tar FILE            one tar.gz instead, with the commands in it\n"                        \
    "  --compat kegalign-0.1|none   none: a result that depends on no cap\n"                       \
    "  --max-hits N          cap on the hits of a chunk, or kegalign:GIB\n"                        \
    "  --query-block-size N  --balanced   --plan  only say what it would be\n"                     \
    "  --private             start an hspzd for this run alone\n"                                  \
    "  --unload              drop TARGET's index at the end, if loaded for this run\n"             \
    "  --cache DIR           where indexes are kept (default ~/.cache/hspz)\n"                     \
    "\n"

const struct hspz_command hspz_commands[] = {
    {"index build",
     hspz_cmd_index_build,
     "build an index file from sequences (no server needed)",
     "index build REF -o FILE [OPTION...]\n"
     "\n"
     "Builds the seed index of REF (FASTA, FASTQ or 2bit, gzip or not; - is standard\n"
     "input).\n"
     "\n"
     "  -o, --output FILE   index file (replaced only when the new one is whole)\n"
     "  --seed SHAPE        12of19 (default), 14of22, or a pattern of 1 and 0\n"
     "  --step N            index every Nth position (default 1)\n"
     "  --unmask            lower case counts as upper (it is left out otherwise)\n"
     "  --all-positions     from position 0, as LASTZ does (KegAlign skips the first)\n"
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
     "Loads FILE and serves it as NAME. FILE is a name under the server's index\n"
     "directory; an absolute path is for operators.\n"
     "\n"
     "Example: hspz-client index load hg38 hg38.hspz\n",
     {"NAME", "FILE"}},
    {"index list",
     hspz_cmd_index_list,
     "list the server's indexes",
     "index list [--json]\n"
     "\n"
     "One line per index: name, state, bytes in memory, file; or all of them as JSON.\n"
     "\n"
     "Example: hspz-client index list\n",
     {NULL}},
    {"index describe",
     hspz_cmd_index_describe,
     "describe an index and its sequences",
     "index describe NAME [--sequences] [--json]\n"
     "\n"
     "  --sequences   also the sequences, a line each: name, bases, block, offset in\n"
     "                the block\n"
     "  --json        as JSON\n"
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
     "Prints every seed hit of QUERY in index NAME: ref, ref_start, ref_end, query,\n"
     "query_start, query_end, strand; 0-based, half-open, on plus strands.\n"
     "\n"
     "  -o, --output FILE  appears under its name only when whole\n"
     "  --format tsv|jsonl|packed|columns  packed: u64, query end high; or as u32\n"
     "  --strand both|plus|minus   --unmask  seed lower case, too\n"
     "  --transitions N    0 to 2 in a word (default 1)   --no-transitions  none\n"
     "  --hit-stats        a table of the hits of seeds; anchors only where -o says\n"
     "  --max-hits N       cap on the hits of a chunk (268435456), or kegalign:GIB\n"
     "  --hit-limit N      give up when there are more hits than this\n"
     "  --max-word-count N leave out words more frequent in the index than this; N%:\n"
     "                     keep the rarest, which hold so many of its positions\n"
     "  --mask-filter FILTER[:N]   and windows whose k-mer it has more than N times\n"
     "  --masking N        give no more hits on bases that N lie on, as LASTZ does\n"
     "  --deadline SECONDS  --priority N   0 to 9, larger first of your own jobs (4)\n"
     "  --seeds FILE       little-endian u64 seeds (word << 32 | position)\n"
     "None of these changes the result:\n"
     "  --chunk-walk blocks|full   --encoding packed|columnar   --no-digest\n"
     "  --transport auto|stream|shm\n"
     "\n"
     "Example: hspz-client discover hg38 mouse.2bit --strand plus -o hits.tsv\n",
     {"NAME"}},
    {"hsps",
     hspz_cmd_hsps,
     "find the HSPs of a query: ungapped alignments that score",
     "hsps NAME QUERY [OPTION...]\n"
     "\n"
     "Extends the seed hits of QUERY in index NAME without gaps, and prints those that\n"
     "score enough: columns as of discover, and score.\n"
     "\n"
     "  -o, --output FILE   appears under its name only when whole\n"
     "  --format tsv|segments|paf|jsonl|packed   (--target FILE  bases to count paf's)\n"
     "  --out-dir DIR       KegAlign's files there       --tar FILE  in a tar.gz\n"
     "  --pairs DIR         one REF=QUERY.segments.gz for each pair of sequences\n"
     "  --strand both|plus|minus   --transitions N  0 to 2   --no-transitions\n"
     "  --unmask            seed lower case, too\n"
     "  --xdrop N           how far a score may drop (default 910)\n"
     "  --hspthresh N       least score (default 3000)   --noentropy\n"
     "  --ambiguous HOW     n or iupac, with ,REWARD,PENALTY\n"
     "  --scoring FILE      scores in LASTZ's format (default HOXD70)\n"
     "  --compat none|kegalign-0.1   KegAlign's result at the same cap\n"
     "  --interval N        query positions in a file (default 10000000)\n"
     "  --query-block-size N         --balanced  blocks of about the same size\n"
     "  --plan              only say which jobs and files it would be\n"
     "  --max-hits N        cap on the hits of a chunk, or kegalign:GIB\n"
     "  --hit-limit N, --hsp-limit N, --max-word-count N   against repeats\n"
     "  --mask-filter FILTER[:N]   --deadline SECONDS   --priority N   --no-digest\n"
     "\n"
     "Example: hspz-client hsps hg38 mouse.2bit --out-dir segments --noentropy\n",
     {"NAME", "QUERY"}},
    {"kegalign",
     hspz_cmd_kegalign,
     "as KegAlign: segments, and the LASTZ commands for them",
     "kegalign TARGET QUERY [DATA_FOLDER] [OPTION...]\n" KEGALIGN_HELP
     "Example: hspz-client kegalign --private ref.fa query.fa work/ > commands.txt\n",
     {"TARGET", "QUERY"}},
    {"hspz-run",
     hspz_cmd_kegalign,
     "the same under hspZ's name",
     "hspz-run TARGET QUERY [DATA_FOLDER] [OPTION...]\n" KEGALIGN_HELP
     "Example: hspz-client hspz-run hg38 query.fa work/ --tar segments.tar.gz\n",
     {"TARGET", "QUERY"}},
    {"align",
     hspz_cmd_align,
     "align with LASTZ, from HSPs made before or found by the server",
     "align TARGET QUERY SEGMENTS... [OPTION...] [-- LASTZ OPTIONS]\n"
     "       hspz-client align TARGET QUERY --index NAME [OPTION...]\n"
     "\n"
     "Extends HSPs to gapped alignments: runs LASTZ over SEGMENTS (files or folders of\n"
     "them), several processes at a time; goes on from where it was when it ended.\n"
     "\n"
     "  -o, --output FILE   appears under its name only when whole\n"
     "  --format maf|axt|paf\n"
     "  --processes N       at a time (default: all processors)\n"
     "  --ydrop N           give up this far below the best (default 9430)\n"
     "  --gappedthresh N    least score (default 3000)\n"
     "  --inner N           also look between alignments, for HSPs of this score\n"
     "  --scoring FILE, --ambiguous HOW, --notrivial   handed on to LASTZ\n"
     "  --lastz PATH        the program (default: lastz of PATH)\n"
     "  --work FOLDER       where unfinished work is kept (default: FILE.pieces)\n"
     "  --reach N           segments nearer than N bases stay together\n"
     "  --piece-cost N      work of a piece       --whole  one LASTZ for each strand\n"
     "With --index NAME, the server's index of TARGET, as of hsps:\n"
     "  --strand both|plus|minus   --xdrop N   --hspthresh N   --noentropy\n"
     "  --transitions N    --no-transitions   --unmask\n"
     "\n"
     "Example: hspz-client align hg38.2bit mm39.2bit segments/ -o hg38-mm39.maf\n",
     {"TARGET", "QUERY"}},
    {"mask",
     hspz_cmd_mask,
     "mask a genome's repeats: what aligns with other places of it",
     "mask GENOME [OPTION...]\n"
     "\n"
     "Masks the bases of GENOME that M or more of its HSPs with itself lie on, as\n"
     "SegAlign's repeat masker does, and writes BED: name, begin, end. An HSP counts\n"
     "once on each base of its query side; those of a base with itself do not.\n"
     "\n"
     "  -o, --output FILE   BED (default: standard output)\n"
     "  --fasta FILE        GENOME as well, masked bases in lower case\n"
     "  --M N               HSPs that mask a base (default 1)\n"
     "  --neighbor_proportion P   of all intervals, those around each that it is\n"
     "                      aligned with: ceil(P n) of n (default 0.2)\n"
     "  --interval N        bases of an interval (default 10000000)\n"
     "  --kmers N           mask the k-mers that come N times or more instead; exact,\n"
     "                      and without a server   --k K  bases, 1 to 32 (default 21)\n"
     "  --markend           end with the line # segalign_repeat_masker end-of-file\n"
     "  --index NAME        the server's index of GENOME; else one is built, kept and\n"
     "                      served for this run alone, with\n"
     "  --seed SHAPE   --step N   --cache DIR   --threads N\n"
     "As of hsps: --strand STRAND   --xdrop N   --hspthresh N   --noentropy\n"
     "  --ambiguous HOW   --scoring FILE   --transitions N   --notransition\n"
     "\n"
     "Example: hspz-client mask genome.fa --M 10 -o repeats.bed --fasta masked.fa\n",
     {"GENOME"}},
    {"compare",
     hspz_cmd_compare,
     "say how two sets of HSPs differ",
     "compare A B [OPTION...]\n"
     "\n"
     "Compares two sets of HSPs, each a segment file (LASTZ's and KegAlign's format,\n"
     "gzip or not) or a folder of them, and counts how many are equal, have another\n"
     "score, are shifted, lie inside one of the other set, or stand in one set only.\n"
     "The order does not matter. Exit status 0 when all are equal, 1 when not, 2 when\n"
     "it cannot be told.\n"
     "\n"
     "  --tolerance N  shifted: starts and ends differ by at most N bases (default 10)\n"
     "  --list         also each that is not equal: class, set, and its counterpart\n"
     "\n"
     "Example: hspz-client compare kegalign/ hspz/ --list\n",
     {"A", "B"}},
    {"partition",
     hspz_cmd_partition,
     "cut LASTZ commands and their segment files for more processes",
     "partition COMMANDS [OPTION...]\n"
     "\n"
     "Reads LASTZ commands, a line each, as kegalign and KegAlign print them (- is\n"
     "standard input), cuts the segment files they name that have many segments, and\n"
     "prints the commands for all parts. x.segments becomes x.split1.segments and so\n"
     "on, and is removed at the end. Segments that are near each other stay in one\n"
     "part, so that a part's alignments are those of the whole; one that reaches\n"
     "farther than --reach beyond its segments may come twice, which align looks for\n"
     "and mends.\n"
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
     "Draws MATCHES (TSV of discover or hsps, segments or a folder of them, PAF), or\n"
     "the HSPs that the server finds of QUERY in index NAME; plus blue, minus orange.\n"
     "\n"
     "  -o, --output FILE    PNG, or SVG where it ends in .svg\n"
     "  --format png|svg     whatever the name\n"
     "  --hits               hits per seed and cumulative share of hits instead\n"
     "  --anchors            anchors instead of HSPs\n"
     "  --ref-range NAME[:BEGIN-END], --query-range NAME[:BEGIN-END]\n"
     "                       show only this (0-based, half-open)\n"
     "  --ref FILE, --query FILE\n"
     "                       with MATCHES: sequence files for names, order, lengths\n"
     "  --width N, --height N   pixels (default 1200, and what the lengths want)\n"
     "  --title TEXT         instead of the names of the files\n"
     "  --strand both|plus|minus   --transitions N   --no-transitions   --unmask\n"
     "  --hspthresh N   --max-word-count N   as of discover and hsps\n"
     "\n"
     "Example: hspz-client plot ecoli query.fa -o query.png\n",
     {"MATCHES, or NAME and QUERY,"}},
    {"filter",
     hspz_cmd_filter,
     "keep sets and counts of keys on the server",
     "filter COMMAND ...\n"
     "\n"
     "Approximate filters: sets and counts of 64-bit numbers that the server keeps in\n"
     "little memory.\n"
     "\n",
     {NULL}},
    {"kmers",
     hspz_cmd_kmers,
     "count k-mers on the server, and ask for them",
     "kmers COMMAND ...\n"
     "\n"
     "K-mers of FASTA and FASTQ files, counted exactly or in little memory in a\n"
     "filter that the server keeps.\n"
     "\n",
     {NULL}},
    {"stats",
     hspz_cmd_stats,
     "show the server's counters",
     "stats [--json]\n"
     "\n"
     "Counters since the server's start: connections, requests, jobs, anchors, memory,\n"
     "indexes; one \"name: value\" a line, or with --json as JSON.\n"
     "\n"
     "Example: hspz-client stats --json\n",
     {NULL}},
    {"top",
     hspz_cmd_top,
     "show who uses the server",
     "top [--every SECONDS] [--once]\n"
     "\n"
     "Tenants, indexes and devices: jobs running and waiting, jobs, hits and bytes a\n"
     "second, lanes kept busy, and the time within which half and 99 % of the jobs\n"
     "ended. Refreshed every 2 seconds in a terminal; otherwise, or with --once,\n"
     "printed once, as rates since the start.\n"
     "\n"
     "Example: hspz-client top\n",
     {NULL}},
    {"health",
     hspz_cmd_health,
     "ask how the server is; exit status 0 when it is ready",
     "health [--json]\n"
     "\n"
     "Whether the server is ready, still loading (and how far) or draining. Exit\n"
     "status 0 when it is ready, 1 when it is not or no server answers.\n"
     "\n"
     "Example: hspz-client --wait 60 health\n",
     {NULL}},
    {"drain",
     hspz_cmd_drain,
     "have the server finish its jobs and end",
     "drain [--no-wait]\n"
     "\n"
     "For operators: the server takes no more connections and jobs, finishes those it\n"
     "has, and ends. Says how far it is, until it is done; exit status 1 when that\n"
     "cannot be told. With --no-wait only begins it, or says how far it is.\n"
     "\n"
     "Example: hspz-client drain\n",
     {NULL}},
};

const size_t hspz_command_count = sizeof(hspz_commands) / sizeof(hspz_commands[0]);
