/* SPDX-License-Identifier: Apache-2.0 */
/* The page as text: the verdict first, then the culprits, the evidence, and what to do. */

#include <pwd.h>

#include "cli/base/cli_screen.h"
#include "cli/hang/hang_describe.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/log/info.h"
#include "analysis/hang/hang_network.h"
#include "core/base/calls.h"
#include "core/base/others_file.h"
#include "core/base/plain_text.h"
#include "analysis/hang/wait_graph.h"
#include "analysis/process/proc_pid.h"
#include "analysis/job/figures.h"

enum { SHOWN = 4, LATE = 3, PIDS = 8, ENDS_SHOWN = 8, STREAMS = 4, NICS = 4, RANKS = 4 };
#define MOMENT_NS    UINT64_C(1000000000)
#define SEEN_LATE_NS UINT64_C(2000000000)

/* ---- the heading: which job it is, and how its processes ended ---- */

/* The user named no job: print which one it is, and whose. */
static void print_newest(const struct hang_page *p, const struct capo_job_process *first, FILE *out)
{
        const char *slash = strrchr(first->path, '/'), *uid = capo_job_info(first, CAPO_INFO_UID);
        const struct passwd *user = uid ? getpwuid((uid_t)strtoul(uid, NULL, 10)) : NULL;
        char title[256];

        if (!capo_job_info(first, CAPO_INFO_JOB))
                fprintf(out, "  %s", capo_page_title(&p->late, title, sizeof title));
        fprintf(out, "  in %.*s", slash ? (int)(slash - first->path) : 1,
                slash ? first->path : ".");
        if (user)
                fprintf(out, "  user %s", user->pw_name);
}

/* Ranks can wait while others make calls. */
static const char *since_words(const struct hang_page *p)
{
        if (ANY_OF(of, p->hang.processes, p->hang.n_processes,
                   capo_hang_active_ns(of) > p->verdict.since_ns + MOMENT_NS))
                return p->hang.over ? "ranks had waited" : "ranks wait, others make calls,";
        return p->hang.over ? "had made no progress" : "no progress";
}

static void print_heading(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        const struct capo_job_process *first = p->job->n_processes ? p->job->processes : NULL;
        const char *id = first ? capo_job_info(first, CAPO_INFO_JOB) : NULL,
                   *name = first ? capo_job_info(first, CAPO_INFO_JOB_NAME) : NULL;
        /* ranks that RAS does not name may be on other nodes */
        uint32_t n_nodes = p->hang.n_nodes   ? p->hang.n_nodes
                           : p->hang.partial ? 0
                                             : p->job->n_nodes;
        char ranks[120];

        fprintf(out, "capo hang%s%s%s%s", id ? "  job " : "", id ? id : "", name ? "  " : "",
                name ? name : "");
        if (p->newest && first)
                print_newest(p, first, out);
        if (p->hang.over)
                fprintf(out, "  ended at %s", hang_clock(p->hang.now_ns));
        if (v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_ENDED && v->still_ns)
                fprintf(out, "  %s since %s (%s)", since_words(p), hang_clock(v->since_ns),
                        capo_text_time((double)v->still_ns, hang_room()));
        if (p->job->n_ranks)
                fprintf(out, "  %s", capo_job_ranks_text(p->job, n_nodes, ranks));
        fputc('\n', out);
}

/* Is its end listed, so that readers can judge the order? */
static bool is_end_listed(const struct hang_page *p, const struct capo_hang_process *of)
{
        return of->ending != CAPO_HANG_RUNS &&
               (p->verdict.kind == CAPO_HANG_ENDED || p->verdict.together);
}

static bool comes_before(const struct capo_hang_process *a, const struct capo_hang_process *b,
                         bool ended)
{
        int order = ended ? CAPO_ORDER(a->end_ns, b->end_ns) : CAPO_ORDER(a->rank, b->rank);

        return order ? order < 0 : a < b;
}

