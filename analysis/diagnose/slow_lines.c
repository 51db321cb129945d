/* SPDX-License-Identifier: Apache-2.0 */
/* Output of nccl-tests and of perftest: did it end, are its results right, and is one of several
 * runs of one test slower than the others? cause_rules.def has what makes a job slow by what its
 * log says; capo expect compares with other machines. Runs over several nodes are held against
 * their NICs. */
#include <math.h>

#include "analysis/diagnose/evidence.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"

enum { ROW = 256, SETTINGS = 512, HOSTS = 8, RUNS_MOST = 256, PATH_SHOWN = 40 };

/* Runs of one test that differ by this factor are not alike; of two releases or settings, by the
 * second. */
static const double APART = 1.5, CHANGED_APART = 1.25;

struct run {
        struct capo_tests_run r;
        char settings[SETTINGS]; /* "NCCL_IB_ECE_ENABLE=0 ": of its command line */
        char hosts[HOSTS][32];
        uint32_t n_hosts, wrong;              /* wrong: line of the first wrong row; 0: none */
        double peak;                          /* the largest bus bandwidth of all sizes */
        bool begun, commanded, failed, twice, /* twice: two processes print its head */
                old; /* old: its last column is an error, not a count of wrong values */
};

/* ---- reading ---- */

/* A row of results: size, count, type, redop (only if the call has one in old releases), root (not in
 * old releases), then twice time, algbw, busbw and wrong values, which old releases print as an
 * error. */
static bool read_row(const char *line, size_t size, bool old, uint64_t *bytes, double busbw[2],
                     double wrong[2])
{
        char row[ROW], *cells[ROW / 2], *rest = row, *save = NULL;
        size_t n = 0, first;

        SAY(row, "%.*s", (int)(size < ROW - 1 ? size : ROW - 1), line);
        for (char *label = row;
             (label = strchr(label, '['));) { /* a launcher's "[0]", also within */
                size_t end = strcspn(label, "]");

                memset(label, ' ', end + (label[end] == ']'));
        }
        while ((cells[n] = strtok_r(rest, " \t\r", &save)) && n + 1 < N_ELEMENTS(cells)) {
                rest = NULL;
                n++;
        }
        if (n < 6 || strspn(cells[0], "0123456789") != strlen(cells[0]) ||
            !isdigit((unsigned char)*cells[1]) || !islower((unsigned char)*cells[2]))
                return false;
        first = 3 + (islower((unsigned char)*cells[3]) != 0);
        old = old || (first < n && strchr(cells[first], '.')) || strchr(cells[n - 1], 'e');
        first += old ? 0 : 1;
        *bytes = strtoull(cells[0], NULL, 10);
        for (unsigned i = 0; i < 2; i++, first += 4) {
                busbw[i] = first + 2 < n ? strtod(cells[first + 2], NULL) : 0;
                wrong[i] = !old && first + 3 < n ? strtod(cells[first + 3], NULL) : 0;
        }
        return *bytes >= 4 && busbw[0] > 0 && busbw[0] < 1e6;
}

/* "-x NCCL_IB_ECE_ENABLE=0", "NCCL_ALGO=Ring ./all_reduce_perf", "CUDA_VISIBLE_DEVICES=0,3". */
static void read_settings(struct run *run, const char *line, size_t size, const char *begin)
{
        for (const char *at = line;
             (at = memmem(at, size - (size_t)(at - line), begin, strlen(begin)));) {
                size_t left = size - (size_t)(at - line), n = 0;

                while (n < left && !strchr(" \t\"'", at[n]))
                        n++;
                if (memchr(at, '=', n) && n < 80 && strncmp(at, "NCCL_DEBUG", 10) != 0 &&
                    strlen(run->settings) + n + 2 < SETTINGS)
                        capo_append(run->settings, SETTINGS, "%.*s ", (int)n, at);
                at += n;
        }
}

