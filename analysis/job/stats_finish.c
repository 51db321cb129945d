/* SPDX-License-Identifier: Apache-2.0 */
/* After the last log: assigns nodes, names communicators, sums counts. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analysis/job/skew.h"
#include "analysis/job/stats.h"
#include "analysis/job/stats_private.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "core/log/alive.h"
#include "core/log/info.h"

/* Corrects clocks of hosts that are minutes or hours apart: nobody set them, or one runs on local
 * time. Uncorrected, such a job would last from its begin by one clock to its end by another, and
 * all shares of its time would be wrong. The only evidence is communicator creation: on no rank
 * does it return before all ranks have entered it, and on all ranks it returns within moments. A
 * difference above APART_NS is the clocks'. A smaller one is ignored, because the call itself takes
 * time. */
#define APART_NS 60000000000

static bool same_string(const char *a, const char *b)
{
        return a == b || (a && b && !strcmp(a, b));
}

/* The clock of one booted kernel. */
struct clock {
        int64_t ahead_ns;     /* compared with the first clock */
        uint64_t creation_ns; /* of the communicator's creation; the latest on this clock */
        bool known;
};

/* The reference clock: this machine's if the job ran here (live ones are shown, too); else the first. */
static uint32_t first_clock(const struct capo_job *job)
{
        const struct capo_job_process *here;
        char boot[64] = "";

        capo_alive_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
        here = FIRST_OF(p, job->processes, *boot ? job->n_processes : 0,
                        same_string(capo_job_info(p, CAPO_INFO_BOOT_ID), boot));
        return here ? here->clock : job->processes[0].clock;
}

static struct clock *clock_of(const struct capo_job *job, const struct capo_job_member *m,
                              struct clock *clocks)
{
        return &clocks[job->processes[m->process].clock];
}

/* When the creation of @c returned, by clock. False: no use, as it does not wait for all. */
static bool set_init_times(const struct capo_job *job, const struct capo_job_comm *c,
                           struct clock *clocks)
{
        for (uint32_t k = 0; k < c->n_members; k++) {
                if (c->members[k].flags & CAPO_COMM_NONBLOCKING)
                        return false;
                clock_of(job, &c->members[k], clocks)->creation_ns = 0;
        }
        for (uint32_t k = 0; k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);

                clock->creation_ns = c->members[k].t_created_ns > clock->creation_ns
                                             ? c->members[k].t_created_ns
                                             : clock->creation_ns;
        }
        return true;
}

/* Use one communicator: if one of its clocks is known, set the others. Return: was one set? */
static bool align_clocks(const struct capo_job *job, const struct capo_job_comm *c,
                         struct clock *clocks)
{
        const struct clock *by = NULL;
        bool any_set = false;

        if (c->n_members < 2 || !set_init_times(job, c, clocks))
                return false;
        for (uint32_t k = 0; k < c->n_members && !by; k++)
                by = clock_of(job, &c->members[k], clocks)->known
                             ? clock_of(job, &c->members[k], clocks)
                             : NULL;
        for (uint32_t k = 0; by && k < c->n_members; k++) {
                struct clock *clock = clock_of(job, &c->members[k], clocks);
                int64_t ahead =
                        (int64_t)(clock->creation_ns - by->creation_ns + (uint64_t)by->ahead_ns);

                if (clock->known)
                        continue;
                clock->ahead_ns = ahead > APART_NS || ahead < -APART_NS ? ahead : 0;
                clock->known = any_set = true;
        }
        return any_set;
}

/* Convert times of hosts whose clocks are more than a minute apart to one clock. After the last log, when processes have nodes. Changes header.t0_real_ns and
 * ahead_ns of processes, and creation and end times of members.
 */
static void job_set_clocks(struct capo_job *job)
{
        _cleanup_free_ struct clock *clocks = xcalloc(job->n_clocks + 1, sizeof *clocks);

        if (job->n_clocks < 2)
                return;
        job->clock = first_clock(job);
        clocks[job->clock].known = true;
        for (bool any_set = true; any_set;) {
                any_set = false;
                for (uint32_t i = 0; i < job->n_comms; i++)
                        any_set |= align_clocks(job, &job->comms[i], clocks);
        }
        for (uint32_t i = 0; i < job->n_processes; i++) {
                struct capo_job_process *p = &job->processes[i];

                p->ahead_ns = clocks[p->clock].ahead_ns;
                p->header.t0_real_ns -= (uint64_t)p->ahead_ns;
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++) {
                        struct capo_job_member *m = &job->comms[i].members[k];
                        uint64_t ahead = (uint64_t)job->processes[m->process].ahead_ns;

                        m->t_created_ns -= ahead;
                        m->t_destroyed_ns -= m->t_destroyed_ns ? ahead : 0;
                }
        }
}

