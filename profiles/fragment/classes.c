/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of allocations. NCCL sees only the GPUs of a communicator, so two allocations behave
 * alike if a renumbering turns the link matrix of one into that of the other. (Symmetries of the
 * machine are such renumberings; tests/fragment compares the two for the DGX-1.) The canonical form
 * is the largest matrix over all orders, read row by row. The search drops an order at its first
 * smaller row, which is fast.
 *
 * A name has the number of GPUs, and whether rings (and how many), a chain, a branching tree, or
 * nothing connects them all. Classes of one machine with the same words are distinguished by a
 * letter, a for the most bricks. On machines without a known name they are distinguished by four
 * digits of a hash of the canonical form, so that the name does not depend on the rest of the
 * machine. */
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment.h"

#define CLASS_GPUS 16 /* GPUs of one machine without a switch, at most */
#define EXACT_MAX \
        10 /* up to this many GPUs all orders are searched; above, only sorted rows are compared \
            */

/* --- canonical form --- */

struct class_code {
        int n;
        uint8_t row[CLASS_GPUS][CLASS_GPUS];
};

struct order {
        int n;
        uint8_t m[CLASS_GPUS][CLASS_GPUS];
        uint8_t best[CLASS_GPUS]
                    [CLASS_GPUS]; /* row k: labels of the k-th vertex to those before it */
        int place[CLASS_GPUS];
        bool have;
};

/* @equal: the rows so far equal the best ones; otherwise they are larger, and all later rows
 * replace those. */
static void search_orders(struct order *o, int depth, unsigned used, bool equal)
{
        if (depth == o->n) {
                o->have = true;
                return;
        }
        for (int v = 0; v < o->n; v++) {
                uint8_t row[CLASS_GPUS];
                int cmp = 1;

                if (used >> v & 1)
                        continue;
                for (int k = 0; k < depth; k++)
                        row[k] = o->m[v][o->place[k]];
                if (o->have && equal)
                        cmp = memcmp(row, o->best[depth], (size_t)depth);
                if (cmp < 0)
                        continue;
                if (cmp > 0) {
                        memcpy(o->best[depth], row, (size_t)depth);
                        for (int k = depth + 1; k < o->n;
                             k++) /* the later rows belong to a smaller beginning */
                                memset(o->best[k], 0, sizeof o->best[k]);
                        o->have = true;
                }
                o->place[depth] = v;
                search_orders(o, depth + 1, used | 1u << v, true);
        }
}

static int by_byte(const void *a, const void *b)
{
        return *(const uint8_t *)b - *(const uint8_t *)a;
}

static int by_row(const void *a, const void *b) { return memcmp(b, a, CLASS_GPUS); }

/* Codes are equal if and only if a renumbering makes the labels equal. Above EXACT_MAX GPUs,
 * different labels may have equal codes too. */
static void class_code(int n, uint8_t label[CLASS_GPUS][CLASS_GPUS], struct class_code *out)
{
        struct order o = {.n = n};

        memset(out, 0, sizeof *out);
        memcpy(o.m, label, sizeof o.m);
        out->n = n;
        if (n > EXACT_MAX) { /* sorted labels of each vertex, sorted: equal for equal classes,
                                rarely for others */
                for (int v = 0; v < n; v++)
                        qsort(o.m[v], (size_t)n, 1, by_byte);
                qsort(o.m, (size_t)n, sizeof o.m[0], by_row);
                memcpy(out->row, o.m, sizeof out->row);
                return;
        }
        search_orders(&o, 0, 0, true);
        memcpy(out->row, o.best, sizeof out->row);
}

static int count_bricks(const struct class_code *c)
{
        int sum = 0;

        for (int i = 0; i < c->n * c->n; i++)
                sum += i % c->n < i / c->n ? c->row[i / c->n][i % c->n] : 0;
        return sum;
}

/* --- words --- */

/* Is there a way from @at through all GPUs that are not in @seen, back to GPU 0 if @ring? */
static bool has_walk(int n, uint8_t label[CLASS_GPUS][CLASS_GPUS], int at, unsigned seen, bool ring)
{
        if (seen + 1 == 1u << n)
                return !ring || label[at][0];
        for (int v = 0; v < n; v++) {
                if (!(seen >> v & 1) && label[at][v] && has_walk(n, label, v, seen | 1u << v, ring))
                        return true;
        }
        return false;
}

