/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/metrics_text.h"
#include "core/base/xalloc.h"

void metrics_family(struct metrics_put *p, const char *name, const char *type, const char *help)
{
        p->name = name;
        p->type = type;
        p->help = help;
        p->counter = !strcmp(type, "counter");
        p->headed = false;
        json_decref(p->series);
        p->series = json_object();
}

/* Text from a job: anything but printable ASCII becomes '?'. */
static void put_label(const struct metrics_put *p, FILE *out, const char *name, const char *value)
{
        const bool lines = p->format == METRICS_LINES;

        fprintf(out, lines ? "%s\"%s\":\"" : "%s%s=\"",
                !ftell(out) ? ""
                : lines     ? ", "
                            : ",",
                name);
        for (; *value; value++) {
                if (*value == '"' || *value == '\\')
                        fputc('\\', out);
                fputc(*value < ' ' || *value > '~' ? '?' : *value, out);
        }
        fputc('"', out);
}

void metrics_point(struct metrics_put *p, const char *suffix, double value, ...)
{
        /* OpenMetrics names a family of counters without "_total", the older format with it */
        const char *end = p->counter && p->format == METRICS_TEXT ? "_total" : "";
        _cleanup_free_ char *text = NULL;
        char number[32];
        va_list labels;
        size_t n = 0;
        FILE *out;

        if (!isfinite(value))
                return;
        out = xmemstream(&text, &n);
        if (p->job) {
                put_label(p, out, "job_id", p->job->id);
                put_label(p, out, "user", p->job->user);
                put_label(p, out, "node", p->watch->node);
        }
        va_start(labels, value);
        for (const char *name; (name = va_arg(labels, const char *));)
                put_label(p, out, name, va_arg(labels, const char *));
        va_end(labels);
        fputs(suffix, out); /* a part of the name */
        xmemclose(out);
        if (json_object_get(p->series, text))
                return;
        json_object_set_new_nocheck(p->series, text, json_null());
        text[n - strlen(suffix)] = 0;
        if (!p->headed && p->format != METRICS_LINES) /* a family without points has none */
                fprintf(p->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", p->name, end, p->help, p->name,
                        end, p->type);
        p->headed = true;
        snprintf(number, sizeof number, "%.15g", value);
        if (p->format == METRICS_LINES)
                fprintf(p->out,
                        "{\"metric\": \"%s%s\", \"type\": \"%s\", \"value\": %s, \"tags\": {%s}}\n",
                        p->name, suffix, p->type, number, text);
        else
                fprintf(p->out, *text ? "%s%s{%s} %s\n" : "%s%s%s %s\n", p->name, suffix, text,
                        number);
}
