/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>

#include "core/base/text.h"
#include "core/log/alive.h"
#include "analysis/process/proc_pid.h"

/* The state letter in the stat file of thread @task ("/task/12"; "": the process), and the parent,
 * unless NULL; 0: no such process. They follow the name, which may contain anything. */
static char read_stat(int pid, const char *task, int *parent)
{
        char path[300], text[1024], *p, state = 0;
        int found = 0;

        snprintf(path, sizeof path, "/proc/%d%s/stat", pid, task);
        if (capo_alive_text(path, text, sizeof text) >= 0 && (p = strrchr(text, ')')))
                sscanf(p + 1, " %c %d", &state, &found);
        if (parent)
                *parent = found;
        return state;
}

int capo_pid_parent(int pid)
{
        int parent;

        read_stat(pid, "", &parent);
        return parent;
}

char capo_pid_state(int pid) { return read_stat(pid, "", NULL); }

bool capo_pid_stopped(int pid)
{
        char state = capo_pid_state(pid);

        return state == 'T' || state == 't';
}

char *capo_pid_waits(int pid, char *text, size_t room)
{
        static const struct {
                const char *letters, *name;
        } states[] = {{"R", "running"},  {"S", "asleep"}, {"D", "waiting for a disk or a driver"},
                      {"Tt", "stopped"}, {"Z", "ended"},  {"", "there"}};
        char path[300], where[128] = "", state = capo_pid_state(pid);
        size_t i = 0;
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
                snprintf(path, sizeof path, "/task/%s", e->d_name);
                busy += read_stat(pid, path, NULL) == 'R';
        }
        if (dir)
                closedir(dir);
        while (*states[i].letters && !strchr(states[i].letters, state))
                i++;
        snprintf(text, room, "main thread %s%s%s", states[i].name, *where ? " in " : "", where);
        if (threads)
                capo_append(text, room, ", %u thread%s, %u running", threads,
                            threads > 1 ? "s" : "", busy);
        return text;
}

char *capo_pid_name(int pid, int tid, char *text, size_t room)
{
        char path[64];

        snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, tid);
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
        ssize_t n;

        snprintf(wanted, sizeof wanted, "illed process %d ", pid);
        /* EPIPE: the entry was overwritten meanwhile */
        while (fd >= 0 &&
               ((n = read(fd, line, sizeof line - 1)) > 0 || (n < 0 && errno == EPIPE))) {
                line[n > 0 ? n : 0] = 0;
                if (strstr(line, wanted))
                        return true;
        }
        return false;
}
