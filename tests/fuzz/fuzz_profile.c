/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a profile, JSON or CSV: read, checked, compiled, asked, written, read back. Held
 * against jansson: what is accepted here must be JSON there, and what jansson refuses must be
 * refused here.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/profile_table.h"
#include "core/profile/profile_check.h"
#include "tests/fuzz/fuzz.h"

static void nothing(void *user, enum capo_finding_level level, uint32_t line, const char *text)
{
        must(text[0]);
}

static uint32_t walk(const struct capo_profile *p, const struct capo_shape *shape,
                     const struct capo_question *q)
{
        uint32_t *order, rule = 0;
        int n = capo_match(p, shape, &order);

        for (int i = 0; i < n && !rule; i++) {
                const struct capo_rule *r = &p->rules[order[i]];

                if (!capo_when_asked(&r->when, q))
                        continue;
                for (uint32_t k = 0; k < r->count[q->coll] && !rule; k++) {
                        const struct capo_row *row = &p->rows[r->first[q->coll] + k];

                        if (q->bytes >= row->from && q->bytes <= row->upto)
                                rule = r->first[q->coll] + k + 1;
                }
        }
        free(order);
        return rule;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct capo_shape shapes[] = {
                {.n_ranks = 8,
                 .n_nodes = 2,
                 .min_local = 3,
                 .max_local = 5,
                 .nccl = 22809,
                 .allow_modelled = true,
                 .layout = "3+5",
                 .comm = "dp"},
                {.n_ranks = 4, .n_nodes = 1, .min_local = 4, .max_local = 4, .layout = "4"},
                {.n_ranks = -1, .n_nodes = -1, .min_local = -1, .max_local = -1}};
        struct capo_profile *p = NULL, *q = NULL;
        struct capo_fault fault = {""};
        char *text;
        FILE *f;
        size_t n;
        int r = capo_profile_parse((const char *)data, size, "fuzz", &p, &fault);

        if (r < 0) {
                must(!strncmp(fault.text, "fuzz", 4)); /* every fault says where */
                return 0;
        }
        if (!p->csv) {
                json_error_t error;
                json_t *json = json_loadb((const char *)data, size, JSON_DISABLE_EOF_CHECK, &error);
                char *again;
                size_t m;

                f = open_memstream(&text, &n);

                /* a number that jansson cannot hold is JSON all the same, and may stand where no
                 * number is read */
                must(json || json_error_code(&error) == json_error_numeric_overflow);
                json_decref(json);
                must(capo_profile_write(p, f) == 0);
                fclose(f);
                if (capo_profile_parse(text, n, "written", &q, &fault))
                        fprintf(stderr, "%s\n%s\n", fault.text, text);
                must(q);
                f = open_memstream(&again, &m);
                capo_profile_write(q, f);
                fclose(f);
                must(n == m && !memcmp(text, again, n));
                free(text);
                free(again);
                capo_profile_free(q);
        }
        f = open_memstream(&text, &n);
        must(capo_profile_write_csv(p, f, f) >= 0);
        fclose(f);
        free(text);
        capo_profile_check(p, nothing, NULL);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                struct capo_tables *t;

                if (capo_tables_new(p, &shapes[s], &t) < 0)
                        continue;
                for (uint32_t i = 0; i < p->n_rows && i < 200; i++) {
                        for (int d = -1; d <= 1; d++) {
                                struct capo_question ask = {.coll = p->rows[i].coll,
                                                            .reg_buff = (int8_t)d,
                                                            .pipe_ops = 1 + (int)(i & 3),
                                                            .link = (uint8_t)(i % 3),
                                                            .ring_gbs = 10,
                                                            .tree_gbs = -1,
                                                            .bytes = p->rows[i].upto + (uint64_t)d};

                                must(capo_tables_find(t, &ask).rule == walk(p, &shapes[s], &ask));
                        }
                }
                capo_tables_free(t);
        }
        capo_profile_free(p);
        return 0;
}
