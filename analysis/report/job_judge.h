/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a page (analysis/report/job_page.h). */
#pragma once

#include "analysis/report/job_page.h"

/** capo_judge() - judge everything. Problems that the caller has added stay first. Call
 * capo_page_finish(). */
void capo_judge(struct capo_page *page);

/* Its steps, in this order; each may use the results of those before. */
void capo_judge_rows(struct capo_page *page);     /* rows, judged, others, classes, totals */
void capo_judge_exposed(struct capo_page *page);  /* exposed_most */
void capo_judge_waits(struct capo_page *page);    /* waits */
void capo_judge_places(struct capo_page *page);   /* places, rules */
void capo_judge_links(struct capo_page *page);    /* links */
void capo_judge_creation(struct capo_page *page); /* created, creation */
void capo_judge_problems(struct capo_page *page); /* problems; of single logs: */
void capo_judge_logs(struct capo_page *page);
void capo_judge_endings(struct capo_page *page); /* when and in which call processes ended badly */
void capo_judge_next(struct capo_page *page);    /* next */

/** capo_known_nccl_share() - the NCCL share of the job's @steps as the report prints it; < 0: not
 * known. */
double capo_known_nccl_share(struct capo_job *job, const struct capo_job_steps *steps);

/** capo_process_ended() - did it end by itself? True if its exit was recorded, or if all its
 * communicators were destroyed before its memory was recovered. */
bool capo_process_ended(const struct capo_job *job, const struct capo_job_process *p);

/** capo_process_tuned_by() - the profile that tuned it: "1111aaaa (/shared/p.json)". @id: equal for
 * ranks that decide alike, as far as known; "none": untuned. */
void capo_process_tuned_by(const struct capo_job_process *p, char *text, size_t room, char id[160]);

/** capo_few_uncompared() - are so few calls not compared that it has another cause if the waiting
 * is not known? Sampling more calls does not help then. */
bool capo_few_uncompared(uint64_t compared, uint64_t calls);

/** capo_sample_advice() - what would time more calls: "--sample 1 times all"; if that was set:
 * "all that found a free event". */
const char *capo_sample_advice(const struct capo_job *job);

/** capo_few_text() - the calls that hold most of the waiting: "call #31", "calls #1 to #4", "4 calls
 * from #80 to #320". Return: @text. */
char *capo_few_text(const struct capo_skew *k, char text[96]);

/** capo_process_of_here() - did it run on this machine since its last boot? As far as its log
 * tells. */
bool capo_process_of_here(const struct capo_job_process *p);

/** capo_process_away() - did it run on another machine, and is it unknown whether it still does? */
bool capo_process_away(const struct capo_job_process *p);

/** capo_process_alive() - does it still run on this machine? */
bool capo_process_alive(const struct capo_job_process *p);

/** capo_problem_left_out() - report a log that is not in the job, and why. */
void capo_problem_left_out(struct capo_page *page, const char *path, const char *why);

/** capo_problem_rank(), capo_problem_ranks() - one more rank that a problem is of; negative: not
 * known. The ranks below @n for which @is is false. */
void capo_problem_rank(struct capo_problem *p, int rank);
void capo_problem_ranks(struct capo_problem *p, const bool *is, uint32_t n);

/** capo_ranks_text() - the ranks below @n for which @is is false, as "3, 17-19". The caller frees
 * it; NULL: there are none. */
char *capo_ranks_text(const bool *is, uint32_t n);
