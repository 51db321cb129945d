/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what comes before a run's rows: nccl-tests' header lines ("# nThread", "# Rank", column
 * heads), and labels that people write between runs. Both describe the current run, or begin
 * another one. */
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

static int report_conflict(struct reader *r, unsigned line, const char *what, const char *a,
                           const char *b)
{
        return capo_input_error(r->in, line, "contradicting labels: %s %s here, %s before", what, a,
                                b);
}

/* NCCL_ALGO or NCCL_PROTO is no single word: NCCL's own choice, or a list. */
static int not_one(struct block *b, const char *value)
{
        *(!strcasecmp(value, "auto") || !strcasecmp(value, "default") ? &b->auto_said
                                                                      : &b->several) = true;
        return 1;
}

/* Apply one KEY=VALUE of a label line or a command line. Returns 1 if it was a known key. */
static int apply_label(struct reader *r, const char *key, const char *value, unsigned line)
{
        struct block *b = &r->block;
        uint64_t n;

        if (!strcmp(key, "NCCL_ALGO") || !strcasecmp(key, "ALGO")) {
                unsigned algo = capo_algo_find(value);
                const char *colon = strchr(value, ':');

                if (!algo && colon && !strchr(value, ';'))
                        algo = capo_algo_find(colon + 1); /* "allreduce:ring", from 2.24 on */
                if (!algo)
                        return not_one(b, value);
                if (b->algo && b->algo != algo)
                        return report_conflict(r, line, "algorithm", capo_algo_name(algo),
                                               capo_algo_name(b->algo));
                b->algo = (uint8_t)algo;
        } else if (!strcmp(key, "NCCL_PROTO") || !strcasecmp(key, "PROTO")) {
                unsigned proto = capo_proto_find(value);

                if (!proto)
                        return not_one(b, value);
                if (b->proto && b->proto != proto)
                        return report_conflict(r, line, "protocol", capo_proto_name(proto),
                                               capo_proto_name(b->proto));
                b->proto = (uint8_t)proto;
        } else if (!strcasecmp(key, "CHANNELS") || !strcasecmp(key, "MAX_NCHANNELS") ||
                   !strcasecmp(key, "NCCL_MAX_NCHANNELS")) {
                if (capo_size_parse(value, &n) < 0 || n > 127)
                        return capo_input_error(r->in, line,
                                                "%s: expected a number of channels, found \"%s\"",
                                                key, value);
                b->channels = (uint8_t)n;
        } else if (!strcasecmp(key, "GPUS") || !strcasecmp(key, "RANKS") ||
                   !strcasecmp(key, "NRANKS")) {
                if (capo_size_parse(value, &n) < 0 || n < 1 || n > 1000000)
                        return capo_input_error(r->in, line,
                                                "%s: expected a number of ranks, found \"%s\"", key,
                                                value);
                b->run.n_ranks = (int)n;
        } else if (!strcasecmp(key, "NODES") || !strcasecmp(key, "NNODES")) {
                if (capo_size_parse(value, &n) < 0 || n < 1 || n > 100000)
                        return capo_input_error(r->in, line,
                                                "%s: expected a number of nodes, found \"%s\"", key,
                                                value);
                b->run.n_nodes = (int)n;
        } else if (!strcasecmp(key, "LAYOUT")) {
                if (capo_input_layout(value, &b->run) < 0)
                        return capo_input_error(
                                r->in, line,
                                "LAYOUT: expected ranks per node such as 3+5, found \"%s\"", value);
        } else if (!strcasecmp(key, "NCCL") || !strcasecmp(key, "NCCL_VERSION")) {
                b->run.nccl = (uint32_t)capo_nccl_named(value);
        } else if (!strcasecmp(key, "COLL") || !strcasecmp(key, "COLLECTIVE")) {
                b->call = (uint8_t)capo_call_find(value);
        } else if (!strcmp(key, "NCCL_TUNER_PLUGIN")) {
                if (strcasecmp(value, "none"))
                        snprintf(b->log.tuner, sizeof b->log.tuner, "%.31s", value);
        } else if (capo_text_forces(key) || !strcasecmp(key, "TREE_THRESHOLD")) {
                snprintf(b->restricted_by, sizeof b->restricted_by, "%s", key);
                b->several = true; /* NCCL's choice was restricted, and what ran is not given */
        } else if (!strcasecmp(key, "SIZE") || !strcasecmp(key, "REP")) {
                ; /* known, but irrelevant for what ran */
        } else if (!strncmp(key, "NCCL_", 5)) {
                capo_settings_add(b->run.settings, key, value);
        } else if (!strcasecmp(key, "MIN_NCHANNELS")) {
                capo_settings_add(b->run.settings, "NCCL_MIN_NCHANNELS", value);
        } else {
                return 0;
        }
        b->label_line = line;
        return 1;
}

