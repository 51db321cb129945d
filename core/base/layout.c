/* SPDX-License-Identifier: Apache-2.0 */
/* A layout is kept as runs of equal nodes, which makes a job of a thousand nodes as small as one of
 * two. Where the order does not matter, texts and comparisons use the order of rising size. */
#include "capo/env.h"
#include "core/base/among.h"
#include "core/base/layout.h"
#include "core/base/text.h"

#define RANKS_MAX (1u << 24)

int capo_layout_add(struct capo_layout *l, uint32_t ranks, uint32_t nodes)
{
        uint32_t at = 0;

        if (!ranks || !nodes)
                return -EINVAL;
        if ((uint64_t)ranks * nodes + l->n_ranks > RANKS_MAX)
                return -E2BIG;
        if (l->n_runs == CAPO_LAYOUT_RUNS && l->runs[l->n_runs - 1].ranks != ranks)
                *l = capo_layout_in_any_order(l); /* the order of so many is not kept */
        while (l->any_order && at < l->n_runs && l->runs[at].ranks != ranks)
                at++;
        if (!l->any_order && l->n_runs)
                at = l->n_runs - (l->runs[l->n_runs - 1].ranks == ranks);
        if (at == CAPO_LAYOUT_RUNS)
                return -E2BIG;
        if (at == l->n_runs) {
                l->runs[at].ranks = ranks;
                l->runs[at].nodes = 0;
                l->n_runs++;
        }
        l->runs[at].nodes += nodes;
        l->n_nodes += nodes;
        l->n_ranks += ranks * nodes;
        return 0;
}

uint32_t capo_layout_smallest(const struct capo_layout *l)
{
        uint32_t least = l->n_runs ? l->runs[0].ranks : 0;

        for (uint32_t i = 1; i < l->n_runs; i++)
                least = l->runs[i].ranks < least ? l->runs[i].ranks : least;
        return least;
}

uint32_t capo_layout_largest(const struct capo_layout *l)
{
        return (uint32_t)MOST_OF(run, l->runs, l->n_runs, run->ranks);
}

bool capo_layout_ordered(const struct capo_layout *l) { return l->n_nodes > 2 && l->n_runs > 1; }

struct capo_layout capo_layout_in_any_order(const struct capo_layout *l)
{
        struct capo_layout sorted = {.any_order = capo_layout_ordered(l)};
        uint32_t above = 0, next;

        for (uint32_t nodes; sorted.n_nodes < l->n_nodes; above = next) {
                next = UINT32_MAX;
                nodes = 0;
                for (uint32_t i = 0; i < l->n_runs; i++) {
                        if (l->runs[i].ranks > above && l->runs[i].ranks < next)
                                next = l->runs[i].ranks;
                }
                for (uint32_t i = 0; i < l->n_runs; i++)
                        nodes += l->runs[i].ranks == next ? l->runs[i].nodes : 0;
                (void)capo_layout_add(&sorted, next, nodes); /* no more runs than @l has */
        }
        return sorted;
}

/* The one form of equal layouts. */
static struct capo_layout canonical_layout(const struct capo_layout *l)
{
        return capo_layout_ordered(l) && !l->any_order ? *l : capo_layout_in_any_order(l);
}

static bool read_number(const char **text, uint32_t *out)
{
        char *end;
        unsigned long v;

        if (!isdigit((unsigned char)**text))
                return false;
        errno = 0;
        v = strtoul(*text, &end, 10);
        if (errno || v > RANKS_MAX)
                v = RANKS_MAX + 1ul; /* refused by add */
        *text = end;
        *out = (uint32_t)v;
        return true;
}

static void skip_space(const char **text)
{
        while (isspace((unsigned char)**text))
                (*text)++;
}

int capo_layout_parse(const char *text, struct capo_layout *out, const char **at)
{
        struct capo_layout l = {0};
        uint32_t first, second;
        int r = -EINVAL;

        for (;;) {
                skip_space(&text);
                if (!read_number(&text, &first))
                        break;
                skip_space(&text);
                if (*text == 'x' || *text == '*') {
                        text++;
                        skip_space(&text);
                        if (!read_number(&text, &second))
                                break;
                        skip_space(&text);
                        r = capo_layout_add(&l, second, first);
                } else {
                        r = capo_layout_add(&l, first, 1);
                }
                if (r < 0)
                        break;
                l.any_order |= !strcmp(text, &CAPO_LAYOUT_ANY[1]);
                if (!*text || !strcmp(text, &CAPO_LAYOUT_ANY[1])) {
                        *out = l;
                        return 0;
                }
                r = -EINVAL;
                if (*text != '+')
                        break;
                text++;
        }
        if (at)
                *at = text;
        return r;
}

