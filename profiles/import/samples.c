/* SPDX-License-Identifier: Apache-2.0 */
/* The set that importers fill: runs, their samples, and notes. */
#include <time.h>

#include "core/base/xalloc.h"
#include "profiles/import/import_private.h"

uint32_t capo_samples_run(struct capo_samples *set, const struct capo_trial *run)
{
        struct capo_trial copy = *run; /* it may be one of the set's */

        copy.source = xstrdup(run->source ? run->source : "-");
        *xadd(set->runs, set->n_runs) = copy;
        return (uint32_t)set->n_runs - 1;
}

void capo_samples_add(struct capo_samples *set, const struct capo_sample *sample)
{
        *xadd(set->v, set->n) = *sample;
}

void capo_samples_note(struct capo_samples *set, const char *format, ...)
{
        va_list ap;
        char *text;

        va_start(ap, format);
        text = xvprintf(format, ap);
        va_end(ap);
        *xadd(set->notes, set->n_notes) = text;
}

void capo_samples_free(struct capo_samples *set)
{
        for (size_t i = 0; i < set->n_runs; i++)
                free(set->runs[i].source);
        for (size_t i = 0; i < set->n_notes; i++)
                free(set->notes[i]);
        for (size_t i = 0; i < set->n_known; i++)
                free(set->files[i].path);
        if (set->late)
                set->late_free(set);
        xfree(set->files, set->runs, set->notes, set->v);
        *set = (struct capo_samples){0};
}

const char *capo_make_name(unsigned make)
{
        static const char *const makes[CAPO_MAKES] = {
                "clock not known",     "nccl-tests loop",
                "host enqueue time",   "nccl-tests loop of graph launches",
                "GPU events",          "GPU kernel stamps",
                "host clock per call", "as reported"};

        return makes[make < CAPO_MAKES ? make : 0];
}

/* Start times of runs, from the time stamps of their file. Only their order is used. */

/* Apply "Z", "+01:00" or "+0100" after a time. True: @t is now UTC. */
static bool apply_zone(const char *zone, int64_t *t)
{
        int hours, minutes;

        if (*zone == 'Z')
                return true;
        if ((*zone != '+' && *zone != '-') || (sscanf(zone + 1, "%2d:%2d", &hours, &minutes) != 2 &&
                                               sscanf(zone + 1, "%2d%2d", &hours, &minutes) != 2))
                return false;
        *t += (*zone == '-' ? 1 : -1) * (3600 * hours + 60 * minutes);
        return true;
}

struct capo_stamp capo_stamp_read(const char *text)
{
        static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                                            "%a %b %d %H:%M:%S %Y"};

        text += *text == '[';
        if (!isdigit((unsigned char)*text) && !isupper((unsigned char)*text))
                return (struct capo_stamp){0};
        for (size_t i = 0; i < N_ELEMENTS(forms); i++) {
                struct tm tm = {0};
                struct capo_stamp stamp;
                const char *end = strptime(text, forms[i], &tm);

                if (!end)
                        continue;
                stamp.at = timegm(&tm);
                end += strspn(end, ".,0123456789");
                stamp.local = !apply_zone(end, &stamp.at);
                return stamp;
        }
        return (struct capo_stamp){0};
}
