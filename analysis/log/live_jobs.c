/* SPDX-License-Identifier: Apache-2.0 */
/* The first part of each log is mostly enough: its communicators are there. Only if that leaves
 * more than one job are the logs read to the end, for communicators made late and for end times. */
#include "capo/frame_types.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "analysis/log/info_read.h"
#include "analysis/log/live_jobs.h"

#define HEAD       ((uint64_t)256 << 10)
#define NEAR_BY_NS 60000000000u /* clocks of hosts differ, and a killed rank has no end time */

/* What a log tells about its job. */
struct said {
        const char *path;
        size_t n_folder;     /* bytes of the path that name its folder */
        bool readable, many; /* many: it has a communicator of several ranks */
        int rank, n_ranks;   /* from the launcher; -1: not set */
        char job[64];
        uint64_t begin_ns, end_ns;
        uint32_t group; /* the first log of its group */
        uint32_t next;  /* the next log of its group; CAPO_LOG_NO_JOB: the last */
};

struct use {
        uint64_t uid;
        uint32_t log;
};

struct all {
        struct capo_log_paths *paths;
        struct said *log;
        uint32_t n;
        struct use *use;
        size_t n_uses;
};

static void take_info(struct said *s, const struct capo_log_frame *f)
{
        struct capo_info_line line;
        char value[sizeof s->job];
        size_t at = 0;

        while (capo_info_next(f, &at, &line)) {
                capo_info_value(&line, value, sizeof value);
                if (capo_info_is(&line, CAPO_INFO_RANK))
                        s->rank = (int)strtol(value, NULL, 10);
                else if (capo_info_is(&line, CAPO_INFO_WORLD_SIZE))
                        s->n_ranks = (int)strtol(value, NULL, 10);
                else if (capo_info_is(&line, CAPO_INFO_JOB))
                        strcpy(s->job, value);
        }
}

/* Read the first @most bytes of a log. An unreadable log is marked. */
static void scan_log(struct all *all, uint32_t i, uint64_t most)
{
        struct said *s = &all->log[i];
        struct capo_log *log;
        struct capo_log_frame f;
        char why[512];
        uint64_t seen_ns = 0;

        if (capo_log_paths_open(all->paths, i, &log, why, sizeof why) < 0)
                return;
        s->readable = true;
        s->rank = s->n_ranks = -1;
        s->begin_ns = s->end_ns = capo_log_header(log)->t0_real_ns;
        while (capo_log_position(log) < most && capo_log_next(log, &f) > 0) {
                struct capo_log_columns columns;
                struct capo_log_comm comm;
                struct capo_log_end end;
                const char *name;

                if (f.type == CAPO_FRAME_INFO) {
                        take_info(s, &f);
                } else if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &columns) == 0) {
                        seen_ns = columns.base;
                } else if (f.type == CAPO_FRAME_END && capo_log_end(&f, &end) == 0 &&
                           end.clean != 2) {
                        seen_ns = end.t_ns;
                } else if (f.type == CAPO_FRAME_COMM && capo_log_comm(&f, &comm, &name) == 0) {
                        s->many |= comm.n_ranks > 1;
                        if (comm.uid)
                                *xadd(all->use, all->n_uses) = (struct use){comm.uid, i};
                }
                s->end_ns = s->begin_ns + seen_ns > s->end_ns ? s->begin_ns + seen_ns : s->end_ns;
        }
        capo_log_park(log);
}

/* A group is named by its first log. */
static uint32_t group_of(struct all *all, uint32_t i)
{
        while (all->log[i].group != i)
                i = all->log[i].group = all->log[all->log[i].group].group;
        return i;
}

CAPO_ORDERED(by_uid, struct use, CAPO_ORDER(a->uid, b->uid), CAPO_ORDER(a->log, b->log));

static void read_all(struct all *all, uint64_t most)
{
        all->n_uses = 0;
        free(all->use);
        all->use = NULL;
        for (uint32_t i = 0; i < all->n; i++)
                scan_log(all, i, most);
        CAPO_SORT(all->use, all->n_uses, by_uid);
        for (size_t i = 1; i < all->n_uses; i++) {
                uint32_t a = group_of(all, all->use[i].log), b = group_of(all, all->use[i - 1].log);

                if (all->use[i].uid == all->use[i - 1].uid)
                        all->log[a > b ? a : b].group = a > b ? b : a;
        }
}

struct group {
        uint32_t first, last, n; /* logs, linked by said.next */
        uint64_t begin_ns, end_ns;
};

/* Can the groups @a and @b, which share no communicator, be of one job? Two logs with the same rank
 * can: one may be of a helper process, which is in no communicator of several ranks. */