/* The sizes of the connected parts, "3.2", the largest first. */
static void list_components(int n, uint8_t label[CLASS_GPUS][CLASS_GPUS], char *text, size_t room)
{
        int of_size[CLASS_GPUS + 1] = {0};
        unsigned seen = 0;

        *text = 0;
        for (int s = 0; s < n; s++) {
                unsigned part = 1u << s, before = 0;

                if (seen >> s & 1)
                        continue;
                while (part != before) {
                        before = part;
                        for (int u = 0; u < n; u++) {
                                for (int v = 0; part >> u & 1 && v < n; v++)
                                        part |= label[u][v] ? 1u << v : 0;
                        }
                }
                seen |= part;
                of_size[__builtin_popcount(part)]++;
        }
        for (int size = n; size > 0; size--) {
                for (; of_size[size]; of_size[size]--)
                        capo_append(text, room, "%s%d", *text ? "." : "", size);
        }
}

static void class_words(const struct capo_topology *t, const int *gpus, int n,
                        uint8_t label[CLASS_GPUS][CLASS_GPUS], char *text, size_t room)
{
        static const char *const paths[] = {"self", "nvl",  "pix", "pxb",
                                            "phb",  "node", "sys", "unknown"};
        struct capo_ceilings c;
        struct capo_alloc a;
        uint8_t worst = 0;
        char parts[48];

        for (int i = 0; i < n * n; i++)
                worst = label[i / n][i % n] > worst ? label[i / n][i % n] : worst;
        list_components(n, label, parts, sizeof parts);
        if (n == 1) {
                snprintf(text, room, "1");
        } else if (!strcmp(t->platform, "pcie")) {
                snprintf(text, room, "%d-%s", n, paths[worst]);
        } else if (n == 2) {
                snprintf(text, room, worst ? "2-pair%d" : "2-apart", worst);
        } else if (strchr(parts, '.')) {
                snprintf(text, room, "%d-split%s", n, parts);
        } else if (has_walk(n, label, 0, 1, true)) {
                capo_alloc_gpus(gpus, n, &a);
                capo_ceilings(t, &a, CAPO_CEILING_RINGS, &c);
                capo_alloc_free(&a);
                snprintf(text, room, c.shapes.rings >= 0 ? "%d-ring%d" : "%d-ring", n,
                         c.shapes.rings);
        } else {
                int from = 0;

                while (from < n && !has_walk(n, label, from, 1u << from, false))
                        from++;
                snprintf(text, room, from < n ? "%d-chain" : "%d-tree", n);
        }
}

/* Labels: bricks between GPUs; on PCIe-only machines the enum capo_path between them. */
static void class_labels(const struct capo_topology *t, const int *gpus, int n,
                         uint8_t label[CLASS_GPUS][CLASS_GPUS])
{
        bool pcie = !strcmp(t->platform, "pcie");

        memset(label, 0, CLASS_GPUS * sizeof label[0]);
        for (int i = 0; i < n; i++) {
                for (int j = 0; j < n && pcie; j++)
                        label[i][j] =
                                i == j ? 0
                                       : t->gpu_path[(size_t)gpus[i] * t->n_gpus + (size_t)gpus[j]];
        }
        for (size_t k = 0; k < t->n_links; k++) {
                int a = -1, b = -1;

                if (t->links[k].end != CAPO_END_GPU)
                        continue;
                for (int i = 0; i < n; i++) {
                        a = gpus[i] == t->links[k].from ? i : a;
                        b = gpus[i] == t->links[k].to ? i : b;
                }
                if (a >= 0 && b >= 0)
                        label[a][b] = label[b][a] = (uint8_t)(label[a][b] + t->links[k].count);
        }
}

/* The letter that distinguishes the machine's classes of n GPUs with equal words; 0: there is one. */
static char class_letter(const struct capo_topology *t, const struct class_code *code,
                         const char *base)
{
        int n = code->n, total = (int)t->n_gpus, gpus[CLASS_GPUS], before = 0, others = 0;
        uint8_t label[CLASS_GPUS][CLASS_GPUS];
        struct class_code seen[64], c;
        char text[CAPO_CLASS_ROOM];
        size_t n_seen = 0;

        for (unsigned set = 1; set < 1u << total; set++) {
                bool known = n_seen == N_ELEMENTS(seen);
                int k = 0;

                if (__builtin_popcount(set) != n)
                        continue;
                for (int g = 0; g < total; g++) {
                        if (set >> g & 1)
                                gpus[k++] = g;
                }
                class_labels(t, gpus, n, label);
                class_code(n, label, &c);
                for (size_t i = 0; i < n_seen && !known; i++)
                        known = !memcmp(&seen[i], &c, sizeof c);
                if (known)
                        continue;
                seen[n_seen++] = c;
                class_words(t, gpus, n, label, text, sizeof text);
                if (!memcmp(&c, code, sizeof c) || strcmp(text, base) != 0)
                        continue;
                others++;
                before += count_bricks(&c) != count_bricks(code)
                                  ? count_bricks(&c) > count_bricks(code)
                                  : memcmp(&c, code, sizeof c) > 0;
        }
        return others ? (char)('a' + before) : 0;
}

