/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs: what people write on a command line, and what a scheduler gave. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fragment/fragment.h"

void capo_alloc_free(struct capo_alloc *a)
{
        free(a->ranks);
        memset(a, 0, sizeof *a);
}

int capo_alloc_gpus(const int *gpus, int n, struct capo_alloc *out)
{
        struct capo_alloc a = {.n_ranks = n, .n_nodes = 1, .ranks = calloc((size_t)n + 1, sizeof *a.ranks)};

        if (!a.ranks)
                return -ENOMEM;
        for (int i = 0; i < n; i++)
                a.ranks[i].gpu = gpus[i];
        *out = a;
        return 0;
}

void capo_alloc_layout(const struct capo_alloc *a, struct capo_layout *out)
{
        *out = (struct capo_layout){0};
        for (int i = 0; i < a->n_ranks;) {
                int n = 1;

                while (i + n < a->n_ranks && a->ranks[i + n].node == a->ranks[i].node)
                        n++;
                (void)capo_layout_add(out, (uint32_t)n, 1);
                i += n;
        }
}

char *capo_alloc_print(const struct capo_topology *t, const struct capo_alloc *a, char *text, size_t room)
{
        size_t used = 0;

        if (room)
                *text = 0;
        for (int i = 0; i < a->n_ranks && used < room; i++) {
                bool first = !i || a->ranks[i].node != a->ranks[i - 1].node;
                int n = snprintf(text + used, room - used, "%s%d",
                                 !i      ? "{"
                                 : first ? "} + {"
                                         : ",",
                                 t->gpus[a->ranks[i].gpu].dev);

                used += n > 0 ? (size_t)n : 0;
        }
        if (used < room)
                snprintf(text + used, room - used, "}");
        return text;
}

struct reader {
        const struct capo_topology *t;
        struct capo_alloc *a;
        const char *text;
        char *why;
        size_t room;
};

static int bad(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct reader *r, const char *format, ...)
{
        int n = snprintf(r->why, r->room, "allocation \"%.80s\": ", r->text);
        va_list args;

        va_start(args, format);
        if (n > 0 && (size_t)n < r->room)
                vsnprintf(r->why + n, r->room - (size_t)n, format, args);
        va_end(args);
        return -EINVAL;
}

static int add(struct reader *r, int gpu)
{
        struct capo_alloc *a = r->a;

        for (int i = 0; i < a->n_ranks; i++) {
                if (a->ranks[i].node == a->n_nodes - 1 && a->ranks[i].gpu == gpu)
                        return bad(r, "GPU %d is there twice", r->t->gpus[gpu].dev);
        }
        if (a->n_ranks % 16 == 0) {
                void *more = realloc(a->ranks, sizeof *a->ranks * (size_t)(a->n_ranks + 16));

                if (!more)
                        return -ENOMEM;
                a->ranks = more;
        }
        a->ranks[a->n_ranks++] = (struct capo_alloc_rank){a->n_nodes - 1, gpu};
        return 0;
}

static int read_gpu(struct reader *r, const char **p)
{
        char word[64];
        size_t n = strcspn(*p, ",+; \t");
        char *end;
        int e = 0;

        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), *p);
        *p += n;
        if (strchr(word, '.')) {
                int gpu = capo_topology_gpu_by_busid(r->t, word);

                return gpu < 0 ? bad(r, "no GPU at %s", word) : add(r, gpu);
        }
        if (!isdigit((unsigned char)*word))
                return bad(r, "expected a GPU number, a range such as 0-3 or a bus id, found \"%s\"", word);
        long from = strtol(word, &end, 10), to = from;

        if (*end == '-' && isdigit((unsigned char)end[1]))
                to = strtol(end + 1, &end, 10);
        if (*end || to < from || to > 100000)
                return bad(r, "expected a GPU number or a range such as 0-3, found \"%s\"", word);
        for (long dev = from; dev <= to && !e; dev++) {
                int gpu = capo_topology_gpu_by_dev(r->t, (int)dev);

                e = gpu < 0 ? bad(r, "no GPU %ld; this machine has %zu, numbered %d to %d", dev, r->t->n_gpus,
                                  r->t->gpus[0].dev, r->t->gpus[r->t->n_gpus - 1].dev)
                            : add(r, gpu);
        }
        return e;
}

/* "1:" at the beginning of a machine, as capo plan writes them: its number says nothing that the order does not. */
static void skip_node(const struct reader *r, const char **p)
{
        size_t digits = strspn(*p, "0123456789");
        bool first = *p == r->text || (*p)[-1] == ';';

        if (first && digits && (*p)[digits] == ':' && memchr(*p, '.', strcspn(*p, ",;+")) == NULL)
                *p += digits + 1;
}

static int read_list(struct reader *r)
{
        const char *p = r->text;
        int e = 0;

        r->a->n_nodes = 1;
        while (!e) {
                p += strspn(p, " \t{}");
                skip_node(r, &p);
                e = read_gpu(r, &p);
                p += strspn(p, " \t{}");
                if (e || !*p)
                        break;
                if (*p == '+' || *p == ';')
                        r->a->n_nodes++;
                else if (*p != ',')
                        return bad(r, "expected , or + (next machine), found \"%s\"", p);
                p++;
        }
        return e;
}

static int read_sizes(struct reader *r)
{
        struct capo_layout l;
        const char *at = "";
        int e = 0;

        if (capo_layout_parse(r->text, &l, &at) < 0)
                return bad(r, "expected GPUs per machine such as 3+5 or 2x8, found \"%s\"", at);
        if (capo_layout_largest(&l) > r->t->n_gpus)
                return bad(r, "a machine of %s has %zu GPUs, not %u", r->t->name, r->t->n_gpus,
                           capo_layout_largest(&l));
        if (l.n_ranks > 4096)
                return bad(r, "%u ranks are more than can be analysed (4096)", l.n_ranks);
        for (uint32_t i = 0; i < l.n_runs && !e; i++) {
                for (uint32_t k = 0; k < l.runs[i].nodes && !e; k++) {
                        r->a->n_nodes++;
                        for (uint32_t g = 0; g < l.runs[i].ranks && !e; g++)
                                e = add(r, (int)g);
                }
        }
        return e;
}

int capo_alloc_parse(const struct capo_topology *t, const char *text, bool sizes, struct capo_alloc *out, char *why,
                     size_t room)
{
        struct capo_alloc a = {0};
        struct reader r = {t, &a, text, why, room};
        int e = sizes ? read_sizes(&r) : read_list(&r);

        if (e < 0) {
                if (e == -ENOMEM)
                        snprintf(why, room, "out of memory");
                capo_alloc_free(&a);
                return e;
        }
        *out = a;
        return 0;
}
