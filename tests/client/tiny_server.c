#include "tests/client/tiny_server.h"

#include "protocol/columns.h"
#include "protocol/filter_message.h"
#include "protocol/message.h"
#include "protocol/stream.h"
#include "protocol/writer.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define ALL_ANCHORS (TINY_SMALL_ANCHORS + TINY_LARGE_ANCHORS)

uint64_t
tiny_server_anchor(uint64_t i)
{
    return (i * 7 + 100) | (i * 3 + 200) << 32;
}

static struct hspz_text
text(const char *s)
{
    return (struct hspz_text){.bytes = s, .len = strlen(s)};
}

static void
write_state(struct hspz_writer *w, uint32_t id)
{
    hspz_response_begin(w, id);
    hspz_write_map(w, 3);
    hspz_write_key_str(w, "version", "1.2.3");
    hspz_write_key_str(w, "state", "ready");
    hspz_write_key_uint(w, "number", 5);
}

static void
write_description(struct hspz_writer *w, uint32_t id, const struct hspz_describe_params *params)
{
    static struct hspz_describe_result result;
    static char names[HSPZ_PAGE_SEQUENCES_LIMIT][16];
    result = (struct hspz_describe_result){
        .index = params->index,
        .state = text("ready"),
        .file = text("f"),
        .shape = text("1111"),
        .weight = 4,
        .span = 4,
        .step = 1,
        .digest = text("0123456789abcdef"),
        .sequence_digest = text("ef46db3751d8e999"),
        .version = text("1.2.3"),
        .block_count = 1,
        .sequence_count = TINY_SEQUENCES,
        .first = params->first,
    };
    for (uint64_t i = params->first; i < TINY_SEQUENCES && result.sequences_here < params->count;
         i++) {
        const size_t at = result.sequences_here++;
        snprintf(names[at], sizeof(names[at]), "s%" PRIu64, i);
        result.sequences[at] =
            (struct hspz_describe_sequence){.name = text(names[at]), .bases = 10, .offset = 11 * i};
    }
    hspz_describe_result_encode(w, id, &result);
}

/* Anchors `begin` and on; of HSPs each is made of two of them. */
static void
write_part(struct hspz_writer *w, uint32_t job, const struct hspz_discover_params *params,
           enum hspz_strand strand, uint64_t begin, uint64_t count)
{
    const bool hsps = params->output == HSPZ_RECORDS_HSPS;
    const bool columnar = params->encoding == HSPZ_ENCODING_COLUMNAR;
    const struct hspz_part_head head = {
        .records = params->output,
        .encoding = params->encoding,
        .job = job,
        .has_interval = params->interval != 0,
        .id = {.strand = strand,
               .last_part = true,
               .seed_end = !hsps || params->scoring.scope == HSPZ_SCOPE_CHUNK,
               .hit_end = count},
    };
    const size_t bytes = columnar ? count * (HSPZ_RUN_BYTES + HSPZ_COLUMN_REF_BYTES)
                                  : count * hspz_record_bytes(params->output);
    hspz_part_encode(w, &head, bytes);
    /* The header of the bin is there; its bytes follow. */
    uint8_t *grown = realloc(w->bytes, w->len + bytes);
    assert_non_null(grown);
    w->bytes = grown;
    for (size_t b = 0; columnar && b < count * HSPZ_RUN_BYTES; b++) {
        const uint64_t run = (tiny_server_anchor(begin + b / 8) >> 32) | UINT64_C(1) << 32;
        w->bytes[w->len++] = (uint8_t)(run >> (8 * (b % 8)));
    }
    for (size_t b = 0; columnar && b < count * HSPZ_COLUMN_REF_BYTES; b++) {
        w->bytes[w->len++] = (uint8_t)(tiny_server_anchor(begin + b / 4) >> (8 * (b % 4)));
    }
    for (size_t b = 0; !columnar && b < bytes; b++) {
        const uint64_t first = hsps ? 2 * begin : begin;
        w->bytes[w->len++] = (uint8_t)(tiny_server_anchor(first + b / 8) >> (8 * (b % 8)));
    }
    w->capacity = w->len;
}

