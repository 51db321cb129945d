/* SPDX-License-Identifier: Apache-2.0 */
/* Notes about each rank's use of a NIC. */
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"
#include "analysis/report/page_kinds.h"
#include "analysis/report/job_judge.h"

#define CAPO_NOTE(id, words) static const char words_##id[] = words;
#include "analysis/report/note_kinds.def"

#define NOTE(id, ...)                                                                       \
        do {                                                                                \
                if (to->n_notes < N_ELEMENTS(to->note)) {                                   \
                        struct capo_page_note *note = &to->note[to->n_notes++];             \
                                                                                            \
                        note->kind = CAPO_NOTE_##id;                                        \
                        snprintf(note->text, sizeof note->text, words_##id, ##__VA_ARGS__); \
                }                                                                           \
        } while (0)

/* @over: all counters are final, so ranks can be compared. */
static void judge_link(const struct capo_fabric_link *l, const struct capo_page_near *near,
                       bool over, struct capo_page_link *to)
{
        const struct capo_fabric_domain *d = l->domain;

        if (d->unseen)
                NOTE(unseen);
        else if (!l->ops && strcmp(d->provider, "shm"))
                NOTE(idle);
        if (l->ops && near && *near->nearer)
                NOTE(nearer_nic, near->path, near->nearer, near->nearer_path,
                     near->nearer_idle ? " and idle" : "");
        else if (l->ops && near && near->far)
                NOTE(far_from_gpu, near->path);
        else if (l->ops && capo_fabric_link_near(l) == 0)
                NOTE(other_numa, d->numa, l->gpu_numa);
        if (l->sharers > 1 && l->ops)
                NOTE(shared, l->sharers);
        if (over && l->load >= 2)
                NOTE(loaded, l->load);
        if (d->n.overruns)
                NOTE(overrun, TEXT_COUNT(d->n.overruns));
        for (unsigned i = 0; i < d->n.n_errors && i < 2; i++)
                NOTE(errors, d->n.error[i].text, TEXT_COUNT(d->n.error[i].count));
        if (d->mr_failed)
                NOTE(registrations, TEXT_COUNT(d->mr_failed));
}

void capo_judge_links(struct capo_page *r)
{
        bool over = true; /* else the counters were read at different times */

        if (!r->fabric)
                return;
        for (uint32_t i = 0; i < r->job->n_processes; i++)
                over &= r->job->processes[i].has_end && r->job->processes[i].end.clean;
        r->links = xcalloc(r->fabric->n_links + 1, sizeof *r->links);
        for (size_t i = 0; i < r->fabric->n_links; i++)
                judge_link(&r->fabric->links[i], r->near ? &r->near[i] : NULL, over, &r->links[i]);
}
