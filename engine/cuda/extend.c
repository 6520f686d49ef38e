#include "engine/cuda/extend.h"

#include "engine/cuda/batch_p.h"
#include "engine/cuda/pack.h"

/* Less than this part of the HSPs there is room for come to the host as they are: to sort so few
 * takes longer there than here. */
#define FEW_PART 32u
/* Windows of one call, so that a job can be cancelled. */
#define CALL_WINDOWS 16u

/* The counters, on the device and on the host. */
enum { COUNT_LEFT, COUNT_HSPS, COUNT_UNIQUE, COUNTERS };

/* ---- memory ---- */

uint64_t
hspz_cuda_extend_host_bytes(void)
{
    return COUNTERS * sizeof(uint64_t) + HSPZ_CUDA_EXTEND_HSPS * HSPZ_HSP_BYTES;
}

static enum hspz_status
reserve_sets(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    struct hspz_cuda_batch *batch = run->batch;
    size_t temp_bytes = 0;
    batch->extend_hits = batch->window_len;
    batch->extend_hsps =
        batch->window_len < HSPZ_CUDA_EXTEND_HSPS ? batch->window_len : HSPZ_CUDA_EXTEND_HSPS;
    const uint64_t hsps_bytes = batch->extend_hsps * HSPZ_HSP_BYTES;
    enum hspz_status status = hspz_cuda_run_check(
        run, hspz_cuda_hsps_temp_bytes(batch->extend_hsps, &temp_bytes), "sorting HSPs");
    struct {
        struct hspz_cuda_buffer *buffer;
        uint64_t bytes;
    } const needs[] = {
        {&scratch->left, batch->window_len * sizeof(uint64_t)},
        {&scratch->hsps[0], hsps_bytes},
        {&scratch->hsps[1], hsps_bytes},
        {&scratch->hsps_temp, temp_bytes},
        {&scratch->counters, COUNTERS * sizeof(uint64_t)},
    };
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]) && status == HSPZ_OK; i++) {
        status = hspz_cuda_run_reserve(run, needs[i].buffer, needs[i].bytes);
    }
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve_pinned(run, &scratch->host_hsps, hsps_bytes);
    }
    return status == HSPZ_OK ? hspz_cuda_run_reserve_pinned(run, &scratch->host_counters,
                                                            COUNTERS * sizeof(uint64_t))
                             : status;
}

/* Windows and what comes behind them; smaller ones when memory is short. */
static enum hspz_status
open_windows(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_batch *batch = run->batch;
    uint64_t most = UINT64_MAX;
    for (;;) {
        enum hspz_status status = hspz_cuda_batch_open_windows(run, most);
        if (status == HSPZ_OK) {
            status = reserve_sets(run);
        }
        if (status == HSPZ_OK) {
            return HSPZ_OK;
        }
        const uint64_t len = batch->window_len;
        batch->window_len = 0;
        if (status != HSPZ_E_OUT_OF_MEMORY || len <= HSPZ_CUDA_WINDOW_LEAST) {
            return status;
        }
        hspz_cuda_buffer_free(run->lane->device, &run->scratch->anchors[0]);
        hspz_cuda_buffer_free(run->lane->device, &run->scratch->anchors[1]);
        hspz_cuda_buffer_free(run->lane->device, &run->scratch->left);
        most = len / 2;
    }
}

/* The strand's sequence, once as long as the job keeps its scratch. */
static enum hspz_status
pack_query(const struct hspz_cuda_run *run, const struct hspz_cuda_extend *how)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    if (scratch->query_packed[how->strand]) {
        return HSPZ_OK;
    }
    const struct hspz_cuda_pack what = {.bases = how->query,
                                        .minus = how->strand == HSPZ_STRAND_MINUS,
                                        .unmask = how->query_unmask};
    const enum hspz_status status =
        hspz_cuda_pack(run->lane->device, run->lane->work, &what, &scratch->staging,
                       &scratch->query[how->strand], run->err);
    scratch->query_packed[how->strand] = status == HSPZ_OK;
    return status;
}

