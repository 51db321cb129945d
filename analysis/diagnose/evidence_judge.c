/* SPDX-License-Identifier: Apache-2.0 */
/* The stories that the records tell, one per job and attempt, and of all findings the one that
 * explains the rest. */
#include "analysis/diagnose/prose.h"
#include "analysis/diagnose/tool_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"

enum { MOST_RANK = 1 << 20, MOST_STORIES = 1000 };

/* ---- stories ---- */

/* "engine-a" of "engine-a-worker-0", "engine-a-0", "engine-a-7d9c5b6f4-x2lq8": what pods of one job
 * share. */
static void job_key(const char *pod, char key[CAPO_POD_NAME])
{
        static const char roles[] = "|master|worker|launcher|leader|head|node|group|rank|chief|ps|"
                                    "server|trainer|default|w|";
        char role[CAPO_POD_NAME + 2];

        *key = 0;
        for (const char *at = pod; *at;) {
                size_t n = strcspn(at, "-_."), digits = strspn(at, "0123456789"),
                       plain = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789");
                bool drop = digits >= n ||
                            (plain >= n && n >= 5 && n <= 10 && strcspn(at, "0123456789") < n);

                SAY(role, "|%.*s|", (int)n, at);
                drop = drop || strstr(roles, role);
                if (!drop)
                        capo_append(key, CAPO_POD_NAME, "%s%.*s", *key ? "-" : "", (int)n, at);
                at += n + (at[n] != 0);
        }
}

/* The jobs of the pods: @job by pod of a text. Pods whose names are alike are of one job, unless
 * one rank prints in two of them. */
static void find_jobs(const struct capo_records *r, char (*job)[CAPO_POD_NAME])
{
        uint16_t *owner = xcalloc(1 << 12, sizeof *owner); /* by rank: the pod that it printed in */
        bool *twice = xcalloc(r->n_pods + 1, sizeof *twice);

        for (uint32_t i = 0; i < r->n_pods; i++)
                job_key(r->pods[i], job[i + 1]);
        for (uint32_t i = 0; i < r->n && owner && twice; i++) {
                uint16_t pod = r->v[i].pod;
                int32_t rank = pod ? capo_line_rank(r->text + r->v[i].begin) : -1;

                if (rank < 0 || rank >= 1 << 12)
                        continue;
                if (owner[rank] && owner[rank] != pod)
                        twice[pod] = twice[owner[rank]] = true;
                owner[rank] = pod;
        }
        for (uint32_t i = 1; i <= r->n_pods && twice; i++) {
                if (twice[i])
                        memcpy(job[i], r->pods[i - 1], CAPO_POD_NAME);
        }
        free(owner);
        free(twice);
}

static uint16_t find_story(struct capo_evidence *e, const char *job, uint32_t attempt,
                           bool name_attempt)
{
        char name[CAPO_STORY_NAME] = "";

        if (*job)
                SAY(name, "pod %.60s", job);
        if (name_attempt)
                ADD(name, "%sattempt %u", *name ? ", " : "", attempt + 1);
        for (uint32_t i = 0; i < e->n_stories; i++) {
                if (!strcmp(e->stories[i], name))
                        return (uint16_t)i;
        }
        if (e->n_stories == MOST_STORIES)
                return (uint16_t)(e->n_stories - 1);
        xarray_room(&e->stories, e->n_stories, sizeof *e->stories);
        memcpy(e->stories[e->n_stories], name, sizeof name);
        return (uint16_t)e->n_stories++;
}

/* What is of no job or attempt belongs to the last one: dmesg, stacks, a launcher's end. */
static void read_stories(struct capo_evidence *e)
{
        uint32_t attempts = 0;
        uint16_t story = 0;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *records = &e->texts[i].records;

                for (uint32_t k = 0; k < records->n; k++)
                        attempts =
                                records->v[k].attempt > attempts ? records->v[k].attempt : attempts;
        }
        for (uint32_t i = 0; i < e->n_texts; i++) {
                struct capo_records *records = &e->texts[i].records;
                char(*job)[CAPO_POD_NAME] = xcalloc(records->n_pods + 1, sizeof *job);
                bool numbered = records->n && records->v[records->n - 1].attempt;
                uint32_t last_attempt = UINT32_MAX, last_pod = UINT32_MAX, n_jobs = 0;

                find_jobs(records, job);
                for (uint32_t k = 1; k <= records->n_pods; k++)
                        n_jobs += strcmp(job[k], job[1]) != 0;
                for (uint32_t k = 0; k < records->n; k++) {
                        struct capo_record *one = &records->v[k];
                        uint32_t attempt = numbered ? one->attempt : attempts;

                        if (attempt != last_attempt || one->pod != last_pod)
                                story = find_story(e, n_jobs ? job[one->pod] : "", attempt,
                                                   attempts > 0);
                        last_attempt = attempt;
                        last_pod = one->pod;
                        one->story = story;
                }
                free(job);
        }
}

