/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/order.h"
#include "analysis/log/fabric_read.h"
#include "analysis/report/late_cause.h"
#include "analysis/job/figures.h"
#include "core/base/clock_reasons.h"
#include "core/log/info.h"

#define HELD_BELOW \
        0.9 /* of the others' clock, if something limits it: GPUs of one model differ by less */
#define CAPPED_BELOW \
        0.7 /* if the power limit or no reason is reported: a GPU that computes reaches that \
               limit, one that waits does not */
#define HELD_OFTEN 4 /* at least one in this many samples */
#define SLOW_SENDS 3 /* times the others' */
#define FEW_SENDS  16

enum { OTHERS = 64 }; /* limit on other ranks examined, spread evenly */

static bool clocks_of(const struct capo_job *job, const struct capo_job_member *m,
                      capo_clocks_now *now, struct capo_gpu_clocks *out)
{
        const char *text;
        char key[32];

        if (m->device < 0)
                return false;
        if (now)
                return now(job, m->process, m->device, out);
        snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_CLOCKS, m->device);
        text = capo_job_info(&job->processes[m->process], key);
        return text && capo_gpu_clocks_read(text, out);
}

/* Mean time from post to completion over all operations of the process; 0: too few are known. */
static double sends_of(const struct capo_job_process *p)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = capo_fabric_parse(p->fabric);
        uint64_t n = 0, sum = 0;

        for (size_t i = 0; f && i < f->n_domains; i++) {
                if (!strcmp(f->domains[i].provider, "shm")) /* memory of the node is no network */
                        continue;
                n += f->domains[i].tx.count;
                sum += f->domains[i].tx.sum_ns;
        }
        return n >= FEW_SENDS ? (double)sum / (double)n : 0;
}

static bool is_throttled(const struct capo_gpu_clocks *c, double others_mhz)
{
        double sm = capo_gpu_clocks_sm(c);
        bool held = false;

        for (int i = 0; i < CAPO_CLOCK_REASONS; i++)
                held |= capo_clock_reason_weight(i) == CAPO_CLOCK_SLOW && c->reason[i] &&
                        c->reason[i] >= c->busy / HELD_OFTEN;
        if (!c->busy)
                return false;
        if (others_mhz > 0)
                return sm < (held ? HELD_BELOW : CAPPED_BELOW) * others_mhz;
        return held && sm < HELD_BELOW * c->max_mhz;
}

/* Get the clocks of the late rank and of the others, from logs or @now. Returns whether they are
 * the cause. */
static bool by_clocks(const struct capo_job *job, const struct capo_job_comm *c, uint32_t late,
                      capo_clocks_now *now, struct capo_late_cause *out)
{
        uint32_t step = c->n_members / OTHERS + 1, n = 0;
        struct capo_gpu_clocks own, other;
        double mhz[OTHERS];

        if (!clocks_of(job, &c->members[late], now, &own))
                return false;
        for (uint32_t i = 0; i < c->n_members && n < OTHERS; i += step) {
                if (i != late && clocks_of(job, &c->members[i], now, &other) && other.busy)
                        mhz[n++] = capo_gpu_clocks_sm(&other);
        }
        out->clocks = own;
        out->now = now != NULL;
        out->others_mhz = capo_middle(mhz, n);
        return out->throttled = is_throttled(&own, out->others_mhz);
}

static bool by_network(const struct capo_job *job, const struct capo_job_comm *c, uint32_t late,
                       struct capo_late_cause *out)
{
        uint32_t step = c->n_members / OTHERS + 1, n = 0;
        double ns[OTHERS];

        out->sends_ns = sends_of(&job->processes[c->members[late].process]);
        for (uint32_t i = 0; out->sends_ns > 0 && i < c->n_members && n < OTHERS; i += step) {
                if (c->members[i].process != c->members[late].process &&
                    (ns[n] = sends_of(&job->processes[c->members[i].process])) > 0)
                        n++;
        }
        out->others_sends_ns = capo_middle(ns, n);
        return n && out->sends_ns > SLOW_SENDS * out->others_sends_ns;
}

struct capo_late_cause capo_late_cause(const struct capo_job *job, uint32_t comm, uint32_t late,
                                       capo_clocks_now *now)
{
        const struct capo_job_comm *c = &job->comms[comm];
        struct capo_late_cause cause = {0};

        if ((now && by_clocks(job, c, late, now, &cause)) || by_clocks(job, c, late, NULL, &cause))
                cause.by = CAPO_CAUSE_GPU;
        else if (by_network(job, c, late, &cause))
                cause.by = CAPO_CAUSE_NETWORK;
        else
                cause.by = c->skew->host_late ? CAPO_CAUSE_HOST : CAPO_CAUSE_GPU;
        return cause;
}

const char *capo_cause_name(enum capo_cause by)
{
        static const char *const names[] = {
                [CAPO_CAUSE_HOST] = "host",
                [CAPO_CAUSE_GPU] = "gpu",
                [CAPO_CAUSE_NETWORK] = "network",
        };

        return names[by];
}

char *capo_cause_print(const struct capo_late_cause *cause, char *text, size_t room)
{
        const struct capo_gpu_clocks *c = &cause->clocks;

        *text = 0;
        if (cause->by == CAPO_CAUSE_NETWORK)
                return capo_append(
                        text, room,
                        "its network is slow: what it posts takes %s to complete, the others' %s",
                        TEXT_TIME(cause->sends_ns), TEXT_TIME(cause->others_sends_ns));
        if (!cause->throttled)
                return text;
        capo_append(text, room, "its GPU is throttled%s: %.0f MHz", cause->now ? " now" : "",
                    capo_gpu_clocks_sm(c));
        capo_append(text, room, cause->others_mhz > 0 ? ", the others %.0f" : " of %.0f",
                    cause->others_mhz > 0 ? cause->others_mhz : c->max_mhz);
        if (c->celsius)
                capo_append(text, room, ", %u C", c->celsius);
        for (int i = 0, n = 0; i < CAPO_CLOCK_REASONS; i++) {
                if (capo_clock_reason_weight(i) == CAPO_CLOCK_IDLE || !c->reason[i])
                        continue;
                capo_append(text, room, "%s%s", n++ ? ", " : ": ", capo_clock_reason_words(i));
                if (!cause->now)
                        capo_append(text, room, " in %u of %u samples", c->reason[i], c->samples);
        }
        return text;
}