uint32_t hang_next(const struct hang_page *p, uint32_t after, bool ended)
{
        const struct capo_hang_process *all = p->hang.processes, *best = NULL;

        for (const struct capo_hang_process *of = all; of < PAST_OF(all, p->hang.n_processes);
             of++) {
                if ((ended ? is_end_listed(p, of) : of->ending == CAPO_HANG_RUNS) &&
                    (after == CAPO_HANG_NONE || comes_before(&all[after], of, ended)) &&
                    (!best || comes_before(of, best, ended)))
                        best = of;
        }
        return best ? (uint32_t)(best - all) : CAPO_HANG_NONE;
}

static void print_ends(const struct hang_page *p, FILE *out)
{
        uint32_t n = 0, i = CAPO_HANG_NONE,
                 all = COUNT_OF(of, p->hang.processes, p->hang.n_processes, is_end_listed(p, of));

        while (all > 1 && n < ENDS_SHOWN && (i = hang_next(p, i, true)) != CAPO_HANG_NONE) {
                uint64_t end_ns = p->hang.processes[i].end_ns;

                fprintf(out, "  %s %s.%03u %s: %s\n",
                        p->hang.processes[i].ending == CAPO_HANG_BY_KILL ? "last sign of life"
                                                                         : "ended at",
                        hang_clock(end_ns), (unsigned)(end_ns / 1000000 % 1000), hang_who(p, i),
                        hang_ending(p, i));
                n++;
        }
        if (all > 1 && n < all)
                fprintf(out, "  and %u more ended later\n", all - n);
}

/* ---- below NCCL: streams, and the rank's network ---- */

const struct capo_hang_call *hang_stream(const struct hang_page *page, uint32_t process, uint32_t i)
{
        const struct capo_hang_process *h = &page->hang.processes[process];

        for (uint32_t k = 0; k < h->n_calls; k++) {
                const struct capo_hang_call *c = &h->calls[k];

                if (c->gpu == CAPO_HANG_GPU_RUNNING &&
                    !ANY_OF(before, h->calls, k,
                            before->gpu == CAPO_HANG_GPU_RUNNING && before->stream == c->stream) &&
                    i-- == 0)
                        return c;
        }
        return NULL;
}

static bool below_nccl(const struct capo_hang_culprit *c)
{
        return c->why == CAPO_HANG_WHY_GPU || c->why == CAPO_HANG_WHY_CALL;
}

static const char *name_of(const struct capo_hang_nic *nic)
{
        return *nic->device ? nic->device : *nic->name ? nic->name : "(no name)";
}

static void one_nic(const struct hang_page *p, const struct capo_hang_nic *nic, FILE *out)
{
        uint64_t now_ns = p->hang.now_ns, at_ns = nic->completed_ns;

        fprintf(out, "    network %s%s%s%s: ", name_of(nic), *nic->pci ? " (" : "", nic->pci,
                *nic->pci ? ")" : "");
        if (nic->unsure || !nic->outstanding)
                fputs(nic->unsure ? "what is outstanding is not known"
                                  : "nothing posted to leave is outstanding",
                      out);
        else
                fprintf(out, "%s posted and not completed",
                        capo_text_plural(nic->outstanding, "operation", NULL));
        if (at_ns)
                fprintf(out, ", the last completion %s, %s ago", hang_clock(at_ns),
                        capo_text_time(now_ns > at_ns ? (double)(now_ns - at_ns) : 0, hang_room()));
        else
                fputs(", no completion so far", out);
        if (nic->receives)
                fprintf(out, "; %s",
                        capo_text_plural(nic->receives, "receive waits", "receives wait"));
        if (nic->refused)
                fprintf(out, "; refused for the moment so far: %s",
                        capo_text_count(nic->refused, hang_room()));
        if (nic->errors)
                fprintf(out, "; errors: %s (%s)", capo_text_count(nic->errors, hang_room()),
                        nic->error);
        fputc('\n', out);
}

/* For a culprit whose call or GPU does not finish: its streams and network interfaces, one per line. */
static void print_below(const struct hang_page *p, const struct capo_hang_culprit *c, FILE *out)
{
        _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};
        const struct capo_hang_call *call;

        if (!below_nccl(c))
                return;
        for (uint32_t i = 0; i < STREAMS && (call = hang_stream(p, c->process, i)); i++)
                fprintf(out, "    on its GPU: %s, stream %x, handed over %s\n", hang_call(p, call),
                        call->stream, hang_clock(call->begin_ns));
        capo_hang_network(&p->job->processes[c->process], &net);
        for (uint32_t i = 0; i < net.n_nics && i < NICS; i++)
                one_nic(p, &net.nics[i], out);
        if (net.n_nics > NICS)
                fprintf(out, "    and %u more network interfaces (--json)\n", net.n_nics - NICS);
        if (net.n_nics && net.at_ns + SEEN_LATE_NS < p->hang.now_ns)
                fprintf(out, "    that of the network was seen at %s\n", hang_clock(net.at_ns));
}