/* Where a process says that it runs. */
struct place {
        const char *id, *boot, *host;
};

static uint32_t find_node(struct capo_job *job, const struct place *at)
{
        bool given = at->id && *at->id; /* not by pointers: equal texts are one */
        const char *name = given ? at->id : at->host, *boot = !given && at->boot ? at->boot : "";
        char *key = xprintf("%s\n%s", name, boot);
        uint32_t k = 0;

        while (k < job->n_nodes && strcmp(job->nodes[k].key, key) != 0)
                k++;
        if (k == job->n_nodes)
                *xadd(job->nodes, job->n_nodes) =
                        (struct capo_job_node){.key = steal(&key), .name = xstrdup(name)};
        free(key);
        return k;
}

/* A log that was cut has only a host name: it matches the place with that name. */
static bool is_same_place(const struct place *a, const struct place *b)
{
        return same_string(a->host, b->host) &&
               ((!b->boot && !b->id) ||
                (same_string(a->boot, b->boot) && same_string(a->id, b->id)));
}

/* The distinct places, by number. */
struct places {
        struct place *of; /* by process */
        uint32_t *first, n;
};

static void place_process(struct capo_job *job, struct places *places, uint32_t i)
{
        struct capo_job_process *p = &job->processes[i];
        const struct place *at = &places->of[i];
        uint32_t k = places->n;

        while (k > 0 && !is_same_place(&places->of[places->first[k - 1]], at))
                k--;
        if (k) {
                p->node = job->processes[places->first[k - 1]].node;
                p->clock = job->processes[places->first[k - 1]].clock;
                job->nodes[p->node].n_processes++;
                return;
        }
        p->node = find_node(job, at);
        job->nodes[p->node].n_processes++;
        p->clock = job->n_clocks;
        for (k = 0; k < places->n; k++) {
                const struct place *other = &places->of[places->first[k]];

                if (at->boot && other->boot ? same_string(at->boot, other->boot)
                                            : same_string(at->host, other->host)) {
                        p->clock = job->processes[places->first[k]].clock;
                        break;
                }
        }
        job->n_clocks += p->clock == job->n_clocks;
        places->first[places->n++] = i;
}

/* Number nodes as NCCL counts them, and clocks: one per booted kernel. Logs of one place mostly
 * follow each other; cut logs are handled last. */
static void place_processes(struct capo_job *job)
{
        _cleanup_free_ struct place *of = xcalloc(job->n_processes + 1, sizeof *of);
        _cleanup_free_ uint32_t *first = xcalloc(job->n_processes + 1, sizeof *first);
        struct places places = {of, first, 0};

        for (uint32_t i = 0; i < job->n_processes; i++) {
                struct capo_job_process *p = &job->processes[i];
                const char *rank = capo_job_info(p, CAPO_INFO_RANK);

                if (rank)
                        p->rank = atoi(rank);
                of[i] = (struct place){capo_job_info(p, CAPO_INFO_NCCL_HOSTID),
                                       capo_job_info(p, CAPO_INFO_BOOT_ID), p->host};
        }
        for (int cut = 0; cut < 2; cut++) {
                for (uint32_t i = 0; i < job->n_processes; i++) {
                        if ((!of[i].boot && !of[i].id) == cut)
                                place_process(job, &places, i);
                }
        }
}

CAPO_ORDERED(by_rank, struct capo_job_member, CAPO_ORDER(a->rank, b->rank),
             CAPO_ORDER(a->process, b->process), a->id - b->id);

/* Permutation of the communicators: `moved` maps an old index to the new one. */
struct order {
        struct capo_job_comm comm;
        struct capo_meet *meet;
        uint64_t created;
        uint32_t was;
};

CAPO_ORDERED(by_size_and_age, struct order, CAPO_ORDER(b->comm.n_ranks, a->comm.n_ranks),
             a->comm.n_members && b->comm.n_members
                     ? CAPO_ORDER(a->comm.members[0].process, b->comm.members[0].process)
                     : 0,
             CAPO_ORDER(a->created, b->created), CAPO_ORDER(a->comm.uid, b->comm.uid));

static void follow_move(uint32_t *comm, const uint32_t *moved)
{
        *comm = *comm == CAPO_NO_COMM ? CAPO_NO_COMM : moved[*comm];
}

