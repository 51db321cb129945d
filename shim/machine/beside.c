/* SPDX-License-Identifier: Apache-2.0 */
/* Which libraries of include/capo/beside.def the process has mapped. By the kernel's list: the
 * loader's may be locked by a constructor that waits. */
#include <fcntl.h>

#include "core/base/text.h"
#include "core/log/info.h"
#include "shim/machine/beside.h"
#include "shim/record/shim.h"

static const struct {
        const char *file, *name;
} libraries[] = {
#define BESIDE(file, name) {file, name},
#include "capo/beside.def"
};

static uint64_t seen;

static uint64_t find_libraries(const char *line)
{
        uint64_t found = 0;

        for (size_t i = 0; i < N_ELEMENTS(libraries); i++)
                found |= (uint64_t)(strstr(line, libraries[i].file) != NULL) << i;
        return found;
}

void capo_beside_look(void)
{
        _cleanup_close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        char text[8192], names[256] = "";
        uint64_t found = seen;
        size_t have = 0;
        ssize_t got;

        while (fd >= 0 && (got = read(fd, text + have, sizeof text - 1 - have)) > 0) {
                char *line = text, *end;

                have += (size_t)got;
                text[have] = 0;
                for (; (end = strchr(line, '\n')); line = end + 1) {
                        *end = 0;
                        found |= find_libraries(line);
                }
                have -= (size_t)(line - text);
                if (have >= sizeof text - 1) /* a line that long is none of ours */
                        have = 0;
                memmove(text, line, have);
        }
        if (found == seen)
                return;
        seen = found;
        for (size_t i = 0; i < N_ELEMENTS(libraries); i++) {
                if (found >> i & 1)
                        capo_append(names, sizeof names, "%s%s", *names ? ", " : "",
                                    libraries[i].name);
        }
        capo_shim_info(CAPO_INFO_BESIDE, "%s", names);
}

void capo_beside_fork(void) { seen = 0; }