/* Are all on one switch with equal links? Then all subsets of one size are alike. */
static bool on_switch(const struct capo_topology *t, const int *gpus, int n)
{
        int want = -1;

        if (!t->n_switches)
                return false;
        for (int i = 0; i < n; i++) {
                int count = 0;

                for (size_t k = 0; k < t->n_links; k++) {
                        if (t->links[k].from == gpus[i] && t->links[k].end == CAPO_END_SWITCH)
                                count += t->links[k].count;
                }
                if (!count || (want >= 0 && count != want))
                        return false;
                want = count;
        }
        return true;
}

static void name_node(const struct capo_topology *t, const int *gpus, int n, char *name,
                      size_t room)
{
        static const char *const vague[] = {"pcie", "nvlink", "xgmi", "nvswitch", ""};
        const char *machine = *t->platform ? t->platform : "machine";
        uint8_t label[CLASS_GPUS][CLASS_GPUS];
        struct class_code code;
        char base[CAPO_CLASS_ROOM], which = 0;
        bool known = t->n_gpus <= EXACT_MAX, slice = false;
        uint32_t hash = 2166136261u; /* FNV-1a */
        int distinct = 0;

        for (int i = 0, k; i < n; i++) {
                for (k = 0; gpus[k] != gpus[i]; k++)
                        ;
                distinct += k == i;
                slice |= t->gpus[gpus[i]].mig;
        }
        for (size_t i = 0; i < N_ELEMENTS(vague); i++)
                known &= strcmp(t->platform, vague[i]) != 0;
        if (slice) { /* they are connected by host memory only: how many, and on how many GPUs */
                snprintf(name, room, distinct < n ? "%.20s/%d-mig%d" : "%.20s/%d-mig", machine, n,
                         distinct);
                return;
        }
        if (on_switch(t, gpus, n) || n > CLASS_GPUS) {
                snprintf(name, room, "%.20s/%d", machine, n);
                return;
        }
        class_labels(t, gpus, n, label);
        class_words(t, gpus, n, label, base, sizeof base);
        class_code(n, label, &code);
        if (n > 2 && !known) {
                for (size_t i = 0; i < sizeof code.row; i++)
                        hash = (hash ^ code.row[i / CLASS_GPUS][i % CLASS_GPUS]) * 16777619u;
                snprintf(name, room, "%.20s/%.36s-%04x", machine, base,
                         (hash ^ hash >> 16) & 0xffff);
                return;
        }
        which = n > 2 ? class_letter(t, &code, base) : 0;
        snprintf(name, room, which ? "%.20s/%.40s-%c" : "%.20s/%.40s", machine, base, which);
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

void capo_class_name(const struct capo_topology *t, const struct capo_alloc *a, char *name,
                     size_t room)
{
        _cleanup_free_ char(*names)[CAPO_CLASS_ROOM] =
                xcalloc((size_t)a->n_nodes + 1, CAPO_CLASS_ROOM);
        _cleanup_free_ int *gpus = xmalloc(sizeof *gpus * ((size_t)a->n_ranks + 1));

        for (int node = 0; node < a->n_nodes; node++) {
                int n = 0;

                for (int i = 0; i < a->n_ranks; i++) {
                        if (a->ranks[i].node == node)
                                gpus[n++] = a->ranks[i].gpu;
                }
                name_node(t, gpus, n, names[node], CAPO_CLASS_ROOM);
        }
        if (a->n_nodes == 2) /* more have an order (core/base/layout.h) */
                qsort(names, 2, CAPO_CLASS_ROOM, by_text);
        *name = 0;
        for (int node = 0, same; node < a->n_nodes;
             node += same) { /* alike ones once: 4*hgxh100/8 */
                for (same = 1;
                     node + same < a->n_nodes && !strcmp(names[node], names[node + same]);)
                        same++;
                capo_append(name, room, "%s", *name ? "+" : "");
                if (same > 1)
                        capo_append(name, room, "%d*", same);
                capo_append(name, room, "%s", names[node]);
        }
}
