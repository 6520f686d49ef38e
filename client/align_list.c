#include "client/align_blocks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char end_mark[] = "# lastz end-of-file\n";

void
hspz_alignments_fini(struct hspz_alignments *list)
{
    free(list->items);
    *list = (struct hspz_alignments){0};
}

static int
by(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int
compare_alignments(const void *a, const void *b)
{
    const struct hspz_alignment *x = a, *y = b;
    const uint64_t keys[][2] = {
        {x->target, y->target},
        {x->target_start, y->target_start},
        {x->query, y->query},
        {x->minus, y->minus},
        {x->query_start, y->query_start},
        {x->target_end, y->target_end},
        {x->query_end, y->query_end},
        {x->piece, y->piece},
        {x->offset, y->offset},
    };
    int order = 0;
    for (size_t i = 0; order == 0 && i < sizeof(keys) / sizeof(keys[0]); i++) {
        order = by(keys[i][0], keys[i][1]);
    }
    return order;
}

static bool
same_bases(const struct hspz_alignment *x, const struct hspz_alignment *y)
{
    return x->target == y->target && x->query == y->query && x->minus == y->minus &&
           x->target_start == y->target_start && x->target_end == y->target_end &&
           x->query_start == y->query_start && x->query_end == y->query_end;
}

void
hspz_alignments_sort(struct hspz_alignments *list)
{
    size_t kept = 0;
    if (list->count > 0) {
        qsort(list->items, list->count, sizeof(*list->items), compare_alignments);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (kept == 0 || !same_bases(&list->items[kept - 1], &list->items[i])) {
            list->items[kept++] = list->items[i];
        }
    }
    list->count = kept;
}

bool
hspz_alignments_whole(int fd)
{
    char end[sizeof(end_mark) - 1];
    const off_t size = lseek(fd, 0, SEEK_END);
    const off_t len = (off_t)sizeof(end);
    return size >= len && pread(fd, end, sizeof(end), size - len) == (ssize_t)len &&
           memcmp(end, end_mark, sizeof(end)) == 0;
}
