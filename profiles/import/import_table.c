/* SPDX-License-Identifier: Apache-2.0 */
/* Three CSV tables: rccl-tests' own; the input of NVIDIA's optimize_config.py (one row per measured
 * candidate, with columns for what ran); and vidur's profiling tables (all-reduce by placement,
 * times in milliseconds, NCCL's own choice). None of them quotes its fields. Columns are found by
 * name, in any order. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_private.h"

enum { MAX_FIELDS = 64 };

static unsigned split_fields(char *line, char **fields)
{
        unsigned n = 0;
        char *end = line + strcspn(line, "\r\n");

        *end = 0;
        for (;;) {
                char *comma = strchr(line, ',');

                while (*line == ' ')
                        line++;
                if (n < MAX_FIELDS)
                        fields[n] = line;
                n++;
                if (!comma)
                        return n;
                *comma = 0;
                line = comma + 1;
        }
}

static int find_column(char **heads, unsigned n, const char *name)
{
        for (unsigned i = 0; i < n && i < MAX_FIELDS; i++) {
                if (!strcmp(heads[i], name))
                        return (int)i;
        }
        return -1;
}

static bool parse_integer(const char *text, long min, long max, long *out)
{
        char *end;

        errno = 0;
        *out = strtol(text, &end, 10);
        return end != text && !*end && !errno && *out >= min && *out <= max;
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

static void even_layout(struct capo_trial *run, bool even)
{
        run->layout[0] = 0;
        if (run->n_nodes == 1)
                snprintf(run->layout, sizeof run->layout, "%d", run->n_ranks);
        else if (run->n_nodes == run->n_ranks ||
                 (even && run->n_nodes > 0 && run->n_ranks % run->n_nodes == 0)) {
                char text[32];

                snprintf(text, sizeof text, "%dx%d", run->n_nodes, run->n_ranks / run->n_nodes);
                capo_input_layout(text, run);
        }
}

/* Rows with the same candidate and size are repeats: the k-th of each forms run k, unless there are
 * so many that they are single calls. */
enum { MAX_REPEATS = 64 };

CAPO_ORDERED(by_repeat, struct capo_sample, CAPO_ORDER(a->run, b->run),
             CAPO_ORDER(a->call, b->call), CAPO_ORDER(a->bytes, b->bytes),
             CAPO_ORDER(a->want, b->want), CAPO_ORDER(a->want_channels, b->want_channels),
             CAPO_ORDER(a->order, b->order));

CAPO_ORDERED(by_line, struct capo_sample, CAPO_ORDER(a->order, b->order));

static bool same_point(const struct capo_sample *a, const struct capo_sample *b)
{
        return a->run == b->run && a->call == b->call && a->bytes == b->bytes &&
               a->want == b->want && a->want_channels == b->want_channels;
}

static void split_repeats(struct capo_input *in, size_t first)
{
        size_t n = in->set->n - first, most = 0;
        _cleanup_free_ struct capo_sample *v = xmalloc((n + 1) * sizeof *v);
        uint32_t made[MAX_REPEATS] = {0}, run = UINT32_MAX;

        if (n == 0) /* there may be no list at all */
                return;
        memcpy(v, in->set->v + first, n * sizeof *v);
        qsort(v, n, sizeof *v, by_repeat);
        for (size_t i = 1, k = 0; i < n; i++) {
                k = same_point(&v[i - 1], &v[i]) ? k + 1 : 0;
                most = k > most ? k : most;
        }
        if (most == 0 || most >= MAX_REPEATS)
                return;
        for (size_t i = 0, next; i < n; i = next) {
                if (v[i].run != run) {
                        memset(made, 0xff, sizeof made);
                        run = v[i].run;
                }
                for (next = i + 1; next < n && v[next].run == run && same_point(&v[i], &v[next]);
                     next++)
                        ;
                for (size_t k = 1; k < next - i; k++) {
                        if (made[k] == UINT32_MAX) {
                                struct capo_trial copy = in->set->runs[run];

                                made[k] = capo_samples_run(in->set, &copy);
                        }
                }
                for (size_t k = next - i - 1; k > 0; k--)
                        v[i + k].run = made[k];
        }
        qsort(v, n, sizeof *v, by_line);
        memcpy(in->set->v + first, v, n * sizeof *v);
}

