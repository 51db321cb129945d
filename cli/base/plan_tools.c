/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/plan_tools.h"
#include "cli/base/where.h"

int capo_plan_tools_find(char *folder, size_t room)
{
        int r = capo_where("profiles/plan/virtual/capo-plan-worker", CAPO_LIBDIR "/capo/capo-plan-worker", folder,
                           room);

        if (r == 0)
                *strrchr(folder, '/') = 0;
        return r;
}

int capo_plan_stored_topology(const char *platform, char *path, size_t room)
{
        char build[128], installed[128];

        snprintf(build, sizeof build, "profiles/data/%.40s.xml", platform);
        snprintf(installed, sizeof installed, "share/capo/topologies/%.40s.xml", platform);
        return strchr(platform, '/') ? -ENOENT : capo_where(build, installed, path, room);
}

int capo_plan_tuner_find(char *path, size_t room)
{
        return capo_where("tuner/libnccl-tuner-capo.so", CAPO_LIBDIR "/libnccl-tuner-capo.so", path, room);
}
