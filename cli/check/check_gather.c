/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes exchange results in a shared folder. Node 0 writes a file "begin" with a run number; the
 * others wait for it and write their node with that number; node 0 collects these and removes all
 * files, which ends the others. Files of earlier runs have other numbers.
 *
 * A node reads its clock between node 0's writing of "begin" and node 0's reading of the answer.
 * These two times bound the clock's error. A slow file system widens the bounds, but they are
 * always right. */
#include "capo/msg.h"
#include "cli/check/check.h"
#include "cli/check/check_folder.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"

enum { POLL_US = 20000 };
#define CLOCK_TOLERANCE_S 0.1

static double read_clock(void) { return (double)capo_clock_of(CLOCK_REALTIME) / 1e9; }

static void name_file(const struct check_options *o, const char *what, int index, char path[4096])
{
        const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");

        snprintf(path, 4096, "%s/capo-check%s%s%s%s-%s%d", o->dir, job ? "-" : "", job ? job : "",
                 step ? "." : "", step ? step : "", what, index);
}

/* Run number of a file; 0: no such file. */
static json_int_t run_of(const json_t *json)
{
        return json_integer_value(json_object_get(json, "run"));
}

static int answer_node(const struct check_options *o, int index, json_t *node)
{
        double until = (double)capo_clock_mono() / 1e9 + o->wait_s;
        char begin[4096], mine[4096];
        json_int_t answered = 0;
        int r = 0;

        name_file(o, "begin", 0, begin);
        name_file(o, "node", index, mine);
        while ((double)capo_clock_mono() / 1e9 < until) {
                json_t *called = check_folder_read(begin);
                json_int_t run = run_of(called);

                json_decref(called);
                if (!run && answered)
                        return 0;
                if (run && run != answered) {
                        json_object_set_new(node, "run", json_integer(run));
                        json_object_set_new(node, "time_s", json_real(read_clock()));
                        r = check_folder_write(mine, node);
                        if (r < 0)
                                return r;
                        answered = run;
                }
                usleep(POLL_US);
        }
        return answered ? 0
                        : capo_fail(-ETIMEDOUT, "check: node 0 did not begin in %s within %.0f s",
                                    o->dir, o->wait_s);
}

static void judge_clock(json_t *node, double begin_s, double seen_s)
{
        double clock = json_real_value(json_object_get(node, "time_s"));
        double least = clock - seen_s, most = clock - begin_s;
        json_t *rows = json_object_get(node, "findings");

        if (least <= CLOCK_TOLERANCE_S && most >= -CLOCK_TOLERANCE_S)
                return;
        if (least > 0)
                check_finding(rows, CAPO_FINDING_WARN, "clock",
                              "ahead of node 0's by %.2f to %.2f s", least, most);
        else
                check_finding(rows, CAPO_FINDING_WARN, "clock", "behind node 0's by %.2f to %.2f s",
                              -most, -least);
}

static int collect_nodes(const struct check_options *o, int n, json_t *node, json_t *nodes,
                         json_t *missing)
{
        double until = (double)capo_clock_mono() / 1e9 + o->wait_s, begin_s = read_clock();
        json_int_t run =
                (json_int_t)(capo_clock_of(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40) & INT64_MAX;
        _cleanup_free_ bool *have = xcalloc((size_t)n, sizeof *have);
        json_t *begin = json_pack("{s:I}", "run", run);
        char path[4096];
        int left = n - 1, r;

        name_file(o, "begin", 0, path);
        r = check_folder_write(path, begin);
        json_decref(begin);
        if (r < 0)
                return r;
        json_object_set_new(node, "run", json_integer(run));
        json_array_append(nodes, node);
        while (left && (double)capo_clock_mono() / 1e9 < until) {
                for (int i = 1; i < n; i++) {
                        json_t *other;

                        name_file(o, "node", i, path);
                        other = have[i] ? NULL : check_folder_read(path);
                        if (run_of(other) == run) {
                                judge_clock(other, begin_s, read_clock());
                                json_object_del(other, "run");
                                json_array_append(nodes, other);
                                have[i] = true;
                                left--;
                                unlink(path);
                        }
                        json_decref(other);
                }
                usleep(POLL_US);
        }
        for (int i = 1; i < n; i++) {
                if (!have[i])
                        json_array_append_new(missing, json_integer(i));
        }
        name_file(o, "begin", 0, path);
        unlink(path);
        return 1;
}

int check_gather(const struct check_options *o, int n, int index, json_t *node, json_t *nodes,
                 json_t *missing)
{
        if (check_folder_begin(o->dir) < 0)
                return -EIO;
        return index ? answer_node(o, index, node) : collect_nodes(o, n, node, nodes, missing);
}

/* Value of the first of these variables that is set; -1: none. */
static int first_number(const char *names)
{
        char name[80];

        for (int n; sscanf(names, "%79s%n", name, &n) == 1; names += n) {
                const char *text = getenv(name);

                if (text && *text >= '0' && *text <= '9')
                        return atoi(text);
        }
        return -1;
}

void check_place(const struct check_options *o, int *nodes, int *index, int *local)
{
        int per_node = first_number("OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS LOCAL_WORLD_SIZE"),
            rank = first_number("OMPI_COMM_WORLD_RANK PMI_RANK RANK"),
            size = first_number("OMPI_COMM_WORLD_SIZE PMI_SIZE WORLD_SIZE"),
            slurm = first_number("SLURM_STEP_NUM_NODES SLURM_NNODES");

        *local =
                first_number("OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID LOCAL_RANK");
        *local = *local > 0 ? *local : 0;
        if (rank >= 0 && size > 0 && (per_node > 0 || slurm < 0)) {
                /* mpirun in an allocation also has Slurm's variables, for its own daemons; with
                 * srun --mpi=pmi2 only Slurm has the number of ranks per node */
                per_node = per_node > 0 ? per_node : 1;
                *nodes = (size + per_node - 1) / per_node;
                *index = rank / per_node;
        } else {
                *nodes = slurm;
                *index = first_number("SLURM_NODEID");
        }
        *nodes = o->nodes > 0 ? o->nodes : *nodes > 0 ? *nodes : 1;
        *index = o->index >= 0 ? o->index : *index > 0 ? *index : 0;
}