static void sort_comms(struct capo_job *job)
{
        _cleanup_free_ struct order *order = xcalloc(job->n_comms + 1, sizeof *order);
        _cleanup_free_ uint32_t *moved = xcalloc(job->n_comms + 1, sizeof *moved);

        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                CAPO_SORT(c->members, c->n_members, by_rank);
                order[i] = (struct order){*c, job->scratch->meets[i], UINT64_MAX, i};
                for (uint32_t k = 0; k < c->n_members; k++) {
                        if (c->members[k].t_created_ns < order[i].created)
                                order[i].created = c->members[k].t_created_ns;
                }
        }
        CAPO_SORT(order, job->n_comms, by_size_and_age);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                moved[order[i].was] = i;
                job->comms[i] = order[i].comm;
                job->scratch->meets[i] = order[i].meet;
        }
        for (uint32_t i = 0; i < job->n_comms; i++)
                follow_move(&job->comms[i].parent, moved);
        for (uint32_t i = 0; i < job->n_rows; i++)
                follow_move(&job->rows[i].comm, moved);
        for (uint32_t i = 0; i < job->n_failures; i++)
                follow_move(&job->failures[i].comm, moved);
}

/* Ranks per node of the members seen; "" if there are more node sizes than a layout can hold. */
static void lay_out(struct capo_job *job, struct capo_job_comm *c)
{
        _cleanup_free_ uint32_t *counts = xcalloc(job->n_nodes + 1, sizeof *counts);
        struct capo_layout layout = {0};
        char text[CAPO_LAYOUT_TEXT];
        bool known = true;

        for (uint32_t i = 0; i < c->n_members; i++)
                counts[job->processes[c->members[i].process].node]++;
        for (uint32_t i = 0; i < c->n_members; i++) { /* by rank, so by each node's lowest one */
                uint32_t *on = &counts[job->processes[c->members[i].process].node];

                c->n_nodes += *on != 0;
                if (*on && capo_layout_add(&layout, *on, 1) < 0)
                        known = false;
                *on = 0;
        }
        if (!known)
                layout = (struct capo_layout){0};
        c->layout = xstrdup(capo_layout_print(&layout, text, sizeof text));
}

/* Names given so far, by hash: whole ones, and per text before a "#" how many begin so. */
struct names {
        uint32_t *count, n; /* count: by number in the index */
        struct job_index index;
};

static void names_finish(struct names *names) { xfree(names->count, names->index.slots); }

enum { WHOLE = 1, BEGINNING = 2 }; /* the two kinds of hash */

/* How often there is the @n bytes of @name so far. */
static uint32_t *names_count(struct names *names, const char *name, size_t n, uint64_t of)
{
        uint64_t hash = XXH3_64bits_withSeed(name, n, of);
        uint32_t at = 0, i = job_index_next(&names->index, hash, &at);

        if (i == JOB_INDEX_END) {
                i = names->n;
                job_index_enter(&names->index, hash, i);
                *xadd(names->count, names->n) = 0;
        }
        return &names->count[i];
}

static void names_add(struct names *names, const char *name)
{
        size_t n = strcspn(name, "#"), whole = strlen(name);

        ++*names_count(names, name, whole, WHOLE);
        for (unsigned parts = 0; name[n] && parts < 16; parts++) {
                ++*names_count(names, name, n, BEGINNING);
                n += 1 + strcspn(name + n + 1, "#");
        }
        ++*names_count(names, name, whole, BEGINNING);
}

enum { PARENT = 200 }; /* longer names of parents are not put into names of children */

/* The program's names stay; others are of parent and colour. Duplicates get "#2", "#3", ... */
static void name_comm(struct capo_job *job, uint32_t i, struct names *names)
{
        struct capo_job_comm *c = &job->comms[i];
        _cleanup_free_ char *base = c->name;
        char number[16];

        c->name = NULL;
        snprintf(number, sizeof number, "%d", c->color);
        if (!base && c->parent < i && strlen(job->comms[c->parent].name) < PARENT)
                base = xprintf("%s/%s", job->comms[c->parent].name,
                               c->color >= 0 ? number : "split");
        else if (!base)
                base = c->n_ranks == 1              ? xstrdup("self")
                       : c->n_ranks == job->n_ranks ? xstrdup("world")
                                                    : xprintf("comm%u", i);
        for (uint32_t k = *names_count(names, base, strlen(base), BEGINNING) + 1; !c->name; k++) {
                char *name = k == 1 ? xstrdup(base) : xprintf("%s#%u", base, k);

                if (*names_count(names, name, strlen(name), WHOLE))
                        free(name);
                else
                        c->name = name;
        }
        names_add(names, c->name);
}

CAPO_ORDERED(by_key, struct capo_job_row, CAPO_ORDER(a->comm, b->comm),
             CAPO_ORDER(a->call, b->call), CAPO_ORDER(a->bytes, b->bytes),
             CAPO_ORDER(a->algo_proto, b->algo_proto), CAPO_ORDER(a->channels, b->channels),
             CAPO_ORDER(a->rule, b->rule), CAPO_ORDER(a->flags, b->flags));

CAPO_ORDERED(by_host_time, struct capo_job_site, CAPO_ORDER(b->host_ns, a->host_ns),
             strcmp(a->text, b->text));

