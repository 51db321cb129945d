/* SPDX-License-Identifier: Apache-2.0 */
/* Layout: how many ranks each node has, in the order of the nodes' lowest ranks. Three and more
 * equal nodes in a row are written 4x8 (four nodes of 8 ranks), so 2+4x8 is one node of 2 and then
 * four of 8. NCCL's trees load a node by its place, so 8+4+8+8 and 4+3x8 are two layouts. Two nodes
 * have no order: the two trees are mirror images, and 5+3 is 3+5. "4+3x8 in any order" is what only
 * the numbers settle: a rule for it holds in every order, and a communicator of it has an order
 * that is not known.
 *
 * A layout decides which profile rules fire, and all ranks must decide alike: every function here
 * is a pure function of its arguments, and says "not known" where the arguments do not settle it.
 * None allocates. */
#pragma once

#include "core/base/util.h"

#define CAPO_LAYOUT_RUNS 32  /* runs of equal nodes in one job */
#define CAPO_LAYOUT_TEXT 512 /* room for any layout as text */
#define CAPO_LAYOUT_ANY  " in any order"

struct capo_layout {
        uint32_t n_ranks, n_nodes; /* 0 nodes: not known */
        uint32_t n_runs;
        bool any_order; /* which node comes first is open; then no two runs are alike */
        struct {
                uint32_t ranks, nodes; /* neighbours differ */
        } runs[CAPO_LAYOUT_RUNS];
};

/** capo_layout_add() - @nodes nodes of @ranks each after the others. Return: 0; -EINVAL a zero;
 * -E2BIG too many runs or more than 2^24 ranks. */
int capo_layout_add(struct capo_layout *l, uint32_t ranks, uint32_t nodes);

/** capo_layout_ordered() - does its nodes' order matter? Of three and more of two sizes it does. */
bool capo_layout_ordered(const struct capo_layout *l);

/** capo_layout_in_any_order() - @l without its order: sorted, any_order set where order matters. */
struct capo_layout capo_layout_in_any_order(const struct capo_layout *l);

/** capo_layout_parse() - "3+5", "8", "4x8", "2+4x8", "4+3x8 in any order" (spaces allowed). Return:
 * 0; -EINVAL not a layout (*at, when given, is the place in @text); -E2BIG as above. *out only on
 * success. */
int capo_layout_parse(const char *text, struct capo_layout *out, const char **at);

/** capo_layout_parse_slurm() - "3,5", "4(x2),2" (SLURM_TASKS_PER_NODE). Return: as above. */
int capo_layout_parse_slurm(const char *text, struct capo_layout *out);

/** capo_layout_print() - the canonical text; "" for a layout not known. Return: @text. */
char *capo_layout_print(const struct capo_layout *l, char *text, size_t room);

/** capo_layout_equal() - the same ranks on the same nodes; of two with an order, in the same one.
 */
bool capo_layout_equal(const struct capo_layout *a, const struct capo_layout *b);

/** capo_layout_covers() - does what holds for @outer hold for @inner? Equal, or in any order. */
bool capo_layout_covers(const struct capo_layout *outer, const struct capo_layout *inner);

/** capo_layout_text_covers() - the same of texts; also of words such as "even", if equal. */
bool capo_layout_text_covers(const char *outer, const char *inner);

/** capo_layout_smallest(), capo_layout_largest() - ranks of a node; 0 not known. */
uint32_t capo_layout_smallest(const struct capo_layout *l);
uint32_t capo_layout_largest(const struct capo_layout *l);

/* The numbers that NCCL gives a communicator's plugin. -1: not given. */
struct capo_layout_reported {
        int n_ranks, n_nodes;
        int min_local, max_local; /* tuner ABI v5 and later */
};

/* Who settled a layout. A source nearer to the top is believed against those below. */
enum capo_layout_source {
        CAPO_LAYOUT_UNKNOWN = 0,
        CAPO_LAYOUT_NCCL,     /* the numbers NCCL gave leave one possibility */
        CAPO_LAYOUT_LAUNCHER, /* the launcher, or CAPO_LAYOUT */
};

struct capo_layout_why {
        enum capo_layout_source source;
        bool dropped; /* the launcher's layout of so many ranks: NCCL contradicts it */
        const char *text;
};

/** capo_layout_of_comm() - layout of one communicator
 * @world:  layout of the whole job by the launcher, or NULL
 * @reported: NCCL's numbers of the communicator. They are the stronger source: NCCL may count one
 *          server without an NVLink path as two nodes
 * @out:    set on success only
 * @why:    what settled it, or why nothing did, or which source contradicted the other and was
 *          dropped; may be NULL, else always filled; the text is a constant
 *
 * A sub-communicator's members are not known to a plugin. Its layout is settled only where the
 * numbers leave one possibility: one node; one rank per node; smallest = largest; two or three
 * nodes with smallest and largest known; sums that force every other node to the smallest or
 * largest size. @world counts only for a communicator of all its ranks whose node count, smallest
 * and largest agree with it. Numbers never settle an order: that is @world's, or it stays open. A
 * communicator of all ranks is taken to number them as the launcher does. One that does not is
 * taken wrongly by all its ranks alike.
 *
 * Return: 0; -ENODATA not settled; -EINVAL the numbers contradict themselves. */
int capo_layout_of_comm(const struct capo_layout *world,
                        const struct capo_layout_reported *reported, struct capo_layout *out,
                        struct capo_layout_why *why);

/* --- what a launcher's variables say --- */

typedef const char *(*capo_layout_getenv)(const char *name, void *user); /* NULL when unset */

struct capo_layout_launch {
        struct capo_layout layout; /* n_nodes 0: no source settles it */
        uint32_t n_ranks;          /* of the job; 0 not known */
        char source[64];           /* variable that settled the layout; "" none */
        char said[512];            /* conflicts, one sentence each, and what was dropped; "" none */
};

/** capo_layout_from_launcher() - layout of the job, the same answer on every rank
 * @get:  getenv, or a stand-in for tests
 * @in_rank: asked by a rank, not by what starts it: of Slurm then the step counts, which every rank
 *          reads alike, not the allocation
 *
 * Sources, the nearest to the ranks first: CAPO_LAYOUT; torchrun (WORLD_SIZE, LOCAL_WORLD_SIZE,
 * GROUP_WORLD_SIZE); Open MPI (OMPI_COMM_WORLD_SIZE, _LOCAL_SIZE); MPICH/Hydra and Intel MPI
 * (PMI_SIZE, MPI_LOCALNRANKS); Slurm (SLURM_STEP_TASKS_PER_NODE, then SLURM_TASKS_PER_NODE).
 * Slurm's variables are ignored if another of these started the ranks: on some nodes they then
 * describe the allocation, on others the launcher's daemons. A rank's local size differs from node
 * to node, so it settles a layout only for one node, or for torchrun with two groups. A source
 * whose ranks do not add up to the job's is dropped, and `said` names both.
 *
 * Return: 0 with the layout known; -ENODATA with *out filled and the layout not known; -EINVAL:
 * CAPO_LAYOUT is set and is not a layout (`said` has the reason). */
int capo_layout_from_launcher(capo_layout_getenv get, void *user, bool in_rank,
                              struct capo_layout_launch *out);