bool capo_import_is_sweep_csv(const char *text, size_t n)
{
        text += strspn(text, " \t\r\n");
        return !strncmp(text, "collective,", 11) || !strncmp(text, "collective ,", 12);
}

enum { COLL, SIZE, ALGO, PROTO, CHANNELS, NODES, RANKS, US, NEEDED, PIPE = NEEDED, REG, COLUMNS };

/* A table being read: columns, and errors of its rows. */
struct table {
        struct capo_input *in;
        int at[COLUMNS]; /* -1: missing */
        unsigned n_heads;
        size_t first_run;
        struct capo_input_faults faults;
};

/* Convert line @n, with the fields @f, to a sample. Return: 0; -EINVAL with the error set; -ENOMEM.
 */
typedef int row_reader(struct table *t, char **f, unsigned n);

static int add_row(struct table *t, struct capo_trial *run, struct capo_sample *s)
{
        if (capo_input_label(t->in, run) < 0)
                return -EINVAL;
        s->run = find_run(t->in, run, t->first_run);
        capo_samples_add(t->in->set, s);
        return 0;
}

/* Read all lines after the heads; a bad one is reported and left out. */
static int read_rows(struct table *t, char *line, row_reader *read)
{
        size_t before = t->in->set->n;
        unsigned n = 1;
        int e = 0;

        for (char *next; line && *line && e == 0; line = next) {
                char *f[MAX_FIELDS];
                unsigned fields;

                n++;
                next = strchr(line, '\n');
                next = next ? next + 1 : NULL;
                if (line[strspn(line, " \t\r")] == '\n' || *line == '#')
                        continue;
                fields = split_fields(line, f);
                e = fields != t->n_heads
                            ? capo_input_error(t->in, n, "expected %u fields, found %u", t->n_heads,
                                               fields)
                            : read(t, f, n);
                if (e == -EINVAL) {
                        capo_input_fault(t->in, &t->faults);
                        e = 0;
                }
        }
        return e < 0 ? e : capo_input_faults_end(t->in, &t->faults, "rows", t->in->set->n > before);
}

static int sweep_row(struct table *t, char **f, unsigned n)
{
        struct capo_trial run = {.source = (char *)t->in->path, .line = n, .iterations = 1};
        struct capo_sample s = {.order = n, .make = CAPO_MAKE_REPORT, .type = 255, .op = 255};
        const char *algo_text = f[t->at[ALGO]], *proto_text = f[t->at[PROTO]];
        unsigned algo = 0, proto = 0;
        long channels, nodes, ranks, other[2] = {-1, -1};

        s.call = (uint8_t)capo_call_find(f[t->at[COLL]]);
        if (!s.call)
                return capo_input_error(t->in, n, "expected a collective, found \"%s\"",
                                        f[t->at[COLL]]);
        if (capo_size_parse(f[t->at[SIZE]], &s.bytes) < 0 || s.bytes == 0)
                return capo_input_error(t->in, n, "expected a size in bytes, found \"%s\"",
                                        f[t->at[SIZE]]);
        if (strcmp(algo_text, "default") && strcmp(algo_text, "auto") &&
            !(algo = capo_algo_find(algo_text)))
                return capo_input_error(
                        t->in, n, "expected an algorithm or \"default\", found \"%s\"", algo_text);
        if (strcmp(proto_text, "default") && strcmp(proto_text, "auto") &&
            !(proto = capo_proto_find(proto_text)))
                return capo_input_error(
                        t->in, n, "expected a protocol or \"default\", found \"%s\"", proto_text);
        if (!parse_integer(f[t->at[CHANNELS]], -1, 127, &channels))
                return capo_input_error(t->in, n,
                                        "expected channels, -1 for NCCL's own, found \"%s\"",
                                        f[t->at[CHANNELS]]);
        if (!parse_integer(f[t->at[NODES]], -1, 100000, &nodes) ||
            !parse_integer(f[t->at[RANKS]], 2, 1000000, &ranks))
                return capo_input_error(
                        t->in, n, "expected nodes and at least 2 ranks, found \"%s\" and \"%s\"",
                        f[t->at[NODES]], f[t->at[RANKS]]);
        if (!capo_input_number(f[t->at[US]], &s.us) || s.us <= 0)
                return capo_input_error(t->in, n, "expected a time in us above 0, found \"%s\"",
                                        f[t->at[US]]);
        for (int i = PIPE; i <= REG; i++) {
                if (t->at[i] >= 0 && !parse_integer(f[t->at[i]], -1, 1000000, &other[i - PIPE]))
                        return capo_input_error(t->in, n, "expected a number or -1, found \"%s\"",
                                                f[t->at[i]]);
        }
        /* A different question to NCCL, which optimize_config.py also has: registered buffers,
         * several fused operations. */
        if (other[0] > 1)
                capo_append(run.settings, sizeof run.settings, "pipeOps=%ld", other[0]);
        if (other[1] > 0)
                capo_append(run.settings, sizeof run.settings, "%sregBuff=1",
                            *run.settings ? " " : "");
        s.want = CAPO_ALGO_PROTO(algo, proto);
        s.want_channels = (uint8_t)(channels > 0 ? channels : 0);
        run.n_ranks = (int)ranks;
        run.n_nodes = (int)(nodes > 0 ? nodes : 0);
        even_layout(&run, false);
        return add_row(t, &run, &s);
}