static void add_up(struct capo_job *job)
{
        double cost = 0;
        uint32_t n_cost = 0;

        job->t_begin_ns = UINT64_MAX;
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                uint64_t end = p->header.t0_real_ns + p->last_ns;

                job->t_begin_ns = p->header.t0_real_ns < job->t_begin_ns ? p->header.t0_real_ns
                                                                         : job->t_begin_ns;
                job->t_end_ns = end > job->t_end_ns ? end : job->t_end_ns;
                job->n_records += p->n_records;
                job->calls += p->end.calls;
                job->dropped += p->end.dropped;
                job->gpu_dropped += p->end.gpu_dropped;
                job->shape_overflow += p->end.shape_overflow;
                job->bytes_lost += p->end.bytes_lost;
                cost += p->end.cost_ns > 0 ? p->end.cost_ns : 0;
                n_cost += p->end.cost_ns > 0;
        }
        if (!job->n_processes)
                job->t_begin_ns = 0;
        job->cost_ns = n_cost ? cost / n_cost : 0;
}

/* The number of ranks of the job, from whatever the logs tell. If the launcher counts processes
 * with several GPUs, its numbers are not NCCL's: then a process has the number of its first rank in
 * the communicator of all ranks. */
static void count_ranks(struct capo_job *job)
{
        int32_t largest = 0, launched = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const char *world = capo_job_info(&job->processes[i], CAPO_INFO_WORLD_SIZE);

                if (world && atoi(world) > launched)
                        launched = atoi(world);
        }
        for (uint32_t i = 0; i < job->n_comms; i++)
                largest = job->comms[i].n_ranks > largest ? job->comms[i].n_ranks : largest;
        job->n_ranks = launched > largest ? launched
                       : largest > 0      ? largest
                                          : (int32_t)job->n_processes;
        for (uint32_t i = 0; i < job->n_processes && launched > 0 && launched < largest; i++)
                job->processes[i].rank = -1;
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                for (uint32_t k = 0; k < c->n_members && c->n_ranks == job->n_ranks; k++) {
                        if (job->processes[c->members[k].process].rank < 0)
                                job->processes[c->members[k].process].rank = c->members[k].rank;
                }
        }
}

/* A process with several GPUs is several ranks, numbered in the communicator of all. */
static void number_members(struct capo_job *job)
{
        const struct capo_job_comm *world =
                job->n_comms && job->comms[0].n_ranks == job->n_ranks ? &job->comms[0] : NULL;
        _cleanup_free_ uint32_t *first = xcalloc(job->n_processes + 1, sizeof *first);
        _cleanup_free_ uint32_t *next = xcalloc(world ? world->n_members + 1 : 1, sizeof *next);

        for (uint32_t i = world ? world->n_members : 0; i-- > 0;) {
                next[i] = first[world->members[i].process];
                first[world->members[i].process] = i + 1;
        }
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t i = 0; i < job->comms[c].n_members; i++) {
                        struct capo_job_member *m = &job->comms[c].members[i];
                        uint32_t in = first[m->process];

                        m->job_rank = job->processes[m->process].rank;
                        if (!world || !in || !next[in - 1])
                                continue;
                        while (in && world->members[in - 1].device != m->device)
                                in = next[in - 1];
                        m->job_rank = in ? world->members[in - 1].rank : -1;
                }
        }
}

void capo_job_finish(struct capo_job *job)
{
        _cleanup_(names_finish) struct names names = {0};

        place_processes(job);
        job_set_clocks(job);
        sort_comms(job);
        count_ranks(job);
        number_members(job);
        job_list_uses(job);
        add_up(job);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                name_comm(job, i, &names);
                lay_out(job, &job->comms[i]);
        }
        for (uint32_t i = 0; i < job->n_rows; i++) {
                struct capo_job_row *row = &job->rows[i];
                enum capo_call_kind kind = capo_call_kind(row->call);

                job_tally(row);
                if (kind == CAPO_KIND_P2P || kind == CAPO_KIND_RMA)
                        row->count = row->calls;
                else if (kind != CAPO_KIND_OTHER && kind != CAPO_KIND_GROUP &&
                         row->comm != CAPO_NO_COMM) {
                        job->comms[row->comm].n_calls += row->count;
                        if (row->flags & CAPO_RECORD_CAPTURED)
                                job->comms[row->comm].n_captured += row->count;
                }
        }
        CAPO_SORT(job->rows, job->n_rows, by_key);
        CAPO_SORT(job->sites, job->n_sites, by_host_time);
        job_meet_long(job);
        capo_skew_solve(job, job->scratch->meets);
        for (uint32_t i = 0; i < job->n_comms; i++) /* 3 KB for each rank */
                capo_meet_free(steal(&job->scratch->meets[i]));
}
