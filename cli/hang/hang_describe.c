/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, calls, places and stacks as all pages of capo hang say them; what is missing to decide. */
#include "capo/call_ids.h"
#include "capo/frame_types.h"
#include "cli/hang/hang_describe.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/hang/wait_graph.h"
#include "analysis/job/figures.h"
#include "analysis/process/proc_pid.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/waits_causes.h"

char *hang_room(void)
{
        static char rooms[32][HANG_ROOM];
        static unsigned next;

        return rooms[next++ % N_ELEMENTS(rooms)];
}

const char *hang_print(const char *format, ...)
{
        char *text = hang_room();
        va_list args;

        va_start(args, format);
        vsnprintf(text, HANG_ROOM, format, args);
        va_end(args);
        return text;
}

const char *hang_who(const struct hang_page *page, uint32_t process)
{
        int32_t rank = page->hang.processes[process].rank;

        return rank >= 0 ? hang_print("rank %d", rank)
                         : hang_print("pid %u", page->job->processes[process].header.pid);
}

const char *hang_clock(uint64_t real_ns)
{
        return capo_text_when(real_ns, "%H:%M:%S", hang_room());
}

const char *hang_ending(const struct hang_page *p, uint32_t process)
{
        const struct capo_hang_process *h = &p->hang.processes[process];

        if (h->ending == CAPO_HANG_BY_KILL)
                return capo_process_of_here(&p->job->processes[process]) &&
                                       capo_pid_oom((int)p->job->processes[process].header.pid)
                               ? "killed by the kernel, which was out of memory"
                               : capo_hang_why_meaning(CAPO_HANG_WHY_GONE);
        return h->exit_status >= 0 ? hang_print("exit status %d", h->exit_status)
                                   : "exit(), status not known";
}

bool hang_lives_here(const struct hang_page *page, uint32_t process)
{
        return page->known && page->here && page->here[process] &&
               page->known[process] >= CAPO_HANG_IS_ALIVE;
}

const char *hang_call(const struct hang_page *page, const struct capo_hang_call *call)
{
        bool messages = call->peer >= 0 && capo_call_kind(call->call) == CAPO_KIND_P2P;
        const char *of = call->comm != CAPO_HANG_NONE ? page->hang.comms[call->comm].name : NULL;

        return hang_print(
                "%s%s%s%s%s%s%.150s",
                page->hang.any_kind && call->seq ? "a collective" : capo_call_name(call->call),
                /* RAS counts all kinds together */
                call->seq && page->hang.counted ? ", operation" : "", call->seq ? " #" : "",
                call->seq ? capo_text_count(call->seq, hang_room()) : "",
                messages ? hang_print(" %s rank %d", call->call == CAPO_CALL_SEND ? "to" : "from",
                                      call->peer)
                         : "",
                of ? " of " : "", of ?: "");
}

char *hang_site(const struct hang_page *page, uint32_t process, const struct capo_hang_call *call)
{
        struct capo_log *log;
        struct capo_log_site site;
        struct capo_log_frame f;
        const char *text;
        char *found = NULL;

        if (call->site && call->site <= page->hang.n_sites)
                return xstrdup(page->hang.sites[call->site - 1]);
        if (!call->site || !(log = capo_job_log(page->job, process)))
                return NULL;
        while (capo_log_next(log, &f) > 0) {
                if (f.type != CAPO_FRAME_SITE || capo_log_site(&f, &site, &text) < 0 ||
                    site.id != call->site)
                        continue;
                free(found);
                found = xstrndup(text, site.text_size);
                capo_plain(found, strlen(found), false, true);
        }
        capo_log_park(log);
        return found;
}

static void put_python(const struct capo_log_frame *f, FILE *out)
{
        unsigned nth = 0, last = UINT_MAX;
        char frame[CAPO_HANG_LINE];

        for (size_t at = 0; capo_hang_text_next_line(f, CAPO_HANG_KEY_PYTHON, &at, &nth, frame);
             last = nth) {
                if (nth != last)
                        fprintf(out, "%u\n", nth);
                fprintf(out, " %s\n", frame);
        }
}

