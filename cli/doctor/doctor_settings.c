/* SPDX-License-Identifier: Apache-2.0 */
/* Judges settings for one NCCL release. doctor_settings.def has which release reads which variable;
 * this file has variables whose value, or combination with others, can be wrong. NCCL also reads
 * /etc/nccl.conf and ~/.nccl.conf (lines NAME=value); the environment takes precedence. */
#include <strings.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "cli/base/near_word.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/elf_file.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

/* Names that no NCCL reads, and values that NCCL misinterprets (nccl_variables.def): it reports
 * neither. */

/* Unknown names without a similar known one: printed in one line. */
struct capo_unknown_variables {
        unsigned n;
        char names[400];
};

enum how { TEXT, INT, ONE, EXACT, LIST, NUMBER };

static const struct variable {
        const char *name;
        enum how how;
        const char *words;
} variables[] = {
#define NCCL_INT(name)              {name, INT, NULL},
#define NCCL_TEXT(name)             {name, TEXT, NULL},
#define NCCL_WORD(name, how, words) {name, how, words},
#include "cli/doctor/nccl_variables.def"
};

static const struct variable *find_variable(const char *name, struct cli_near_word *near)
{
        for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
                if (!strcmp(variables[i].name, name))
                        return &variables[i];
                cli_near_word_try(near, name, variables[i].name);
        }
        return NULL;
}

/* Is the word of @n letters one of @words? */
static bool is_one_of(const char *word, size_t n, const char *words, bool any_case)
{
        for (; *words; words += strcspn(words, ","), words += *words == ',') {
                if (strcspn(words, ",") == n &&
                    !(any_case ? strncasecmp(word, words, n) : strncmp(word, words, n)))
                        return true;
        }
        return false;
}

static bool is_understood(const struct variable *v, const char *value)
{
        const char *word = value + (*value == '^');

        if (v->how != LIST)
                return is_one_of(value, strlen(value), v->words, v->how == ONE) ||
                       (v->how == NUMBER && *value >= '0' && *value <= '9');
        for (; *word; word += strcspn(word, ","), word += *word == ',') {
                if (!is_one_of(word, strcspn(word, ","), v->words, true))
                        return false;
        }
        return true;
}

static void check_value(struct capo_findings *f, const struct variable *v, const char *value,
                        const char *where)
{
        char *end;
        long long number;

        if (!*value || v->how == TEXT)
                return;
        if (v->how != INT) {
                if (!is_understood(v, value))
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s=%s (%s): NCCL does not understand it and ignores it: "
                                         "expected %s%s%s",
                                         v->name, value, where, v->how == LIST ? "a list of " : "",
                                         v->words, v->how == NUMBER ? " or a number" : "");
                return;
        }
        errno = 0;
        number = strtoll(value, &end, 0);
        if (*end || errno)
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "%s=%s (%s): NCCL expects a number and reads %lld%s", v->name,
                                 value, where, number,
                                 errno ? ", out of range: it uses the default" : "");
}

/* Is the name known, and its value one that NCCL understands?
 * @nccl: the libnccl that will be used; bytes NULL: not known */
static void capo_doctor_variable(struct capo_findings *f, struct capo_unknown_variables *unknown,
                                 const struct capo_elf_file *nccl, const char *name,
                                 const char *value, const char *where)
{
        struct cli_near_word near = {0};
        const struct variable *v;

        if (strncmp(name, "NCCL_", 5) != 0 && strncmp(name, "OFI_NCCL_", 9) != 0)
                return;
        v = find_variable(name, &near);
        if (v) {
                check_value(f, v, value, where);
        } else if (nccl->bytes && capo_elf_has_word(nccl, name)) {
                return; /* newer than the table */
        } else if (near.word) {
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "%s=%s is set (%s): NCCL has no such variable; did you mean %s?",
                                 name, value, where, near.word);
        } else {
                if (unknown->n++ < 4)
                        capo_append(unknown->names, sizeof unknown->names, "%s%s",
                                    unknown->n > 1 ? ", " : "", name);
        }
}

