/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that launchers put before each line: " 8: " of srun -l, "[8] " of mpiexec -l,
 * "[1,8]<stderr>:" of mpirun. They are used as ranks only if the whole text has them: at least half
 * of its lines, not as consecutive line numbers, and no line names another rank itself. Under
 * torchrun a label is a node.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

enum { LEAST_LINES = 2, MOST_LABEL = 1 << 20 };

/* The number in the line's label of @kind; -1: no label. */
static int32_t read_label(enum capo_line_label kind, const char *line)
{
        const char *at = line + strspn(line, " ");
        char *end;
        long n;

        if (kind != CAPO_LABEL_SRUN && *at++ != '[')
                return -1;
        if (kind == CAPO_LABEL_MPIRUN) {
                at += strcspn(at, ",]\n");
                if (*at++ != ',')
                        return -1;
        }
        if (*at < '0' || *at > '9')
                return -1;
        n = strtol(at, &end, 10);
        if (n >= MOST_LABEL)
                return -1;
        if (kind == CAPO_LABEL_SRUN)
                return end[0] == ':' && strchr(" \r\n", end[1]) ? (int32_t)n : -1;
        if (kind == CAPO_LABEL_MPIRUN)
                return !strncmp(end, "]<std", 5) ? (int32_t)n : -1;
        return !strncmp(end, "] ", 2) ? (int32_t)n : -1;
}

static bool is_labelled(const char *text, enum capo_line_label kind)
{
        uint32_t n = 0, n_labels = 0, n_next = 0;
        int32_t last = -1;

        for (const char *line = text, *end; *line; line = end + (*end == '\n')) {
                int32_t label, said;

                end = line + strcspn(line, "\n");
                if (strspn(line, " \t\r") == (size_t)(end - line))
                        continue;
                n++;
                label = read_label(kind, line);
                if (label < 0)
                        continue;
                said = capo_line_rank(line);
                if (said >= 0 && said != label)
                        return false;
                n_labels++;
                n_next += label == last + 1;
                last = label;
        }
        return n_labels >= LEAST_LINES && n_labels >= n - n_labels && n_next + 1 < n_labels;
}

void capo_labels_read(struct capo_evidence_text *t)
{
        static const char *const launchers[] = {"torchrun", "torch.distributed.elastic",
                                                "torch/distributed/elastic",
                                                "torch.distributed.launch"};

        t->label = CAPO_LABEL_NONE;
        for (size_t i = 0; i < N_ELEMENTS(launchers); i++) {
                if (capo_text_has(t, launchers[i]))
                        return;
        }
        for (unsigned kind = CAPO_LABEL_SRUN; kind < CAPO_LABELS && !t->label; kind++) {
                if (is_labelled(t->text, kind))
                        t->label = kind;
        }
}

int32_t capo_text_rank(const struct capo_evidence_text *t, const char *line)
{
        int32_t said = capo_line_rank(line);

        return said >= 0 || !t->label ? said : read_label(t->label, line);
}
