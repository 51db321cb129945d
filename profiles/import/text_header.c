/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what comes before a run's rows: nccl-tests' header lines ("# nThread", "# Rank", column
 * heads), and labels that people write between runs. Both describe the current run, or begin
 * another one. */
#include <regex.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/nccl_release.h"
#include "profiles/import/text_command.h"
#include "profiles/import/text_rows.h"

/* nccl-tests' program names: all_reduce_perf, all_gather_perf_mpi, ... */
static unsigned call_of_program(const char *text)
{
        const char *perf = strstr(text, "_perf");
        size_t n = 0;
        char name[32];

        if (!perf)
                return CAPO_CALL_NONE;
        while (perf - n > text && n < sizeof name - 1 &&
               (isalpha((unsigned char)perf[-1 - (long)n]) || perf[-1 - (long)n] == '_'))
                n++;
        snprintf(name, sizeof name, "%.*s", (int)n, perf - n);
        return !strcmp(name, "sendrecv") ? CAPO_CALL_SEND : capo_call_find(name);
}

/* ---- labels ---- */

/* NCCL_ALGO or NCCL_PROTO is @value, which names @found; 0: no single word, but NCCL's own choice, or a
 * list. */
static int take_choice(struct reader *r, const char *value, unsigned found, bool algo,
                       unsigned line)
{
        struct block *b = &r->block;
        uint8_t *before = algo ? &b->algo : &b->proto;
        const char *(*name)(unsigned) = algo ? capo_algo_name : capo_proto_name;

        if (found && *before && *before != found)
                return capo_input_error(r->in, line, "contradicting labels: %s %s here, %s before",
                                        algo ? "algorithm" : "protocol", name(found),
                                        name(*before));
        if (found) {
                *before = (uint8_t)found;
                b->label_line = line;
        } else if (!strcasecmp(value, "auto") || !strcasecmp(value, "default")) {
                b->auto_said = true;
        } else {
                b->several = true;
        }
        return 0;
}

/* A number in a label, from @least to @most. */
static int take_number(struct reader *r, const char *key, const char *value, const char *of,
                       uint64_t least, uint64_t most, unsigned line)
{
        uint64_t n;

        if (capo_size_parse(value, &n) < 0 || n < least || n > most)
                return capo_input_error(r->in, line, "%s: expected a number of %s, found \"%s\"",
                                        key, of, value);
        r->block.label_line = line;
        return (int)n;
}

static bool is_key(const char *key, const char *pattern)
{
        return fnmatch(pattern, key, FNM_EXTMATCH | FNM_CASEFOLD) == 0;
}

/* Apply one KEY=VALUE of a label line or a command line. Return: 0 or more; -EINVAL with the error set. */
static int apply_label(struct reader *r, const char *key, const char *value, unsigned line)
{
        struct block *b = &r->block;
        const char *colon = strchr(value, ':');
        unsigned found;
        int n;

        if (!strcmp(key, "NCCL_ALGO") || is_key(key, "ALGO")) {
                found = capo_algo_find(value);
                if (!found && colon && !strchr(value, ';'))
                        found = capo_algo_find(colon + 1); /* "allreduce:ring", from 2.24 on */
                return take_choice(r, value, found, true, line);
        }
        if (!strcmp(key, "NCCL_PROTO") || is_key(key, "PROTO"))
                return take_choice(r, value, capo_proto_find(value), false, line);
        if (is_key(key, "@(CHANNELS|?(NCCL_)MAX_NCHANNELS)")) {
                n = take_number(r, key, value, "channels", 0, 127, line);
                b->channels = (uint8_t)(n < 0 ? b->channels : n);
                return n;
        }
        if (is_key(key, "@(GPUS|?(N)RANKS)")) {
                n = take_number(r, key, value, "ranks", 1, 1000000, line);
                b->run.n_ranks = n < 0 ? b->run.n_ranks : n;
                return n;
        }
        if (is_key(key, "?(N)NODES")) {
                n = take_number(r, key, value, "nodes", 1, 100000, line);
                b->run.n_nodes = n < 0 ? b->run.n_nodes : n;
                return n;
        }
        if (is_key(key, "LAYOUT")) {
                if (capo_input_layout(value, &b->run) < 0)
                        return capo_input_error(
                                r->in, line,
                                "LAYOUT: expected ranks per node such as 3+5, found \"%s\"", value);
        } else if (is_key(key, "NCCL?(_VERSION)")) {
                b->run.nccl = (uint32_t)capo_nccl_named(value);
        } else if (is_key(key, "COLL?(ECTIVE)")) {
                b->call = (uint8_t)capo_call_find(value);
        } else if (!strcmp(key, "NCCL_TUNER_PLUGIN")) {
                if (strcasecmp(value, "none"))
                        snprintf(b->log.tuner, sizeof b->log.tuner, "%.31s", value);
        } else if (capo_text_forces(key) || is_key(key, "TREE_THRESHOLD")) {
                snprintf(b->restricted_by, sizeof b->restricted_by, "%s", key);
                b->several = true; /* NCCL's choice was restricted, and what ran is not given */
        } else if (!strncmp(key, "NCCL_", 5) || is_key(key, "MIN_NCHANNELS")) {
                capo_settings_add(b->run.settings, *key == 'N' ? key : "NCCL_MIN_NCHANNELS", value);
        } else if (!is_key(key, "@(SIZE|REP)")) { /* known, but irrelevant for what ran */
                return 0;
        }
        b->label_line = line;
        return 0;
}

