/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/metrics_text.h"

void metrics_family(struct metrics_put *p, const char *name, const char *type, const char *help)
{
        p->name = name;
        p->type = type;
        p->help = help;
        p->counter = !strcmp(type, "counter");
        p->headed = false;
        metric_series_clear(&p->series);
}

/* OpenMetrics names a family of counters without "_total", the older format with it. A family
 * without points has no heading. */
static void put_heading(struct metrics_put *p)
{
        const char *end = p->counter && p->format == METRICS_TEXT ? "_total" : "";

        if (!p->headed && p->format != METRICS_LINES)
                fprintf(p->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", p->name, end, p->help, p->name,
                        end, p->type);
        p->headed = true;
}

/* Text from a job: anything but printable ASCII becomes '?'. */
static void put_quoted(FILE *out, const char *text)
{
        fputc('"', out);
        for (; *text; text++) {
                if (*text == '"' || *text == '\\')
                        fputc('\\', out);
                fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
        }
        fputc('"', out);
}

static void put_label(const struct metrics_put *p, FILE *out, const char *name, const char *value)
{
        bool lines = p->format == METRICS_LINES, first = ftell(out) == 0;

        if (!first)
                fputs(lines ? ", " : ",", out);
        fprintf(out, lines ? "\"%s\":" : "%s=", name);
        put_quoted(out, value);
}

void metrics_point(struct metrics_put *p, const char *suffix, double value, ...)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        FILE *out = isfinite(value) ? open_memstream(&text, &n) : NULL;
        char number[32];
        va_list labels;

        if (!out)
                return;
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
        if (fclose(out) || !metric_series_add(&p->series, text, n))
                return;
        text[n - strlen(suffix)] = 0;
        put_heading(p);
        snprintf(number, sizeof number, "%.15g", value);
        if (p->format == METRICS_LINES)
                fprintf(p->out,
                        "{\"metric\": \"%s%s\", \"type\": \"%s\", \"value\": %s, \"tags\": {%s}}\n",
                        p->name, suffix, p->type, number, text);
        else
                fprintf(p->out, *text ? "%s%s{%s} %s\n" : "%s%s%s %s\n", p->name, suffix, text,
                        number);
}
