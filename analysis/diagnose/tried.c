/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wrote about attempts: "with NCCL_P2P_DISABLE=1 it works", "2.18.6: ok, 2.19.3:
 * hangs", "NCCL_IB_HCA=mlx5_3 FAIL". tried_settings.def says what a setting that helps means. */
#include "analysis/diagnose/prose.h"
#include "core/base/nccl_release.h"

static const struct {
        const char *words, *kind, *headline, *next;
} settings[] = {
#define TRIED(words, kind, headline, next) {words, kind, headline, next},
#define FASTER(words, why)
#include "analysis/diagnose/tried_settings.def"
};

enum said { SAID_NOTHING, SAID_WORKS, SAID_FAILS };
enum { CLAUSE = 200, RELEASE = 16, OLDEST_MINOR = 14 };

/* @whole: "ran" is not in "ranks". */
static bool has_any(const char *clause, const char *words, bool whole)
{
        while (*words) {
                size_t n = strcspn(words, "|");

                for (const char *at = clause; *at; at++) {
                        if (!strncasecmp(at, words, n) &&
                            (at == clause || !isalpha((unsigned char)at[-1])) &&
                            !(whole && isalpha((unsigned char)at[n])))
                                return true;
                }
                words += n + (words[n] == '|');
        }
        return false;
}

/* The part of a sentence around @at, and what it says of the attempt. */
static enum said read_clause(const char *line, const char *at, size_t n, char clause[CLAUSE])
{
        static const char ends
                [] = ";.\n|",
            gone[] =
                    "no hang|not hang|no longer hang|n't hang|without hang|without a hang|no error|hang is gone|hangs are gone|goes away|went away|"
                    "fixes|fixed|resolves|resolved|solves|solved",
            good[] =
                    "works|worked|runs well|runs fine|run fine|everything runs|goes well|going well|normally|trains|work fine|working|ok|fine|it runs|job runs|test runs|passes|passed|restored|completes|completed|finishes|finished|"
                    "succeeds|succeeded|helps|helped|is well|pass",
            bad[] = "hang|fail|stuck|stop|crash|error|nothing|same|still|not|never|cannot|can't|doesn't|didn't|don't|no effect|no difference|no change|"
                    "timeout|timed out|wrong";
        const char *from = at, *end = at + n;
        bool flipped, works, fails;

        while (from > line && at - from < 90 &&
               !(strchr(ends, from[-1]) && isspace((unsigned char)*from)) &&
               strncmp(from, " but ", 5) != 0)
                from--;
        while (*end != '\n' && *end && end - at < 100 &&
               !(strchr(ends, *end) && isspace((unsigned char)end[1])) &&
               strncmp(end, " but ", 5) != 0 && strncmp(end, ", but", 5) != 0)
                end++;
        snprintf(clause, CLAUSE, "%.*s", (int)(end - from), from);
        if (has_any(clause, "ssh|ping|iperf|telnet|perftest|ib_write_bw", false))
                return SAID_NOTHING; /* what works is something else */
        flipped = has_any(clause, "without NCCL|without --|unless|unset|if not set", false);
        works = has_any(clause, gone, false);
        fails = !works && has_any(clause, bad, false);
        works |= !fails && has_any(clause, good, true);
        return works == fails ? SAID_NOTHING : works != flipped ? SAID_WORKS : SAID_FAILS;
}

struct tried {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f; /* NULL: none so far */
        uint32_t text, row, works, fails;
        size_t n;
        char name[64],
                one[64]; /* of the values tried: the setting's name, and the one that fails */
        bool slow;       /* the question is why it is slow, not whether it works */
        int good, bad;   /* releases of NCCL: the last that works, the first that fails */
        struct capo_evidence_mark mark;
};

/* Lines of programs and commands have settings, too. */
static bool is_prose(const char *line)
{
        return strcspn(line, "\n") < 1000 && strncmp(line, "$ ", 2) != 0 &&
               !capo_line_has(line, "]$ |~$ |]# |~# ") &&
               !capo_line_has(
                       line,
                       " NCCL INFO | NCCL WARN |set by environment|WARNING |INFO:|[INFO|INFO ");
}

