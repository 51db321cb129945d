/* SPDX-License-Identifier: Apache-2.0 */
/* Three CSV tables: rccl-tests' own; the input of NVIDIA's optimize_config.py (one row per measured
 * candidate, with columns for what ran); and vidur's profiling tables (all-reduce by placement,
 * times in milliseconds, NCCL's own choice). Columns are found by name, in any order. */
#include <fnmatch.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "profiles/import/import_private.h"

enum { MAX_FIELDS = 64, COLUMNS = 10 };

/* What a column has, and the words of the error if a row has something else. */
struct column {
        const char *head, *older; /* as of fnmatch(); the name that older releases gave it */
        enum { CALL, BYTES, ALGO, PROTO, WHOLE, TIME, TEXT } kind;
        long least, most; /* of a number; below `least` is none */
        const char *expected;
        bool optional;
};

/* A table being read: columns, and errors of its rows. */
struct table {
        struct capo_input *in;
        const struct column *columns;
        unsigned n_columns, n_heads;
        int at[COLUMNS]; /* -1: missing */
        size_t first_run;
        struct capo_input_faults faults;
        /* the row */
        char *f[MAX_FIELDS];
        struct capo_trial run;
        struct capo_sample sample;
        long whole[COLUMNS]; /* -1: missing */
        double time;
};

/* Split @line at its commas; blanks and quotes around a field are no part of it. Return: how many, also
 * beyond MAX_FIELDS. */
static unsigned split_fields(char *line, char **fields)
{
        unsigned n = 0;

        line[strcspn(line, "\r\n")] = 0;
        for (char *next = line; next; n++) {
                char *field = strsep(&next, ","), *end = field + strlen(field);

                field += strspn(field, " \"");
                while (end > field && (end[-1] == '"' || end[-1] == ' '))
                        *--end = 0;
                if (n < MAX_FIELDS)
                        fields[n] = field;
        }
        return n;
}

static int find_column(const struct table *t, const char *head)
{
        for (unsigned i = 0; head && i < t->n_heads && i < MAX_FIELDS; i++) {
                if (fnmatch(head, t->f[i], 0) == 0)
                        return (int)i;
        }
        return -1;
}

/* Find the columns by the heads in the first line. Return: 0; -EINVAL with the error set. @rows: set to
 * the lines behind them; NULL: none. */
static int begin_table(struct table *t, struct capo_input *in, const struct column *columns,
                       unsigned n, char **rows)
{
        *rows = strchr(in->text, '\n');
        *rows = *rows ? *rows + 1 : NULL;
        *t = (struct table){
                .in = in, .columns = columns, .n_columns = n, .first_run = in->set->n_runs};
        t->n_heads = split_fields(in->text, t->f);
        for (unsigned i = 0; i < n; i++) {
                t->at[i] = find_column(t, columns[i].head);
                if (t->at[i] < 0)
                        t->at[i] = find_column(t, columns[i].older);
                if (t->at[i] < 0 && !columns[i].optional)
                        return capo_input_error(in, 1, "expected a column \"%s\", found none",
                                                columns[i].head);
        }
        return 0;
}

/* Convert column @i of the row. Return: is it what the column has? */
static bool take_field(struct table *t, unsigned i)
{
        const struct column *c = &t->columns[i];
        const char *text = t->f[t->at[i]];
        bool chosen = strcmp(text, "default") && strcmp(text, "auto");
        struct capo_sample *s = &t->sample;
        unsigned found;
        char *end;

        switch (c->kind) {
        case CALL:
                s->call =
                        !strcmp(text, "send_recv") ? CAPO_CALL_SEND : (uint8_t)capo_call_find(text);
                return s->call;
        case BYTES: return capo_size_parse(text, &s->bytes) == 0 && s->bytes >= (uint64_t)c->least;
        case ALGO:
        case PROTO:
                found = c->kind == ALGO ? capo_algo_find(text) : capo_proto_find(text);
                s->want |= (uint8_t)(c->kind == ALGO ? found << 4 : found);
                return found || !chosen;
        case WHOLE:
                errno = 0;
                t->whole[i] = strtol(text, &end, 10);
                return end != text && !*end && !errno && t->whole[i] >= c->least &&
                       t->whole[i] <= c->most;
        case TIME:
                return capo_input_number(text, &t->time) && t->time >= (double)c->least &&
                       (t->time > 0 || c->least == 0);
        default: return true;
        }
}

