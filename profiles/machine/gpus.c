/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "core/base/layout.h"
#include "core/base/xalloc.h"
#include "capo/msg.h"
#include "profiles/machine/gpus.h"

struct reader {
        const struct capo_gpus_of *of;
        struct capo_gpu_place *v;
        size_t n;
        const char *text, *at;
        int node;
        char *why;
        size_t room;
        char named[100]; /* allocation "TEXT" */
};

#define bad(r, error, ...) capo_why_at(error, (r)->why, (r)->room, (r)->named, 0, __VA_ARGS__)

static void skip_blanks(struct reader *r) { r->at += strspn(r->at, " \t"); }

static int add_gpu_place(struct reader *r, int gpu)
{
        int number = r->of->n_devs ? r->of->devs[gpu] : gpu;

        if (ANY_OF(place, r->v, r->n, place->node == r->node && place->gpu == gpu))
                return bad(r, -EINVAL, "GPU %d is there twice", number);
        if (r->n == r->of->most)
                return bad(r, -EINVAL, "more ranks than can be analysed (%zu)", r->of->most);
        *xadd(r->v, r->n) = (struct capo_gpu_place){r->node, gpu};
        return 0;
}

static int add_number(struct reader *r, long number)
{
        const struct capo_gpus_of *of = r->of;
        const uint16_t *dev = FIRST_OF(d, of->devs, of->n_devs, *d == number);

        if (!of->n_devs)
                return number > UINT16_MAX ? bad(r, -EINVAL, "no GPU has the number %ld", number)
                                           : add_gpu_place(r, (int)number);
        return dev ? add_gpu_place(r, (int)(dev - of->devs))
                   : bad(r, -ENOENT, "no GPU %ld; this machine has %zu, numbered %d to %d", number,
                         of->n_devs, of->devs[0], of->devs[of->n_devs - 1]);
}

static int read_gpu(struct reader *r)
{
        char word[64], *end;
        size_t n = strcspn(r->at, ",+;{} \t");
        long from, to;
        int e = 0;

        snprintf(word, sizeof word, "%.*s", (int)n, r->at);
        r->at += n;
        if (strchr(word, '.')) {
                int gpu = r->of->busid ? r->of->busid(r->of->machine, word) : -1;

                return gpu < 0 ? bad(r, -ENOENT, "no GPU at %s", word) : add_gpu_place(r, gpu);
        }
        if (!isdigit((unsigned char)*word))
                return bad(
                        r, -EINVAL,
                        "expected a GPU number, a range such as 0-3 or a bus id, as in 1,2,3+0-4 or 0:1,2,3;1:0-4, "
                        "found \"%s\"",
                        *word ? word : r->at);
        from = to = strtol(word, &end, 10);
        if (*end == '-' && isdigit((unsigned char)end[1]))
                to = strtol(end + 1, &end, 10);
        if (*end || to < from || to > 100000)
                return bad(r, -EINVAL, "expected a GPU number or a range such as 0-3, found \"%s\"",
                           word);
        for (long number = from; number <= to && !e; number++)
                e = add_number(r, number);
        return e;
}

/* Parse "1:" before a machine; a bus id has a dot after its colons. */
static int read_node(struct reader *r)
{
        size_t digits = strspn(r->at, "0123456789");
        bool named = digits && r->at[digits] == ':' && !memchr(r->at, '.', strcspn(r->at, ",;+{}"));
        long node = named ? strtol(r->at, NULL, 10) : 0;

        if (!named)
                return 0;
        if (node > UINT16_MAX)
                return bad(r, -EINVAL, "no machine has the number %ld", node);
        r->node = (int)node;
        r->at += digits + 1;
        skip_blanks(r);
        return 0;
}

/* Parse "5 x" before a machine in braces: a number of equal machines. */
static int read_times(struct reader *r, unsigned long *times)
{
        size_t n = strspn(r->at, "0123456789"), cross = n + strspn(r->at + n, " \t");

        *times = 1;
        if (!n || !r->at[cross] || !strchr("x*", r->at[cross]))
                return 0;
        *times = strtoul(r->at, NULL, 10);
        r->at += cross + 1;
        skip_blanks(r);
        if (*r->at != '{' || !*times || *times > UINT16_MAX)
                return bad(r, -EINVAL, "expected machines alike such as 5 x {0-3}, found \"%s\"",
                           r->text);
        return 0;
}

