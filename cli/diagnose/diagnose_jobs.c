/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps and answers for the engine of capo hang; its verdict becomes one more finding. */
#include "capo/msg.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/calls.h"
#include "analysis/hang/ras.h"

/* "AllReduce #12 of dp". */
static char *call_words(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                        char *text, size_t room)
{
        snprintf(text, room, "%s", v->call ? capo_call_name(v->call->call) : "a call");
        if (v->seq)
                capo_append(text, room, " #%u", v->seq);
        if (v->comm != CAPO_HANG_NONE)
                capo_append(text, room, " of %.100s", job->comms[v->comm].name);
        return text;
}

static int by_number(const void *a, const void *b)
{
        return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

/* The culprits: "RANK 3", "RANKS 0-2". */
static char *culprit_words(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                           struct capo_diagnose_finding *f, char *text)
{
        for (uint32_t i = 0; i < v->n_culprits; i++)
                capo_finding_rank_add(f, job->processes[v->culprits[i].process].rank);
        qsort(f->ranks, f->n_ranks, sizeof *f->ranks, by_number);
        capo_rank_list(f->ranks, f->n_ranks, text);
        if (v->n_culprits > f->n_ranks && f->n_ranks == CAPO_DIAGNOSE_RANKS)
                capo_append(text, 128, " and %u more", v->n_culprits - f->n_ranks);
        return capo_rank_shout(text);
}

static const char *verb_of(enum capo_hang_kind kind, bool many)
{
        switch (kind) {
        case CAPO_HANG_MISSING: return many ? "HAVE NOT MADE" : "HAS NOT MADE";
        case CAPO_HANG_MISMATCH:
                return many ? "MAKE ANOTHER CALL than the others as"
                            : "MAKES ANOTHER CALL than the others as";
        case CAPO_HANG_ORDER: return "WAIT FOR EACH OTHER, one of them in";
        case CAPO_HANG_P2P: return many ? "HAVE NO OTHER HALF for" : "HAS NO OTHER HALF for";
        case CAPO_HANG_CREATION: return many ? "TAKE NO PART in" : "TAKES NO PART in";
        case CAPO_HANG_INSIDE: return many ? "ARE STUCK INSIDE" : "IS STUCK INSIDE";
        case CAPO_HANG_STOPPED_RANK:
                return many ? "ARE STOPPED, waited for in" : "IS STOPPED, waited for in";
        case CAPO_HANG_RUNNING:
                return many ? "HAVE NOT ENDED ON THE GPU" : "HAS NOT ENDED ON ITS GPU";
        default: return NULL;
        }
}

static void tell_verdict(const struct capo_job *job, const struct capo_hang_job *hang,
                         const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        const char *verb = verb_of(v->kind, v->n_culprits != 1);
        char who[128], call[256], next[CAPO_HANG_NEXT];

        f->kind = capo_hang_kind_name(v->kind);
        f->sure = capo_hang_sure_name(v->sure);
        call_words(hang, v, call, sizeof call);
        if (!verb || !v->n_culprits) {
                f->rank = v->kind == CAPO_HANG_HEALTHY ? CAPO_RANK_HEALTHY : CAPO_RANK_UNDECIDED;
                f->sure = v->kind == CAPO_HANG_HEALTHY ? "certain" : "unsure";
                SAY(f->headline, "%s%s",
                    v->kind == CAPO_HANG_HEALTHY ? "NOTHING HANGS: all calls of all ranks ended"
                                                 : "NOT DECIDED WHO IS THE CAUSE",
                    v->kind != CAPO_HANG_HEALTHY && v->call ? ": ranks wait in a call" : "");
                if (v->kind != CAPO_HANG_HEALTHY && v->call)
                        SAY(f->detail, "ranks wait in %s", call);
                return;
        }
        f->rank = CAPO_RANK_HANG;
        if (hang->counted && v->kind == CAPO_HANG_STOPPED_RANK)
                SAY(f->headline, "%s %s NOT ANSWER NCCL'S RAS: stopped, ended, or out of reach",
                    culprit_words(hang, v, f, who), v->n_culprits == 1 ? "DOES" : "DO");
        else
                SAY(f->headline, "%s %s %s", culprit_words(hang, v, f, who), verb, call);
        if (v->n_waiting && v->n_ranks >= v->n_waiting)
                SAY(f->detail, "%u of %u ranks %s it", v->n_waiting, v->n_ranks,
                    hang->counted ? "have launched" : "wait in");
        for (uint32_t i = 0; i < v->n_culprits && i < 4 && !hang->counted; i++) {
                const struct capo_hang_call *last = v->culprits[i].call;

                if (last && last->seq && strlen(f->detail) < 400)
                        ADD(f->detail, "%srank %d: last %s #%u of %.60s", *f->detail ? "\n" : "",
                            hang->processes[v->culprits[i].process].rank,
                            capo_call_name(last->call), last->seq,
                            last->comm < hang->n_comms ? hang->comms[last->comm].name : "?");
        }
        SAY(f->next, "%s",
            hang->counted
                    ? "stacks of these ranks: py-spy dump --pid PID on their nodes; a second answer of RAS a minute later shows whether they move"
                    : capo_hang_next(job, v, next));
}

/* ---- logs of capo ---- */

/* How the first rank of a job ended. */
static void tell_first_end(const struct capo_job *job, const struct capo_hang_job *hang,
                           const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        char who[128], next[CAPO_HANG_NEXT];

        f->rank = CAPO_RANK_HANG;
        SAY(f->headline, "%s ENDED%s FIRST: %s", culprit_words(hang, v, f, who),
            v->unordered ? ", PERHAPS" : "", capo_hang_why_meaning(v->culprits[0].why));
        SAY(f->next, "%s", capo_hang_next(job, v, next));
}

void diagnose_logs(struct diagnose_inputs *in)
{
        struct hang_logs logs = {0};
        struct hang_page page = {.logs = &logs, .hang.after_ns = 10000000000};
        struct capo_diagnose_finding *f;
        int r = hang_gather((int)in->logs.n, in->logs.v, &logs);

        r = r ?: hang_page_read(&page);
        if (r == 0) {
                hang_page_judge(&page);
                f = capo_evidence_finding(&in->evidence);
                tell_verdict(page.job, &page.hang, &page.verdict, f);
                if (page.verdict.kind == CAPO_HANG_ENDED && page.verdict.n_culprits)
                        tell_first_end(page.job, &page.hang, &page.verdict, f);
                else if (f->rank == CAPO_RANK_UNDECIDED)
                        SAY(f->headline,
                            "NOT DECIDED by the logs of capo: capo hang says what is missing");
                for (uint32_t i = 0; i < in->evidence.n_texts; i++) {
                        if (in->evidence.texts[i].n[CAPO_EVIDENCE_LOG])
                                capo_finding_mark(f, (struct capo_evidence_mark){i, 0});
                }
                in->logs_judged = true;
        }
        for (uint32_t i = 0; i < page.hang.n_processes && r == 0; i++)
                capo_rank_seen(&in->evidence, page.hang.processes[i].rank);
}

/* ---- the flight recorder ---- */

/* Ranks of the largest group that left no dump; -1: too many to list. */
static int find_absent(const struct capo_hang_job *job, struct capo_diagnose_finding *f,
                       int32_t *n_ranks)
{
        int32_t size = 0;
        int n = 0;

        for (uint32_t i = 0; i < job->n_comms; i++)
                size = job->comms[i].n_ranks > size ? job->comms[i].n_ranks : size;
        *n_ranks = size;
        if ((uint32_t)size <= job->n_processes)
                return 0;
        for (int32_t rank = 0; rank < size && n <= CAPO_DIAGNOSE_RANKS; rank++) {
                bool there = false;

                for (uint32_t i = 0; i < job->n_processes && !there; i++)
                        there = job->processes[i].rank == rank;
                if (there)
                        continue;
                n++;
                capo_finding_rank_add(f, rank);
        }
        return n;
}

static bool is_dumped(const struct capo_hang_job *job)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                if (job->processes[i].n_calls)
                        return true;
        }
        return false;
}

