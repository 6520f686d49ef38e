/* A made-up pair of genomes, so that large ones need no download.
 *
 *   simulate [--bases N] [--sequences K] [--repeats PERCENT] [--divergence PERCENT] [--seed S]
 *            REFERENCE QUERY
 *
 * The reference has N bases in K sequences, and PERCENT of them in interspersed repeats like a
 * mammal's, in lower case: short and long families (long ones mostly cut at their beginning) whose
 * copies lie 5 to 25 % from their family's sequence, on both strands, and microsatellites; N in
 * stretches between. The query is a copy of it, sequence by sequence, with substitutions (twice as
 * many transitions), short and long indels, and inversions; case is kept. Both are FASTA. The same
 * arguments give the same bytes on every machine. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 80u
#define SHORT_FAMILIES 14u
#define MIDDLE_FAMILIES 60u
#define LONG_FAMILIES 40u
#define FAMILIES (SHORT_FAMILIES + MIDDLE_FAMILIES + LONG_FAMILIES)
#define PER_CENT 655u /* of 65536 */

struct random {
    uint64_t state;
};

static uint64_t
draw(struct random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t
draw_between(struct random *random, uint64_t low, uint64_t high)
{
    return low + draw(random) % (high - low + 1);
}

/* Once in `rate` of 65536. */
static bool
draw_chance(struct random *random, uint32_t rate)
{
    return (draw(random) & 0xffff) < rate;
}

/* 41 % of bases are C or G. */
static uint8_t
draw_code(struct random *random)
{
    const unsigned r = draw(random) & 0xff;
    return r < 76 ? 0 : r < 128 ? 1 : r < 180 ? 2 : 3;
}

/* A, C, G, T are 0 to 3. */
static uint8_t
substitute(struct random *random, uint8_t code)
{
    const unsigned kind = (unsigned)(draw(random) % 6);
    return code ^ (kind < 4 ? 2 : kind == 4 ? 1 : 3);
}

/* ---- the reference ---- */

struct family {
    uint8_t *codes;
    uint32_t len;
    uint32_t divergence; /* of 65536 */
    bool cut;            /* copies miss their beginning, most of them most of it */
};

struct genome {
    struct random random;
    struct family families[FAMILIES];
    uint8_t *bases; /* of the sequence being made */
    uint64_t len, room;
    uint64_t all, masked; /* of all sequences */
    uint32_t repeats;     /* per cent */
};

static void *
must_have(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "simulate: no memory\n");
        exit(1);
    }
    return memory;
}

static void
make_families(struct genome *genome)
{
    for (unsigned f = 0; f < FAMILIES; f++) {
        struct family *family = &genome->families[f];
        if (f < SHORT_FAMILIES) {
            family->len = (uint32_t)draw_between(&genome->random, 120, 320);
        } else if (f < SHORT_FAMILIES + MIDDLE_FAMILIES) {
            family->len = (uint32_t)draw_between(&genome->random, 200, 2500);
        } else {
            family->len = (uint32_t)draw_between(&genome->random, 3000, 7000);
            family->cut = true;
        }
        family->divergence = (uint32_t)draw_between(&genome->random, 5, 25) * PER_CENT;
        family->codes = must_have(malloc(family->len));
        for (uint32_t i = 0; i < family->len; i++) {
            family->codes[i] = draw_code(&genome->random);
        }
    }
}

static void
add_code(struct genome *genome, uint8_t code, bool masked)
{
    if (genome->len < genome->room) {
        genome->bases[genome->len++] = (uint8_t)(masked ? "acgt" : "ACGT")[code];
        genome->masked += masked;
    }
}

/* Half of all copies are of short families. */
static const struct family *
draw_family(struct genome *genome)
{
    struct random *random = &genome->random;
    const unsigned kind = draw(random) & 7;
    if (kind < 4) {
        return &genome->families[draw(random) % SHORT_FAMILIES];
    }
    if (kind < 6) {
        return &genome->families[SHORT_FAMILIES + draw(random) % MIDDLE_FAMILIES];
    }
    return &genome->families[SHORT_FAMILIES + MIDDLE_FAMILIES + draw(random) % LONG_FAMILIES];
}

