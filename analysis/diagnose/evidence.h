/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files that remain after a failure, and finds what they prove.
 *
 *      inputs -> records.c: records (who, where, when)
 *             -> evidence_judge.c: stories, one per job and attempt
 *             -> watchdog.c, debug_lines.c, line_table.c, stack_judge.c: findings
 *             -> evidence_judge.c: what explains the rest is the verdict
 *
 * The readers know evidence.c and nothing of each other; only evidence_judge.c knows all. Dumps of
 * the flight recorder and answers of RAS go to analysis/hang; its verdict is one more finding here.
 */
#pragma once

#include "analysis/diagnose/known_bugs.h"
#include "analysis/diagnose/records.h"
#include "core/base/text.h"

/* Print into an array; add to what it has. */
#define SAY(text, ...) snprintf(text, sizeof(text), __VA_ARGS__)
#define ADD(text, ...) capo_append(text, sizeof(text), __VA_ARGS__)

enum capo_evidence_kind {
#define EVIDENCE(id, name, words) CAPO_EVIDENCE_##id,
#include "analysis/diagnose/evidence_kinds.def"
        CAPO_EVIDENCE_KINDS,
};

/* A place in an input: line 1 is the first, 0 means the whole input. */
struct capo_evidence_mark {
        uint32_t text, line;
};

struct capo_evidence_text {
        char *name;      /* as given by the user */
        char *text;      /* that of the records; NULL: a binary, or passed on to another reader */
        uint64_t *grams; /* sequences of four letters; NULL: any */
        uint32_t n[CAPO_EVIDENCE_KINDS]; /* lines or items of each kind */
        struct capo_records records;
};

/* How strong a finding is; of two the stronger is the verdict, of equals the first. */
enum capo_finding_rank {
        CAPO_RANK_NOTE,      /* no verdict */
        CAPO_RANK_HEALTHY,   /* it worked */
        CAPO_RANK_SLOW,      /* it works, and is slower than it can be */
        CAPO_RANK_UNDECIDED, /* somebody waits, and it is not known for whom */
        CAPO_RANK_ERROR,     /* an error, which may be a consequence */
        CAPO_RANK_HANG,      /* who is the cause of a hang */
        CAPO_RANK_CAUSE,     /* what happened before all of it: killed, a broken GPU */
};

enum { CAPO_DIAGNOSE_MARKS = 12, CAPO_DIAGNOSE_RANKS = 16, CAPO_STORY_NAME = 96 };

struct capo_diagnose_finding {
        enum capo_finding_rank rank;
        const char *kind; /* name in JSON: "missing", "killed", ...; as in docs/diagnose.md */
        const char *sure; /* "certain", "likely", "unsure" */
        bool measured;    /* SLOW: numbers of the text show it; else it is a setting or a state */
        uint16_t story;   /* of one job and attempt, in which it was found */
        char headline[448];
        char detail[1280]; /* several lines; "": none */
        char next[512];
        int32_t ranks[CAPO_DIAGNOSE_RANKS];
        uint32_t n_ranks;
        struct capo_evidence_mark marks[CAPO_DIAGNOSE_MARKS];
        uint32_t n_marks;
};

/* What nccl-tests measured in one text: its largest size. */
struct capo_tests_run {
        uint32_t text, line; /* line: of that row; 0: there is none */
        char test[24];       /* "all_reduce"; "": not known */
        char gpu[48];        /* "NVIDIA H100 80GB HBM3"; "": not known */
        uint64_t bytes;
        double busbw;             /* GB/s, the better of out of place and in place */
        double expected;          /* GB/s that the NICs of a node carry; 0: not known */
        int32_t n_ranks, n_nodes; /* 0: not known */
        int nccl;
        bool ended;
};

struct capo_evidence {
        struct capo_evidence_text *texts;
        uint32_t n_texts;
        struct capo_diagnose_finding *findings;
        uint32_t n_findings;
        int nccl, ofi, torch; /* releases; 0 not known */
        int nccls[4];         /* several releases of NCCL ran, in the order of the text */
        uint32_t n_nccls;     /* 0: one of them is to blame, nccl */
        int32_t n_ranks;      /* of the job; 0 not known */
        bool *seen;           /* by rank: there are lines of it */
        uint32_t n_seen;      /* length of seen */
        bool timed_out;       /* a watchdog reported a timeout */
        char (*stories)[CAPO_STORY_NAME]; /* "attempt 2", "pod a"; what one job has is one */
        uint32_t n_stories;
        struct capo_tests_run *runs;
        uint32_t n_runs;
        char facts[256]; /* of facts.c, a blank behind each */
};

/** capo_evidence_add() - add a text; takes ownership of @text, copies @name. Return: its index. */
uint32_t capo_evidence_add(struct capo_evidence *e, const char *name, char *text);

/** capo_text_has() - does the text contain @word? False: also without a text. */
bool capo_text_has(const struct capo_evidence_text *t, const char *word);

/** capo_evidence_has() - does any text contain @text? Behind an at sign: is it a fact (facts.c) or
 * the kind of a finding? For capo_bug_match(). */
bool capo_evidence_has(const char *text, void *evidence);

/** capo_evidence_hangs() - does a watchdog or a person say that the job does not go on? */
bool capo_evidence_hangs(struct capo_evidence *e);

void capo_evidence_finish(struct capo_evidence *e);

/** capo_line_has() - does the rest of the line at @at contain one of the words, "|" between? */
bool capo_line_has(const char *at, const char *words);

/** capo_evidence_name() - "watchdog"; capo_evidence_words() - "PyTorch's collectives". */
const char *capo_evidence_name(enum capo_evidence_kind kind);
const char *capo_evidence_words(enum capo_evidence_kind kind);