/* One line with the interfaces whose posted operations do not complete. */
static void print_network(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        uint32_t asked = 0, found = 0;

        for (uint32_t i = 0; i < v->n_culprits; i++) {
                _cleanup_(capo_hang_network_finish) struct capo_hang_network net = {0};

                if (!below_nccl(&v->culprits[i]))
                        continue;
                capo_hang_network(&p->job->processes[v->culprits[i].process], &net);
                if (!net.n_nics)
                        continue;
                asked++;
                if (!net.nics[0].outstanding || found++ >= RANKS)
                        continue;
                fprintf(out, "%s%s (%s: %s)",
                        found == 1 ? "  the network does not complete what these have posted: "
                                   : ", ",
                        hang_who(p, v->culprits[i].process), name_of(&net.nics[0]),
                        capo_text_count(net.nics[0].outstanding, hang_room()));
        }
        if (found > RANKS)
                fprintf(out, " and %u more", found - RANKS);
        if (found)
                fprintf(out, "; %u rank%s used it\n", asked, asked == 1 ? "" : "s");
}

/* ---- ranks ---- */

/* Stopped processes that the verdict does not name, and those that run again since a short time. */
static void print_other_stopped(const struct hang_page *p, FILE *out)
{
        for (uint32_t i = 0; !p->hang.over && i < p->hang.n_processes; i++) {
                const struct capo_hang_process *of = &p->hang.processes[i];
                bool stopped = of->life == CAPO_HANG_STOPPED && !p->verdict.accused[i];

                if (!stopped && (of->life != CAPO_HANG_ALIVE || !of->resumed_ns ||
                                 of->resumed_ns + p->hang.after_ns < p->hang.now_ns))
                        continue;
                fprintf(out, "  %s: %s pid %u: %s\n", hang_who(p, i), p->job->processes[i].host,
                        p->job->processes[i].header.pid,
                        stopped ? capo_hang_why_meaning(CAPO_HANG_WHY_STOPPED)
                                : hang_print(
                                          "did not run until %s: it was stopped, or had no processor",
                                          hang_clock(of->resumed_ns)));
        }
}

/* Nobody is late: what the machine says of the ranks and nodes meanwhile. */
static void print_seen(const struct hang_page *p, FILE *out)
{
        for (uint32_t i = 0, n = 0; i < p->late.n_causes; i++) {
                const struct capo_causes *c = &p->late.causes[i];

                for (unsigned k = 0; k < c->n && n < LATE; k++, n++) {
                        int32_t rank = capo_why_rank(p->job, &c->found[k]);

                        fprintf(out, "  machine: ");
                        if (c->longer > 0)
                                fprintf(out, "steps take %s longer since %s: ",
                                        capo_text_percent(c->longer, hang_room()),
                                        hang_clock(c->since_ns));
                        if (rank >= 0)
                                fprintf(out, "rank %d: ", rank);
                        fprintf(out, "%s\n", c->found[k].text);
                }
        }
}

/* Without a culprit: list the processes that were examined. */
static void print_processes(const struct hang_page *p, FILE *out)
{
        const struct capo_job_process *of = p->job->processes;
        uint32_t hosts = 0, elsewhere = 0;

        for (uint32_t first = 0; first < p->job->n_processes; first++) {
                const char *host = of[first].host;
                uint32_t n = 0;

                if (!of[first].header.pid ||
                    ANY_OF(b, of, first, b->header.pid && !strcmp(b->host, host)))
                        continue;
                for (uint32_t i = first; i < p->job->n_processes; i++) {
                        if (!of[i].header.pid || strcmp(of[i].host, host) != 0)
                                continue;
                        if (hosts >= SHOWN)
                                elsewhere++;
                        else if (n++ < PIDS)
                                fprintf(out, "%s%s %u", n > 1 ? "" : hang_print("  %s: pid", host),
                                        n > 1 ? "," : "", of[i].header.pid);
                }
                hosts++;
                fprintf(out, "%s%s", n > PIDS ? hang_print(" and %u more", n - PIDS) : "",
                        n ? "\n" : "");
        }
        if (elsewhere)
                fprintf(out, "  and %s on other nodes\n",
                        capo_text_plural(elsewhere, "process", "processes"));
}

