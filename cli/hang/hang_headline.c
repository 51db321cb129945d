/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the verdict in one line. */
#include "cli/hang/cmd_hang.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
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

/* "RANK 37 IS", "RANKS 3, 5 AND 2 MORE ARE". */
static void print_named_ranks(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        uint32_t n = n_named(v);
        bool ranks = true;

        for (uint32_t i = 0; i < n; i++)
                ranks &= p->hang.processes[v->culprits[i].process].rank >= 0;
        fprintf(out, "%s%s", ranks ? "RANK" : "PROCESS", n > 1 ? ranks ? "S" : "ES" : "");
        for (uint32_t i = 0; i < n && i < 8; i++) {
                uint32_t process = v->culprits[i].process;

                fprintf(out, "%s %d", i ? "," : "",
                        ranks ? p->hang.processes[process].rank
                              : (int)p->job->processes[process].header.pid);
        }
        if (n > 8)
                fprintf(out, " AND %u MORE", n - 8);
}

/* Where the others are: "AllReduce #12 of dp (25.0 MiB)". */
static void print_verdict_call(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char call[256], size[16], seq[32];

        if (v->call)
                fputs(hang_call(p, v->call, call), out);
        else if (v->comm != CAPO_HANG_NONE)
                fprintf(out, "%s #%s of %s", p->hang.counted ? "operation" : "call",
                        capo_text_count(v->seq, seq), p->hang.comms[v->comm].name);
        if (v->call && v->call->bytes && capo_call_kind(v->call->call) != CAPO_KIND_OTHER)
                fprintf(out, " (%s)", capo_size_print(v->call->bytes, size, sizeof size));
}

/* "RANK 3 IS MISSING from AllReduce #12 of dp". */
static void print_ranks_at_call(const struct hang_page *p, FILE *out, const char *one,
                                const char *many, const char *what)
{
        print_named_ranks(p, out);
        fprintf(out, " %s %s ", n_named(&p->verdict) > 1 ? many : one, what);
        print_verdict_call(p, out);
}

/* For a job, or a rank, that has ended. */
static void print_first_end(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char how[96];

        print_named_ranks(p, out);
        fprintf(out, " ENDED FIRST: %s", hang_ending(p, v->culprits[0].process, how));
        if (v->call || v->comm != CAPO_HANG_NONE) {
                fprintf(out, "; %u rank%s waited in ", v->n_waiting, v->n_waiting == 1 ? "" : "s");
                print_verdict_call(p, out);
        }
        if (!p->hang.over)
                fprintf(out, "; %u rank%s still there", p->job->n_processes - 1 - v->n_after,
                        p->job->n_processes - 1 - v->n_after == 1 ? " is" : "s are");
}

static void print_undecided(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        char time[32];

        fputs("NOT DECIDED: ", out);
        if (v->together) {
                fprintf(out, "the job did not end well; %u processes ended within half a second",
                        v->together);
                return;
        }
        if (p->hang.counted && !v->call) {
                fputs("RAS shows no rank behind the others, which is no proof", out);
                return;
        }
        if (v->quiet) {
                fprintf(out, "no rank waits in a call of NCCL, and none has made one for %s",
                        capo_text_time((double)v->still_ns, time));
                return;
        }
        if (v->queued) {
                fputs("a rank makes no call, and its GPU may be working off earlier ones", out);
                return;
        }
        if (v->lost) {
                fputs("ranks wait for one whose last calls were not recorded", out);
                return;
        }
        if (v->works_on) {
                fprintf(out, "%u rank%s in ", v->n_waiting,
                        p->hang.over       ? v->n_waiting > 1 ? "s waited" : " waited"
                        : v->n_waiting > 1 ? "s wait"
                                           : " waits");
                print_verdict_call(p, out);
                fputs(" for ", out);
                print_named_ranks(p, out);
                fprintf(out, ", which %s other calls",
                        p->hang.over     ? "made"
                        : n_named(v) > 1 ? "make"
                                         : "makes");
                return;
        }
        if (v->still_ns < p->hang.after_ns || p->hang.over)
                fputs("nothing is seen to hang, but not all ranks are known", out);
        else if (v->call)
                fputs("no progress in ", out), print_verdict_call(p, out);
        else
                fputs("no rank makes progress, and none is seen to wait for another", out);
}

