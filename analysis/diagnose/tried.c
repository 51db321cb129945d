/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wrote about attempts: "with NCCL_P2P_DISABLE=1 it works", code with a condition on the rank. tried_settings.def says what a setting that helps means. */
#include "analysis/diagnose/prose.h"

static const struct {
        const char *words, *kind, *headline, *next;
} settings[] = {
#define TRIED(words, kind, headline, next) {words, kind, headline, next},
#include "analysis/diagnose/tried_settings.def"
};

enum said { SAID_NOTHING, SAID_WORKS, SAID_FAILS };
enum { CLAUSE = 200 };

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
        uint32_t text, row;
        size_t n;
        bool slow; /* the question is why it is slow, not whether it works */
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

void capo_tried_tell(struct capo_evidence *e, const char *setting, struct capo_evidence_mark at)
{
        struct capo_diagnose_finding *f = capo_evidence_finding(e);

        capo_finding_is(f, CAPO_RANK_HANG, "setting", "likely");
        capo_finding_mark(f, at);
        SAY(f->headline, "THE TEST ENDS WITH %s; A RUN WITHOUT IT HAS NO END HERE", setting);
        SAY(f->next, "each once more with and without it: does the difference stay?");
        for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
                size_t n = strlen(setting);
                const char *in = strstr(settings[i].words, setting);

                if (!in || (in[n] && in[n] != '|'))
                        continue;
                f->kind = settings[i].kind;
                SAY(f->next, "%s", settings[i].next);
                return;
        }
}

/*      if rank == 0:
 *          save(model)
 *          dist.barrier()          only one rank makes this call */
static const char guards
        [] = "rank == 0:|rank() == 0:|is_main_process:|rank==0:|is_main_process():|is_global_zero:|is_rank_0():|is_master:|in [-1, 0]:|is_local_main_process:",
  others[] =
          "rank != 0|rank > 0|not in [-1, 0]|not is_main|not accelerator.is|not self.is_|not trainer.is_|rank() != 0|rank() > 0|else:",
  calls[] =
          "barrier(|all_reduce(|all_gather|dist.broadcast(|reduce_scatter|wait_for_everyone(|accelerator.gather(|"
          "engine.save_checkpoint(|consolidate_state_dict";

static void judge_guarded(struct capo_evidence *e, uint32_t text)
{
        const struct capo_records *r = &e->texts[text].records;
        uint32_t guard = 0; /* the record behind it; 0: none */
        size_t indent = 0;

        for (uint32_t k = 0; k < r->n; k++) {
                if (capo_line_has(r->text + r->v[k].begin, others) &&
                    strstr(r->text + r->v[k].begin, "barrier("))
                        return; /* the other ranks have a call of their own */
        }
        for (uint32_t k = 0; k < r->n; k++) {
                const char *line = r->text + r->v[k].begin, *at = line + strspn(line, " \t");
                bool left = guard && (size_t)(at - line) <= indent && *at != '\n';
                char row[CLAUSE];

                if (guard && !left && *at != '#' && capo_line_has(line, calls)) {
                        struct capo_diagnose_finding *f = capo_evidence_finding(e);

                        capo_finding_is(f, CAPO_RANK_HANG, "program", "likely");
                        capo_quote(r->text + r->v[guard - 1].begin, row, sizeof row);
                        SAY(f->detail, "%s\n", row);
                        capo_quote(line, row, sizeof row);
                        ADD(f->detail, "%s", row);
                        capo_finding_mark(f,
                                          (struct capo_evidence_mark){text, r->v[guard - 1].line});
                        capo_finding_mark(f, (struct capo_evidence_mark){text, r->v[k].line});
                        SAY(f->headline, "A COLLECTIVE CALL STANDS UNDER A CONDITION ON THE RANK");
                        SAY(f->next,
                            "do the other ranks reach that call, or one that answers it? Else take it out of the condition");
                        return;
                }
                if (k > guard + 8)
                        guard = 0;
                if ((!guard || left) && !strncmp(at, "if ", 3) && capo_line_has(at, guards)) {
                        guard = k + 1;
                        indent = (size_t)(at - line);
                }
        }
}

void capo_tried_read(struct capo_evidence *e)
{
        struct tried t = {.e = e, .slow = capo_prose_topic(e) == CAPO_TOPIC_SLOW};
        uint32_t first = e->n_findings, helps = 0;

        for (t.row = 0; t.row < N_ELEMENTS(settings); t.row++) {
                t.f = NULL;
                for (const char *words = settings[t.row].words; *words;) {
                        char word[64];

                        t.n = strcspn(words, "|");
                        SAY(word, "%.*s", (int)t.n, words);
                        capo_evidence_all(e, word, take_setting, &t, &t.text);
                        words += t.n + (words[t.n] == '|');
                }
                helps += t.f != NULL;
        }
        for (uint32_t i = first; i < e->n_findings && helps > 1; i++) {
                SAY(e->findings[i].headline, "SEVERAL SETTINGS HELP, by the text");
                SAY(e->findings[i].next, "one of them at a time: which one is enough?");
        }
        for (uint32_t i = 0; i < e->n_texts && capo_evidence_hangs(e); i++)
                judge_guarded(e, i);
}