static void put_native(const struct capo_log_frame *f, FILE *out)
{
        char thread[CAPO_HANG_LINE], frame[CAPO_HANG_LINE];
        size_t at = 0, frames = 0; /* both are sorted by thread */
        unsigned tid, of;
        bool more = capo_hang_text_next_line(f, CAPO_HANG_KEY_NATIVE, &frames, &of, frame);

        while (capo_hang_text_next_line(f, CAPO_HANG_KEY_THREAD, &at, &tid, thread)) {
                fprintf(out, "%u %s\n", tid, thread);
                for (; more && of == tid;
                     more = capo_hang_text_next_line(f, CAPO_HANG_KEY_NATIVE, &frames, &of, frame))
                        fprintf(out, " %s\n", frame);
        }
}

char *hang_frames(const struct hang_page *page, uint32_t process, bool native, uint64_t *at_ns)
{
        uint64_t active_ns = capo_hang_active_ns(&page->hang.processes[process]);
        struct capo_log *log = capo_job_log(page->job, process);
        struct capo_log_frame f;
        char *text = NULL, why[512];
        size_t size;

        if (log && page->own && capo_log_in_memory(log)) { /* only the file has HANG frames */
                struct capo_log **own = &page->own[process];

                if (*own)
                        capo_log_rewind(*own);
                else if (capo_log_open(capo_log_path(log), own, why, sizeof why) < 0)
                        return NULL;
                log = *own;
        }
        while (log && capo_log_next(log, &f) > 0) {
                struct capo_hang_text t;
                FILE *out;

                if (f.type != CAPO_FRAME_HANG || capo_hang_text_read(&f, &t) < 0)
                        continue;
                free(steal(&text));
                *at_ns = page->job->processes[process].header.t0_real_ns + t.at_ns;
                if (*at_ns < active_ns)
                        continue;
                out = xmemstream(&text, &size);
                (native ? put_native : put_python)(&f, out);
                xmemclose(out);
        }
        if (log)
                capo_log_park(log);
        if (text)
                capo_plain(text, strlen(text), false, true);
        return text;
}

int32_t hang_absent(const struct hang_page *page, int32_t after)
{
        const struct capo_hang_call *call = page->verdict.call;
        int32_t n_ranks = page->hang.n_ranks;

        if (call && call->comm == CAPO_HANG_NONE && (int32_t)call->bytes > n_ranks)
                n_ranks = (int32_t)call->bytes; /* of a communicator that is being made */
        for (int32_t r = after + 1; r < n_ranks; r++) {
                if (!ANY_OF(p, page->hang.processes, page->hang.n_processes,
                            p->rank == r || p->rank < 0))
                        return r;
        }
        return -1;
}

/* The ranks without a log, the first eight of them by number where that is known. */
static const char *tell_unseen(const struct hang_page *page)
{
        const struct capo_hang_call *call = page->verdict.call;
        char *which = hang_room();
        uint32_t n = 0;

        *which = 0;
        for (int32_t r = -1; (r = hang_absent(page, r)) >= 0; n++) {
                if (n < 8)
                        capo_append(which, HANG_ROOM, "%s%d", n ? ", " : ": rank ", r);
        }
        n = n ?: page->verdict.unseen - page->n_stale;
        return hang_print("%u rank%s of the communicator %s in no log that could be read%s%s", n,
                          n > 1 ? "s" : "", n > 1 ? "are" : "is", which,
                          !call || call->call != CAPO_CALL_COMMINIT ? ""
                          : n > 1 ? ": they never called NCCL, ran without capo, or log elsewhere"
                                  : ": it never called NCCL, ran without capo, or logs elsewhere");
}

static const char *tell_order(const struct hang_page *page)
{
        char *text = hang_room();
        uint32_t n = 0;

        snprintf(text, HANG_ROOM, "which rank ended first");
        for (uint32_t i = 0; i < page->hang.n_processes; i++) {
                if (page->hang.processes[i].ending == CAPO_HANG_BY_KILL && n++ < 8)
                        capo_append(text, HANG_ROOM, "%s%s",
                                    n == 1 ? ": no end is recorded of " : ", ", hang_who(page, i));
        }
        if (n > 8)
                capo_append(text, HANG_ROOM, " and %u more", n - 8);
        return capo_append(text, HANG_ROOM, "; look for the first error in the job's output");
}

