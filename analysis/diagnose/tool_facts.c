/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the output of a node's tools and of programs: a process may run on one core only; NCCL's
 * addresses on two nodes may not reach each other; ranks print different amounts of data; steps wait for
 * data; copies with P2P are slow; NCCL Inspector's records of one call differ. */
#include "analysis/diagnose/tool_facts.h"
#include "core/base/xalloc.h"

/* ---- cores ---- */

struct cores {
        uint32_t text;
        struct capo_diagnose_finding f; /* with the first such line */
};

static void take_core(struct cores *c, const char *line, uint32_t number)
{
        if (!c->f.n_marks)
                capo_quote(line, c->f.detail, sizeof c->f.detail);
        capo_finding_mark(&c->f, (struct capo_evidence_mark){c->text, number});
}

/* "affinity list: 0", "Cpus_allowed_list:	5": one core? */
static void take_list(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *value = at + strcspn(at, ":\n");
        size_t n = *value == ':' ? 1 + strspn(value + 1, " \t") : 0,
               digits = n ? strspn(value + n, "0123456789") : 0;

        if (digits && strchr("\r\n ", value[n + digits]))
                take_core(arg, line, number);
}

/* "Setting affinity for GPU 0 to 0100" */
static void take_mask(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *to = memmem(at, strcspn(at, "\n"), " to ", 4);
        int bits = 0;

        for (to = to ? to + 4 : "\n"; isxdigit((unsigned char)*to) || *to == ','; to++)
                bits += *to == ','
                                ? 0
                                : __builtin_popcount((unsigned)strtoul((char[]){*to, 0}, NULL, 16));
        if (bits == 1)
                take_core(arg, line, number);
}

static void read_cores(struct capo_evidence *e)
{
        static const char rates[] =
                "it/s|s/it|GB/s|busbw|samples/s|tokens/s|img/s|images/s|s per|sec/|util|num_workers|slow";
        struct cores c = {0};

        capo_evidence_all(e, "affinity list:", take_list, &c, &c.text);
        capo_evidence_all(e, "Cpus_allowed_list:", take_list, &c, &c.text);
        capo_evidence_all(e, "Setting affinity for GPU", take_mask, &c, &c.text);
        if (!c.f.n_marks || e->timed_out || !capo_bug_any(rates, capo_evidence_has, e, NULL))
                return;
        capo_finding_is(&c.f, CAPO_RANK_SLOW, "slow", "likely");
        SAY(c.f.headline, "A PROCESS OR THREAD MAY RUN ON ONE CORE ONLY");
        SAY(c.f.next,
            "the same run without that binding (mpirun --bind-to none, srun --cpu-bind=none): is it faster?");
        *capo_evidence_finding(e) = c.f;
}

/* ---- addresses ---- */

enum { ADDRESSES = 64, ADDRESS = 64 };

struct addresses {
        uint32_t n, text;
        char host[ADDRESSES][ADDRESS], word[ADDRESSES][ADDRESS]; /* "eth0:10.0.0.7" */
        struct capo_evidence_mark mark[ADDRESSES];
};

/* "agent-b:233:233 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.7<0>": the first of each host. */
static void take_address(const char *at, const char *line, uint32_t number, void *arg)
{
        struct addresses *a = arg;
        char host[ADDRESS], word[ADDRESS];
        uint32_t i = 0;

        at += strcspn(at, ":") + 1;
        at = strncmp(at, " Using ", 7) ? at : at + 7;
        at += !strncmp(at, "[0]", 3) ? 3 : 0;
        if (!capo_debug_host(line, host, sizeof host) || strcspn(at, "<\n") >= ADDRESS ||
            at[strcspn(at, "<\n")] != '<')
                return;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "<"), at);
        while (i < a->n && strcmp(a->host[i], host) != 0)
                i++;
        if (i < a->n || i == ADDRESSES)
                return;
        memcpy(a->host[i], host, ADDRESS);
        memcpy(a->word[i], word, ADDRESS);
        a->mark[a->n++] = (struct capo_evidence_mark){a->text, number};
}

/* Is it an address that only its own node has, or that no router passes on? */
static bool is_local(const char *word)
{
        return capo_line_has(word, ":fe80:|:127.|:169.254.|:172.17.|veth|docker0|virbr|cni0|lo:");
}