/* *first_len: of the first message. */
static void
write_records(struct hspz_writer *w, uint32_t job, const struct hspz_discover_params *params,
              size_t *first_len)
{
    const bool hsps = params->output == HSPZ_RECORDS_HSPS;
    uint64_t all[2 * ALL_ANCHORS];
    for (uint64_t i = 0; i < 2 * ALL_ANCHORS; i++) {
        all[i] = tiny_server_anchor(i);
    }
    write_part(w, job, params, HSPZ_STRAND_PLUS, 0, TINY_SMALL_ANCHORS);
    *first_len = w->len;
    write_part(w, job, params, HSPZ_STRAND_MINUS, TINY_SMALL_ANCHORS, TINY_LARGE_ANCHORS);
    struct hspz_discover_result result = {
        .totals = {{.hits = TINY_SMALL_ANCHORS, .chunks = 1},
                   {.hits = TINY_LARGE_ANCHORS, .chunks = 1}},
        .chunks = 2,
        .max_hits = 9,
        .index_digest = "0123456789abcdef",
        .has_digest = true,
    };
    result.totals[0].hsps = hsps ? TINY_SMALL_ANCHORS : 0;
    result.totals[1].hsps = hsps ? TINY_LARGE_ANCHORS : 0;
    *(hsps ? &result.hsps : &result.anchors) = ALL_ANCHORS;
    snprintf(result.digest, sizeof(result.digest), "%016" PRIx64,
             (uint64_t)XXH64(all, ALL_ANCHORS * hspz_record_bytes(params->output), 0));
    hspz_discover_result_encode(w, job, &result);
}

/* Appends what a bin header announced. */
static void
append(struct hspz_writer *w, const void *bytes, size_t len)
{
    uint8_t *grown = realloc(w->bytes, w->len + len);
    assert_non_null(grown);
    memcpy(grown + w->len, bytes, len);
    w->bytes = grown;
    w->capacity = w->len += len;
}

/* Every second key is there; the number of each is the key itself. */
static void
write_keys(struct hspz_writer *w, const struct hspz_message *m)
{
    struct hspz_filter_keys_params params;
    assert_int_equal(hspz_filter_keys_decode(m->method, m->params, &params, NULL), HSPZ_OK);
    const uint64_t keys = params.keys.len / 8;
    const uint64_t first[] = {0, keys / 16 * 8, keys};
    uint8_t bits[TINY_KEYS_MOST / 8 + 1];
    assert_true(keys <= TINY_KEYS_MOST);
    for (int part = 0; part < 2; part++) {
        const uint64_t count = first[part + 1] - first[part];
        if (params.answer == HSPZ_ANSWER_NONE || count == 0) {
            continue;
        }
        hspz_answers_encode(
            w, &(struct hspz_answers_head){
                   .job = m->id, .answer = params.answer, .first = first[part], .count = count});
        if (params.answer != HSPZ_ANSWER_BITMAP) {
            append(w, params.keys.bytes + 8 * first[part], 8 * count);
        }
        memset(bits, 0x55, sizeof(bits));
        bits[count / 8] &= (uint8_t)((1u << count % 8) - 1);
        if (params.answer != HSPZ_ANSWER_ARRAY) {
            append(w, bits, (count + 7) / 8);
        }
    }
    const struct hspz_filter_job_result result = {.keys = keys, .yes = (keys + 1) / 2};
    hspz_filter_keys_result_encode(w, m->id, &result);
}

