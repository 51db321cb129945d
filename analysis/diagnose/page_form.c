/* SPDX-License-Identifier: Apache-2.0 */
/* The form in which a page may tell a finding; it is decided here, for all rows and readers. */
#include "analysis/diagnose/page_form.h"
#include "analysis/diagnose/prose.h"

enum form {
        FORM_STATEMENT, /* its line, or a number, shows the cause */
        FORM_EVENT,     /* what happened, not why: ranks wait, a process was refused */
        FORM_STATE,     /* a setting or a state that can cost speed: listed, never a cause */
        FORM_LINES,     /* a guess: its lines alone are shown */
};

static bool is_word(const char *text, void *word) { return !strcmp(text, word); }

static enum form find_form(const struct capo_diagnose_finding *f)
{
        static const char seen[] = "missing|behind|mismatch|order|running", /* also if unsure */
                events[] =
                        "inside|birth|crash|p2p|no-dump|rendezvous|exception|time-limit|cancelled|error|undecided|states";
        bool sure = strcmp(f->sure, "unsure") != 0;

        if (f->rank == CAPO_RANK_SLOW)
                return f->measured || !strcmp(f->kind, "slow-measured") ? FORM_STATEMENT
                                                                        : FORM_STATE;
        if (f->rank == CAPO_RANK_UNDECIDED || !strncmp(f->headline, "NOT DECIDED", 11) ||
            capo_bug_any(seen, is_word, (void *)(uintptr_t)f->kind, NULL) ||
            (sure && capo_bug_any(events, is_word, (void *)(uintptr_t)f->kind, NULL)))
                return FORM_EVENT;
        return sure ? FORM_STATEMENT : FORM_LINES;
}

bool capo_verdict_decides(const struct capo_diagnose_finding *v)
{
        return v && find_form(v) == FORM_STATEMENT;
}

/* ---- guesses ---- */

static void show_lines(struct capo_evidence *e)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                struct capo_diagnose_finding *f = &e->findings[i];
                bool failed = f->rank == CAPO_RANK_ERROR;

                if (f->rank <= CAPO_RANK_HEALTHY || find_form(f) != FORM_LINES)
                        continue;
                capo_finding_is(f, *f->detail ? CAPO_RANK_UNDECIDED : CAPO_RANK_NOTE, "undecided",
                                "unsure");
                SAY(f->headline, "NOT DECIDED; THE TEXT SHOWS");
                capo_prose_ask(e, failed ? CAPO_TOPIC_ERROR : CAPO_TOPIC_NONE, f->next,
                               sizeof f->next);
        }
}

/* ---- states ---- */

enum { STATES = 5 };

static bool has_mark(const struct capo_diagnose_finding *f, struct capo_evidence_mark mark)
{
        for (uint32_t i = 0; i < f->n_marks; i++) {
                if (f->marks[i].text == mark.text && f->marks[i].line == mark.line)
                        return true;
        }
        return false;
}

/* "NAME: quoted line"; the name ends where its row begins to explain. */
static void list_state(struct capo_diagnose_finding *list, const struct capo_diagnose_finding *f)
{
        size_t n = strncmp(f->headline, "IF ", 3) ? strlen(f->headline) : 0;

        for (const char *ends = ":,;("; *ends; ends++)
                n = strcspn(f->headline, (char[]){*ends, 0}) < n
                            ? strcspn(f->headline, (char[]){*ends, 0})
                            : n;
        while (n && f->headline[n - 1] == ' ')
                n--;
        if (*f->detail && !n)
                ADD(list->detail, "%s%s", *list->detail ? "\n" : "", f->detail);
        else if (*f->detail)
                ADD(list->detail, "%s%.*s: %s", *list->detail ? "\n" : "", (int)n, f->headline,
                    f->detail);
        else
                ADD(list->detail, "%s%s", *list->detail ? "\n" : "", f->headline);
        for (uint32_t i = 0; i < f->n_marks; i++)
                capo_finding_mark(list, f->marks[i]);
}

/* Take the states out of the findings. Return: how many are in @list. */
static unsigned gather_states(struct capo_evidence *e, struct capo_diagnose_finding *list)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < e->n_findings; i++) {
                struct capo_diagnose_finding *f = &e->findings[i];

                if (f->rank != CAPO_RANK_SLOW || find_form(f) != FORM_STATE)
                        continue;
                f->rank = CAPO_RANK_NOTE;
                if (n == STATES || !f->n_marks || has_mark(list, f->marks[0]))
                        continue;
                list_state(list, f);
                SAY(list->next, "%s", f->next);
                n++;
        }
        if (n > 1)
                SAY(list->next,
                    "change one of them at a time and measure again: the one with which the rate changes counts");
        return n;
}

