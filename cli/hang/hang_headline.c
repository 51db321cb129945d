/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the verdict in one line. */
#include "cli/hang/hang_describe.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
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
static const char *named_text(const struct hang_page *p, char text[256])
{
        const struct capo_hang_verdict *v = &p->verdict;
        uint32_t n = n_named(v);
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
        if (n > 8)
                capo_append(text, 256, " AND %u MORE", n - 8);
        return text;
}

/* Where the others are: "AllReduce #12 of dp (25.0 MiB)". */
static const char *call_text(const struct hang_page *p, char text[320])
{
        const struct capo_hang_verdict *v = &p->verdict;
        char size[16], seq[32];

        *text = 0;
        if (v->call)
                hang_call(p, v->call, text);
        else if (v->comm != CAPO_HANG_NONE)
                snprintf(text, 320, "%s #%s of %s", p->hang.counted ? "operation" : "call",
                         capo_text_count(v->seq, seq), p->hang.comms[v->comm].name);
        if (v->call && v->call->bytes && capo_call_kind(v->call->call) != CAPO_KIND_OTHER)
                capo_append(text, 320, " (%s)", capo_size_print(v->call->bytes, size, sizeof size));
        return text;
}

/* "3 ranks wait", "1 rank waits" */
static const char *waiting_text(uint32_t n, const char *one, const char *many, char text[64])
{
        snprintf(text, 64, "%u rank%s %s", n, n == 1 ? "" : "s", n == 1 ? one : many);
        return text;
}

/* For a job, or a rank, that has ended. */
static void print_first_end(const struct hang_page *p, const char *who, const char *at, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char how[96], waited[64], there[64];

        if (v->culprits[0].why == CAPO_HANG_WHY_MASKED) {
                fprintf(out, "NCCL EP MASKED %s of %s: %s on that", who,
                        p->hang.comms[v->comm].name,
                        waiting_text(v->n_waiting, "ended", "ended", there));
                return;
        }
        fprintf(out, "%s ENDED%s FIRST: %s", who, v->unordered ? ", PERHAPS" : "",
                hang_ending(p, v->culprits[0].process, how));
        if (*at)
                fprintf(out, "; %s in %s", waiting_text(v->n_waiting, "waited", "waited", waited),
                        at);
        if (!p->hang.over)
                fprintf(out, "; %s still there",
                        waiting_text(p->job->n_processes - 1 - v->n_after, "is", "are", there));
}

static void print_undecided(const struct hang_page *p, const char *who, const char *at, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        bool over = p->hang.over;
        char time[32], waiting[64];

        waiting_text(v->n_waiting, over ? "waited" : "waits", over ? "waited" : "wait", waiting);
        fputs("NOT DECIDED: ", out);
        if (v->together)
                fprintf(out, "the job did not end well; %u processes ended within half a second",
                        v->together);
        else if (p->hang.counted && !v->call)
                fputs("RAS shows no rank behind the others, which is no proof", out);
        else if (v->quiet)
                fprintf(out, "no rank waits in a call of NCCL, and none has made one for %s",
                        capo_text_time((double)v->still_ns, time));
        else if (v->queued)
                fputs("a rank makes no call, and its GPU may be working off earlier ones", out);
        else if (v->lost)
                fputs("ranks wait for one whose last calls were not recorded", out);
        else if (v->works_on)
                fprintf(out, "%s in %s for %s, which %s other calls", waiting, at, who,
                        over             ? "made"
                        : n_named(v) > 1 ? "make"
                                         : "makes");
        else if (v->call && v->unseen)
                fprintf(out, "%s in %s, and not all ranks are known", waiting, at);
        else if (v->still_ns < p->hang.after_ns || (over && !v->call))
                fputs("nothing is seen to hang, but not all ranks are known", out);
        else if (v->call)
                fprintf(out, "no progress in %s", at);
        else
                fputs("no rank makes progress, and none is seen to wait for another", out);
}

/* No rank makes progress because the process of one is stopped. */
static bool is_by_stop(const struct capo_hang_verdict *v)
{
        return v->kind == CAPO_HANG_STOPPED_RANK || (v->kind == CAPO_HANG_SLOW && v->n_culprits &&
                                                     v->culprits[0].why == CAPO_HANG_WHY_STOPPED);
}