/* A call of which only its number is known. */
static const char *name_call(const struct hang_page *p, uint8_t call, uint32_t seq, uint32_t comm)
{
        return hang_call(
                p, &(struct capo_hang_call){.call = call, .seq = seq, .comm = comm, .peer = -1});
}

/* Where the call was made: the innermost frame; in Python the innermost line of the program's own
 * code. */
static void print_call_site(const struct hang_page *p, uint32_t process,
                            const struct capo_hang_call *call, FILE *out)
{
        _cleanup_free_ char *text = call ? hang_site(p, process, call) : NULL;
        const char *frames = text;

        if (text && hang_text_frames(&frames, "    at ", 3, out))
                fputc('\n', out);
}

static void print_life(const struct hang_page *p, const struct capo_hang_culprit *c, FILE *out)
{
        const struct capo_hang_process *h = &p->hang.processes[c->process];
        uint64_t active_ns = capo_hang_active_ns(h);
        const char *ending = hang_ending(p, c->process);
        bool is_said = !strcmp(ending, capo_hang_why_meaning(c->why));
        char waits[300] = "";

        if (h->ending != CAPO_HANG_RUNS)
                fprintf(out, "    %s at %s%s%s\n",
                        h->ending == CAPO_HANG_BY_KILL ? "last sign of life" : "it ended",
                        hang_clock(h->end_ns), is_said ? "" : ": ", is_said ? "" : ending);
        if (h->ending != CAPO_HANG_RUNS || p->known[c->process] != CAPO_HANG_IS_ALIVE)
                return;
        if (hang_lives_here(p, c->process))
                capo_pid_waits((int)p->job->processes[c->process].header.pid, waits, sizeof waits);
        fprintf(out, "    alive%s%s; last in a call at %s", *waits ? ": " : "", waits,
                hang_clock(active_ns));
        if (h->end_ns > active_ns)
                fprintf(out, ", %s ago",
                        capo_text_time((double)(h->end_ns - active_ns), hang_room()));
        fputc('\n', out);
}

/* What NCCL chose for its call and from what (tuner, settings), and the same for the others. */
static void print_nccl_choice(const struct hang_page *p, const struct capo_hang_culprit *c,
                              FILE *out)
{
        const struct capo_hang_call *const calls[] = {c->call, p->verdict.call};
        const uint32_t process[] = {c->process, p->verdict.most};

        fputs("    NCCL chose there", out);
        for (int i = 0; i < 2; i++) {
                const struct capo_hang_call *call = calls[i];
                const char *tuned = p->hang.processes[process[i]].tuned,
                           *settings = p->hang.processes[process[i]].settings;

                fputs(i ? "; with the others" : "", out);
                if (call && call->algo_proto)
                        fprintf(out, " %s %s", capo_ran_algo(call->algo_proto),
                                capo_ran_proto(call->algo_proto));
                if (call && call->algo_proto && call->channels)
                        fprintf(out, " in %u channel%s", call->channels,
                                call->channels > 1 ? "s" : "");
                if (tuned && strcmp(tuned, "none") != 0)
                        fprintf(out, " by profile %.8s", tuned);
                else if (tuned)
                        fputs(" by no profile", out);
                if (settings && *settings)
                        fprintf(out, " with %s", settings);
        }
        fputc('\n', out);
}

/* Was it enqueued on a GPU stream behind the verdict's call? */
static bool is_behind_verdict(const struct hang_page *p, const struct capo_hang_call *call)
{
        const struct capo_hang_verdict *v = &p->verdict;

        return (v->kind == CAPO_HANG_STOPPED_RANK || v->kind == CAPO_HANG_RUNNING ||
                v->kind == CAPO_HANG_TUNED) &&
               v->comm != CAPO_HANG_NONE && call->comm == v->comm && v->seq && call->seq > v->seq;
}

