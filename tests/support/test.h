/* What every unit test includes: cmocka with the headers it needs first. */
#pragma once

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Folder of the shared oracle and data: HSPZ_SHARED, else ../shared beside the source tree. NULL
 * when absent; a test then calls skip(), unless HSPZ_REQUIRE names `shared`, which fails it. */
const char *test_shared_dir(void);

/* A path in malloc'ed memory of an example genome, as Debian names it ("ragout/examples/..."), from
 * where the package or tests/run.sh puts it. NULL when absent; when HSPZ_REQUIRE names `shared`,
 * that fails the test. */
char *test_genome(const char *name);

/* Whether HSPZ_REQUIRE names `what`: a skip for want of it is then a failure. */
bool test_required(const char *what);

/* Whole file into malloc'ed memory (terminated by an extra NUL); fails the test when it cannot. */
uint8_t *test_read_file(const char *path, size_t *len);

/* A fresh directory under $TMPDIR or /tmp; test_tmpdir_remove deletes it with everything in it. */
char *test_tmpdir_make(void);
void test_tmpdir_remove(char **dir);
/* dir/name in malloc'ed memory. */
char *test_path(const char *dir, const char *name);

/* How many rounds of a random test to make: all of them, or what HSPZ_TEST_SHARE=N leaves (one of
 * N, at least 4) where a sanitizer makes each dear. */
unsigned test_rounds(unsigned all);
unsigned test_share(void); /* that N, 1 without */

/* Deterministic 64-bit random numbers (splitmix64). */
uint64_t test_random(uint64_t *state);
