/* Anchors by columns to the host. While a part is copied from one buffer, the one that follows is
 * written to the other. */
#include "engine/cuda/batch_p.h"

/* Bytes of the smallest buffer. */
#define PART_LEAST 1024u

/* Once a batch: the windows that have hits. */
static enum hspz_status
make_runs(const struct hspz_cuda_run *run)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    struct hspz_cuda_batch *batch = run->batch;
    const struct hspz_cuda_records *records = &batch->records;
    const bool shared = batch->seeds.per_window > 1;
    const uint64_t windows = batch->seeds.capacity / batch->seeds.per_window;
    const uint64_t most = records->count < windows ? records->count : windows;
    const uint64_t marks_bytes = shared ? records->count * sizeof(uint32_t) : 0;
    size_t temp_bytes = 0;
    cudaError_t error =
        shared ? hspz_cuda_sums_temp_bytes(records->count, &temp_bytes) : cudaSuccess;
    enum hspz_status status = hspz_cuda_run_check(run, error, "finding windows");
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->runs, most * sizeof(uint64_t));
    }
    if (status == HSPZ_OK && shared) {
        status = hspz_cuda_run_reserve(run, &scratch->run_of, marks_bytes);
    }
    if (status == HSPZ_OK && shared) {
        status = hspz_cuda_run_reserve(run, &scratch->sums_temp, temp_bytes);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_runs runs = {.run_of = shared ? scratch->run_of.data : NULL,
                                        .runs = scratch->runs.data};
    if (shared) {
        error = hspz_cuda_launch_mark_runs(records, runs.run_of, run->lane->work);
    }
    if (shared && error == cudaSuccess) {
        error = hspz_cuda_launch_sums(runs.run_of, records->count, true, scratch->sums_temp.data,
                                      temp_bytes, run->lane->work);
    }
    if (error == cudaSuccess) {
        error = hspz_cuda_launch_runs(records, &runs, run->lane->work);
    }
    if (error == cudaSuccess) {
        batch->runs = runs;
    }
    return hspz_cuda_run_check(run, error, "finding windows");
}

/* Two buffers of a part, smaller when memory is short, and what says how much is in them. */
static enum hspz_status
open_parts(const struct hspz_cuda_run *run, size_t bytes)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    const uint64_t fits_bytes = 2 * sizeof(struct hspz_cuda_fit);
    enum hspz_status status = hspz_cuda_run_reserve(run, &scratch->counters, fits_bytes);
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve_pinned(run, &scratch->host_counters, fits_bytes);
    }
    uint64_t most = bytes;
    if (run->tuning->window_hits != 0) {
        const uint64_t wanted = run->tuning->window_hits * sizeof(uint64_t);
        most = wanted < most ? wanted : most;
    }
    most = most < PART_LEAST ? PART_LEAST : most;
    while (status == HSPZ_OK) {
        status = hspz_cuda_run_reserve(run, &scratch->anchors[0], most);
        if (status == HSPZ_OK) {
            status = hspz_cuda_run_reserve(run, &scratch->anchors[1], most);
        }
        if (status == HSPZ_OK) {
            run->batch->columns_bytes = most;
            return HSPZ_OK;
        }
        if (status == HSPZ_E_OUT_OF_MEMORY && most >= 2 * PART_LEAST) {
            hspz_cuda_buffer_free(run->lane->device, &scratch->anchors[0]);
            hspz_cuda_buffer_free(run->lane->device, &scratch->anchors[1]);
            most /= 2;
            status = HSPZ_OK;
        }
    }
    return status;
}

/* Has the part written that begins at ready->begin. */
static enum hspz_status
write_part(const struct hspz_cuda_run *run, unsigned which, const struct hspz_cuda_ready *ready)
{
    struct hspz_cuda_scratch *scratch = run->scratch;
    struct hspz_cuda_batch *batch = run->batch;
    struct hspz_cuda_fit *const on_host = scratch->host_counters.data;
    const struct hspz_cuda_columns columns = {
        .out = scratch->anchors[which].data,
        .fit = (struct hspz_cuda_fit *)scratch->counters.data + which,
        .begin = ready->begin,
        .end = ready->end,
        .bytes = ready->bytes,
    };
    batch->ready[which] = (struct hspz_cuda_ready){0};
    cudaError_t error = hspz_cuda_launch_columns(run->index, &batch->records, &batch->runs,
                                                 &columns, run->lane->work);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(&on_host[which], columns.fit, sizeof(*on_host),
                                cudaMemcpyDeviceToHost, run->lane->work);
    }
    if (error == cudaSuccess) {
        error = cudaEventRecord(scratch->expanded[which], run->lane->work);
    }
    if (error == cudaSuccess) {
        batch->ready[which] = *ready;
    }
    return hspz_cuda_run_check(run, error, "writing columns");
}

/* The buffer that has, or will have, the part. */
static enum hspz_status
find_part(const struct hspz_cuda_run *run, const struct hspz_cuda_ready *wanted, unsigned *which)
{
    for (*which = 0; *which < 2; ++*which) {
        const struct hspz_cuda_ready *ready = &run->batch->ready[*which];
        if (ready->begin == wanted->begin && ready->end == wanted->end &&
            ready->bytes == wanted->bytes) {
            return HSPZ_OK;
        }
    }
    *which = 0;
    return write_part(run, 0, wanted);
}

enum hspz_status
hspz_cuda_batch_columns(const struct hspz_cuda_run *run, uint64_t begin, uint64_t end, void *out,
                        size_t bytes, uint64_t *copied, size_t *used)
{
    struct hspz_cuda_batch *batch = run->batch;
    enum hspz_status status = batch->runs.runs != NULL ? HSPZ_OK : make_runs(run);
    if (status == HSPZ_OK && batch->columns_bytes == 0) {
        status = open_parts(run, bytes);
    }
    if (status != HSPZ_OK) {
        return status;
    }
    struct hspz_cuda_ready part = {begin, end,
                                   bytes < batch->columns_bytes ? bytes : batch->columns_bytes};
    unsigned which;
    status = find_part(run, &part, &which);
    if (status == HSPZ_OK) {
        status = hspz_cuda_run_check(run, cudaEventSynchronize(run->scratch->expanded[which]),
                                     "writing columns");
    }
    if (status != HSPZ_OK) {
        return status;
    }
    const struct hspz_cuda_fit fit =
        ((struct hspz_cuda_fit *)run->scratch->host_counters.data)[which];
    *copied = fit.end - begin;
    *used = fit.run_count * HSPZ_CUDA_RUN_BYTES + *copied * HSPZ_CUDA_REF_BYTES;
    HSPZ_REQUIRE(*copied > 0 && *used <= part.bytes);
    status = hspz_cuda_run_check(run,
                                 cudaMemcpyAsync(out, run->scratch->anchors[which].data, *used,
                                                 cudaMemcpyDeviceToHost, run->lane->copy),
                                 "downloading columns");
    if (status == HSPZ_OK && fit.end < end) {
        part.begin = fit.end;
        status = write_part(run, 1 - which, &part);
    }
    /* Waited for also after a failure: out is the caller's again. */
    const enum hspz_status waited = hspz_cuda_lane_wait(
        run->lane, run->lane->copy, "downloading columns", status == HSPZ_OK ? run->err : NULL);
    return status != HSPZ_OK ? status : waited;
}
