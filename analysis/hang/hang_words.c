/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/hang/hang_verdict.h"

static const struct {
        const char *name, *meaning, *next;
        int exit;
} kinds[CAPO_HANG_KINDS] =
        {
#define HANG_KIND(id, name, exit, meaning) [CAPO_HANG_##id] = {name, meaning, NULL, exit},
#include "analysis/hang/hang_kinds.def"
},
  whys[CAPO_HANG_WHYS] = {
#define HANG_WHY(id, name, meaning, next) [CAPO_HANG_WHY_##id] = {name, meaning, next, 0},
#include "analysis/hang/hang_kinds.def"
};

const char *capo_hang_kind_name(enum capo_hang_kind kind)
{
        return kinds[kind].name;
}

const char *capo_hang_kind_meaning(enum capo_hang_kind kind)
{
        return kinds[kind].meaning;
}

int capo_hang_kind_exit(enum capo_hang_kind kind)
{
        return kinds[kind].exit;
}

const char *capo_hang_why_name(enum capo_hang_why why)
{
        return whys[why].name;
}

const char *capo_hang_why_meaning(enum capo_hang_why why)
{
        return whys[why].meaning;
}

const char *capo_hang_why_next(enum capo_hang_why why)
{
        return whys[why].next;
}

const char *capo_hang_sure_name(enum capo_hang_sure sure)
{
        static const char *const names[] = {"not sure", "likely", "certain"};

        return names[sure];
}