static const char *culprit_words(const struct hang_page *p, const struct capo_hang_culprit *c)
{
        const struct capo_hang_process *h = &p->hang.processes[c->process];
        const struct capo_hang_call *last = h->n_calls ? &h->calls[h->n_calls - 1] : NULL;

        if (p->hang.counted && c->why == CAPO_HANG_WHY_HOST) /* RAS does not know where it is */
                return "it has not launched this operation";
        /* its GPU was not seen to end its last call: its host may wait for that */
        if (!c->call && c->why == CAPO_HANG_WHY_HOST && last && last->gpu != CAPO_HANG_GPU_ENDED &&
            capo_call_kind(last->call) != CAPO_KIND_OTHER)
                return "in no call of NCCL; it may wait for its GPU";
        if (p->hang.over && c->why == CAPO_HANG_WHY_STOPPED)
                return "the process was stopped (a signal, a debugger)";
        return capo_hang_why_meaning(c->why);
}

static void print_its_call(const struct hang_page *p, const struct capo_hang_culprit *c, FILE *out)
{
        const struct capo_hang_call *call = c->call;
        const char *name = hang_call(p, call),
                   *size = capo_size_print(call->bytes, hang_room(), HANG_ROOM);

        if (c->why == CAPO_HANG_WHY_SIZE)
                fprintf(out, "    its call: %s, %s\n", name, size);
        else if (c->why == CAPO_HANG_WHY_PEER)
                fprintf(out, "    its call: %s\n", name);
        else if (c->why == CAPO_HANG_WHY_DIFFERS)
                fprintf(out, "    its call: %s, %s, %s, %s%s%s%s%s\n", name, size,
                        capo_type_name(call->type), capo_op_name(call->op),
                        call->peer >= 0 ? hang_print(", root %d", call->peer) : "",
                        c->differs ? "; another " : "", c->differs ?: "",
                        c->skipped
                                ? "; the others make this one next: it seems to have left one out"
                                : "");
        else if (p->hang.counted)
                fprintf(out,
                        "    the last call that it has launched: %s; whether it returned is not known\n",
                        name);
        else if (call->end_ns)
                fprintf(out, "    its last call%s: %s, returned %s%s\n",
                        p->hang.processes[c->process].lost ? " that was recorded" : "", name,
                        hang_clock(call->end_ns),
                        is_behind_verdict(p, call)
                                ? hang_print(": only enqueued, behind #%s which has not ended",
                                             capo_text_count(p->verdict.seq, hang_room()))
                                : "");
        else
                fprintf(out, "    it is in %s since %s\n", name, hang_clock(call->begin_ns));
        print_call_site(p, c->process, call, out);
}

static void print_culprit(const struct hang_page *p, const struct capo_hang_culprit *c, FILE *out)
{
        const struct capo_job_process *jp = &p->job->processes[c->process];

        fprintf(out, "  %s: %s%s: %s%s\n", hang_who(p, c->process), jp->host,
                jp->header.pid ? hang_print(" pid %u", jp->header.pid) : "", culprit_words(p, c),
                c->works_on && c->why != CAPO_HANG_WHY_OTHER_CALLS
                        ? " (the thread that uses this communicator; other threads call NCCL)"
                        : "");
        if (c->elsewhere)
                fprintf(out, "    missing from %s: %u rank%s in it\n",
                        c->missing ? name_call(p, c->missing, c->seq, c->comm) : "an older call",
                        c->n_waiting, c->n_waiting > 1 ? "s wait" : " waits");
        print_life(p, c, out);
        hang_text_threads(p, c->process, out);
        print_below(p, c, out);
        if (c->why == CAPO_HANG_WHY_TUNED)
                print_nccl_choice(p, c, out);
        if (c->call)
                print_its_call(p, c, out);
}

/* Without a culprit, when nothing moves: print what each rank's host code is doing. Return: is that
 * the case? */
