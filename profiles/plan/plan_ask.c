/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side: writes the question, starts one worker per node, watches them, reads the
 * answer, and cleans up. A worker runs foreign code with parts replaced, so it gets nothing that it
 * could damage: its own folder, a memory file, a time limit. */
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <dirent.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "capo/msg.h"
#include "profiles/plan/plan_alike.h"
#include "profiles/plan/plan_answer.h"
#include "profiles/plan/plan_environment.h"
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

/* Choose the ranks to start: all, or the representatives. */
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

static void kill_all(struct run *run)
{
        for (uint32_t n = 0; n < PLAN_MAX_NODES; n++) {
                if (run->pids[n] > 0)
                        kill(run->pids[n], SIGKILL);
        }
        for (uint32_t n = 0; n < PLAN_MAX_NODES; n++) {
                if (run->pids[n] > 0)
                        waitpid(run->pids[n], NULL, 0);
                run->pids[n] = 0;
        }
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

        kill_all(run);
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