static void read_addresses(struct capo_evidence *e)
{
        struct addresses *a = xcalloc(1, sizeof *a);
        uint32_t local = UINT32_MAX, other = UINT32_MAX;

        capo_evidence_all(e, "Bootstrap : Using ", take_address, a, &a->text);
        capo_evidence_all(e, "Bootstrap: Using ", take_address, a, &a->text);
        for (uint32_t i = 0; i < a->n; i++) {
                if (is_local(a->word[i]))
                        local = i;
                else
                        other = i;
        }
        if (local != UINT32_MAX && other != UINT32_MAX) {
                struct capo_diagnose_finding *f = capo_evidence_finding(e);

                capo_finding_is(f, CAPO_RANK_CAUSE, "network", "likely");
                SAY(f->headline,
                    "A NODE USES AN INTERFACE THAT THE OTHERS MAY NOT REACH: %s on %s, %s on %s",
                    a->word[local], a->host[local], a->word[other], a->host[other]);
                SAY(f->next,
                    "does the other node reach that address (ping)? If not, set NCCL_SOCKET_IFNAME to an interface that both reach");
                capo_finding_mark(f, a->mark[local]);
                capo_finding_mark(f, a->mark[other]);
        }
        free(a);
}

/* ---- amounts of data ---- */

enum { AMOUNTS = 512, NAME = 96 };

struct amounts {
        uint32_t n;
        struct amount {
                char name[NAME]; /* the line without its numbers */
                int32_t rank;
                long value;
                bool counts; /* the rank prints it several times: it counts up */
                struct capo_evidence_mark mark;
        } v[AMOUNTS];
};

/* "[rank1] train loader: 126 batches": the number beside the word. */
static bool read_amount(const char *line, struct amount *out)
{
        static const char words[] =
                "batches|num_samples|samples|shards|examples|steps per epoch|steps_per_epoch|len(loader)|len(dataloader)|len(train";
        size_t size = strcspn(line, "\n"), n = 0;
        const char *found = NULL, *at;

        for (const char *w = words; *w && !found && size < 2 * NAME; w += n + (w[n] == '|')) {
                n = strcspn(w, "|");
                found = memmem(line, size, w, n);
        }
        if (!found)
                return false;
        for (at = found; at > line && strchr(" \t", at[-1]);)
                at--;
        if (at > line && isdigit((unsigned char)at[-1])) {
                while (at > line && isdigit((unsigned char)at[-1]))
                        at--;
        } else {
                at = found + strcspn(found, "0123456789\n");
                if (at - found > 24)
                        return false;
        }
        if (!isdigit((unsigned char)*at) || (at > line && strchr("./", at[-1])))
                return false;
        out->value = strtol(at, NULL, 10);
        for (n = 0, at = line; at < line + size && n + 1 < NAME; at++)
                out->name[n++] = isdigit((unsigned char)*at) ? '#' : *at;
        out->name[n] = 0;
        return true;
}

static void add_amount(struct amounts *a, const struct amount *new)
{
        for (uint32_t i = 0; i < a->n; i++) {
                if (!strcmp(a->v[i].name, new->name) && a->v[i].rank == new->rank)
                        a->v[i].counts = true;
        }
        if (a->n < AMOUNTS)
                a->v[a->n++] = *new;
}

static int32_t find_rank(const struct capo_evidence_text *t, const char *line)
{
        int32_t rank = capo_text_rank(t, line);
        const char *at = rank < 0 ? memmem(line, strcspn(line, "\n"), "ank", 3) : NULL;

        at = at ? at + 3 + strspn(at + 3, " =:") : NULL;
        return at && isdigit((unsigned char)*at) ? (int32_t)strtol(at, NULL, 10) : rank;
}

static void judge_amounts(struct capo_evidence *e, const struct amounts *a)
{
        for (uint32_t i = 0; i < a->n; i++) {
                for (uint32_t k = i + 1; k < a->n; k++) {
                        const struct amount *x = &a->v[i], *y = &a->v[k];
                        struct capo_diagnose_finding *f;

                        if (strcmp(x->name, y->name) || x->rank == y->rank ||
                            x->value == y->value || x->counts || y->counts)
                                continue;
                        f = capo_evidence_finding(e);
                        capo_finding_is(f, CAPO_RANK_HANG, "program", "likely");
                        SAY(f->headline,
                            "RANKS HAVE DIFFERENT AMOUNTS OF DATA: rank %d %ld, rank %d %ld",
                            x->rank, x->value, y->rank, y->value);
                        SAY(f->next,
                            "does the rank with less leave its loop while the other makes one more collective? Its stack shows it: py-spy dump --pid PID");
                        capo_finding_mark(f, x->mark);
                        capo_finding_mark(f, y->mark);
                        return;
                }
        }
}