/* ---- which finding explains the rest ---- */

static const struct capo_record *mark_record(const struct capo_evidence *e,
                                             struct capo_evidence_mark mark)
{
        const struct capo_records *r = &e->texts[mark.text].records;
        uint32_t first = 0, end = r->n;

        while (first < end) {
                uint32_t middle = first + (end - first) / 2;

                if (r->v[middle].line < mark.line)
                        first = middle + 1;
                else
                        end = middle;
        }
        return first < r->n && mark.line ? &r->v[first] : NULL;
}

/* Is the newest line of the text its first one, as log stores print? The times of its first lines
 * and of its last one only fall: those of two logs in a row, or of a new year, rise as well. */
static bool is_reversed(const struct capo_evidence_text *t)
{
        int64_t before = -1, first = -1;

        for (uint32_t k = 0; k < t->records.n; k++) {
                int64_t now;

                if (k == 64 && t->records.n > 128)
                        k = t->records.n - 64;
                now = capo_record_when(t->text + t->records.v[k].begin);
                if (now < 0)
                        continue;
                if (before >= 0 && now > before)
                        return false;
                before = now;
                first = first < 0 ? now : first;
        }
        return before < first;
}

/* Are at most ten minutes between two findings, as far as their lines have times? */
static bool is_close(const struct capo_evidence *e, const struct capo_diagnose_finding *a,
                     const struct capo_diagnose_finding *b)
{
        const struct capo_record *ra = a->n_marks ? mark_record(e, a->marks[0]) : NULL,
                                 *rb = b->n_marks ? mark_record(e, b->marks[0]) : NULL;
        int64_t ta = ra ? capo_record_when(e->texts[a->marks[0].text].text + ra->begin) : -1,
                tb = rb ? capo_record_when(e->texts[b->marks[0].text].text + rb->begin) : -1;

        return ta < 0 || tb < 0 || llabs(ta - tb) <= 600;
}

bool capo_finding_earlier(const struct capo_evidence *e, const struct capo_diagnose_finding *a,
                          const struct capo_diagnose_finding *b)
{
        const struct capo_record *ra, *rb;
        int64_t ta, tb;

        if (!a->n_marks || !b->n_marks)
                return false;
        if (a->marks[0].text == b->marks[0].text)
                return is_reversed(&e->texts[a->marks[0].text])
                               ? a->marks[0].line > b->marks[0].line
                               : a->marks[0].line < b->marks[0].line;
        ra = mark_record(e, a->marks[0]);
        rb = mark_record(e, b->marks[0]);
        ta = ra ? capo_record_when(e->texts[a->marks[0].text].text + ra->begin) : -1;
        tb = rb ? capo_record_when(e->texts[b->marks[0].text].text + rb->begin) : -1;
        return ta >= 0 && tb >= 0 && ta < tb;
}

static bool is_kind(const struct capo_diagnose_finding *f, const char *kind)
{
        return !strcmp(f->kind, kind);
}

static bool is_of_stacks(const struct capo_evidence *e, const struct capo_diagnose_finding *f)
{
        return f->n_marks && e->texts[f->marks[0].text].n[CAPO_EVIDENCE_STACKS];
}

/* Does @cause explain @f, so that @f is no verdict? */
static bool explains_finding(const struct capo_evidence *e,
                             const struct capo_diagnose_finding *cause,
                             const struct capo_diagnose_finding *f)
{
        bool other = cause->marks[0].text != f->marks[0].text;

        if (cause == f || cause->story != f->story || !cause->n_marks || !f->n_marks)
                return false;
        if (is_kind(f, "time-limit") || is_kind(f, "cancelled")) /* it hung, and was ended */
                return cause->rank >= CAPO_RANK_UNDECIDED && !is_kind(cause, "cancelled") &&
                       !is_kind(cause, "time-limit") && !is_kind(cause, "error") &&
                       (other || capo_finding_earlier(e, cause, f));
        /* what works was created, and needs no port that is down; line 0: a test that measured
         * nothing, beside one that ended */
        if (is_kind(f, "birth") || (is_kind(f, "undecided") && f->marks[0].line &&
                                    e->texts[f->marks[0].text].n[CAPO_EVIDENCE_NODE] &&
                                    !e->texts[f->marks[0].text].n[CAPO_EVIDENCE_WATCHDOG]))
                return cause->rank == CAPO_RANK_HEALTHY ||
                       (cause->rank == CAPO_RANK_SLOW && strcmp(cause->sure, "unsure") != 0);
        if (is_kind(f, "crash")) /* on what had failed before */
                return cause->rank == CAPO_RANK_CAUSE && is_kind(cause, "library") &&
                       capo_finding_earlier(e, cause, f);
        if (is_kind(f, "killed") && strcmp(f->sure, "certain") != 0)
                return (cause->rank == CAPO_RANK_HANG && is_of_stacks(e, cause)) ||
                       (cause->rank == CAPO_RANK_CAUSE && !is_kind(cause, "killed") &&
                        capo_finding_earlier(e, cause, f) &&
                        is_close(e, cause, f)); /* who failed is killed with the job */
        return false;
}

