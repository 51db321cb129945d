/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side: writes the question, starts one worker per node, watches them, reads the
 * answer, and cleans up. A worker runs foreign code with parts replaced, so it gets nothing that it
 * could damage: its own folder, a memory file, a time limit. */
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/among.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan_answer.h"
#include "profiles/plan/plan_machine.h"

enum { TIMEOUT_MS = 60000, RANK_MS = 1000 };

#define MESSAGES_BYTES (16ull << 30) /* address space; only written pages take memory */

struct run {
        const struct capo_plan_question *q;
        struct plan_job *job;
        int fd;
        char folder[64];
        pid_t pids[PLAN_MAX_NODES]; /* 0: ended */
        char *why;
        size_t room;
};

#define say(run, rc, ...) capo_why(rc, (run)->why, (run)->room, __VA_ARGS__)

static double now_ms(void) { return (double)capo_clock_mono() * 1e-6; }

/* ---- the question ---- */

static int prepare_machines(struct run *run)
{
        const struct capo_plan_question *q = run->q;
        struct plan_job *job = run->job;

        if (q->n_topo > PLAN_MAX_MACHINES)
                return say(run, -EINVAL, "more than %d topology files", PLAN_MAX_MACHINES);
        job->n_machines = (uint32_t)q->n_topo;
        for (uint32_t i = 0; i < job->n_machines; i++) {
                char to[PLAN_PATH];
                int r;

                snprintf(to, sizeof to, "%s/topo.%u.xml", run->folder, i);
                r = plan_machine_prepare(q->topo[i], q->platform, to, &job->machines[i], run->why,
                                         run->room);
                if (r < 0)
                        return r;
        }
        for (uint32_t n = 0; n < PLAN_MAX_NODES; n++)
                job->node_machine[n] = (uint16_t)(n < job->n_machines ? n : job->n_machines - 1);
        return 0;
}

static int prepare_ranks(struct run *run)
{
        const struct capo_plan_question *q = run->q;
        struct plan_job *job = run->job;
        _cleanup_free_ uint64_t *used =
                xcalloc(PLAN_MAX_NODES, sizeof *used); /* GPUs of each node */

        for (uint32_t r = 0; r < q->n_ranks; r++) {
                const struct plan_machine *m;
                uint32_t i = 0;

                if (q->gpus[r].node >= PLAN_MAX_NODES)
                        return say(run, -EINVAL, "node %u: at most %d nodes", q->gpus[r].node,
                                   PLAN_MAX_NODES);
                m = &job->machines[job->node_machine[q->gpus[r].node]];
                while (i < m->n_gpus && m->gpus[i].dev != q->gpus[r].dev)
                        i++;
                if (i == m->n_gpus)
                        return say(run, -EINVAL, "GPU %u asked for on node %u, but %s has %u GPUs",
                                   q->gpus[r].dev, q->gpus[r].node,
                                   q->topo[job->node_machine[q->gpus[r].node]], m->n_gpus);
                if (used[q->gpus[r].node] & 1ull << i)
                        return say(run, -EINVAL, "GPU %u of node %u is asked for twice",
                                   q->gpus[r].dev, q->gpus[r].node);
                used[q->gpus[r].node] |= 1ull << i;
                if (q->gpus[r].node >= job->n_nodes)
                        job->n_nodes = q->gpus[r].node + 1u;
                job->ranks[r] = q->gpus[r];
        }
        for (uint32_t n = 0; n < job->n_nodes; n++) {
                if (!used[n])
                        return say(run, -EINVAL,
                                   "node %u has no GPU in the allocation, node %u has", n,
                                   job->n_nodes - 1);
                if (job->n_nodes > 1 && !job->machines[job->node_machine[n]].n_nets)
                        return say(run, -EINVAL,
                                   "%s has no network interface: %u nodes cannot talk",
                                   q->topo[job->node_machine[n]], job->n_nodes);
        }
        return 0;
}

/* ---- which ranks are started ---- */