static struct capo_diagnose_finding *add_finding(struct tried *t, const char *line, uint32_t number)
{
        struct capo_diagnose_finding *f = capo_evidence_finding(t->e);

        f->rank = CAPO_RANK_HANG;
        f->sure = "likely";
        capo_quote(line, f->detail, sizeof f->detail);
        capo_finding_mark(f, (struct capo_evidence_mark){t->text, number});
        return f;
}

static void take_setting(const char *at, const char *line, uint32_t number, void *arg)
{
        struct tried *t = arg;
        char clause[CLAUSE];

        if (t->f || t->slow || !is_prose(line) || read_clause(line, at, t->n, clause) != SAID_WORKS)
                return;
        t->f = add_finding(t, line, number);
        t->f->kind = settings[t->row].kind;
        SAY(t->f->headline, "%s", settings[t->row].headline);
        for (uint32_t i = 0; i < t->e->n_findings; i++) {
                if (!strcmp(t->e->findings[i].kind,
                            "crash")) /* it does not crash with the setting */
                        t->e->findings[i].rank = CAPO_RANK_ERROR;
        }
        SAY(t->f->next, "%s", settings[t->row].next);
}

static void take_other(const char *at, const char *line, uint32_t number, void *arg)
{
        struct tried *t = arg;
        char clause[CLAUSE], word[64];
        size_t n = capo_take_word(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", word, sizeof word);

        if (t->f || !n || at[n] != '=' || !strncmp(word, "NCCL_DEBUG", 10) || !is_prose(line))
                return;
        SAY(word, "%.*s", (int)strcspn(at, " ,;:`'\"\n"), at);
        if (read_clause(line, at, strlen(word), clause) != SAID_WORKS)
                return;
        for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
                if (strstr(settings[i].words, word))
                        return;
        }
        t->f = add_finding(t, line, number);
        t->f->kind = "setting";
        SAY(t->f->headline, "WITH %s THE JOB WORKS, by the text", word);
        SAY(t->f->next,
            "keep it meanwhile; what it changes is in NCCL's documentation; the known bugs of this release: capo diagnose --bugs RELEASE");
}

/* "2.18.6" in a sentence about NCCL. PyTorch's releases have smaller second numbers. */
static void take_release(const char *at, const char *line, uint32_t number, void *arg)
{
        struct tried *t = arg;
        char word[RELEASE], clause[CLAUSE];
        int release;

        if ((at > line && (isalnum((unsigned char)at[-1]) || at[-1] == '.')) ||
            !isdigit((unsigned char)at[2]) || !capo_take_word(at, "0123456789.", word, sizeof word))
                return;
        release = capo_nccl_named(word);
        if (release < 20000 + OLDEST_MINOR * 100 || release % 100 == 0 || !is_prose(line))
                return;
        switch (read_clause(line, at, strlen(word), clause)) {
        case SAID_WORKS: t->good = t->good && t->good > release ? t->good : release; break;
        case SAID_FAILS:
                if (!t->bad || release < t->bad) {
                        t->bad = release;
                        t->mark = (struct capo_evidence_mark){t->text, number};
                }
                break;
        default: break;
        }
}

static void judge_releases(struct capo_evidence *e)
{
        struct tried t = {.e = e};
        struct capo_diagnose_finding *f;
        char good[16], bad[16];

        capo_evidence_all(e, "2.", take_release, &t, &t.text);
        if (!t.good || !t.bad || t.good == t.bad)
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_HANG, "known-bug", "likely");
        capo_finding_mark(f, t.mark);
        e->nccl = t.bad;
        e->n_nccls = 0; /* whose known bugs count */
        capo_nccl_text((uint32_t)t.good, good, sizeof good);
        capo_nccl_text((uint32_t)t.bad, bad, sizeof bad);
        SAY(f->headline, "NCCL %s FAILS WHERE %s WORKS", bad, good);
        SAY(f->next,
            "use %s meanwhile (LD_LIBRARY_PATH, or the package's release); known bugs of the other: capo diagnose --bugs %s",
            good, bad);
}

/* ---- releases of other software ---- */

