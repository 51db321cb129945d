/* SPDX-License-Identifier: Apache-2.0 */
/* The input of optimize_config.py of NVIDIA's example tuner, a CSV table: a row for each measured
 * candidate, with columns for what ran. Columns are found by name, in any order. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "profiles/import/import_private.h"

enum { MAX_FIELDS = 64 };

bool capo_import_is_sweep_csv(const char *text, size_t n)
{
        text += strspn(text, " \t\r\n");
        return !strncmp(text, "collective,", 11) || !strncmp(text, "collective ,", 12);
}

enum { CALL, BYTES, ALGO, PROTO, CHANNELS, NODES, RANKS, TIME, PIPE, REG, COLUMNS };

/* What a column has, and the words of the error if a row has something else. From PIPE on a table may lack
 * them. */
static const struct column {
        const char *head, *expected;
        long least, most; /* of a whole number */
} columns[COLUMNS] = {{"collective", "a collective"},
                      {"size_bytes", "a size in bytes"},
                      {"algorithm", "an algorithm or \"default\""},
                      {"protocol", "a protocol or \"default\""},
                      {"channels", "channels, -1 for NCCL's own", -1, 127},
                      {"nodes", "a number of nodes", -1, 100000},
                      {"ranks", "at least 2 ranks", 2, 1000000},
                      {"latency_us", "a time in us above 0"},
                      {"pipeOps", "a number or -1", -1, 1000000},
                      {"regBuff", "a number or -1", -1, 1000000}};

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

/* Convert column @i of a row: into @s, or *@whole. Return: is it what the column has? */
static bool take_field(unsigned i, const char *text, struct capo_sample *s, long *whole)
{
        bool chosen = strcmp(text, "default") && strcmp(text, "auto");
        unsigned found;
        char *end;

        switch (i) {
        case CALL:
                s->call =
                        !strcmp(text, "send_recv") ? CAPO_CALL_SEND : (uint8_t)capo_call_find(text);
                return s->call;
        case BYTES: return capo_size_parse(text, &s->bytes) == 0 && s->bytes > 0;
        case ALGO:
        case PROTO:
                found = i == ALGO ? capo_algo_find(text) : capo_proto_find(text);
                s->want |= (uint8_t)(i == ALGO ? found << 4 : found);
                return found || !chosen;
        case TIME: return capo_input_number(text, &s->us) && s->us > 0;
        default:
                errno = 0;
                *whole = strtol(text, &end, 10);
                return end != text && !*end && !errno && *whole >= columns[i].least &&
                       *whole <= columns[i].most;
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

/* Convert line @n, whose fields are @f; @at: those of the columns. Return: 0; -EINVAL with the error set. */
static int read_row(struct capo_input *in, unsigned n, char **f, const int *at, size_t first_run)
{
        struct capo_trial run = {.source = (char *)in->path, .line = n, .iterations = 1};
        struct capo_sample s = {.order = n, .make = CAPO_MAKE_REPORT, .type = 255, .op = 255};
        long whole[COLUMNS] = {0};

        for (unsigned i = 0; i < COLUMNS; i++) {
                if (at[i] >= 0 && !take_field(i, f[at[i]], &s, &whole[i]))
                        return capo_input_error(in, n, "expected %s, found \"%s\"",
                                                columns[i].expected, f[at[i]]);
        }
        /* A different question to NCCL, which optimize_config.py also has: registered buffers,
         * several fused operations. */
        if (whole[PIPE] > 1)
                capo_append(run.settings, sizeof run.settings, "pipeOps=%ld", whole[PIPE]);
        if (whole[REG] > 0)
                capo_append(run.settings, sizeof run.settings, "%sregBuff=1",
                            *run.settings ? " " : "");
        s.want_channels = (uint8_t)(whole[CHANNELS] > 0 ? whole[CHANNELS] : 0);
        run.n_ranks = (int)whole[RANKS];
        run.n_nodes = (int)(whole[NODES] > 0 ? whole[NODES] : 0);
        if (run.n_nodes == 1 || run.n_nodes == run.n_ranks)
                capo_input_even(&run);
        if (capo_input_label(in, &run) < 0)
                return -EINVAL;
        s.run = find_run(in, &run, first_run);
        capo_samples_add(in->set, &s);
        return 0;
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
        size_t first = in->set->n, first_run = in->set->n_runs;
        struct capo_input_faults faults = {0};
        char *rows = in->text, *heads = strsep(&rows, "\n"), *f[MAX_FIELDS], *line;
        unsigned n_heads = split_fields(heads, f);
        int at[COLUMNS], e;

        for (unsigned i = 0; i < COLUMNS; i++) {
                at[i] = -1;
                for (unsigned k = 0; k < n_heads && k < MAX_FIELDS && at[i] < 0; k++)
                        at[i] = strcmp(f[k], columns[i].head) ? -1 : (int)k;
                if (at[i] < 0 && i < PIPE)
                        return capo_input_error(in, 1, "expected a column \"%s\", found none",
                                                columns[i].head);
        }
        for (unsigned n = 2; (line = strsep(&rows, "\n")); n++) { /* a bad one is left out */
                unsigned fields;

                if (!line[strspn(line, " \t\r")] || *line == '#')
                        continue;
                fields = split_fields(line, f);
                e = fields != n_heads ? capo_input_error(in, n, "expected %u fields, found %u",
                                                         n_heads, fields)
                                      : read_row(in, n, f, at, first_run);
                if (e < 0)
                        capo_input_fault(in, &faults);
        }
        e = capo_input_faults_end(in, &faults, "rows", in->set->n > first);
        if (e == 0)
                split_repeats(in, first);
        return e;
}