static void print_stopped_ranks(const struct hang_page *p, const char *who, const char *at,
                                FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char waiting[64];

        fprintf(out, "%s %s STOPPED", who, n_named(v) > 1 ? "ARE" : "IS");
        if (v->kind == CAPO_HANG_SLOW)
                fprintf(out, ", not hung (no progress for less than %g s)", p->after_s);
        fputs(": ", out);
        if (v->n_waiting && v->call)
                fprintf(out, "%s in %s", waiting_text(v->n_waiting, "waits", "wait", waiting), at);
        else
                fputs("no rank makes progress", out);
}

static void print_kind(const struct hang_page *p, const char *who, const char *at, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        bool many = n_named(v) > 1, was_left = v->call && v->call->result == CAPO_NCCL_REMOTE_ERROR;
        const char *is = many ? "ARE" : "IS", *s = many ? "" : "S";
        const struct capo_job_member *masked;
        char waiting[64], late[32];

        switch (v->kind) {
        case CAPO_HANG_HEALTHY:
                fputs(p->hang.over ? "NOTHING HUNG: all ranks ended by exit()"
                                   : "NOTHING HANGS: no rank waits for another",
                      out);
                for (uint32_t i = 0; i < p->job->n_comms; i++) {
                        if (capo_job_masked(&p->job->comms[i], &masked))
                                fputs(", but NCCL EP masked a rank", out);
                }
                break;
        case CAPO_HANG_ENDED: print_first_end(p, who, at, out); break;
        case CAPO_HANG_SLOW:
                if (!v->n_culprits && v->unseen && hang_absent(p, -1) >= 0)
                        snprintf(late, sizeof late, "RANK %d", hang_absent(p, -1)), who = late;
                fprintf(out, "%s %s LATE, not hung (no progress for less than %g s)%s%s", who, is,
                        p->after_s, v->call ? ": waited for in " : "", v->call ? at : "");
                break;
        case CAPO_HANG_MISSING:
                fprintf(out, "%s %s MISSING from %s: %u of %u ranks wait in it", who, is, at,
                        v->n_waiting, v->n_ranks);
                break;
        case CAPO_HANG_MISMATCH:
                if (v->n_culprits && v->culprits[0].why == CAPO_HANG_WHY_SIZE)
                        fprintf(out, "%s DIFFER in the size of %s", who, at);
                else
                        fprintf(out, "%s DIFFER%s from the others in %s", who, s, at);
                break;
        case CAPO_HANG_ORDER:
                fprintf(out, "%s WAIT FOR EACH OTHER in %u calls", who, v->n_steps);
                break;
        case CAPO_HANG_TUNED:
                fprintf(out, "%s %s TUNED DIFFERENTLY from the others in %s", who, is, at);
                break;
        case CAPO_HANG_P2P: fprintf(out, "%s MAKE%s NO OTHER HALF to %s", who, s, at); break;
        case CAPO_HANG_CREATION:
                fprintf(out, "%s TAKE%s NO PART in %s: %s in it%s", who, s, at,
                        was_left ? waiting_text(v->n_waiting, "waited", "waited", waiting)
                                 : waiting_text(v->n_waiting, "waits", "wait", waiting),
                        was_left ? " until a process was gone (ncclRemoteError)" : "");
                break;
        case CAPO_HANG_INSIDE:
                fprintf(out, "%s STAND%s INSIDE NCCL in %s, which all have entered", who, s, at);
                break;
        case CAPO_HANG_RUNNING:
                fprintf(out, "NOT ENDED ON THE GPU of %s: %s, which all have entered%s", who, at,
                        v->busy ? ", or work around it on its stream" : "");
                break;
        default: print_undecided(p, who, at, out);
        }
}

char *hang_headline(const struct hang_page *p, const char *gap)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char who[256], at[320], *text = NULL;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        (is_by_stop(v) ? print_stopped_ranks : print_kind)(p, named_text(p, who), call_text(p, at),
                                                           out);
        if (v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_UNDECIDED)
                fprintf(out, "%s%s", gap, capo_hang_sure_name(v->sure));
        xmemclose(out);
        return text;
}
