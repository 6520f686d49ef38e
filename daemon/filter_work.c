/* What of a request about a filter runs on a worker, or on the pool. */
#include "daemon/filter_job_p.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES 8u
#define DISK_BLOCK UINT64_C(4096)
#define FOLDER_MODE 0700
/* Entries of a piece of an enumeration, beside what its part holds. */
#define PIECE_ENTRIES ((size_t)1 << 16)

_Static_assert(sizeof(struct hspz_filter_entry) == HSPZ_ENTRY_BYTES, "entries go out as they are");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "keys and answers go out as they are");

static void
write_answers(struct hspz_writer *w, const struct hspz_buffer *buffer)
{
    struct hspz_answers_head head = buffer->head.answers;
    head.placed = buffer->ring != NULL;
    head.offset = buffer->offset;
    hspz_answers_encode(w, &head);
}

static void
write_entries(struct hspz_writer *w, const struct hspz_buffer *buffer)
{
    struct hspz_entries_head head = buffer->head.entries;
    head.placed = buffer->ring != NULL;
    head.offset = buffer->offset;
    hspz_entries_encode(w, &head);
}

/* ---- calls with keys ---- */

/* Keys, values and counts of a step, aligned. */
struct step {
    uint64_t *words[3];
};

static bool
step_init(const struct hspz_filter_job *j, struct step *s, size_t keys)
{
    const uint8_t *const from[3] = {j->keys.keys.bytes, j->keys.values.bytes, j->keys.counts.bytes};
    *s = (struct step){0};
    for (int i = 0; i < 3 && !j->keys.sequence; i++) {
        if (from[i] != NULL) {
            s->words[i] = malloc(keys > 0 ? keys * KEY_BYTES : 1);
            if (s->words[i] == NULL) {
                return false;
            }
        }
    }
    return true;
}

static void
step_fini(struct step *s)
{
    for (int i = 0; i < 3; i++) {
        free(s->words[i]);
    }
}

static void
step_fill(const struct hspz_filter_job *j, struct step *s, uint64_t at, size_t keys)
{
    const uint8_t *const from[3] = {j->keys.keys.bytes, j->keys.values.bytes, j->keys.counts.bytes};
    for (int i = 0; i < 3; i++) {
        if (s->words[i] != NULL && keys > 0) {
            memcpy(s->words[i], from[i] + at * KEY_BYTES, keys * KEY_BYTES);
        }
    }
}

/* Keys whose answers a part holds: a multiple of 8. */
static uint64_t
part_keys(const struct hspz_filter_job *j)
{
    const uint64_t bytes = hspz_buffers_part_bytes(hspz_filter_job_service(j)->buffers);
    switch (j->keys.answer) {
    case HSPZ_ANSWER_BITMAP:
        return bytes * 8;
    case HSPZ_ANSWER_ARRAY:
        return bytes / 8 / 8 * 8;
    case HSPZ_ANSWER_BOTH:
        return bytes * 8 / 65 / 8 * 8;
    default:
        return UINT64_MAX;
    }
}

/* Where the answers of the part's next keys go. The bitmap of both is behind the longest array,
 * until the part is complete. */
static void
place_answers(const struct hspz_filter_job *j, struct hspz_filter_call *call)
{
    const enum hspz_filter_answer answer = j->keys.answer;
    if (answer == HSPZ_ANSWER_NONE) {
        return;
    }
    uint8_t *const bytes = j->buffers->anchors;
    if (answer != HSPZ_ANSWER_BITMAP) {
        call->found = (uint64_t *)(void *)bytes + j->part_count;
    }
    if (answer == HSPZ_ANSWER_BITMAP) {
        call->yes = bytes + j->part_count / 8;
    } else if (answer == HSPZ_ANSWER_BOTH) {
        call->yes = bytes + part_keys(j) * KEY_BYTES + j->part_count / 8;
    }
}

static void
complete_answers(struct hspz_filter_job *j)
{
    struct hspz_buffer *buffer = j->buffers;
    if (buffer == NULL) {
        return;
    }
    if (j->keys.answer == HSPZ_ANSWER_BOTH) {
        uint8_t *const bytes = buffer->anchors;
        memmove(bytes + j->part_count * KEY_BYTES, bytes + part_keys(j) * KEY_BYTES,
                hspz_filter_answer_bytes(HSPZ_ANSWER_BITMAP, j->part_count));
    }
    buffer->head.answers = (struct hspz_answers_head){.job = j->base.id,
                                                      .answer = j->keys.answer,
                                                      .first = j->part_first,
                                                      .count = j->part_count};
    buffer->write_head = write_answers;
    buffer->sent = &hspz_filter_job_service(j)->stats.answers;
    buffer->count = j->part_count;
    buffer->bytes = hspz_filter_answer_bytes(j->keys.answer, j->part_count);
}

