/* SPDX-License-Identifier: Apache-2.0 */
/* Reads NCCL's log (NCCL_DEBUG=INFO): release, variables, tuning table and, with
 * NCCL_DEBUG_SUBSYS=TUNING, each decision. The words are NCCL's (2.29.7 src/enqueue.cc,
 * src/graph/tuning.cc, src/misc/param.cc). Decisions are text from 2.24 on and numbers before, with
 * or without the collective's name. */
#include "capo/algorithms.h"
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_private.h"
#include "profiles/import/text_command.h"
#include "core/base/nccl_release.h"

/* NCCL's ncclFunc_t order, which is also the order of the table's rows. */
static const uint8_t table_calls[CAPO_TABLE_CALLS] = {CAPO_CALL_BROADCAST, CAPO_CALL_REDUCE,
                                                      CAPO_CALL_ALLGATHER, CAPO_CALL_REDUCESCATTER,
                                                      CAPO_CALL_ALLREDUCE};

CAPO_ORDERED(same_question, struct capo_decision, CAPO_ORDER(a->call, b->call),
             CAPO_ORDER(a->bytes, b->bytes));
CAPO_ORDERED(by_question, struct capo_decision, same_question(a, b), CAPO_ORDER(a->line, b->line));

/* Sort; keep each question once. */
static void merge_decisions(struct capo_nccl_log *log)
{
        struct capo_decision *v = log->decisions;
        size_t kept = 0;

        if (log->n_decisions == log->n_settled)
                return;
        qsort(v, log->n_decisions, sizeof *v, by_question);
        for (size_t i = 0; i < log->n_decisions; i++) {
                struct capo_decision *old = kept ? &v[kept - 1] : NULL;

                if (!old || same_question(&v[i], old)) {
                        v[kept++] = v[i];
                        continue;
                }
                old->split |= v[i].split || old->ran != v[i].ran;
                if (old->channels != v[i].channels)
                        old->channels = 0;
        }
        log->n_decisions = log->n_settled = kept;
}

/* A log repeats few decisions thousands of times: merge them from time to time. */
static void add_decision(struct capo_nccl_log *log, struct capo_decision d)
{
        enum { LEAST = 1024 };

        if (log->n_decisions >= 2 * log->n_settled + LEAST)
                merge_decisions(log);
        *xadd(log->decisions, log->n_decisions) = d;
}

/* "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}", or "1024 Bytes -> Algo 1
 * proto 0 time 12.3" */
static bool parse_decision(struct capo_nccl_log *log, const char *text, unsigned line)
{
        const char *arrow = strstr(text, " Bytes -> Algo ");
        struct capo_decision d = {.line = line};
        char name[32] = "", algo[24], proto[24];
        unsigned long long bytes;
        unsigned lo, hi, a, p;
        const char *brace;

        if (!arrow)
                return false;
        if (sscanf(text, "%31[A-Za-z]: %llu Bytes", name, &bytes) == 2)
                d.call = (uint8_t)capo_call_find(name);
        else if (sscanf(text, "%llu Bytes", &bytes) != 1)
                return false;
        d.bytes = bytes;
        if (sscanf(arrow, " Bytes -> Algo %23s proto %23s", algo, proto) != 2)
                return false;
        if (isdigit((unsigned char)algo[0])) {
                a = (unsigned)atoi(algo) + 1; /* NCCL's numbers plus one (record.h) */
                p = (unsigned)atoi(proto) + 1;
        } else {
                a = capo_algo_find(algo);
                p = capo_proto_find(proto);
        }
        if (a == 0 || a >= CAPO_ALGOS || p == 0 || p >= CAPO_PROTOS)
                return false;
        d.ran = CAPO_ALGO_PROTO(a, p);
        brace = strstr(arrow, "}={");
        if (brace && sscanf(brace, "}={%u..%u}", &lo, &hi) == 2 && hi >= lo && hi - lo < 128)
                d.channels = (uint8_t)(hi - lo + 1);
        add_decision(log, d);
        return true;
}

