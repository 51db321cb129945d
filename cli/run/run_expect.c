/* SPDX-License-Identifier: Apache-2.0 */
/* Only options that settle the ranks of every node count. An option that spreads the ranks in a way
 * that is not known here hides the layout: the environment describes the allocation, not the job. */
#include "capo/env.h"
#include "cli/run/run_expect.h"
#include "core/base/nccl_release.h"

#define NAMES 6

/* The value of the first of @names in @c: "--name=3", "--name 3", "-n3". NULL: none is there. */
static const char *find_option(char **c, const char *const names[NAMES])
{
        for (; *c; c++) {
                for (int i = 0; i < NAMES && names[i]; i++) {
                        size_t n = strlen(names[i]);

                        if (strncmp(*c, names[i], n))
                                continue;
                        if (!(*c)[n])
                                return c[1] ? c[1] : "";
                        if ((*c)[n] == '=')
                                return *c + n + 1;
                        if (n == 2 && (*c)[n] >= '0' && (*c)[n] <= '9')
                                return *c + n;
                }
        }
        return NULL;
}

/* A whole number from 1 on; 0: it is none. */
static uint32_t read_number(const char *text)
{
        char *end;
        long n = text && *text >= '1' && *text <= '9' ? strtol(text, &end, 10) : 0;

        return n > 0 && n < 1 << 24 && !*end ? (uint32_t)n : 0;
}

static void take_ranks(struct run_expected *x, const char *source, uint32_t ranks, uint32_t nodes)
{
        x->launch.layout = (struct capo_layout){0};
        x->by_command = true;
        snprintf(x->launch.source, sizeof x->launch.source, "%s", source);
        if (ranks && nodes)
                (void)capo_layout_add(&x->launch.layout, ranks, nodes);
}

/* One torchrun per node. Started by srun, all are the same command. */
static void read_torchrun(char **c, struct run_expected *x)
{
        const char *each = find_option(
                           c, (const char *[NAMES]){"--nproc-per-node", "--nproc_per_node"}),
                   *nodes = find_option(c, (const char *[NAMES]){"--nnodes"});
        uint32_t ranks = each ? read_number(each) : 1,
                 n = !nodes || !strcmp(nodes, "1:1") ? 1 : read_number(nodes);

        if (ranks && n > 1 && x->launch.layout.n_nodes == n && x->launch.layout.n_ranks == n)
                take_ranks(x, "torchrun under srun", ranks, n);
        else
                take_ranks(x, "torchrun's options", ranks, n == 1);
        snprintf(x->why, sizeof x->why,
                 ranks ? "torchrun does not tell the ranks of the other nodes"
                       : "torchrun's --nproc-per-node %s is no number",
                 each);
}

static void read_srun(char **c, struct run_expected *x)
{
        const char *ranks = find_option(c, (const char *[NAMES]){"-n", "--ntasks"}),
                   *nodes = find_option(c, (const char *[NAMES]){"-N", "--nodes"}),
                   *each = find_option(c, (const char *[NAMES]){"--ntasks-per-node"}),
                   *where = find_option(c,
                                        (const char *[NAMES]){"-w", "--nodelist", "-x", "--exclude",
                                                              "-m", "--distribution"});

        if (!ranks && !nodes && !each && !where)
                return;
        if (each && nodes)
                take_ranks(x, "srun's options", read_number(each), read_number(nodes));
        else
                take_ranks(x, "srun's options", read_number(ranks),
                           nodes && read_number(nodes) == 1);
        snprintf(x->why, sizeof x->why, "srun's options do not tell the ranks of each node");
}

/* "-np 8" on this host; "-H a:3,b:5" by slot. */
static void read_mpirun(char **c, struct run_expected *x)
{
        const char *ranks = find_option(c, (const char *[NAMES]){"-n", "-np", "--np", "-c"}),
                   *hosts =
                           find_option(c, (const char *[NAMES]){"-H", "-host", "--host", "-hosts"}),
                   *other = find_option(c, (const char *[NAMES]){"-hostfile", "--hostfile",
                                                                 "-machinefile", "--machinefile",
                                                                 "-f", "--map-by"});
        uint32_t slots;

        if (!ranks && !hosts)
                return;
        if (getenv("SLURM_JOB_ID") || getenv("PBS_NODEFILE") || getenv("LSB_HOSTS"))
                other = "";
        take_ranks(x, "mpirun's options", hosts || other ? 0 : read_number(ranks), 1);
        snprintf(x->why, sizeof x->why, "mpirun's options do not tell the ranks of each node");
        for (const char *at = other ? NULL : hosts; at && *at;) {
                char word[16];
                size_t n = strcspn(at, ",");
                const char *colon = memchr(at, ':', n);

                snprintf(word, sizeof word, "%.*s", colon ? (int)(at + n - colon - 1) : 1,
                         colon ? colon + 1 : "1");
                slots = read_number(word);
                if (!slots || capo_layout_add(&x->launch.layout, slots, 1) < 0) {
                        x->launch.layout = (struct capo_layout){0};
                        return;
                }
                at += n + (at[n] == ',');
        }
        if (hosts && ranks && read_number(ranks) != x->launch.layout.n_ranks)
                x->launch.layout = (struct capo_layout){0};
}

int run_expect(char **command, const char *given, bool allow_modelled, struct run_expected *x)
{
        static const struct {
                const char *name;
                void (*read)(char **c, struct run_expected *x);
        } launchers[] = {{"torchrun", read_torchrun},
                         {"torch.distributed.run", read_torchrun},
                         {"torch.distributed.launch", read_torchrun},
                         {"srun", read_srun},
                         {"mpirun", read_mpirun},
                         {"mpiexec", read_mpirun}};
        struct capo_findings findings = {0};
        static struct capo_env env; /* its texts stay */
        int r;

        *x = (struct run_expected){.nccl = "an unknown release",
                                   .why = "the launcher does not tell the ranks per node before "
                                          "the start"};
        capo_env_read(&env);
        capo_doctor_command(&findings, command, &x->reach);
        r = capo_layout_from_launcher(capo_getenv, NULL, false, &x->launch);
        if (given)
                (void)capo_layout_parse(given, &x->launch.layout, NULL);
        for (char **c = command; !given && !getenv(CAPO_ENV_layout) && *c; c++) {
                for (size_t i = 0; i < N_ELEMENTS(launchers); i++) {
                        if (!strcmp(capo_base_name(*c), launchers[i].name))
                                launchers[i].read(c, x);
                }
        }
        capo_layout_print(&x->launch.layout, x->layout, sizeof x->layout);
        if (x->reach.version)
                capo_nccl_text((uint32_t)x->reach.version, x->nccl, sizeof x->nccl);
        x->shape = (struct capo_shape){.n_ranks = (int)x->launch.layout.n_ranks,
                                       .n_nodes = (int)x->launch.layout.n_nodes,
                                       .min_local = (int)capo_layout_smallest(&x->launch.layout),
                                       .max_local = (int)capo_layout_largest(&x->launch.layout),
                                       .nccl = x->reach.version,
                                       .allow_modelled = allow_modelled || env.allow_modelled,
                                       .layout = x->layout,
                                       .class_name = *env.class_name ? env.class_name : NULL};
        snprintf(x->shape.trays, sizeof x->shape.trays, "%s", x->layout);
        return r == -EINVAL ? r : 0;
}
