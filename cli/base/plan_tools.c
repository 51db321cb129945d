/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/plan_tools.h"
#include "cli/base/install_paths.h"
#include "profiles/plan/plan.h"

int cli_topology_find(const char *platform, char *path, size_t room)
{
        char build[128], installed[128];

        snprintf(build, sizeof build, "profiles/data/%.40s.xml", platform);
        snprintf(installed, sizeof installed, "share/capo/topologies/%.40s.xml", platform);
        return strchr(platform, '/') ? -ENOENT : cli_where(build, installed, path, room);
}

int cli_tuner_find(char *path, size_t room)
{
        return cli_where("tuner/libnccl-tuner-capo.so", CAPO_LIBDIR "/libnccl-tuner-capo.so", path,
                         room);
}

static int libnccl_find(const char *named, char *path, size_t room, char *why, size_t why_room)
{
        const char *setting = getenv(CAPO_ENV_nccl), *of = named ? "" : "CAPO_NCCL=";
        char resolved[PATH_MAX];
        int r;

        if (!named && !(setting && *setting)) {
                if (capo_plan_find_libnccl(path, room) == 0)
                        return 0;
                return capo_why(
                        -ENOENT, why, why_room,
                        "no libnccl.so.2 found on this machine; --libnccl FILE or CAPO_NCCL names one (pip install "
                        "nvidia-nccl-cu13 has one)");
        }
        named = named ? named : setting;
        r = !realpath(named, resolved) || access(resolved, R_OK) < 0 ? -errno : 0;
        if (r == 0 && snprintf(path, room, "%s", resolved) >= (int)room)
                r = -ENAMETOOLONG;
        return r < 0 ? capo_why(r, why, why_room, "%s%s: no libnccl.so.2 there: %s", of, named,
                                strerror(-r))
                     : 0;
}

int cli_parts_find(const char *named, char *tools, char *libnccl, size_t room, char *why,
                   size_t why_room)
{
        if (cli_where("profiles/plan/virtual/capo-plan-worker",
                      CAPO_LIBDIR "/capo/capo-plan-worker", tools, room) < 0)
                return capo_why(-ENOENT, why, why_room,
                                "capo-plan-worker is missing from this installation");
        *strrchr(tools, '/') = 0;
        return libnccl_find(named, libnccl, room, why, why_room);
}