static bool has_host(const struct run *run, const char *host)
{
        for (uint32_t i = 0; i < run->n_hosts; i++) {
                if (!strcmp(run->hosts[i], host))
                        return true;
        }
        return false;
}

static void add_host(struct run *run, const char *name)
{
        char host[32];

        if (!capo_take_word(name,
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_",
                            host, sizeof host))
                return;
        if (run->n_hosts < HOSTS && !has_host(run, host))
                memcpy(run->hosts[run->n_hosts++], host, sizeof host);
}

/* "#  Rank  0 Group  0 Pid 2000 on node-a device 0 [0x1d] NVIDIA A100-SXM-64GB". */
static void read_device(struct run *run, const char *line, size_t size)
{
        const char *on = memmem(line, size, " on ", 4), *gpu = memchr(line, ']', size);

        run->r.n_ranks++;
        if (on)
                add_host(run, on + 4 + strspn(on + 4, " "));
        if (gpu && !*run->r.gpu)
                SAY(run->r.gpu, "%.*s",
                    (int)((size_t)(line + size - gpu) > 2 ? (size_t)(line + size - gpu) - 2 : 0),
                    gpu + 2);
}

static void find_release(const char *at, int *release)
{
        char word[16];

        if (capo_take_word(at, "0123456789.", word, sizeof word))
                *release = capo_nccl_named(word);
}

/* "2.19.3:", "### v2.18.5-1", "NCCL 2.18.3": a release alone on its line. */
static int find_heading(const char *line, size_t size)
{
        const char *at = line + strspn(line, "# *");
        int release = 0;

        at += strncmp(at, "NCCL ", 5) ? 0 : 5;
        at += *at == 'v';
        if (strncmp(at, "2.", 2) != 0 || (strncmp(line, "### NCCL", 8) != 0 &&
                                          at - line + strspn(at, "0123456789.-:* \r") < size))
                return 0;
        find_release(at, &release);
        return release;
}

static void read_test_line(struct run *run, const char *line, size_t size, uint32_t number)
{
        const char *test = memmem(line, size, "_perf", 5), *from = test;
        double busbw[2], wrong[2];
        uint64_t bytes;

        while (from && from > line && (islower((unsigned char)from[-1]) || from[-1] == '_'))
                from--;
        if (test && test > from && test - from < (long)sizeof run->r.test && !*run->r.test)
                SAY(run->r.test, "%.*s", (int)(test - from), from);
        if (test || memmem(line, size, "mpirun", 6) || memmem(line, size, "srun", 4)) {
                run->commanded = true;
                read_settings(run, line, size, "NCCL_");
                read_settings(run, line, size, "CUDA_VISIBLE_DEVICES=");
        }
        if (find_heading(line, size))
                run->r.nccl = find_heading(line, size);
        if (*line == '#') {
                run->begun |= !strncmp(line, "# nThread ", 10);
                run->r.ended |= !strncmp(line, "# Avg bus bandwidth", 19);
                run->old |= memmem(line, size, "busbw", 5) && memmem(line, size, " error", 6);
                if (memmem(line, size, " Rank ", 6) && memmem(line, size, " device ", 8))
                        read_device(run, line, size);
                if (!strncmp(line, "# Out of bounds values", 22) &&
                    strtoul(line + 22 + strspn(line + 22, " :"), NULL, 10))
                        run->wrong = number;
                return;
        }
        if (memmem(line, size, "NCCL version ", 13) && !run->r.nccl)
                run->r.nccl =
                        capo_nccl_named((const char *)memmem(line, size, "NCCL version ", 13) + 13);
        if (!read_row(line, size, run->old, &bytes, busbw, wrong))
                return;
        if ((wrong[0] > 0 || wrong[1] > 0) && !run->wrong)
                run->wrong = number;
        run->peak = fmax(run->peak, fmax(busbw[0], busbw[1]));
        if (bytes >= run->r.bytes) {
                run->r.bytes = bytes;
                run->r.busbw = fmax(busbw[0], busbw[1]);
                run->r.line = number;
        }
}

