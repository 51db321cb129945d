/* SPDX-License-Identifier: Apache-2.0 */
/* See graph_folder.h. Nothing here touches hardware: what a machine really has is the reader's to check. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/graph_folder.h"
#include "core/base/util.h"

__attribute__((format(printf, 4, 5))) static int say(int rc, char *why, size_t room, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(why, room, format, args);
        va_end(args);
        return rc;
}

/* The next word of a line into @word, and the text after it; "" at its end. */
static const char *next_word(const char *p, char *word, size_t room)
{
        size_t n;

        p += strspn(p, " \t");
        n = strcspn(p, " \t\n");
        snprintf(word, room, "%.*s", (int)(n < room ? n : room - 1), p);
        return p + n;
}

static int read_machine(const char *p, struct capo_graph_machine *m, char *bad, size_t room)
{
        bool nics = false;

        memset(m, 0, sizeof *m);
        for (p = next_word(p, bad, room); *bad; p = next_word(p, bad, room)) {
                int end = 0;

                if (!strcmp(bad, "nics")) {
                        nics = true;
                } else if (nics) {
                        if (m->n_nics == CAPO_GRAPH_NICS || strlen(bad) >= sizeof m->nics[0])
                                return -EINVAL;
                        strcpy(m->nics[m->n_nics++], bad);
                } else {
                        if (m->n_gpus == CAPO_GRAPH_GPUS ||
                            sscanf(bad, "%d@%19s%n", &m->gpus[m->n_gpus].dev, m->gpus[m->n_gpus].busid, &end) != 2 ||
                            bad[end] || m->gpus[m->n_gpus].dev < 0)
                                return -EINVAL;
                        m->n_gpus++;
                }
        }
        return m->n_gpus ? 0 : -EINVAL;
}

int capo_graph_folder_parse(const char *text, struct capo_graph_folder *out, char *why, size_t room)
{
        char word[128];
        int line = 0, end = 0;

        memset(out, 0, sizeof *out);
        if (sscanf(text, "capo-graph 1 nccl %d%n", &out->nccl, &end) != 1 || text[end] != '\n')
                return say(-EINVAL, why, room, "line 1: expected \"capo-graph 1 nccl NUMBER\"");
        for (const char *p = text; *p; p += *p == '\n') {
                const char *rest = next_word(p, word, sizeof word);

                line++;
                if (line > 1 && *word) {
                        if (strcmp(word, "machine") != 0 || out->n_machines == CAPO_GRAPH_MACHINES)
                                return say(-EINVAL, why, room, "line %d: expected at most %d machines, found \"%s\"",
                                           line, CAPO_GRAPH_MACHINES, word);
                        if (read_machine(rest, &out->machines[out->n_machines], word, sizeof word) < 0)
                                return say(-EINVAL, why, room, "line %d: expected GPUs as 1@0000:07:00.0, found \"%s\"",
                                           line, word);
                        out->n_ranks += out->machines[out->n_machines++].n_gpus;
                }
                p += strcspn(p, "\n");
        }
        return out->n_machines ? 0 : say(-EINVAL, why, room, "no machine in it");
}

/* --- which machine --- */

static long number(capo_layout_getenv get, void *user, const char *name)
{
        const char *text = get(name, user);
        char *end;
        long v = text && *text ? strtol(text, &end, 10) : -1;

        return v < 0 || *end ? -1 : v;
}

static long first_of(capo_layout_getenv get, void *user, const char *const *names, size_t n, const char **which)
{
        for (size_t i = 0; i < n; i++) {
                long v = number(get, user, names[i]);

                if (v >= 0) {
                        *which = names[i];
                        return v;
                }
        }
        return -1;
}

/* Under mpirun Slurm's number is that of the step which started the daemons, and the head node may not be in it. */
static bool srun_started(capo_layout_getenv get, void *user)
{
        return number(get, user, "SLURM_PROCID") >= 0 && number(get, user, "SLURM_LOCALID") >= 0 &&
               !get("OMPI_COMM_WORLD_SIZE", user) && !get("MPI_LOCALNRANKS", user);
}

/* CUDA_VISIBLE_DEVICES: numbers of this machine's GPUs and nothing else. */
static int check_visible(const struct capo_graph_machine *m, const char *list, int at, char *why, size_t room)
{
        if (!list) {
                for (int i = 0; i < m->n_gpus; i++) {
                        bool there = false;

                        for (int k = 0; k < m->n_gpus; k++)
                                there |= m->gpus[k].dev == i;
                        if (!there)
                                return say(-EINVAL, why, room,
                                           "CUDA_VISIBLE_DEVICES is not set, so a program would take GPU %d, which is "
                                           "not in the allocation of machine %d",
                                           i, at);
                }
                return 0;
        }
        for (const char *p = list; *p;) {
                char *end;
                long dev = strtol(p, &end, 10);
                bool there = false;

                for (int k = 0; k < m->n_gpus; k++)
                        there |= m->gpus[k].dev == dev;
                if (end == p || (*end && *end != ',') || !there)
                        return say(-EINVAL, why, room,
                                   "CUDA_VISIBLE_DEVICES=%.80s names GPUs that are not in the allocation of machine %d",
                                   list, at);
                p = end + (*end == ',');
        }
        return *list ? 0 : say(-EINVAL, why, room, "CUDA_VISIBLE_DEVICES is empty");
}

int capo_graph_folder_machine(const struct capo_graph_folder *f, capo_layout_getenv get, void *user, char *why,
                              size_t room)
{
        static const char *const sizes[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
        const char *which = "", *size_name = "";
        long local = first_of(get, user, sizes, N_ELEMENTS(sizes), &size_name);
        int at = f->n_machines == 1 ? 0 : -1;

        if (at < 0 && srun_started(get, user)) {
                which = "SLURM_NODEID";
                at = (int)number(get, user, which);
        } else if (at < 0 && number(get, user, "GROUP_WORLD_SIZE") == f->n_machines) {
                which = "GROUP_RANK";
                at = (int)number(get, user, which);
        }
        for (int i = 0; i < f->n_machines && at < 0 && local > 0; i++) { /* a size that only one machine has */
                int like = 0, unique = 0;

                for (int k = 0; k < f->n_machines; k++) {
                        int same = 0;

                        for (int j = 0; j < f->n_machines; j++)
                                same += f->machines[j].n_gpus == f->machines[k].n_gpus;
                        unique += same == 1;
                        like += f->machines[k].n_gpus == local;
                }
                which = size_name;
                if (unique == f->n_machines && like == 1 && f->machines[i].n_gpus == local)
                        at = i;
        }
        if (at < 0)
                return say(-ENODATA, why, room, "nothing says for certain which machine of the allocation this is");
        if (at >= f->n_machines)
                return say(-EINVAL, why, room, "%s=%d, and the allocation has %d machines", which, at, f->n_machines);
        if (local > 0 && local != f->machines[at].n_gpus)
                return say(-EINVAL, why, room, "%s=%ld, and the allocation has %d GPUs on machine %d", size_name, local,
                           f->machines[at].n_gpus, at);
        if (check_visible(&f->machines[at], get("CUDA_VISIBLE_DEVICES", user), at, why, room) < 0)
                return -EINVAL;
        return at;
}