static void tell_states(struct capo_evidence *e)
{
        struct capo_diagnose_finding list = {.n_marks = 0}, *v;
        unsigned n = gather_states(e, &list);
        enum capo_topic topic = capo_prose_topic(e);
        const struct capo_diagnose_finding *verdict = capo_evidence_verdict(e);
        size_t at = verdict ? (size_t)(verdict - e->findings) : 0;

        if (!n || (topic == CAPO_TOPIC_NONE && !e->n_runs && capo_evidence_hangs(e)) ||
            topic == CAPO_TOPIC_HANG || topic == CAPO_TOPIC_ERROR ||
            (verdict &&
             (verdict->rank > CAPO_RANK_UNDECIDED || strstr(verdict->headline, "IS NORMAL") ||
              (verdict->rank == CAPO_RANK_UNDECIDED && topic != CAPO_TOPIC_SLOW))))
                return; /* such a state fails no job */
        if (verdict && verdict->rank == CAPO_RANK_SLOW) {
                v = &e->findings[at];
                ADD(v->detail, "%s%s", *v->detail ? "\n" : "", list.detail);
                for (uint32_t i = 0; i < list.n_marks; i++)
                        capo_finding_mark(v, list.marks[i]);
                return;
        }
        if (verdict && verdict->rank == CAPO_RANK_UNDECIDED)
                e->findings[at].rank = CAPO_RANK_NOTE;
        capo_finding_is(&list, CAPO_RANK_UNDECIDED, "states", "unsure");
        SAY(list.headline, "NOT DECIDED; SETTINGS AND STATES HERE THAT CAN COST SPEED");
        *capo_evidence_finding(e) = list;
}

/* ---- what came before ---- */

enum { EARLIER = 2 };

/* Where a verdict only says what happened, the lines that other rows know from before it. */
static void tell_earlier(struct capo_evidence *e)
{
        const struct capo_diagnose_finding *v = capo_evidence_verdict(e);
        struct capo_diagnose_finding *to;
        unsigned n = 0;

        if (!v || find_form(v) != FORM_EVENT)
                return;
        to = &e->findings[v - e->findings];
        for (uint32_t i = 0; i < e->n_findings && n < EARLIER; i++) {
                const struct capo_diagnose_finding *f = &e->findings[i];

                if (f == v || !f->n_marks || f->rank < CAPO_RANK_UNDECIDED || !*f->detail ||
                    !strcmp(f->kind, "birth") || !capo_finding_earlier(e, f, v) ||
                    has_mark(to, f->marks[0]))
                        continue;
                ADD(to->detail, "%searlier: %.*s", *to->detail ? "\n" : "",
                    (int)strcspn(f->detail, "\n"), f->detail);
                capo_finding_mark(to, f->marks[0]);
                n++;
        }
}

/* ---- all ---- */

/* Advice names the tools of NVIDIA; on AMD's machines others do the same. */
static void name_vendor(struct capo_evidence *e)
{
        static const char *const words[][2] = {
                {"nvidia-smi topo -p2p r", "rocm-smi --showtopo"},
                {"nvidia-smi topo -m", "rocm-smi --showtopo"},
                {"nvidia-smi nvlink -s", "rocm-smi --showxgmierr"},
                {"nvidia-smi", "rocm-smi"},
        };

        for (uint32_t i = 0; i < e->n_findings && capo_evidence_has("@amd", e); i++) {
                for (size_t k = 0; k < N_ELEMENTS(words); k++) {
                        char *next = e->findings[i].next, *at, rest[sizeof e->findings[i].next];

                        while ((at = strstr(next, words[k][0]))) {
                                SAY(rest, "%s", at + strlen(words[k][0]));
                                snprintf(at, (size_t)(next + sizeof e->findings[i].next - at),
                                         "%s%s", words[k][1], rest);
                        }
                }
        }
}

/* That a test ended is no answer to who asks why it is slow. */
static void doubt_health(struct capo_evidence *e)
{
        bool asked = capo_prose_topic(e) == CAPO_TOPIC_SLOW;

        for (uint32_t i = 0; i < e->n_findings && asked; i++) {
                struct capo_diagnose_finding *f = &e->findings[i];

                if (f->rank == CAPO_RANK_HEALTHY && strstr(f->headline, "NCCL-TESTS ENDED") &&
                    !strchr(f->headline, ':'))
                        capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        }
}

void capo_evidence_settle(struct capo_evidence *e)
{
        show_lines(e);
        tell_states(e);
        tell_earlier(e);
        doubt_health(e);
        capo_prose_read(e, capo_evidence_verdict(e));
        name_vendor(e);
        for (uint32_t i = 0; i < e->n_findings; i++) { /* what was full */
                capo_drop_part(e->findings[i].headline);
                capo_drop_part(e->findings[i].detail);
                capo_drop_part(e->findings[i].next);
        }
}