enum { SOFTWARE = 32 };

static const char VERSION[] = "0123456789.";

/* "ultralytics 8.4.39": the word before a release of three numbers. */
static bool read_software(const char *line, const char *at, char name[SOFTWARE])
{
        const char *end = at, *from;

        while (end > line && strchr(" =v", end[-1]))
                end--;
        for (from = end;
             from > line && (isalnum((unsigned char)from[-1]) || strchr("-_", from[-1]));)
                from--;
        if (end - from < 3 || end - from >= SOFTWARE || end == at || !isalpha((unsigned char)*from))
                return false;
        snprintf(name, SOFTWARE, "%.*s", (int)(end - from), from);
        return !has_any("version release python linux kernel with and the from than nccl", name,
                        true);
}

struct software {
        char name[SOFTWARE], good[RELEASE], other[RELEASE];
        struct capo_evidence_mark mark, other_mark;
        const char *line;
        uint32_t text;
};

/* "With 8.4.39 the same command works". */
static bool says_works(const char *line, const char *at, size_t n)
{
        char clause[CLAUSE];

        read_clause(line, at, n, clause);
        return has_any(clause, "works|worked|is fine|was fine|runs fine|no problem|ok", true) &&
               !has_any(clause, "hang|fail|stuck|crash|error|not|doesn't|didn't|no longer", false);
}

/* A sentence says that a release of something works. */
static void find_good(struct software *s, const char *line, uint32_t number)
{
        size_t size = strcspn(line, "\n");

        for (const char *at = line; at < line + size && !*s->good && is_prose(line); at++) {
                unsigned dots = 0;

                if (!isdigit((unsigned char)*at) || (at > line && strchr("0123456789.", at[-1])) ||
                    !capo_take_word(at, VERSION, s->good, RELEASE))
                        continue;
                for (const char *c = s->good; *c; c++)
                        dots += *c == '.';
                if (dots == 2 && s->good[strlen(s->good) - 1] != '.' &&
                    read_software(line, at, s->name) && says_works(line, at, strlen(s->good))) {
                        s->mark = (struct capo_evidence_mark){s->text, number};
                        s->line = line;
                        return;
                }
                at += strlen(s->good) - 1;
                *s->good = 0;
        }
}

/* Another release of it is what ran: "Ultralytics 8.4.51 Python-3.11.9 ...". */
static void find_other(struct software *s, const char *line, uint32_t number, uint32_t text)
{
        const char *at = strcasestr(line, s->name), *end = line + strcspn(line, "\n");
        char word[RELEASE];

        for (; at && at < end && !*s->other; at = strcasestr(at + 1, s->name)) {
                const char *v = at + strlen(s->name) + strspn(at + strlen(s->name), " =v-");

                if (v == at + strlen(s->name) || !capo_take_word(v, VERSION, word, RELEASE) ||
                    !strcmp(word, s->good) || !strchr(word, '.') || line == s->line)
                        continue;
                memcpy(s->other, word, RELEASE);
                s->other_mark = (struct capo_evidence_mark){text, number};
        }
}

static void judge_software(struct capo_evidence *e)
{
        struct software s = {.text = 0};
        struct capo_diagnose_finding *f;

        for (s.text = 0; s.text < e->n_texts && !*s.good; s.text++) {
                const struct capo_records *r = &e->texts[s.text].records;

                for (uint32_t k = 0; k < r->n && !*s.good; k++)
                        find_good(&s, r->text + r->v[k].begin, r->v[k].line);
        }
        for (uint32_t i = 0; i < e->n_texts && *s.good && !*s.other; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n && !*s.other; k++)
                        find_other(&s, r->text + r->v[k].begin, r->v[k].line, i);
        }
        if (!*s.other)
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_HANG, "known-bug", "likely");
        SAY(f->headline, "%s %s WORKS, by the text, and this run has %s", s.name, s.good, s.other);
        capo_quote(s.line, f->detail, sizeof f->detail);
        SAY(f->next,
            "%s %s meanwhile, or the newest one; its release notes and issues between the two; stacks of all ranks (py-spy dump --pid PID) for the report",
            s.name, s.good);
        capo_finding_mark(f, s.mark);
        capo_finding_mark(f, s.other_mark);
}

