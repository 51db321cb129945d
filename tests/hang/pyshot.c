/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What capo hang reads of the Python of process PID: pyshot PID [FILE]. Its lines on standard
 * output; in FILE all the memory that was looked at for them, which is an input of
 * tests/fuzz/fuzz_cpython.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/process/python_stack.h"
#include "core/base/util.h"

static FILE *shot;

static bool fetch(struct process_memory *m, uint64_t from, void *to, size_t size)
{
        static uint64_t seen[1 << 14];
        static unsigned n_seen;
        uint32_t n = (uint32_t)size;

        if (!process_memory_fetch(m, from, to, size))
                return false;
        for (unsigned i = 0; i < n_seen; i += 2) {
                if (seen[i] == from && seen[i + 1] >= size)
                        return true;
        }
        if (n_seen < N_ELEMENTS(seen)) {
                seen[n_seen++] = from;
                seen[n_seen++] = size;
        }
        fwrite(&from, sizeof from, 1, shot);
        fwrite(&n, sizeof n, 1, shot);
        fwrite(to, 1, size, shot);
        return true;
}

/* The lines of it that matter. */
static char *maps_of(int pid)
{
        char path[64], line[600], *text = NULL;
        _cleanup_fclose_ FILE *maps = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        snprintf(path, sizeof path, "/proc/%d/maps", pid);
        maps = fopen(path, "re");
        while (maps && fgets(line, sizeof line, maps)) {
                if (strstr(line, "python"))
                        fputs(line, out);
        }
        fclose(out);
        return text;
}

int main(int argc, char **argv)
{
        int pid = argc > 1 ? atoi(argv[1]) : 0;
        char why[400] = "no memory";
        _cleanup_free_ char *maps = NULL, *text = NULL;
        _cleanup_free_ struct process_memory *m = NULL;
        static struct process_python p;
        uint32_t n;

        if (argc < 2)
                return 2;
        text = process_python_now(pid, why, sizeof why);
        printf("%s%s", text ? text : "", text ? "" : why);
        if (argc < 3)
                return !text;
        m = process_memory_new(pid);
        shot = fopen(argv[2], "we");
        maps = maps_of(pid);
        if (!m || !shot || !maps)
                return 1;
        m->fetch = fetch;
        n = (uint32_t)strlen(maps);
        fwrite("\0\0", 1, 2, shot); /* nothing of it changes */
        fwrite(&n, sizeof n, 1, shot);
        fwrite(maps, 1, n, shot);
        if (process_python_find(m, maps, &p, why, sizeof why) == 0) {
                for (unsigned i = 0; i < p.n; i++)
                        process_python_frames(&p, &p.threads[i], " ", stdout);
        }
        return fclose(shot) != 0;
}