static void sort_ranks(struct plan_job *job)
{
        uint32_t at = 0;

        for (uint32_t r = 0; r < job->n_ranks; r++)
                job->units[job->node_unit[job->ranks[r].node]].n++;
        for (uint32_t u = 0; u < job->n_units; u++) {
                job->units[u].first = at;
                at += job->units[u].n;
                job->units[u].n = 0;
        }
        for (uint32_t r = 0; r < job->n_ranks; r++) {
                struct plan_unit *u = &job->units[job->node_unit[job->ranks[r].node]];

                job->by_unit[u->first + u->n++] = (uint16_t)r;
        }
}

static uint32_t rank_at(const struct plan_job *job, const struct plan_unit *u, uint32_t i)
{
        return job->by_unit[u->first + i];
}

/* Do both have the same GPUs of the same machines, with the same neighbours on one node? */
static bool units_match(const struct plan_job *job, const struct plan_unit *a,
                        const struct plan_unit *b)
{
        if (a->n != b->n)
                return false;
        for (uint32_t i = 0; i < a->n; i++) {
                const struct capo_plan_gpu *x = &job->ranks[rank_at(job, a, i)];
                const struct capo_plan_gpu *y = &job->ranks[rank_at(job, b, i)];

                if (x->dev != y->dev || job->node_machine[x->node] != job->node_machine[y->node])
                        return false;
                for (uint32_t k = 0; k < i; k++) {
                        if ((job->ranks[rank_at(job, a, k)].node == x->node) !=
                            (job->ranks[rank_at(job, b, k)].node == y->node))
                                return false;
                }
        }
        return true;
}

static void find_kinds(struct plan_job *job)
{
        for (uint32_t u = 0; u < job->n_units; u++) {
                struct plan_unit *unit = &job->units[u];

                unit->like[0] = unit->like[1] = (uint16_t)u;
                for (uint32_t k = 0; k < u; k++) {
                        struct plan_unit *kind = &job->units[k];

                        if (kind->like[0] != k || !units_match(job, kind, unit))
                                continue;
                        if (kind->like[1] == k) /* the second one of its kind */
                                kind->like[1] = (uint16_t)u;
                        unit->like[0] = (uint16_t)k;
                        unit->like[1] = kind->like[1];
                        break;
                }
                unit->real = unit->like[0] == u || unit->like[1] == u;
        }
}

/* Fill the units of a job and the list of ranks to start: all, or the representatives. Return: 0;
 * -E2BIG: more than CAPO_PLAN_WHOLE_MAX would be needed, namely @n. */
static int plan_alike_find(struct plan_job *job, bool whole, uint32_t *n)
{
        uint16_t heard = job->node_unit[job->ranks[0].node];

        *n = 0;
        sort_ranks(job);
        find_kinds(job);
        for (uint32_t u = 0; u < job->n_units; u++) {
                job->units[u].real |= whole;
                *n += job->units[u].real ? job->units[u].n : 0;
        }
        if (*n > CAPO_PLAN_WHOLE_MAX)
                return -E2BIG;
        job->n_asked = *n;
        job->n_heard = whole || job->one_domain ? *n : job->units[heard].n;
        *n = 0;
        if (whole) {
                while (*n < job->n_ranks) {
                        job->asked[*n] = *n;
                        ++*n;
                }
                return 0;
        }
        for (uint32_t i = 0; i < job->units[heard].n; i++)
                job->asked[(*n)++] = rank_at(job, &job->units[heard], i);
        for (uint32_t u = 0; u < job->n_units; u++) {
                for (uint32_t i = 0; u != heard && job->units[u].real && i < job->units[u].n; i++)
                        job->asked[(*n)++] = rank_at(job, &job->units[u], i);
        }
        return 0;
}

/* Memory of this machine; 0: not known. */
static double plan_alike_available(void)
{
        unsigned long long kb = 0;
        char line[128];
        _cleanup_fclose_ FILE *f = fopen("/proc/meminfo", "re");

        while (f && fgets(line, sizeof line, f)) {
                if (sscanf(line, "MemAvailable: %llu", &kb) == 1)
                        break;
        }
        return (double)kb * 1024;
}