/* One value of a setting after the other: "NCCL_IB_HCA=mlx5_3 FAIL". */
static void take_value(const char *at, const char *line, uint32_t number, void *arg)
{
        struct tried *t = arg;
        char word[64], clause[CLAUSE];

        if (at != line || !strchr(line, '=') ||
            !capo_take_word(at,
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789abcdefghijklmnopqrstuvwxyz=^:-",
                            word, sizeof word) ||
            !strchr(word, '='))
                return;
        if (strncmp(t->name, word, strcspn(word, "=") + 1) != 0) {
                SAY(t->name, "%.*s", (int)strcspn(word, "=") + 1, word);
                if (t->fails == 1 && t->works >= 2)
                        return;
                t->works = t->fails = 0;
        }
        switch (read_clause(line, at, strlen(word), clause)) {
        case SAID_WORKS: t->works++; break;
        case SAID_FAILS:
                t->fails++;
                t->mark = (struct capo_evidence_mark){t->text, number};
                SAY(t->one, "%s", word);
                break;
        default: break;
        }
}

static void judge_values(struct capo_evidence *e)
{
        struct tried t = {.e = e};
        struct capo_diagnose_finding *f;

        for (t.text = 0; t.text < e->n_texts && t.fails != 1; t.text++) {
                t.works = t.fails = 0;
                capo_evidence_each(e, t.text, "NCCL_", take_value, &t);
                if (t.fails != 1 || t.works < 2)
                        t.fails = 0;
        }
        if (t.fails != 1)
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_HANG, "setting", "likely");
        capo_finding_mark(f, t.mark);
        SAY(f->headline, "%s FAILS, AND %u OTHER VALUES WORK", t.one, t.works);
        SAY(f->next,
            "what sets that device or value apart: firmware, slot and PCIe path, cable, the GPU that uses it; leave it out meanwhile");
}

/* ---- a table of releases and their rates ---- */

/* "NCCL 2.27.3 NCCL_PXN_DISABLE=1    max busbw 34.0" */
enum { RATES = 64 };

static const double APART = 1.3;

struct rate {
        int release;
        double value;
        char setting[64]; /* "": none */
        struct capo_evidence_mark mark;
};

/* One release of NCCL in the line, and the first number behind it. */
static bool read_rate(const char *line, struct rate *out)
{
        const char *end = line + strcspn(line, "\n"), *behind = NULL;
        char word[RELEASE];

        *out = (struct rate){0};
        for (const char *at = line; (at = memmem(at, (size_t)(end - at), "2.", 2)); at++) {
                int release = 0;

                if ((at == line || strchr(" \t=:|,(", at[-1])) &&
                    capo_take_word(at, "0123456789.", word, sizeof word))
                        release = capo_nccl_named(word);
                if (release < 20000 + OLDEST_MINOR * 100 || release % 100 == 0)
                        continue;
                if (out->release && out->release != release)
                        return false;
                out->release = release;
                behind = behind ? behind : at + strlen(word);
        }
        if (!behind || end - line > CLAUSE || !is_prose(line))
                return false;
        for (const char *at = behind; at < end; at++) {
                char *after;

                if (!strncmp(at, "NCCL_", 5)) {
                        size_t n = strcspn(at, " \t\n|");

                        SAY(out->setting, "%.*s", (int)n, at);
                        at += n - 1;
                        continue;
                }
                if (!isdigit((unsigned char)*at) || !strchr(" \t|:=", at[-1]))
                        continue;
                out->value = strtod(at, &after);
                if (after > at && strchr(" \t\n|,;", *after) && out->value > 0)
                        return true;
                at = after > at ? after - 1 : at;
        }
        return false;
}

static const struct rate *find_extreme(const struct rate *v, unsigned n, bool most)
{
        const struct rate *found = &v[0];

        for (unsigned i = 1; i < n; i++) {
                if (!*v[i].setting && (*found->setting || (v[i].value > found->value) == most))
                        found = &v[i];
        }
        return found;
}