/* Does the line describe a run? Then it begins the next one if there are already rows. */
static bool has_label(const char *text)
{
        static const char *const keys[] = {
                "ALGO=",  "PROTO=",  "CHANNELS=", "GPUS=",          "RANKS=",
                "NODES=", "LAYOUT=", "COLL=",     "MIN_NCHANNELS=", "MAX_NCHANNELS="};
        const char *nccl = text;

        while ((nccl = strstr(nccl, "NCCL_"))) {
                nccl += 5 + strspn(nccl + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
                if (*nccl == '=')
                        return true;
        }
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                const char *p = strstr(text, keys[i]);

                if (p && (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')))
                        return true;
        }
        return false;
}

/* Is it a label or a command line in the grammar of docs/store.md? Other lines that name a setting
 * are prose about an unknown run. */
static bool is_label_or_command(const char *text)
{
        static const char *const said[] = {"rep",       "repeat", "run",  "trial",
                                           "iteration", "round",  "size", "test"};
        static const char *const launchers[] = {
                "$",    "+",        "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun",
                "srun", "torchrun", "env",    "export",  "setenv",        "sudo",    "time"};
        char copy[sizeof((struct reader *)0)->joined], *save = NULL;
        bool first = true, begun = false;

        if (strlen(text) >= sizeof copy || strchr(text, '|'))
                return strstr(text, "_perf") != NULL && !strchr(text, '|');
        strcpy(copy, text);
        for (char *w = strtok_r(copy, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
                char *eq = strchr(w, '='), *end = w + strlen(w);
                bool known;

                while (end > w && end[-1] == ',')
                        *--end = 0;
                known = !w[strspn(w, "#=-*>:")] ||
                        (isdigit((unsigned char)*w) && !w[strspn(w, "0123456789./:xKMGB")]);

                for (size_t i = 0; i < N_ELEMENTS(launchers) && first; i++) {
                        if (!strcmp(capo_base_name(w), launchers[i]))
                                return true;
                }
                for (size_t i = 0; i < N_ELEMENTS(said); i++)
                        known |= !strncasecmp(w, said[i], strlen(said[i])) &&
                                 !w[strlen(said[i]) + strspn(w + strlen(said[i]), "0123456789:#")];
                if (strstr(w, "_perf") && begun) /* assignments, then the program */
                        return true;
                if (!known && !(eq && eq > w && eq[1]))
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

/* "### LL128": the following rows may be that, whatever the command line says. */
static int take_heading(struct reader *r, const char *text, unsigned line)
{
        uint8_t algo, proto;
        int e = 0;

        if (!capo_text_heading(text, &algo, &proto))
                return 0;
        if (is_block_used(&r->block))
                e = capo_text_run_end(r);
        r->block.heading_line = line;
        r->block.heading_algo = algo;
        r->block.heading_proto = proto;
        return e;
}

int capo_text_labels(struct reader *r, char *text, unsigned line)
{
        bool mark = *text == '#' || *text == '=', runs, exports;
        unsigned call, mentions;
        int e = take_heading(r, text, line);

        if (e < 0)
                return e;

        text = capo_text_recorded(capo_text_prompt(text));
        text += strspn(text, "+$ ");
        if (!strncmp(text, "source ", 7) ||
            !strncmp(text, ". ", 2)) /* the file with the settings is not here */
                r->standing_line = line;
        if (strstr(text, "nccl.conf")) /* what NCCL reads, too, is not here */
                r->standing_line = line;
        if (!strchr(text, '=') && !strstr(text, "_perf") && !strstr(text, "CCL") &&
            !strstr(text, "CAPO_")) /* as in most lines */
                return 0;
        exports = !strncmp(text, "export ", 7) || !strncmp(text, "setenv ", 7);
        mentions = capo_text_mentions(text);
        if (mentions || strstr(text, "_perf"))
                capo_text_normalise(text);
        runs = is_test_command(text);
        call = call_of_program(text);
        if (!has_label(text) && !runs && !mentions && !(call && !is_block_used(&r->block)))
                return 0;
        /* A label line after rows, or one that repeats a known label (its run printed nothing),
         * begins a run. */
        if ((has_label(text) || runs || mentions) &&
            (is_block_used(&r->block) ||
             (mark && r->block.label_line && r->block.n_devices == 0))) {
                e = capo_text_run_end(r);
                if (e < 0)
                        return e;
        }
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
        if ((has_label(text) || mentions) && !runs &&
            (!is_label_or_command(text) || (mentions && capo_text_hides(text)))) {
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

/* Parse "@word @value" at @p and return the rest; NULL: not there, or @p is NULL. */
static const char *parse_numbered(const char *p, const char *word, int *value)
{
        size_t n = strlen(word);
        char *end;

        if (!p)
                return NULL;
        p += strspn(p, " \t");
        if (strncmp(p, word, n))
                return NULL;
        *value = (int)strtol(p + n, &end, 10);
        return end == p + n ? NULL : end;
}

bool capo_text_device(const char *line, int *rank, char host[HOST_ROOM])
{
        const char *p = parse_numbered(line + (*line == '#'), "Rank", rank), *group;
        int other;
        size_t n;

        group = parse_numbered(p, "Group", &other); /* only in newer releases */
        p = parse_numbered(group ? group : p, "Pid", &other);
        if (!p)
                return false;
        p += strspn(p, " \t");
        if (strncmp(p, "on", 2))
                return false;
        p += 2 + strspn(p + 2, " \t");
        n = strcspn(p, " \t\r");
        n = n < HOST_ROOM ? n : HOST_ROOM - 1;
        memcpy(host, p, n);
        host[n] = 0;
        return n > 0;
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
                size = size < sizeof gpu ? size : sizeof gpu - 1;
                memcpy(gpu, bracket, size);
                gpu[size] = 0;
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
                if (is_block_used(b)) {
                        int e = capo_text_next_table(r, n);

                        if (e < 0)
                                return e;
                }
                b->groups = 0;
                while ((p = strstr(p, "algbw"))) {
                        b->groups++;
                        p += 5;
                }
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
                        e = capo_text_run_end(r);
                        if (e < 0)
                                return e;
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
