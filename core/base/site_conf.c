/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/site_conf.h"

const char *capo_site_path(void)
{
        const char *path = getenv(CAPO_ENV_conf);

        if (!path || !*path)
                return CAPO_SITE_CONF;
        return strcmp(path, "none") ? path : NULL;
}

/* A setting that users may set, by its name up to the =. */
static bool is_setting(const char *line, size_t n)
{
#define ENV(field, type, name, def, help)                                                  \
        if (n == sizeof name - 1 && !memcmp(line, name, n) && strcmp(name, CAPO_ENV_conf)) \
                return true;
#define ENV_OWN(field, type, name, def, help)
#include "capo/env.def"
        return false;
}

unsigned capo_site_parse(char *text, size_t n, const char *path, char fault[CAPO_SITE_FAULT])
{
        char *to = text, *end = text + n;
        unsigned found = 0, number = 0;

        end[0] = end[1] = 0; /* the last line's end, and the empty setting behind it */
        for (char *line = text, *next; line < end; line = next) {
                char *stop = memchr(line, '\n', (size_t)(end - line)), *equals;
                size_t length;

                stop = stop ? stop : end;
                next = stop + 1;
                number++;
                while (line < stop && (*line == ' ' || *line == '\t'))
                        line++;
                while (stop > line && strchr(" \t\r", stop[-1]))
                        stop--;
                length = (size_t)(stop - line);
                if (!length || *line == '#')
                        continue;
                equals = memchr(line, '=', length);
                if (!equals || !is_setting(line, (size_t)(equals - line)) ||
                    memchr(line, 0, length)) {
                        if (!*fault)
                                snprintf(fault, CAPO_SITE_FAULT,
                                         "%s:%u: expected NAME=VALUE with a name of capo env, "
                                         "found \"%.*s\"; this line is ignored",
                                         path, number, length < 60 ? (int)length : 60, line);
                        continue;
                }
                memmove(to, line, length);
                to[length] = 0;
                to += length + 1; /* not beyond @stop: there was a line's end, or the end */
                found++;
        }
        if (to <= end)
                *to = 0;
        return found;
}

unsigned capo_site_read(char text[CAPO_SITE_ROOM], char fault[CAPO_SITE_FAULT])
{
        const char *path = capo_site_path(), *why = NULL;
        _cleanup_close_ int fd =
                path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
        bool given = path && strcmp(path, CAPO_SITE_CONF) != 0;
        struct stat st;
        ssize_t n = 0;

        *text = *fault = 0; /* not all of it: what is not written stays out of memory */
        if (fd < 0) {
                if (path && (given || errno != ENOENT))
                        snprintf(fault, CAPO_SITE_FAULT, "%s: %s; no site defaults", path,
                                 strerror(errno));
                return 0;
        }
        if (fstat(fd, &st) || !S_ISREG(st.st_mode))
                why = "it is not a file";
        else if (st.st_uid != 0 && !(given && st.st_uid == geteuid()))
                why = given ? "it is not yours or root's" : "it is not root's";
        else if (st.st_mode & (S_IWGRP | S_IWOTH))
                why = "others may write to it";
        else if (st.st_size > CAPO_SITE_ROOM - 2)
                why = "it is larger than 4 KiB";
        else if ((n = read(fd, text, CAPO_SITE_ROOM - 2)) < 0)
                why = strerror(errno);
        if (why) {
                *text = 0;
                snprintf(fault, CAPO_SITE_FAULT, "%s is not read: %s; no site defaults", path, why);
                return 0;
        }
        return capo_site_parse(text, (size_t)n, path, fault);
}

static uint32_t hash_text(uint32_t hash, const char *text) /* FNV-1a, the final 0 included */
{
        do
                hash = (hash ^ (uint8_t)*text) * 16777619;
        while (*text++);
        return hash;
}

uint32_t capo_site_hash(const char *text, const char *fault)
{
        uint32_t hash = hash_text(2166136261, fault);

        for (; *text; text += strlen(text) + 1)
                hash = hash_text(hash, text);
        return hash;
}

bool capo_site_is_known(const char *text, const char *fault)
{
        const char *run = getenv(CAPO_ENV_run_pid), *at = run ? strchr(run, '@') : NULL;

        /* without a hash: of an earlier release of capo */
        return run && (!at || strtoul(at + 1, NULL, 16) == capo_site_hash(text, fault));
}

void capo_site_warn(const char *text, const char *fault)
{
        static atomic_bool said;

        if (*fault && !capo_site_is_known(text, fault) && !atomic_exchange(&said, true))
                capo_warn("%s", fault);
}

const char *capo_site_value(const char *text, const char *name)
{
        size_t n = strlen(name);

        for (; *text; text += strlen(text) + 1) {
                if (!strncmp(text, name, n) && text[n] == '=')
                        return text + n + 1;
        }
        return NULL;
}
