/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "capo/msg.h"
#include "cli/check/check_folder.h"
#include "core/base/others_file.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

enum { NODE_MOST = 4 << 20 }; /* bytes of one node: thousands of findings */

static uid_t whose; /* owner of what this user writes there */

/* Create a file beside @path. Return: its descriptor; -errno. */
static int make_beside(const char *path, char beside[4150])
{
        unsigned long long random = 0;
        int fd;

        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
                return -EAGAIN;
        snprintf(beside, 4150, "%s.%016llx", path, random);
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

int check_folder_begin(const char *folder)
{
        _cleanup_close_ int fd = -1;
        char path[4096], beside[4150];
        struct stat st;

        if (mkdir(folder, 0700) < 0 && errno != EEXIST)
                return capo_fail(-errno, "check: %s: %s", folder, strerror(errno));
        snprintf(path, sizeof path, "%s/capo-check", folder);
        fd = make_beside(path, beside);
        if (fd < 0)
                return capo_fail(fd, "check: %s: cannot be written: %s", folder, strerror(-fd));
        whose = fstat(fd, &st) == 0 ? st.st_uid : geteuid();
        unlink(beside);
        return 0;
}

int check_folder_write(const char *path, const json_t *json)
{
        char beside[4150];
        int fd = make_beside(path, beside), r = fd < 0                                    ? fd
                                                : json_dumpfd(json, fd, JSON_COMPACT) < 0 ? -EIO
                                                                                          : 0;

        if (fd >= 0 && (close(fd) < 0 || (r == 0 && rename(beside, path) < 0)))
                r = -errno;
        if (r < 0 && fd >= 0)
                unlink(beside);
        return r < 0 ? capo_fail(r, "check: %s: %s", path, strerror(-r)) : 0;
}

json_t *check_folder_read(const char *path)
{
        static char said[4096];
        _cleanup_free_ char *text = NULL;
        char why[200];
        json_t *all, *plain;
        size_t n;
        int r = capo_others_read(path, NODE_MOST, whose, &text, &n, why, sizeof why);

        if (r < 0 && r != -ENOENT && strcmp(said, path)) {
                capo_warn("check: %s: %s: not read", path, why);
                snprintf(said, sizeof said, "%s", path);
        }
        if (r < 0)
                return NULL;
        all = json_loadb(text, n, 0, NULL);
        plain = check_plain(all);
        json_decref(all);
        return plain;
}

/* To be freed. */
static char *plain_line(const char *text)
{
        char *line = xstrdup(text);

        capo_plain_line(line, strlen(line));
        return line;
}

json_t *check_plain(json_t *json)
{
        _cleanup_free_ char *text = NULL;
        json_t *copy, *value;
        const char *key;
        size_t i;

        if (json_is_string(json)) {
                text = plain_line(json_string_value(json));
                return json_string(text);
        }
        if (json_is_array(json)) {
                copy = json_array();
                json_array_foreach(json, i, value) json_array_append_new(copy, check_plain(value));
                return copy;
        }
        if (!json_is_object(json))
                return json_deep_copy(json);
        copy = json_object();
        json_object_foreach(json, key, value)
        {
                _cleanup_free_ char *line = plain_line(key);

                json_object_set_new(copy, line, check_plain(value));
        }
        return copy;
}