static void read_amounts(struct capo_evidence *e)
{
        struct amounts *a = xcalloc(1, sizeof *a);

        for (uint32_t i = 0; i < e->n_texts && capo_evidence_hangs(e); i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n; k++) {
                        const char *line = r->text + r->v[k].begin;
                        struct amount one = {.rank = find_rank(&e->texts[i], line),
                                             .mark = {i, r->v[k].line}};

                        if (one.rank >= 0 && read_amount(line, &one))
                                add_amount(a, &one);
                }
        }
        judge_amounts(e, a);
        free(a);
}

/* ---- steps that wait for data ---- */

static const double DATA_MOST = 0.4; /* of a step */

struct loads {
        uint32_t text, n;
        double data, step; /* sums */
        struct capo_diagnose_finding f;
};

/* "time: 0.486, data_time: 0.331", "Time  0.486 ( 0.490)	Data  0.331" */
static void take_load(const char *at, const char *line, uint32_t number, void *arg)
{
        static const char *const steps[] = {" time",     "batch_time", "iter_time", "Batch (t)",
                                            "step_time", "Time",       "Batch"};
        struct loads *l = arg;
        size_t size = strcspn(line, "\n");
        double data = strtod(at + strcspn(at, "0123456789\n"), NULL), step = 0;

        for (size_t i = 0; i < N_ELEMENTS(steps) && step <= 0; i++) {
                const char *behind = memmem(line, size, steps[i], strlen(steps[i]));

                behind = behind ? behind + strlen(steps[i]) : "";
                step = strtod(behind + strspn(behind, " :="), NULL);
        }
        if (step <= 0 || data <= 0 || data > step)
                return;
        l->n++;
        l->data += data;
        l->step += step;
        if (data <= DATA_MOST * step)
                return;
        if (!l->f.n_marks)
                capo_quote(line, l->f.detail, sizeof l->f.detail);
        capo_finding_mark(&l->f, (struct capo_evidence_mark){l->text, number});
}

static void read_loads(struct capo_evidence *e)
{
        static const char *const words[] = {"data_time", "Data ", "data time", "dataloader_time",
                                            "data-time"};
        struct loads l = {0};

        for (size_t i = 0; i < N_ELEMENTS(words); i++)
                capo_evidence_all(e, words[i], take_load, &l, &l.text);
        if (l.n < 3 || l.data <= DATA_MOST * l.step || e->timed_out)
                return;
        capo_finding_is(&l.f, CAPO_RANK_SLOW, "slow", "likely");
        l.f.measured = true;
        SAY(l.f.headline, "LOADING DATA TAKES %.0f %% OF THE TIME of the steps here (%u lines)",
            100 * l.data / l.step, l.n);
        SAY(l.f.next, "the same run with data made up in memory: is it faster by that part?");
        *capo_evidence_finding(e) = l.f;
}

/* ---- p2pBandwidthLatencyTest ---- */

/* Bandwidth between different GPUs, with P2P and through host memory. */
struct matrix {
        double sum[2];
        uint32_t n[2];
        struct capo_evidence_mark mark[2];
};

/* "     1  27.33 1548.35": the row of GPU 1. Return: is it one? */
static bool read_row(const char *line, double *sum, uint32_t *n)
{
        char *end;
        long gpu = strtol(line, &end, 10);
        bool any = false;

        for (long i = 0; end > line && gpu >= 0; i++) {
                const char *at = end + strspn(end, " \t");
                double value = isdigit((unsigned char)*at) ? strtod(at, &end) : -1;

                if (value < 0)
                        return any;
                any = true;
                *sum += i == gpu ? 0 : value;
                *n += i != gpu;
        }
        return false;
}