const char *hang_missing(const struct hang_page *page, unsigned i)
{
        const struct capo_hang_verdict *v = &page->verdict;
        const bool counted = page->hang.counted, unordered = v->together || v->unordered,
                   unseen = v->unseen > page->n_stale;
        const struct {
                bool applies;
                const char *text;
        } items[] = {
                {page->n_stale,
                 hang_print(
                         "%u log%s not final and the process cannot be looked at: capo hang on its node, or capo report --recover "
                         "there when it is gone",
                         page->n_stale, page->n_stale > 1 ? "s are" : " is")},
                {unseen, unseen ? tell_unseen(page) : NULL},
                {page->hang.dropped,
                 hang_print(
                         "the last calls of all ranks: %s call%s dropped, so numbers of calls may be too low",
                         capo_text_count(page->hang.dropped, hang_room()),
                         page->hang.dropped > 1 ? "s were" : " was")},
                {v->queued,
                 "whether the GPUs make progress: between the last call that was seen to end and the next that is timed are others"},
                {v->p2p_unknown,
                 hang_print(
                         "which send belongs to which receive: of a process the last %u calls are looked at, "
                         "and there were more",
                         CAPO_HANG_CALLS)},
                {v->graphs_unknown,
                 "what was launched from CUDA graphs: of captured calls nobody sees when they run"},
                {page->hang.partial,
                 "how many calls each rank has launched: NCCL before 2.28.7 tells it where few differ"},
                {v->gpu_unknown,
                 counted ? "whether calls have ended: RAS counts those that were launched"
                         : "whether the GPUs have ended the last calls of all ranks"},
                {v->quiet,
                 "what the ranks' host code does: it may compute, or ranks may wait for each other outside of NCCL (Gloo, MPI, a file, a lock)"},
                {v->works_on && !page->hang.over,
                 hang_print("whether %s to this call later: only the program knows",
                            v->n_culprits > 1 ? "these ranks come" : "this rank comes")},
                {unordered, unordered ? tell_order(page) : NULL},
        };

        for (size_t k = 0; k < N_ELEMENTS(items); k++) {
                if (items[k].applies && i-- == 0)
                        return items[k].text;
        }
        return NULL;
}

const struct capo_page_wait *hang_late(const struct hang_page *page, uint32_t i)
{
        for (uint32_t k = 0; k < page->late.n_waits; k++) {
                const struct capo_page_wait *w = &page->late.waits[k];

                if (capo_wait_is_sure(page->job, w) &&
                    !page->job->comms[w->comm].skew->worst_over && i-- == 0)
                        return w;
        }
        return NULL;
}

int hang_bugs(const struct hang_page *page, struct capo_recorded_bug *out)
{
        const struct capo_hang_verdict *v = &page->verdict;
        unsigned effects = 1u << CAPO_BUG_HANG;
        char *stacks = NULL;
        size_t size;
        FILE *text;
        int n;

        if (v->kind == CAPO_HANG_HEALTHY || v->kind == CAPO_HANG_SLOW)
                return 0;
        if (v->kind == CAPO_HANG_ENDED)
                effects |= 1u << CAPO_BUG_CRASH;
        text = xmemstream(&stacks, &size);
        for (uint32_t i = 0; i < v->n_culprits && i < 4; i++) {
                uint64_t at_ns;
                _cleanup_free_ char *frames =
                        hang_frames(page, v->culprits[i].process, true, &at_ns);

                fputs(frames ? frames : "", text);
        }
        xmemclose(text);
        n = capo_recorded_bugs(page->job, effects, stacks, out);
        free(stacks);
        /* if the program's own calls explain it, a known bug is not a likely cause */
        while (n > 0 && out[n - 1].match == CAPO_BUG_MAYBE &&
               (v->kind == CAPO_HANG_MISSING || v->kind == CAPO_HANG_MISMATCH ||
                v->kind == CAPO_HANG_ORDER))
                n--;
        return n < 0 ? 0 : n;
}
