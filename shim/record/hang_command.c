/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thing of a job that starts a process: `capo hang`, when the watch (hang_record.c) sees
 * that nothing moves. This file and apart.c, which makes a process that the job does not notice,
 * can go together once something outside the job watches it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/base/util.h"
#include "shim/find/loader.h"
#include "shim/find/object.h"
#include "shim/record/apart.h"
#include "shim/record/hang_command.h"

enum { LONGEST_SECONDS = 60 };

static char library_path[1024], zone[64]; /* NAME=VALUE; "" none */

static void keep_setting(const char *name, char *to, size_t room)
{
        const char *value = getenv(name);

        *to = 0;
        if (value && snprintf(to, room, "%s=%s", name, value) >= (int)room)
                *to = 0;
}

void capo_hang_command_begin(void)
{
        keep_setting("LD_LIBRARY_PATH", library_path, sizeof library_path);
        keep_setting("TZ", zone, sizeof zone);
}

/* The command that belongs to this library: of one build, or of one installation. False: it is not
 * there. */
static bool find_capo(char *path, size_t room)
{
        static const char *const places[] = {"/../cli/capo", "/../bin/capo", "/../../bin/capo"};
        struct capo_object self;
        const char *slash;
        bool in;

        capo_loader_enter();
        in = capo_object_of((const void *)(uintptr_t)&capo_hang_command_start, &self);
        capo_loader_leave();
        if (!in || !(slash = strrchr(self.path, '/')))
                return false;
        for (size_t i = 0; i < N_ELEMENTS(places); i++) {
                if (snprintf(path, room, "%.*s%s", (int)(slash - self.path), self.path, places[i]) <
                            (int)room &&
                    access(path, X_OK) == 0)
                        return true;
        }
        return false;
}

bool capo_hang_command_found(void)
{
        char path[1200];

        return find_capo(path, sizeof path);
}

void capo_hang_command_start(const char *folder, const char *out, unsigned seconds)
{
        char capo[1200], after[24];
        char *argv[] = {capo, (char *)"hang", (char *)"--after", after, (char *)folder, NULL};
        char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL, NULL, NULL};
        unsigned n = 1;
        int r = -ENOENT;

        if (*library_path)
                envp[n++] = library_path;
        if (*zone)
                envp[n++] = zone;
        snprintf(after, sizeof after, "%u", seconds);
        if (find_capo(capo, sizeof capo))
                r = capo_apart(argv, envp, out, LONGEST_SECONDS);
        if (r < 0)
                capo_debug("%s: %s", capo, strerror(-r));
}