static void capo_doctor_unknown(struct capo_findings *f,
                                const struct capo_unknown_variables *unknown)
{
        char more[32] = "";

        if (unknown->n > 4)
                capo_append(more, sizeof more, " and %u more", unknown->n - 4);
        if (unknown->n)
                capo_finding_add(f, CAPO_FINDING_NOTE, "settings",
                                 "%s%s: not a variable of NCCL or aws-ofi-nccl; the program or "
                                 "another plugin may read %s",
                                 unknown->names, more, unknown->n > 1 ? "them" : "it");
}

extern char **environ;

struct setting {
        char name[64];
        char value[512];
        char where[256]; /* "environment" or the file */
};

struct settings {
        struct setting rows[256];
        size_t n;
};

static void setting_add(struct settings *s, const char *name, size_t n_name, const char *value,
                        size_t n_value, const char *where)
{
        struct setting *row;

        if (n_name >= sizeof row->name || n_value >= sizeof row->value ||
            s->n == N_ELEMENTS(s->rows))
                return;
        for (size_t i = 0; i < s->n; i++) { /* the first source wins */
                if (strlen(s->rows[i].name) == n_name && !strncmp(s->rows[i].name, name, n_name))
                        return;
        }
        row = &s->rows[s->n++];
        snprintf(row->name, sizeof row->name, "%.*s", (int)n_name, name);
        snprintf(row->value, sizeof row->value, "%.*s", (int)n_value, value);
        snprintf(row->where, sizeof row->where, "%s", where);
}

static void read_file(struct settings *s, const char *path)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        char line[1024];

        while (in && fgets(line, sizeof line, in)) {
                char *name = line + strspn(line, " \t"), *equals = strchr(name, '=');
                size_t n_name, n_value;

                if (*name == '#' || !equals)
                        continue;
                n_name = strcspn(name, " \t=");
                equals++;
                n_value = strcspn(equals, "\r\n");
                setting_add(s, name, n_name, equals, n_value, path);
        }
}

static void gather_settings(struct settings *s)
{
        const char *home = getenv("HOME");
        char path[512];

        for (char **e = environ; *e; e++) {
                const char *equals = strchr(*e, '=');

                if (equals && (!strncmp(*e, "NCCL_", 5) || !strncmp(*e, "FI_", 3) ||
                               !strncmp(*e, "OFI_NCCL_", 9)))
                        setting_add(s, *e, (size_t)(equals - *e), equals + 1, strlen(equals + 1),
                                    "environment");
        }
        if (home && snprintf(path, sizeof path, "%s/.nccl.conf", home) < (int)sizeof path)
                read_file(s, path);
        read_file(s, "/etc/nccl.conf");
}

static const struct setting *setting_find(const struct settings *s, const char *name)
{
        for (size_t i = 0; i < s->n; i++) {
                if (!strcmp(s->rows[i].name, name))
                        return &s->rows[i];
        }
        return NULL;
}

static void check_life(struct capo_findings *f, const struct settings *s, int version)
{
        static const struct {
                const char *name;
                int first, last;
                const char *instead;
        } lives[] = {
#define LIFE(name, first, last, instead) {name, first, last, instead},
#include "cli/doctor/doctor_settings.def"
#undef LIFE
        };
        char v[16], a[16], b[16];

        for (size_t i = 0; i < N_ELEMENTS(lives); i++) {
                const struct setting *set = setting_find(s, lives[i].name);

                if (!set)
                        continue;
                if (!lives[i].first)
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s=%s is set (%s): no NCCL reads it; use %s", set->name,
                                         set->value, set->where, lives[i].instead);
                else if (version && version > lives[i].last)
                        capo_finding_add(
                                f, CAPO_FINDING_WARN, "settings",
                                "%s=%s is set (%s): no NCCL after %s reads it, this one is %s; use %s",
                                set->name, set->value, set->where,
                                capo_nccl_text((uint32_t)lives[i].last, a, sizeof a),
                                capo_nccl_text((uint32_t)version, v, sizeof v), lives[i].instead);
                else if (version && version < lives[i].first)
                        capo_finding_add(
                                f, CAPO_FINDING_WARN, "settings",
                                "%s=%s is set (%s): read from %s on, this NCCL is %s; use %s",
                                set->name, set->value, set->where,
                                capo_nccl_text((uint32_t)lives[i].first, b, sizeof b),
                                capo_nccl_text((uint32_t)version, v, sizeof v), lives[i].instead);
        }
}