/* All other ranks left a dump, and wait. */
static void accuse_absent(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                          struct capo_diagnose_finding *f)
{
        struct capo_diagnose_finding absent = {0};
        int32_t n_ranks;
        int n = find_absent(job, &absent, &n_ranks);
        char who[128], shout[128], call[256];
        bool few = n > 0 && n <= n_ranks / 4;

        if (n <= 0 || f->rank == CAPO_RANK_HANG)
                return;
        capo_rank_list(absent.ranks, absent.n_ranks, who);
        if (few && v->call && f->rank == CAPO_RANK_UNDECIDED) {
                capo_finding_is(f, CAPO_RANK_HANG, "no-dump", "likely");
                memcpy(f->ranks, absent.ranks, sizeof f->ranks);
                f->n_ranks = absent.n_ranks;
                SAY(shout, "%s", who);
                capo_rank_shout(shout);
                SAY(f->headline, "NO DUMP OF %s IS HERE: others wait in %s", shout,
                    call_words(job, v, call, sizeof call));
                SAY(f->next, "see how %s ended: its log, its exit status, dmesg on its node", who);
        } else if (f->rank == CAPO_RANK_HEALTHY) {
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
                SAY(f->headline, "NOT DECIDED: %d of %d ranks left no dump", n, n_ranks);
                SAY(f->next, "the dump%s of %s", n == 1 ? "" : "s", who);
        }
}

