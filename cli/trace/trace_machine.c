/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of the machine as counters. */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/causes/machine_series.h"
#include "cli/trace/trace_machine.h"

struct machine_lines {
        struct trace *t;
        uint32_t process;
};

static void put_reading(const struct machine_lines *m, const struct capo_machine_object *o,
                        const struct capo_machine_reading *r, uint64_t at, double value)
{
        char name[200], us[32], *json;

        snprintf(name, sizeof name, "%s %s %s %s%s", capo_machine_scopes[o->scope], o->name,
                 r->name, r->unit, r->kind == CAPO_MACHINE_COUNTER ? "/s" : "");
        json = trace_json_text(name);
        if (!json || !trace_is_seen(m->t, at, at)) {
                free(json);
                return;
        }
        trace_event(m->t);
        trace_printf(m->t, "{\"ph\":\"C\",\"name\":%s,\"pid\":%u,\"tid\":0", json, m->process + 1);
        *trace_put_us(us, at) = 0;
        trace_printf(m->t, ",\"ts\":%s", us);
        trace_printf(m->t, ",\"args\":{\"value\":%.3f}}", value);
        free(json);
}

/* A counter as its rate from the reading before on; it is 0 unless the next one says otherwise. */
static void write_reading(void *arg, const struct capo_machine_object *o,
                          const struct capo_machine_reading *r, uint64_t from_ns, uint64_t at_ns,
                          uint64_t value, uint64_t grew)
{
        const struct machine_lines *m = arg;
        uint64_t from = trace_ns(m->t, m->process, from_ns), at = trace_ns(m->t, m->process, at_ns);

        if (r->kind == CAPO_MACHINE_GAUGE) {
                put_reading(m, o, r, at, (double)value);
        } else if (grew && at > from) {
                put_reading(m, o, r, from, (double)grew * 1e9 / (double)(at - from));
                put_reading(m, o, r, at, 0);
        }
}

void trace_write_machine(struct trace *t, uint32_t process)
{
        struct machine_lines m = {t, process};

        capo_machine_visit(&t->job->processes[process], write_reading, &m);
}
