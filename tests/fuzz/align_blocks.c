/* What LASTZ printed, in the format the first byte says: whatever the bytes, it is refused with a
 * place, or every alignment lies inside its sequences and can be printed. */
#include "client/align_blocks.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_align_sequence sequences[2] = {{.name = 0, .len = 5000}, {.name = 1, .len = 300}};
    uint32_t by_name[3] = {0, 1, HSPZ_ALIGN_ABSENT};
    const struct hspz_align_side side = {.sequences = sequences, .count = 2, .by_name = by_name};
    struct hspz_cells cells;
    struct hspz_alignments list = {0};
    struct hspz_error err = {0};
    if (size < 2) {
        return 0;
    }
    hspz_cells_init(&cells, 100);
    const struct hspz_align_reading reading = {
        .format = (enum hspz_align_format)(data[0] % 3),
        .target = &side,
        .query = &side,
        .cells = &cells,
        .path = "fuzz",
    };
    FILE *file = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "rb");
    HSPZ_REQUIRE(file != NULL);
    const enum hspz_status status = hspz_alignments_read(&reading, file, 3, &list, &err);
    fclose(file);
    HSPZ_REQUIRE(status == HSPZ_OK || strncmp(err.text, "fuzz: line ", 11) == 0);
    struct hspz_output *output = NULL;
    HSPZ_REQUIRE(hspz_output_open("/dev/null", &output, NULL) == HSPZ_OK);
    for (size_t i = 0; i < list.count; i++) {
        const struct hspz_alignment *a = &list.items[i];
        HSPZ_REQUIRE(a->target < 2 && a->query < 2 && a->target_start <= a->target_end &&
                     a->query_start <= a->query_end);
        HSPZ_REQUIRE(a->target_end <= sequences[a->target].len &&
                     a->query_end <= sequences[a->query].len);
        HSPZ_REQUIRE(a->cell < cells.count);
        if (a->offset + a->len > size - 1) {
            continue; /* the last line has no end */
        }
        const char *text = (const char *)data + 1 + a->offset;
        HSPZ_REQUIRE(hspz_alignment_print(reading.format, text, a->len, "target", "query", i,
                                          output, &err) == HSPZ_OK);
    }
    hspz_output_close(&output);
    hspz_alignments_sort(&list);
    hspz_alignments_fini(&list);
    hspz_cells_fini(&cells);
    return 0;
}