/* Memory of a rank whose NVLink domain has n ranks: in each of them NCCL keeps the paths between
 * all GPUs and NICs of the domain (measured: 4 to 18 trays of GB200 with 2.28.9, 4 and 9 with
 * 2.30.7). */
static double plan_alike_bytes(const struct plan_job *job, bool twice)
{
        double bytes = 0;

        for (uint32_t u = 0; u < job->n_units; u++) {
                double n = job->units[u].n, all = job->one_domain ? job->n_ranks : n;

                if (job->units[u].real)
                        bytes += n * (7e6 + all * all * (twice ? 66e3 : 37e3));
        }
        return bytes;
}

static int prepare_asked(struct run *run, bool whole)
{
        const struct capo_plan_question *q = run->q;
        struct plan_job *job = run->job;
        uint32_t n;

        job->one_domain = q->domain_nodes >= job->n_nodes && job->n_nodes > 1 && !whole;
        for (uint32_t i = 0; i < job->n_nodes; i++) {
                job->node_unit[i] =
                        (uint16_t)(q->domain_nodes && !job->one_domain ? i / q->domain_nodes : i);
                job->n_units = job->node_unit[i] + 1u;
        }
        if (plan_alike_find(job, whole, &n) < 0)
                return say(run, -EINVAL, "%u ranks on nodes that differ%s: at most %d are asked", n,
                           whole ? ", or that are to be asked each" : "", CAPO_PLAN_WHOLE_MAX);
        for (int twice = 0; twice < 2 && q->domain_nodes; twice++)
                job->domain_bytes[twice] = plan_alike_bytes(job, twice);
        job->available_bytes = plan_alike_available();
        return 0;
}

static int prepare_run(struct run *run)
{
        const struct capo_plan_question *q = run->q;
        size_t most = q->n_ranks < CAPO_PLAN_WHOLE_MAX ? q->n_ranks : CAPO_PLAN_WHOLE_MAX;
        uint64_t messages = plan_job_size((uint32_t)most, (uint32_t)q->n_asks);
        uint64_t size = messages + MESSAGES_BYTES;
        size_t alone = q->domain_nodes ? CAPO_PLAN_GPUS_ALONE : CAPO_PLAN_RANKS_ALONE;
        bool whole = q->whole || q->windows || q->n_ranks <= alone;
        int r;

        if (!q->n_ranks || q->n_ranks > CAPO_PLAN_RANKS_MAX)
                return say(run, -EINVAL, "%zu ranks: 1 to %d can be asked for", q->n_ranks,
                           CAPO_PLAN_RANKS_MAX);
        if (!q->n_topo || q->n_asks > 100000)
                return say(run, -EINVAL, "no topology, or more than 100000 questions");
        if (!q->libnccl || strlen(q->libnccl) >= PLAN_PATH || access(q->libnccl, R_OK) < 0)
                return say(run, -ENOENT, "%s: %s", q->libnccl ? q->libnccl : "no libnccl named",
                           strerror(errno));
        run->fd = memfd_create("capo-plan", MFD_CLOEXEC);
        if (run->fd < 0 || ftruncate(run->fd, (off_t)size) < 0)
                return say(run, -errno, "no memory for the question: %s", strerror(errno));
        run->job = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, run->fd, 0);
        if (run->job == MAP_FAILED) {
                run->job = NULL;
                return say(run, -ENOMEM, "no memory for the question");
        }
        run->job->size = size;
        run->job->n_ranks = (uint32_t)q->n_ranks;
        run->job->n_rows = (uint32_t)q->n_asks;
        run->job->windows = q->windows;
        run->job->domain_nodes = q->domain_nodes;
        strcpy(run->job->libnccl, q->libnccl);
        if (q->tuner && q->wrap)
                snprintf(run->job->wrapped, sizeof run->job->wrapped, "%s", q->tuner);
        for (size_t i = 0; i < q->n_asks; i++) {
                run->job->rows[i].row.coll = q->asks[i].coll;
                run->job->rows[i].row.bytes = q->asks[i].bytes;
        }
        r = prepare_machines(run) ?: prepare_ranks(run) ?: prepare_asked(run, whole);
        if (r == 0 && !whole) {
                run->job->messages = messages;
                run->job->messages_end = size;
        }
        return r;
}