static void read_matrices(struct capo_evidence *e)
{
        struct capo_diagnose_finding *f;
        struct matrix m = {0};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;
                int on = -1;

                for (uint32_t k = 0; k < r->n; k++) {
                        const char *line = r->text + r->v[k].begin;
                        bool head = capo_line_has(line, "directional P2P=");

                        if (head) {
                                on = capo_line_has(line, "Bandwidth")
                                             ? capo_line_has(line, "P2P=Enabled")
                                             : -1;
                                if (on >= 0 && !m.n[on])
                                        m.mark[on] = (struct capo_evidence_mark){i, r->v[k].line};
                        } else if (on >= 0 && !read_row(line, &m.sum[on], &m.n[on]) &&
                                   !capo_line_has(line, "D\\D")) {
                                on = -1;
                        }
                }
        }
        if (!m.n[0] || !m.n[1] || m.sum[1] / m.n[1] > 0.8 * m.sum[0] / m.n[0])
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
        f->measured = true;
        capo_finding_mark(f, m.mark[1]);
        capo_finding_mark(f, m.mark[0]);
        SAY(f->headline,
            "COPIES BETWEEN GPUs ARE SLOWER WITH P2P THAN THROUGH HOST MEMORY: %.3g and %.3g GB/s on average",
            m.sum[1] / m.n[1], m.sum[0] / m.n[0]);
        SAY(f->next,
            "all_reduce_perf with and without NCCL_P2P_DISABLE=1: is it faster with it? Then ACS (lspci -vvv | grep ACSCtl) and the IOMMU are what to look at");
}

/* ---- NCCL Inspector ---- */

enum { CALLS = 256, TIMES = 4 }; /* kinds of calls; so many times as long is told */

struct inspected {
        char key[96]; /* communicator, call, size */
        double least, most;
        uint32_t n;
        struct capo_evidence_mark mark[2]; /* the longest, the shortest */
};

/* The text behind @key in the line at @line; "": none. */
static const char *find_field(const char *line, const char *key)
{
        const char *at = memmem(line, strcspn(line, "\n"), key, strlen(key));

        return at ? at + strlen(key) : "";
}

static void take_inspected(struct inspected *v, const char *line, struct capo_evidence_mark mark)
{
        const char *id = find_field(line, "\"id\":\""), *call = find_field(line, "\"coll\":\""),
                   *size = find_field(line, "\"coll_msg_size_bytes\":");
        double us = strtod(find_field(line, "\"coll_exec_time_us\":"), NULL);
        struct inspected *c = v;
        char key[96];

        SAY(key, "%.*s %.*s of %.*s bytes", (int)strcspn(id, "\""), id, (int)strcspn(call, "\""),
            call, (int)strspn(size, "0123456789"), size);
        while (c < v + CALLS && c->n && strcmp(c->key, key) != 0)
                c++;
        if (c == v + CALLS || !*call || us <= 0)
                return;
        SAY(c->key, "%s", key);
        if (us > c->most)
                c->most = us, c->mark[0] = mark;
        if (!c->n++ || us < c->least)
                c->least = us, c->mark[1] = mark;
}

static void read_inspector(struct capo_evidence *e)
{
        struct inspected *v = xcalloc(CALLS, sizeof *v), *worst = v;
        struct capo_diagnose_finding *f;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n && e->texts[i].n[CAPO_EVIDENCE_PROFILE]; k++)
                        take_inspected(v, r->text + r->v[k].begin,
                                       (struct capo_evidence_mark){i, r->v[k].line});
        }
        for (const struct inspected *c = v; c < v + CALLS && c->n; c++) {
                if (c->most / c->least > worst->most / worst->least)
                        worst = v + (c - v);
        }
        if (worst->n > 1 && worst->most > TIMES * worst->least) {
                f = capo_evidence_finding(e);
                capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
                f->measured = true;
                capo_finding_mark(f, worst->mark[0]);
                capo_finding_mark(f, worst->mark[1]);
                SAY(f->headline,
                    "A CALL TOOK %.3g TIMES AS LONG AS ANOTHER OF ITS KIND AND SIZE (NCCL Inspector)",
                    worst->most / worst->least);
                SAY(f->detail, "communicator %s: %.4g to %.4g ms in %u records", worst->key,
                    worst->least / 1e3, worst->most / 1e3, worst->n);
                SAY(f->next,
                    "the same number (coll_sn) in the records of all ranks: was it as long on all of them?");
        }
        free(v);
}

void capo_tools_read(struct capo_evidence *e)
{
        read_cores(e);
        read_addresses(e);
        read_amounts(e);
        read_loads(e);
        read_matrices(e);
        read_inspector(e);
}