static bool table_row(struct capo_nccl_log *log, const char *text, unsigned line)
{
        char word[24];
        const char *bar = strchr(text, '|');
        unsigned cell = 0;

        if (!bar || sscanf(text, " %23[A-Za-z]", word) != 1)
                return false;
        if (!strcmp(word, "Algorithm")) {
                memset(log->columns, 0, sizeof log->columns);
                for (unsigned i = 0; bar && i < 3; i++, bar = strchr(bar + 1, '|')) {
                        if (sscanf(bar, "| %23[A-Za-z]", word) == 1)
                                log->columns[i] = (uint8_t)capo_algo_find(word);
                }
                return true;
        }
        for (unsigned c = 0; c < CAPO_TABLE_CALLS; c++) {
                if (strcmp(word, capo_call_name(table_calls[c])))
                        continue;
                for (; bar && cell < 9; cell++, bar = strchr(bar + 1, '|')) {
                        float latency, bw;
                        unsigned algo = log->columns[cell / 3];

                        if (sscanf(bar, "| %f/ %f", &latency, &bw) != 2)
                                break;
                        if (algo) /* printed in the order LL, LL128, Simple */
                                log->bw[c][algo][1 + cell % 3] = bw;
                }
                log->have_table = true;
                if (!log->table_line)
                        log->table_line = line;
                return true;
        }
        return false;
}

void capo_settings_add(char settings[128], const char *name, const char *value)
{
        enum { ROOM = sizeof((struct capo_trial *)0)->settings };
        char old[ROOM], item[96];
        size_t n = strlen(name);
        bool done = false;

        if (!capo_word_is(name,
                          "NCCL_!(DEBUG*|INSPECTOR*|ALGO|PROTO|MAX_NCHANNELS|COMM_ID|HOSTID|HOME"
                          "|PROFILER_PLUGIN|VERSION|TUNER_PLUGIN|TOPO_DUMP_FILE|GRAPH_DUMP_FILE"
                          "|SOCKET_IFNAME)"))
                return;
        snprintf(item, sizeof item, "%s=%s", name, value);
        memcpy(old, settings, ROOM);
        *settings = 0;
        for (char *save = NULL, *w = strtok_r(old, " ", &save);; w = strtok_r(NULL, " ", &save)) {
                if (w && !strncmp(w, name, n) && w[n] == '=')
                        done = true;
                if (!done && (!w || strcmp(w, item) > 0)) {
                        capo_append(settings, ROOM, "%s%s", *settings ? " " : "", item);
                        done = true;
                }
                if (!w)
                        return;
                capo_append(settings, ROOM, "%s%s", *settings ? " " : "", w);
        }
}

void capo_settings_add_all(char settings[128], const char *text)
{
        char name[48], value[64];

        for (int n = 0; sscanf(text, " %47[^= ]=%63s%n", name, value, &n) == 2 && n;
             text += n, n = 0) {
                capo_settings_add(settings, name, value);
                n += (int)strcspn(text + n, " \n"); /* a longer value is cut */
        }
}

static void parse_environment(struct capo_nccl_log *log, const char *text)
{
        char name[48], value[64];
        unsigned found = 0;

        if (sscanf(text, "%47[A-Z0-9_] set by environment to %63[^.\n\r]", name, value) != 2)
                return;
        log->env_said = true;
        if (!strcmp(name, "NCCL_ALGO")) {
                log->env_algo = (uint8_t)(found = capo_algo_find(value));
        } else if (!strcmp(name, "NCCL_PROTO")) {
                log->env_proto = (uint8_t)(found = capo_proto_find(value));
        } else if (!strcmp(name, "NCCL_TUNER_PLUGIN")) {
                if (strcasecmp(value, "none"))
                        snprintf(log->tuner, sizeof log->tuner, "%.31s", value);
                return;
        } else if (!capo_text_forces(name)) {
                capo_settings_add(log->settings, name, value);
                return;
        }
        if (!found)
                log->env_several = true;
}

/* A plugin that decides instead of NCCL: "TUNER/Plugin: Using AWS OFI (v4)", "Using tuner plugin
 * nccl_ofi_tuner", in NCCL 2.20 "Using tuner plugin: 'nccl_ofi_tuner'"; or MSCCL's own table. */