/* ---- the workers ---- */

/* The plugins are links in the question's folder, where the loader searches. libX.so is the one
 * form of name that every release accepts: 2.19 and 2.20 open the variable's value and nothing
 * else, 2.27.3 accepts no path (tried on 2.19.3, 2.20.5, 2.21.5, 2.27.3, 2.27.7 and 2.32.3). The
 * net plugin is searched as libnccl-net-<name>.so. */
#define PLAN_NET_LINK      "libnccl-net-capoplan.so"
#define PLAN_TUNER_LINK    "libcapo-plan-tuner.so"
#define PLAN_PROFILER_LINK "libcapo-plan-profiler.so"

bool capo_plan_setting_passes(const char *var)
{
        static const char *const ours[] = {"NCCL_TOPO_",       "NCCL_HOSTID=",  "NCCL_NET=",
                                           "NCCL_NET_PLUGIN=", "NCCL_TUNER_",   "NCCL_PROFILER_",
                                           "NCCL_DEBUG",       "NCCL_COMM_ID=", "NCCL_SOCKET_",
                                           "NCCL_IB_",         "NCCL_OOB_",     "NCCL_GRAPH_DUMP",
                                           "NCCL_RAS_"};

        return !strncmp(var, "NCCL_", 5) &&
               !ANY_OF(our, ours, N_ELEMENTS(ours), !strncmp(var, *our, strlen(*our)));
}

struct environment {
        char **vars; /* the first ones are this process's own */
        size_t n;
};

static void put_var(struct environment *e, char *var) { *xadd(e->vars, e->n) = var; }
#define put_env(e, ...) put_var(e, xprintf(__VA_ARGS__))

static const char *layout_of(const struct plan_job *job, char *text, size_t room)
{
        struct capo_layout layout = {0};

        for (uint32_t n = 0; n < job->n_nodes; n++) {
                uint32_t ranks = 0;

                for (uint32_t r = 0; r < job->n_ranks; r++)
                        ranks += job->ranks[r].node == n;
                capo_layout_add(&layout, ranks, 1);
        }
        return capo_layout_print(&layout, text, room);
}

/* The environment of the worker of @node, ended by NULL: the user's NCCL settings, and settings that
 * replace the machine. */
