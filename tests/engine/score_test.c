#include "engine/score.h"

#include "engine/alphabet.h"
#include "tests/support/test.h"

/* KegAlign's matrix by default (its debug output), but for the separator: A C G T, lower case, N,
 * other. */
static const int32_t kegalign[7][7] = {
    {91, -114, -31, -123, -1000, -1000, -100},
    {-114, 100, -125, -31, -1000, -1000, -100},
    {-31, -125, 100, -114, -1000, -1000, -100},
    {-123, -31, -114, 91, -1000, -1000, -100},
    {-1000, -1000, -1000, -1000, -1000, -1000, -1000},
    {-1000, -1000, -1000, -1000, -1000, -1000, -1000},
    {-100, -100, -100, -100, -1000, -1000, -100},
};

static void
assert_scores(const struct hspz_scoring *scoring, const int32_t want[7][7])
{
    for (int a = 0; a < 7; a++) {
        for (int b = 0; b < 7; b++) {
            if (scoring->scores[a * HSPZ_CLASSES + b] != want[a][b]) {
                fail_msg("class %d with %d scores %d, not %d", a, b,
                         scoring->scores[a * HSPZ_CLASSES + b], want[a][b]);
            }
        }
    }
}

static enum hspz_status
read_text(struct hspz_scoring *scoring, const char *text, size_t len, struct hspz_error *err)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    rewind(file);
    const enum hspz_status status = hspz_scoring_read(scoring, file, "a.scores", err);
    fclose(file);
    return status;
}

static void
test_classes_are_kegaligns(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const char *upper = c == 0 ? NULL : strchr("ACGT", (int)c);
        const char *lower = c == 0 ? NULL : strchr("acgt", (int)c);
        const unsigned other = c == 'N' || c == 'n'  ? HSPZ_CLASS_N
                               : c == HSPZ_SEPARATOR ? HSPZ_CLASS_SEPARATOR
                                                     : HSPZ_CLASS_OTHER;
        const unsigned masked = upper != NULL   ? hspz_base_codes(false)[c]
                                : lower != NULL ? HSPZ_CLASS_LOWER
                                                : other;
        const unsigned unmasked = upper != NULL || lower != NULL ? hspz_base_codes(true)[c] : other;
        assert_int_equal(hspz_base_classes(false, false)[c], masked);
        assert_int_equal(hspz_base_classes(true, false)[c], unmasked);
    }
}

static void
test_complement_classes_are_those_of_the_complement(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t byte = (uint8_t)c;
        uint8_t complement;
        hspz_reverse_complement(&complement, &byte, 1);
        for (int unmask = 0; unmask < 2; unmask++) {
            assert_int_equal(hspz_base_classes(unmask, true)[c],
                             hspz_base_classes(unmask, false)[complement]);
        }
    }
}

static void
test_default_is_kegaligns(void **state)
{
    (void)state;
    struct hspz_scoring scoring;
    hspz_scoring_init(&scoring);
    assert_scores(&scoring, kegalign);
    assert_int_equal(scoring.scores[HSPZ_CLASS_SEPARATOR], -9100);
    assert_int_equal(scoring.xdrop, 910);
    assert_int_equal(scoring.threshold, 3000);
    assert_true(scoring.entropy);
    assert_int_equal(scoring.scope, HSPZ_SCOPE_JOB);
    assert_true(scoring.limit == UINT64_MAX);
    assert_int_equal(hspz_scoring_check(&scoring, NULL), HSPZ_OK);
}

/* What KegAlign's build of its matrix gives for these options. */
static void
test_ambiguous_is_lastzs_option(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        bool iupac;
        int32_t reward, penalty;
    } cases[] = {
        {"n", false, 0, 0},        {"iupac", true, 0, 0},
        {"n,2,5", false, 2, -5},   {"iupac,7,9", true, 7, -9},
        {"n,30", false, 0, -30},   {"iupac,30", true, 0, -30},
        {"n,-2,-5", false, -2, 5}, {"n,0,1000000", false, 0, -1000000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hspz_scoring scoring;
        hspz_scoring_init(&scoring);
        assert_int_equal(hspz_scoring_ambiguous(&scoring, cases[i].option, NULL), HSPZ_OK);
        int32_t want[7][7];
        memcpy(want, kegalign, sizeof(want));
        for (int a = 0; a < 7; a++) {
            for (int n = HSPZ_CLASS_N; n <= (cases[i].iupac ? 6 : 5); n++) {
                if (a < n) {
                    want[a][n] = want[n][a] = cases[i].penalty;
                }
                want[n][n] = cases[i].reward;
            }
        }
        assert_scores(&scoring, want);
    }
}