/* Do all rows of each release lie on one side? */
static bool is_apart(const struct rate *v, unsigned n, const struct rate *fast,
                     const struct rate *slow)
{
        for (unsigned i = 0; i < n; i++) {
                if (!*v[i].setting &&
                    ((v[i].release == fast->release && v[i].value * APART < fast->value) ||
                     (v[i].release == slow->release && v[i].value > slow->value * APART)))
                        return false;
        }
        return fast->release != slow->release && fast->value >= slow->value * APART;
}

static void judge_rates(struct capo_evidence *e, uint32_t text)
{
        static const char rates[] =
                "busbw|GB/s|token/s|tokens/s|it/s|samples|throughput|Gb/s|bandwidth";
        const struct capo_records *r = &e->texts[text].records;
        struct rate v[RATES];
        const struct rate *fast, *slow;
        struct capo_diagnose_finding *f;
        char a[16], b[16];
        unsigned n = 0;
        bool counted = false;

        for (uint32_t k = 0; k < r->n && n < RATES; k++) {
                const char *line = r->text + r->v[k].begin;
                char head[CLAUSE];

                SAY(head, "%.*s", (int)strcspn(line, "\n"), line);
                counted |= has_any(head, rates, false);
                if (read_rate(line, &v[n]))
                        v[n++].mark = (struct capo_evidence_mark){text, r->v[k].line};
        }
        if (n < 2 || !counted)
                return;
        fast = find_extreme(v, n, true);
        slow = find_extreme(v, n, false);
        if (!is_apart(v, n, fast, slow))
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
        f->sure = "certain"; /* it was measured */
        e->nccl = slow->release;
        e->n_nccls = 0;
        capo_nccl_text((uint32_t)fast->release, a, sizeof a);
        capo_nccl_text((uint32_t)slow->release, b, sizeof b);
        SAY(f->headline, "NCCL %s IS SLOWER THAN %s: %.5g against %.5g", b, a, slow->value,
            fast->value);
        SAY(f->next,
            "install NCCL %s (the release that PyTorch was built with is safest), or a newer one; known bugs: capo diagnose --bugs %s",
            a, b);
        capo_finding_mark(f, fast->mark);
        capo_finding_mark(f, slow->mark);
        for (unsigned i = 0; i < n; i++) {
                if (*v[i].setting && v[i].release == slow->release &&
                    v[i].value > slow->value * APART) {
                        SAY(f->detail, "with %s it reaches %.5g", v[i].setting, v[i].value);
                        SAY(f->next, "set %s, or use NCCL %s", v[i].setting, a);
                        capo_finding_mark(f, v[i].mark);
                }
        }
}

void capo_tried_tell(struct capo_evidence *e, const char *setting, struct capo_evidence_mark at)
{
        struct capo_diagnose_finding *f = capo_evidence_finding(e);

        capo_finding_is(f, CAPO_RANK_HANG, "setting", "likely");
        capo_finding_mark(f, at);
        SAY(f->headline, "THE SAME TEST ENDS WITH %s AND HANGS WITHOUT", setting);
        SAY(f->next, "keep it meanwhile; then what it switches off");
        for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
                size_t n = strlen(setting);
                const char *in = strstr(settings[i].words, setting);

                if (!in || (in[n] && in[n] != '|'))
                        continue;
                f->kind = settings[i].kind;
                SAY(f->headline, "%s", settings[i].headline);
                SAY(f->detail, "the test ends with %s and hangs without", setting);
                SAY(f->next, "%s", settings[i].next);
                return;
        }
}

/*      if rank == 0:
 *          save(model)
 *          dist.barrier()          only one rank makes this call
 *
 *      if rank == 0:
 *          save(model)             the others wait in the barrier meanwhile
 *      dist.barrier() */
static const char guards
        [] = "rank == 0:|rank() == 0:|is_main_process:|rank==0:|is_main_process():|is_global_zero:|is_rank_0():|is_master:|in [-1, 0]:|is_local_main_process:",
  others[] =
          "rank != 0|rank > 0|not in [-1, 0]|not is_main|not accelerator.is|not self.is_|not trainer.is_|rank() != 0|rank() > 0|else:",
  calls[] =
          "barrier(|all_reduce(|all_gather|dist.broadcast(|reduce_scatter|wait_for_everyone(|accelerator.gather(|"
          "engine.save_checkpoint(|consolidate_state_dict",
  barriers[] = "barrier(|wait_for_everyone(";

