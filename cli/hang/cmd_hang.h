/* SPDX-License-Identifier: Apache-2.0 */
/* capo hang: what its files share. hang_gather.c finds the processes and logs, hang_text.c and
 * hang_json.c say what is known. */
#ifndef CAPO_CLI_HANG_H
#define CAPO_CLI_HANG_H

#include <stdio.h>

#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/log/log_find.h"
#include "analysis/log/log_read.h"
#include "analysis/hang/hang_load.h"
#include "analysis/report/job_page.h"

/* What is known of a log of the job: a process's memory, or a file. */
struct hang_log {
        int pid;       /* of the process whose memory it is; 0: a file */
        bool here;     /* and that is its number here: it is in no namespace of its own */
        uint8_t known; /* enum capo_hang_known */
};

struct hang_logs {
        struct capo_log_paths paths; /* of memory: the log that the process itself writes */
        struct hang_log *v;          /* by paths */
        uint64_t now_ns;             /* when memory was read, since 1970 */
        uint64_t now_mono_ns;        /* the same moment by CLOCK_MONOTONIC */
        bool live;                   /* some of the processes are here and alive */
        int stranger; /* the PID that was asked for and that capo does not record; 0 none */
};

/**
 * hang_gather() - the logs of the one job that @words (folders, logs, pids; none: all processes
 * here) mean Says what is wrong. Return: 0; -EINVAL a wrong word; -ENOENT nothing there; -errno.
 * hang_logs_finish() in any case. A single PID that nothing is recorded of is @out->stranger, and
 * no error.
 */
int hang_gather(int n, char **words, struct hang_logs *out);
void hang_logs_finish(struct hang_logs *logs);

/**
 * hang_gather_here() - all recorded processes of this user here, living and killed, by job
 * @folder: only those whose logs are there; NULL: all
 * @below:  where there are none, those whose logs are in folders below it
 * @now_ns: when their memory was read, since 1970
 * @jobs:   set to @n_jobs items; hang_logs_finish() each and free() it in any case
 *
 * Return: 0; -ENOMEM; -errno.
 */
int hang_gather_here(const char *folder, bool below, uint64_t *now_ns, struct hang_logs **jobs,
                     uint32_t *n_jobs);

/* What there is to say. */
struct hang_page {
        struct hang_logs *logs;
        struct capo_job *job;
        struct capo_hang_job hang;
        struct capo_hang_verdict verdict;
        uint8_t *known;        /* by process */
        bool *here;            /* by process: its number is its number here; NULL: of none */
        struct capo_log **own; /* by process: the file beside its memory, once it was opened */
        uint32_t n_stale;      /* processes whose log is not final */
        struct capo_page late; /* of it only what analysis/report/lateness.c fills: who holds the
                                  others up, as in the report */
        double after_s;
        bool newest; /* nobody named the job */
        bool stacks; /* of culprits that live here: --stacks */
};

/** hang_page_read() - page->logs as a job. Says what is wrong. Return: 0; -ENOENT none can be read;
 * -ENOMEM; hang_page_finish() in any case. */
int hang_page_read(struct hang_page *page);

/** hang_page_judge() - the verdict and the late ranks of what was read. Return: 0; -ENOMEM. */
int hang_page_judge(struct hang_page *page);
void hang_page_finish(struct hang_page *page);

/** hang_flight() - the page of dumps of PyTorch's flight recorder. Says what is wrong. Return: 0;
 * -EINVAL; -errno; -ENOMEM. */
int hang_flight(struct hang_page *page, int n, char **files);

/** hang_ras() - the page of what NCCL's RAS at @where says, asked twice, @page->after_s apart.
 * Return: as above. */
int hang_ras(struct hang_page *page, const char *where, double timeout_s);

/** hang_site() - where call @call of process @process was made, innermost frame first, frames by
 * newlines; NULL. free() it. */
char *hang_site(const struct hang_page *page, uint32_t process, const struct capo_hang_call *call);

/**
 * hang_python() - what the Python of process @process was in when its watch, or that of another
 * rank, saw a hang; nothing where it has made calls since
 * @at_ns: since 1970: that moment
 *
 * Return: to be freed; a line "NUMBER" of each thread, 0 the program's first, then " FILE:LINE
 * FUNCTION" of each frame, innermost first; nothing in it steers a terminal. NULL: not known.
 */
