/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/watch/watch_claim.h"
#include "core/base/util.h"

/* An abstract socket address: it is released when its holder ends in any way. The path need not
 * exist yet. */
int watch_claim(const char *what, const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_free_ char *real = realpath(path, NULL);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), n;

        path = real ? real : path;
        if (fd < 0)
                return -errno;
        n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "capo-%s-%u-%016llx", what,
                     geteuid(), (unsigned long long)XXH3_64bits(path, strlen(path)));
        if (bind(fd, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0) {
                n = -errno;
                close(fd);
                return n;
        }
        return 0; /* keep it open until the end */
}