/* Does the line describe a run? Then it begins the next one if there are already rows. */
static bool has_label(const char *text)
{
        static regex_t label;
        static bool made;

        if (!made)
                made = !regcomp(
                        &label,
                        "NCCL_[A-Z0-9_]*=|(^|[^A-Za-z0-9_])(ALGO|PROTO|CHANNELS|GPUS|RANKS|NODES"
                        "|LAYOUT|COLL|MIN_NCHANNELS|MAX_NCHANNELS)=",
                        REG_EXTENDED | REG_NOSUB);
        return regexec(&label, text, 0, NULL, 0) == 0;
}

/* Is it a label or a command line in the grammar of docs/store.md? Other lines that name a setting
 * are prose about an unknown run. */
static bool is_label_or_command(const char *text)
{
        char copy[sizeof((struct reader *)0)->joined], *save = NULL;
        bool first = true, begun = false;

        if (strlen(text) >= sizeof copy || strchr(text, '|'))
                return strstr(text, "_perf") != NULL && !strchr(text, '|');
        strcpy(copy, text);
        for (char *w = strtok_r(copy, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
                char *eq = strchr(w, '='), *end = w + strlen(w);

                while (end > w && end[-1] == ',')
                        *--end = 0;
                if (first &&
                    capo_word_is(
                            capo_base_name(w),
                            "@($|+|mpirun|mpiexec?(.hydra)|orterun|prterun|srun|torchrun|env|export"
                            "|setenv|sudo|time)"))
                        return true;
                if (strstr(w, "_perf") && begun) /* assignments, then the program */
                        return true;
                if (!(eq && eq > w && eq[1]) && !capo_word_is(w, "*([-#=*>:])") &&
                    !capo_word_is(w, "[0-9]*([0-9./:xKMGB])") &&
                    !is_key(w, "@(rep?(eat)|run|trial|iteration|round|size|test)*([0-9:#])"))
                        return false;
                begun = true;
                first &= eq && strstr(text, "_perf"); /* assignments before a launcher */
        }
        return true;
}

/* Is it a command line of an nccl-tests program? */
static bool is_test_command(const char *text)
{
        const char *word = text + strspn(text, " \t"), *perf = strstr(word, "_perf");

        if (!perf || *text == '#')
                return false;
        if ((*word == '.' || *word == '/') && perf < word + strcspn(word, " \t"))
                return true;
        return is_label_or_command(text);
}

/* Cut a command line behind its program, if a label is there: in a comment, a redirection or another
 * command, or as an argument, which sets nothing. Return: was there one? */
static bool cut_label(char *text)
{
        char *tail = strstr(text, "_perf"), *comment;
        uint8_t algo, proto;

        tail = tail ? tail + strcspn(tail, " \t") : NULL;
        comment = tail ? strstr(tail, " #") : NULL;
        if (!tail || !(has_label(tail) || capo_text_mentions(tail) || strstr(tail, "_perf") ||
                       (comment && capo_text_heading(comment, &algo, &proto))))
                return false;
        *tail = 0;
        return true;
}

/* The KEY=VALUE after a comma in @word, which is cut there and before trailing commas; NULL: none.
 */
static char *next_pair(char *word)
{
        size_t n = strlen(word);

        for (char *p = word; (p = strchr(p, ',')); p++) {
                size_t key = strspn(
                        p + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

                if (!key || p[1 + key] != '=')
                        continue;
                *p = 0;
                return p + 1;
        }
        while (n > 0 && word[n - 1] == ',')
                word[--n] = 0;
        return NULL;
}

static bool is_block_used(const struct block *b) { return b->n_rows > 0 || b->rejected; }

int capo_text_labels(struct reader *r, char *text, unsigned line)
{
        bool mark = *text == '#' || *text == '=', runs, exports, label;
        unsigned call, mentions;
        uint8_t algo, proto;
        int e;

        /* "### LL128": the following rows may be that, whatever the command line says */
        if (capo_text_heading(text, &algo, &proto)) {
                if (is_block_used(&r->block))
                        capo_text_run_end(r);
                r->block.heading_line = line;
                r->block.heading_algo = algo;
                r->block.heading_proto = proto;
        }
        text = capo_text_recorded(capo_text_prompt(text));
        text += strspn(text, "+$ ");
        if (!strncmp(text, "source ", 7) || !strncmp(text, ". ", 2) || strstr(text, "nccl.conf"))
                r->standing_line = line; /* the file with the settings is not here */
        if (!strchr(text, '=') && !strstr(text, "_perf") && !strstr(text, "CCL") &&
            !strstr(text, "CAPO_")) /* as in most lines */
                return 0;
        exports = !strncmp(text, "export ", 7) || !strncmp(text, "setenv ", 7);
        mentions = capo_text_mentions(text);
        if (mentions || strstr(text, "_perf"))
                capo_text_normalise(text);
        runs = is_test_command(text);
        call = call_of_program(text);
        label = has_label(text) || mentions;
        if (!label && !runs && !(call && !is_block_used(&r->block)))
                return 0;
        /* A label line after rows, or one that repeats a known label (its run printed nothing),
         * begins a run. */
        if ((label || runs) &&
            (is_block_used(&r->block) || (mark && r->block.label_line && r->block.n_devices == 0)))
                capo_text_run_end(r);
        r->block.run.line = r->block.run.line ? r->block.run.line : line;
        r->block.command |= runs;
        if (capo_text_drops(text, r->block.exported)) {
                r->block.unsure_line = line;
                return 0;
        }
        if (runs) {
                bool hidden = capo_text_hides(text); /* before it is cut */

                if (cut_label(text) || hidden)
                        r->block.unsure_line = line;
        }
        /* Prose, or a script, which may set more than its line shows. */
        if (label && !runs && (!is_label_or_command(text) || (mentions && capo_text_hides(text)))) {
                r->block.unsure_line = line;
                return 0;
        }
        for (char *save = NULL, *word = strtok_r(text, " \t'\"", &save); word;
             word = strtok_r(NULL, " \t'\"", &save)) {
                for (char *next; word;
                     word = next) { /* "ALGO=Ring,PROTO=LL" are two, "ALGO=Ring,Tree" is one */
                        char *eq;

                        next = next_pair(word);
                        word += strncmp(word, "--export=", 9) ? 0 : 9;
                        eq = strchr(word, '=');
                        if (!eq && runs) /* its value is in the environment */
                                capo_settings_add(r->block.run.settings, word, "?");
                        if (!eq || eq == word || !eq[1])
                                continue;
                        *eq = 0;
                        e = apply_label(r, word, eq + 1, line);
                        if (e < 0)
                                return e;
                        mentions -= mentions && capo_text_forces(word);
                }
        }
        if (mentions) /* one was not understood: "-x NCCL_ALGO" */
                r->block.unsure_line = line;
        if (r->block.label_line == line)
                r->block.inline_label = runs, r->block.exported = exports;
        if (call)
                r->block.call = (uint8_t)call;
        return 0;
}

/* ---- headers ---- */

bool capo_text_device(const char *line, int *rank, char host[HOST_ROOM])
{
        line += *line == '#';
        return sscanf(line, " Rank %d Group %*d Pid %*d on %63[^ \t\r\n]", rank, host) == 2 ||
               sscanf(line, " Rank %d Pid %*d on %63[^ \t\r\n]", rank, host) == 2;
}

static int device_line(struct reader *r, const char *line, unsigned n, int rank, const char *host)
{
        struct block *b = &r->block;
        const char *bracket = strchr(line, ']');
        char gpu[80] = "";
        size_t size;
        int index;

        if (bracket) {
                bracket += 1 + strspn(bracket + 1, " \t");
                bracket += strncmp(bracket, "NVIDIA ", 7) ? 0 : 7;
                size = strcspn(bracket, "\n\r");
                while (size && isspace((unsigned char)bracket[size - 1]))
                        size--;
                snprintf(gpu, sizeof gpu, "%.*s", (int)size, bracket);
        }
        if (rank == 0 && b->device_rank0++ > 0)
                capo_text_reject(
                        b,
                        "rank 0 is listed more than once: the processes ran alone, each as its own job of one rank "
                        "(nccl-tests built without MPI?)");
        if (b->run.gpu[0] && gpu[0] && strncmp(b->run.gpu, gpu, sizeof b->run.gpu - 1))
                capo_text_reject(b, "two kinds of GPU in one run, \"%s\" and \"%s\"", b->run.gpu,
                                 gpu);
        else if (!b->run.gpu[0])
                memcpy(b->run.gpu, gpu, sizeof b->run.gpu - 1);
        index = capo_text_host(r, host, strlen(host));
        if (index < 0)
                return capo_input_error(r->in, n, "more than %d host names", MAX_HOSTS);
        if (r->on_host[index]++ == 0)
                b->n_hosts++;
        b->n_devices++;
        b->last_rank = rank > b->last_rank ? rank : b->last_rank;
        return 0;
}

/* The column heads, "#   size  count  type  redop  root  time  algbw  busbw  #wrong  time ...", and
 * their units. */
static int column_line(struct reader *r, const char *line, unsigned n)
{
        struct block *b = &r->block;
        const char *p = line;

        if (strstr(line, " size ") && strstr(line, "algbw")) {
                if (is_block_used(b))
                        capo_text_next_table(r, n);
                b->groups = 0;
                for (; (p = strstr(p, "algbw")); p += 5)
                        b->groups++;
                b->per_iteration = strstr(line, "i_min") != NULL;
                b->timestamp = strstr(line, "timestamp") != NULL;
                b->has_root = strstr(line, " root ") != NULL;
                if (strstr(line, "cputime"))
                        b->make = CAPO_MAKE_CPU;
                return 1;
        }
        if (strstr(line, "(elements)")) {
                if (!strstr(line, "(B)") || !strstr(line, "(us)") || !strstr(line, "(GB/s)") ||
                    strstr(line, "(ms)"))
                        return capo_input_error(
                                r->in, n,
                                "units: expected sizes in (B), times in (us) and (GB/s), found "
                                "\"%.80s\"",
                                line);
                return 1;
        }
        return 0;
}

int capo_text_header(struct reader *r, char *line, unsigned n)
{
        struct block *b = &r->block;
        unsigned long headers, library, wrong;
        unsigned iterations = 0;
        char host[HOST_ROOM];
        const char *p;
        int e, rank;

        if (capo_text_device(line, &rank, host)) {
                b->run.line = b->run.line ? b->run.line : n;
                return device_line(r, line, n, rank, host);
        }
        if (strstr(line, "nccl-tests version") ||
            (strstr(line, "# nThread") && (is_block_used(b) || b->run.iterations))) {
                if (is_block_used(b) || (strstr(line, "# nThread") && b->run.iterations)) {
                        if (b->n_devices && !is_block_used(b))
                                capo_text_reject(
                                        b,
                                        "its table never came: the run broke off, or several processes ran alone and "
                                        "wrote over each other");
                        capo_text_run_end(r);
                }
        }
        if (!b->run.line)
                b->run.line = n;
        if (strstr(line, "nccl-tests") &&
            sscanf(line, "# nccl-tests version %*s nccl-headers=%lu nccl-library=%lu", &headers,
                   &library) == 2) {
                b->run.nccl = (uint32_t)capo_nccl_code((int)library);
                return 0;
        }
        p = strstr(line, " iters: ");
        if (strstr(line, "# nThread") && p) {
                const char *graph = strstr(line, "graph: ");

                /* "warmup iters: 5 iters: 20": the second number */
                for (const char *q;
                     (q = strstr(p + 1, " iters: ")) && q > p && strncmp(q - 4, " agg", 4); p = q)
                        ;
                sscanf(p, " iters: %u", &iterations);
                b->run.iterations = iterations ? iterations : 1;
                if (graph && atoi(graph + 7) > 0)
                        b->make = CAPO_MAKE_GRAPH;
                return 0;
        }
        e = column_line(r, line, n);
        if (e)
                return e < 0 ? e : 0;
        if (strstr(line, "Out of") && sscanf(line, "# Out of bounds values : %lu", &wrong) == 1 &&
            wrong > 0)
                capo_text_reject(b, "%lu values out of bounds: its results are wrong", wrong);
        return capo_text_labels(r, line, n);
}
