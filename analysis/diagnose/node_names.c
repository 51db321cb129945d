/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the node that failed in lines of Slurm:
 *
 *      srun: error: Node failure on node117
 *      slurmctld: error: Nodes node[117-118] not responding, setting DOWN
 *      slurmstepd: error: *** JOB 991 ON node100 CANCELLED AT ... DUE TO NODE FAILURE ***
 *
 * "ON node100" in the last line is the sender of the message, not the failed node.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

static const char NAME_CHARS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789.-_[],";

enum { NAMES_ROOM = 200 };

struct names {
        struct capo_evidence *e;
        char text[NAMES_ROOM]; /* "node117,node[3-4]"; "": none */
};

static void add_name(struct names *names, const char *name, size_t n)
{
        const char *at = names->text;

        while (n && strchr(".,", name[n - 1]))
                n--;
        while (n && (at = memmem(at, strlen(at), name, n))) {
                if ((at == names->text || at[-1] == ',') && (!at[n] || at[n] == ','))
                        return;
                at++;
        }
        if (n && strlen(names->text) + n + 2 < sizeof names->text)
                capo_append(names->text, sizeof names->text, "%s%.*s", *names->text ? "," : "",
                            (int)n, name);
}

static int take_behind(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *name = at + strlen("Node failure on ");

        add_name(arg, name, strspn(name, NAME_CHARS));
        return 0;
}

/* Take the word before " not responding", or the one before "is". */
static int take_before(const char *at, const char *line, uint32_t number, void *arg)
{
        size_t head = (size_t)(at - line);
        const char *end = at, *from;

        if (!memmem(line, head, "slurmctld", 9) && !memmem(line, head, "Nodes ", 6))
                return 0;
        if (head > 3 && !strncmp(end - 3, " is", 3))
                end -= 3;
        for (from = end; from > line && strchr(NAME_CHARS, from[-1]);)
                from--;
        add_name(arg, from, (size_t)(end - from));
        return 0;
}

int capo_nodes_name(struct capo_evidence *e)
{
        struct names names = {.e = e};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (!e->texts[i].text)
                        continue;
                capo_evidence_each(e, i, "Node failure on ", take_behind, &names);
                capo_evidence_each(e, i, " not responding", take_before, &names);
        }
        for (uint32_t i = 0; i < e->n_findings && *names.text; i++) {
                struct capo_diagnose_finding *f = &e->findings[i];

                if (!f->slurm_node)
                        continue;
                capo_append(f->headline, sizeof f->headline, ": %s", names.text);
                snprintf(f->next, sizeof f->next,
                         "leave it out (--exclude=%s); sinfo -R and slurmctld's log say why",
                         names.text);
        }
        return 0;
}