/* ---- one run ---- */

/* @name as a word for a shell; FILE if it needs quotes. */
static const char *name_file(const char *name)
{
        return *name != '-' && !name[strspn(
                                       name,
                                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@,=%")]
                       ? name
                       : "FILE";
}

static void judge_run(struct capo_evidence *e, const struct run *run)
{
        struct capo_diagnose_finding *f = capo_evidence_finding(e);

        f->sure = "certain";
        capo_finding_mark(
                f, (struct capo_evidence_mark){run->r.text, run->wrong ? run->wrong : run->r.line});
        if (run->twice) {
                capo_finding_is(f, CAPO_RANK_CAUSE, "setting", "likely");
                SAY(f->headline, "NCCL-TESTS PRINTS ITS HEAD TWICE BEFORE A RESULT");
                SAY(f->next,
                    "was it built with MPI=1, with the MPI of this mpirun (ldd)? Else each process runs a test of its own");
        } else if (run->wrong) {
                capo_finding_is(f, CAPO_RANK_CAUSE, "wrong-results", "certain");
                SAY(f->headline, "NCCL-TESTS FOUND WRONG RESULTS");
                SAY(f->next,
                    "the same test on each pair of these GPUs or nodes: which pairs give right results?");
        } else if (run->r.ended || run->r.bytes) {
                capo_finding_is(f, run->r.ended ? CAPO_RANK_HEALTHY : CAPO_RANK_NOTE, "healthy",
                                "certain");
                SAY(f->headline,
                    run->r.ended ? "NCCL-TESTS ENDED WITHOUT AN ERROR"
                                 : "NCCL-TESTS MEASURED, and the end of its output is not here");
                if (run->r.bytes)
                        SAY(f->detail,
                            "%s: bus bandwidth %.4g GB/s at its largest size, %llu bytes",
                            *run->r.test ? run->r.test : "its test", run->r.busbw,
                            (unsigned long long)run->r.bytes);
                SAY(f->next, "is its bandwidth normal? capo expect %s --platform NAME",
                    name_file(e->texts[run->r.text].name));
        } else if (capo_evidence_has(": Test CUDA failure ", e) ||
                   capo_evidence_has(": Test NCCL failure ", e)) { /* which says more */
                capo_finding_is(f, CAPO_RANK_NOTE, "undecided", "certain");
                SAY(f->headline, "NCCL-TESTS STOPPED AT AN ERROR");
        } else {
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
                SAY(f->headline,
                    "A RUN OF NCCL-TESTS DID NOT COME TO ITS END, or its output was cut");
                SAY(f->next, "%s",
                    capo_evidence_has("NCCL INFO", e)
                            ? "while it hangs, the stack of each rank (gdb -p PID): are all in the same call?"
                            : "while it hangs, the last line of each rank with NCCL_DEBUG=INFO: does each print Init COMPLETE?");
        }
}

/* Larger messages are not slower, unless something breaks. */
static void judge_fall(struct capo_evidence *e, const struct run *run)
{
        struct capo_diagnose_finding *f;

        if (run->r.busbw > run->peak / 4 || run->r.bytes < 1 << 20 || run->wrong)
                return;
        f = capo_evidence_finding(e);
        capo_finding_mark(f, (struct capo_evidence_mark){run->r.text, run->r.line});
        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "unsure");
        f->measured = true;
        SAY(f->headline, "BUS BANDWIDTH FALLS AS MESSAGES GROW: from %.4g to %.4g GB/s", run->peak,
            run->r.busbw);
        SAY(f->next,
            "the same test on one node alone: does it fall there, too? If not, the network: do its error counters rise while it runs?");
}

/* ---- several runs of one test ---- */

static bool is_same_test(const struct run *a, const struct run *b)
{
        bool sizes = a->r.bytes >= b->r.bytes / 4 && b->r.bytes >= a->r.bytes / 4;

        return sizes && a->r.bytes && b->r.bytes &&
               (a->r.n_ranks == b->r.n_ranks || !a->r.n_ranks || !b->r.n_ranks) &&
               (!*a->r.test || !*b->r.test || !strcmp(a->r.test, b->r.test));
}

/* The first setting of @a that no run of the same test on the other side of @middle (GB/s) has, of
 * those whose command line is here; "": none. */
static const char *find_setting(const struct run *runs, uint32_t n, const struct run *a,
                                double middle, char one[96])
{
        for (const char *at = a->settings; *at; at += strcspn(at, " ") + 1) {
                uint32_t without = 0, with = 0;

                snprintf(one, 96, "%.*s", (int)(strcspn(at, " ") < 95 ? strcspn(at, " ") : 95), at);
                for (uint32_t i = 0; i < n; i++) {
                        if (!runs[i].commanded || !is_same_test(&runs[i], a) ||
                            (runs[i].r.busbw > middle) == (a->r.busbw > middle))
                                continue;
                        with += strstr(runs[i].settings, one) != NULL;
                        without += strstr(runs[i].settings, one) == NULL;
                }
                if (without && !with)
                        return one;
        }
        return "";
}

static void tell_rates(const struct capo_evidence *e, const struct run *runs, uint32_t n,
                       const struct run *fast, struct capo_diagnose_finding *f)
{
        char release[16];

        for (uint32_t i = 0; i < n && strlen(f->detail) < 560; i++) {
                const struct run *run = &runs[i];

                if (!is_same_test(run, fast))
                        continue;
                ADD(f->detail, "%s%.60s: %.4g GB/s", *f->detail ? "\n" : "",
                    capo_base_name(e->texts[run->r.text].name), run->r.busbw);
                if (run->r.nccl)
                        ADD(f->detail, ", NCCL %s",
                            capo_nccl_text((uint32_t)run->r.nccl, release, sizeof release));
                capo_finding_mark(f, (struct capo_evidence_mark){run->r.text, run->r.line});
        }
}

static void judge_pair(struct capo_evidence *e, const struct run *runs, uint32_t n,
                       const struct run *fast, const struct run *slow)
{
        const char *setting;
        double middle = sqrt(fast->r.busbw * slow->r.busbw);
        struct capo_diagnose_finding *f = capo_evidence_finding(e);
        char one[96], a[16], b[16];

        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
        f->measured = true;
        tell_rates(e, runs, n, fast, f);
        if (fast->r.nccl && slow->r.nccl && fast->r.nccl != slow->r.nccl) {
                e->nccl = slow->r.nccl;
                e->n_nccls = 0; /* whose known bugs count */
                SAY(f->headline,
                    "THE TEST REACHES %.4g GB/s WITH NCCL %s, AND %.4g GB/s WITH NCCL %s",
                    slow->r.busbw, capo_nccl_text((uint32_t)slow->r.nccl, a, sizeof a),
                    fast->r.busbw, capo_nccl_text((uint32_t)fast->r.nccl, b, sizeof b));
                SAY(f->next,
                    "each once more on the same nodes with the same settings: does the difference stay?");
        } else if (*(setting = find_setting(runs, n, fast, middle, one)) ||
                   *(setting = find_setting(runs, n, slow, middle, one))) {
                bool of_fast = strstr(fast->settings, setting) != NULL;

                SAY(f->headline, "THE TEST REACHES %.4g GB/s WITH %s, AND %.4g GB/s WITHOUT",
                    of_fast ? fast->r.busbw : slow->r.busbw, setting,
                    of_fast ? slow->r.busbw : fast->r.busbw);
                SAY(f->next, "each once more with and without it: does the difference stay?");
        } else {
                f->sure = "unsure";
                SAY(f->headline, "RUNS OF THE SAME TEST DIFFER: %.4g and %.4g GB/s", slow->r.busbw,
                    fast->r.busbw);
                SAY(f->next, "the same run several times: does it vary by itself?");
        }
}

static void compare_runs(struct capo_evidence *e, const struct run *runs, uint32_t n)
{
        const struct run *fast = NULL, *slow = NULL;

        for (uint32_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < n; k++) {
                        const struct run *a = &runs[i], *b = &runs[k];

                        bool other = (a->r.nccl && b->r.nccl && a->r.nccl != b->r.nccl) ||
                                     (a->commanded && b->commanded &&
                                      strcmp(a->settings, b->settings) != 0);
                        double apart = other ? CHANGED_APART : APART;

                        if (i != k && is_same_test(a, b) && a->r.busbw > apart * b->r.busbw &&
                            (!fast || a->r.busbw / b->r.busbw > fast->r.busbw / slow->r.busbw)) {
                                fast = a;
                                slow = b;
                        }
                }
        }
        return fast ? judge_pair(e, runs, n, fast, slow) : 0;
}

