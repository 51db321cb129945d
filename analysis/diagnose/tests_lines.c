/* SPDX-License-Identifier: Apache-2.0 */
/* Output of nccl-tests: did it end, and are its results right? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnose/evidence.h"

static int bad_values(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *n = at + strlen("# Out of bounds values");

        if (strtoul(n + strspn(n, " :"), NULL, 10))
                *(uint32_t *)arg = number;
        return 0;
}

/* The first row of results whose #wrong, out of place or in place, is above 0. A row is: size,
 * count, type, redop, root, then twice time, algbw, busbw, #wrong. */
static uint32_t find_wrong_row(const char *text)
{
        uint32_t number = 1;
        char type[16];

        for (const char *line = text; *line; number++) {
                const char *end = line + strcspn(line, "\n");
                char row[256];
                double wrong[2] = {0, 0};

                snprintf(row, sizeof row, "%.*s", (int)(end - line < 255 ? end - line : 255), line);
                if (sscanf(row, "%*u %*u %15[a-z0-9_] %*s %*d %*f %*f %*f %lf %*f %*f %*f %lf",
                           type, &wrong[0], &wrong[1]) >= 2 &&
                    (wrong[0] > 0 || wrong[1] > 0))
                        return number;
                line = end + (*end == '\n');
        }
        return 0;
}

/* @name as a word for a shell; FILE if it is too long. */
static const char *quote_name(const char *name, char *out, size_t room)
{
        size_t n = 0;

        if (*name && *name != '-' &&
            !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "/._-+:@,=%")])
                return strlen(name) < room ? name : "FILE";
        out[n++] = '\'';
        for (; *name && n + 6 < room; name++) {
                if (*name == '\'')
                        n += (size_t)snprintf(out + n, room - n, "'\\''");
                else
                        out[n++] = *name;
        }
        if (*name)
                return "FILE";
        out[n++] = '\'';
        out[n] = 0;
        return out;
}

/* A complete run ends with the line of the average. */
static int judge_tests(struct capo_evidence *e, uint32_t text)
{
        uint32_t bad = 0;
        int n_ended = capo_evidence_each(e, text, "# Avg bus bandwidth", NULL, NULL),
            n_begun = capo_evidence_each(e, text, "# nThread ", NULL, NULL);
        struct capo_diagnose_finding *f;
        char quoted[300];

        if (!n_begun)
                return 0;
        f = capo_evidence_finding(e);
        if (!f)
                return -ENOMEM;
        capo_evidence_each(e, text, "# Out of bounds values", bad_values, &bad);
        if (!bad)
                bad = find_wrong_row(e->texts[text].text);
        capo_finding_mark(f, (struct capo_evidence_mark){text, bad});
        if (bad) {
                *f = (struct capo_diagnose_finding){.rank = CAPO_RANK_CAUSE,
                                                    .kind = "wrong-results",
                                                    .sure = "certain",
                                                    .n_marks = 1,
                                                    .marks = {{text, bad}}};
                snprintf(f->headline, sizeof f->headline,
                         "NCCL-TESTS FOUND WRONG RESULTS: data was corrupted on its way");
                snprintf(f->next, sizeof f->next,
                         "run it per pair of GPUs and nodes to find which; then NCCL_PROTO=^LL128");
        } else if (n_ended >= n_begun) {
                f->rank = CAPO_RANK_HEALTHY;
                f->kind = "healthy";
                f->sure = "certain";
                snprintf(f->headline, sizeof f->headline, "NCCL-TESTS ENDED WITHOUT AN ERROR");
                snprintf(f->next, sizeof f->next,
                         "is its bandwidth normal? capo expect %s --platform NAME",
                         quote_name(e->texts[text].name, quoted, sizeof quoted));
        } else {
                f->rank = CAPO_RANK_UNDECIDED;
                f->kind = "undecided";
                f->sure = "unsure";
                snprintf(f->headline, sizeof f->headline,
                         "NCCL-TESTS DID NOT COME TO ITS END, or its output was cut");
                snprintf(f->missing, sizeof f->missing, "the same run with NCCL_DEBUG=INFO");
                snprintf(
                        f->next, sizeof f->next,
                        "NCCL_DEBUG=INFO, then NCCL_P2P_DISABLE=1 and NCCL_NVLS_ENABLE=0 one by one");
        }
        return 0;
}

int capo_tests_read(struct capo_evidence *e)
{
        int r = 0;

        for (uint32_t i = 0; i < e->n_texts && r == 0; i++) {
                if (e->texts[i].text)
                        r = judge_tests(e, i);
        }
        return r;
}
