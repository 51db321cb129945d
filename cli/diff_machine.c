/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/causes/machine_series.h"
#include "cli/diff_machine.h"
#include "core/base/among.h"

/* Fewer events are no finding, nor are fewer than so many times as before. */
enum { FEW_EVENTS = 10, OFTEN = 3 };
#define LOWER 0.9 /* of the value before */

/* Gauges that should be high, and counters that should not grow. */
static const enum capo_machine_id compared[] = {
        CAPO_M_GPU_SM,     CAPO_M_GPU_PCIE_WIDTH, CAPO_M_NIC_RATE,
        CAPO_M_PROC_LIMIT, CAPO_M_GPU_HW_THERMAL, CAPO_M_GPU_SW_THERMAL,
        CAPO_M_GPU_XIDS,   CAPO_M_GPU_NVLINK_CRC, CAPO_M_GPU_NVLINK_REPLAY,
        CAPO_M_NIC_SYMBOL, CAPO_M_NIC_DOWNED,     CAPO_M_NIC_SEQ,
        CAPO_M_NIC_ACK,    CAPO_M_NIC_DISCARDS,   CAPO_M_NIC_EFA_PKTS};

/* False: not known. The clock of an idle GPU says nothing, and every GPU is idle at first. */
static bool get_value(const struct capo_machine_object *o, enum capo_machine_id id, uint64_t *value)
{
        const struct capo_machine_value *v = capo_machine_of(o, id);
        bool gauge = capo_machine_readings[id].kind == CAPO_MACHINE_GAUGE;

        *value = id == CAPO_M_GPU_SM ? o->busy_mhz : gauge ? v->least : v->grew;
        return v->asked && (id != CAPO_M_GPU_SM || *value);
}

/* Any process of the node may have read it. */
static bool is_of_node(enum capo_machine_scope scope)
{
        return scope == CAPO_MACHINE_NODE || scope == CAPO_MACHINE_NETIF ||
               scope == CAPO_MACHINE_NIC;
}

static void compare_objects(const struct capo_machine_object *a,
                            const struct capo_machine_object *b, int32_t rank, const char *node,
                            struct diff_machine *out)
{
        for (size_t i = 0; i < N_ELEMENTS(compared) && out->n < DIFF_MACHINE_ROWS; i++) {
                const struct capo_machine_reading *r = &capo_machine_readings[compared[i]];
                struct diff_reading *row = &out->row[out->n];
                uint64_t before, after;

                if (r->scope != b->scope || !get_value(a, compared[i], &before) ||
                    !get_value(b, compared[i], &after) ||
                    (is_of_node(r->scope) &&
                     ANY_OF(told, out->row, out->n,
                            told->id == compared[i] && !strcmp(told->node, node) &&
                                    !strcmp(told->object, b->name))) ||
                    (r->kind == CAPO_MACHINE_GAUGE ? (double)after >= LOWER * (double)before
                                                   : after < FEW_EVENTS || after / OFTEN < before))
                        continue;
                *row = (struct diff_reading){
                        .id = compared[i], .rank = rank, .before = before, .after = after};
                snprintf(row->node, sizeof row->node, "%s", node);
                snprintf(row->object, sizeof row->object, "%s", b->name);
                out->n++;
        }
}

/* @sa: the readings of @pa. */
static void compare_processes(const struct capo_job *a, const struct capo_job_process *pa,
                              const struct capo_machine_series *sa, const struct capo_job *b,
                              const struct capo_job_process *pb, struct diff_machine *out)
{
        struct capo_machine_series *sb;
        bool same = !strcmp(a->nodes[pa->node].name, b->nodes[pb->node].name),
             rank = pa->rank >= 0 && pa->rank == pb->rank;

        if (!rank && !same)
                return;
        sb = capo_machine_series(pb, 0, UINT64_MAX, false);
        for (uint32_t i = 0; sb && i < sa->n_objects; i++) {
                const struct capo_machine_object *o = &sa->object[i];

                for (uint32_t k = 0; k < sb->n_objects; k++) {
                        bool named = !strcmp(o->name, sb->object[k].name);

                        if (o->scope == sb->object[k].scope &&
                            (is_of_node(o->scope)
                                     ? same && named
                                     : rank && (named || (!same && o->scope == CAPO_MACHINE_GPU))))
                                compare_objects(o, &sb->object[k], pb->rank,
                                                b->nodes[pb->node].name, out);
                }
        }
}

struct diff_machine diff_machine_make(const struct capo_job *a, const struct capo_job *b)
{
        struct diff_machine out = {0};

        for (uint32_t i = 0; i < a->n_processes; i++) {
                const struct capo_job_process *p = &a->processes[i];
                struct capo_machine_series *s = capo_machine_series(p, 0, UINT64_MAX, false);

                for (uint32_t k = 0; s && k < b->n_processes; k++)
                        compare_processes(a, p, s, b, &b->processes[k], &out);
                capo_machine_series_free(s);
        }
        return out;
}

const char *diff_machine_text(const struct diff_reading *r, char *text)
{
        const struct capo_machine_reading *is = &capo_machine_readings[r->id];
        bool named = strcmp(r->object, "-") != 0;

        snprintf(text, 300, "%s%s%s of %s: %s %s%" PRIu64 "%s%s instead of %s%" PRIu64,
                 is->scope == CAPO_MACHINE_GPU ? "GPU" : capo_machine_scopes[is->scope],
                 named ? " " : "", named ? r->object : "", r->node, is->name,
                 is->kind == CAPO_MACHINE_GAUGE ? "" : "+", r->after, *is->unit ? " " : "",
                 is->unit, is->kind == CAPO_MACHINE_GAUGE ? "" : "+", r->before);
        return text;
}