/* One step. Returns false when the job ended. */
static bool
step_keys(struct hspz_filter_job *j, struct step *s)
{
    const uint64_t left = j->total - j->done, room = part_keys(j) - j->part_count;
    const uint64_t least = left < room ? left : room;
    const size_t keys = least < j->pace.keys ? (size_t)least : j->pace.keys;
    step_fill(j, s, j->done, keys);
    struct hspz_filter_call call = {.op = j->op,
                                    .keys = s->words[0],
                                    .count = keys,
                                    .values = s->words[1],
                                    .counts = s->words[2],
                                    .memory_bytes = j->memory_bytes};
    if (j->keys.sequence) {
        call.sequence = j->keys.keys.bytes + j->done;
        call.sequence_len = (size_t)left;
    }
    place_answers(j, &call);
    const enum hspz_status status =
        hspz_filter_run(j->filter->ops, j->filter->filter, &call, &j->err);
    if (status != HSPZ_OK) {
        j->err.status = status;
        return false;
    }
    j->done += keys;
    j->part_count += keys;
    j->yes += call.yes_count;
    j->full = j->full || call.full;
    return j->done < j->total;
}

/* Steps until the turn is over; beside the lanes (no worker), one. */
static void
run_keys(struct hspz_filter_job *j, const struct hspz_worker *worker, uint64_t start)
{
    struct step s;
    j->part_first = j->done;
    j->part_count = 0;
    bool going = step_init(j, &s, j->pace.keys < j->total ? j->pace.keys : (size_t)j->total);
    if (!going) {
        hspz_error_set(&j->err, HSPZ_E_OUT_OF_MEMORY, "no memory for %zu keys", j->pace.keys);
    }
    bool again = going;
    while (again) {
        going = step_keys(j, &s) && !hspz_conn_job_must_stop(&j->base, &j->err);
        again = going && worker != NULL && j->part_count < part_keys(j) &&
                !hspz_conn_job_turn_over(worker, start);
    }
    if (j->filter->ops->room != NULL) {
        j->filter->ops->stats(j->filter->filter, &j->stats);
    }
    step_fini(&s);
    complete_answers(j);
    j->ended = !going;
}

/* ---- whole filters ---- */

static bool
is_over(void *user)
{
    const struct hspz_filter_job *j = user;
    return hspz_conn_job_must_stop(&j->base, NULL);
}

static struct hspz_filter_stop
stop_of(struct hspz_filter_job *j)
{
    return (struct hspz_filter_stop){is_over, j};
}

static enum hspz_status
unsupported(struct hspz_filter_job *j, const char *verb)
{
    return hspz_error_set(&j->err, HSPZ_E_UNSUPPORTED, "a %s filter cannot %s",
                          hspz_filter_kind_name(j->filter->ops->plan(j->filter->filter)->spec.kind),
                          verb);
}

static enum hspz_status
enumerate(struct hspz_filter_job *j)
{
    const struct hspz_filter_ops *ops = j->filter->ops;
    struct hspz_buffer *buffer = j->buffers;
    const size_t fit =
        hspz_buffers_part_bytes(hspz_filter_job_service(j)->buffers) / HSPZ_ENTRY_BYTES;
    size_t count = 0;
    j->part_first = j->done;
    j->part_count = 0;
    if (ops->enumerate == NULL) {
        return unsupported(j, "be enumerated");
    }
    const enum hspz_status status =
        ops->enumerate(j->filter->filter, &j->cursor, buffer->anchors,
                       fit < PIECE_ENTRIES ? fit : PIECE_ENTRIES, &count, &j->err);
    if (status != HSPZ_OK) {
        return status;
    }
    j->part_count = count;
    j->done += count;
    j->ended = count == 0;
    buffer->head.entries = (struct hspz_entries_head){
        .job = j->base.id, .first = j->part_first, .count = j->part_count};
    buffer->write_head = write_entries;
    buffer->sent = &hspz_filter_job_service(j)->stats.entries;
    buffer->count = count;
    buffer->bytes = count * HSPZ_ENTRY_BYTES;
    return HSPZ_OK;
}

static enum hspz_status
create(struct hspz_filter_job *j)
{
    if (j->stage == HSPZ_FILTER_PLANS) {
        const struct hspz_filter_spec spec = j->plan.spec;
        return hspz_filter_plan(&spec, j->memory_limit, &j->plan, &j->err);
    }
    return j->filter->ops->create(&j->plan, &j->filter->filter, &j->err);
}