int capo_import_sweep_csv(struct capo_input *in)
{
        static const char *const names[] = {"collective", "size_bytes", "algorithm", "protocol",
                                            "channels",   "nodes",      "ranks",     "latency_us",
                                            "pipeOps",    "regBuff"};
        char *f[MAX_FIELDS], *next = strchr(in->text, '\n');
        struct table t = {
                .in = in, .n_heads = split_fields(in->text, f), .first_run = in->set->n_runs};
        size_t first_sample = in->set->n;
        int e;

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                t.at[i] = find_column(f, t.n_heads, names[i]);
                if (i < NEEDED && t.at[i] < 0)
                        return capo_input_error(
                                in, 1,
                                "expected a column \"%s\", found none (times are read from latency_us)",
                                names[i]);
        }
        e = read_rows(&t, next ? next + 1 : NULL, sweep_row);
        if (e == 0)
                split_repeats(in, first_sample);
        return e;
}

bool capo_import_is_vidur_csv(const char *text, size_t n)
{
        text += strspn(text, " \t\r\n");

        const char *end = strchr(text, '\n');
        const char *stats = strstr(text, "time_stats.");

        return stats && end && stats < end;
}

enum { V_SIZE, V_WORKERS, V_EACH, V_COLL, V_MEDIAN };

static int vidur_row(struct table *t, char **f, unsigned n)
{
        struct capo_trial run = {.source = (char *)t->in->path, .line = n, .iterations = 1};
        struct capo_sample s = {.order = n, .make = CAPO_MAKE_REPORT, .type = 255, .op = 255};
        const char *name = f[t->at[V_COLL]];
        long ranks, per_node;
        double ms;

        s.call = !strcmp(name, "send_recv") ? CAPO_CALL_SEND : (uint8_t)capo_call_find(name);
        if (!s.call)
                return capo_input_error(t->in, n, "expected a collective, found \"%s\"", name);
        if (capo_size_parse(f[t->at[V_SIZE]], &s.bytes) < 0 || s.bytes == 0)
                return capo_input_error(t->in, n, "expected a size in bytes, found \"%s\"",
                                        f[t->at[V_SIZE]]);
        if (!parse_integer(f[t->at[V_WORKERS]], 2, 1000000, &ranks) ||
            !parse_integer(f[t->at[V_EACH]], 1, 4096, &per_node) || ranks % per_node)
                return capo_input_error(
                        t->in, n,
                        "expected workers and devices per node that divide, found \"%s\" and \"%s\"",
                        f[t->at[V_WORKERS]], f[t->at[V_EACH]]);
        if (!capo_input_number(f[t->at[V_MEDIAN]], &ms) || ms < 0)
                return capo_input_error(t->in, n, "expected a time in ms, found \"%s\"",
                                        f[t->at[V_MEDIAN]]);
        if (ms == 0) { /* rounded to zero */
                t->in->set->n_empty++;
                return 0;
        }
        s.us = ms * 1e3;
        run.n_ranks = (int)ranks;
        run.n_nodes = (int)(ranks / per_node);
        even_layout(&run, true);
        return add_row(t, &run, &s);
}

