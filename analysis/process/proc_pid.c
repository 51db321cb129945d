/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>

#include "core/base/text.h"
#include "core/log/alive.h"
#include "analysis/process/proc_pid.h"

/* The state letter follows the name, which may contain anything. */
static char state_in(const char *path)
{
        char text[1024], *p;

        if (capo_alive_text(path, text, sizeof text) < 0 || !(p = strrchr(text, ')')) || !p[1])
                return 0;
        return p[2];
}

int capo_pid_parent(int pid)
{
        char path[48], text[1024], *p;
        int parent = 0;

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (capo_alive_text(path, text, sizeof text) < 0 || !(p = strrchr(text, ')')) ||
            sscanf(p + 1, " %*c %d", &parent) != 1)
                return 0;
        return parent;
}

char capo_pid_state(int pid)
{
        char path[48];

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        return state_in(path);
}

bool capo_pid_stopped(int pid)
{
        char state = capo_pid_state(pid);

        return state == 'T' || state == 't';
}

static const char *state_name(char state)
{
        switch (state) {
        case 'R': return "running";
        case 'S': return "asleep";
        case 'D': return "waiting for a disk or a driver";
        case 'T':
        case 't': return "stopped";
        case 'Z': return "ended";
        default: return "there";
        }
}

char *capo_pid_waits(int pid, char *text, size_t room)
{
        char path[300], where[128] = "", state = capo_pid_state(pid);
        unsigned threads = 0, busy = 0;
        struct dirent *e;
        DIR *dir;

        *text = 0;
        if (!state)
                return text;
        snprintf(path, sizeof path, "/proc/%d/wchan", pid);
        if (capo_alive_text(path, where, sizeof where) < 0 || !strcmp(where, "0"))
                *where = 0;
        snprintf(path, sizeof path, "/proc/%d/task", pid);
        dir = opendir(path);
        while (dir && (e = readdir(dir))) {
                if (*e->d_name == '.')
                        continue;
                threads++;
                snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, e->d_name);
                busy += state_in(path) == 'R';
        }
        if (dir)
                closedir(dir);
        snprintf(text, room, "main thread %s%s%s", state_name(state), *where ? " in " : "", where);
        if (threads)
                capo_append(text, room, ", %u thread%s, %u running", threads,
                            threads > 1 ? "s" : "", busy);
        return text;
}

char *capo_pid_name(int pid, char *text, size_t room)
{
        char path[48];

        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        if (capo_alive_text(path, text, room) < 0)
                *text = 0;
        return text;
}

int capo_pid_library(int pid, const char *name, char *path, size_t room)
{
        _cleanup_fclose_ FILE *maps = NULL;
        char line[4400];

        *path = 0;
        snprintf(line, sizeof line, "/proc/%d/maps", pid);
        maps = fopen(line, "re");
        if (!maps)
                return -errno;
        while (!*path && fgets(line, sizeof line, maps)) {
                const char *file = strchr(line, '/');

                if (file && !strncmp(capo_base_name(file), name, strlen(name)))
                        snprintf(path, room, "%.*s", (int)strcspn(file, "\n"), file);
        }
        return 0;
}

bool capo_pid_oom(int pid)
{
        _cleanup_close_ int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        char line[4096], wanted[48];
        bool found = false;
        ssize_t n = 0;

        snprintf(wanted, sizeof wanted, "illed process %d ", pid);
        while (fd >= 0 && !found) {
                n = read(fd, line, sizeof line - 1);
                if (n < 0 &&
                    errno ==
                            EPIPE) /* the entry was overwritten meanwhile: continue with the next */
                        continue;
                if (n <= 0)
                        break;
                line[n] = 0;
                found = strstr(line, wanted) != NULL;
        }
        return found;
}