static void
add_copy(struct genome *genome)
{
    struct random *random = &genome->random;
    const struct family *family = draw_family(genome);
    const uint32_t most = family->cut ? family->len >> draw(random) % 5 : family->len;
    const uint32_t begin = family->len - (uint32_t)draw_between(random, most / 2, most);
    const bool minus = draw(random) & 1;
    for (uint32_t i = begin; i < family->len; i++) {
        uint8_t code = family->codes[minus ? family->len - 1 - (i - begin) : i];
        code ^= minus ? 3 : 0;
        if (draw_chance(random, family->divergence)) {
            code = substitute(random, code);
        } else if (draw_chance(random, family->divergence / 16)) {
            if (draw(random) & 1) {
                continue;
            }
            add_code(genome, draw_code(random), true);
        }
        add_code(genome, code, true);
    }
}

static void
add_microsatellite(struct genome *genome)
{
    struct random *random = &genome->random;
    uint8_t unit[6];
    const unsigned unit_len = 1 + (unsigned)(draw(random) % sizeof(unit));
    for (unsigned i = 0; i < unit_len; i++) {
        unit[i] = draw_code(random);
    }
    const uint64_t len = draw_between(random, 20, 120);
    for (uint64_t i = 0; i < len; i++) {
        const uint8_t code = unit[i % unit_len];
        add_code(genome, draw_chance(random, 3 * PER_CENT) ? substitute(random, code) : code, true);
    }
}

static void
add_unique(struct genome *genome)
{
    const uint64_t len = draw_between(&genome->random, 50, 1500);
    for (uint64_t i = 0; i < len; i++) {
        add_code(genome, draw_code(&genome->random), false);
    }
}

static void
add_gap(struct genome *genome)
{
    for (uint64_t left = draw_between(&genome->random, 50, 20000);
         left > 0 && genome->len < genome->room; left--) {
        genome->bases[genome->len++] = 'N';
    }
}

static void
make_sequence(struct genome *genome, uint64_t len)
{
    genome->len = 0;
    genome->room = len;
    while (genome->len < len) {
        const uint64_t all = genome->all + genome->len;
        if (genome->masked * 100 >= all * genome->repeats) {
            add_unique(genome);
        } else if (draw_chance(&genome->random, 5 * PER_CENT)) {
            add_microsatellite(genome);
        } else {
            add_copy(genome);
        }
        if (draw_chance(&genome->random, 16)) {
            add_gap(genome);
        }
    }
    genome->all += len;
}

/* ---- output ---- */

struct fasta {
    const char *path;
    FILE *file;
    unsigned column;
    uint64_t bases;
};

