/* SPDX-License-Identifier: Apache-2.0 */
/* An all-reduce on each node, then over all nodes. If that is slow or fails, over halves of them,
 * down to pairs. Slow means below half of the links' ceiling or, if the links are not known, below
 * half of the best group in the same round.
 *
 * Node 0 decides. It writes "plan" R to the shared folder with the groups of round R, or an empty
 * list at the end; the first node of each group writes "done" R.G with its result. */
#include <math.h>

#include "capo/collectives.h"
#include "capo/msg.h"
#include "cli/check/check.h"
#include "cli/check/check_folder.h"
#include "profiles/reduce/reduce.h"
#include "core/base/among.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/bound.h"

enum { POLL_US = 20000, GROUPS = 4096, CEILING_RANKS = 32 };
#define SLOW 0.5 /* share of the ceiling, or of the best group */

struct meeting {
        const struct check_options *o;
        const char *libnccl;
        json_int_t run;
        int round, group, gpus;
};

static const char *name_meeting(const struct meeting *m, const char *what, char path[4096])
{
        snprintf(path, 4096, "%s/capo-reduce-%llx-%s%d.%d", m->o->dir, (unsigned long long)m->run,
                 what, m->round, m->group);
        return path;
}

static int put_file(const struct meeting *m, const char *what, json_t *json)
{
        char path[4096];
        int r = check_folder_write(name_meeting(m, what, path), json);

        json_decref(json);
        return r;
}

static json_t *await_file(const struct meeting *m, const char *what, double seconds)
{
        double until = (double)capo_clock_mono() / 1e9 + seconds;
        json_t *json = NULL;
        char path[4096];

        name_meeting(m, what, path);
        while (!json && (double)capo_clock_mono() / 1e9 < until) {
                json = check_folder_read(path);
                usleep(json ? 0 : POLL_US);
        }
        return json;
}

static int put_id(const struct reduce_id *id, void *meeting)
{
        char text[2 * REDUCE_ID + 1];

        for (int i = 0; i < REDUCE_ID; i++)
                snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
        return put_file(meeting, "id", json_pack("{s:s}", "id", text));
}

static int get_id(struct reduce_id *id, void *meeting)
{
        const struct meeting *m = meeting;
        json_t *json = await_file(m, "id", m->o->wait_s);
        const char *text = json_string_value(json_object_get(json, "id"));
        bool good = text && strlen(text) == 2 * REDUCE_ID;

        for (int i = 0; good && i < REDUCE_ID; i++)
                good = sscanf(text + 2 * i, "%2hhx", (unsigned char *)&id->bytes[i]) == 1;
        json_decref(json);
        return good ? 0 : -EIO;
}

static double bus_bandwidth(uint64_t bytes, int ranks, double seconds)
{
        return (double)bytes / seconds * 2 * (ranks - 1) / ranks / 1e9;
}

/* Highest possible busbw on @nodes machines like this, or on as many as can be computed quickly: more
 * nodes have no higher ceiling. 0: not known. */
static double find_ceiling(int nodes, int gpus)
{
        static double known[CEILING_RANKS + 1];
        static bool asked[CEILING_RANKS + 1];
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct capo_plan_gpu ranks[CEILING_RANKS];
        struct fragment_bound bound;
        char why[512];
        size_t n = 0;

        if (nodes * gpus > CEILING_RANKS)
                nodes = gpus <= CEILING_RANKS / 2 ? CEILING_RANKS / gpus : 0;
        if (!nodes || asked[nodes])
                return known[nodes];
        asked[nodes] = true;
        if (capo_topology_this_machine(0, &t, why, sizeof why) < 0 || t->n_gpus < (size_t)gpus ||
            (nodes > 1 && !ANY_OF(nic, t->nics, t->n_nics, nic->gdr)))
                return 0; /* without verbs, or NVML, a NIC's speed may be NCCL's guess of 10 Gb/s */
        for (int node = 0; node < nodes; node++) {
                for (int i = 0; i < gpus; i++)
                        ranks[n++] =
                                (struct capo_plan_gpu){(uint16_t)node, (uint16_t)t->gpus[i].dev};
        }
        if (fragment_bound(t, ranks, n, &bound) == 0)
                known[nodes] = bound.busbw_gbs[CAPO_COLL_ALLREDUCE];
        return known[nodes];
}

static struct reduce_ask ask_of(const struct check_options *o, const char *libnccl, int gpus)
{
        return (struct reduce_ask){.libnccl = *libnccl ? libnccl : "libnccl.so.2",
                                   .bytes = o->bytes,
                                   .gpus = gpus,
                                   .all = gpus,
                                   .limit_s = o->wait_s};
}

