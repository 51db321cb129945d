/* SPDX-License-Identifier: Apache-2.0 */
/* The provenance of a profile: tool, date, inputs, certainty. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/fit/fit_page.h"
#include "cli/fit/fit_provenance.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/text.h"

int fit_provenance_when(struct capo_profile *profile)
{
        const char *epoch =
                getenv("SOURCE_DATE_EPOCH"); /* reproducible files: reproducible-builds.org */
        time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
        char date[16] = "";
        struct tm tm;

        if (gmtime_r(&now, &tm))
                strftime(date, sizeof date, "%Y-%m-%d", &tm);
        return capo_profile_note(profile, CAPO_PROVENANCE, "tool", "capo fit " CAPO_VERSION) |
               capo_profile_note(profile, CAPO_PROVENANCE, "date", date);
}

/* A text per collective with the numbers of runs compared. */
static int note_runs(const struct capo_fit *fit, struct capo_profile *profile)
{
        char all[1200] = "", runs[600];

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                if (s->n_candidates > 1 && strlen(all) + sizeof runs < sizeof all)
                        capo_append(all, sizeof all, "%s%s on %d ranks: %s", *all ? "; " : "",
                                    capo_call_name(s->call), s->like.n_ranks,
                                    fit_page_runs(s, runs, sizeof runs));
        }
        return *all ? capo_profile_note(profile, CAPO_PROVENANCE, "runs", all) : 0;
}

/* A text per written row with its gain and interval. */
static int note_gains(const struct capo_fit *fit, struct capo_profile *profile)
{
        char all[2400] = "", size[16], name[56], gain[48];

        for (int i = 0; i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                for (int r = 0; r < s->n_rows; r++) {
                        const struct capo_fit_row *row = &s->rows[r];

                        if (row->chosen <= 0 || row->last < row->first)
                                continue;
                        capo_append(all, sizeof all, "%s%s on %d ranks up to %s: %s %s",
                                    *all ? "; " : "", capo_call_name(s->call), s->like.n_ranks,
                                    capo_size_print(s->points[row->last].bytes, size, sizeof size),
                                    capo_fit_candidate_text(&s->candidates[row->chosen], name,
                                                            sizeof name),
                                    fit_page_gain(s, row->first, row->last, gain));
                }
        }
        return *all ? capo_profile_note(profile, CAPO_PROVENANCE, "gains", all) : 0;
}

int fit_provenance(const struct capo_samples *set, const struct capo_fit *fit,
                   struct capo_profile *profile)
{
        const struct capo_trial *like = fit->n_series ? &fit->series[0].like : &fit->beside[0].like;
        char nccl[16], days[32], sources[256] = "";
        int e = fit_provenance_when(profile);

        for (size_t i = 0; i < set->n_runs; i++) {
                const char *slash = strrchr(set->runs[i].source, '/'),
                           *name = slash && slash[1] ? slash + 1 : set->runs[i].source;

                if (strstr(sources, name) || strlen(sources) + strlen(name) + 8 > sizeof sources)
                        continue;
                capo_append(sources, sizeof sources, "%s%s", *sources ? ", " : "", name);
        }
        e |= capo_profile_note(profile, CAPO_PROVENANCE, "nccl",
                               like->nccl ? capo_nccl_text(like->nccl, nccl, sizeof nccl)
                                          : "not recorded");
        e |= capo_profile_note(
                profile, CAPO_PROVENANCE, "clock",
                capo_make_name(fit->n_series ? fit->series[0].make : fit->beside[0].make));
        e |= capo_profile_note(profile, CAPO_PROVENANCE, "source", sources);
        e |= capo_profile_note_number(profile, CAPO_PROVENANCE, "samples", (double)fit->n_samples);
        e |= note_runs(fit, profile);
        e |= note_gains(fit, profile);
        if (*fit_page_days(set, days))
                e |= capo_profile_note(profile, CAPO_PROVENANCE, "measured", days);
        if (like->hosts[0])
                e |= capo_profile_note(profile, CAPO_PROVENANCE, "hosts", like->hosts);
        if (like->driver[0])
                e |= capo_profile_note(profile, CAPO_PROVENANCE, "driver", like->driver);
        if (like->settings[0])
                e |= capo_profile_note(profile, CAPO_PROVENANCE, "settings", like->settings);
        if (like->gpu[0])
                e |= capo_profile_note(profile, CAPO_PLATFORM, "gpu", like->gpu);
        return e;
}
