/* SPDX-License-Identifier: Apache-2.0 */
/* Known bugs of this NCCL release, from the table of capo diagnose. */
#include "core/base/nccl_release.h"
#include "cli/doctor/doctor.h"
#include "analysis/diagnose/known_bugs.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "nccl", __VA_ARGS__)

/* Does the environment set @text, a NAME or the beginning of NAME=VALUE? */
static bool is_set(const char *text, void *arg)
{
        for (char **e = environ; e && *e; e++) {
                size_t n = strlen(text);

                if (!strncmp(*e, text, n) && ((*e)[n] == 0 || (*e)[n] == '=' || strchr(text, '=')))
                        return true;
        }
        return false;
}

void capo_doctor_bugs(struct capo_findings *f, int version)
{
        unsigned n = 0, hangs = 0;
        char release[16], fixed[16];

        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *b = &capo_known_bugs[i];

                if (b->of != CAPO_BUG_NCCL || !capo_bug_in(b, version))
                        continue;
                n++;
                hangs += b->effect == CAPO_BUG_HANG;
                if (*b->symptom || !*b->needs || !capo_bug_needed(b->needs, is_set, NULL))
                        continue;
                capo_nccl_text((uint32_t)b->fixed, fixed, sizeof fixed);
                FOUND(WARN, "known bug of this release with these settings (%s): %s; %s%s%s (%s)",
                      capo_bug_does(b->effect), b->when, b->advice,
                      b->fixed < CAPO_NCCL_LAST ? "; fixed in " : "",
                      b->fixed < CAPO_NCCL_LAST ? fixed : "", b->link);
        }
        capo_nccl_text((uint32_t)version, release, sizeof release);
        if (version > capo_bugs_newest())
                FOUND(NOTE,
                      "NCCL %s is newer than the bugs that capo knows: capo diagnose "
                      "--bugs %s lists those without a known fix",
                      release, release);
        else if (n)
                FOUND(NOTE,
                      "%u bug%s of NCCL %s known from public reports, %u of them hangs: "
                      "capo diagnose --bugs %s",
                      n, n == 1 ? "" : "s", release, hangs, release);
}
