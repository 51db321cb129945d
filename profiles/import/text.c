/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of nccl-tests, as people keep it: with headers or cut down to its rows, several runs in one file, NCCL's
 * own log lines in the middle of a row, launcher tags before each line, in the old ("error") and new ("#wrong") column
 * layouts, with or without the root column, in-place columns and per-iteration columns.
 *
 * A file is a list of runs. A run begins at a header ("# nccl-tests version", "# nThread"), at a label line that people
 * write between runs ("### ALGO=Ring size=1G", "=== NCCL_PROTO=LL rep 2"), and it ends where the next begins. Its rows
 * are kept aside until then, because what rejects a run (wrong results, ranks that ran alone) stands at its end.
 *
 * A row is a size, a count and a type, then maybe operator and root, then groups of time, algbw, busbw, errors.
 * nccl-tests prints a row in three pieces, and a log line of another thread may come between them, glued to the last
 * word: the host names seen in the file tell where the word ends.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/calls.h"
#include "core/layout.h"
#include "core/size.h"
#include "core/util.h"
#include "profiles/import/import_priv.h"

enum { MAX_HOSTS = 4096, MAX_WORDS = 32, HOST_ROOM = 64 };

struct row {
        struct capo_sample sample[2]; /* out-of-place, in-place */
        unsigned n;
        double algbw, busbw; /* of the last */
        unsigned line;
};

/* The run being read. */
struct block {
        struct capo_trial run;
        struct capo_nccl_log log;
        uint8_t call, algo, proto, channels; /* said by headers and label lines */
        bool several;                        /* NCCL_ALGO or NCCL_PROTO is a list: does not say what ran */
        unsigned label_line, several_line;
        bool per_iteration, timestamp, in_place_only;
        uint8_t make;
        unsigned groups; /* of time columns, by the header; 0 no header */
        int root;        /* of its last row; -1 none */
        int hosts[MAX_HOSTS];
        int n_hosts, n_devices, device_rank0;
        struct row *rows;
        size_t n_rows, room;
        char *rejected;
};

struct reader {
        struct capo_input *in;
        char (*hosts)[HOST_ROOM]; /* all host names of the file */
        int n_hosts, hosts_room;
        struct block block;
        char words[MAX_WORDS][40]; /* of the row that is being put together */
        unsigned n_words, row_line;
};

/* ---- small helpers ---- */

static void reject(struct block *b, const char *format, ...)
{
        va_list ap;

        if (b->rejected)
                return;
        va_start(ap, format);
        if (vasprintf(&b->rejected, format, ap) < 0)
                b->rejected = NULL;
        va_end(ap);
}

static int host_index(struct reader *r, const char *name, size_t size)
{
        if (size == 0 || size >= HOST_ROOM)
                return -1;
        for (int i = 0; i < r->n_hosts; i++) {
                if (strlen(r->hosts[i]) == size && !memcmp(r->hosts[i], name, size))
                        return i;
        }
        if (r->n_hosts == r->hosts_room) {
                int room = r->hosts_room ? r->hosts_room * 2 : 16;
                void *p = room > MAX_HOSTS ? NULL : reallocarray(r->hosts, (size_t)room, HOST_ROOM);

                if (!p)
                        return -1;
                r->hosts = p;
                r->hosts_room = room;
        }
        memcpy(r->hosts[r->n_hosts], name, size);
        r->hosts[r->n_hosts][size] = 0;
        return r->n_hosts++;
}

/* "host:123:456 [0] NCCL INFO ..." : where the host begins; NULL when there is no such mark. @said: after "INFO ". */
static const char *nccl_mark(const char *line, const char **said)
{
        const char *mark = strstr(line, " NCCL INFO ");
        const char *p;

        if (!mark)
                mark = strstr(line, " NCCL WARN ");
        if (!mark)
                return NULL;
        *said = mark + 11;
        p = mark;
        if (p > line && p[-1] == ']') { /* [rank or device] */
                while (p > line && p[-1] != '[')
                        p--;
                if (p > line)
                        p--;
                while (p > line && p[-1] == ' ')
                        p--;
        }
        while (p > line && !isspace((unsigned char)p[-1]))
                p--;
        return p;
}

