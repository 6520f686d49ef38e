#include "engine/cuda/build_block.h"

#include "engine/cuda/cuda_status.h"

#define ALIGN 256u
#define PIECE_MOST (UINT64_C(1) << 30) /* windows */
#define PIECE_LEAST UINT64_C(4096)     /* smaller ones save nothing */

/* Where everything of a piece lies in the work buffer. */
struct layout {
    uint64_t bases, counts, words[2], starts[2], temp;
    uint64_t temp_bytes, bytes;
};

static unsigned
word_bits(const struct hspz_cuda_build_block *b)
{
    return 2 * b->params->shape.weight;
}

static uint64_t
table_bytes(const struct hspz_cuda_build_block *b)
{
    return hspz_shape_words(&b->params->shape) * UINT64_C(4);
}

static enum hspz_status
check(const struct hspz_cuda_build_block *b, cudaError_t error, struct hspz_error *err)
{
    return hspz_cuda_check(error, b->device->label, "building an index", err);
}

/* ---- memory ---- */

static uint64_t
place(struct layout *layout, uint64_t bytes)
{
    const uint64_t at = layout->bytes;
    layout->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static uint64_t
starts_of(const struct hspz_cuda_build_block *b, uint64_t windows)
{
    return (windows - 1) * b->params->step + 1;
}

static uint64_t
tiles_of(uint64_t starts)
{
    return (starts + HSPZ_CUDA_SEED_BLOCK - 1) / HSPZ_CUDA_SEED_BLOCK;
}

static enum hspz_status
lay_out(const struct hspz_cuda_build_block *b, uint64_t windows, struct layout *out,
        struct hspz_error *err)
{
    const uint64_t starts = starts_of(b, windows);
    const uint64_t counts = tiles_of(starts) + 1;
    const uint64_t words = hspz_shape_words(&b->params->shape);
    size_t temp_bytes = 0;
    const enum hspz_status status =
        check(b,
              hspz_cuda_build_temp_bytes(windows, word_bits(b), words > counts ? words : counts,
                                         &temp_bytes),
              err);
    struct layout layout = {.temp_bytes = temp_bytes};
    layout.bases = place(&layout, starts + b->params->shape.span - 1);
    layout.counts = place(&layout, counts * sizeof(uint32_t));
    for (unsigned i = 0; i < 2; i++) {
        layout.words[i] = place(&layout, windows * sizeof(uint32_t));
        layout.starts[i] = place(&layout, windows * sizeof(uint32_t));
    }
    layout.temp = place(&layout, temp_bytes);
    *out = layout;
    return status;
}

static void
divide(struct hspz_cuda_build_block *b, const struct layout *layout)
{
    uint8_t *const work = b->work.data;
    b->piece_bases = work + layout->bases;
    b->counts = (uint32_t *)(work + layout->counts);
    for (unsigned i = 0; i < 2; i++) {
        b->pairs.words[i] = (uint32_t *)(work + layout->words[i]);
        b->pairs.starts[i] = (uint32_t *)(work + layout->starts[i]);
    }
    b->temp = work + layout->temp;
    b->temp_bytes = layout->temp_bytes;
}

/* Memory for pieces of `windows`. HSPZ_E_OUT_OF_MEMORY also when they would take more than half of
 * what is left, unless they are as small as it makes sense. */
static enum hspz_status
reserve(struct hspz_cuda_build_block *b, uint64_t windows, struct hspz_error *err)
{
    struct layout layout;
    const bool whole = windows == b->windows.count;
    enum hspz_status status = lay_out(b, windows, &layout, err);
    if (status == HSPZ_OK) {
        status = hspz_cuda_buffer_reserve(b->device, &b->table, table_bytes(b), err);
    }
    if (status == HSPZ_OK && !whole) {
        status =
            hspz_cuda_buffer_reserve(b->device, &b->pos, b->windows.count * sizeof(uint32_t), err);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    pthread_mutex_lock(&b->device->mutex);
    const uint64_t left = b->device->used_bytes < b->device->budget_bytes
                              ? b->device->budget_bytes - b->device->used_bytes
                              : 0;
    pthread_mutex_unlock(&b->device->mutex);
    if (layout.bytes > left / 2 && windows > PIECE_LEAST) {
        return HSPZ_E_OUT_OF_MEMORY;
    }
    status = hspz_cuda_buffer_reserve(b->device, &b->work, layout.bytes, err);
    if (status == HSPZ_OK) {
        divide(b, &layout);
    }
    return status;
}

enum hspz_status
hspz_cuda_build_block_init(struct hspz_cuda_build_block *b, struct hspz_cuda_device *device,
                           const struct hspz_index_params *params, const uint8_t *bases,
                           uint64_t bases_len, struct hspz_error *err)
{
    *b = (struct hspz_cuda_build_block){.device = device,
                                        .params = params,
                                        .bases = bases,
                                        .bases_len = bases_len,
                                        .windows = hspz_index_windows(params, bases_len)};
    enum hspz_status status =
        check(b, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), err);
    if (status != HSPZ_OK) {
        return status;
    }
    if (b->windows.count == 0) {
        status = hspz_cuda_buffer_reserve(device, &b->table, table_bytes(b), err);
    } else {
        status = HSPZ_E_OUT_OF_MEMORY;
        for (uint64_t pieces = 1; status == HSPZ_E_OUT_OF_MEMORY; pieces *= 2) {
            b->piece_windows = (b->windows.count + pieces - 1) / pieces;
            if (b->piece_windows <= PIECE_MOST) {
                status = reserve(b, b->piece_windows, err);
                if (b->piece_windows <= PIECE_LEAST) {
                    break;
                }
            }
        }
        b->piece_count = (b->windows.count + b->piece_windows - 1) / b->piece_windows;
    }
    if (status != HSPZ_OK) {
        hspz_cuda_build_block_fini(b);
    }
    return status;
}

void
hspz_cuda_build_block_fini(struct hspz_cuda_build_block *b)
{
    if (b->stream != NULL) {
        (void)cudaStreamSynchronize(b->stream);
        (void)cudaStreamDestroy(b->stream);
        b->stream = NULL;
    }
    hspz_cuda_buffer_free(b->device, &b->work);
    hspz_cuda_buffer_free(b->device, &b->pos);
    hspz_cuda_buffer_free(b->device, &b->table);
}

/* ---- one piece ---- */

enum hspz_status
hspz_cuda_build_block_upload(struct hspz_cuda_build_block *b, uint64_t piece,
                             struct hspz_cuda_piece *out, struct hspz_error *err)
{
    const struct hspz_shape *shape = &b->params->shape;
    const uint64_t before = piece * b->piece_windows;
    const uint64_t left = b->windows.count - before;
    const uint64_t first = b->windows.first + before * b->params->step;
    const uint64_t starts = starts_of(b, left < b->piece_windows ? left : b->piece_windows);
    *out = (struct hspz_cuda_piece){.bases = b->piece_bases,
                                    .starts = (uint32_t)starts,
                                    .first = (uint32_t)first,
                                    .step = b->params->step,
                                    .span = shape->span,
                                    .care = hspz_shape_care(shape),
                                    .unmask = b->params->unmask};
    return check(b,
                 cudaMemcpyAsync(b->piece_bases, b->bases + first, starts + shape->span - 1,
                                 cudaMemcpyHostToDevice, b->stream),
                 err);
}

/* Sorted pairs of the piece. */
static enum hspz_status
sort_piece(struct hspz_cuda_build_block *b, const struct hspz_cuda_piece *piece, uint64_t *count,
           struct hspz_error *err)
{
    const uint64_t tiles = tiles_of(piece->starts);
    uint32_t found = 0;
    cudaError_t error = hspz_cuda_launch_piece_count(piece, b->counts, b->stream);
    if (error == cudaSuccess) {
        error =
            hspz_cuda_launch_sums(b->counts, tiles + 1, false, b->temp, b->temp_bytes, b->stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(&found, b->counts + tiles, sizeof(found), cudaMemcpyDeviceToHost,
                                b->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_piece_pairs(piece, b->counts, &b->pairs, b->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(b->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_sort(&b->pairs, found, word_bits(b), b->temp, b->temp_bytes,
                                      b->stream);
    }
    *count = found;
    return check(b, error, err);
}

static enum hspz_status
clear_table(struct hspz_cuda_build_block *b, struct hspz_error *err)
{
    return check(b, cudaMemsetAsync(b->table.data, 0, table_bytes(b), b->stream), err);
}

static enum hspz_status
sum_table(struct hspz_cuda_build_block *b, bool inclusive, struct hspz_error *err)
{
    return check(b,
                 hspz_cuda_launch_sums(b->table.data, hspz_shape_words(&b->params->shape),
                                       inclusive, b->temp, b->temp_bytes, b->stream),
                 err);
}

/* ---- whole ---- */

enum hspz_status
hspz_cuda_build_block_whole(struct hspz_cuda_build_block *b, const struct hspz_cuda_piece *piece,
                            struct hspz_error *err)
{
    uint64_t count = 0;
    enum hspz_status status = clear_table(b, err);
    if (status == HSPZ_OK) {
        status = sort_piece(b, piece, &count, err);
    }
    if (status == HSPZ_OK) {
        const uint32_t *words = b->pairs.words[b->pairs.now];
        cudaError_t error = hspz_cuda_launch_begin_runs(words, count, b->table.data, b->stream);
        if (error == cudaSuccess) {
            error = hspz_cuda_launch_end_runs(words, count, b->table.data, b->stream);
        }
        status = check(b, error, err);
    }
    if (status == HSPZ_OK) {
        status = sum_table(b, true, err);
    }
    b->positions = b->pairs.starts[b->pairs.now];
    b->position_count = count;
    return status;
}

/* ---- pieces ---- */

static enum hspz_status
watch_piece(const struct hspz_cuda_build_block *b, const struct hspz_cuda_build_watch *watch,
            unsigned pass, uint64_t piece, struct hspz_error *err)
{
    const uint64_t done = pass * b->bases_len + b->bases_len * (piece + 1) / b->piece_count;
    if (watch->fn != NULL && !watch->fn(watch->user, done)) {
        return hspz_error_set(err, HSPZ_E_STOPPED, "the index build was stopped");
    }
    return HSPZ_OK;
}

static enum hspz_status
count_pieces(struct hspz_cuda_build_block *b, const struct hspz_cuda_build_watch *watch,
             struct hspz_error *err)
{
    enum hspz_status status = clear_table(b, err);
    for (uint64_t p = 0; p < b->piece_count && status == HSPZ_OK; p++) {
        struct hspz_cuda_piece piece;
        status = hspz_cuda_build_block_upload(b, p, &piece, err);
        if (status == HSPZ_OK) {
            status = check(b, hspz_cuda_launch_piece_words(&piece, b->table.data, b->stream), err);
        }
        if (status == HSPZ_OK) {
            status = watch_piece(b, watch, 0, p, err);
        }
    }
    return status;
}

static enum hspz_status
scatter_piece(struct hspz_cuda_build_block *b, const struct hspz_cuda_piece *piece,
              struct hspz_error *err)
{
    uint64_t count = 0;
    const enum hspz_status status = sort_piece(b, piece, &count, err);
    if (status != HSPZ_OK) {
        return status;
    }
    b->position_count += count;
    const uint32_t *words = b->pairs.words[b->pairs.now];
    cudaError_t error = hspz_cuda_launch_begin_runs(words, count, b->table.data, b->stream);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_scatter(words, b->pairs.starts[b->pairs.now], count, b->table.data,
                                         b->pos.data, b->stream);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_end_runs(words, count, b->table.data, b->stream);
    }
    return check(b, error, err);
}

static enum hspz_status
run_pieces(struct hspz_cuda_build_block *b, const struct hspz_cuda_build_watch *watch,
           struct hspz_error *err)
{
    enum hspz_status status = count_pieces(b, watch, err);
    if (status == HSPZ_OK) {
        status = sum_table(b, false, err);
    }
    b->positions = b->pos.data;
    for (uint64_t p = 0; p < b->piece_count && status == HSPZ_OK; p++) {
        struct hspz_cuda_piece piece;
        status = hspz_cuda_build_block_upload(b, p, &piece, err);
        if (status == HSPZ_OK) {
            status = scatter_piece(b, &piece, err);
        }
        if (status == HSPZ_OK) {
            status = watch_piece(b, watch, 1, p, err);
        }
    }
    return status;
}

enum hspz_status
hspz_cuda_build_block_run(struct hspz_cuda_build_block *b,
                          const struct hspz_cuda_build_watch *watch, struct hspz_error *err)
{
    enum hspz_status status;
    if (b->piece_count == 0) {
        status = clear_table(b, err);
    } else if (b->piece_count == 1) {
        struct hspz_cuda_piece piece;
        status = hspz_cuda_build_block_upload(b, 0, &piece, err);
        if (status == HSPZ_OK) {
            status = watch_piece(b, watch, 0, 0, err);
        }
        if (status == HSPZ_OK) {
            status = hspz_cuda_build_block_whole(b, &piece, err);
        }
        if (status == HSPZ_OK) {
            status = watch_piece(b, watch, 1, 0, err);
        }
    } else {
        status = run_pieces(b, watch, err);
    }
    return status == HSPZ_OK ? check(b, cudaStreamSynchronize(b->stream), err) : status;
}

enum hspz_status
hspz_cuda_build_block_download(const struct hspz_cuda_build_block *b, uint32_t *table,
                               uint32_t *pos, struct hspz_error *err)
{
    cudaError_t error =
        cudaMemcpyAsync(table, b->table.data, table_bytes(b), cudaMemcpyDeviceToHost, b->stream);
    if (error == cudaSuccess && b->position_count > 0) {
        error = cudaMemcpyAsync(pos, b->positions, b->position_count * sizeof(uint32_t),
                                cudaMemcpyDeviceToHost, b->stream);
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(b->stream);
    }
    return check(b, error, err);
}