/* Rows of one run are mostly, but not always, consecutive: search the few runs backwards. */
static uint32_t find_run(struct capo_input *in, const struct capo_trial *want, size_t first)
{
        for (size_t i = in->set->n_runs; i > first && in->set->n_runs - i < 256; i--) {
                const struct capo_trial *r = &in->set->runs[i - 1];

                if (r->n_ranks == want->n_ranks && r->n_nodes == want->n_nodes &&
                    !strcmp(r->layout, want->layout) && !strcmp(r->settings, want->settings))
                        return (uint32_t)(i - 1);
        }
        return capo_samples_run(in->set, want);
}

/* Add the row, whose ranks and nodes are set. @even: as many ranks on each node. */
static int add_row(struct table *t, bool even)
{
        struct capo_trial *run = &t->run;

        if (even || run->n_nodes == 1 || run->n_nodes == run->n_ranks)
                capo_input_even(run);
        if (capo_input_label(t->in, run) < 0)
                return -EINVAL;
        t->sample.run = find_run(t->in, run, t->first_run);
        capo_samples_add(t->in->set, &t->sample);
        return 0;
}

/* Convert line @n, whose fields are in t->f. Return: 0; -EINVAL with the error set. */
static int read_row(struct table *t, unsigned n, int (*row)(struct table *t))
{
        t->run = (struct capo_trial){.source = (char *)t->in->path, .line = n, .iterations = 1};
        t->sample =
                (struct capo_sample){.order = n, .make = CAPO_MAKE_REPORT, .type = 255, .op = 255};
        for (unsigned i = 0; i < t->n_columns; i++) {
                t->whole[i] = -1;
                if (t->at[i] >= 0 && !take_field(t, i))
                        return capo_input_error(t->in, n, "expected %s, found \"%s\"",
                                                t->columns[i].expected, t->f[t->at[i]]);
        }
        t->sample.us = t->time;
        return row(t);
}

/* Read all lines after the heads; a bad one is reported and left out. */
static int read_rows(struct table *t, char *rows, int (*row)(struct table *t))
{
        size_t before = t->in->set->n;
        char *line;

        for (unsigned n = 2; (line = strsep(&rows, "\n")); n++) {
                unsigned fields;
                int e;

                if (!line[strspn(line, " \t\r")] || *line == '#')
                        continue;
                fields = split_fields(line, t->f);
                e = fields != t->n_heads
                            ? capo_input_error(t->in, n, "expected %u fields, found %u", t->n_heads,
                                               fields)
                            : read_row(t, n, row);
                if (e < 0)
                        capo_input_fault(t->in, &t->faults);
        }
        return capo_input_faults_end(t->in, &t->faults, "rows", t->in->set->n > before);
}

#define COLLECTIVE .kind = CALL, .expected = "a collective"
#define SIZE       .kind = BYTES, .expected = "a size in bytes"
#define US         .kind = TIME, .least = -1, .expected = "a time in us above 0"

/* ---- NVIDIA's example tuner ---- */

bool capo_import_is_sweep_csv(const char *text, size_t n)
{
        text += strspn(text, " \t\r\n");
        return !strncmp(text, "collective,", 11) || !strncmp(text, "collective ,", 12);
}

enum { S_CHANNELS = 4, S_NODES, S_RANKS, S_PIPE = 8, S_REG };

static const struct column sweep_columns[] = {
        {"collective", COLLECTIVE},
        {"size_bytes", SIZE, .least = 1},
        {"algorithm", .kind = ALGO, .expected = "an algorithm or \"default\""},
        {"protocol", .kind = PROTO, .expected = "a protocol or \"default\""},
        [S_CHANNELS] = {"channels", NULL, WHOLE, -1, 127, "channels, -1 for NCCL's own"},
        [S_NODES] = {"nodes", NULL, WHOLE, -1, 100000, "a number of nodes"},
        [S_RANKS] = {"ranks", NULL, WHOLE, 2, 1000000, "at least 2 ranks"},
        {"latency_us", US},
        [S_PIPE] = {"pipeOps", NULL, WHOLE, -1, 1000000, "a number or -1", .optional = true},
        [S_REG] = {"regBuff", NULL, WHOLE, -1, 1000000, "a number or -1", .optional = true}};

