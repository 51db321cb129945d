/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, from tables. A verb is a struct cli_command: its texts, the rows of its options,
 * and the function that runs with the parsed options. A row is one option; the parser, --help, the
 * manual page and shell completion all use it (cli/base/cli_options.c, cli_help.c;
 * cli/cmd_completion.c).
 *
 *      struct job { bool all; unsigned jobs; const char *out; };
 *
 *      static const struct cli_option options[] = {
 *              {"all", CLI_FLAG(struct job, all), "every row"},
 *              {"jobs", CLI_COUNT(struct job, jobs, "N", 1, 64), "questions asked at a time"},
 *              {"output", CLI_FILE(struct job, out, "FILE"), "write there", .letter = 'o'},
 *              {0}};
 *
 * --name=VALUE and --name VALUE are the same. The last of several wins. -- ends the options. */
#pragma once

#include "core/base/util.h"

/* Exit statuses of all verbs: success; failure, or the answer is "no"; wrong command line; of verbs
 * that judge: nothing to judge. docs/stability.md has the table. */
enum { CAPO_EXIT_OK = 0, CAPO_EXIT_FAIL = 1, CAPO_EXIT_USAGE = 2, CAPO_EXIT_UNKNOWN = 3 };

enum cli_kind {
        CLI_KIND_END, /* end of a table */
        CLI_KIND_HEADING,
        CLI_KIND_TABLE,
        CLI_KIND_FLAG,
        CLI_KIND_WIDE,
        CLI_KIND_SET, /* from here on: with a value */
        CLI_KIND_TEXT,
        CLI_KIND_FILE,
        CLI_KIND_COUNT,
        CLI_KIND_NUMBER,
        CLI_KIND_SECONDS,
        CLI_KIND_PERCENT,
        CLI_KIND_CHOICE,
        CLI_KIND_WORDS,
        CLI_KIND_LIST,
        CLI_KIND_TAKE,
};

struct cli_option {
        const char *name; /* without dashes; NULL for headings and tables */
        enum cli_kind kind;
        size_t at; /* offset of the target in the verb's options */
        union {
                int value;
                struct {
                        double least, most;
                };
                const char *const *words; /* NULL-terminated */
                struct {
                        size_t n_at, room;
                };
                const char *(*take)(void *target, const char *value);
                const struct cli_option *table;
        };
        const char *word;    /* the value in --help: "FILE" */
        const char *help;    /* sentences, wrapped when printed. NULL: an earlier name of an option,
                                accepted but not listed */
        char letter;         /* also -x; 0: none */
        bool rare;           /* rarely needed: only in --help=all */
        const char *example; /* a valid value, for tests; NULL: one of the kind's */
};

/* offsetof() that rejects a target of another type at compile time. */
#define CLI_IF(condition, at) ((at) + 0 * sizeof(char[(condition) ? 1 : -1]))
#define CLI_IS(type, S, m)    __builtin_types_compatible_p(type, __typeof__(((S *)0)->m))
#define CLI_AT(type, S, m)    CLI_IF(CLI_IS(type, S, m), offsetof(S, m))
#define CLI_INT(S, m)         CLI_IF(sizeof(((S *)0)->m) == sizeof(int), offsetof(S, m))

/* Without a value: set a bool; set an int or enum to a constant. */
#define CLI_FLAG(S, m)   CLI_KIND_FLAG, CLI_AT(bool, S, m), {0}, NULL
#define CLI_SET(S, m, v) CLI_KIND_SET, CLI_INT(S, m), {.value = v}, NULL
/* const char *, not copied; a FILE is completed by file names. */
#define CLI_TEXT(S, m, w) CLI_KIND_TEXT, CLI_AT(const char *, S, m), {0}, w
#define CLI_FILE(S, m, w) CLI_KIND_FILE, CLI_AT(const char *, S, m), {0}, w
/* int or unsigned, from @l to @h (INT_MAX: no limit); double; double in seconds, "1.5" or "1.5s";
 * double, where "3" or "3%" is 0.03. */
#define CLI_COUNT(S, m, w, l, h) CLI_KIND_COUNT, CLI_INT(S, m), {.least = (l), .most = (h)}, w
#define CLI_NUMBER(S, m, w, l, h) \
        CLI_KIND_NUMBER, CLI_AT(double, S, m), {.least = (l), .most = (h)}, w
#define CLI_SECONDS(S, m, w, l, h) \
        CLI_KIND_SECONDS, CLI_AT(double, S, m), {.least = (l), .most = (h)}, w
#define CLI_PERCENT(S, m, w, l, h) \
        CLI_KIND_PERCENT, CLI_AT(double, S, m), {.least = (l), .most = (h)}, w
/* int or enum: index of the word in a list. */
#define CLI_CHOICE(S, m, w, list) CLI_KIND_CHOICE, CLI_INT(S, m), {.words = (list)}, w
/* const char *m[], with their number in size_t n: each use adds one; LIST: also several with commas
 * between. */