/* Check one list of NCCL_ALGO or NCCL_PROTO, without function prefix: "^a,b". */
static bool known_words(const char *list, size_t n, unsigned (*find_word)(const char *), char *bad,
                        size_t room)
{
        const char *end = list + n;

        if (list < end && *list == '^')
                list++;
        while (list < end) {
                size_t word = strcspn(list, ",;");

                if (word > (size_t)(end - list))
                        word = (size_t)(end - list);
                snprintf(bad, room, "%.*s", (int)word, list);
                if (!find_word(bad))
                        return false;
                list += word + 1;
        }
        return true;
}

/* CollNet, the name from when there was only one kind, is still accepted. */
static unsigned find_algo(const char *word)
{
        bool old = strlen(word) == 7 &&
                   !strncasecmp(word, capo_algo_name(CAPO_ALGO_COLLNET_DIRECT), 7);

        return old ? CAPO_ALGO_COLLNET_DIRECT : capo_algo_find(word);
}

static unsigned find_proto(const char *word) { return capo_proto_find(word); }

static void check_choice(struct capo_findings *f, const struct setting *set,
                         unsigned (*find_word)(const char *), int version)
{
        const char *part = set->value;
        char bad[64];
        bool first = true;

        if ((strchr(set->value, ':') || strchr(set->value, ';')) && version &&
            !capo_nccl_has(version, CAPO_NCCL_ALGO_BY_COLL))
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "settings",
                        "%s=%s: the form with functions needs 2.24; older releases take it as one list of "
                        "unknown words",
                        set->name, set->value);
        while (*part) {
                size_t n = strcspn(part, ";"), prefix = strcspn(part, ":;");
                const char *list = part;
                bool known = true;

                if (prefix < n) {
                        known = false;
                        for (int c = 0; c < CAPO_COLLS; c++)
                                known |= strlen(capo_coll_word(c)) == prefix &&
                                         !strncasecmp(part, capo_coll_word(c), prefix);
                        if (!known)
                                snprintf(bad, sizeof bad, "%.*s", (int)prefix, part);
                        list = part + prefix + 1;
                } else if (!first) {
                        capo_finding_add(
                                f, CAPO_FINDING_FAIL, "settings",
                                "%s=%s: only the first list may stand without a function; NCCL refuses it",
                                set->name, set->value);
                }
                if (known)
                        known = known_words(list, n - (size_t)(list - part), find_word, bad,
                                            sizeof bad);
                if (!known)
                        capo_finding_add(
                                f,
                                capo_nccl_has(version, CAPO_NCCL_ALGO_BY_COLL) ? CAPO_FINDING_FAIL
                                                                               : CAPO_FINDING_WARN,
                                "settings", "%s=%s: \"%s\" is not a word NCCL knows; %s", set->name,
                                set->value, bad,
                                capo_nccl_has(version, CAPO_NCCL_ALGO_BY_COLL)
                                        ? "communicator init fails with ncclInvalidUsage"
                                        : "releases before 2.24 ignore it silently, 2.24 and later refuse to start");
                part += n;
                part += *part == ';';
                first = false;
        }
}

/* Is LL128 in a list, also one for a function? "^LL128" and "allreduce:^LL128" exclude it. */
static bool names_ll128(const char *value)
{
        while (*value) {
                size_t n = strcspn(value, ";");
                const char *colon = memchr(value, ':', n), *list = colon ? colon + 1 : value;
                const char *found = strcasestr(list, capo_proto_name(CAPO_PROTO_LL128));

                if (*list != '^' && found && found < value + n)
                        return true;
                value += n + (value[n] == ';');
        }
        return false;
}

