/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the parts of a question: allocations and sizes; and finds a libnccl if none is named. */
#include <glob.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan.h"

int capo_plan_ranks_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                          struct capo_plan_gpu *out, size_t room, size_t *n, char *why,
                          size_t why_room)
{
        struct capo_gpus_of limited = *of;
        struct capo_gpu_place *places;
        int r;

        limited.most = room;
        r = capo_gpus_parse(text, counts, &limited, &places, n, why, why_room);
        if (r < 0)
                return r;
        for (size_t i = 0; i < *n; i++)
                out[i] = (struct capo_plan_gpu){
                        (uint16_t)places[i].node,
                        of->n_devs ? of->devs[places[i].gpu] : (uint16_t)places[i].gpu,
                };
        free(places);
        return 0;
}

/* "{1,2,3}" for one machine; "": it has none. */
static void print_node(const struct capo_plan_gpu *gpus, size_t n, unsigned node, char *text,
                       size_t room)
{
        *text = 0;
        for (size_t i = 0; i < n; i++) {
                if (gpus[i].node == node)
                        capo_append(text, room, "%s%u", *text ? "," : "{", gpus[i].dev);
        }
        if (*text)
                capo_append(text, room, "}");
}

const char *capo_plan_gpus_print(const struct capo_plan_gpu *gpus, size_t n, char *text,
                                 size_t room)
{
        enum { FOLDED = 5 }; /* this many equal ones in a row are printed once */
        char one[2048], next[2048];
        unsigned nodes = 0, same;

        *text = 0;
        for (size_t i = 0; i < n; i++)
                nodes = gpus[i].node >= nodes ? gpus[i].node + 1u : nodes;
        print_node(gpus, n, 0, one, sizeof one);
        for (unsigned node = 0; node < nodes; node += same) {
                *next = 0;
                for (same = 1; node + same < nodes; same++) {
                        print_node(gpus, n, node + same, next, sizeof next);
                        if (strcmp(one, next) != 0)
                                break;
                }
                if (*one && same >= FOLDED)
                        capo_append(text, room, "%s%u x %s", *text ? " + " : "", same, one);
                for (unsigned i = 0; *one && same < FOLDED && i < same; i++)
                        capo_append(text, room, "%s%s", *text ? " + " : "", one);
                strcpy(one, next);
        }
        return text;
}

/* One term: "4K" or "1K..1G*2" or "64K..1M+64K". */
static long one_term(char *term, uint64_t *out, size_t room)
{
        char *dots = strstr(term, ".."), *step;
        uint64_t from, to, by = 2;
        bool times = true;
        size_t n = 0;

        if (!dots)
                return room && capo_size_parse(term, out) == 0 ? 1 : -EINVAL;
        *dots = 0;
        step = strpbrk(dots + 2, "*+");
        if (step) {
                times = *step == '*';
                *step++ = 0;
        }
        if (capo_size_parse(term, &from) < 0 || capo_size_parse(dots + 2, &to) < 0 ||
            (step && capo_size_parse(step, &by) < 0) || !from || to < from ||
            by < (times ? 2 : 1) || to > 1ull << 50)
                return -EINVAL;
        for (uint64_t v = from; v <= to; v = times ? v * by : v + by) {
                if (n == room)
                        return -E2BIG;
                out[n++] = v;
                if (v > to / (times ? by : 1))
                        break;
        }
        return (long)n;
}

long capo_plan_sizes_parse(const char *text, uint64_t *out, size_t room, char *why, size_t why_room)
{
        _cleanup_free_ char *copy = xstrdup(text);
        char *save = NULL;
        long n = 0;

        for (char *term = strtok_r(copy, ",", &save); term; term = strtok_r(NULL, ",", &save)) {
                char shown[64];
                long got;

                snprintf(shown, sizeof shown, "%s", term);
                got = one_term(term, out + n, room - (size_t)n);
                if (got == -E2BIG)
                        return capo_why(-E2BIG, why, why_room, "more than %zu sizes in \"%s\"",
                                        room, text);
                if (got == 1 && !out[n])
                        return capo_why(-EINVAL, why, why_room,
                                        "expected sizes above 0: nothing is sent for 0 bytes");
                if (got < 0)
                        return capo_why(
                                (int)got, why, why_room,
                                "expected sizes as 1K..1G*2, 64K..1M+64K or 4K,1M, found \"%s\"",
                                shown);
                n += got;
        }
        if (!n)
                return capo_why(-EINVAL, why, why_room, "expected sizes as 1K..1G*2, found \"%s\"",
                                text);
        return n;
}

/* ---- finding libnccl ---- */

static int resolve_candidate(const char *candidate, char *path, size_t room)
{
        char resolved[PATH_MAX];

        if (!realpath(candidate, resolved) || access(resolved, R_OK) < 0 ||
            strlen(resolved) >= room)
                return -ENOENT;
        strcpy(path, resolved);
        return 0;
}

int capo_plan_find_libnccl(char *path, size_t room)
{
        static const struct {
                const char *variable,
                        *pattern; /* of a folder that the pattern is below; NULL: none */
        } places[] = {
                {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
                {NULL, "/usr/local/cuda/lib64/libnccl.so.2"},
                {NULL, "/usr/lib/x86_64-linux-gnu/libnccl.so.2"},
                {NULL, "/usr/lib64/libnccl.so.2"},
                {NULL, "/usr/local/cuda*/lib64/libnccl.so.2"},
                {NULL, "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"},
                {NULL, "/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"},
                {"HOME", "/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
        };
        const char *named = getenv(CAPO_ENV_nccl);
        char pattern[PATH_MAX];
        glob_t found;
        int r = -ENOENT;

        if (named && *named)
                return resolve_candidate(named, path, room);
        if (capo_file_find(getenv("LD_LIBRARY_PATH"), "libnccl.so.2", R_OK, pattern,
                           sizeof pattern))
                r = resolve_candidate(pattern, path, room);
        for (size_t i = 0; i < N_ELEMENTS(places) && r < 0; i++) {
                const char *folder = places[i].variable ? getenv(places[i].variable) : "";

                if (!folder || (places[i].variable && !*folder))
                        continue;
                snprintf(pattern, sizeof pattern, "%s%s", folder, places[i].pattern);
                if (glob(pattern, 0, NULL, &found))
                        continue;
                for (size_t k = found.gl_pathc; r < 0 && k > 0; k--) /* the newest Python is last */
                        r = resolve_candidate(found.gl_pathv[k - 1], path, room);
                globfree(&found);
        }
        return r;
}