void diagnose_flight(struct diagnose_inputs *in)
{
        _cleanup_(capo_job_freep) struct capo_job *job = NULL;
        struct capo_hang_job hang = {.after_ns = 10000000000};
        struct capo_hang_verdict v = {0};
        struct capo_diagnose_finding *f;
        char why[1024] = "no memory";
        int r;

        if (!in->flight.n)
                return;
        job = capo_job_new();
        r = capo_hang_flight(in->flight.v, in->flight.n, job, &hang, why, sizeof why);
        if (r < 0) {
                capo_warn("flight recorder dumps left out: %s", why);
        } else if (is_dumped(&hang)) {
                capo_hang_judge(&hang, &v);
                f = capo_evidence_finding(&in->evidence);
                tell_verdict(job, &hang, &v, f);
                accuse_absent(&hang, &v, f);
                for (uint32_t i = 0; i < in->evidence.n_texts; i++) {
                        if (in->evidence.texts[i].n[CAPO_EVIDENCE_FLIGHT])
                                capo_finding_mark(f, (struct capo_evidence_mark){i, 0});
                }
                for (uint32_t i = 0; i < hang.n_processes; i++)
                        capo_rank_seen(&in->evidence, hang.processes[i].rank);
        }
}

/* ---- RAS ---- */

void diagnose_ras(struct capo_evidence *e, char *text, uint32_t number)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_hang_job hang = {0};
        struct capo_hang_verdict v = {0};
        struct capo_diagnose_finding *f = NULL;
        struct ras_snapshot snapshot = {0};
        char why[512] = "no memory";
        int r = ras_read(text, &snapshot, why, sizeof why);

        if (r < 0) {
                capo_warn("%s: left out: %s", e->texts[number].name, why);
        } else {
                ras_job(&snapshot, &snapshot, job, &hang);
                capo_hang_judge(&hang, &v);
                f = capo_evidence_finding(e);
                tell_verdict(job, &hang, &v, f);
                capo_finding_mark(f, (struct capo_evidence_mark){number, 0});
                if (f->rank == CAPO_RANK_HANG && f->sure != capo_hang_sure_name(CAPO_HANG_UNSURE))
                        f->sure = "likely";
                if (f->rank == CAPO_RANK_HEALTHY || f->rank == CAPO_RANK_UNDECIDED) {
                        *f = (struct capo_diagnose_finding){.rank = CAPO_RANK_UNDECIDED,
                                                            .kind = "undecided",
                                                            .sure = "unsure",
                                                            .n_marks = 1,
                                                            .marks = {{number, 0}}};
                        SAY(f->headline,
                            "NOT DECIDED: RAS shows no rank behind, which is no proof");
                        SAY(f->detail, "RAS counts calls that were launched, not calls that ended");
                        SAY(f->next,
                            "ask RAS again a minute later: which ranks have launched no call since?");
                }
        }
}