/* ---- perftest ---- */

struct link {
        double rate; /* of a link, Gb/s; 0: not known */
        double got;  /* measured, Gb/s; 0: none */
        struct capo_evidence_mark mark;
};

static void read_link(struct link *link, const char *line, size_t size,
                      struct capo_evidence_mark mark, double unit)
{
        double peak, average;
        char row[ROW];
        const char *at;

        SAY(row, "%.*s", (int)(size < ROW - 1 ? size : ROW - 1), line);
        if ((at = strstr(row, "Speed: ")) && strstr(at, "Mb/s"))
                link->rate = strtod(at + 7, NULL) / 1000;
        if ((at = strstr(row, "ate: ")) && strtod(at + 5, NULL) >= 10 &&
            strtod(at + 5, NULL) <= 1600)
                link->rate = strtod(at + 5, NULL) > link->rate ? strtod(at + 5, NULL) : link->rate;
        if (unit > 0 && sscanf(row, "%*u %*u %lf %lf %*f", &peak, &average) == 2 && average > 0 &&
            average * unit > link->got) {
                link->got = average * unit;
                link->mark = mark;
        }
}

static void judge_link(struct capo_evidence *e, const struct link *link)
{
        struct capo_diagnose_finding *f;

        if (link->rate <= 0 || link->got <= 0 || link->got > 0.4 * link->rate)
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
        f->measured = true;
        capo_finding_mark(f, link->mark);
        SAY(f->headline, "A LINK CARRIES %.3g OF %.4g Gb/s", link->got, link->rate);
        SAY(f->detail, "perftest measures it, without NCCL");
        SAY(f->next,
            "does the NIC's PCIe link have its full speed and width (lspci -vvv: LnkSta against LnkCap)?");
}