int capo_layout_parse_slurm(const char *text, struct capo_layout *out)
{
        struct capo_layout l = {0};
        uint32_t ranks, nodes;

        for (;;) {
                int r;

                if (!read_number(&text, &ranks))
                        return -EINVAL;
                nodes = 1;
                if (text[0] == '(' && text[1] == 'x') {
                        text += 2;
                        if (!read_number(&text, &nodes) || *text++ != ')')
                                return -EINVAL;
                }
                r = capo_layout_add(&l, ranks, nodes);
                if (r < 0)
                        return r;
                if (!*text) {
                        *out = l;
                        return 0;
                }
                if (*text++ != ',')
                        return -EINVAL;
        }
}

char *capo_layout_print(const struct capo_layout *layout, char *text, size_t room)
{
        struct capo_layout l = canonical_layout(layout);

        if (!room)
                return text;
        *text = 0;
        for (uint32_t i = 0; i < l.n_runs; i++) {
                bool times = l.runs[i].nodes > 2;

                for (uint32_t k = 0; k < (times ? 1 : l.runs[i].nodes); k++) {
                        if (*text)
                                capo_append(text, room, "+");
                        if (times)
                                capo_append(text, room, "%ux", l.runs[i].nodes);
                        capo_append(text, room, "%u", l.runs[i].ranks);
                }
        }
        if (l.any_order)
                capo_append(text, room, "%s", CAPO_LAYOUT_ANY);
        return text;
}

bool capo_layout_equal(const struct capo_layout *a, const struct capo_layout *b)
{
        struct capo_layout x = canonical_layout(a), y = canonical_layout(b);

        return x.n_runs == y.n_runs && x.any_order == y.any_order &&
               !memcmp(x.runs, y.runs, x.n_runs * sizeof *x.runs);
}

bool capo_layout_covers(const struct capo_layout *outer, const struct capo_layout *inner)
{
        struct capo_layout any = capo_layout_in_any_order(inner);

        return capo_layout_equal(outer, inner) || capo_layout_equal(outer, &any);
}

bool capo_layout_text_covers(const char *outer, const char *inner)
{
        struct capo_layout o, i;

        return !strcmp(outer, inner) ||
               (capo_layout_parse(outer, &o, NULL) == 0 &&
                capo_layout_parse(inner, &i, NULL) == 0 && capo_layout_covers(&o, &i));
}

/* --- one communicator --- */

/* Ranks and nodes with the smallest and largest node given: is there only one way to fill the nodes
 * in between? Only if what they have beyond the smallest is nothing or all, is spread in steps of one
 * rank, or is one rank from either end. */
static int solve_layout(int n_ranks, int n_nodes, int low, int high, struct capo_layout *out)
{
        long between = n_nodes - 2, step = high - low, most = between * step;
        long above = (long)n_ranks - low - high - between * low, highs, odd;
        struct capo_layout l = {0};
        int r;

        if (low < 1 || step < 0)
                return -EINVAL;
        if (!step) {
                r = (long)low * n_nodes == n_ranks
                            ? capo_layout_add(&l, (uint32_t)low, (uint32_t)n_nodes)
                            : -EINVAL;
        } else {
                if (above < 0 || above > most)
                        return -EINVAL;
                highs = above / step;
                odd = above % step;
                if (between > 1 && odd && above != 1 && most - above != 1)
                        return -ENODATA;
                if (between > 1 && !odd && step > 1 && highs && highs != between)
                        return -ENODATA;
                r = capo_layout_add(&l, (uint32_t)high, (uint32_t)(1 + highs));
                r = r || !odd ? r : capo_layout_add(&l, (uint32_t)(low + odd), 1);
                r = r
                            ?: capo_layout_add(&l, (uint32_t)low,
                                               (uint32_t)(1 + between - highs - !!odd));
        }
        if (!r)
                *out = l;
        return r;
}