/* Learn the host names before the first row needs them. */
static void collect_hosts(struct reader *r)
{
        const char *said;

        for (char *line = r->in->text, *end; *line; line = end + (*end == '\n')) {
                const char *mark, *colon;
                char host[HOST_ROOM];
                int rank;

                end = strchrnul(line, '\n');
                if (*line == '#' && sscanf(line, "# Rank %d Group %*d Pid %*d on %63s", &rank, host) == 2) {
                        host_index(r, host, strlen(host));
                        continue;
                }
                if (*line == '#' && sscanf(line, "# Rank %d Pid %*d on %63s", &rank, host) == 2) {
                        host_index(r, host, strlen(host));
                        continue;
                }
                if (end - line < 24 || isspace((unsigned char)*line))
                        continue;
                char saved = *end;

                *end = 0;
                mark = nccl_mark(line, &said);
                if (mark == line && (colon = strchr(mark, ':')) && isdigit((unsigned char)colon[1]))
                        host_index(r, mark, (size_t)(colon - mark));
                *end = saved;
        }
}

/* How many characters of @word belong to the row it is glued to: "-138dcf168f605:1391:1391" with host 38dcf168f605: 2
 */
static size_t glued(const struct reader *r, const char *word)
{
        const char *colon = strchr(word, ':');
        size_t n = colon ? (size_t)(colon - word) : 0, best = 0;

        for (int i = 0; i < r->n_hosts; i++) {
                size_t h = strlen(r->hosts[i]);

                if (h <= n && h > best && !memcmp(word + n - h, r->hosts[i], h))
                        best = h;
        }
        return best ? n - best : 0;
}

static unsigned type_of(const char *word)
{
        static const struct {
                const char *name;
                uint8_t type;
        } more[] = {{"fp8_e4m3", 10}, {"fp8_e5m2", 11}, {"float8_e4m3", 10}, {"float8_e5m2", 11},
                    {"bf16", 9},      {"float16", 6},   {"float32", 7},      {"float64", 8}};

        for (unsigned t = 0; t <= 11; t++) {
                if (!strcmp(word, capo_type_name(t)))
                        return t;
        }
        for (size_t i = 0; i < N_ELEMENTS(more); i++) {
                if (!strcmp(word, more[i].name))
                        return more[i].type;
        }
        return 255;
}

static unsigned op_of(const char *word)
{
        for (unsigned op = 0; op <= 4; op++) {
                if (!strcmp(word, capo_op_name(op)))
                        return op;
        }
        return !strcmp(word, "mulsum") ? 254 : 255;
}

static bool number(const char *word, double *out)
{
        char *end;

        if (!strcmp(word, "N/A")) {
                *out = 0;
                return true;
        }
        errno = 0;
        *out = strtod(word, &end);
        return end != word && !*end && errno == 0 && isfinite(*out);
}

/* nccl-tests' program names: all_reduce_perf, all_gather_perf_mpi, ... */
static unsigned call_of_program(const char *text)
{
        const char *perf = strstr(text, "_perf");
        char name[32];
        size_t n = 0;

        if (!perf)
                return CAPO_CALL_NONE;
        while (perf - n > text && n < sizeof name - 1 &&
               (isalpha((unsigned char)perf[-1 - (long)n]) || perf[-1 - (long)n] == '_'))
                n++;
        memcpy(name, perf - n, n);
        name[n] = 0;
        if (!strcmp(name, "sendrecv"))
                return CAPO_CALL_SEND;
        return capo_call_find(name);
}

/* ---- labels ---- */

static int end_block(struct reader *r);

static int conflict(struct reader *r, unsigned line, const char *what, const char *a, const char *b)
{
        return capo_input_error(r->in, line, "contradicting labels: %s %s here, %s before", what, a, b);
}

