/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of this process, version 2 or 1: its CPU limit and how long that held it, its memory
 * events. A limit may stand at any level above: the nearest one counts. */
#include "shim/machine/machine_cgroup.h"
#include "shim/machine/machine_source.h"

enum { LEVELS = 8 };

static struct place {
        char dir[256]; /* "": none */
        bool first;    /* version 1 */
        bool limited;
        uint64_t limit; /* thousandths of a CPU */
} cpu, memory;

static bool is_there(const char *dir, const char *file)
{
        char path[320], text[8];

        return capo_machine_path(path, sizeof path, "%s/%s", dir, file) &&
               capo_machine_text(path, text, sizeof text);
}

/* Is the word in a list of words with commas between? */
static bool has_word(const char *list, int n, const char *word)
{
        char all[256], one[32];

        return capo_machine_path(all, sizeof all, ",%.*s,", n, list) &&
               capo_machine_path(one, sizeof one, ",%s,", word) && strstr(all, one);
}

/* The folder of @controller for the process, of which @text (/proc/self/cgroup) speaks. A container
 * may see its own cgroup as the root of the mount. */
static void find_place(const char *text, const char *controller, const char *file,
                       struct place *out)
{
        char at[3][256];
        const char *unified = NULL;

        *out = (struct place){.first = true};
        for (const char *line = text; line && *line; line = strchr(line, '\n')) {
                const char *list, *path;
                int n_list, n_path;

                line += *line == '\n';
                list = strchr(line, ':');
                path = list ? strchr(list + 1, ':') : NULL;
                if (!path)
                        break;
                n_list = (int)(path - list - 1);
                n_path = (int)strcspn(path + 1, "\n");
                if (!n_list)
                        unified = path + 1;
                if (!has_word(list + 1, n_list, controller))
                        continue;
                capo_machine_path(at[0], sizeof at[0], "%s/fs/cgroup/%.*s%.*s", capo_machine_sys,
                                  n_list, list + 1, n_path, path + 1);
                capo_machine_path(at[1], sizeof at[1], "%s/fs/cgroup/%s%.*s", capo_machine_sys,
                                  controller, n_path, path + 1);
                capo_machine_path(at[2], sizeof at[2], "%s/fs/cgroup/%s", capo_machine_sys,
                                  controller);
                for (size_t i = 0; i < N_ELEMENTS(at); i++) {
                        if (is_there(at[i], file)) {
                                memcpy(out->dir, at[i], sizeof out->dir);
                                return;
                        }
                }
        }
        out->first = false;
        for (int i = 0; unified && i < 3; i++) {
                static const char *const mounts[] = {"/fs/cgroup", "/fs/cgroup/unified",
                                                     "/fs/cgroup"};

                capo_machine_path(out->dir, sizeof out->dir, "%s%s%.*s", capo_machine_sys,
                                  mounts[i], i < 2 ? (int)strcspn(unified, "\n") : 0, unified);
                if (is_there(out->dir, "cgroup.procs") || is_there(out->dir, "cpu.stat"))
                        return;
        }
        *out->dir = 0;
}

static bool read_limit(struct place *p)
{
        char path[320], text[64];
        long long quota, period = 0;

        capo_machine_path(path, sizeof path, "%s/%s", p->dir,
                          p->first ? "cpu.cfs_quota_us" : "cpu.max");
        if (!capo_machine_text(path, text, sizeof text) ||
            sscanf(text, "%lld %lld", &quota, &period) < 1 || quota <= 0)
                return false;
        if (p->first) {
                capo_machine_path(path, sizeof path, "%s/cpu.cfs_period_us", p->dir);
                if (!capo_machine_text(path, text, sizeof text))
                        return false;
                period = atoll(text);
        }
        if (period <= 0)
                return false;
        p->limit = (uint64_t)(1000 * quota / period);
        return true;
}

void capo_machine_cgroups(void)
{
        char path[320], text[4096];
        struct place up;

        capo_machine_path(path, sizeof path, "%s/self/cgroup", capo_machine_proc);
        if (!capo_machine_text(path, text, sizeof text))
                *text = 0;
        find_place(text, "memory", "memory.failcnt", &memory);
        find_place(text, "cpu", "cpu.cfs_quota_us", &cpu);
        up = cpu;
        for (int i = 0; i < LEVELS && *up.dir; i++) {
                char *slash = strrchr(up.dir, '/');

                if (read_limit(&up)) {
                        cpu = up;
                        cpu.limited = true;
                        return;
                }
                if (!slash || !strstr(up.dir, "/fs/cgroup/"))
                        return;
                *slash = 0;
        }
}

static bool read_from(const struct place *p, const char *file, const char *key, uint64_t *value)
{
        struct machine_object o = {0};

        if (!*p->dir)
                return false;
        capo_machine_path(o.dir, sizeof o.dir, "%.191s", p->dir);
        return capo_machine_number(&o, file, key, value);
}

bool capo_machine_cgroup(const char *source, const char *key, uint64_t *value)
{
        if (!strcmp(source, "CPU")) {
                if (!strcmp(key, "path"))
                        return (*value = capo_machine_hash(0, cpu.dir, sizeof cpu.dir) >> 32) &&
                               *cpu.dir;
                *value = cpu.limit;
                if (!strcmp(key, "limit"))
                        return cpu.limited;
                if (strcmp(key, "throttled"))
                        return read_from(&cpu, "cpu.stat", key, value);
                if (!cpu.first)
                        return read_from(&cpu, "cpu.stat", "throttled_usec", value);
                if (!read_from(&cpu, "cpu.stat", "throttled_time", value))
                        return false;
                *value /= 1000; /* ns */
                return true;
        }
        if (!strcmp(key, "stall"))
                return read_from(&memory, "memory.pressure", "some", value);
        if (memory.first)
                return !strcmp(key, "max") ? read_from(&memory, "memory.failcnt", "", value)
                       : !strcmp(key, "oom_kill")
                               ? read_from(&memory, "memory.oom_control", key, value)
                               : false;
        return read_from(&memory, "memory.events", key, value);
}
