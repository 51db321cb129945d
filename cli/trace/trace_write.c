/* SPDX-License-Identifier: Apache-2.0 */
/* The rarer events: names, steps, network. */

#include "cli/base/cli_json.h"
#include "cli/trace/trace.h"
#include "core/base/plain_text.h"

void trace_event(struct trace *t, const char *format, ...)
{
        va_list list;

        gzputs(t->out, t->some ? ",\n" : "\n");
        t->some = true;
        va_start(list, format);
        gzvprintf(t->out, format, list);
        va_end(list);
}

char *trace_json_text(const char *text)
{
        json_t *j = cli_json_text(text);
        char *json = json_dumps(j, JSON_ENCODE_ANY);

        json_decref(j);
        capo_plain(json, strlen(json), false, true);
        return json;
}

void trace_write_name(struct trace *t, const char *what, uint32_t process, size_t line,
                      const char *name, size_t order)
{
        bool of_thread = !strcmp(what, "thread_name");

        trace_event(
                t,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%zu,\"ts\":0,\"args\":{\"name\":%s}}",
                what, process + 1, line, name);
        trace_event(
                t,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%zu,\"ts\":0,\"args\":{\"sort_index\":%zu}}",
                of_thread ? "thread_sort_index" : "process_sort_index", process + 1, line, order);
}

void trace_write_steps(struct trace *t)
{
        const struct capo_job_steps *s = &t->steps;
        uint32_t own = UINT32_MAX; /* process 0 of the trace */
        bool any = false;

        for (uint32_t i = 0; i < s->steps.n; i++) {
                const struct capo_step *step = &s->steps.step[i];
                uint64_t begin = trace_ns(t, s->process, step->t_ns);
                unsigned long long number = capo_job_step_number(s, i);

                if (!trace_is_seen(t, begin, begin + step->ns))
                        continue;
                if (!any) {
                        trace_write_name(t, "process_name", own, 0, "\"steps\"", 0);
                        trace_write_name(t, "thread_name", own, 0,
                                         s->steps.known == CAPO_STEPS_FOUND
                                                 ? "\"steps of the job\""
                                                 : "\"steps of the job (uncertain)\"",
                                         0);
                }
                any = true;
                trace_event(t,
                            "{\"ph\":\"X\",\"name\":\"step %llu\",\"cat\":\"step\",\"pid\":0,"
                            "\"tid\":0,\"args\":{\"step\":%llu,\"calls\":%u,\"plain\":%s},"
                            "\"ts\":" TRACE_US ",\"dur\":" TRACE_US "}",
                            number, number, step->n, step->plain ? "true" : "false",
                            TRACE_IN(begin), TRACE_IN(step->ns));
        }
}

static void put_rate(struct trace *t, uint32_t process, uint64_t at, double sent, double received)
{
        trace_event(t,
                    "{\"ph\":\"C\",\"name\":\"network MB/s\",\"pid\":%u,\"tid\":0,\"ts\":" TRACE_US
                    ",\"args\":{\"sent\":%.3f,\"received\":%.3f}}",
                    process + 1, TRACE_IN(at), sent, received);
}

/* Traffic over libfabric in each window: a rate, then zero. */
void trace_write_network(struct trace *t, uint32_t process)
{
        const struct capo_log_header *h = &t->job->processes[process].header;
        const struct capo_fabric *f = t->fabric ? t->fabric->process[process] : NULL;
        uint64_t until = 0;

        for (size_t i = 0; f && i < f->n_windows; i++) {
                const struct capo_fabric_window *w = &f->windows[i];
                uint64_t begin, end;
                double s;

                if (w->begin_ns < h->t0_mono_ns || w->end_ns <= w->begin_ns)
                        continue;
                begin = trace_ns(t, process, w->begin_ns - h->t0_mono_ns);
                end = trace_ns(t, process, w->end_ns - h->t0_mono_ns);
                s = (double)(w->end_ns - w->begin_ns) / 1e9;
                if (!trace_is_seen(t, begin, end))
                        continue;
                if (until && begin > until)
                        put_rate(t, process, until, 0, 0);
                put_rate(t, process, begin, (double)w->tx_bytes / s / 1e6,
                         (double)w->rx_bytes / s / 1e6);
                until = end;
        }
        if (until)
                put_rate(t, process, until, 0, 0);
}