static bool may_be_one(const struct group *a, const struct said *x, const struct group *b,
                       const struct said *y)
{
        bool have_ranks = x->rank >= 0 && y->rank >= 0,
             together = x->n_folder == y->n_folder && !memcmp(x->path, y->path, x->n_folder);
        uint64_t slack = have_ranks && x->rank != y->rank ? NEAR_BY_NS : 0;

        if (a->begin_ns > b->end_ns + slack || b->begin_ns > a->end_ns + slack ||
            strcmp(x->job, y->job) != 0)
                return false;
        if (have_ranks &&
            (x->n_ranks != y->n_ranks || (x->rank == y->rank && (x->many == y->many || !together))))
                return false;
        return together || (have_ranks && x->n_ranks > 1);
}

static bool groups_are_one(const struct said *log, const struct group *a, const struct group *b)
{
        for (uint32_t i = a->first; i != CAPO_LOG_NO_JOB; i = log[i].next) {
                for (uint32_t k = b->first; k != CAPO_LOG_NO_JOB; k = log[k].next) {
                        if (!may_be_one(a, &log[i], b, &log[k]))
                                return false;
                }
        }
        return true;
}

static void take_over(struct said *log, struct group *to, struct group *from)
{
        log[to->last].next = from->first;
        to->last = from->last;
        to->n += from->n;
        to->begin_ns = from->begin_ns < to->begin_ns ? from->begin_ns : to->begin_ns;
        to->end_ns = from->end_ns > to->end_ns ? from->end_ns : to->end_ns;
        from->n = 0;
}

CAPO_ORDERED(by_begin, struct group, CAPO_ORDER(a->begin_ns, b->begin_ns),
             CAPO_ORDER(a->first, b->first));

/* Move groups with logs to the front, oldest first. Return: how many. */
static uint32_t in_order(struct group *group, uint32_t n)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < n; i++) {
                if (group[i].n)
                        group[kept++] = group[i];
        }
        qsort(group, kept, sizeof *group, by_begin);
        return kept;
}

/* Groups of logs that communicators connect; those of one job, maybe, join. Return: how many. */
static uint32_t make_groups(struct all *all, struct group *group)
{
        uint32_t n;

        for (uint32_t i = 0; i < all->n; i++) {
                struct said *s = &all->log[i];
                struct group own = {i, i, s->readable, s->begin_ns, s->end_ns},
                             *of = &group[group_of(all, i)];

                s->next = CAPO_LOG_NO_JOB;
                if (of->n)
                        take_over(all->log, of, &own);
                else if (s->readable)
                        *of = own;
        }
        n = in_order(group, all->n);
        for (bool joined = true; joined;) { /* until no group can be joined */
                joined = false;
                for (uint32_t a = 0; a < n; a++) {
                        for (uint32_t b = a + 1; b < n; b++) {
                                if (!group[a].n || !group[b].n ||
                                    !groups_are_one(all->log, &group[a], &group[b]))
                                        continue;
                                take_over(all->log, &group[a], &group[b]);
                                joined = true;
                        }
                }
        }
        return in_order(group, n);
}

int capo_log_jobs(struct capo_log_paths *paths, uint32_t *job, struct capo_log_job **jobs)
{
        const size_t n = paths->n;
        struct all all = {.paths = paths, .log = xcalloc(n + 1, sizeof *all.log), .n = (uint32_t)n};
        _cleanup_free_ struct group *group = xcalloc(n + 1, sizeof *group);
        uint32_t n_groups;

        for (uint32_t i = 0; i < n; i++) {
                const char *path = paths->path[i];

                all.log[i] = (struct said){
                        .path = path, .n_folder = capo_log_folder_size(path), .group = i};
                job[i] = CAPO_LOG_NO_JOB;
        }
        read_all(&all, HEAD);
        if (COUNT_OF(s, all.log, all.n,
                     s->readable && group_of(&all, (uint32_t)(s - all.log)) == s - all.log) > 1)
                read_all(&all, UINT64_MAX);
        n_groups = make_groups(&all, group);
        *jobs = xcalloc(n_groups + 1, sizeof **jobs);
        for (uint32_t g = 0; g < n_groups; g++) {
                (*jobs)[g] = (struct capo_log_job){group[g].begin_ns, group[g].end_ns, group[g].n};
                for (uint32_t i = group[g].first; i != CAPO_LOG_NO_JOB; i = all.log[i].next)
                        job[i] = g;
        }
        xfree(all.log, all.use);
        return (int)n_groups;
}