/* ---- against the rate of the NICs ---- */

struct nics {
        uint32_t n;
        double gbits; /* of each; 0: not known */
};

static void take_rate(const char *at, const char *line, uint32_t number, void *arg)
{
        double rate = strtod(at + strcspn(at, "0123456789\n"), NULL), *most = arg;

        *most = rate >= 10 && rate <= 800 && rate > *most ? rate : *most;
}

/* "+ NET[25.0] - NET/0": GB/s, by NCCL. */
static void take_net(const char *at, const char *line, uint32_t number, void *arg)
{
        double rate = 8 * strtod(at + strlen(" + NET["), NULL), *most = arg;

        *most = rate >= 10 && rate <= 1600 && rate > *most ? rate : *most;
}

/* "mlx5" stands for all NICs whose names begin so; "^" and "=" have meanings of their own. */
static bool is_prefix(const char *value)
{
        size_t n = strcspn(value, ",: \t\r\n\"'");

        return !n || strchr("^=$", *value) || !isdigit((unsigned char)value[n - 1]) ||
               (n == 4 && !strncmp(value, "mlx5", 4));
}

static void take_named(const char *at, const char *line, uint32_t number, void *arg)
{
        uint32_t n = 1;

        for (const char *c = at + strlen("NCCL_IB_HCA="); *c && !isspace((unsigned char)*c); c++)
                n += *c == ',';
        *(uint32_t *)arg = is_prefix(at + strlen("NCCL_IB_HCA=")) ? 0 : n;
}