/* One KEY=VALUE of a label line or a command line. Returns 1 when it meant something. */
static int label(struct reader *r, const char *key, const char *value, unsigned line)
{
        struct block *b = &r->block;
        uint64_t n;

        if (!strcasecmp(key, "NCCL_ALGO") || !strcasecmp(key, "ALGO")) {
                unsigned algo = capo_algo_find(value);
                const char *colon = strchr(value, ':');

                if (!algo && colon && !strchr(value, ';') && capo_call_find("AllReduce")) {
                        algo = capo_algo_find(colon + 1); /* "allreduce:ring", 2.24 on */
                }
                if (!algo && (!strcasecmp(value, "auto") || !strcasecmp(value, "default")))
                        return 1;
                if (!algo) {
                        b->several = true;
                        b->several_line = line;
                        return 1;
                }
                if (b->algo && b->algo != algo)
                        return conflict(r, line, "algorithm", capo_algo_name(algo), capo_algo_name(b->algo));
                b->algo = (uint8_t)algo;
        } else if (!strcasecmp(key, "NCCL_PROTO") || !strcasecmp(key, "PROTO")) {
                unsigned proto = capo_proto_find(value);

                if (!proto && (!strcasecmp(value, "auto") || !strcasecmp(value, "default")))
                        return 1;
                if (!proto) {
                        b->several = true;
                        b->several_line = line;
                        return 1;
                }
                if (b->proto && b->proto != proto)
                        return conflict(r, line, "protocol", capo_proto_name(proto), capo_proto_name(b->proto));
                b->proto = (uint8_t)proto;
        } else if (!strcasecmp(key, "CHANNELS") || !strcasecmp(key, "NCCL_MAX_NCHANNELS")) {
                if (capo_size_parse(value, &n) < 0 || n > 127)
                        return capo_input_error(r->in, line, "%s: expected a number of channels, found \"%s\"", key,
                                                value);
                b->channels = (uint8_t)n;
        } else if (!strcasecmp(key, "GPUS") || !strcasecmp(key, "RANKS") || !strcasecmp(key, "NRANKS")) {
                if (capo_size_parse(value, &n) < 0 || n < 1 || n > 1000000)
                        return capo_input_error(r->in, line, "%s: expected a number of ranks, found \"%s\"", key,
                                                value);
                b->run.n_ranks = (int)n;
        } else if (!strcasecmp(key, "NODES") || !strcasecmp(key, "NNODES")) {
                if (capo_size_parse(value, &n) < 0 || n < 1 || n > 100000)
                        return capo_input_error(r->in, line, "%s: expected a number of nodes, found \"%s\"", key,
                                                value);
                b->run.n_nodes = (int)n;
        } else if (!strcasecmp(key, "LAYOUT")) {
                if (capo_input_layout(value, &b->run) < 0)
                        return capo_input_error(r->in, line,
                                                "LAYOUT: expected ranks per node such as 3+5, found \"%s\"", value);
        } else if (!strcasecmp(key, "NCCL") || !strcasecmp(key, "NCCL_VERSION")) {
                b->run.nccl = capo_nccl_parse(value);
        } else if (!strcasecmp(key, "COLL") || !strcasecmp(key, "COLLECTIVE")) {
                b->call = (uint8_t)capo_call_find(value);
        } else if (!strcasecmp(key, "TREE_THRESHOLD") || !strcasecmp(key, "SIZE") || !strcasecmp(key, "REP")) {
                ; /* known, says nothing about what ran */
        } else {
                return 0;
        }
        b->label_line = line;
        return 1;
}

