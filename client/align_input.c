#include "client/align_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define LINE_BASES 100u

void
hspz_align_side_fini(struct hspz_align_side *side)
{
    free(side->sequences);
    free(side->groups);
    free(side->by_name);
    *side = (struct hspz_align_side){0};
}

/* Sequences first to end - 1 of `side` are those of a group; `seqs` holds them. */
struct group_range {
    const struct hspz_sequences *seqs;
    const size_t *places; /* in `seqs` of each sequence of the side */
    const struct hspz_align_side *side;
    size_t first, end;
};

static const uint8_t *
bases_of(const struct group_range *range, size_t i)
{
    const struct hspz_sequence *s = hspz_sequences_get(range->seqs, range->places[i]);
    return hspz_sequences_block(range->seqs, s->block).bases + s->offset;
}

static bool
digest_of(const struct group_range *range, XXH128_hash_t *out)
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL || XXH3_128bits_reset(state) != XXH_OK) {
        XXH3_freeState(state);
        return false;
    }
    for (size_t i = range->first; i < range->end; i++) {
        const struct hspz_align_sequence *s = &range->side->sequences[i];
        const uint64_t head[2] = {s->name, s->len};
        XXH3_128bits_update(state, head, sizeof(head));
        XXH3_128bits_update(state, bases_of(range, i), s->len);
    }
    *out = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return true;
}

/* False with errno when it cannot be written. */
static bool
print_group(const struct group_range *range, FILE *file)
{
    for (size_t i = range->first; i < range->end; i++) {
        const struct hspz_align_sequence *s = &range->side->sequences[i];
        const uint8_t *bases = bases_of(range, i);
        fprintf(file, ">s%" PRIu32 "\n", s->name);
        for (uint64_t at = 0; at < s->len; at += LINE_BASES) {
            const size_t len = s->len - at < LINE_BASES ? (size_t)(s->len - at) : LINE_BASES;
            fwrite(bases + at, 1, len, file);
            putc('\n', file);
        }
    }
    return fflush(file) == 0 && ferror(file) == 0;
}

static ssize_t
compare_with(void *cookie, const char *bytes, size_t len)
{
    FILE *file = cookie;
    char have[4096];
    size_t done = 0;
    while (done < len) {
        const size_t some = len - done < sizeof(have) ? len - done : sizeof(have);
        if (fread(have, 1, some, file) != some || memcmp(have, bytes + done, some) != 0) {
            break;
        }
        done += some;
    }
    return done == len ? (ssize_t)len : 0;
}

/* Whether the file is there from a run before, and what would be written now. */
static bool
has_group(const struct group_range *range, const struct hspz_align_folder *folder, const char *name)
{
    const int fd = hspz_align_folder_has(folder, name)
                       ? openat(folder->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
                       : -1;
    FILE *have = fd >= 0 ? fdopen(fd, "rbe") : NULL;
    FILE *compared = have != NULL
                         ? fopencookie(have, "w", (cookie_io_functions_t){.write = compare_with})
                         : NULL;
    const bool same = compared != NULL && print_group(range, compared) && getc(have) == EOF;
    if (compared != NULL) {
        fclose(compared);
    }
    if (have != NULL) {
        fclose(have);
    } else if (fd >= 0) {
        close(fd);
    }
    return same;
}

static enum hspz_status
write_group(const struct group_range *range, struct hspz_align_folder *folder, const char *name,
            struct hspz_error *err)
{
    struct hspz_align_file made = {.fd = -1};
    enum hspz_status status = hspz_align_file_create(folder, name, &made, err);
    if (status != HSPZ_OK) {
        return status;
    }
    const int fd = dup(made.fd);
    FILE *file = fd >= 0 ? fdopen(fd, "wbe") : NULL;
    errno = 0;
    const bool good = file != NULL && print_group(range, file);
    const int error = errno != 0 ? errno : EIO;
    if (file != NULL) {
        fclose(file);
    } else if (fd >= 0) {
        close(fd);
    }
    if (!good) {
        hspz_align_file_drop(folder, &made);
        return hspz_error_errno(err, HSPZ_E_IO, error, "%.200s/%s: cannot write", folder->path,
                                name);
    }
    return hspz_align_file_finish(folder, &made, err);
}

static enum hspz_status
add_group(const struct group_range *range, struct hspz_align_folder *folder, char letter,
          struct hspz_align_side *side, struct hspz_error *err)
{
    XXH128_hash_t digest;
    if (!digest_of(range, &digest)) {
        return hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "no memory for a digest");
    }
    struct hspz_align_group *group = &side->groups[side->group_count];
    *group = (struct hspz_align_group){0};
    snprintf(group->file, sizeof(group->file), "hspz-%c-%016" PRIx64 "%016" PRIx64 ".fa", letter,
             (uint64_t)digest.high64, (uint64_t)digest.low64);
    for (size_t i = range->first; i < range->end; i++) {
        side->sequences[i].group = (uint32_t)side->group_count;
        group->bases += side->sequences[i].len;
    }
    side->group_count++;
    return has_group(range, folder, group->file) ? HSPZ_OK
                                                 : write_group(range, folder, group->file, err);
}

