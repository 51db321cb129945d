/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of capo hang. hang_gather.c finds processes and logs; hang_text.c and
 * hang_json.c print. */
#pragma once

#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/log/log_find.h"
#include "analysis/hang/hang_load.h"

/* A log of the job: a process's memory, or a file. */
struct hang_log {
        int pid;       /* the process whose memory it is; 0: a file */
        bool here;     /* that pid is valid in our pid namespace */
        uint8_t known; /* enum capo_hang_known */
};

struct hang_logs {
        struct capo_log_paths paths; /* for memory: the log that the process itself writes */
        struct hang_log *v;          /* one per path */
        uint64_t now_ns;             /* when memory was read, since 1970 */
        uint64_t now_mono_ns;        /* the same by CLOCK_MONOTONIC */
        bool live;                   /* some of the processes run here */
        int unrecorded_pid;          /* the given PID, which capo does not record; 0: none */
};

/** hang_gather() - find the logs of the one job that @words (folders, logs, pids; none: all
 * processes here) mean; prints errors. A single PID without a recording is returned in
 * @out->unrecorded_pid and is no error.
 *
 * Return: 0; -EINVAL: a wrong word; -ENOENT: nothing found; -errno. Call hang_logs_finish() in any
 * case. */
int hang_gather(int n, char **words, struct hang_logs *out);
void hang_logs_finish(struct hang_logs *logs);

/** hang_gather_here() - all recorded processes of this user on this machine, running and killed, by
 * job
 * @folder: only those whose logs are there; NULL: all
 * @below: if there are none, those whose logs are in its subfolders
 * @now_ns: set to when their memory was read, since 1970
 * @jobs: set to @n_jobs items; hang_logs_finish() each and free() it in any case
 *
 * Return: 0; -errno. */
int hang_gather_here(const char *folder, bool below, uint64_t *now_ns, struct hang_logs **jobs,
                     uint32_t *n_jobs);

/* The contents of the page. */
struct hang_page {
        struct hang_logs *logs;
        struct capo_job *job;
        struct capo_hang_job hang;
        struct capo_hang_verdict verdict;
        uint8_t *known;        /* by process */
        bool *here;            /* by process: its pid is valid here; NULL: for none */
        struct capo_log **own; /* by process: the log file beside its memory, if it was opened */
        uint32_t n_stale;      /* processes whose log is incomplete */
        struct capo_page late; /* only with the results of analysis/report/lateness.c: late ranks,
                                  as in the report */
        double after_s;
        bool newest; /* the user named no job */
        bool stacks; /* --stacks: of culprits that run here */
};

/** hang_page_read() - load page->logs as a job, and make the verdict; prints errors. Return: 0;
 * -ENOENT: none can be read. Call hang_page_finish() in any case. */
int hang_page_read(struct hang_page *page);

/** hang_page_judge() - find late ranks; the verdict is that of hang_page_read() */
void hang_page_judge(struct hang_page *page);
void hang_page_finish(struct hang_page *page);

/** hang_flight() - fill page->hang and page->job, which is empty, from dumps of PyTorch's flight
 * recorder; hang_ras() from NCCL's RAS at @where, asked twice, @page->after_s apart. Both print
 * errors. Return: 0; -EINVAL; -errno. */
int hang_flight(struct hang_page *page, int n, char **files);
int hang_ras(struct hang_page *page, const char *where, double timeout_s);

/** hang_stream() - the oldest unfinished call of the @i-th stream on which the GPU was seen not to
 * have finished one; NULL after the last. */
const struct capo_hang_call *hang_stream(const struct hang_page *page, uint32_t process,
                                         uint32_t i);

/** hang_headline() - the second line: the verdict, @gap, how certain it is. free() it. */
char *hang_headline(const struct hang_page *page, const char *gap);

/** hang_next() - the process with the next rank among those that run, or (@ended) in a job that ended
 * that which ended next, after @after (CAPO_HANG_NONE: the first); CAPO_HANG_NONE: no more. */
uint32_t hang_next(const struct hang_page *page, uint32_t after, bool ended);

/** hang_text_stacks() - print the stacks of the threads of @pid from process_stacks(), or why there
 * are none. Return: are there any? */
bool hang_text_stacks(int pid, FILE *out);

/** hang_text_python() - the same for Python, from process_python_now(): no thread is stopped. Prints
 * nothing without Python. */
void hang_text_python(int pid, FILE *out);

/** hang_text_frames() - print the frames of a thread in one line: the innermost one and those of the
 * program's own Python files; without any of these, the @plain innermost
 * @text: lines of frames, innermost first, with or without a leading blank; moved past them
 * @first: text before the first one
 *
 * Return: number of frames printed. */
unsigned hang_text_frames(const char **text, const char *first, unsigned plain, FILE *out);

/** hang_text_threads() - print the stacks of a culprit's threads when its recorder saw the hang; if
 * those are not known, or with --stacks, the current ones. */
void hang_text_threads(const struct hang_page *page, uint32_t process, FILE *out);

/** hang_text(), hang_markdown(), hang_json() - print the page. Return: 0; -EIO. */
int hang_text(const struct hang_page *page, FILE *out);
int hang_json(const struct hang_page *page, FILE *out);

/** hang_of_running() - the verdict on the job that @words mean (as in capo hang), in one line without
 * its newline. NULL: none of it runs here, or nothing is seen to stand. free() it. */
char *hang_of_running(int n, char **words);
