/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the verdict in one line. */
#include "cli/hang/hang_describe.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"

/* Number of culprits of the verdict's call; culprits of other calls come after them, and are
 * printed separately. */
static uint32_t n_named(const struct capo_hang_verdict *v)
{
        uint32_t n = 0;

        while (n < v->n_culprits && !v->culprits[n].elsewhere)
                n++;
        return n;
}

/* "RANK 37", "RANKS 3, 5 AND 2 MORE". */
static const char *named_text(const struct hang_page *p)
{
        const struct capo_hang_verdict *v = &p->verdict;
        uint32_t n = n_named(v);
        char *text = hang_room();
        bool ranks = true;

        for (uint32_t i = 0; i < n; i++)
                ranks &= capo_hang_culprit_rank(&p->hang, &v->culprits[i]) >= 0;
        snprintf(text, 256, "%s%s", ranks ? "RANK" : "PROCESS", n > 1 ? ranks ? "S" : "ES" : "");
        for (uint32_t i = 0; i < n && i < 8; i++) {
                const struct capo_hang_culprit *c = &v->culprits[i];

                capo_append(text, 256, "%s %d", i ? "," : "",
                            ranks ? capo_hang_culprit_rank(&p->hang, c)
                                  : (int)p->job->processes[c->process].header.pid);
        }
        return n > 8 ? capo_append(text, 256, " AND %u MORE", n - 8) : text;
}

/* Where the others are: "AllReduce #12 of dp (25.0 MiB)". */
static const char *call_text(const struct hang_page *p)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char size[16];

        if (v->call)
                return v->call->bytes && capo_call_kind(v->call->call) != CAPO_KIND_OTHER
                               ? hang_print("%s (%s)", hang_call(p, v->call),
                                            capo_size_print(v->call->bytes, size, sizeof size))
                               : hang_call(p, v->call);
        return v->comm == CAPO_HANG_NONE
                       ? ""
                       : hang_print("%s #%s of %s", p->hang.counted ? "operation" : "call",
                                    capo_text_count(v->seq, hang_room()),
                                    p->hang.comms[v->comm].name);
}

/* "3 ranks wait", "1 rank waits" */
static const char *waiting_text(uint32_t n, const char *one, const char *many)
{
        return hang_print("%u rank%s %s", n, n == 1 ? "" : "s", n == 1 ? one : many);
}

/* For a job, or a rank, that has ended. */
static const char *first_end_words(const struct hang_page *p, const char *who, const char *at)
{
        const struct capo_hang_verdict *v = &p->verdict;

        if (v->culprits[0].why == CAPO_HANG_WHY_MASKED)
                return hang_print("NCCL EP MASKED %s of %s: %s on that", who,
                                  p->hang.comms[v->comm].name,
                                  waiting_text(v->n_waiting, "ended", "ended"));
        return hang_print(
                "%s ENDED%s FIRST: %s%s%s", who, v->unordered ? ", PERHAPS" : "",
                hang_ending(p, v->culprits[0].process),
                *at ? hang_print("; %s in %s", waiting_text(v->n_waiting, "waited", "waited"), at)
                    : "",
                p->hang.over ? ""
                             : hang_print("; %s still there",
                                          waiting_text(p->job->n_processes - 1 - v->n_after, "is",
                                                       "are")));
}

static const char *undecided_words(const struct hang_page *p, const char *who, const char *at)
{
        const struct capo_hang_verdict *v = &p->verdict;
        bool over = p->hang.over;
        const char *waiting =
                waiting_text(v->n_waiting, over ? "waited" : "waits", over ? "waited" : "wait");

        if (v->together)
                return hang_print(
                        "the job did not end well; %u processes ended within half a second",
                        v->together);
        if (p->hang.counted && !v->call)
                return "RAS shows no rank behind the others, which is no proof";
        if (v->quiet)
                return hang_print("no rank waits in a call of NCCL, and none has made one for %s",
                                  capo_text_time((double)v->still_ns, hang_room()));
        if (v->queued)
                return "a rank makes no call, and its GPU may be working off earlier ones";
        if (v->lost)
                return "ranks wait for one whose last calls were not recorded";
        if (v->works_on)
                return hang_print("%s in %s for %s, which %s other calls", waiting, at, who,
                                  over             ? "made"
                                  : n_named(v) > 1 ? "make"
                                                   : "makes");
        if (v->call && v->unseen)
                return hang_print("%s in %s, and not all ranks are known", waiting, at);
        if (v->still_ns < p->hang.after_ns || (over && !v->call))
                return "nothing is seen to hang, but not all ranks are known";
        return v->call ? hang_print("no progress in %s", at)
                       : "no rank makes progress, and none is seen to wait for another";
}