static bool print_quiet_ranks(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        const struct capo_hang_call *in = v->call;
        bool shown = v->kind == CAPO_HANG_UNDECIDED && !v->n_culprits && !p->hang.over &&
                     !p->hang.counted && v->still_ns >= p->hang.after_ns;
        uint32_t n = 0, at = CAPO_HANG_NONE,
                 alive = shown ? COUNT_OF(of, p->hang.processes, p->hang.n_processes,
                                          of->ending == CAPO_HANG_RUNS)
                               : 0;

        while (n < SHOWN && n < alive && (at = hang_next(p, at, false)) != CAPO_HANG_NONE) {
                const struct capo_hang_call *call = capo_hang_inside(&p->hang.processes[at]);
                const bool waits = call && in && call->call == in->call && call->comm == in->comm &&
                                   call->seq == in->seq;

                print_culprit(p,
                              &(struct capo_hang_culprit){.process = at,
                                                          .why = !call   ? CAPO_HANG_WHY_HOST
                                                                 : waits ? CAPO_HANG_WHY_WAITS
                                                                         : CAPO_HANG_WHY_CALL,
                                                          .call = call},
                              out);
                n++;
        }
        if (alive > n)
                fprintf(out, "  and %u more\n", alive - n);
        return shown;
}

static void print_wait_cycle(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;

        for (uint32_t i = 0; i < v->n_steps; i++) {
                const struct capo_hang_step *s = &v->steps[i];

                fprintf(out, "  %s waits in %s%s for %s\n", hang_who(p, s->process),
                        name_call(p, s->call, s->seq, s->comm),
                        s->comm == CAPO_HANG_NONE ? " of a new one" : "",
                        hang_who(p, v->steps[(i + 1) % v->n_steps].process));
        }
}

static void print_one_waiting(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;

        for (uint32_t i = 0; v->call && v->n_culprits && i < p->hang.n_processes; i++) {
                const struct capo_hang_process *h = &p->hang.processes[i];

                if (!h->n_calls || v->call < h->calls || v->call >= h->calls + h->n_calls ||
                    v->accused[i] || !v->call->site)
                        continue;
                fprintf(out, "  %s %s in %s\n", hang_who(p, i), p->hang.over ? "waited" : "waits",
                        hang_call(p, v->call));
                print_call_site(p, i, v->call, out);
        }
}

/* What capo watch proved while the job lived, where @headline says something else: the second line of
 * its hang.txt, unless the job went on. */
static void print_found_alive(const struct hang_page *p, const char *headline, FILE *out)
{
        const char *path = p->job->n_processes ? p->job->processes[0].path : "";
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *text = NULL;
        char file[4096], why[200], *verdict, *sure;
        struct stat st;
        size_t n;

        if (!p->hang.over || !slash || p->verdict.kind == CAPO_HANG_HEALTHY)
                return;
        snprintf(file, sizeof file, "%.*s/hang.txt", (int)(slash - path), path);
        if (stat(file, &st) < 0 ||
            (uint64_t)st.st_mtime * 1000000000 + 1000000000 < p->job->t_begin_ns ||
            capo_others_read(file, CAPO_OTHERS_MESSAGE, CAPO_ANY_OWNER, &text, &n, why,
                             sizeof why) < 0 ||
            !(verdict = strchr(text, '\n')) || strstr(text, "\nWENT ON"))
                return;
        verdict[1 + strcspn(verdict + 1, "\n")] = 0;
        sure = strstr(++verdict, "  "); /* how sure it was: that was said of what was known then */
        if (sure)
                *sure = 0;
        capo_plain(verdict, strlen(verdict), false, false);
        if (*verdict && strncmp(verdict, "NOT DECIDED", 11) != 0 &&
            strncmp(verdict, headline, strcspn(verdict, ":")) != 0)
                fprintf(out, "  while it lived, capo watch found: %s (hang.txt)\n", verdict);
}