/* A link's rate by a tool, else by the name of its generation; how many NICs the job uses. */
static struct nics read_nics(struct capo_evidence *e, double measured)
{
        static const struct {
                const char *word;
                double gbits;
        } kinds[] = {{" XDR", 800},  {" NDR", 400}, {"x400G", 400}, {"400 Gb/s", 400},
                     {"400Gb", 400}, {" HDR", 200}, {"x200G", 200}, {"200 Gb/s", 200},
                     {"200Gb", 200}, {" EDR", 100}, {" FDR", 56}};
        struct nics s = {0};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                capo_evidence_each(e, i, "Rate: ", take_rate, &s.gbits);
                capo_evidence_each(e, i, " + NET[", take_net, &s.gbits);
                capo_evidence_each(e, i, "NCCL_IB_HCA=", take_named, &s.n);
        }
        for (uint32_t i = 0; i < e->n_texts && !s.n; i++)
                capo_evidence_each(e, i, "NET/IB : Using", capo_nics_used, &s.n);
        for (size_t k = 0; k < N_ELEMENTS(kinds) && s.gbits <= 0; k++)
                s.gbits = capo_evidence_has(kinds[k].word, e) ? kinds[k].gbits : 0;
        s.gbits = s.gbits > 0 ? s.gbits : measured;
        return s;
}

static void judge_by_nics(struct capo_evidence *e, struct capo_tests_run *run,
                          const struct nics *nics)
{
        double most = nics->n * nics->gbits / 8, share = most > 0 ? run->busbw / most : 0;
        struct capo_diagnose_finding *f;

        if (share <= 0 || run->bytes < 1 << 24 ||
            (*run->test && /* as a ring */
             !strstr("all_reduce all_gather reduce_scatter broadcast", run->test)))
                return;
        for (uint32_t i = 0; i < e->n_findings && share >= 0.8; i++) {
                f = &e->findings[i];
                if (strcmp(f->kind, "healthy") != 0 || f->marks[0].text != run->text ||
                    f->marks[0].line != run->line)
                        continue;
                ADD(f->headline,
                    share > 1.05 ? ": MORE THAN THE NICS CARRY (%.4g GB/s), as with trees"
                                 : ": IT REACHES WHAT THE NICS IN USE CARRY (%.4g GB/s)",
                    most);
                SAY(f->next,
                    share > 1.05
                            ? "nothing is wrong by this number"
                            : "has each node more NICs than these (NET/IB : Using)? Then more is possible");
        }
        if (share >= 0.6)
                return;
        f = capo_evidence_finding(e);
        capo_finding_mark(f, (struct capo_evidence_mark){run->text, run->line});
        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
        f->measured = true;
        run->expected = most;
        SAY(f->headline, "NCCL-TESTS REACHES %.4g OF %.4g GB/s, which %u NIC%s of %.4g Gb/s carr%s",
            run->busbw, most, nics->n, nics->n == 1 ? "" : "s", nics->gbits,
            nics->n == 1 ? "ies" : "y");
        SAY(f->next,
            "each NIC alone between the same nodes (ib_write_bw --use_cuda): low, too? Then the link; else NCCL's path");
}

static void read_rates(struct capo_evidence *e, double measured)
{
        struct nics nics = read_nics(e, measured);

        for (uint32_t i = 0; i < e->n_runs; i++) {
                if (e->runs[i].n_nodes > 1 ||
                    (e->runs[i].n_nodes < 1 && capo_evidence_has("NCCL_IB_HCA=", e)))
                        judge_by_nics(e, &e->runs[i], &nics);
        }
}