#define CLI_WORDS(S, m, n, w) CLI_KIND_WORDS, CLI_MANY(S, m, n), w
#define CLI_LIST(S, m, n, w)  CLI_KIND_LIST, CLI_MANY(S, m, n), w
#define CLI_MANY(S, m, n)                                                                      \
        CLI_AT(const char *, S, m[0]),                                                         \
        {                                                                                      \
                .n_at = CLI_AT(size_t, S, n), .room = sizeof((S *)0)->m / sizeof((S *)0)->m[0] \
        }
/* Anything: @f parses the value into the target. It returns NULL, or what it expected: "ranks per
 * node, such as 3+5". */
#define CLI_TAKE(S, m, w, f) CLI_KIND_TAKE, offsetof(S, m), {.take = (f)}, w
/* The same with the whole struct as target. */
#define CLI_WHOLE(w, f) CLI_KIND_TAKE, 0, {.take = (f)}, w
/* The options of another table, for member @m; under a heading, or NULL. */
#define CLI_TABLE(S, m, t) NULL, CLI_KIND_TABLE, offsetof(S, m), {.table = (t)}, NULL
/* The row of every verb that prints tables (cli_screen.h). */
#define CLI_WIDE                                                                    \
        {                                                                           \
                "wide", CLI_KIND_WIDE, 0, {0}, NULL, "whole lines with all columns" \
        }
#define CLI_HEADING NULL, CLI_KIND_HEADING, 0, {0}, NULL

struct cli_command {
        const char *usage;    /* text after "usage: capo VERB", one line per form */
        const char *about;    /* paragraphs, one per line; lines that begin with a blank are printed
                                 unchanged */
        const char *after;    /* after the options: more paragraphs and examples; NULL: none */
        void (*list)(FILE *); /* for --help=all: prints a list made at run time; NULL: none */
        const char *status;   /* exit statuses: "0; 1 no log to report, 2 wrong command line" */
        const char *missing;  /* message if there are too few */
        unsigned least, most; /* number of operands */
        bool command;         /* the first operand ends the options: the rest is a command */
        const struct cli_option *options;
        size_t size;          /* of the options' struct */
        const void *defaults; /* its initial value; NULL: zero */
        /* called for each operand in order, so that it sees the options before it; NULL: operands
         * are collected for run(). Return: 0; -EINVAL after printing the reason */
        int (*take)(void *options, char *word);
        /* Runs the verb. @words: its operands, NULL-terminated. Return: an exit status. NULL: the
         * command is a group of others. */
        int (*run)(void *options, int n, char **words);
        void (*finish)(void *options); /* frees what take() allocated, also if run() was not called;
                                          may be NULL */
};

enum cli_verb_group {
#define VERB_GROUP(id, title) CLI_VERBS_##id,
#define VERB(group, name, help)
#define SUBVERB(verb, name, help)
#include "cli/base/verbs.def"
        CLI_VERB_GROUPS,
};

struct cli_verb { /* a row of cli/base/verbs.def */
        enum cli_verb_group group;
        const char *name; /* "topo", "topo capture" */
        const char *help;
        const struct cli_command *command;
};

/** cli_verbs - all verbs; a group is followed by its members. Ends with a row without name. */
extern const struct cli_verb cli_verbs[];

/** cli_verb_find() - find "topo", or "topo capture" (@sub NULL: no second word). Return: NULL:
 * none. */
const struct cli_verb *cli_verb_find(const char *name, const char *sub);

/** cli_run() - parse @argv (argv[0] is the verb) and run the verb; also handles --help. Return:
 * exit status. */
int cli_run(const struct cli_verb *verb, int argc, char **argv);

/** cli_wide_options - the table for verbs without other options. */
extern const struct cli_option cli_wide_options[];

/* An option of a command: its row, and the offset of the struct that its target is in. */
struct cli_found {
        const struct cli_option *row;
        size_t base;
};

enum { CLI_OPTIONS_MAX = 64 };

/** cli_options() - the rows of a command, including those of its tables. Return: how many. */
unsigned cli_options(const struct cli_command *command, struct cli_found found[CLI_OPTIONS_MAX]);

/** cli_has_value() - does the option take a value? */
static inline bool cli_has_value(const struct cli_option *o) { return o->kind > CLI_KIND_SET; }

/** cli_table() - print all options, one per line: verb, option, letter, 1 if it takes a value, an
 * example value; tab-separated. */
void cli_table(FILE *out);

/* cli_help.c */

/** cli_help() - print VERB --help; @all: --help=all, with rarely needed options. */
void cli_help(FILE *out, const struct cli_verb *verb, bool all);

/** cli_usage() - print capo --help. */
void cli_usage(FILE *out);

/** cli_manual() - print the manual page, capo(1), of all verbs. */
void cli_manual(FILE *out);
