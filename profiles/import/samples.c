/* SPDX-License-Identifier: Apache-2.0 */
/* The set that importers fill: runs, their samples, and notes. */
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_private.h"

uint32_t capo_samples_run(struct capo_samples *set, const struct capo_trial *run)
{
        struct capo_trial copy = *run;

        xarray_room(&set->runs, set->n_runs, sizeof *set->runs);
        copy.source = xstrdup(run->source ? run->source : "-");
        set->runs[set->n_runs] = copy;
        return (uint32_t)set->n_runs++;
}

void capo_samples_add(struct capo_samples *set, const struct capo_sample *sample)
{
        xarray_room(&set->v, set->n, sizeof *set->v);
        set->v[set->n++] = *sample;
}

void capo_samples_note(struct capo_samples *set, const char *format, ...)
{
        va_list ap;
        char *text;

        va_start(ap, format);
        text = xvprintf(format, ap);
        va_end(ap);
        xarray_room(&set->notes, set->n_notes, sizeof *set->notes);
        set->notes[set->n_notes++] = text;
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

static const char *const makes[CAPO_MAKES] = {
        [CAPO_MAKE_UNKNOWN] = "clock not known",
        [CAPO_MAKE_LOOP] = "nccl-tests loop",
        [CAPO_MAKE_CPU] = "host enqueue time",
        [CAPO_MAKE_GRAPH] = "nccl-tests loop of graph launches",
        [CAPO_MAKE_EVENT] = "GPU events",
        [CAPO_MAKE_KERNEL] = "GPU kernel stamps",
        [CAPO_MAKE_HOST] = "host clock per call",
        [CAPO_MAKE_REPORT] = "as reported",
};

const char *capo_make_name(unsigned make) { return makes[make < CAPO_MAKES ? make : 0]; }