/* Would this line say something about a run? Then, once there are rows, it begins the next one. */
static bool has_label(const char *text)
{
        static const char *const keys[] = {
                "NCCL_ALGO=", "NCCL_PROTO=", "ALGO=",  "PROTO=",  "CHANNELS=", "NCCL_MAX_NCHANNELS=",
                "GPUS=",      "RANKS=",      "NODES=", "LAYOUT=", "COLL="};

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                const char *p = strstr(text, keys[i]);

                if (p && (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')))
                        return true;
        }
        return false;
}

static bool used(const struct block *b)
{
        return b->n_rows > 0 || b->rejected;
}

static int labels(struct reader *r, char *text, unsigned line)
{
        bool mark = *text == '#' || *text == '=';
        unsigned call = call_of_program(text);
        int e;

        if (!has_label(text) && !(call && !used(&r->block)))
                return 0;
        /* A label line after rows, or one that repeats what is already said (its run printed nothing), opens a run. */
        if (has_label(text) && (used(&r->block) || (mark && r->block.label_line && r->block.n_devices == 0))) {
                e = end_block(r);
                if (e < 0)
                        return e;
        }
        r->block.run.line = r->block.run.line ? r->block.run.line : line;
        for (char *save = NULL, *word = strtok_r(text, " \t,'\"", &save); word;
             word = strtok_r(NULL, " \t,'\"", &save)) {
                char *eq = strchr(word, '=');

                if (!eq || eq == word || !eq[1])
                        continue;
                *eq = 0;
                e = label(r, word, eq + 1, line);
                if (e < 0)
                        return e;
        }
        if (call)
                r->block.call = (uint8_t)call;
        return 0;
}

/* ---- headers ---- */

static int device_line(struct reader *r, const char *line, unsigned n)
{
        struct block *b = &r->block;
        char host[HOST_ROOM], gpu[80] = "";
        const char *bracket;
        int rank, index;

        if (sscanf(line, "# Rank %d Group %*d Pid %*d on %63s", &rank, host) != 2 &&
            sscanf(line, "# Rank %d Pid %*d on %63s", &rank, host) != 2)
                return 0;
        bracket = strchr(line, ']');
        if (bracket)
                sscanf(bracket + 1, " %79[^\n\r]", gpu);
        if (!strncmp(gpu, "NVIDIA ", 7))
                memmove(gpu, gpu + 7, strlen(gpu + 7) + 1);
        for (size_t i = strlen(gpu); i > 0 && isspace((unsigned char)gpu[i - 1]);)
                gpu[--i] = 0;
        if (rank == 0 && b->device_rank0++ > 0)
                reject(b, "rank 0 is listed more than once: the processes ran alone, each as its own job of one rank "
                          "(nccl-tests built without MPI?)");
        if (b->run.gpu[0] && gpu[0] && strncmp(b->run.gpu, gpu, sizeof b->run.gpu - 1))
                reject(b, "two kinds of GPU in one run, \"%s\" and \"%s\"", b->run.gpu, gpu);
        else
                snprintf(b->run.gpu, sizeof b->run.gpu, "%.47s", gpu);
        index = host_index(r, host, strlen(host));
        if (index < 0)
                return capo_input_error(r->in, n, "more than %d host names", MAX_HOSTS);
        if (b->hosts[index]++ == 0)
                b->n_hosts++;
        b->n_devices++;
        return 1;
}

/* The column heads: "#   size  count  type  redop  root  time  algbw  busbw  #wrong  time ..." and their units. */
static int column_line(struct reader *r, const char *line, unsigned n)
{
        struct block *b = &r->block;
        const char *p = line;

        if (strstr(line, " size ") && strstr(line, "algbw")) {
                b->groups = 0;
                while ((p = strstr(p, "algbw"))) {
                        b->groups++;
                        p += 5;
                }
                b->per_iteration = strstr(line, "i_min") != NULL;
                b->timestamp = strstr(line, "timestamp") != NULL;
                if (strstr(line, "cputime"))
                        b->make = CAPO_MAKE_CPU;
                return 1;
        }
        if (strstr(line, "(elements)")) {
                if (!strstr(line, "(B)") || !strstr(line, "(us)") || !strstr(line, "(GB/s)") || strstr(line, "(ms)"))
                        return capo_input_error(r->in, n,
                                                "units: expected sizes in (B), times in (us) and (GB/s), found "
                                                "\"%.80s\"",
                                                line);
                return 1;
        }
        return 0;
}

static int header(struct reader *r, char *line, unsigned n)
{
        struct block *b = &r->block;
        unsigned long headers, library, wrong;
        unsigned iterations = 0;
        const char *p;
        int e;

        if (strstr(line, "nccl-tests version") || (strstr(line, "# nThread") && (used(b) || b->run.iterations))) {
                if (used(b) || (strstr(line, "# nThread") && b->run.iterations)) {
                        if (b->n_devices && !used(b))
                                reject(b, "its table never came: the run broke off, or several processes ran alone and "
                                          "wrote over each other");
                        e = end_block(r);
                        if (e < 0)
                                return e;
                }
        }
        if (!b->run.line)
                b->run.line = n;
        if (sscanf(line, "# nccl-tests version %*s nccl-headers=%lu nccl-library=%lu", &headers, &library) == 2) {
                b->run.nccl = (uint32_t)library;
                return 0;
        }
        p = strstr(line, " iters: ");
        if (strstr(line, "# nThread") && p) {
                const char *graph = strstr(line, "graph: ");

                /* "warmup iters: 5 iters: 20": the second */
                for (const char *q; (q = strstr(p + 1, " iters: ")) && q > p && strncmp(q - 4, " agg", 4); p = q)
                        ;
                sscanf(p, " iters: %u", &iterations);
                b->run.iterations = iterations ? iterations : 1;
                if (graph && atoi(graph + 7) > 0)
                        b->make = CAPO_MAKE_GRAPH;
                return 0;
        }
        e = device_line(r, line, n);
        if (e)
                return e < 0 ? e : 0;
        e = column_line(r, line, n);
        if (e)
                return e < 0 ? e : 0;
        if (sscanf(line, "# Out of bounds values : %lu", &wrong) == 1 && wrong > 0)
                reject(b, "%lu values out of bounds: its results are wrong", wrong);
        return labels(r, line, n);
}

/* ---- rows ---- */

/* nccl-tests prints three or four digits: does the bandwidth belong to this size and time? */
static int check_units(struct reader *r, const struct row *row, double us, double algbw)
{
        double expected = (double)row->sample[0].bytes / us / 1e3;

        if (expected < 0.02 || fabs(algbw - expected) <= 0.006 + 0.02 * expected)
                return 0;
        return capo_input_error(
                r->in, row->line,
                "time and bandwidth disagree: %llu bytes in %g us are %.3g GB/s, found %g; mixed units?",
                (unsigned long long)row->sample[0].bytes, us, expected, algbw);
}

static int add_row(struct reader *r)
{
        struct block *b = &r->block;
        struct row row = {.line = r->row_line};
        unsigned type = type_of(r->words[2]), op = 255, at = 3, rest, width = b->per_iteration ? 8 : 4;
        struct capo_sample s = {.order = r->row_line, .type = (uint8_t)type, .make = b->make};
        double v;

        if (capo_size_parse(r->words[0], &s.bytes) < 0)
                return capo_input_error(r->in, r->row_line, "expected a size, found \"%s\"", r->words[0]);
        if (at < r->n_words && !number(r->words[at], &v))
                op = op_of(r->words[at++]);
        s.op = (uint8_t)op;
        rest = r->n_words - at;
        if (b->timestamp && rest >= 2 && strchr(r->words[r->n_words - 1], ':'))
                rest -= 2;
        b->root = -1;
        if (rest % width == 1) { /* the root column */
                b->root = atoi(r->words[at++]);
                rest--;
        }
        if (!b->run.line)
                b->run.line = r->row_line;
        if (rest == 0 || rest % width || rest / width > 2) {
                capo_samples_note(r->in->set, "%s:%u: row left out: it is cut off (%u numbers)", r->in->path,
                                  r->row_line, rest);
                return 0;
        }
        row.sample[0].bytes = s.bytes;
        for (unsigned g = 0; g < rest / width; g++, at += width) {
                double us, algbw, busbw, wrong;
                bool cut = !number(r->words[at], &us) || !number(r->words[at + 1], &algbw) ||
                           !number(r->words[at + 2], &busbw) || !number(r->words[at + 3], &wrong);
                int e;

                if (cut)
                        return capo_input_error(r->in, r->row_line,
                                                "expected time, algbw, busbw and errors, found \"%s %s %s %s\"",
                                                r->words[at], r->words[at + 1], r->words[at + 2], r->words[at + 3]);
                if (s.bytes == 0) {
                        r->in->set->n_empty++;
                        continue;
                }
                if (us <= 0) {
                        reject(b, "line %u: a time of %g us", r->row_line, us);
                        continue;
                }
                e = check_units(r, &row, us, algbw);
                if (e < 0)
                        return e;
                if (strchr(r->words[at + 3], '.') == NULL && !strchr(r->words[at + 3], 'e') && wrong >= 1)
                        reject(b, "line %u: %s wrong values: its results are wrong", r->row_line, r->words[at + 3]);
                if (algbw >= 1 && busbw == 0)
                        reject(b, "line %u: bus bandwidth 0: each rank ran alone, as a job of one", r->row_line);
                s.us = us;
                s.place = rest == width ? CAPO_PLACE_UNKNOWN : g ? CAPO_PLACE_IN : CAPO_PLACE_OUT;
                row.sample[row.n++] = s;
                row.algbw = algbw;
                row.busbw = busbw;
        }
        if (row.n == 0)
                return 0;
        if (b->n_rows == b->room) {
                size_t room = b->room ? b->room * 2 : 64;
                struct row *p = reallocarray(b->rows, room, sizeof *p);

                if (!p)
                        return -ENOMEM;
                b->rows = p;
                b->room = room;
        }
        b->rows[b->n_rows++] = row;
        return 0;
}

static int finish_row(struct reader *r)
{
        int e = r->n_words ? add_row(r) : 0;

        r->n_words = 0;
        return e;
}

/* Is the row that is being put together whole? Without a header only the end of its line tells. */
static bool row_whole(const struct reader *r)
{
        const struct block *b = &r->block;
        unsigned fixed = 3, width = b->per_iteration ? 8 : 4, rest;
        double v;

        if (r->n_words > 3 && !number(r->words[3], &v))
                fixed++;
        rest = r->n_words - fixed;
        return rest >= width * (b->groups ? b->groups : 1) && (b->groups || rest % width <= 1);
}

static bool begins_row(const char *text)
{
        char size[40], count[40], type[40];
        uint64_t n;

        return sscanf(text, "%39s %39s %39s", size, count, type) == 3 && isdigit((unsigned char)size[0]) &&
               isdigit((unsigned char)count[0]) && capo_size_parse(size, &n) == 0 && type_of(type) != 255;
}

/* Words of a row, or a piece of one. @open: a log line follows, so the row may go on later. */
static int row_piece(struct reader *r, char *text, unsigned line, bool open)
{
        int e;

        if (begins_row(text)) {
                e = finish_row(r);
                if (e < 0)
                        return e;
                r->row_line = line;
        } else if (r->n_words == 0) {
                return 0; /* somebody else's text */
        } else {
                double v;
                char first[40];

                if (sscanf(text, "%39s", first) != 1 || !number(first, &v))
                        return 0;
        }
        for (char *save = NULL, *w = strtok_r(text, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
                if (r->n_words == MAX_WORDS || strlen(w) >= sizeof r->words[0])
                        return capo_input_error(r->in, line,
                                                "expected a row of nccl-tests, found too many or too long words");
                strcpy(r->words[r->n_words++], w);
        }
        return !open && row_whole(r) ? finish_row(r) : 0;
}

/* ---- the end of a run ---- */

/* Ranks from the bandwidths, by nccl-tests' convention: only where the sizes are large enough to tell. */
static int ranks_by_bandwidth(const struct block *b, unsigned call, double *factor_out)
{
        double best = 0, factor = 0, n = 0;

        for (size_t i = 0; i < b->n_rows; i++) {
                if (b->rows[i].algbw > best && b->rows[i].busbw > 0) {
                        best = b->rows[i].algbw;
                        factor = b->rows[i].busbw / b->rows[i].algbw;
                }
        }
        *factor_out = best >= 5 ? factor : 0;
        if (best < 5)
                return 0;
        switch (capo_call_kind(call)) {
        case CAPO_KIND_ALLREDUCE: n = factor < 1.995 ? 2 / (2 - factor) : 0; break;
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_REDUCESCATTER:
        case CAPO_KIND_ALLTOALL:
        case CAPO_KIND_GATHER:
        case CAPO_KIND_SCATTER: n = factor < 0.997 ? 1 / (1 - factor) : 0; break;
        default: return 0;
        }
        return n >= 1.5 && fabs(n - round(n)) < 0.02 * n ? (int)round(n) : 0;
}

static int settle_ranks(struct reader *r)
{
        struct block *b = &r->block;
        struct capo_trial *run = &b->run;
        struct capo_layout layout = {0};
        char text[CAPO_LAYOUT_TEXT];
        int e, told;
        double factor;

        if (b->n_devices && !run->layout[0]) {
                for (int i = 0; i < r->n_hosts; i++) {
                        if (b->hosts[i] && capo_layout_add(&layout, (uint32_t)b->hosts[i], 1) < 0)
                                break;
                }
                if (run->n_ranks && run->n_ranks != b->n_devices)
                        return capo_input_error(r->in, b->label_line,
                                                "contradicting labels: %d ranks, but %d devices are listed",
                                                run->n_ranks, b->n_devices);
                run->n_ranks = b->n_devices;
                run->n_nodes = b->n_hosts;
                capo_layout_print(&layout, text, sizeof text);
                if (strlen(text) < sizeof run->layout && layout.n_ranks == (uint32_t)b->n_devices)
                        strcpy(run->layout, text);
        }
        e = capo_input_label(r->in, run);
        if (e < 0)
                return e;
        told = ranks_by_bandwidth(b, b->call, &factor);
        if (!run->n_ranks)
                run->n_ranks = told;
        if (run->n_ranks == 1)
                reject(b, "one rank: it ran alone, nothing was communicated");
        else if (run->n_ranks && factor > 0) {
                double expected = capo_busbw_factor(capo_call_kind(b->call), (unsigned)run->n_ranks);

                if (fabs(factor - expected) > 0.02)
                        reject(b,
                               "%d ranks are listed, but its bandwidths are those of %d (busbw/algbw %.3f, expected "
                               "%.3f); "
                               "if lines were lost, say --layout",
                               run->n_ranks, told, factor, expected);
        }
        if (run->n_ranks > 0 && run->n_nodes == 1 && !run->layout[0])
                snprintf(run->layout, sizeof run->layout, "%d", run->n_ranks);
        return 0;
}

/* The collective: said, or the only one whose columns look like this. */
static void settle_call(struct reader *r)
{
        struct block *b = &r->block;
        double factor;

        if (r->in->label && r->in->label->call)
                b->call = r->in->label->call;
        if (b->call)
                return;
        if (b->log.n_decisions && b->log.decisions[0].call &&
            b->log.decisions[0].call == b->log.decisions[b->log.n_decisions - 1].call) {
                b->call = b->log.decisions[0].call;
                return;
        }
        /* Otherwise the columns tell, as far as they do (nccl-tests doc/PERFORMANCE.md): a root is broadcast or reduce;
         * a reduction without root is an all-reduce or a reduce-scatter, by the factor of its bus bandwidth. All-gather
         * and all-to-all look alike. */
        ranks_by_bandwidth(b, CAPO_CALL_NONE, &factor);
        if (b->root >= 0)
                b->call = b->rows[0].sample[0].op != 255 ? CAPO_CALL_REDUCE : CAPO_CALL_BROADCAST;
        else if (b->rows[0].sample[0].op != 255 && factor > 0)
                b->call = factor >= 0.999 ? CAPO_CALL_ALLREDUCE : CAPO_CALL_REDUCESCATTER;
}

/* What was forced: the user's flags, the label lines, NCCL's words about its environment, its tuning table; all that
 * speak must agree. */
static int settle_choice(struct reader *r, uint8_t *want)
{
        struct block *b = &r->block;
        const struct capo_label *user = r->in->label;
        uint8_t table = 0;
        struct {
                unsigned algo, proto;
                const char *who;
        } say[] = {
                {user ? user->algo : 0, user ? user->proto : 0, "the command line"},
                {b->algo, b->proto, "its header"},
                {b->log.env_algo, b->log.env_proto, "NCCL's line about its environment"},
                {0, 0, "NCCL's tuning table"},
        };
        unsigned algo = 0, proto = 0;
        const char *who_algo = "", *who_proto = "";

        if (b->call == CAPO_CALL_ALLREDUCE && capo_nccl_log_forced(&b->log, &table)) {
                say[3].algo = CAPO_ALGO_OF(table);
                say[3].proto = CAPO_PROTO_OF(table);
        }
        for (size_t i = 0; i < N_ELEMENTS(say); i++) {
                if (algo && say[i].algo && algo != say[i].algo)
                        return capo_input_error(r->in, b->run.line, "contradicting labels: %s says %s, %s says %s",
                                                who_algo, capo_algo_name(algo), say[i].who,
                                                capo_algo_name(say[i].algo));
                if (proto && say[i].proto && proto != say[i].proto)
                        return capo_input_error(r->in, b->run.line, "contradicting labels: %s says %s, %s says %s",
                                                who_proto, capo_proto_name(proto), say[i].who,
                                                capo_proto_name(say[i].proto));
                if (say[i].algo) {
                        algo = say[i].algo;
                        who_algo = say[i].who;
                }
                if (say[i].proto) {
                        proto = say[i].proto;
                        who_proto = say[i].who;
                }
        }
        if (user && user->default_choice && (algo || proto))
                return capo_input_error(
                        r->in, b->run.line, "contradicting labels: the command line says NCCL chose, %s says %s",
                        algo ? who_algo : who_proto, algo ? capo_algo_name(algo) : capo_proto_name(proto));
        *want = CAPO_ALGO_PROTO(algo, proto);
        if (!algo && !proto && (b->several || b->log.env_several) && b->log.n_decisions == 0)
                reject(b, "NCCL_ALGO or NCCL_PROTO is a list there: it does not say what ran (NCCL_DEBUG=INFO with "
                          "NCCL_DEBUG_SUBSYS=TUNING would)");
        return 0;
}

static int ran(struct reader *r, struct capo_sample *s, uint8_t want)
{
        struct block *b = &r->block;
        const struct capo_decision *d = capo_nccl_log_ran(&b->log, s->call, s->bytes);
        unsigned algo = CAPO_ALGO_OF(want), proto = CAPO_PROTO_OF(want);

        s->want = want;
        if (d && !d->split) {
                s->ran = d->ran;
                s->ran_channels = d->channels;
                if ((algo && algo != CAPO_ALGO_OF(d->ran)) || (proto && proto != CAPO_PROTO_OF(d->ran)))
                        return capo_input_error(
                                r->in, d->line, "contradicting labels: %s %s was forced, but %s %s ran at %llu bytes",
                                capo_algo_name(algo), capo_proto_name(proto), capo_algo_name(CAPO_ALGO_OF(d->ran)),
                                capo_proto_name(CAPO_PROTO_OF(d->ran)), (unsigned long long)s->bytes);
        }
        if (!want && (b->several || b->log.env_several))
                s->want = s->ran; /* restricted by a list: not NCCL's own choice, but what ran is known */
        return 0;
}

static void clear_block(struct block *b)
{
        free(b->rows);
        free(b->rejected);
        capo_nccl_log_free(&b->log);
        *b = (struct block){.make = CAPO_MAKE_LOOP};
}

static int take_rows(struct reader *r, uint8_t want)
{
        struct block *b = &r->block;
        const struct capo_label *user = r->in->label;
        uint32_t run = capo_samples_run(r->in->set, &b->run);

        if (run == UINT32_MAX)
                return -ENOMEM;
        for (size_t i = 0; i < b->n_rows; i++) {
                for (unsigned g = 0; g < b->rows[i].n; g++) {
                        struct capo_sample s = b->rows[i].sample[g];
                        int e;

                        s.run = run;
                        s.call = b->call;
                        e = ran(r, &s, want);
                        if (e < 0)
                                return e;
                        s.want_channels = user && user->channels ? user->channels : b->channels;
                        e = capo_samples_add(r->in->set, &s);
                        if (e < 0)
                                return e;
                }
        }
        return 0;
}

static int end_block(struct reader *r)
{
        struct block *b = &r->block;
        uint8_t want = 0;
        int e = finish_row(r);

        if (e < 0)
                return e;
        b->run.source = (char *)r->in->path;
        if (!b->run.iterations)
                b->run.iterations = 1;
        if (b->log.version) /* the library that ran, against the header it was built with */
                b->run.nccl = b->log.version;
        if (b->n_rows && !b->rejected) {
                settle_call(r);
                if (!b->call)
                        reject(b, "which collective it measured is not said; --coll NAME says it");
                e = settle_ranks(r);
                if (e == 0)
                        e = settle_choice(r, &want);
                if (e == 0 && !b->rejected && !b->run.n_ranks)
                        reject(b, "on how many ranks it ran is not said; --layout 8 or 3+5 says it");
                if (e == 0 && !b->rejected)
                        e = take_rows(r, want);
        }
        if (e == 0 && b->rejected) {
                r->in->set->n_rejected++;
                capo_samples_note(r->in->set, "%s:%u: run rejected: %s", r->in->path, b->run.line, b->rejected);
        }
        clear_block(b);
        return e;
}

/* "[1,0]<stdout>: text" (Open MPI --tag-output), "[0] text"? no: that is NCCL's own; "0: text" (srun -l). */
static char *untag(char *line)
{
        unsigned a, b;
        int n = 0;

        if (sscanf(line, "[%u,%u]<std%*[a-z]>:%n", &a, &b, &n) == 2 && n)
                return line + n;
        if (sscanf(line, "%u: %n", &a, &n) == 1 && n && (line[n] == '#' || begins_row(line + n)))
                return line + n;
        return line;
}

static int read_line(struct reader *r, char *line, unsigned n)
{
        const char *said, *mark;
        char *cr = strchr(line, '\r');
        bool row;
        int e;

        if (cr && !cr[1])
                *cr = 0;
        line = untag(line);
        mark = nccl_mark(line, &said);
        if (mark) {
                size_t before = (size_t)(mark - line);

                capo_nccl_log_line(&r->block.log, said, n);
                before += glued(r, mark);
                line[before] = 0;
                return before ? row_piece(r, line, n, true) : 0;
        }
        while (*line == ' ' && (line[1] == ' ' || line[1] == '#'))
                line++;
        if (*line == '#')
                return header(r, line, n);
        row = begins_row(line);
        if (row || r->n_words) {
                bool waiting = r->n_words > 0;
                unsigned before = r->n_words;

                e = row_piece(r, line, n, false);
                if (e < 0 || row || (waiting && r->n_words != before))
                        return e;
        }
        capo_nccl_log_line(&r->block.log, line, n); /* extracts keep NCCL's lines without their prefix */
        return labels(r, line, n);
}

int capo_import_text(struct capo_input *in)
{
        struct reader *r = calloc(1, sizeof *r);
        unsigned n = 0;
        int e = 0;

        if (!r)
                return -ENOMEM;
        r->in = in;
        r->block.make = CAPO_MAKE_LOOP;
        collect_hosts(r);
        for (char *line = in->text, *next; e == 0 && line && *line; line = next) {
                char *end = strchr(line, '\n');

                next = end ? end + 1 : NULL;
                if (end)
                        *end = 0;
                e = read_line(r, line, ++n);
        }
        if (e == 0)
                e = end_block(r);
        clear_block(&r->block);
        free(r->hosts);
        free(r);
        return e;
}