static enum hspz_status
load(struct hspz_filter_job *j)
{
    if (j->stage == HSPZ_FILTER_PLANS) {
        if (access(j->path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
            return hspz_error_set(&j->err, HSPZ_E_UNKNOWN_FILTER, "no filter \"%s\" was saved",
                                  j->ref.name);
        }
        return hspz_filter_read_plan(j->path, j->memory_limit, &j->plan, &j->err);
    }
    const struct hspz_filter_stop stop = stop_of(j);
    struct hspz_filter_image image = {0};
    struct hspz_filter_plan plan;
    enum hspz_status status =
        hspz_filter_read(j->path, j->plan.bytes, &stop, &plan, &image, &j->err);
    if (status == HSPZ_OK &&
        (plan.spec.kind != j->plan.spec.kind || plan.spec.parts != j->plan.spec.parts)) {
        status = hspz_error_set(&j->err, HSPZ_E_BAD_FILE, "\"%s\" was saved anew meanwhile",
                                j->ref.name);
    }
    if (status == HSPZ_OK) {
        hspz_filter_plan_place(&plan, &j->plan);
        status = j->filter->ops->load(&plan, &image, &stop, &j->filter->filter, &j->err);
    }
    hspz_filter_image_fini(&image);
    return status;
}

/* The tenant's folder, which may have to be made. */
static enum hspz_status
open_folder(struct hspz_filter_job *j)
{
    struct stat st;
    if (mkdir(j->folder, FOLDER_MODE) != 0 && errno != EEXIST) {
        return hspz_error_errno(&j->err, HSPZ_E_IO, errno, "the folder for filters");
    }
    if (j->ref.owner[0] != '\0' && (lstat(j->folder, &st) != 0 || !S_ISDIR(st.st_mode))) {
        return hspz_error_set(&j->err, HSPZ_E_IO, "the folder for filters is no folder");
    }
    return HSPZ_OK;
}

/* What the tenant has saved, but for what is to be replaced. */
static enum hspz_status
sum_folder(struct hspz_filter_job *j, uint64_t *out)
{
    DIR *dir = opendir(j->folder);
    if (dir == NULL) {
        return hspz_error_errno(&j->err, HSPZ_E_IO, errno, "the folder for filters");
    }
    const char *const own = strrchr(j->path, '/') + 1;
    uint64_t sum = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat st;
        if (strcmp(entry->d_name, own) != 0 &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            sum += ((uint64_t)st.st_size + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
        }
    }
    closedir(dir);
    *out = sum;
    return HSPZ_OK;
}

uint64_t
hspz_filter_job_image_bytes(const struct hspz_filter_job *j)
{
    const struct hspz_filter_ops *ops = j->filter->ops;
    return ops->image_bytes != NULL ? ops->image_bytes(j->filter->filter)
                                    : ops->plan(j->filter->filter)->bytes;
}

static enum hspz_status
save(struct hspz_filter_job *j)
{
    const struct hspz_filter_ops *ops = j->filter->ops;
    const uint64_t limit = j->disk_limit;
    const uint64_t need = hspz_filter_job_image_bytes(j) + DISK_BLOCK;
    uint64_t used = 0;
    if (ops->save == NULL) {
        return unsupported(j, "be saved");
    }
    enum hspz_status status = open_folder(j);
    if (status == HSPZ_OK) {
        status = sum_folder(j, &used);
    }
    if (status == HSPZ_OK && (need > limit || used > limit - need)) {
        status = need > limit ? HSPZ_E_TOO_LARGE : HSPZ_E_QUOTA_EXCEEDED;
        hspz_error_set(&j->err, status,
                       "%" PRIu64 " bytes are to be saved, of the %" PRIu64
                       " that a tenant may (filter_disk) %" PRIu64 " are in use",
                       need, limit, used);
        (void)hspz_error_limit(&j->err, status, limit);
    }
    const struct hspz_filter_stop stop = stop_of(j);
    return status == HSPZ_OK ? hspz_filter_write(ops, j->filter->filter, j->path, &stop, &j->err)
                             : status;
}

static enum hspz_status
drop(struct hspz_filter_job *j)
{
    if (!j->saved || unlink(j->path) == 0) {
        return HSPZ_OK;
    }
    if (errno != ENOENT && errno != ENOTDIR) {
        return hspz_error_errno(&j->err, HSPZ_E_IO, errno, "the saved filter \"%s\"", j->ref.name);
    }
    char shown[HSPZ_FILTER_SHOWN_BYTES];
    return j->filter != NULL ? HSPZ_OK
                             : hspz_error_set(&j->err, HSPZ_E_UNKNOWN_FILTER,
                                              "there is no filter \"%s\", and none was saved",
                                              hspz_filter_ref_shown(&j->ref, shown));
}

bool
hspz_filter_job_moves(const struct hspz_filter_job *j)
{
    const struct hspz_filter_plan *to = j->filter->ops->plan(j->filter->filter);
    const struct hspz_filter_plan *from = j->from->ops->plan(j->from->filter);
    return to->device != from->device ||
           memcmp(to->part_devices, from->part_devices, sizeof(to->part_devices)) != 0;
}

/* A copy of what is merged, on the device of the filter that takes it up. */
static enum hspz_status
move_from(struct hspz_filter_job *j, struct hspz_filter **out)
{
    const struct hspz_filter_ops *ops = j->from->ops;
    struct hspz_filter_plan plan = *ops->plan(j->from->filter);
    struct hspz_filter_image image = {0};
    hspz_filter_plan_place(&plan, ops->plan(j->filter->filter));
    const struct hspz_filter_stop stop = stop_of(j);
    enum hspz_status status = ops->save(j->from->filter, &stop, &image, &j->err);
    if (status == HSPZ_OK) {
        status = ops->load(&plan, &image, &stop, out, &j->err);
    }
    hspz_filter_image_fini(&image);
    return status;
}

static enum hspz_status
merge(struct hspz_filter_job *j)
{
    const struct hspz_filter_ops *ops = j->filter->ops;
    struct hspz_filter *moved = NULL;
    if (ops->merge == NULL) {
        return unsupported(j, "merge");
    }
    enum hspz_status status = HSPZ_OK;
    if (hspz_filter_job_moves(j)) {
        status = move_from(j, &moved);
    }
    if (status == HSPZ_OK) {
        const struct hspz_filter_stop stop = stop_of(j);
        status = ops->merge(j->filter->filter, moved != NULL ? moved : j->from->filter, &stop,
                            &j->full, &j->err);
    }
    ops->destroy(&moved);
    return status;
}

static enum hspz_status
run_whole(struct hspz_filter_job *j)
{
    j->ended = true;
    switch (j->base.method) {
    case HSPZ_METHOD_FILTER_CREATE:
        return create(j);
    case HSPZ_METHOD_FILTER_LOAD:
        return load(j);
    case HSPZ_METHOD_FILTER_SAVE:
        return save(j);
    case HSPZ_METHOD_FILTER_DROP:
        return drop(j);
    case HSPZ_METHOD_FILTER_MERGE:
        return merge(j);
    case HSPZ_METHOD_FILTER_ENUMERATE:
        j->ended = false;
        return enumerate(j);
    default:
        return HSPZ_OK;
    }
}

/* ---- pieces ---- */

static void
run(struct hspz_filter_job *j, const struct hspz_worker *worker)
{
    const uint64_t start = uv_hrtime();
    if (j->first_step_ns == 0) {
        j->first_step_ns = start;
    }
    j->stats.bytes = 0;
    if (hspz_conn_job_must_stop(&j->base, &j->err)) {
        j->part_count = 0;
        j->ended = true;
    } else if (hspz_filter_takes_keys(j->base.method)) {
        run_keys(j, worker, start);
    } else {
        const enum hspz_status status = run_whole(j);
        if (status != HSPZ_OK) {
            j->err.status = status;
            if (status == HSPZ_E_CANCELLED) {
                (void)hspz_conn_job_must_stop(&j->base, &j->err); /* which says why */
            }
            j->ended = true;
        } else if (j->ended && j->filter != NULL && j->filter->filter != NULL) {
            j->filter->ops->stats(j->filter->filter, &j->stats);
        }
    }
    if (j->ended && hspz_filter_takes_keys(j->base.method)) {
        /* It may be large, and freeing it slow: not on the loop. Its length stays for the refund.
         */
        free(j->frame.bytes);
        j->frame.bytes = NULL;
        free(j->input);
        j->input = NULL;
    }
    j->turn_ns = uv_hrtime() - start;
    j->engine_ns += j->turn_ns;
}

void
hspz_filter_job_run_turn(struct hspz_task *task, struct hspz_worker *worker)
{
    run(hspz_filter_job_of(hspz_conn_job_of_task(task)), worker);
}

void
hspz_filter_job_run_piece(struct hspz_aside_piece *piece)
{
    run(piece->owner, NULL);
}
