/* SPDX-License-Identifier: Apache-2.0 */
/* The set that importers fill: runs, their samples, and notes. */
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