void check_reduce_node(json_t *rows, const struct check_options *o, const char *libnccl)
{
        int gpus = reduce_gpus();
        struct reduce_ask ask = ask_of(o, libnccl, gpus);
        double seconds, gbs, ceiling;
        char why[300];

        if (!gpus) {
                check_finding(rows, CAPO_FINDING_FAIL, "all-reduce", "the driver shows no GPU");
                return;
        }
        if (reduce_run(&ask, &seconds, why, sizeof why) < 0) {
                check_finding(rows, CAPO_FINDING_FAIL, "all-reduce", "%d GPUs: %s", gpus, why);
                return;
        }
        if (gpus == 1)
                return;
        gbs = bus_bandwidth(o->bytes, gpus, seconds);
        ceiling = find_ceiling(1, gpus);
        if (ceiling > 0)
                check_finding(
                        rows, gbs < SLOW * ceiling ? CAPO_FINDING_WARN : CAPO_FINDING_OK,
                        "all-reduce",
                        "%s over %d GPUs: %.3g GB/s busbw, %.0f %% of the ceiling of the links (%.3g)",
                        o->size, gpus, gbs, 100 * gbs / ceiling, ceiling);
        else
                check_finding(rows, CAPO_FINDING_OK, "all-reduce",
                              "%s over %d GPUs: %.3g GB/s busbw; the links are not known", o->size,
                              gpus, gbs);
}

/* Take part in a round; the first node of a group writes the result. */
static void take_part(struct meeting *m, const json_t *plan, int index)
{
        const json_t *groups = json_object_get(plan, "groups"), *group, *member;
        int gpus = (int)json_integer_value(json_object_get(plan, "gpus"));
        size_t g, i;

        json_array_foreach(groups, g, group)
        {
                struct reduce_ask ask = ask_of(m->o, m->libnccl, gpus);
                int place = -1;
                double seconds = 0;
                char why[300] = "";

                json_array_foreach(group, i, member)
                {
                        if (json_integer_value(member) == index)
                                place = (int)i;
                }
                if (place < 0)
                        continue;
                m->group = (int)g;
                ask.first = place * gpus;
                ask.all = (int)json_array_size(group) * gpus;
                ask.put = put_id;
                ask.get = get_id;
                ask.arg = m;
                reduce_run(&ask, &seconds, why, sizeof why);
                if (!place)
                        put_file(m, "done",
                                 json_pack("{s:f, s:s}", "seconds", seconds, "why", why));
                else if (*why) /* the first node of the group does not know this */
                        capo_warn("check: node %d in round %d: %s", index, m->round, why);
        }
}

int check_follow(const struct check_options *o, const json_t *node, const char *libnccl)
{
        struct meeting m = {.o = o,
                            .libnccl = libnccl,
                            .run = json_integer_value(json_object_get(node, "run"))};
        int index = (int)json_integer_value(json_object_get(node, "index"));

        for (;; m.round++, m.group = 0) {
                json_t *plan = await_file(&m, "plan", 3 * o->wait_s);

                if (!json_array_size(json_object_get(plan, "groups")))
                        return plan ? 0 : -ETIMEDOUT;
                take_part(&m, plan, index);
        }
}

/* A group of this round, on node 0. */
struct group {
        json_t *members;
        double gbs; /* 0: it failed */
        char why[300];
        bool bad;
};

static void run_round(struct meeting *m, struct group *groups, size_t n)
{
        json_t *lists = json_array(), *plan;
        double best = 0;
        char path[4096];

        for (size_t g = 0; g < n; g++)
                json_array_append(lists, groups[g].members);
        plan = json_pack("{s:i, s:o}", "gpus", m->gpus, "groups", lists);
        m->group = 0;
        put_file(m, "plan", json_incref(plan));
        take_part(m, plan, 0);
        json_decref(plan);
        for (struct group *g = groups; g < PAST_OF(groups, n); g++) {
                const char *why = NULL;
                double seconds = 0;
                json_t *done;

                m->group = (int)(g - groups);
                done = await_file(m, "done", 2 * m->o->wait_s);
                json_unpack(done, "{s:f, s:s}", "seconds", &seconds, "why", &why);
                snprintf(g->why, sizeof g->why, "%s", why ?: "its first node did not answer");
                if (seconds > 0)
                        g->gbs = bus_bandwidth(m->o->bytes,
                                               m->gpus * (int)json_array_size(g->members), seconds);
                best = fmax(best, g->gbs);
                json_decref(done);
                unlink(name_meeting(m, "done", path));
                unlink(name_meeting(m, "id", path));
        }
        for (struct group *g = groups; g < PAST_OF(groups, n); g++) {
                double ceiling = find_ceiling((int)json_array_size(g->members), m->gpus);

                g->bad = g->gbs < SLOW * (ceiling > 0 ? ceiling : best) || g->gbs <= 0;
        }
}