char *hang_python(const struct hang_page *page, uint32_t process, uint64_t *at_ns);

/** hang_native() - the same of C: a line "TID WAIT NAME" of each thread, as a HANG frame has it,
 * then " FRAME" of each frame. */
char *hang_native(const struct hang_page *page, uint32_t process, uint64_t *at_ns);

/** hang_lives_here() - is that process one of this machine's, alive, and its number the one that we
 * know it by? */
bool hang_lives_here(const struct hang_page *page, uint32_t process);

/** hang_stream() - the oldest call of the @i-th stream on which the GPU was seen not to have ended
 * one; NULL behind the last. */
const struct capo_hang_call *hang_stream(const struct hang_page *page, uint32_t process,
                                         uint32_t i);

/** hang_bugs() - known bugs that would do this; none of a job that does not hang. @out:
 * CAPO_RECORDED_BUGS of them. Return: how many. */
int hang_bugs(const struct hang_page *page, struct capo_recorded_bug *out);

/** hang_heading() - the first line of the page: which job. */
void hang_heading(const struct hang_page *page, FILE *out);

/** hang_headline() - the second: the verdict. */
void hang_headline(const struct hang_page *page, FILE *out);

/** hang_ending() - "exit status 1". */
const char *hang_ending(const struct hang_page *page, uint32_t process, char text[96]);

/** hang_next_end() - of a job that ended, the process that ended next behind @after;
 * CAPO_HANG_NONE: before the first, behind the last. hang_ends() prints a line of each. */
uint32_t hang_next_end(const struct hang_page *page, uint32_t after);
void hang_ends(const struct hang_page *page, FILE *out);

/** hang_text_below() - of a culprit whose call or GPU does not end: its streams and network
 * interfaces, a line each. */
void hang_text_below(const struct hang_page *page, const struct capo_hang_culprit *c, FILE *out);

/** hang_text_network() - one line: which of them have posted what does not complete; none where
 * nobody has. */
void hang_text_network(const struct hang_page *page, FILE *out);

/** hang_who() - "rank 3", or "pid 77" where no rank is known. @text: 32 bytes. */
char *hang_who(const struct hang_page *page, uint32_t process, char *text);

/** hang_call() - "AllReduce #12 of dp". @text: 256 bytes. */
char *hang_call(const struct hang_page *page, const struct capo_hang_call *call, char *text);

/** hang_missing() - what is not known and would help to decide: item @i. Return: NULL behind the
 * last. @text: 400 bytes. */
const char *hang_missing(const struct hang_page *page, unsigned i, char *text);

/** hang_late() - the @i-th communicator whose late rank is to be named (capo_wait_counts()), most
 * costly first; NULL behind the last. */
const struct capo_page_wait *hang_late(const struct hang_page *page, uint32_t i);

/**
 * hang_stranger() - the page of a process that capo does not record
 * Says what is wrong. Return: 0; -ESRCH no such process; -EIO.
 */
int hang_stranger(int pid, bool stacks, bool json, FILE *out);

/** hang_text_stacks() - lines of what the threads of @pid are in, by hang_stacks(), or why there
 * are none. Return: there are some. */
bool hang_text_stacks(int pid, FILE *out);

/** hang_text_python() - the same of Python, by hang_python_now(): nobody is stopped. None where it
 * has no Python. */
void hang_text_python(int pid, FILE *out);

/**
 * hang_text_frames() - the frames of a thread in one line: the innermost one and those of the
 * program's own Python files; where there are none of these, the @plain innermost
 * @text: lines of frames, innermost first, all behind a blank or none; moved behind them
 * @first: what comes before the first one
 *
 * Return: frames printed.
 */
unsigned hang_text_frames(const char **text, const char *first, unsigned plain, FILE *out);

/** hang_text_threads() - what the threads of a culprit were in when its watch saw the hang, or,
 * where that is not known or --stacks was given, are in now. */
void hang_text_threads(const struct hang_page *page, uint32_t process, FILE *out);

/** hang_text(), hang_markdown(), hang_json() - the page. Return: 0; -ENOMEM; -EIO. */
int hang_text(const struct hang_page *page, FILE *out);
int hang_markdown(const struct hang_page *page, FILE *out);
int hang_json(const struct hang_page *page, FILE *out);

#endif
