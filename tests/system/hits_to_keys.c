/* Tab-separated hits on standard input to 64-bit keys on standard output, for comparing tens of
 * millions of them as multisets:
 *
 *   hits_to_keys REF_COLUMN QUERY_COLUMN STRAND_COLUMN < hits.tsv > keys.u64
 *
 * Columns count from 1. A key is strand << 63 | reference start << 31 | query start, in the byte
 * order of the machine. Lines that start with '#' are left out; anything else out of shape ends
 * the program with status 1. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 32
#define KEYS 65536

static bool
parse_number(const char *text, uint64_t *out)
{
    if (*text < '0' || *text > '9') {
        return false;
    }
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
        if (value >> 31 != 0) {
            return false;
        }
    }
    *out = value;
    return *text == '\0';
}

/* Cuts `line` at its tabs; returns the number of columns. */
static unsigned
split(char *line, char *columns[COLUMNS])
{
    unsigned count = 0;
    columns[count++] = line;
    for (char *at = line; *at != '\0' && *at != '\n'; at++) {
        if (*at == '\t' && count < COLUMNS) {
            *at = '\0';
            columns[count++] = at + 1;
        }
    }
    char *end = columns[count - 1];
    while (*end != '\0' && *end != '\n') {
        end++;
    }
    *end = '\0';
    return count;
}

static bool
key_of(char *line, const unsigned wanted[3], uint64_t *key)
{
    char *columns[COLUMNS];
    const unsigned count = split(line, columns);
    if (wanted[0] > count || wanted[1] > count || wanted[2] > count) {
        return false;
    }
    uint64_t ref = 0;
    uint64_t query = 0;
    const char *strand = columns[wanted[2] - 1];
    if (!parse_number(columns[wanted[0] - 1], &ref) ||
        !parse_number(columns[wanted[1] - 1], &query) || (*strand != '+' && *strand != '-') ||
        strand[1] != '\0') {
        return false;
    }
    *key = (uint64_t)(*strand == '-') << 63 | ref << 31 | query;
    return true;
}

int
main(int argc, char **argv)
{
    unsigned wanted[3] = {0};
    for (int i = 0; i < 3 && argc == 4; i++) {
        const long column = strtol(argv[i + 1], NULL, 10);
        wanted[i] = column > 0 && column <= COLUMNS ? (unsigned)column : 0;
    }
    if (wanted[0] == 0 || wanted[1] == 0 || wanted[2] == 0) {
        fputs("usage: hits_to_keys REF_COLUMN QUERY_COLUMN STRAND_COLUMN\n", stderr);
        return 2;
    }
    uint64_t *keys = malloc(KEYS * sizeof *keys);
    char *line = NULL;
    size_t capacity = 0;
    size_t count = 0;
    uint64_t number = 0;
    bool good = keys != NULL;
    while (good && getline(&line, &capacity, stdin) > 0) {
        number++;
        if (*line == '#') {
            continue;
        }
        good = key_of(line, wanted, &keys[count]);
        if (!good) {
            fprintf(stderr, "line %llu is no hit\n", (unsigned long long)number);
        } else if (++count == KEYS) {
            good = fwrite(keys, sizeof *keys, count, stdout) == count;
            count = 0;
        }
    }
    good = good && fwrite(keys, sizeof *keys, count, stdout) == count && fflush(stdout) == 0;
    free(line);
    free(keys);
    return good ? 0 : 1;
}