static int set_reason(struct capo_layout_why *why, int r, enum capo_layout_source source,
                      const char *text)
{
        why->source = r ? CAPO_LAYOUT_UNKNOWN : source;
        why->text = why->dropped ? why->text : text;
        return r;
}

static void mark_dropped(struct capo_layout_why *why, const char *text)
{
        why->dropped = true;
        why->text = text;
}

int capo_layout_of_comm(const struct capo_layout *world,
                        const struct capo_layout_reported *reported, struct capo_layout *out,
                        struct capo_layout_why *why)
{
        int low = reported->min_local, high = reported->max_local, n = reported->n_ranks,
            nodes = reported->n_nodes, r;
        bool whole = world && world->n_nodes && n > 0 && world->n_ranks == (uint32_t)n;
        struct capo_layout_why unused;

        why = why ? why : &unused;
        *why = (struct capo_layout_why){0};
        if (n < 1 || nodes < 1 || nodes > n)
                return set_reason(why, -EINVAL, 0, "NCCL told no ranks or nodes");
        if (nodes == 1)
                low = high = n;
        if (nodes == n)
                low = high = 1;
        if (whole && world->n_nodes != (uint32_t)nodes)
                mark_dropped(
                        why,
                        "the launcher's layout is dropped: NCCL counts another number of nodes");
        else if (whole && low > 0 && high > 0 &&
                 (capo_layout_smallest(world) != (uint32_t)low ||
                  capo_layout_largest(world) != (uint32_t)high))
                mark_dropped(
                        why,
                        "the launcher's layout is dropped: NCCL counts another smallest or largest node");
        r = low < 1 || high < 1 ? -ENODATA : solve_layout(n, nodes, low, high, out);
        if (!r)
                *out = capo_layout_in_any_order(out);
        if (whole && !why->dropped &&
            (r == -ENODATA || (!r && out->any_order && capo_layout_covers(out, world)))) {
                *out = *world;
                return set_reason(why, 0, CAPO_LAYOUT_LAUNCHER,
                                  r ? "the launcher's layout, of all ranks"
                                    : "the launcher's layout, which NCCL's numbers confirm");
        }
        return set_reason(
                why, r, CAPO_LAYOUT_NCCL,
                !r && out->any_order
                        ? "NCCL's nodes, smallest and largest leave one layout, and not its order"
                : !r                  ? "NCCL's nodes, smallest and largest leave one layout"
                : low < 1 || high < 1 ? "not known: NCCL told neither smallest nor largest node"
                : r == -ENODATA       ? "not known: several layouts have these numbers"
                                : "ranks, nodes, smallest and largest node contradict each other");
}

/* --- launchers --- */

struct claim {
        const char *variable;
        struct capo_layout layout; /* n_nodes 0: it does not settle one */
        uint32_t n_ranks;          /* 0: it does not say */
};

static uint32_t env_number(capo_layout_getenv get, void *user, const char *name)
{
        const char *text = get(name, user);
        uint32_t v;

        return !text || !read_number(&text, &v) || *text || v > RANKS_MAX ? 0 : v;
}

#define SAY(out, format, ...)                                                              \
        capo_append((out)->said, sizeof(out)->said, "%s" format, *(out)->said ? "; " : "", \
                    __VA_ARGS__)

/* A launcher that tells the job's size and this node's: settled for one node only. */
static void claim_local(struct claim *c, const char *variable, uint32_t size, uint32_t local)
{
        c->variable = variable;
        c->n_ranks = size;
        if (size && local == size)
                (void)capo_layout_add(&c->layout, size, 1);
}

/* Slurm's variables count only if Slurm itself starts the ranks. Under mpirun they describe the
 * allocation on one node and the step of mpirun's daemons on the next, so ranks would disagree. In
 * a rank there is a step, and the allocation says nothing. */
static size_t collect_claims(capo_layout_getenv get, void *user, bool in_rank, struct claim *claims,
                             struct capo_layout_launch *out)
{
        static const char *const slurm[] = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
        uint32_t world = env_number(get, user, "WORLD_SIZE"),
                 local = env_number(get, user, "LOCAL_WORLD_SIZE"),
                 groups = env_number(get, user, "GROUP_WORLD_SIZE");
        bool not_srun = (world && local) || env_number(get, user, "OMPI_COMM_WORLD_SIZE") ||
                        env_number(get, user, "MPI_LOCALNRANKS");
        size_t n = 0;