static char **plan_environment_new(const struct capo_plan_question *q, const struct plan_job *job,
                                   const char *folder, uint32_t node)
{
        /* the last: glibc would write to all that NCCL allocates, most of which is never used */
        static const char *const ours[] = {"LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "CAPO_",
                                           "CUDA_",       "MALLOC_PERTURB_="};
        struct environment all = {0}, *e = &all;
        const char *path = getenv("LD_LIBRARY_PATH");

        for (char **var = environ; *var; var++) {
                if (!ANY_OF(our, ours, N_ELEMENTS(ours), !strncmp(*var, *our, strlen(*our))) &&
                    (strncmp(*var, "NCCL_", 5) || capo_plan_setting_passes(*var)))
                        put_var(e, *var);
        }
        put_env(e, "LD_LIBRARY_PATH=%s%s%s", folder, path && *path ? ":" : "", path ? path : "");
        put_env(e, "NCCL_TOPO_FILE=%s", job->machines[job->node_machine[node]].topo);
        put_env(e, "NCCL_HOSTID=capo-plan-%u", node);
        put_env(e, "NCCL_NET_PLUGIN=capoplan"); /* libnccl-net-capoplan.so in our folder: the only
                                                   form that 2.19 accepts */
        put_env(e, "NCCL_PROFILER_PLUGIN=%s", PLAN_PROFILER_LINK);
        put_env(e, "%s=none", CAPO_ENV_conf); /* the site's profile must not be used */
        if (q->tuner && !q->wrap && !strchr(q->tuner, '/'))
                put_env(e, "NCCL_TUNER_PLUGIN=%s", q->tuner);
        else
                put_env(e, "NCCL_TUNER_PLUGIN=%s", PLAN_TUNER_LINK);
        if (q->tuner) {
                char layout[CAPO_LAYOUT_TEXT];

                /* exported by `capo run` for tuner interfaces without node sizes */
                put_env(e, "%s=%s", CAPO_ENV_layout,
                        q->layout ? q->layout : layout_of(job, layout, sizeof layout));
                put_env(e, "%s=only",
                        CAPO_ENV_tuner); /* otherwise capo's tuner would chain to our spy */
                if (q->profile)
                        put_env(e, "%s=%s", CAPO_ENV_profile, q->profile);
                if (q->allow_modelled)
                        put_env(e, "%s=1", CAPO_ENV_allow_modelled);
                if (q->class_name)
                        put_env(e, "%s=%s", CAPO_ENV_class_name, q->class_name);
        }
        put_env(e, "NCCL_DEBUG=INFO");
        put_env(e, "NCCL_DEBUG_SUBSYS=%s", q->log ? "INIT,GRAPH,TUNING" : "TUNING");
        put_env(e, "NCCL_DEBUG_FILE=%s/log.%u", folder, node);
        put_env(e, "NCCL_IB_DISABLE=1");
        put_env(e, "NCCL_SOCKET_IFNAME=lo");
        put_env(e, "NCCL_RAS_ENABLE=0");
        if (q->graph) {
                put_env(e, "NCCL_GRAPH_DUMP_FILE=%s/graph.%u", folder, node);
                put_env(e, "NCCL_GRAPH_DUMP_FILE_RANK=%td", /* the node's first */
                        FIRST_OF(r, job->ranks, job->n_ranks, r->node == node) - job->ranks);
        }
        put_var(e, NULL);
        return e->vars;
}

static int start_worker(struct run *run, uint32_t node)
{
        char **env = plan_environment_new(run->q, run->job, run->folder, node);
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        sigset_t none;
        char worker[PLAN_PATH], virtual[PLAN_PATH], number[16], output[PLAN_PATH];
        int r;

        snprintf(worker, sizeof worker, "%s/capo-plan-worker", run->q->tools);
        snprintf(virtual, sizeof virtual, "%s/capo-plan-virtual.so", run->q->tools);
        snprintf(number, sizeof number, "%u", node);
        snprintf(output, sizeof output, "%s/out.%u", run->folder, node);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0600);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        posix_spawn_file_actions_adddup2(&actions, run->fd, PLAN_JOB_FD);
        posix_spawnattr_init(&attr);
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
        r = posix_spawn(&run->pids[node], worker, &actions, &attr,
                        (char *[]){worker, virtual, number, NULL}, env);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attr);
        if (r) {
                run->pids[node] = 0;
                return say(run, -r, "%s cannot be started: %s", worker, strerror(r));
        }
        return 0;
}

static int ended_badly(struct run *run, uint32_t node, int status)
{
        _cleanup_fclose_ FILE *f = NULL;
        char path[PLAN_PATH];
        char warning[300], gap[120], words[200];

        plan_answer_gap(run->job, gap, sizeof gap);
        plan_answer_warning(run->folder, run->job->n_nodes, warning, sizeof warning);
        if (atomic_load(&run->job->failed) == PLAN_FAILED)
                return say(run, run->job->error_code ? run->job->error_code : -EPROTO, "%s%s%s%s",
                           run->job->error, *warning ? "; " : "", warning, gap);
        snprintf(path, sizeof path, "%s/out.%u", run->folder, node);
        f = fopen(path, "re");
        if (!f || !fgets(words, sizeof words, f)) /* of the dynamic linker, or a failed assertion */
                *words = 0;
        words[strcspn(words, "\n")] = 0;
        if (WIFSIGNALED(status))
                return say(run, -EPROTO, "the process of node %u died of signal %d (%s)%s%s%s%s%s",
                           node, WTERMSIG(status), strsignal(WTERMSIG(status)), *words ? ": " : "",
                           words, *warning ? "; " : "", warning, gap);
        return say(run, -EPROTO, "the process of node %u ended with status %d%s%s", node,
                   WEXITSTATUS(status), *words ? ": " : "", words);
}

