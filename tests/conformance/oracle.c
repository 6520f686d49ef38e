#include "tests/conformance/oracle.h"

#include "engine/sequence_file.h"
#include "tests/support/test.h"

#define KEGALIGN_MAX_HITS 586366720u

const struct oracle_set oracle_sets[ORACLE_SETS] = {
    {"mini8", "1110100110101", false, 1, KEGALIGN_MAX_HITS, 3000, true, 36969, 488, "mini_t.fa",
     "mini_q.fa"},
    {"mini8t", "1110100110101", true, 1, 30000, 3000, true, 56795, 561, "mini_t.fa", "mini_q.fa"},
    {"mini12", "12of19", true, 1, 2000, 1500, true, 32633, 1351, "mini_t.fa", "mini_q.fa"},
    {"mini12step3", "12of19", true, 3, KEGALIGN_MAX_HITS, 1500, true, 10813, 588, "mini_t.fa",
     "mini_q.fa"},
    {"mini14", "14of22", true, 1, KEGALIGN_MAX_HITS, 1500, false, 28618, 590, "mini_t.fa",
     "mini_q.fa"},
    {"apple", "12of19", true, 1, KEGALIGN_MAX_HITS, 3000, true, 411940, 1226, "apple.fasta.gz",
     "orange.fasta.gz"},
    {"applecap", "12of19", true, 1, 20000, 3000, true, 411940, 1235, "apple.fasta.gz",
     "orange.fasta.gz"},
    {"ecoli", "12of19", true, 1, KEGALIGN_MAX_HITS, 3000, true, 53743970, 26954,
     "ragout/examples/E.Coli/references/MG1655-K12.fasta.gz",
     "bowtie/examples/genomes/NC_008253.fna.gz"},
};
const struct oracle_set oracle_mini8cap = {
    "mini8cap", "1110100110101", false, 1, 1000, 3000, true, 36969, 0, "mini_t.fa", "mini_q.fa"};

/* Sanitizers slow the larger sets down to many minutes, and see nothing in them that they do not
 * see in the others. */
#if defined(__SANITIZE_THREAD__)
#define HITS_LIMIT 100000u
#define SHAPE_LEFT_OUT "14of22" /* its table of 1 GiB alone takes a minute */
#elif defined(__SANITIZE_ADDRESS__)
#define HITS_LIMIT 1000000u
#else
#define HITS_LIMIT UINT64_MAX
#endif
#if !defined(SHAPE_LEFT_OUT)
#define SHAPE_LEFT_OUT ""
#endif

/* NULL when it is absent. */
static char *
input_path(const char *shared, const char *name)
{
    if (strchr(name, '/') != NULL) {
        return test_genome(name);
    }
    char *path = NULL;
    assert_true(asprintf(&path, "%s/data/%s", shared, name) > 0);
    return path;
}

static struct hspz_sequences *
read_sequences(const char *path)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_error err = {0};
    if (hspz_sequence_file_read(path, 0, NULL, NULL, &seqs, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    return seqs;
}

void
oracle_open(struct oracle *o, const struct oracle_set *set)
{
    const char *shared = test_shared_dir();
    if (shared == NULL || set->hits > HITS_LIMIT || strcmp(set->shape, SHAPE_LEFT_OUT) == 0) {
        skip();
    }
    *o = (struct oracle){.set = set};
    o->target_path = input_path(shared, set->target);
    o->query_path = input_path(shared, set->query);
    if (o->target_path == NULL || o->query_path == NULL) {
        free(o->target_path);
        free(o->query_path);
        skip();
    }
    assert_true(asprintf(&o->dir, "%s/oracle/%s", shared, set->name) > 0);
    char *sums = test_path(o->dir, "SHA256SUMS");
    size_t len;
    o->sums = (char *)test_read_file(sums, &len);
    free(sums);
    struct hspz_index_params params = {.step = set->step};
    struct hspz_error err = {0};
    assert_int_equal(hspz_shape_parse(set->shape, strlen(set->shape), &params.shape, NULL),
                     HSPZ_OK);
    struct hspz_sequences *target = read_sequences(o->target_path);
    if (hspz_index_build(&target, &params, 2, 0, NULL, NULL, &o->index, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    o->query = read_sequences(o->query_path);
    const struct hspz_block block = hspz_sequences_block(o->query, 0);
    o->bases = (struct hspz_span){block.bases, block.len};
}

void
oracle_close(struct oracle *o)
{
    hspz_sequences_destroy(&o->query);
    hspz_index_release(&o->index);
    free(o->target_path);
    free(o->query_path);
    free(o->sums);
    free(o->dir);
}

struct hspz_job_spec
oracle_spec(const struct oracle *o)
{
    return (struct hspz_job_spec){.bases = o->bases,
                                  .strands = HSPZ_STRANDS_BOTH,
                                  .transitions = o->set->transitions,
                                  .end = UINT64_MAX,
                                  .max_hits = o->set->max_hits,
                                  .hit_limit = UINT64_MAX,
                                  .keep_words = HSPZ_KEEP_ALL,
                                  .max_word_count = UINT64_MAX};
}