static void
write_entries(struct hspz_writer *w, uint32_t id)
{
    static const uint64_t entries[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
    for (uint64_t first = 0; first < 4; first += 2) {
        hspz_entries_encode(w, &(struct hspz_entries_head){.job = id, .first = first, .count = 2});
        append(w, entries[first], 2 * sizeof(entries[0]));
    }
    hspz_filter_enumerate_result_encode(w, id, &(struct hspz_filter_job_result){.keys = 4});
}

static void
write_filter(struct hspz_writer *w, const struct hspz_message *m)
{
    const struct hspz_filter_list_entry entry = {
        .filter = text("lab/f"), .kind = text("gqf"), .shared = true, .bytes = 9};
    const struct hspz_filter_info info = {.filter = text("f"),
                                          .kind = text("gqf"),
                                          .slots = 64,
                                          .seed = UINT64_MAX,
                                          .load = 0.5,
                                          .filter_full = m->method == HSPZ_METHOD_FILTER_MERGE};
    if (hspz_filter_takes_keys(m->method)) {
        write_keys(w, m);
    } else if (m->method == HSPZ_METHOD_FILTER_LIST) {
        hspz_filter_list_result_encode(w, m->id, 1, 0, &entry, 1);
    } else if (m->method == HSPZ_METHOD_FILTER_ENUMERATE) {
        write_entries(w, m->id);
    } else {
        hspz_filter_info_encode(w, m->id, &info);
    }
}

/* *pause_at: where to pause in what is sent, 0: nowhere. */
static void
write_answer(struct hspz_writer *w, const struct hspz_message *m, size_t *pause_at)
{
    size_t first_len = 0;
    struct hspz_describe_params describe;
    struct hspz_discover_params discover;
    const struct hspz_list_entry entry = {
        .index = text("ref"), .state = text("ready"), .file = text("f"), .bytes = 3};
    const struct hspz_index_result index = {.index = text("ref"),
                                            .digest = text("0123456789abcdef")};
    switch (m->method) {
    case HSPZ_METHOD_INDEX_LIST:
        hspz_list_result_encode(w, m->id, 1, 0, &entry, 1);
        break;
    case HSPZ_METHOD_INDEX_DESCRIBE:
        assert_int_equal(hspz_describe_decode(m->params, &describe, NULL), HSPZ_OK);
        write_description(w, m->id, &describe);
        break;
    case HSPZ_METHOD_INDEX_LOAD:
    case HSPZ_METHOD_INDEX_UNLOAD:
    case HSPZ_METHOD_INDEX_BUILD:
        hspz_index_result_encode(w, m->id, &index);
        break;
    case HSPZ_METHOD_DISCOVER:
        assert_int_equal(hspz_discover_decode(m->params, &discover, NULL), HSPZ_OK);
        write_records(w, m->id, &discover, &first_len);
        *pause_at =
            discover.index.len == 4 && memcmp(discover.index.bytes, "slow", 4) == 0 ? first_len : 0;
        break;
    default:
        if (m->method >= HSPZ_METHOD_FILTER_CREATE && m->method <= HSPZ_METHOD_FILTER_STATS) {
            write_filter(w, m);
        } else {
            write_state(w, m->id);
        }
        break;
    }
}

static bool
answer(int fd, const struct hspz_frame *frame)
{
    struct hspz_doc *doc = NULL;
    struct hspz_message message;
    struct hspz_writer w;
    bool answerable;
    uint8_t *bytes = NULL;
    size_t len = 0;
    hspz_writer_init(&w);
    if (hspz_doc_parse(frame->bytes, frame->len, &doc, NULL) != HSPZ_OK ||
        hspz_message_decode(doc, &message, &answerable, NULL) != HSPZ_OK) {
        return false;
    }
    size_t pause_at = 0;
    write_answer(&w, &message, &pause_at);
    bool sent = hspz_writer_take(&w, &bytes, &len) == HSPZ_OK;
    for (size_t at = 0; sent && at < len;) {
        const size_t stop = at < pause_at ? pause_at : len;
        const ssize_t n = send(fd, bytes + at, stop - at, MSG_NOSIGNAL);
        sent = n > 0;
        at += sent ? (size_t)n : 0;
        if (at == pause_at) {
            usleep(TINY_SLOW_MS * 1000);
        }
    }
    free(bytes);
    hspz_doc_destroy(&doc);
    return sent;
}

static void
serve(int fd)
{
    struct hspz_stream *stream = NULL;
    uint8_t in[4096];
    bool going = hspz_stream_create(1 << 24, NULL, NULL, &stream) == HSPZ_OK;
    while (going) {
        const ssize_t n = recv(fd, in, sizeof(in), 0);
        going = n > 0;
        for (size_t at = 0; going && at < (size_t)n;) {
            struct hspz_frame frame = {0};
            bool ready = false;
            size_t used = 0;
            going = hspz_stream_feed(stream, in + at, (size_t)n - at, &used, &ready, &frame,
                                     NULL) == HSPZ_OK;
            at += used;
            if (going && ready) {
                going = answer(fd, &frame);
                hspz_frame_release(&frame);
            }
        }
    }
    hspz_stream_destroy(&stream);
    close(fd);
}

void
tiny_server_start(struct tiny_server *server)
{
    server->dir = test_tmpdir_make();
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%.90s/s", server->dir);
    char name[128];
    snprintf(name, sizeof(name), "unix:%s", to.sun_path);
    assert_int_equal(hspz_address_parse(name, &server->address, NULL), HSPZ_OK);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(listen(listener, 16), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            const int fd = accept(listener, NULL, NULL);
            if (fd >= 0) {
                serve(fd);
            }
        }
    }
    close(listener);
}

void
tiny_server_stop(struct tiny_server *server)
{
    kill(server->pid, SIGKILL);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    test_tmpdir_remove(&server->dir);
}