/* No rank makes progress because the process of one is stopped. */
static const char *stopped_words(const struct hang_page *p, const char *who, const char *at)
{
        const struct capo_hang_verdict *v = &p->verdict;

        return hang_print(
                "%s %s STOPPED%s: %s%s%s", who, n_named(v) > 1 ? "ARE" : "IS",
                v->kind == CAPO_HANG_SLOW
                        ? hang_print(", not hung (no progress for less than %g s)", p->after_s)
                        : "",
                v->n_waiting && v->call ? waiting_text(v->n_waiting, "waits", "wait")
                                        : "no rank makes progress",
                v->n_waiting && v->call ? " in " : "", v->n_waiting && v->call ? at : "");
}

static const char *healthy_words(const struct hang_page *p)
{
        const struct capo_job_member *masked;
        char *text = hang_room();

        snprintf(text, HANG_ROOM, "%s",
                 p->hang.over ? "NOTHING HUNG: all ranks ended by exit()"
                              : "NOTHING HANGS: no rank waits for another");
        for (uint32_t i = 0; i < p->job->n_comms; i++) {
                if (capo_job_masked(&p->job->comms[i], &masked))
                        capo_append(text, HANG_ROOM, ", but NCCL EP masked a rank");
        }
        return text;
}

static const char *kind_words(const struct hang_page *p, const char *who, const char *at)
{
        const struct capo_hang_verdict *v = &p->verdict;
        bool many = n_named(v) > 1, was_left = v->call && v->call->result == CAPO_NCCL_REMOTE_ERROR;
        const char *is = many ? "ARE" : "IS", *s = many ? "" : "S",
                   *waiting = was_left ? waiting_text(v->n_waiting, "waited", "waited")
                                       : waiting_text(v->n_waiting, "waits", "wait");

        switch (v->kind) {
        case CAPO_HANG_HEALTHY: return healthy_words(p);
        case CAPO_HANG_ENDED: return first_end_words(p, who, at);
        case CAPO_HANG_SLOW:
                if (!v->n_culprits && v->unseen && hang_absent(p, -1) >= 0)
                        who = hang_print("RANK %d", hang_absent(p, -1));
                return hang_print("%s %s LATE, not hung (no progress for less than %g s)%s%s", who,
                                  is, p->after_s, v->call ? ": waited for in " : "",
                                  v->call ? at : "");
        case CAPO_HANG_MISSING:
                return hang_print("%s %s MISSING from %s: %u of %u ranks wait in it", who, is, at,
                                  v->n_waiting, v->n_ranks);
        case CAPO_HANG_MISMATCH:
                if (v->n_culprits && v->culprits[0].why == CAPO_HANG_WHY_SIZE)
                        return hang_print("%s DIFFER in the size of %s", who, at);
                return hang_print("%s DIFFER%s from the others in %s", who, s, at);
        case CAPO_HANG_ORDER:
                return hang_print("%s WAIT FOR EACH OTHER in %u calls", who, v->n_steps);
        case CAPO_HANG_TUNED:
                return hang_print("%s %s TUNED DIFFERENTLY from the others in %s", who, is, at);
        case CAPO_HANG_P2P: return hang_print("%s MAKE%s NO OTHER HALF to %s", who, s, at);
        case CAPO_HANG_CREATION:
                return hang_print("%s TAKE%s NO PART in %s: %s in it%s", who, s, at, waiting,
                                  was_left ? " until a process was gone (ncclRemoteError)" : "");
        case CAPO_HANG_INSIDE:
                return hang_print("%s STAND%s INSIDE NCCL in %s, which all have entered", who, s,
                                  at);
        case CAPO_HANG_RUNNING:
                return hang_print("NOT ENDED ON THE GPU of %s: %s, which all have entered%s", who,
                                  at, v->busy ? ", or work around it on its stream" : "");
        default: return hang_print("NOT DECIDED: %s", undecided_words(p, who, at));
        }
}

char *hang_headline(const struct hang_page *p, const char *gap)
{
        const struct capo_hang_verdict *v = &p->verdict;
        bool sure = v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_UNDECIDED,
             stopped = v->kind == CAPO_HANG_STOPPED_RANK ||
                       (v->kind == CAPO_HANG_SLOW && v->n_culprits &&
                        v->culprits[0].why == CAPO_HANG_WHY_STOPPED);

        return xprintf("%s%s%s",
                       (stopped ? stopped_words : kind_words)(p, named_text(p), call_text(p)),
                       sure ? gap : "", sure ? capo_hang_sure_name(v->sure) : "");
}