        if (world && local) {
                struct claim *c = &claims[n++];

                claim_local(c, "WORLD_SIZE", world, local);
                if (groups == 2 &&
                    local < world) { /* two agents: the other one has the rest, seen from either */
                        (void)capo_layout_add(&c->layout, local, 1);
                        (void)capo_layout_add(&c->layout, world - local, 1);
                } else if (groups == world && local == 1 && world > 1) {
                        (void)capo_layout_add(&c->layout, 1, world);
                }
        }
        if (env_number(get, user, "OMPI_COMM_WORLD_SIZE"))
                claim_local(&claims[n++], "OMPI_COMM_WORLD_SIZE",
                            env_number(get, user, "OMPI_COMM_WORLD_SIZE"),
                            env_number(get, user, "OMPI_COMM_WORLD_LOCAL_SIZE"));
        if (env_number(get, user, "PMI_SIZE"))
                claim_local(&claims[n++], "PMI_SIZE", env_number(get, user, "PMI_SIZE"),
                            env_number(get, user, "MPI_LOCALNRANKS"));
        for (size_t i = 0; i < (in_rank ? 1 : 2) && !not_srun; i++) {
                const char *text = get(slurm[i], user);
                struct claim c = {.variable = slurm[i]};

                if (!text || !*text)
                        continue;
                if (capo_layout_parse_slurm(text, &c.layout) < 0) {
                        SAY(out, "%s=%.40s is not understood", slurm[i], text);
                        continue;
                }
                c.n_ranks = c.layout.n_ranks;
                claims[n++] = c;
                break; /* inside a step the step's variable is the one that counts */
        }
        return n;
}

int capo_layout_from_launcher(capo_layout_getenv get, void *user, bool in_rank,
                              struct capo_layout_launch *out)
{
        struct claim claims[8] = {0};
        const char *given = get(CAPO_ENV_layout, user), *at = NULL, *ranks_source = "";
        char a[CAPO_LAYOUT_TEXT], b[CAPO_LAYOUT_TEXT];
        size_t n = 0;

        *out = (struct capo_layout_launch){0};
        if (given && *given) {
                if (capo_layout_parse(given, &claims[0].layout, &at) < 0) {
                        snprintf(
                                out->said, sizeof out->said,
                                "CAPO_LAYOUT=%.60s: expected ranks per node such as 3+5 or 4x8, found \"%.20s\"",
                                given, at);
                        return -EINVAL;
                }
                claims[0].variable = CAPO_ENV_layout;
                claims[0].n_ranks = claims[0].layout.n_ranks;
                n = 1;
        }
        n += collect_claims(get, user, in_rank, claims + n, out);
        /* The launcher nearest to the ranks knows how many; Slurm may start a torchrun per node. */
        for (size_t i = 0; i < n && !out->n_ranks; i++) {
                if (claims[i].n_ranks &&
                    (strcmp(claims[i].variable, CAPO_ENV_layout) != 0 || n == 1)) {
                        out->n_ranks = claims[i].n_ranks;
                        ranks_source = claims[i].variable;
                }
        }
        for (size_t i = 0; i < n; i++) {
                const struct claim *c = &claims[i];

                if (c->n_ranks && c->n_ranks != out->n_ranks) {
                        SAY(out, "%s says %u ranks, %s says %u: %s is dropped", c->variable,
                            c->n_ranks, ranks_source, out->n_ranks, c->variable);
                } else if (!c->layout.n_nodes) {
                        continue;
                } else if (!out->layout.n_nodes) {
                        out->layout = c->layout;
                        snprintf(out->source, sizeof out->source, "%s", c->variable);
                } else if (!capo_layout_equal(&c->layout, &out->layout)) {
                        capo_layout_print(&c->layout, a, sizeof a);
                        capo_layout_print(&out->layout, b, sizeof b);
                        SAY(out, "%s says %.60s, %s says %.60s: %s is dropped", c->variable, a,
                            out->source, b, c->variable);
                }
        }
        return out->layout.n_nodes ? 0 : -ENODATA;
}