/* No rank makes progress because the process of one is stopped. */
static bool is_by_stop(const struct capo_hang_verdict *v)
{
        return v->kind == CAPO_HANG_STOPPED_RANK || (v->kind == CAPO_HANG_SLOW && v->n_culprits &&
                                                     v->culprits[0].why == CAPO_HANG_WHY_STOPPED);
}

static void print_stopped_ranks(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;

        print_named_ranks(p, out);
        fputs(n_named(v) > 1 ? " ARE STOPPED" : " IS STOPPED", out);
        if (v->n_waiting && v->call) {
                fprintf(out, ": %u rank%s in ", v->n_waiting,
                        v->n_waiting > 1 ? "s wait" : " waits");
                print_verdict_call(p, out);
        } else {
                fputs(": no rank makes progress", out);
        }
}

static void print_kind(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;

        switch (v->kind) {
        case CAPO_HANG_HEALTHY:
                fputs(p->hang.over ? "NOTHING HUNG: all ranks ended by exit()"
                                   : "NOTHING HANGS: no rank waits for another",
                      out);
                break;
        case CAPO_HANG_ENDED: print_first_end(p, out); break;
        case CAPO_HANG_SLOW:
                print_named_ranks(p, out);
                fprintf(out, " %s LATE, not hung (no progress for less than %g s)",
                        n_named(v) > 1 ? "ARE" : "IS", p->after_s);
                if (v->call) {
                        fputs(": waited for in ", out);
                        print_verdict_call(p, out);
                }
                break;
        case CAPO_HANG_MISSING:
                print_ranks_at_call(p, out, "IS", "ARE", "MISSING from");
                fprintf(out, ": %u of %u ranks wait in it", v->n_waiting, v->n_ranks);
                break;
        case CAPO_HANG_MISMATCH:
                print_ranks_at_call(p, out, "DIFFERS", "DIFFER", "from the others in");
                break;
        case CAPO_HANG_ORDER:
                print_named_ranks(p, out);
                fprintf(out, " WAIT FOR EACH OTHER in %u calls", v->n_steps);
                break;
        case CAPO_HANG_TUNED:
                print_ranks_at_call(p, out, "IS", "ARE", "TUNED DIFFERENTLY from the others in");
                break;
        case CAPO_HANG_P2P: print_ranks_at_call(p, out, "MAKES", "MAKE", "NO OTHER HALF to"); break;
        case CAPO_HANG_CREATION:
                print_ranks_at_call(p, out, "TAKES", "TAKE", "NO PART in");
                fprintf(out, ": %u rank%s ", v->n_waiting, v->n_waiting > 1 ? "s" : "");
                if (v->call && v->call->result == CAPO_NCCL_REMOTE_ERROR)
                        fputs("waited in it until a process was gone (ncclRemoteError)", out);
                else
                        fprintf(out, "wait%s in it", v->n_waiting > 1 ? "" : "s");
                break;
        case CAPO_HANG_INSIDE:
                print_ranks_at_call(p, out, "STANDS", "STAND", "INSIDE NCCL in");
                fputs(", which all have entered", out);
                break;
        case CAPO_HANG_RUNNING:
                fputs("NOT ENDED ON THE GPU of ", out);
                print_named_ranks(p, out);
                fputs(": ", out);
                print_verdict_call(p, out);
                fputs(v->busy ? ", which all have entered, or work around it on its stream"
                              : ", which all have entered",
                      out);
                break;
        default: print_undecided(p, out);
        }
}

void hang_headline(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;

        if (is_by_stop(v))
                print_stopped_ranks(p, out);
        else
                print_kind(p, out);
        if (v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_UNDECIDED)
                fprintf(out, "       %s", capo_hang_sure_name(v->sure));
        fputc('\n', out);
}