static bool has_run(const struct capo_evidence *e, uint32_t text)
{
        bool has = false;

        for (uint32_t i = 0; i < e->n_runs; i++)
                has |= e->runs[i].text == text && e->runs[i].bytes;
        return has;
}

static void order_findings(struct capo_evidence *e)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                struct capo_diagnose_finding *f = &e->findings[i];
                const struct capo_record *r = f->n_marks ? mark_record(e, f->marks[0]) : NULL;

                f->story = r && !f->story ? r->story : f->story;
        }
        for (uint32_t i = 0; i < e->n_findings; i++) {
                for (uint32_t k = 0; k < e->n_findings; k++) {
                        if (!explains_finding(e, &e->findings[k], &e->findings[i]))
                                continue;
                        e->findings[i].rank = CAPO_RANK_NOTE;
                        if (is_kind(&e->findings[i], "birth") && /* what works was created */
                            has_run(e, e->findings[i].marks[0].text))
                                *e->findings[i].headline = 0;
                }
        }
        for (uint32_t i = e->n_findings; i-- > 0;) {
                if (!*e->findings[i].headline)
                        memmove(&e->findings[i], &e->findings[i + 1],
                                (--e->n_findings - i) * sizeof *e->findings);
        }
}

static bool is_of_runs(const struct capo_evidence *e, const struct capo_diagnose_finding *f)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < f->n_marks; i++)
                n += e->texts[f->marks[i].text].n[CAPO_EVIDENCE_TESTS] > 0;
        return n > 1 && n == f->n_marks;
}

/* Of findings of one strength: a mismatch explains who is behind, and a stack shows where it is; that
 * a communicator was not created often only means that the log ends. */
static int find_weight(const struct capo_evidence *e, const struct capo_diagnose_finding *f)
{
        int weight = 8 * (int)f->rank;

        if (f->rank >= CAPO_RANK_HANG && !strcmp(f->sure, "unsure"))
                weight--;
        if (f->rank == CAPO_RANK_HANG && is_kind(f, "mismatch"))
                weight += is_of_stacks(e, f) ? 2 : 1;
        if (f->rank == CAPO_RANK_HANG && is_kind(f, "program")) /* the program's own lines */
                weight++;
        if (f->rank == CAPO_RANK_SLOW && strcmp(f->sure, "unsure") != 0)
                weight += is_of_runs(e, f) ? 2 : 1; /* two measurements show more than a line */
        if (is_kind(f, "known-bug") ||              /* it explains the crash */
            (!e->timed_out && strstr(f->headline, "closed its connection"))) /* why it failed */
                weight++;
        return is_kind(f, "birth") ? weight - 1 : weight;
}

const struct capo_diagnose_finding *capo_evidence_verdict(const struct capo_evidence *e)
{
        const struct capo_diagnose_finding *best = NULL;

        for (uint32_t i = 0; i < e->n_findings; i++) {
                const struct capo_diagnose_finding *f = &e->findings[i];

                if (f->rank != CAPO_RANK_NOTE &&
                    (!best || find_weight(e, f) > find_weight(e, best)))
                        best = f;
        }
        return best;
}

/* ---- known bugs ---- */

/* Do a release and the rest of the bug fit? */
static bool fits_bug(struct capo_evidence *e, const struct capo_known_bug *bug)
{
        int release = bug->of == CAPO_BUG_NCCL    ? e->nccl
                      : bug->of == CAPO_BUG_OFI   ? e->ofi
                      : bug->of == CAPO_BUG_TORCH ? e->torch
                                                  : 0;
        bool fits = capo_bug_match(bug, release, capo_evidence_has, e) == CAPO_BUG_FITS;

        for (uint32_t i = 0; i < e->n_nccls && bug->of == CAPO_BUG_NCCL; i++)
                fits |= capo_bug_match(bug, e->nccls[i], capo_evidence_has, e) == CAPO_BUG_FITS;
        return fits;
}