static int sweep_row(struct table *t)
{
        /* A different question to NCCL, which optimize_config.py also has: registered buffers,
         * several fused operations. */
        if (t->whole[S_PIPE] > 1)
                capo_append(t->run.settings, sizeof t->run.settings, "pipeOps=%ld",
                            t->whole[S_PIPE]);
        if (t->whole[S_REG] > 0)
                capo_append(t->run.settings, sizeof t->run.settings, "%sregBuff=1",
                            *t->run.settings ? " " : "");
        t->sample.want_channels = (uint8_t)(t->whole[S_CHANNELS] > 0 ? t->whole[S_CHANNELS] : 0);
        t->run.n_ranks = (int)t->whole[S_RANKS];
        t->run.n_nodes = (int)(t->whole[S_NODES] > 0 ? t->whole[S_NODES] : 0);
        return add_row(t, false);
}

/* Rows with the same candidate and size are repeats: the k-th of each forms run k, unless there are
 * so many that they are single calls. */
enum { MAX_REPEATS = 64 };

CAPO_ORDERED(by_repeat, struct capo_sample, CAPO_ORDER(a->run, b->run),
             CAPO_ORDER(a->call, b->call), CAPO_ORDER(a->bytes, b->bytes),
             CAPO_ORDER(a->want, b->want), CAPO_ORDER(a->want_channels, b->want_channels),
             CAPO_ORDER(a->order, b->order));

CAPO_ORDERED(by_line, struct capo_sample, CAPO_ORDER(a->order, b->order));

/* The repeats of v[@i]: one past the last. */
static size_t end_of_repeats(const struct capo_sample *v, size_t n, size_t i)
{
        struct capo_sample first = v[i];

        for (; i < n; i++) {
                first.order = v[i].order;
                if (by_repeat(&first, &v[i]))
                        break;
        }
        return i;
}

static void split_repeats(struct capo_input *in, size_t first)
{
        size_t n = in->set->n - first, most = 0;
        struct capo_sample *v = PAST_OF(in->set->v, first);
        uint32_t made[MAX_REPEATS] = {0}, run = UINT32_MAX;

        if (n == 0) /* there may be no list at all */
                return;
        qsort(v, n, sizeof *v, by_repeat);
        for (size_t i = 0, end; i < n; i = end) {
                end = end_of_repeats(v, n, i);
                most = end - i > most ? end - i : most;
        }
        for (size_t i = 0, end; most > 1 && most <= MAX_REPEATS && i < n; i = end) {
                end = end_of_repeats(v, n, i);
                if (v[i].run != run)
                        memset(made, 0xff, sizeof made);
                run = v[i].run;
                for (size_t k = 1; k < end - i; k++) {
                        if (made[k] == UINT32_MAX) {
                                struct capo_trial copy = in->set->runs[run];

                                made[k] = capo_samples_run(in->set, &copy);
                        }
                        v[i + k].run = made[k];
                }
        }
        qsort(v, n, sizeof *v, by_line);
}

int capo_import_sweep_csv(struct capo_input *in)
{
        size_t first = in->set->n;
        struct table t;
        char *rows;
        int e = begin_table(&t, in, sweep_columns, N_ELEMENTS(sweep_columns), &rows);

        if (e == 0)
                e = read_rows(&t, rows, sweep_row);
        if (e == 0)
                split_repeats(in, first);
        return e;
}

/* ---- vidur ---- */

bool capo_import_is_vidur_csv(const char *text, size_t n)
{
        const char *stats;

        text += strspn(text, " \t\r\n");
        stats = strstr(text, "time_stats.");
        return stats && strchr(stats, '\n') == strchr(text, '\n') && strchr(text, '\n');
}

enum { V_WORKERS = 2, V_EACH };

static const struct column vidur_columns[] = {
        {"collective", COLLECTIVE},
        {"size", SIZE, .least = 1},
        [V_WORKERS] = {"num_workers", NULL, WHOLE, 2, 1000000, "at least 2 workers"},
        [V_EACH] = {"devices_per_node", NULL, WHOLE, 1, 4096, "devices per node"},
        {"time_stats.*.median", .kind = TIME, .expected = "a time in ms"}};

static int vidur_row(struct table *t)
{
        long ranks = t->whole[V_WORKERS], each = t->whole[V_EACH];

        if (ranks % each)
                return capo_input_error(
                        t->in, t->run.line,
                        "expected workers and devices per node that divide, found %ld and %ld",
                        ranks, each);
        t->sample.us = t->time * 1e3;
        if (t->time == 0) { /* rounded to zero */
                t->in->set->n_empty++;
                return 0;
        }
        t->run.n_ranks = (int)ranks;
        t->run.n_nodes = (int)(ranks / each);
        return add_row(t, true);
}

