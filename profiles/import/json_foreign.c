/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a JSON document without measurements: by name if its kind is known, else by its keys.
 */
#include "core/base/text.h"
#include "profiles/import/import_json.h"

/* One or two keys that identify the kind. */
static const struct {
        const char *key, *with; /* NULL: only @key */
        const char *what;
} kinds[] = {
        {"traceEvents", "deviceProperties",
         "a trace of PyTorch's profiler (kineto): its times are of kernels, in which waiting for "
         "other ranks counts"},
        {"traceEvents", NULL,
         "a Chrome trace: its times are of events, in which waiting for other ranks counts"},
        {"ph", "name",
         "a Horovod timeline or another Chrome trace: its times are of phases of a step, not of "
         "one collective"},
        {"pg_config", NULL, "a dump of PyTorch's flight recorder: capo diagnose reads it"},
        {"entries", NULL, "a dump of PyTorch's flight recorder: capo diagnose reads it"},
        {"numCycle", "busBw", "JSON of rccl-tests: capo reads what its -Z csv writes"},
        {"capo_profile", NULL, "a profile, which capo fit writes: it has no measurements"},
        {"stalls", "series", "a page of capo fit (--json): give it the measurements themselves"},
};

static const char *known_kind(const json_t *o)
{
        const char *key;
        json_t *v;

        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                if (json_object_get(o, kinds[i].key) &&
                    (!kinds[i].with || json_object_get(o, kinds[i].with)))
                        return kinds[i].what;
        }
        json_object_foreach((json_t *)o, key, v)
        {
                if (strstr(key, "nccl-bw") || strstr(key, "rccl-bw"))
                        return "a result of SuperBench: it has bandwidths without what was forced; "
                               "its log has nccl-tests' output, which is read";
                if (!strncmp(key, "capo_", 5))
                        return "a page of capo (--json), with statistics: capo fit reads the logs "
                               "that it was made from";
        }
        return NULL;
}

static void append_key(char *text, size_t room, const char *before, const char *key)
{
        char plain[33];
        size_t n = 0;

        for (; key[n] && n < sizeof plain - 1; n++)
                plain[n] = key[n] >= ' ' && key[n] <= '~' && key[n] != '"' ? key[n] : '?';
        plain[n] = 0;
        capo_append(text, room, "%s\"%s%s\"", before, plain, key[n] ? "..." : "");
}

char *json_foreign(const json_t *o, char *text, size_t room)
{
        enum { KEYS = 5 };
        const char *kind = known_kind(o), *key;
        size_t n = 0, all = json_object_size(o);
        json_t *v;

        snprintf(text, room, "%s", "");
        if (kind)
                return capo_append(text, room, "this is %s", kind);
        capo_append(text, room,
                    "expected \"results\" (nccl-tests -J) or \"header\" (NCCL Inspector), "
                    "found ");
        if (!json_is_object(o))
                return capo_append(text, room, "a list of %zu", json_array_size(o));
        capo_append(text, room, all ? "the keys " : "an object without keys");
        json_object_foreach((json_t *)o, key, v)
        {
                if (n++ < KEYS)
                        append_key(text, room, n > 1 ? ", " : "", key);
        }
        if (all > KEYS)
                capo_append(text, room, " and %zu more", all - KEYS);
        return text;
}
