/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/graph_folder.h"
#include "core/base/util.h"

#define TWO                                                                         \
        "capo-graph 1 nccl 22809\n"                                                 \
        "machine 1@0000:07:00.0 2@0000:0a:00.0 3@0000:0b:00.0 nics mlx5_0 mlx5_1\n" \
        "machine 0@0000:06:00.0 1@0000:07:00.0 2@0000:0a:00.0 3@0000:0b:00.0 4@0000:85:00.0 nics mlx5_0 mlx5_1\n"
#define EQUAL "capo-graph 1 nccl 22809\nmachine 0@0000:06:00.0 nics a\nmachine 0@0000:06:00.0 nics a\n"

Test(graph_folder, parse)
{
        static const struct {
                const char *text, *why;
        } wrong[] = {
                {"", "line 1"},
                {"capo-graph 2 nccl 22809\n", "line 1"},
                {"capo-graph 1 nccl x\n", "line 1"},
                {"capo-graph 1 nccl 22809", "line 1"},
                {"capo-graph 1 nccl 22809\n", "no machine"},
                {"capo-graph 1 nccl 22809\nmachine\n", "line 2"},
                {"capo-graph 1 nccl 22809\nmachine nics a\n", "line 2"},
                {"capo-graph 1 nccl 22809\nmachine 1\n", "found \"1\""},
                {"capo-graph 1 nccl 22809\nmachine -1@0000:07:00.0\n", "found \"-1@0000:07:00.0\""},
                {"capo-graph 1 nccl 22809\nmachine 1@0000:07:00.0.0000000000000\n", "line 2"},
                {"capo-graph 1 nccl 22809\n\nmachine 1@0000:07:00.0\nhost 2\n", "line 4: expected at most 16 machines, "
                                                                                "found \"host\""},
                {"capo-graph 1 nccl 22809\nmachine 0@a 1@a 2@a 3@a 4@a 5@a 6@a 7@a 8@a 9@a 10@a 11@a 12@a\n", "12@a"},
        };
        static struct capo_graph_folder f;
        char why[256];

        for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
                why[0] = 0;
                cr_expect_eq(capo_graph_folder_parse(wrong[i].text, &f, why, sizeof why), -EINVAL, "row %zu", i);
                cr_expect(strstr(why, wrong[i].why), "row %zu: %s", i, why);
        }
        cr_assert_eq(capo_graph_folder_parse(TWO, &f, why, sizeof why), 0, "%s", why);
        cr_expect_eq(f.nccl, 22809);
        cr_expect_eq(f.n_machines, 2);
        cr_expect_eq(f.n_ranks, 8);
        cr_expect_eq(f.machines[1].n_gpus, 5);
        cr_expect_eq(f.machines[1].gpus[4].dev, 4);
        cr_expect_str_eq(f.machines[1].gpus[4].busid, "0000:85:00.0");
        cr_expect_eq(f.machines[0].n_nics, 2);
        cr_expect_str_eq(f.machines[0].nics[1], "mlx5_1");
}

static const char *get_from(const char *name, void *user)
{
        size_t n = strlen(name);

        for (const char *const *v = user; *v; v++) {
                if (!strncmp(*v, name, n) && (*v)[n] == '=')
                        return *v + n + 1;
        }
        return NULL;
}

#define SRUN(node) "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=" node

Test(graph_folder, machine)
{
        static const struct {
                const char *text;
                const char *vars[8];
                int r;
        } rows[] = {
                {TWO, {NULL}, -ENODATA},
                {TWO, {"CUDA_VISIBLE_DEVICES=1,2,3", SRUN("0")}, 0},
                {TWO, {"CUDA_VISIBLE_DEVICES=3", SRUN("0")}, 0},
                {TWO, {SRUN("0")}, -EINVAL}, /* a program would take GPU 0 */
                {TWO, {SRUN("1")}, 1},
                {TWO, {SRUN("2")}, -EINVAL},
                {TWO, {SRUN("x")}, -ENODATA},
                {TWO, {"SLURM_NODEID=1"}, -ENODATA}, /* a batch script, not a task */
                {TWO, {SRUN("1"), "CUDA_VISIBLE_DEVICES=5"}, -EINVAL},
                {TWO, {SRUN("1"), "CUDA_VISIBLE_DEVICES="}, -EINVAL},
                {TWO, {SRUN("1"), "CUDA_VISIBLE_DEVICES=GPU-1234"}, -EINVAL},
                {TWO, {SRUN("1"), "CUDA_VISIBLE_DEVICES=0,1,"}, 1},
                {TWO, {SRUN("0"), "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=5"}, 1},
                {TWO, {SRUN("0"), "OMPI_COMM_WORLD_SIZE=8"}, -ENODATA},
                {TWO, {"MPI_LOCALNRANKS=5"}, 1},
                {TWO, {"MPI_LOCALNRANKS=4"}, -ENODATA},
                {TWO, {"GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=5"}, 1},
                {TWO, {"GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=3"}, -EINVAL},
                {TWO, {"GROUP_RANK=1", "GROUP_WORLD_SIZE=3", "LOCAL_WORLD_SIZE=2"}, -ENODATA},
                {EQUAL, {"MPI_LOCALNRANKS=1"}, -ENODATA}, /* both have one */
                {EQUAL, {SRUN("1")}, 1},
                {"capo-graph 1 nccl 22809\nmachine 0@0000:06:00.0 1@0000:07:00.0\n", {NULL}, 0},
                {"capo-graph 1 nccl 22809\nmachine 0@0000:06:00.0 1@0000:07:00.0\n", {"LOCAL_WORLD_SIZE=3"}, -EINVAL},
        };
        static struct capo_graph_folder f;
        char why[256];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                int r;

                cr_assert_eq(capo_graph_folder_parse(rows[i].text, &f, why, sizeof why), 0, "%s", why);
                why[0] = 0;
                r = capo_graph_folder_machine(&f, get_from, (void *)rows[i].vars, why, sizeof why);
                cr_expect_eq(r, rows[i].r, "row %zu: %d, %s", i, r, why);
                cr_expect(r >= 0 || *why, "row %zu: no reason", i);
        }
}
