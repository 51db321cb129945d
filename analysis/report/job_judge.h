/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a page (analysis/report/job_page.h). */
#ifndef CAPO_JOB_JUDGE_H
#define CAPO_JOB_JUDGE_H

#include "analysis/report/job_page.h"

/** capo_judge() - all that is judged, from what the caller has given. Problems that the caller has
 * added stay first. Return: 0, -ENOMEM; capo_page_finish() is due in both cases. */
int capo_judge(struct capo_page *page);

/*
 * Its steps, in this order. Return: 0, -ENOMEM. Each may use what those before it have filled.
 */

/** capo_judge_rows() - rows, judged, others, classes and totals (page_rows.c). */
int capo_judge_rows(struct capo_page *page);
/** capo_judge_exposed() - exposed_most (exposed.c). */
int capo_judge_exposed(struct capo_page *page);
/** capo_judge_waits() - waits (lateness.c). */
int capo_judge_waits(struct capo_page *page);
/** capo_judge_creation() - created, creation (creation.c). */
int capo_judge_creation(struct capo_page *page);
/** capo_judge_places() - places and rules (places.c). */
int capo_judge_places(struct capo_page *page);
/** capo_judge_links() - links (nic_notes.c). */
int capo_judge_links(struct capo_page *page);
/** capo_judge_problems() - problems (problems.c, log_problems.c). */
int capo_judge_problems(struct capo_page *page);
/** capo_judge_logs() - the problems of single logs (log_problems.c), a step of
 * capo_judge_problems(). */
void capo_judge_logs(struct capo_page *page);
/** capo_judge_next() - next (next_steps.c). */
int capo_judge_next(struct capo_page *page);

/** capo_process_ended() - by itself, as far as is known: an exit that was seen, or all of its
 * communicators destroyed before capo took over what it had not written. */
bool capo_process_ended(const struct capo_job *job, const struct capo_job_process *p);

/** capo_process_tuned_by() - by what: "1111aaaa (/shared/p.json)". @id: equal for ranks that decide
 * alike, as far as this goes; "none". */
void capo_process_tuned_by(const struct capo_job_process *p, char *text, size_t room, char id[160]);

/** capo_judge_stalls() - times in which no rank made a call (stalls.c); a step of
 * capo_judge_problems(). */
void capo_judge_stalls(struct capo_page *page);

/** capo_unseen_waiting() - how long ranks can have waited, mean over them, in silences far longer
 * than the job's usual ones of which no time on the GPU and no start of a call tells: ns. */
double capo_unseen_waiting(const struct capo_job *job);

/** capo_judge_endings() - when processes that did not end by themselves ended, and in which call
 * (endings.c); a step of capo_judge_logs(). */
void capo_judge_endings(struct capo_page *page);

/** capo_process_of_here() - it ran on this very machine since that was started last, as far as its
 * log tells. */
bool capo_process_of_here(const struct capo_job_process *p);

/** capo_process_away() - it is of another machine, and nothing tells whether it runs there still.
 */
bool capo_process_away(const struct capo_job_process *p);

/** capo_process_alive() - it runs on this very machine. */
bool capo_process_alive(const struct capo_job_process *p);

/** capo_problem_left_out() - a log that is not in the job, and why. */
void capo_problem_left_out(struct capo_page *page, const char *path, const char *why);

/** capo_problem_comm(), capo_problem_rank(), capo_problem_ranks() - what the last problem is of: a
 * communicator; one rank more; the ranks below @n for which @is is false. */
void capo_problem_comm(struct capo_page *page, uint32_t comm);
void capo_problem_rank(struct capo_page *page, int rank);
void capo_problem_ranks(struct capo_page *page, const bool *is, uint32_t n);

/** capo_ranks_text() - ranks below @n for which @is is false as "3, 17-19"; owned by the caller;
 * NULL when all are. */
char *capo_ranks_text(const bool *is, uint32_t n);

#endif