static void check_values(struct capo_findings *f, const struct settings *s, int version)
{
        const struct setting *algo = setting_find(s, "NCCL_ALGO"),
                             *proto = setting_find(s, "NCCL_PROTO"), *set, *other;

        if (algo) {
                check_choice(f, algo, find_algo, version);
                if (capo_nccl_has(version, CAPO_NCCL_ALGO_FOR_ALLREDUCE))
                        capo_finding_add(
                                f, CAPO_FINDING_NOTE, "settings",
                                "NCCL_ALGO=%s: releases 2.7 to 2.16 apply it to AllReduce only",
                                algo->value);
                if (capo_nccl_has(version, CAPO_NCCL_ALGO_TREE_FAILS) &&
                    capo_algo_find(algo->value) == CAPO_ALGO_TREE)
                        capo_finding_add(
                                f, CAPO_FINDING_FAIL, "settings",
                                "NCCL_ALGO=Tree: on 2.17 and 2.18 every other collective then fails, none of "
                                "them has a tree");
        }
        if (proto) {
                check_choice(f, proto, find_proto, version);
                if (names_ll128(proto->value))
                        capo_finding_add(
                                f, CAPO_FINDING_WARN, "settings",
                                "NCCL_PROTO=%s: naming LL128 skips NCCL's test whether the links keep "
                                "128-byte stores whole; on others data is silently damaged",
                                proto->value);
        }
        if (algo || proto)
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "settings",
                        "NCCL_ALGO and NCCL_PROTO win over every profile: capo chooses among what they leave");
        set = setting_find(s, "NCCL_MIN_NCHANNELS");
        other = setting_find(s, "NCCL_MAX_NCHANNELS");
        if (set && other && atoi(set->value) > atoi(other->value))
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "NCCL_MIN_NCHANNELS=%s is more than NCCL_MAX_NCHANNELS=%s",
                                 set->value, other->value);
        for (int i = 0; i < 2; i++) {
                const char *names[2][2] = {{"NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS"},
                                           {"NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS"}};

                if (setting_find(s, names[i][0]) && setting_find(s, names[i][1]))
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s and %s are both set: the latter wins", names[i][0],
                                         names[i][1]);
        }
        set = setting_find(s, "NCCL_NTHREADS");
        if (set && capo_nccl_has(version, CAPO_NCCL_NTHREADS_CHECKED) &&
            (atoi(set->value) % 32 || atoi(set->value) < 64 || atoi(set->value) > 512))
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "NCCL_NTHREADS=%s: NCCL takes multiples of 32 from 64 to 512 only",
                                 set->value);
        set = setting_find(s, "NCCL_CROSS_NIC");
        if (set && (atoi(set->value) < 0 || atoi(set->value) > 2))
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "NCCL_CROSS_NIC=%s: expected 0, 1 or 2", set->value);
        static const char *const files[] = {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE"};
        for (size_t i = 0; i < N_ELEMENTS(files); i++) {
                set = setting_find(s, files[i]);
                if (set && access(set->value, R_OK))
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s=%s cannot be read on this machine", set->name,
                                         set->value);
        }
        if (setting_find(s, "NCCL_GRAPH_FILE"))
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "settings",
                        "NCCL_GRAPH_FILE applies to every communicator of a process: one over fewer GPUs than "
                        "the file names fails");
        static const char *const slow[] = {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
                                           "NCCL_NVB_DISABLE"};
        for (size_t i = 0; i < N_ELEMENTS(slow); i++) {
                set = setting_find(s, slow[i]);
                if (set && atoi(set->value))
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s=%s takes away a fast path inside the node", set->name,
                                         set->value);
        }
        set = setting_find(s, "NCCL_DEBUG");
        if (set && !strcasecmp(set->value, "TRACE"))
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "settings",
                        "NCCL_DEBUG=TRACE prints more than INFO only in builds with TRACE=1");
}

static void check_names(struct capo_findings *f, const struct settings *s, const char *library)
{
        _cleanup_(capo_elf_close) struct capo_elf_file nccl = {0};
        struct capo_unknown_variables unknown = {0};

        if (*library && capo_elf_open(library, &nccl) < 0)
                nccl.bytes = NULL;
        for (size_t i = 0; i < s->n; i++)
                capo_doctor_variable(f, &unknown, &nccl, s->rows[i].name, s->rows[i].value,
                                     s->rows[i].where);
        capo_doctor_unknown(f, &unknown);
}

void capo_doctor_settings(struct capo_findings *f, const struct capo_reach *reach)
{
        struct settings *s = xcalloc(1, sizeof *s);
        size_t before = f->n;

        gather_settings(s);
        check_life(f, s, reach->version);
        check_names(f, s, reach->library);
        check_values(f, s, reach->version);
        capo_doctor_own(f, reach->version);
        if (f->n == before)
                capo_finding_add(
                        f, CAPO_FINDING_OK, "settings",
                        "%zu NCCL and libfabric settings: none ignored, contradictory or dangerous",
                        s->n);
}
