/* Sequences of files in batches: whatever the text, batches of any size give the same k-mers in the
 * same order, and the same sequences, or the same error. The first byte says which k. */
#include "client/kmer_file.h"
#include "engine/kmer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct all {
    unsigned k;
    uint64_t hash; /* of each k-mer, its place, and each sequence's name, in order */
    uint64_t kmers, sequences, bases;
    size_t batch_bytes;
    enum hspz_status status;
    char text[512];
};

static void
add(struct all *all, uint64_t number)
{
    all->hash = hspz_filter_mix(all->hash ^ number);
}

static enum hspz_status
take(void *user, const struct hspz_kmer_batch *batch, struct hspz_error *err)
{
    struct all *all = user;
    (void)err;
    HSPZ_REQUIRE(batch->count > 0 && batch->len <= all->batch_bytes);
    for (size_t i = 0; i < batch->count; i++) {
        const struct hspz_kmer_piece *piece = &batch->pieces[i];
        struct hspz_kmer_roll roll = {0};
        HSPZ_REQUIRE(piece->begin <= piece->end && piece->end <= batch->len);
        HSPZ_REQUIRE(piece->end == batch->len || piece->begin == piece->end ||
                     hspz_kmer_code(batch->bases[piece->end]) == HSPZ_KMER_NO_BASE);
        for (size_t at = piece->begin; at < piece->end; at++) {
            if (hspz_kmer_next(&roll, all->k, batch->bases[at])) {
                add(all, roll.forward);
                add(all, piece->start + (at - piece->begin));
                all->kmers++;
            }
        }
        if (piece->last) {
            for (const char *c = batch->names + piece->name; *c != '\0'; c++) {
                add(all, (uint8_t)*c);
            }
            add(all, piece->start + (piece->end - piece->begin));
            all->bases += piece->start + (piece->end - piece->begin);
            all->sequences++;
        }
    }
    return HSPZ_OK;
}

static void
read_all(const char *path, size_t batch_bytes, struct all *all)
{
    struct hspz_error err = {0};
    const struct hspz_kmer_reading reading = {
        .path = path, .k = all->k, .batch_bytes = batch_bytes, .batch = take, .user = all};
    all->batch_bytes = batch_bytes < 256 ? 256 : batch_bytes;
    all->status = hspz_kmer_file_read(&reading, &err);
    HSPZ_REQUIRE(all->status == HSPZ_OK || all->status == HSPZ_E_BAD_REQUEST ||
                 all->status == HSPZ_E_BAD_FILE);
    memcpy(all->text, err.text,
           sizeof(all->text) < sizeof(err.text) ? sizeof(all->text) : sizeof(err.text));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct all small = {.k = 1 + data[0] % HSPZ_KMER_MOST}, large = {.k = small.k};
    const int fd = memfd_create("sequences", MFD_CLOEXEC);
    HSPZ_REQUIRE(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    read_all(path, 1, &small);
    read_all(path, (size_t)1 << 20, &large);
    close(fd);
    HSPZ_REQUIRE(small.status == large.status);
    if (small.status == HSPZ_OK) {
        HSPZ_REQUIRE(small.kmers == large.kmers && small.sequences == large.sequences &&
                     small.bases == large.bases && small.sequences > 0 && small.hash == large.hash);
    } else {
        HSPZ_REQUIRE(strcmp(small.text, large.text) == 0);
    }
    return 0;
}