static void print_notes(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        struct capo_recorded_bug bugs[CAPO_RECORDED_BUGS];
        const struct capo_page_wait *late;
        const char *text;
        int n_bugs;

        if (v->failure && v->kind != CAPO_HANG_HEALTHY)
                fprintf(out, "  the first call that failed: %s of %s at %s, ncclResult_t %d\n",
                        hang_call(p, v->failure), hang_who(p, v->failed),
                        hang_clock(capo_hang_failed_ns(v->failure)), v->failure->result);
        if (v->disagreed.call)
                fprintf(out, "  before the end, %s disagreed with the others on %s: another %s\n",
                        hang_who(p, v->disagreed.process), hang_call(p, v->disagreed.unlike),
                        capo_hang_differs(v->disagreed.unlike, v->disagreed.call));
        if (v->behind)
                fprintf(out,
                        "  that call ended all the same; the ranks wait in %s, and differ by one since\n",
                        hang_call(p, v->behind));
        if (v->differed)
                fprintf(out,
                        "  beside that: the ranks of %s did not agree on what its call #%u is, and it ended all the same\n",
                        p->hang.comms[v->differed_comm].name, v->differed);
        for (uint32_t i = 0; i < p->job->n_comms; i++) {
                const struct capo_job_member *masked;
                char name[300];

                if (capo_job_masked(&p->job->comms[i], &masked))
                        fprintf(out,
                                "  NCCL EP masked %s of %s and went on: results lack its tokens\n",
                                masked ? capo_job_member_text(&p->job->comms[i], masked, name)
                                       : "a rank",
                                p->job->comms[i].name);
        }
        for (uint32_t i = 0; !p->hang.over && i < LATE && (late = hang_late(p, i)); i++)
                fprintf(out, "  late: %s\n", late->text);
        if (!p->hang.over && !hang_late(p, 0))
                print_seen(p, out);
        for (unsigned i = 0; v->kind != CAPO_HANG_HEALTHY && (text = hang_missing(p, i)); i++)
                fprintf(out, "  not known: %s\n", text);
        n_bugs = hang_bugs(p, bugs);
        for (int i = 0; i < n_bugs; i++)
                fprintf(out, "%s  %s\n",
                        bugs[i].match == CAPO_BUG_FITS ? "KNOWN BUG" : "MAYBE A KNOWN BUG",
                        capo_bug_text(bugs[i].bug, hang_room(), HANG_ROOM / 2));
}

int hang_text(const struct hang_page *p, FILE *to)
{
        FILE *out = cli_screen_begin(to);
        const struct capo_hang_verdict *v = &p->verdict;
        const enum capo_hang_why why = v->n_culprits ? v->culprits[0].why : CAPO_HANG_WHYS;
        char next[CAPO_HANG_NEXT];
        _cleanup_free_ char *headline = hang_headline(p, "       ");

        print_heading(p, out);
        fprintf(out, "%s\n", headline);
        if ((v->kind == CAPO_HANG_ENDED || v->together) && v->quiet_ns >= p->hang.after_ns)
                fprintf(out,
                        "  before that no rank had made a call for %s: the job may have hung\n",
                        capo_text_time((double)v->quiet_ns, hang_room()));
        print_found_alive(p, headline, out);
        print_wait_cycle(p, out);
        for (uint32_t i = 0; i < v->n_culprits && i < SHOWN && v->kind != CAPO_HANG_ORDER; i++)
                print_culprit(p, &v->culprits[i], out);
        if (v->n_culprits > SHOWN && v->kind != CAPO_HANG_ORDER)
                fprintf(out, "  and %u more\n", v->n_culprits - SHOWN);
        if (!print_quiet_ranks(p, out) && !v->n_culprits)
                print_processes(p, out);
        print_other_stopped(p, out);
        print_one_waiting(p, out);
        print_ends(p, out);
        print_network(p, out);
        print_notes(p, out);
        if (v->n_culprits && v->kind != CAPO_HANG_UNDECIDED &&
            (v->kind != CAPO_HANG_SLOW || why == CAPO_HANG_WHY_STOPPED))
                fprintf(out, "NEXT  %s\n",
                        p->hang.over && why == CAPO_HANG_WHY_HOST
                                ? "what its host code did then: data loading, a lock, a file system, a barrier of "
                                  "another library. Or it took another branch and never made this call"
                        : p->hang.over && why == CAPO_HANG_WHY_STOPPED
                                ? "who stopped it: a debugger, a signal, a frozen container"
                                : capo_hang_next(p->job, v, next));
        return fflush(out) || ferror(out) ? -EIO : 0;
}
