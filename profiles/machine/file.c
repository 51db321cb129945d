/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/machine/file.h"

static int read_all(FILE *f, size_t most, char **out, size_t *size)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0, room = 0, got = 1;

        while (got) {
                if (n + 1 >= room) {
                        char *more = realloc(text, room = room ? 2 * room : 65536);

                        if (!more)
                                return -ENOMEM;
                        text = more;
                }
                got = fread(text + n, 1, room - n - 1, f);
                n += got;
                if (n > most)
                        return -E2BIG;
        }
        if (ferror(f))
                return errno ? -errno : -EIO;
        text[n] = 0;
        *out = steal(&text);
        *size = n;
        return 0;
}

int capo_file_read(const char *path, size_t most, char **text, size_t *size)
{
        _cleanup_fclose_ FILE *f = NULL;

        if (!strcmp(path, "-"))
                return read_all(stdin, most, text, size);
        f = fopen(path, "re");
        return f ? read_all(f, most, text, size) : -errno;
}