/* ---- all texts ---- */

/* The head of the next of several runs in one file, or its command after a prompt; behind the end of
 * one, its command, ranks or release. */
static bool begins_run(const struct run *run, const char *line, size_t size)
{
        return !strncmp(line, "# nThread ", 10) || find_heading(line, size) ||
               (run->r.ended && (!strncmp(line, "NCCL version ", 13) ||
                                 (*line == '#' && memmem(line, size, " Rank ", 6)))) ||
               ((*line == '$' || memmem(line, size < 80 ? size : 80, "$ ", 2) ||
                 (run->r.ended && *line != '#')) &&
                memmem(line, size, "_perf ", 6));
}

/* One run did not end, another one did, and they differ in a setting: it is what works. */
static void judge_stuck(struct capo_evidence *e, const struct run *runs, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < n; k++) {
                        const struct run *stuck = &runs[i], *well = &runs[k];
                        char one[96];

                        if (stuck->r.ended || stuck->r.bytes || !stuck->begun || !well->r.ended ||
                            stuck->r.text != well->r.text)
                                continue;
                        for (const char *at = well->settings; *at; at += strcspn(at, " ") + 1) {
                                SAY(one, "%.*s",
                                    (int)(strcspn(at, " ") < 95 ? strcspn(at, " ") : 95), at);
                                if (strstr(stuck->settings, one))
                                        continue;
                                capo_tried_tell(
                                        e, one,
                                        (struct capo_evidence_mark){well->r.text, well->r.line});
                                return;
                        }
                }
        }
}

static void keep_run(struct run **runs, uint32_t *n, struct run *run)
{
        run->r.n_nodes = (int32_t)run->n_hosts;
        if ((!run->begun && !run->r.bytes) || *n == RUNS_MOST)
                return;
        *xadd(*runs, *n) = *run;
}

static bool has_words(const char *words, void *text) { return capo_text_has(text, words); }

void capo_tests_read(struct capo_evidence *e)
{
        struct run *runs = NULL;
        struct link link = {0};
        uint32_t n = 0;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *records = &e->texts[i].records;
                bool tests =
                        capo_bug_any("algbw|# nThread |# Avg bus bandwidth|_perf|float     sum",
                                     has_words, &e->texts[i], NULL);
                double unit = capo_text_has(&e->texts[i], "BW average[Gb/sec]")   ? 1
                              : capo_text_has(&e->texts[i], "BW average[MB/sec]") ? 8.388608e-3
                                                                                  : 0;
                struct run run = {.r.text = i};

                for (uint32_t k = 0; k < records->n; k++) {
                        const char *line = records->text + records->v[k].begin;
                        size_t size = strcspn(line, "\n");

                        read_link(&link, line, size,
                                  (struct capo_evidence_mark){i, records->v[k].line}, unit);
                        run.failed |= capo_line_has(line, "failure|rror|signal");
                        if (tests && run.begun && !run.r.bytes && !run.failed &&
                            !strncmp(line, "# nThread ", 10))
                                run.twice = true;
                        else if (tests && (run.r.bytes || run.begun) &&
                                 begins_run(&run, line, size)) {
                                keep_run(&runs, &n, &run); /* the next of several in one file */
                                run = (struct run){.r.text = i};
                        }
                        if (tests)
                                read_test_line(&run, line, size, records->v[k].line);
                }
                keep_run(&runs, &n, &run);
        }
        for (uint32_t i = 0; i < n; i++) {
                judge_run(e, &runs[i]);
                judge_fall(e, &runs[i]);
        }
        judge_stuck(e, runs, n);
        compare_runs(e, runs, n);
        judge_link(e, &link);
        for (uint32_t i = 0; i < n; i++)
                *xadd(e->runs, e->n_runs) = runs[i].r;
        free(runs);
        read_rates(e, link.got);
}