static void
fail_io(const char *path)
{
    fprintf(stderr, "simulate: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void
fasta_open(struct fasta *fasta, const char *path)
{
    *fasta = (struct fasta){.path = path, .file = fopen(path, "wb")};
    if (fasta->file == NULL) {
        fail_io(path);
    }
    (void)setvbuf(fasta->file, NULL, _IOFBF, 1 << 20);
}

static void
fasta_base(struct fasta *fasta, uint8_t base)
{
    (void)putc_unlocked(base, fasta->file);
    fasta->bases++;
    if (++fasta->column == LINE) {
        (void)putc_unlocked('\n', fasta->file);
        fasta->column = 0;
    }
}

static void
fasta_end_line(struct fasta *fasta)
{
    if (fasta->column > 0) {
        (void)putc_unlocked('\n', fasta->file);
        fasta->column = 0;
    }
}

static void
fasta_close(struct fasta *fasta)
{
    if (ferror(fasta->file) || fclose(fasta->file) != 0) {
        fail_io(fasta->path);
    }
}

/* ---- the query ---- */

static uint8_t
code_of(uint8_t base)
{
    return (base >> 1 ^ base >> 2) & 3;
}

static uint8_t
with_code(uint8_t base, uint8_t code)
{
    return (uint8_t)(base >= 'a' ? "acgt" : "ACGT")[code];
}

static void
copy_base(struct random *random, uint8_t base, bool minus, uint32_t divergence, struct fasta *query)
{
    if ((base & 0xdf) != 'N') {
        uint8_t code = code_of(base) ^ (minus ? 3 : 0);
        if (draw_chance(random, divergence)) {
            code = substitute(random, code);
        }
        base = with_code(base, code);
    }
    fasta_base(query, base);
}

/* Stretches of 20 to 400 thousand bases; one in ten, then ten times shorter, is turned round. */
static void
copy_sequence(struct random *random, const uint8_t *bases, uint64_t len, uint32_t divergence,
              struct fasta *query)
{
    for (uint64_t at = 0; at < len;) {
        const bool minus = draw(random) % 10 == 0;
        uint64_t stretch = draw_between(random, 20000, 400000) / (minus ? 10 : 1);
        stretch = stretch < len - at ? stretch : len - at;
        for (uint64_t i = 0; i < stretch; i++) {
            if (draw_chance(random, divergence / 10)) {
                uint64_t gap = 1 + (uint64_t)__builtin_ctzll(draw(random) | UINT64_C(1) << 20);
                gap = draw(random) % 200 == 0 ? draw_between(random, 30, 3000) : gap;
                if (draw(random) & 1) {
                    i += gap - 1;
                    continue;
                }
                for (; gap > 0; gap--) {
                    fasta_base(query, (uint8_t) "ACGT"[draw_code(random)]);
                }
            }
            copy_base(random, bases[minus ? at + stretch - 1 - i : at + i], minus, divergence,
                      query);
        }
        at += stretch;
    }
}

/* ---- arguments ---- */

struct options {
    uint64_t bases, sequences, repeats, divergence, seed;
    const char *reference, *query;
};

static bool
parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){
        .bases = 100000000, .sequences = 8, .repeats = 45, .divergence = 12, .seed = 1};
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"--bases", &options->bases},
                 {"--sequences", &options->sequences},
                 {"--repeats", &options->repeats},
                 {"--divergence", &options->divergence},
                 {"--seed", &options->seed}};
    int arg = 1;
    for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2) {
        uint64_t *value = NULL;
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
            value = strcmp(argv[arg], known[k].name) == 0 ? known[k].value : value;
        }
        char *end = argv[arg + 1];
        if (value == NULL || *end < '0' || *end > '9') {
            return false;
        }
        *value = strtoull(argv[arg + 1], &end, 10);
        if (*end != '\0') {
            return false;
        }
    }
    if (arg + 2 != argc) {
        return false;
    }
    options->reference = argv[arg];
    options->query = argv[arg + 1];
    return options->bases > 0 && options->sequences > 0 && options->sequences <= options->bases &&
           options->repeats <= 90 && options->divergence <= 50;
}

int
main(int argc, char **argv)
{
    struct options options;
    if (!parse(argc, argv, &options)) {
        fprintf(stderr, "simulate [--bases N] [--sequences K] [--repeats PERCENT, up to 90]\n"
                        "         [--divergence PERCENT, up to 50] [--seed S] REFERENCE QUERY\n");
        return 2;
    }
    struct genome genome = {.random = {options.seed}, .repeats = (uint32_t)options.repeats};
    struct random mutations = {~options.seed};
    struct fasta reference, query;
    const uint64_t most = options.bases / options.sequences + 1;
    genome.bases = must_have(malloc(most));
    fasta_open(&reference, options.reference);
    fasta_open(&query, options.query);
    make_families(&genome);
    for (uint64_t s = 0; s < options.sequences; s++) {
        const uint64_t len =
            options.bases / options.sequences + (s < options.bases % options.sequences);
        make_sequence(&genome, len);
        fprintf(reference.file, ">ref%" PRIu64 "\n", s + 1);
        for (uint64_t i = 0; i < len; i++) {
            fasta_base(&reference, genome.bases[i]);
        }
        fasta_end_line(&reference);
        fprintf(query.file, ">query%" PRIu64 "\n", s + 1);
        copy_sequence(&mutations, genome.bases, len, (uint32_t)options.divergence * PER_CENT,
                      &query);
        fasta_end_line(&query);
    }
    fasta_close(&reference);
    fasta_close(&query);
    fprintf(stderr, "reference %" PRIu64 " bases, %.1f %% masked; query %" PRIu64 " bases\n",
            genome.all, 100.0 * (double)genome.masked / (double)genome.all, query.bases);
    for (unsigned f = 0; f < FAMILIES; f++) {
        free(genome.families[f].codes);
    }
    free(genome.bases);
    return 0;
}