static struct capo_diagnose_finding *add_guarded(struct capo_evidence *e, uint32_t text,
                                                 uint32_t guard, uint32_t call, const char *line)
{
        const struct capo_records *r = &e->texts[text].records;
        struct capo_diagnose_finding *f = capo_evidence_finding(e);

        capo_finding_is(f, CAPO_RANK_HANG, "program", "likely");
        capo_quote(line, f->detail, sizeof f->detail);
        capo_finding_mark(f, (struct capo_evidence_mark){text, r->v[guard].line});
        capo_finding_mark(f, (struct capo_evidence_mark){text, r->v[call].line});
        return f;
}

static void judge_guarded(struct capo_evidence *e, uint32_t text)
{
        const struct capo_records *r = &e->texts[text].records;
        struct capo_diagnose_finding *f = NULL;
        const char *work = NULL; /* what the rank does under the condition */
        uint32_t guard = 0;      /* the record behind it; 0: none */
        size_t indent = 0;

        for (uint32_t k = 0; k < r->n; k++) {
                if (capo_line_has(r->text + r->v[k].begin, others) &&
                    strstr(r->text + r->v[k].begin, "barrier("))
                        return; /* the other ranks have a call of their own */
        }
        for (uint32_t k = 0; k < r->n && !f; k++) {
                const char *line = r->text + r->v[k].begin, *at = line + strspn(line, " \t");
                bool left = guard && (size_t)(at - line) <= indent && *at != '\n';

                if (left && work && e->timed_out && capo_line_has(line, barriers)) {
                        f = add_guarded(e, text, guard - 1, k, work);
                        SAY(f->headline,
                            "ONE RANK WORKS ALONE BEFORE A BARRIER, by the code, and ranks timed out");
                        SAY(f->next,
                            "prepare it before the job, or let all ranks share it; or a longer timeout: init_process_group(timeout=...), "
                            "InitProcessGroupKwargs(timeout=...), ddp_timeout; if it never ends: py-spy dump --pid PID of that rank");
                } else if (guard && !left && *at != '#' && capo_line_has(line, calls)) {
                        f = add_guarded(e, text, guard - 1, k, line);
                        SAY(f->headline,
                            "A CALL THAT ALL RANKS MUST MAKE STANDS UNDER A CONDITION ON THE RANK");
                        SAY(f->next,
                            "take that call out of the condition, so that all ranks make it; only what writes or prints belongs to one rank");
                } else if (guard && !left) {
                        work = work || !strchr(at, '(') || *at == '#' ? work : line;
                }
                if (k > guard + 8)
                        guard = 0;
                if ((!guard || left) && !strncmp(at, "if ", 3) && capo_line_has(at, guards)) {
                        guard = k + 1;
                        indent = (size_t)(at - line);
                        work = NULL;
                }
        }
}

void capo_tried_read(struct capo_evidence *e)
{
        struct tried t = {.e = e, .slow = capo_prose_topic(e) == CAPO_TOPIC_SLOW};

        judge_values(e);
        for (t.row = 0; t.row < N_ELEMENTS(settings); t.row++) {
                t.f = NULL;
                for (const char *words = settings[t.row].words; *words;) {
                        char word[64];

                        t.n = strcspn(words, "|");
                        SAY(word, "%.*s", (int)t.n, words);
                        capo_evidence_all(e, word, take_setting, &t, &t.text);
                        words += t.n + (words[t.n] == '|');
                }
        }
        t.f = NULL;
        capo_evidence_all(e, "NCCL_", take_other, &t, &t.text);
        for (uint32_t i = 0; i < e->n_texts; i++) {
                judge_rates(e, i);
                if (capo_evidence_hangs(e))
                        judge_guarded(e, i);
        }
        judge_releases(e);
        judge_software(e);
}