/* Did a job stop before its end: a watchdog says so, or nccl-tests did not end? */
static bool is_stuck(const struct capo_evidence *e)
{
        bool stuck = e->timed_out;

        for (uint32_t i = 0; i < e->n_runs; i++)
                stuck |= !e->runs[i].ended;
        return stuck;
}

/* A bug whose releases and symptom both fit is the verdict, where the rest is a consequence of it:
 * somebody waits, or a call failed. A trait of a machine alone does no harm. */
static void read_bugs(struct capo_evidence *e)
{
        const struct capo_diagnose_finding *v = capo_evidence_verdict(e);
        char symptom[128], fixed[16];

        bool crashed = v && v->rank == CAPO_RANK_CAUSE && is_kind(v, "crash");

        if (v && v->rank != CAPO_RANK_UNDECIDED && v->rank != CAPO_RANK_ERROR && !crashed)
                return;
        if (!v && !capo_evidence_hangs(e))
                return;
        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *bug = &capo_known_bugs[i];
                struct capo_diagnose_finding *f;

                bool failed = crashed || (v && v->rank == CAPO_RANK_ERROR);

                if (!(bug->effect == CAPO_BUG_HANG && !crashed) &&
                    !(bug->effect == CAPO_BUG_CRASH && failed))
                        continue;
                if (bug->of == CAPO_BUG_MACHINE && (failed || !is_stuck(e)))
                        continue;
                if (!fits_bug(e, bug) || !capo_bug_any(bug->symptom, capo_evidence_has, e, symptom))
                        continue;
                f = capo_evidence_finding(e);
                capo_finding_is(f, crashed ? CAPO_RANK_CAUSE : CAPO_RANK_HANG, "known-bug",
                                "likely");
                SAY(f->headline, "A KNOWN BUG (%s): %s", capo_bug_software(bug->of), bug->when);
                SAY(f->next, "%s", bug->advice);
                if (bug->fixed < CAPO_NCCL_LAST)
                        ADD(f->next, " (fixed in %s)",
                            capo_nccl_text((uint32_t)bug->fixed, fixed, sizeof fixed));
                if (*symptom != '@')
                        capo_evidence_find(e, symptom, false, f);
                ADD(f->detail, "%s%s", *f->detail ? "\n" : "", bug->link);
                return;
        }
}

/* The verdict so far, if it is about a failure. */
static const struct capo_diagnose_finding *find_failure(const struct capo_evidence *e)
{
        const struct capo_diagnose_finding *v = capo_evidence_verdict(e);

        return v && v->rank > CAPO_RANK_SLOW ? v : NULL;
}

void capo_evidence_judge(struct capo_evidence *e)
{
        const struct capo_diagnose_finding *verdict;

        read_stories(e);
        capo_recognise(e);
        capo_facts_read(e);
        capo_tools_read(e);
        capo_nodes_read(e);
        capo_causes_read(e); /* first: of equals the first is the verdict */
        capo_watchdog_read(e);
        capo_c10d_read(e);
        capo_stacks_read(e);
        capo_debug_read(e);
        capo_errors_read(e);
        capo_crash_tell(e);
        capo_tried_read(e);
        capo_tests_read(e);
        verdict = capo_evidence_verdict(e);
        if (!verdict || verdict->rank == CAPO_RANK_UNDECIDED)
                capo_lines_read(e, verdict != NULL);
        verdict = find_failure(e);
        if (!verdict)
                capo_last_errors_read(e);
        capo_torchrun_read(e, find_failure(e));
        order_findings(e);
        read_bugs(e);
        verdict = capo_evidence_verdict(e);
        if (!verdict || verdict->rank <= CAPO_RANK_SLOW || is_kind(verdict, "birth"))
                capo_words_read(e); /* what ended a creation may be an error */
        for (uint32_t i = 0; i < e->n_texts; i++) {
                struct capo_evidence_text *t = &e->texts[i];
                bool any = false;

                for (unsigned k = 0; k < CAPO_EVIDENCE_UNKNOWN; k++)
                        any |= k != CAPO_EVIDENCE_LINES && t->n[k] > 0;
                if (any) /* other readers identified them better */
                        t->n[CAPO_EVIDENCE_LINES] = 0;
                t->n[CAPO_EVIDENCE_UNKNOWN] = !any && !t->n[CAPO_EVIDENCE_LINES];
        }
}