static volatile sig_atomic_t interrupted;

void capo_plan_interrupt(int signal) { interrupted = 1; }

/* The workers share the processors with other processes. */
static unsigned default_limit_ms(const struct run *run)
{
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        double load = 0, times;

        if (getloadavg(&load, 1) != 1 || cpus < 1)
                load = 0;
        times = 1 + load / (double)(cpus < 1 ? 1 : cpus);
        return (unsigned)((TIMEOUT_MS + RANK_MS * run->job->n_asked) * (times < 10 ? times : 10));
}

static int watch_workers(struct run *run)
{
        unsigned limit_ms = run->q->timeout_ms ? run->q->timeout_ms : default_limit_ms(run);
        double until = now_ms() + limit_ms;
        uint32_t alive = 0;

        for (uint32_t n = 0; n < run->job->n_nodes; n++)
                alive += run->pids[n] > 0;
        while (alive) {
                for (uint32_t n = 0; n < run->job->n_nodes; n++) {
                        int status;

                        if (!run->pids[n] ||
                            waitpid(run->pids[n], &status, WNOHANG) != run->pids[n])
                                continue;
                        run->pids[n] = 0;
                        alive--;
                        if (status != 0) {
                                /* another process may still be writing the error, unless it died */
                                for (int i = 0; i < 2000 && atomic_load(&run->job->failed) ==
                                                                    PLAN_FAILED_SAYING;
                                     i++)
                                        usleep(1000);
                                return ended_badly(run, n, status);
                        }
                }
                if (interrupted)
                        return say(run, -EINTR, "interrupted");
                if (alive && now_ms() > until) {
                        char warning[300], gap[120];

                        plan_answer_gap(run->job, gap, sizeof gap);
                        plan_answer_warning(run->folder, run->job->n_nodes, warning,
                                            sizeof warning);
                        return say(run, -ETIMEDOUT,
                                   "no answer within %.1f s (%u of %u questions): killed%s%s%s",
                                   limit_ms / 1e3, atomic_load(&run->job->rows_done),
                                   run->job->n_rows, *warning ? "; " : "", warning, gap);
                }
                if (alive)
                        usleep(500);
        }
        return 0;
}

/* ---- cleaning up ---- */

static void clean_up_run(struct run *run)
{
        DIR *dir;

        for (uint32_t n = 0; n < PLAN_MAX_NODES; n++) {
                if (run->pids[n] > 0)
                        kill(run->pids[n], SIGKILL);
        }
        for (uint32_t n = 0; n < PLAN_MAX_NODES; n++) {
                if (run->pids[n] > 0)
                        waitpid(run->pids[n], NULL, 0);
        }
        for (uint32_t i = 0; run->job && i < atomic_load(&run->job->n_shm) && i < PLAN_MAX_SHM;
             i++) {
                char path[64];

                run->job->shm[i][sizeof run->job->shm[i] - 1] = 0;
                if (strncmp(run->job->shm[i], "nccl-", 5) != 0 || strchr(run->job->shm[i], '/'))
                        continue;
                snprintf(path, sizeof path, "/dev/shm/%s", run->job->shm[i]);
                unlink(path);
        }
        if (run->job)
                munmap(run->job, run->job->size);
        if (run->fd >= 0)
                close(run->fd);
        dir = run->folder[0] ? opendir(run->folder) : NULL;
        for (struct dirent *d; dir && (d = readdir(dir));)
                unlinkat(dirfd(dir), d->d_name, 0);
        if (dir)
                closedir(dir);
        if (run->folder[0])
                rmdir(run->folder);
}