enum hspz_status
hspz_cuda_extend_open(const struct hspz_cuda_run *run, const struct hspz_cuda_extend *how)
{
    if (run->index->packed == NULL) {
        return hspz_error_set(run->err, HSPZ_E_OUT_OF_MEMORY,
                              "%s: there was no memory for a reference's sequence beside its index",
                              run->lane->device->label);
    }
    const enum hspz_status status = run->batch->window_len != 0 ? HSPZ_OK : open_windows(run);
    return status == HSPZ_OK ? pack_query(run, how) : status;
}

/* ---- HSPs to the host ---- */

/* The counters are on their way to the host, as all that was given to the device leaves them. */
static enum hspz_status
fetch_counters(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    cudaError_t error = cudaEventRecord(scratch->extended, run->lane->work);
    if (error == cudaSuccess) {
        error = cudaStreamWaitEvent(run->lane->copy, scratch->extended, 0);
    }
    if (error == cudaSuccess) {
        error =
            cudaMemcpyAsync(scratch->host_counters.data, scratch->counters.data,
                            COUNTERS * sizeof(uint64_t), cudaMemcpyDeviceToHost, run->lane->copy);
    }
    return hspz_cuda_run_check(run, error, "counting HSPs");
}

static enum hspz_status
wait_for_counters(const struct hspz_cuda_run *run, uint64_t counters[COUNTERS])
{
    const enum hspz_status status =
        hspz_cuda_lane_wait(run->lane, run->lane->copy, "extending hits", run->err);
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = ((const uint64_t *)run->scratch->host_counters.data)[i];
    }
    return status;
}

/* Sorted and each once, into the other buffer. */
static enum hspz_status
drop_equal(const struct hspz_cuda_run *run, uint64_t *count)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    unsigned long long *const counters = scratch->counters.data;
    uint64_t values[COUNTERS];
    enum hspz_status status = hspz_cuda_run_check(
        run,
        hspz_cuda_launch_hsps_unique(scratch->hsps[0].data, *count, scratch->hsps[1].data,
                                     &counters[COUNT_UNIQUE], scratch->hsps_temp.data,
                                     scratch->hsps_temp.bytes, run->lane->work),
        "sorting HSPs");
    if (status == HSPZ_OK) {
        status = fetch_counters(run);
    }
    if (status == HSPZ_OK) {
        status = wait_for_counters(run, values);
    }
    if (status == HSPZ_OK) {
        *count = values[COUNT_UNIQUE];
    }
    return status;
}

static enum hspz_status
add_to(const struct hspz_cuda_run *run, uint64_t count, struct hspz_hsp_set *set)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const struct hspz_cuda_buffer *from = &scratch->hsps[0];
    if (count == 0) {
        return HSPZ_OK;
    }
    if (count > run->batch->extend_hsps / FEW_PART) {
        const enum hspz_status status = drop_equal(run, &count);
        if (status != HSPZ_OK) {
            return status;
        }
        from = &scratch->hsps[1];
    }
    enum hspz_status status = hspz_cuda_run_check(
        run,
        cudaMemcpyAsync(scratch->host_hsps.data, from->data, count * HSPZ_HSP_BYTES,
                        cudaMemcpyDeviceToHost, run->lane->copy),
        "downloading HSPs");
    if (status == HSPZ_OK) {
        status = hspz_cuda_lane_wait(run->lane, run->lane->copy, "downloading HSPs", run->err);
    }
    return status == HSPZ_OK ? hspz_hsp_set_add(set, scratch->host_hsps.data, count, run->err)
                             : status;
}

/* ---- extend ---- */

struct hspz_cuda_extension
hspz_cuda_extension_of(const struct hspz_cuda_run *run, const struct hspz_cuda_extend *how)
{
    const struct hspz_cuda_seeds *seeds = &run->batch->seeds;
    struct hspz_cuda_extension extension = {
        .ref = run->index->packed,
        .query = run->scratch->query[how->strand].data,
        .scoring = *how->scoring,
    };
    hspz_packed_scores_init(&extension.scores, how->scoring);
    hspz_packed_seeds_init(&extension.seeds, how->shape, how->transitions, run->index->step);
    extension.seeds.known = how->all_hits;
    extension.seeds.first_ref = run->index->first;
    extension.seeds.first_query = how->first_query;
    if (how->scoring->scope == HSPZ_SCOPE_CHUNK) {
        extension.behind = (const uint64_t *)seeds->words + how->first_seed / seeds->per_window;
    }
    return extension;
}