/* The sequences that HSPs name, and where they are. */
static void
select_needed(const struct hspz_align_source *source, const struct hspz_names *names,
              const struct hspz_sequences *seqs, struct hspz_align_side *side, size_t *places)
{
    for (size_t i = 0; i < names->count; i++) {
        side->by_name[i] = HSPZ_ALIGN_ABSENT;
    }
    for (size_t i = 0; i < hspz_sequences_count(seqs); i++) {
        const struct hspz_sequence *s = hspz_sequences_get(seqs, i);
        uint32_t name = 0;
        if (hspz_names_find(names, s->name, strlen(s->name), &name) && source->needed[name] != 0) {
            side->by_name[name] = (uint32_t)side->count;
            places[side->count] = i;
            side->sequences[side->count++] =
                (struct hspz_align_sequence){.name = name, .len = s->len};
        }
    }
}

static enum hspz_status
make_groups(const struct hspz_align_source *source, const struct hspz_sequences *seqs,
            const size_t *places, struct hspz_align_folder *folder, struct hspz_align_side *side,
            struct hspz_error *err)
{
    enum hspz_status status = HSPZ_OK;
    uint64_t bases = 0;
    struct group_range range = {.seqs = seqs, .places = places, .side = side};
    for (size_t i = 0; status == HSPZ_OK && i < side->count; i++) {
        bases += side->sequences[i].len;
        range.end = i + 1;
        if (bases > source->group_bases || i + 1 == side->count) {
            status = add_group(&range, folder, source->letter, side, err);
            range.first = range.end;
            bases = 0;
        }
    }
    return status;
}

enum hspz_status
hspz_align_side_read(const struct hspz_align_source *source, const struct hspz_names *names,
                     struct hspz_align_folder *folder, hspz_progress_fn progress, void *user,
                     struct hspz_align_side *out, struct hspz_error *err)
{
    struct hspz_sequences *seqs = NULL;
    struct hspz_align_side side = {0};
    size_t *places = NULL;
    enum hspz_status status =
        hspz_sequence_file_read(source->path, HSPZ_BLOCK_BASES_DEFAULT, progress, user, &seqs, err);
    if (status == HSPZ_OK) {
        status = hspz_sequences_check_unique(seqs, source->path, err);
    }
    if (status == HSPZ_OK) {
        const size_t count = hspz_sequences_count(seqs);
        side.sequences = calloc(count + 1, sizeof(*side.sequences));
        side.groups = calloc(count + 1, sizeof(*side.groups));
        side.by_name = calloc(names->count + 1, sizeof(*side.by_name));
        places = calloc(count + 1, sizeof(*places));
        if (side.sequences == NULL || side.groups == NULL || side.by_name == NULL ||
            places == NULL) {
            status = hspz_error_set(err, HSPZ_E_OUT_OF_MEMORY, "%.200s: no memory for its names",
                                    source->path);
        }
    }
    if (status == HSPZ_OK) {
        select_needed(source, names, seqs, &side, places);
        status = make_groups(source, seqs, places, folder, &side, err);
    }
    hspz_sequences_destroy(&seqs);
    free(places);
    if (status != HSPZ_OK) {
        hspz_align_side_fini(&side);
        return status;
    }
    *out = side;
    return HSPZ_OK;
}