static void
test_ambiguous_refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *option, *says;
    } cases[] = {
        {"", "ambiguous ''"},
        {"x", "ambiguous 'x'"},
        {"N", "ambiguous 'N'"},
        {"n,1,2,3", "ambiguous 'n,1,2,3'"},
        {"iupacs", "n or iupac"},
        {"n,", "penalty ''"},
        {"n,,", "reward ''"},
        {"n,x,1", "reward 'x'"},
        {"n,1,x", "penalty 'x'"},
        {"n,1.5", "penalty '1.5'"},
        {"n,1000001", "penalty '1000001'"},
        {"n,99999999999999999999999", "penalty '999"},
        {"n,-", "penalty '-'"},
        {"n, 1", "penalty ' 1'"},
        {"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "nn...'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hspz_scoring scoring;
        struct hspz_error err;
        hspz_scoring_init(&scoring);
        assert_int_equal(hspz_scoring_ambiguous(&scoring, cases[i].option, &err),
                         HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_scores(&scoring, kegalign);
    }
}

/* The example of LASTZ's manual, and the same as a BLASTZ file there. */
static const char manual[] =
    "# This matches the default scoring set for BLASTZ\n"
    "\n"
    "bad_score          = X:-1000  # used for sub['X'][*] and sub[*]['X']\n"
    "fill_score         = -100     # used when sub[*][*] is not defined\n"
    "gap_open_penalty   =  400\n"
    "gap_extend_penalty =   30\n"
    "\n"
    "     A     C     G     T\n"
    "A   91  -114   -31  -123\n"
    "C -114   100  -125   -31\n"
    "G  -31  -125   100  -114\n"
    "T -123   -31  -114    91\n";
static const char blastz[] = "   A     C     G     T\n"
                             "  91  -114   -31  -123\n"
                             "-114   100  -125   -31\n"
                             " -31  -125   100  -114\n"
                             "-123   -31  -114    91\n";
/* Nearly the same by hexadecimal labels, in another order, with rows that count for nothing, CRLF,
 * no last line end. */
static const char odd[] = "hsp_threshold=17\r\n\tT=1\r\nZ = 3\r\nball=75%\r\n"
                          "54\t4E\t g a A  43 G # columns\r\n"
                          "G  -114 7 7 7  -31 47 100\r\n"
                          "N 1 2 3 4 5 6 7\r\n"
                          "a 1 2 3 4 5 6 7\r\n"
                          "41 -123 7 7 7 +91 -114 -31\r\n"
                          "43 -31 7 7 7 -114 100 -125\r\n"
                          "T 91 7 7 7 -123 -31 -114";

static void
test_score_files_of_lastz_are_read(void **state)
{
    (void)state;
    struct hspz_scoring scoring;
    struct hspz_error err;
    static const char *const same[] = {manual, blastz};
    for (size_t i = 0; i < 2; i++) {
        hspz_scoring_init(&scoring);
        memset(scoring.scores, 0x11, sizeof(int32_t) * 7);
        scoring.scores[HSPZ_CLASS_N * HSPZ_CLASSES] = 4;
        assert_int_equal(read_text(&scoring, same[i], strlen(same[i]), &err), HSPZ_OK);
        assert_scores(&scoring, kegalign);
        assert_int_equal(scoring.xdrop, 910);
    }
    /* KegAlign's own test of its reader: a file with 85, -110, -750 and -55. */
    static const char other[] = "bad_score = -750\nfill_score = -55\n"
                                " A C G T\nA 85 -110 -30 -120\nC -110 95 -125 -30\n"
                                "G -30 -125 95 -110\nT -120 -30 -110 86\n";
    static const int32_t want[7][7] = {
        {85, -110, -30, -120, -750, -750, -55},     {-110, 95, -125, -30, -750, -750, -55},
        {-30, -125, 95, -110, -750, -750, -55},     {-120, -30, -110, 86, -750, -750, -55},
        {-750, -750, -750, -750, -750, -750, -750}, {-750, -750, -750, -750, -750, -750, -750},
        {-55, -55, -55, -55, -750, -750, -55},
    };
    hspz_scoring_init(&scoring);
    assert_int_equal(read_text(&scoring, other, strlen(other), &err), HSPZ_OK);
    assert_scores(&scoring, want);
    /* The ambiguous option overrides what the file says of N. */
    assert_int_equal(hspz_scoring_ambiguous(&scoring, "n,1,2", NULL), HSPZ_OK);
    assert_int_equal(scoring.scores[HSPZ_CLASS_N], -2);
    assert_int_equal(scoring.scores[HSPZ_CLASS_LOWER], -750);
}

static void
test_rows_are_the_targets_and_labels_may_stand_in_any_order(void **state)
{
    (void)state;
    struct hspz_scoring scoring;
    struct hspz_error err;
    hspz_scoring_init(&scoring);
    if (read_text(&scoring, odd, strlen(odd), &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    int32_t want[7][7];
    memcpy(want, kegalign, sizeof(want));
    want[HSPZ_CLASS_G][HSPZ_CLASS_C] = 47; /* of G's row; C's row has -125 for G */
    assert_scores(&scoring, want);
}

static void
test_bad_score_files_are_refused_by_line(void **state)
{
    (void)state;
#define MATRIX " A C G T\n1 2 3 4\n1 2 3 4\n1 2 3 4\n"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "a.scores: holds no scores"},
        {"# nothing\n\n", "holds no scores"},
        {"bad_score = -5\n", "holds no scores"},
        {"what = 5\n" MATRIX, "line 1: unknown setting: 'what'"},
        {"\n#\nO=1\nopen=2\n" MATRIX, "line 4: the setting is there twice: 'open'"},
        {"O=\n" MATRIX, "line 1: the setting has no value: 'O'"},
        {"bad = X:Y:z\n" MATRIX, "line 1: bad_score is no whole number in range: 'z'"},
        {"bad = XY:5\n" MATRIX, "line 1: bad_score's character is none: 'XY'"},
        {"bad = 58:5:6:7\n" MATRIX, "line 1: bad_score is no whole number"},
        {"fill_score = 1.5\n" MATRIX, "line 1: fill_score is no whole number in range: '1.5'"},
        {"fill_score = 1000001\n" MATRIX, "line 1: fill_score is no whole number in range"},
        {" A C G\n1 2 3\n", "line 1: there is no column: 'T'"},
        {" A C G T R\n", "line 1: a column's label is not of A C G T N a c g t: 'R'"},
        {" A C G T A\n", "line 1: the column is there twice: 'A'"},
        {" A~T C~G G~C T~A\n", "line 1: a column's label is not of A C G T N a c g t: 'A~T'"},
        {" A C G T\n1 2 3\n", "line 2: a row has other columns than the labels say: '1 2 3'"},
        {" A C G T\nA 1 2 3 4\n1 2 3 4\n", "line 3: a row has other columns"},
        {" A C G T\n1 2 3 4 5 6\n", "line 2: a row has other columns"},
        {" A C G T\nX 1 2 3 4\n", "line 2: a row's label is not of A C G T N a c g t: 'X'"},
        {" A C G T\nA 1 2 3 4\n41 1 2 3 4\n", "line 3: the row is there twice: '41'"},
        {" A C G T\nA 1 2 3 x\n", "line 2: a score is no whole number in range: 'x'"},
        {" A C G T\nA 1 2 3 0x1\n", "line 2: a score is no whole number in range: '0x1'"},
        {" A C G T\nA 1 2 3 -1000001\n", "line 2: a score is no whole number in range"},
        {MATRIX, "line 5: it ends without a row: 'T'"},
        {MATRIX "1 2 3 4\n1 2 3 4\n", "line 6: there are more rows than columns"},
        {MATRIX "seed=12of19,transition\n", "line 5: a row has other columns"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hspz_scoring scoring;
        struct hspz_error err;
        hspz_scoring_init(&scoring);
        assert_int_equal(read_text(&scoring, cases[i].text, strlen(cases[i].text), &err),
                         HSPZ_E_BAD_REQUEST);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("case %zu says %s", i, err.text);
        }
        assert_scores(&scoring, kegalign);
    }
}

static void
test_odd_bytes_and_long_lines_are_refused(void **state)
{
    (void)state;
    struct hspz_scoring scoring;
    struct hspz_error err;
    static char text[20000];
    hspz_scoring_init(&scoring);
    assert_int_equal(read_text(&scoring, "\n A\0C", 5, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "line 2: holds a NUL byte"));
    memset(text, 'A', sizeof(text));
    assert_int_equal(read_text(&scoring, text, sizeof(text), &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "line 1: is too long"));
    text[0] = '#'; /* a comment may be of any length */
    assert_int_equal(read_text(&scoring, text, sizeof(text), &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "holds no scores"));
}

static void
test_unreadable_files_are_an_io_error(void **state)
{
    (void)state;
    struct hspz_scoring scoring;
    struct hspz_error err;
    FILE *file = fopen("/", "r");
    assert_non_null(file);
    hspz_scoring_init(&scoring);
    assert_int_equal(hspz_scoring_read(&scoring, file, "/", &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "cannot read"));
    fclose(file);
}

static void
test_check_names_what_is_out_of_range(void **state)
{
    (void)state;
    struct hspz_scoring good;
    struct hspz_error err;
    hspz_scoring_init(&good);
    good.xdrop = 0;
    good.threshold = 1;
    good.limit = 0;
    good.scope = HSPZ_SCOPE_CHUNK;
    good.scores[5] = HSPZ_SCORE_LIMIT;
    good.scores[6] = -HSPZ_SCORE_LIMIT;
    assert_int_equal(hspz_scoring_check(&good, &err), HSPZ_OK);
    good.xdrop = good.threshold = HSPZ_XDROP_LIMIT;
    assert_int_equal(hspz_scoring_check(&good, &err), HSPZ_OK);
    for (int i = 0; i < 8; i++) {
        struct hspz_scoring bad = good;
        static const char *const says[] = {"score 63",  "score 0",   "xdrop", "xdrop",
                                           "threshold", "threshold", "scope", "scope"};
        bad.scores[63] = i == 0 ? HSPZ_SCORE_LIMIT + 1 : 0;
        bad.scores[0] = i == 1 ? -HSPZ_SCORE_LIMIT - 1 : 0;
        bad.xdrop = i == 2 ? -1 : i == 3 ? HSPZ_XDROP_LIMIT + 1 : bad.xdrop;
        bad.threshold = i == 4 ? 0 : i == 5 ? HSPZ_XDROP_LIMIT + 1 : bad.threshold;
        bad.scope = i == 6   ? (enum hspz_hsp_scope)2
                    : i == 7 ? (enum hspz_hsp_scope) - 1
                             : bad.scope;
        assert_int_equal(hspz_scoring_check(&bad, &err), HSPZ_E_BAD_REQUEST);
        assert_non_null(strstr(err.text, says[i]));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_are_kegaligns),
        cmocka_unit_test(test_complement_classes_are_those_of_the_complement),
        cmocka_unit_test(test_default_is_kegaligns),
        cmocka_unit_test(test_ambiguous_is_lastzs_option),
        cmocka_unit_test(test_ambiguous_refuses_by_name),
        cmocka_unit_test(test_score_files_of_lastz_are_read),
        cmocka_unit_test(test_rows_are_the_targets_and_labels_may_stand_in_any_order),
        cmocka_unit_test(test_bad_score_files_are_refused_by_line),
        cmocka_unit_test(test_odd_bytes_and_long_lines_are_refused),
        cmocka_unit_test(test_unreadable_files_are_an_io_error),
        cmocka_unit_test(test_check_names_what_is_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