int capo_import_vidur_csv(struct capo_input *in)
{
        static const char *const names[] = {"size", "num_workers", "devices_per_node",
                                            "collective"};
        char *f[MAX_FIELDS], *next = strchr(in->text, '\n');
        struct table t = {
                .in = in, .n_heads = split_fields(in->text, f), .first_run = in->set->n_runs};
        bool all = true;

        t.at[V_MEDIAN] = -1;
        for (unsigned i = 0; i < t.n_heads && i < MAX_FIELDS; i++) {
                size_t k = strlen(f[i]);

                if (!strncmp(f[i], "time_stats.", 11) && k > 7 && !strcmp(f[i] + k - 7, ".median"))
                        t.at[V_MEDIAN] = (int)i;
        }
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                t.at[i] = find_column(f, t.n_heads, names[i]);
                all &= t.at[i] >= 0;
        }
        if (!all || t.at[V_MEDIAN] < 0)
                return capo_input_error(
                        in, 1,
                        "expected columns size, num_workers, devices_per_node, collective and "
                        "time_stats.*.median");
        return read_rows(&t, next ? next + 1 : NULL, vidur_row);
}

/* rccl-tests -Z csv (class Reporter in its src/common.cpp): a row per cycle, size and place.
 * Without MPI it has the number of GPUs of its single process. With MPI, "ranksPerNode" is the
 * number of processes of a communicator on all nodes, and "nodes" the number of such communicators:
 * neither tells the number of nodes. Some releases write the value of "nodes" without a head. It
 * does not say what was forced. */
bool capo_import_is_rccl_csv(const char *text, size_t n)
{
        return !strncasecmp(text + strspn(text, " \t\r\n\""), "numCycle", 8);
}

enum { R_COLL, R_SIZE, R_PLACE, R_US, R_WRONG, R_NEEDED };
enum { R_GPUS = R_NEEDED, R_PROCS, R_EACH, R_NODES };

static char *strip_quotes(char *field)
{
        size_t n;

        field += strspn(field, " \"");
        for (n = strlen(field); n && (field[n - 1] == '"' || field[n - 1] == ' ');)
                field[--n] = 0;
        return field;
}

