/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the machine that a command line names. */
#include "capo/msg.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_machine.h"
#include "cli/base/near_word.h"
#include "cli/base/plan_tools.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"
#include "profiles/plan/plan_machine.h"

/* Add the platform's links to a file that has only the PCI tree, as NCCL gets it. */
static int load_completed_topology(const char *path, const struct cli_machine_words *o,
                                   struct capo_topology **t, char *why, size_t room)
{
        _cleanup_free_ struct plan_machine *m = xcalloc(1, sizeof *m);
        _cleanup_free_ char *name = xprintf("%s/capo-topo-XXXXXX", capo_file_temp_folder());
        int fd = mkstemp(name), r;

        if (fd < 0)
                return capo_why(-errno, why, room, "%.200s: no temporary file: %s", path,
                                strerror(errno));
        close(fd);
        r = plan_machine_prepare(path, o->platform, name, m, why, room);
        if (!r)
                r = capo_topology_read(name, 0, o->brick_gbs, t, why, room);
        unlink(name);
        if (!r) { /* messages and pages use the name that the user gave */
                char *known = xstrdup(path);

                free((*t)->name);
                (*t)->name = known;
        }
        return r;
}

static bool ends_in_nccl_xml(const struct capo_topology *t)
{
        return t->xml && !strcmp(t->xml->name, "system");
}

/* Lower case, without what is neither letter nor digit: "DGX-H100" is dgxh100. */
static void reduce_name(const char *name, char *to, size_t room)
{
        size_t n = 0;

        for (; *name && n + 1 < room; name++) {
                if (isalnum((unsigned char)*name))
                        to[n++] = (char)tolower((unsigned char)*name);
        }
        to[n] = 0;
}

char *cli_platform_meant(const char *wrong, char *text, size_t room)
{
        const struct capo_platform *p;
        struct cli_near_word near = {0};
        char name[64], known[64];

        *text = 0;
        reduce_name(wrong, name, sizeof name);
        if (strlen(name) > 5 && !strncmp(name + 1, "gx", 2)) /* of dgxh100 and hgxh100: h100 */
                memmove(name, name + 3, strlen(name + 3) + 1);
        for (size_t i = 0; (p = capo_platform_at(i)); i++) {
                if (!capo_platform_find(p->name))
                        continue;
                reduce_name(p->name, known, sizeof known);
                cli_near_word_try(&near, wrong, p->name);
                if (strlen(name) > 2 && (strstr(known, name) || strstr(name, known)))
                        capo_append(text, room, "%s%s", *text ? " or " : ", is it ", p->name);
        }
        if (!*text && near.word)
                capo_append(text, room, ", is it %s", near.word);
        if (*text)
                capo_append(text, room, "?");
        return text;
}

int cli_machine_load(const char *verb, const struct cli_machine_words *o, struct capo_topology **t,
                     struct cli_machine_source *s)
{
        unsigned flags = o->partial ? CAPO_TOPOLOGY_PARTIAL : 0;
        char why[1024] = "out of memory";
        int r = -ENOENT;

        memset(s, 0, sizeof *s);
        if (o->topo)
                snprintf(s->path, sizeof s->path, "%s", o->topo);
        else if (o->platform)
                r = capo_topology_made(o->platform, o->brick_gbs, t, why, sizeof why);
        if (r == -ENOENT && o->platform && !o->topo &&
            cli_topology_find(o->platform, s->path, sizeof s->path) < 0) {
                char names[512], meant[200];

                r = capo_why(-ENODEV, why, sizeof why,
                             "platform \"%.64s\" is not known%s; one of%s", o->platform,
                             cli_platform_meant(o->platform, meant, sizeof meant),
                             capo_platform_names(true, names, sizeof names));
        }
        if (r == -ENOENT && !*s->path)
                r = capo_topology_this_machine(o->brick_gbs, t, why, sizeof why);
        else if (r == -ENOENT)
                r = capo_topology_read(s->path, flags, o->brick_gbs, t, why, sizeof why);
        if (!r && o->platform && *s->path && !(*t)->n_links && ends_in_nccl_xml(*t)) {
                capo_topology_free(steal(t));
                r = load_completed_topology(s->path, o, t, why, sizeof why);
                s->platform = o->platform;
        }
        if (r < 0)
                return capo_fail(r, "%s: %s", verb, why);
        if (!ends_in_nccl_xml(*t))
                *s->path = 0;
        return 0;
}

int cli_machine_measured(const char *verb, const struct cli_machine_words *words,
                         struct capo_topology **t, struct cli_machine_source *source,
                         const char **measured_in)
{
        struct cli_machine_words with = *words;
        int r = cli_machine_load(verb, words, t, source);

        with.brick_gbs = r < 0 ? 0 : capo_brick_measured_gbs(*t, measured_in);
        if (!(with.brick_gbs > 0)) {
                *measured_in = NULL;
                return r;
        }
        capo_topology_free(steal(t));
        return cli_machine_load(verb, &with, t, source);
}

int cli_machine_asker(const struct cli_machine_source *source, const struct capo_topology *t,
                      const char *libnccl, struct cli_machine_asker *out, char *why, size_t room)
{
        int r;

        memset(out, 0, sizeof *out);
        if (!*source->path)
                return capo_why(-EINVAL, why, room,
                                "NCCL reads only its own XML; this machine is described otherwise");
        r = cli_parts_find(libnccl, out->tools, out->libnccl, sizeof out->tools, why, room);
        if (r < 0)
                return r;
        out->machine = (struct fragment_machine){out->tools, out->libnccl, source->path,
                                                 source->platform, t};
        return 0;
}

void cli_machine_advise(const struct cli_machine_words *words, const char *alloc, bool counts,
                        const char *libnccl, struct fragment_advice *out)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct cli_machine_asker *asker = xmalloc(sizeof *asker);
        struct cli_machine_source source;
        struct capo_alloc a = {0};
        char why[512];

        *out = (struct fragment_advice){0};
        if (cli_machine_load("plan", words, &t, &source) == 0 &&
            capo_alloc_parse(t, alloc, counts, &a, why, sizeof why) == 0 &&
            fragment_gpus_text(t, &a, out->gpus) && fragment_nodes_differ(&a) &&
            cli_machine_asker(&source, t, libnccl, asker, why, sizeof why) == 0)
                fragment_advise(&asker->machine, &a, NULL, out);
        capo_alloc_free(&a);
}

json_t *cli_beyond_json(const struct fragment_beyond *beyond)
{
        return CLI_EACH(int i = 0; beyond && i < beyond->n; i++, json_string(beyond->text[i]));
}
