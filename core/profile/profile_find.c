/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/own_tree.h"
#include "core/base/text.h"
#include "core/profile/profile_file.h"
#include "core/profile/profile_find.h"

#ifndef CAPO_DATADIR
#define CAPO_DATADIR "/usr/local/share"
#endif
#ifndef CAPO_LIBDIR
#define CAPO_LIBDIR  "lib"
#define CAPO_SHIPPED "share/capo/profiles" /* below the prefix */
#endif

bool capo_profile_folder(unsigned n, const char *shipped, char *path, size_t room,
                         const char **what)
{
        static const char *const names[] = {"user", "site", "shipped"};
        const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

        if (n > 2)
                return false;
        *what = names[n];
        *path = 0;
        if (n == 0 && config && *config)
                snprintf(path, room, "%s/capo/profiles", config);
        else if (n == 0 && home && *home)
                snprintf(path, room, "%s/.config/capo/profiles", home);
        else if (n == 1)
                snprintf(path, room, "/etc/capo/profiles");
        else if (n == 2)
                snprintf(path, room, "%s", shipped ? shipped : CAPO_DATADIR "/capo/profiles");
        return true;
}

const char *capo_profile_shipped(const char *library, char *path, size_t room)
{
        char own[PATH_MAX];

        return library && realpath(library, own) &&
                               capo_own_tree_find(own, CAPO_LIBDIR, "../profiles/data",
                                                  CAPO_SHIPPED, path, room) == 0
                       ? path
                       : NULL;
}

int capo_profile_find(const char *name, const char *shipped, char *path, size_t room,
                      struct capo_fault *fault)
{
        static const char *const ends[] = {"", ".json", ".csv"};
        char folder[4096], searched[400] = "";
        const char *what;

        if (strchr(name, '/') || !strcmp(name, "-") || !access(name, F_OK)) {
                snprintf(path, room, "%s", name);
                return 0;
        }
        for (unsigned n = 0; capo_profile_folder(n, shipped, folder, sizeof folder, &what); n++) {
                if (!*folder)
                        continue;
                capo_append(searched, sizeof searched, ", %s", folder);
                for (unsigned e = 0; e < 3; e++) {
                        if (snprintf(path, room, "%s/%s%s", folder, name, ends[e]) < (int)room &&
                            !access(path, F_OK))
                                return 0;
                }
        }
        return capo_profile_fault(-ENOENT, fault, "no profile \"%s\": not a file here, not in%s",
                                  name, searched + 1);
}