static int link_plugin(struct run *run, const char *name, const char *to)
{
        char link[PLAN_PATH];

        snprintf(link, sizeof link, "%s/%s", run->folder, name);
        return symlink(to, link) < 0 ? say(run, -errno, "%s: %s", link, strerror(errno)) : 0;
}

static int folder_new(struct run *run)
{
        char virtual[PLAN_PATH], tuner[PATH_MAX];
        bool own = run->q->tuner && !run->q->wrap && strchr(run->q->tuner, '/');

        snprintf(run->folder, sizeof run->folder, "%s/capo-plan-XXXXXX", capo_file_temp_folder());
        if (!mkdtemp(run->folder)) {
                run->folder[0] = 0;
                return say(run, -errno, "no folder in %s: %s", capo_file_temp_folder(),
                           strerror(errno));
        }
        snprintf(virtual, sizeof virtual, "%s/capo-plan-virtual.so",
                 run->q->tools ? run->q->tools : "");
        if (own && !realpath(run->q->tuner, tuner))
                return say(run, -errno, "%s: %s", run->q->tuner, strerror(errno));
        return link_plugin(run, PLAN_NET_LINK, virtual)
                       ?: link_plugin(run, PLAN_PROFILER_LINK, virtual)
                       ?: link_plugin(run, PLAN_TUNER_LINK, own ? tuner : virtual);
}

int capo_plan_ask(const struct capo_plan_question *q, struct capo_plan_answer *out, char *why,
                  size_t room)
{
        struct run *run = xcalloc(1, sizeof *run);
        double t0 = now_ms();
        int r;

        memset(out, 0, sizeof *out);
        run->q = q;
        run->fd = -1;
        run->why = why;
        run->room = room;
        r = folder_new(run) ?: prepare_run(run);
        for (uint32_t n = 0; r == 0 && n < run->job->n_nodes; n++)
                r = run->job->units[run->job->node_unit[n]].real ? start_worker(run, n) : 0;
        if (r == 0)
                r = watch_workers(run)
                            ?: plan_answer_read(run->job, q, run->folder, out, why, room);
        clean_up_run(run);
        free(run);
        if (r < 0)
                capo_plan_answer_finish(out);
        else
                out->wall_ms = now_ms() - t0;
        return r;
}

/* ---- several questions: a few threads take them in order ---- */

struct pool {
        const struct capo_plan_question *q;
        size_t n, next;
        int (*each)(size_t i, int rc, struct capo_plan_answer *answer, const char *why, void *arg);
        void *arg;
        int rc;
        pthread_mutex_t lock;
};

static void *pool_thread(void *arg)
{
        struct pool *p = arg;

        for (;;) {
                struct capo_plan_answer answer;
                char why[1024] = "";
                size_t i;
                int rc;

                pthread_mutex_lock(&p->lock);
                i = p->rc || interrupted ? p->n : p->next++;
                pthread_mutex_unlock(&p->lock);
                if (i >= p->n)
                        return NULL;
                rc = capo_plan_ask(&p->q[i], &answer, why, sizeof why);
                pthread_mutex_lock(&p->lock);
                if (!p->rc)
                        p->rc = p->each(i, rc, &answer, why, p->arg);
                pthread_mutex_unlock(&p->lock);
                capo_plan_answer_finish(&answer);
        }
}

int capo_plan_ask_all(const struct capo_plan_question *q, size_t n, unsigned at_once,
                      int (*each)(size_t i, int rc, struct capo_plan_answer *answer,
                                  const char *why, void *arg),
                      void *arg)
{
        struct pool pool = {
                .q = q, .n = n, .each = each, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER};
        pthread_t threads[64];
        unsigned started = 0;

        if (!at_once)
                at_once = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
        if (at_once > N_ELEMENTS(threads))
                at_once = N_ELEMENTS(threads);
        while (started + 1 < at_once && started + 1 < n &&
               pthread_create(&threads[started], NULL, pool_thread, &pool) == 0)
                started++;
        pool_thread(&pool);
        while (started)
                pthread_join(threads[--started], NULL);
        return pool.rc;
}