/** capo_evidence_each() - call @found for every occurrence of @word in @text, with the begin and
 * the input's line of its record; NULL: only count. Return: how many. */
int capo_evidence_each(const struct capo_evidence *e, uint32_t text, const char *word,
                       void (*found)(const char *at, const char *line, uint32_t number, void *arg),
                       void *arg);

/** capo_evidence_all() - the same in all texts; *@text is the one that it is in. */
void capo_evidence_all(const struct capo_evidence *e, const char *word,
                       void (*found)(const char *at, const char *line, uint32_t number, void *arg),
                       void *arg, uint32_t *text);

/** capo_evidence_find() - mark the first line with @word, and quote it; @all: mark all of them. */
void capo_evidence_find(const struct capo_evidence *e, const char *word, bool all,
                        struct capo_diagnose_finding *f);

/** capo_evidence_finding() - append an empty finding. Return: it, valid until the next one. */
struct capo_diagnose_finding *capo_evidence_finding(struct capo_evidence *e);
void capo_finding_is(struct capo_diagnose_finding *f, enum capo_finding_rank rank, const char *kind,
                     const char *sure);
void capo_finding_mark(struct capo_diagnose_finding *f, struct capo_evidence_mark at);
void capo_finding_rank_add(struct capo_diagnose_finding *f, int32_t rank);

/** capo_rank_list() - "rank 3", "ranks 0-2, 5 and 7". @text: 128 bytes. */
char *capo_rank_list(const int32_t *ranks, uint32_t n, char *text);

/** capo_rank_shout() - in place: "rank 3 and" becomes "RANK 3 and". Return: @text. */
char *capo_rank_shout(char *text);

/** capo_take_word() - copy the characters of @chars at the begin of @at to @word (@room bytes).
 * sscanf() would compute the length of the whole text each time. Return: its length; 0: also if it
 * is too long. */
size_t capo_take_word(const char *at, const char *chars, char *word, size_t room);

/** capo_text_rank() - the rank that a line names, or its launcher's label; -1: none. */
int32_t capo_text_rank(const struct capo_evidence_text *t, const char *line);

/** capo_text_story() - the story of the record that contains @at. */
uint16_t capo_text_story(const struct capo_evidence_text *t, const char *at);

/** capo_drop_part() - drop the last letter of a text that is cut within it (UTF-8). */
void capo_drop_part(char *text);

/** capo_quote() - one line of an input, cut between words and marked "..." if it is long. */
void capo_quote(const char *line, char *out, size_t room);

/** capo_rank_seen() - note that there is a line of @rank. */
void capo_rank_seen(struct capo_evidence *e, int32_t rank);

#define CAPO_TIMEOUT_LINE "Watchdog caught collective operation timeout"

/** capo_exception_line() - the exception of a traceback whose first line is @line: the first line
 * after it that is not indented. All lines may have the prefix before @at ("[rank0]: "). Return: that
 * line; @line if the traceback is cut. */
const char *capo_exception_line(const char *at, const char *line);

/** capo_torchrun_rank() - the rank of the block of torchrun's report that @line is in; -1: none. */
int32_t capo_torchrun_rank(const char *text, const char *line);

/* The readers, which evidence_judge.c calls: each adds its findings. */
void capo_recognise(struct capo_evidence *e);
void capo_facts_read(struct capo_evidence *e);
/** capo_debug_host() - the node of "gn37:18840:18917 [0] NCCL INFO ...". Return: is there one? */
bool capo_debug_host(const char *line, char *host, size_t room);
/** capo_nics_used() - for capo_evidence_each(): the most NICs (*(uint32_t *)@most) in "NET/IB : Using
 * [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB ...". */
void capo_nics_used(const char *at, const char *line, uint32_t number, void *most);
void capo_nodes_read(struct capo_evidence *e);
void capo_causes_read(struct capo_evidence *e);
void capo_watchdog_read(struct capo_evidence *e);
void capo_c10d_read(struct capo_evidence *e);
void capo_debug_read(struct capo_evidence *e);
/* @verdict: so far; NULL: none. */
void capo_torchrun_read(struct capo_evidence *e, const struct capo_diagnose_finding *verdict);
void capo_stacks_read(struct capo_evidence *e);
void capo_crash_tell(struct capo_evidence *e); /* add its stack to a crash */
void capo_tests_read(struct capo_evidence *e);
void capo_tried_read(struct capo_evidence *e);
/** capo_tried_tell() - a run did not end without @setting and ended with it. */
void capo_tried_tell(struct capo_evidence *e, const char *setting, struct capo_evidence_mark at);
void capo_exceptions_read(struct capo_evidence *e);
void capo_errors_read(struct capo_evidence *e); /* the tables of whole lines */

/** capo_lines_read() - the words of line_words.def: call it where no reader has a verdict. @weak: one
 * is undecided, and only a cause from before it counts. */
void capo_lines_read(struct capo_evidence *e, bool weak);

/** capo_last_errors_read() - what only says that something failed: call it when nothing else was
 * found. */
void capo_last_errors_read(struct capo_evidence *e);
void capo_words_read(struct capo_evidence *e); /* lines that nobody knows; call it last */

/** capo_evidence_judge() - read all texts; call it after the last one was added. */
void capo_evidence_judge(struct capo_evidence *e);

/** capo_evidence_verdict() - the strongest finding; NULL: there is none. */
const struct capo_diagnose_finding *capo_evidence_verdict(const struct capo_evidence *e);

/** capo_finding_earlier() - did @a happen before @b? By line in one text, by time in two; false: also if
 * it is not known. */
bool capo_finding_earlier(const struct capo_evidence *e, const struct capo_diagnose_finding *a,
                          const struct capo_diagnose_finding *b);