/* The first of the counters, or all. */
static cudaError_t
clear(const struct hspz_cuda_run *run, int count)
{
    return cudaMemsetAsync(run->scratch->counters.data, 0, (size_t)count * sizeof(uint64_t),
                           run->lane->work);
}

/* Appends the HSPs of hits [begin, end), all of one window. */
static enum hspz_status
extend_some(const struct hspz_cuda_run *run, const struct hspz_cuda_extension *extension,
            uint64_t begin, uint64_t end, uint64_t counters[COUNTERS])
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const uint64_t number = begin / run->batch->window_len;
    const uint64_t *anchors =
        (const uint64_t *)scratch->anchors[number & 1].data + begin % run->batch->window_len;
    unsigned long long *const count = scratch->counters.data;
    const struct hspz_cuda_anchors left = {scratch->left.data, &count[COUNT_LEFT]};
    const struct hspz_cuda_hsp_list hsps = {scratch->hsps[0].data, &count[COUNT_HSPS],
                                            run->batch->extend_hsps};
    cudaStream_t const work = run->lane->work;
    enum hspz_status status = hspz_cuda_batch_expand_window(run, number);
    if (status != HSPZ_OK) {
        return status;
    }
    cudaError_t error = clear(run, COUNT_LEFT + 1);
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_gate(extension, anchors, end - begin, &left, work);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_extend(extension, &left, &hsps, run->lane->device->multiprocessors,
                                        work);
    }
    status = hspz_cuda_run_check(run, error, "extending hits");
    if (status == HSPZ_OK) {
        status = fetch_counters(run);
    }
    if (status == HSPZ_OK) {
        /* While the host takes its turn. */
        status = hspz_cuda_batch_expand_window(run, number + 1);
    }
    const enum hspz_status waited = wait_for_counters(run, counters);
    return status == HSPZ_OK ? waited : status;
}

/* Extends up to `end`, until enough HSPs are *held; *at says how far it came. */
static enum hspz_status
extend_many(const struct hspz_cuda_run *run, const struct hspz_cuda_extension *extension,
            uint64_t *at, uint64_t end, uint64_t *held)
{
    struct hspz_cuda_batch *batch = run->batch;
    const uint64_t len = batch->window_len;
    bool fresh = true;
    while (*at < end && *held < batch->extend_hsps / 2) {
        uint64_t counters[COUNTERS];
        uint64_t to = (*at / len + 1) * len;
        to = to < end ? to : end;
        to = to - *at < batch->extend_hits ? to : *at + batch->extend_hits;
        enum hspz_status status =
            fresh ? hspz_cuda_run_check(run, clear(run, COUNTERS), "extending hits") : HSPZ_OK;
        if (status == HSPZ_OK) {
            status = extend_some(run, extension, *at, to, counters);
        }
        if (status != HSPZ_OK) {
            return status;
        }
        fresh = counters[COUNT_HSPS] > batch->extend_hsps;
        if (!fresh) {
            *held = counters[COUNT_HSPS];
            *at = to;
        } else if (*held > 0) {
            return HSPZ_OK; /* what is held first; this again */
        } else {
            /* There are no more HSPs than hits. */
            const uint64_t half = (to - *at) / 2;
            batch->extend_hits = half > batch->extend_hsps ? half : batch->extend_hsps;
        }
    }
    return HSPZ_OK;
}

enum hspz_status
hspz_cuda_batch_extend(const struct hspz_cuda_run *run, const struct hspz_cuda_extend *how,
                       uint64_t begin, uint64_t end, struct hspz_hsp_set *set, uint64_t *count)
{
    enum hspz_status status = hspz_cuda_extend_open(run, how);
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_extension extension = hspz_cuda_extension_of(run, how);
    const uint64_t most = CALL_WINDOWS * run->batch->window_len;
    uint64_t at = begin, held = 0;
    status = extend_many(run, &extension, &at, end - begin < most ? end : begin + most, &held);
    if (status == HSPZ_OK) {
        status = add_to(run, held, set);
    }
    *count = at - begin;
    return status;
}