static int read_machine(struct reader *r)
{
        unsigned long times;
        size_t first = r->n;
        int e = read_times(r, &times) ?: read_node(r);
        bool open = *r->at == '{';

        r->at += open;
        while (!e) {
                skip_blanks(r);
                e = read_gpu(r);
                skip_blanks(r);
                if (e || *r->at != ',')
                        break;
                r->at++;
        }
        if (!e && open && *r->at != '}')
                return bad(r, -EINVAL, "expected , or }, found \"%s\"", r->at);
        r->at += !e && open;
        skip_blanks(r);
        for (size_t end = r->n; !e && times > 1; times--) { /* the same GPUs of the next machines */
                r->node++;
                for (size_t i = first; i < end && !e; i++)
                        e = add_gpu_place(r, r->v[i].gpu);
        }
        return e;
}

static int read_list(struct reader *r)
{
        for (;;) {
                int e;

                skip_blanks(r);
                e = read_machine(r);
                if (e || !*r->at)
                        return e;
                if (*r->at != '+' && *r->at != ';')
                        return bad(r, -EINVAL, "expected , or + (next machine), found \"%s\"",
                                   r->at);
                r->at++;
                r->node++;
        }
}

bool capo_gpus_counts(const char *text, bool counts)
{
        if (strchr(text, '{'))
                return false;
        return strpbrk(text, "x*") || (counts && !strpbrk(text, ",-:;.{}"));
}

#define BLANKS \
        " \t\n\v\f\r" /* the blanks that capo_layout_parse() accepts, which has checked the text \
                       */

/* In the written order: 5+3 differs from 3+5 if each node has its own description. */
static int read_counts(struct reader *r)
{
        struct capo_layout l;
        const char *at = "";
        int e = 0;

        if (capo_layout_parse(r->text, &l, &at) < 0)
                return bad(r, -EINVAL, "expected GPUs per machine such as 3+5 or 2x8, found \"%s\"",
                           *at ? at : r->text);
        if (capo_layout_largest(&l) > r->of->n_devs)
                return bad(r, -EINVAL, "a node of %s has %zu GPUs, not %u", r->of->name,
                           r->of->n_devs, capo_layout_largest(&l));
        if (l.n_ranks > r->of->most)
                return bad(r, -EINVAL, "%u ranks are more than can be analysed (%zu)", l.n_ranks,
                           r->of->most);
        at = r->text;
        while (!e && *(at += strspn(at, BLANKS)) >= '0' && *at <= '9') {
                char *end;
                unsigned long nodes = 1, ranks = strtoul(at, &end, 10);

                end += strspn(end, BLANKS);
                if (*end == 'x' || *end == '*') {
                        nodes = ranks;
                        ranks = strtoul(end + 1, &end, 10);
                        end += strspn(end, BLANKS);
                }
                for (; nodes && !e; nodes--, r->node++) {
                        for (unsigned long gpu = 0; gpu < ranks && !e; gpu++)
                                e = add_gpu_place(r, (int)gpu);
                }
                at = end + (*end == '+');
        }
        return e || !*at ? e
                         : capo_why(-EINVAL, r->why, r->room,
                                    "%s: nodes have an order here: \"%s\"", r->named, at);
}

int capo_gpus_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                    struct capo_gpu_place **out, size_t *n, char *why, size_t room)
{
        struct reader r = {.of = of, .text = text, .at = text, .why = why, .room = room};
        int e;

        snprintf(r.named, sizeof r.named, "allocation \"%.80s\"", text);
        e = capo_gpus_counts(text, counts) ? read_counts(&r) : read_list(&r);

        if (e < 0) {
                free(r.v);
                return e;
        }
        *out = r.v;
        *n = r.n;
        return 0;
}