static int rccl_row(struct table *t, char **f, unsigned n)
{
        const struct capo_label *user = t->in->label;
        struct capo_trial run = {.source = (char *)t->in->path, .line = n, .iterations = 20};
        struct capo_sample s = {.order = n, .make = CAPO_MAKE_LOOP, .type = 255, .op = 255};
        long n_procs, each, place, wrong = 0;
        const char *procs = "1", *gpus;

        for (unsigned i = 0; i < t->n_heads; i++)
                f[i] = strip_quotes(f[i]);
        if (t->at[R_GPUS] < 0)
                procs = f[t->at[R_PROCS]];
        gpus = f[t->at[t->at[R_GPUS] < 0 ? R_EACH : R_GPUS]];
        s.call = (uint8_t)capo_call_find(f[t->at[R_COLL]]);
        if (!s.call)
                return capo_input_error(t->in, n, "expected a collective, found \"%s\"",
                                        f[t->at[R_COLL]]);
        if (capo_size_parse(f[t->at[R_SIZE]], &s.bytes) < 0)
                return capo_input_error(t->in, n, "expected a size in bytes, found \"%s\"",
                                        f[t->at[R_SIZE]]);
        if (!parse_integer(f[t->at[R_PLACE]], 0, 1, &place))
                return capo_input_error(t->in, n, "expected 0 or 1 for in-place, found \"%s\"",
                                        f[t->at[R_PLACE]]);
        if (!parse_integer(gpus, 1, 1000, &each) || !parse_integer(procs, 1, 100000, &n_procs) ||
            n_procs * each < 2)
                return capo_input_error(
                        t->in, n,
                        "expected at least 2 ranks, found \"%s\" processes with \"%s\" GPUs", procs,
                        gpus);
        if (!capo_input_number(f[t->at[R_US]], &s.us) || s.us <= 0)
                return capo_input_error(t->in, n, "expected a time in us above 0, found \"%s\"",
                                        f[t->at[R_US]]);
        if (parse_integer(f[t->at[R_WRONG]], 0, 1000000000, &wrong) && wrong > 0)
                return capo_input_error(t->in, n, "%ld wrong values", wrong);
        if (s.bytes == 0) {
                t->in->set->n_empty++;
                return 0;
        }
        s.place = place ? CAPO_PLACE_IN : CAPO_PLACE_OUT;
        run.n_ranks = (int)(n_procs * each);
        run.n_nodes = n_procs == 1; /* one process is on one node */
        even_layout(&run, true);
        if (user)
                s.want = CAPO_ALGO_PROTO(user->algo, user->proto);
        if (user && user->channels)
                s.want_channels = user->channels;
        run.left_out = !s.want && !(user && user->default_choice);
        snprintf(run.why, sizeof run.why, "%s",
                 run.left_out ? "nothing says whether something was forced; --default, if not"
                              : "the command line");
        return add_row(t, &run, &s);
}

/* Find the columns; rows with one value more than heads have it at the head "ranks". */
static int find_rccl_columns(struct table *t, char **f, const char *rows)
{
        static const char *const names[][2] = {[R_COLL] = {"collective", "name"},
                                               [R_SIZE] = {"size", "size"},
                                               [R_PLACE] = {"inplace", "inPlace"},
                                               [R_US] = {"time", "time"},
                                               [R_WRONG] = {"#wrong", "wrong"},
                                               [R_GPUS] = {"gpus", "gpus"},
                                               [R_PROCS] = {"rankspernode", "ranksPerNode"},
                                               [R_EACH] = {"gpusperrank", "gpusPerRank"},
                                               [R_NODES] = {"nodes", "nodes"}};
        int from = find_column(f, t->n_heads, "ranks");
        unsigned commas = 0;

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                t->at[i] = find_column(f, t->n_heads, names[i][0]);
                if (t->at[i] < 0)
                        t->at[i] = find_column(f, t->n_heads, names[i][1]);
                if (t->at[i] < 0 && i < R_NEEDED)
                        return capo_input_error(t->in, 1, "expected a column \"%s\", found none",
                                                names[i][0]);
        }
        if (t->at[R_GPUS] < 0 && (t->at[R_PROCS] < 0 || t->at[R_EACH] < 0))
                return capo_input_error(t->in, 1,
                                        "expected a column \"gpus\", or both \"rankspernode\" and "
                                        "\"gpusperrank\", found neither");
        for (size_t i = 0; rows && rows[i] && rows[i] != '\n'; i++)
                commas += rows[i] == ',';
        if (t->at[R_NODES] >= 0 || from < 0 || commas != t->n_heads)
                return 0;
        t->n_heads++;
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                t->at[i] += t->at[i] >= from;
        return 0;
}

int capo_import_rccl_csv(struct capo_input *in)
{
        char *f[MAX_FIELDS], *next = strchr(in->text, '\n');
        struct table t = {
                .in = in, .n_heads = split_fields(in->text, f), .first_run = in->set->n_runs};
        int e;

        for (unsigned i = 0; i < t.n_heads && i < MAX_FIELDS; i++)
                f[i] = strip_quotes(f[i]);
        e = find_rccl_columns(&t, f, next ? next + 1 : NULL);
        return e < 0 ? e : read_rows(&t, next ? next + 1 : NULL, rccl_row);
}
