/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/nccl_release.h"
#include "analysis/diagnose/known_bugs.h"

#define LAST CAPO_NCCL_LAST
#define KNOWN_BUG(of, first, fixed, effect, when, needs, symptom, advice, link) \
        {CAPO_BUG_##of, first, fixed, CAPO_BUG_##effect, when, needs, symptom, advice, link},
const struct capo_known_bug capo_known_bugs[] = {
#include "analysis/diagnose/known_bugs.def"
};
#undef LAST

const size_t capo_n_known_bugs = N_ELEMENTS(capo_known_bugs);

bool capo_bug_in(const struct capo_known_bug *bug, int release)
{
        if (bug->of == CAPO_BUG_MACHINE)
                return true;
        return release && release >= bug->first && release < bug->fixed;
}

int capo_bugs_newest(void)
{
        int newest = 0;

        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *b = &capo_known_bugs[i];

                if (b->of != CAPO_BUG_NCCL)
                        continue;
                newest = b->first > newest ? b->first : newest;
                newest = b->fixed > newest && b->fixed < CAPO_NCCL_LAST ? b->fixed : newest;
        }
        return newest;
}

bool capo_bug_any(const char *list, bool (*has)(const char *text, void *arg), void *arg,
                  char *found)
{
        char one[128];

        while (*list) {
                size_t n = strcspn(list, "|");

                snprintf(one, sizeof one, "%.*s", (int)n, list);
                if (has(one, arg)) {
                        if (found)
                                memcpy(found, one, sizeof one);
                        return true;
                }
                list += n + (list[n] == '|');
        }
        return false;
}

bool capo_bug_needed(const char *needs, bool (*has)(const char *text, void *arg), void *arg)
{
        for (size_t n; *needs; needs += n) {
                const char *and = strstr(needs, " & ");
                bool none = *needs == '-';
                char group[256];

                n = and? (size_t)(and-needs) : strlen(needs);
                snprintf(group, sizeof group, "%.*s", (int)n - none, needs + none);
                if (capo_bug_any(group, has, arg, NULL) == none)
                        return false;
                n += and? 3 : 0;
        }
        return true;
}

enum capo_bug_match capo_bug_match(const struct capo_known_bug *bug, int release,
                                   bool (*has)(const char *text, void *arg), void *arg)
{
        bool in = capo_bug_in(bug, release), needed, shown;

        if (!in && release)
                return CAPO_BUG_NO;
        needed = capo_bug_needed(bug->needs, has, arg);
        shown = *bug->symptom && capo_bug_any(bug->symptom, has, arg, NULL);
        if (shown && needed)
                return in ? CAPO_BUG_FITS : CAPO_BUG_MAYBE;
        return in && *bug->needs && *bug->needs != '-' && needed ? CAPO_BUG_MAYBE : CAPO_BUG_NO;
}

const char *capo_bug_software(enum capo_bug_of of)
{
        static const char *const names[] = {"NCCL", "aws-ofi-nccl", "PyTorch", "machine"};

        return names[of];
}

const char *capo_bug_does(enum capo_bug_effect effect)
{
        static const char *const names[] = {"hang", "crash", "wrong data", "slow"};

        return names[effect];
}