static void parse_plugin(struct capo_nccl_log *log, const char *text)
{
        static const char *const marks[] = {"TUNER/Plugin: Using ", "Using tuner plugin",
                                            "loaded tuner plugin"};

        if (strstr(text, "MSCCL") && !*log->tuner)
                strcpy(log->tuner, "MSCCL");
        for (size_t i = 0; i < N_ELEMENTS(marks); i++) {
                const char *p = strstr(text, marks[i]);

                p = p ? p + strlen(marks[i]) : NULL;
                if (p && !strncmp(p, "tuner plugin", 12))
                        p += 12;
                p = p ? p + strspn(p, " :'\"") : NULL;
                if (p && strncasecmp(p, "internal", 8) &&
                    sscanf(p, "%31[^('\"\n\r]", log->tuner) == 1) {
                        for (size_t n = strlen(log->tuner); n > 0 && log->tuner[n - 1] == ' ';)
                                log->tuner[--n] = 0;
                        return;
                }
        }
}

void capo_nccl_log_line(struct capo_nccl_log *log, const char *text, unsigned line)
{
        const char *p;
        int driver, n_nodes, n_local;

        if (parse_decision(log, text, line) || table_row(log, text, line))
                return;
        parse_environment(log, text);
        parse_plugin(log, text);
        /* "comm 0x55 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0": an NVLink domain counts
         * as one node */
        p = strstr(text, " nNodes ");
        if (p && sscanf(p, " nNodes %d localRanks %d", &n_nodes, &n_local) == 2 && n_nodes > 0)
                log->n_nodes = n_nodes;
        p = strstr(text, "cudaDriverVersion ");
        if (p && sscanf(p + 18, "%d", &driver) == 1 && driver >= 1000)
                snprintf(log->driver, sizeof log->driver, "CUDA %d.%d", driver / 1000,
                         driver % 1000 / 10);
        p = strstr(text, "NCCL version ");
        if (p && capo_nccl_named(p + 13))
                log->version = (uint32_t)capo_nccl_named(p + 13);
}

const struct capo_decision *capo_nccl_log_ran(struct capo_nccl_log *log, unsigned call,
                                              uint64_t bytes)
{
        struct capo_decision *found = NULL;

        merge_decisions(log);
        /* lines of 2.23 and older do not name the collective */
        for (int pass = 0; pass < 2 && !found && log->n_decisions; pass++) {
                struct capo_decision want = {.call = pass ? 0 : (uint8_t)call, .bytes = bytes};

                found = bsearch(&want, log->decisions, log->n_decisions, sizeof want,
                                same_question);
        }
        return found;
}

unsigned capo_nccl_log_call(struct capo_nccl_log *log)
{
        merge_decisions(log);
        return log->n_decisions &&
                               log->decisions[0].call == log->decisions[log->n_decisions - 1].call
                       ? log->decisions[0].call
                       : CAPO_CALL_NONE;
}

bool capo_nccl_log_forced(const struct capo_nccl_log *log, uint8_t *forced, bool *several)
{
        const unsigned both = 1u << CAPO_ALGO_RING | 1u << CAPO_ALGO_TREE,
                       ends = 1u << CAPO_PROTO_LL | 1u << CAPO_PROTO_SIMPLE;
        unsigned algos = 0, protos = 0; /* bits */
        bool one_algo, one_proto;

        for (unsigned i = CAPO_PROTOS; i < CAPO_ALGOS * CAPO_PROTOS; i++) {
                unsigned algo = i / CAPO_PROTOS, proto = i % CAPO_PROTOS;

                if (!proto || !(log->bw[CAPO_TABLE_CALLS - 1][algo][proto] > 0))
                        continue;
                algos |= 1u << algo;
                protos |= both >> algo & 1 ? 1u << proto : 0;
        }
        if (!log->have_table || !algos)
                return false;
        one_algo = __builtin_popcount(algos) == 1;
        one_proto = __builtin_popcount(protos) == 1;
        *several = (!one_algo && (algos & both) != both) ||
                   (__builtin_popcount(protos) > 1 && (protos & ends) != ends);
        *forced = CAPO_ALGO_PROTO(one_algo ? __builtin_ctz(algos) : 0,
                                  one_proto ? __builtin_ctz(protos) : 0);
        return true;
}

void capo_nccl_log_free(struct capo_nccl_log *log)
{
        free(log->decisions);
        *log = (struct capo_nccl_log){0};
}
