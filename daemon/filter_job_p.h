/* Between filter_job.c, on the loop, filter_start.c and filter_work.c, on a worker or the pool. */
#pragma once

#include "daemon/filter_job.h"

extern const struct hspz_conn_job_ops hspz_filter_job_ops;

struct hspz_filter_job *hspz_filter_job_of(struct hspz_conn_job *job);
struct hspz_service *hspz_filter_job_service(const struct hspz_filter_job *j);
/* Of the content of its filter when it is saved. */
uint64_t hspz_filter_job_image_bytes(const struct hspz_filter_job *j);
/* Frees what the job holds, which no list has. */
void hspz_filter_job_destroy(struct hspz_filter_job *j);

/* Pieces: a turn on a lane; one beside them. */
void hspz_filter_job_run_turn(struct hspz_task *task, struct hspz_worker *worker);
void hspz_filter_job_run_piece(struct hspz_aside_piece *piece);
/* Of a merge: what is taken up is on another device. */
bool hspz_filter_job_moves(const struct hspz_filter_job *j);