int capo_import_vidur_csv(struct capo_input *in)
{
        struct table t;
        char *rows;
        int e = begin_table(&t, in, vidur_columns, N_ELEMENTS(vidur_columns), &rows);

        return e < 0 ? e : read_rows(&t, rows, vidur_row);
}

/* ---- rccl-tests ---- */

/* rccl-tests -Z csv (class Reporter in its src/common.cpp): a row per cycle, size and place.
 * Without MPI it has the number of GPUs of its single process. With MPI, "ranksPerNode" is the
 * number of processes of a communicator on all nodes, and "nodes" the number of such communicators:
 * neither tells the number of nodes. Some releases write the value of "nodes" without a head. It
 * does not say what was forced. */
bool capo_import_is_rccl_csv(const char *text, size_t n)
{
        return !strncasecmp(text + strspn(text, " \t\r\n\""), "numCycle", 8);
}

enum { R_PLACE = 2, R_WRONG = 4, R_GPUS, R_PROCS, R_EACH, R_NODES };

static const struct column rccl_columns[] = {
        {"collective", "name", COLLECTIVE},
        {"size", SIZE},
        [R_PLACE] = {"inplace", "inPlace", WHOLE, 0, 1, "0 or 1 for in-place"},
        {"time", US},
        [R_WRONG] = {"#wrong", "wrong", TEXT},
        [R_GPUS] = {"gpus", NULL, WHOLE, 2, 1000, "at least 2 GPUs", .optional = true},
        [R_PROCS] = {"rankspernode", "ranksPerNode", WHOLE, 1, 100000, "processes",
                     .optional = true},
        [R_EACH] = {"gpusperrank", "gpusPerRank", WHOLE, 1, 1000, "GPUs", .optional = true},
        [R_NODES] = {"nodes", NULL, TEXT, .optional = true}};

static int rccl_row(struct table *t)
{
        const struct capo_label *user = t->in->label;
        bool one = t->at[R_GPUS] >= 0; /* process, which is on one node */
        char *end, *wrong = t->f[t->at[R_WRONG]];

        t->run.n_ranks = (int)(one ? t->whole[R_GPUS] : t->whole[R_PROCS] * t->whole[R_EACH]);
        t->run.n_nodes = one || t->whole[R_PROCS] == 1;
        t->run.iterations = 20;
        if (t->run.n_ranks < 2)
                return capo_input_error(t->in, t->run.line, "expected at least 2 ranks, found %d",
                                        t->run.n_ranks);
        if (strtol(wrong, &end, 10) > 0 && !*end)
                return capo_input_error(t->in, t->run.line, "%s wrong values", wrong);
        if (t->sample.bytes == 0) {
                t->in->set->n_empty++;
                return 0;
        }
        t->sample.make = CAPO_MAKE_LOOP;
        t->sample.place = t->whole[R_PLACE] ? CAPO_PLACE_IN : CAPO_PLACE_OUT;
        if (user)
                t->sample.want = CAPO_ALGO_PROTO(user->algo, user->proto);
        if (user)
                t->sample.want_channels = user->channels;
        t->run.left_out = !t->sample.want && !(user && user->default_choice);
        snprintf(t->run.why, sizeof t->run.why, "%s",
                 t->run.left_out ? "nothing says whether something was forced; --default, if not"
                                 : "the command line");
        return add_row(t, true);
}

int capo_import_rccl_csv(struct capo_input *in)
{
        struct table t;
        char *rows;
        int e = begin_table(&t, in, rccl_columns, N_ELEMENTS(rccl_columns), &rows), from;
        unsigned commas = 0;

        if (e < 0)
                return e;
        if (t.at[R_GPUS] < 0 && (t.at[R_PROCS] < 0 || t.at[R_EACH] < 0))
                return capo_input_error(in, 1,
                                        "expected a column \"gpus\", or both \"rankspernode\" and "
                                        "\"gpusperrank\", found neither");
        /* rows with one value more than heads have it at the head "ranks" */
        from = find_column(&t, "ranks");
        for (size_t i = 0; rows && rows[i] && rows[i] != '\n'; i++)
                commas += rows[i] == ',';
        if (t.at[R_NODES] < 0 && from >= 0 && commas == t.n_heads) {
                t.n_heads++;
                for (unsigned i = 0; i < t.n_columns; i++)
                        t.at[i] += t.at[i] >= from;
        }
        return read_rows(&t, rows, rccl_row);
}