static json_t *half_of(const json_t *members, bool second)
{
        size_t n = json_array_size(members), i;
        json_t *half = json_array(), *member;

        json_array_foreach(members, i, member)
        {
                if ((i >= (n + 1) / 2) == second)
                        json_array_append(half, member);
        }
        return half;
}

static void say_group(json_t *rows, const struct group *g, const json_t *names, const char *size)
{
        json_t *members = json_array(), *member;
        char list[400];
        size_t i;

        json_array_foreach(g->members, i, member) json_array_append(
                members, json_array_get(names, (size_t)json_integer_value(member)));
        check_list(members, list);
        if (g->gbs > 0)
                check_finding(rows, g->bad ? CAPO_FINDING_WARN : CAPO_FINDING_NOTE, "all-reduce",
                              "%s over %zu nodes (%s): %.3g GB/s busbw%s", size,
                              json_array_size(members), list, g->gbs,
                              g->bad ? ", less than half of the ceiling or of other nodes" : "");
        else
                check_finding(rows, CAPO_FINDING_FAIL, "all-reduce", "%s over %zu nodes (%s): %s",
                              size, json_array_size(members), list, g->why);
        json_decref(members);
}

/* The groups of the next round: the halves of bad groups. Pairs, and groups whose halves are good,
 * are not split further. Return: number of groups. */
static size_t split_groups(const struct group *groups, size_t n, bool all, struct group *next)
{
        size_t n_next = 0;

        for (size_t g = 0; g < n; g++) {
                if (!(groups[g].bad || all) || json_array_size(groups[g].members) < 3)
                        continue;
                for (int second = 0; second < 2 && n_next < GROUPS; second++) {
                        json_t *half = half_of(groups[g].members, second);

                        if (json_array_size(half) <
                            2) { /* a single node is paired with one of the other half */
                                json_t *first = half_of(groups[g].members, !second);

                                json_array_append(half, json_array_get(first, 0));
                                json_decref(first);
                        }
                        next[n_next++] = (struct group){.members = half};
                }
        }
        return n_next;
}

/* Run the rounds, and add a finding for each group that is good in the first round, or bad and not
 * divisible. */
static void bisect_nodes(struct meeting *m, json_t *rows, const json_t *names)
{
        struct group *now = xcalloc(GROUPS, sizeof *now), *next = xcalloc(GROUPS, sizeof *next);
        size_t n = 1;

        now[0].members = json_array();
        for (size_t i = 0; i < json_array_size(names); i++)
                json_array_append_new(now[0].members, json_integer((json_int_t)i));
        for (; n; m->round++) {
                struct group *swap = now;
                bool known = find_ceiling((int)json_array_size(now[0].members), m->gpus) > 0;
                size_t n_next;

                run_round(m, now, n);
                /* without a ceiling, halves are needed for comparison */
                n_next = split_groups(now, n, !m->round && !known, next);
                for (size_t g = 0; g < n; g++) {
                        if (!m->round || (now[g].bad && json_array_size(now[g].members) < 3))
                                say_group(rows, &now[g], names, m->o->size);
                        json_decref(now[g].members);
                }
                now = next;
                next = swap;
                n = n_next;
        }
        free(now);
        free(next);
}

void check_lead(const struct check_options *o, json_t *nodes, const char *libnccl)
{
        json_t *first = json_array_get(nodes, 0), *names = json_array(), *node;
        struct meeting m = {.o = o,
                            .libnccl = libnccl,
                            .run = json_integer_value(json_object_get(first, "run")),
                            .gpus = reduce_gpus()};
        size_t n = json_array_size(nodes), i;

        for (i = 0; i < n; i++) { /* they arrived in any order */
                size_t k;

                json_array_foreach(nodes, k, node)
                {
                        if (json_integer_value(json_object_get(node, "index")) == (json_int_t)i)
                                json_array_append(names, json_object_get(node, "node"));
                }
        }
        if (n > 1 && m.gpus && json_array_size(names) == n)
                bisect_nodes(&m, json_object_get(first, "findings"), names);
        m.group = 0;
        put_file(&m, "plan", json_pack("{s:[]}", "groups"));
}
