/* SPDX-License-Identifier: Apache-2.0 */
/* Judges settings for one NCCL release. doctor_settings.def has which release reads which variable;
 * this file has variables whose value, or combination with others, can be wrong. NCCL also reads
 * /etc/nccl.conf and ~/.nccl.conf (lines NAME=value); the environment takes precedence. */

#include "core/base/among.h"
#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "cli/base/near_word.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/elf_file.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "settings", __VA_ARGS__)

extern char **environ;

struct settings {
        struct setting {
                char *name, *value;
                const char *where; /* "environment" or the file */
        } * rows;
        size_t n;
};

/* nccl_variables.def: values that NCCL misinterprets, and names that it has, for those that it has
 * not. It reports neither. */
enum how { TEXT, INT, ONE, EXACT, LIST, NUMBER };

static const struct variable {
        enum how how;
        const char *words, *const *names;
} variables[] = {
#define NAMES(...) \
        (const char *const[]) { __VA_ARGS__, NULL }
#define NCCL_INT(...)               {INT, NULL, NAMES(__VA_ARGS__)},
#define NCCL_TEXT(...)              {TEXT, NULL, NAMES(__VA_ARGS__)},
#define NCCL_WORD(name, how, words) {how, words, NAMES(name)},
#include "cli/doctor/nccl_variables.def"
};

static const struct variable *find_variable(const char *name, struct cli_near_word *near)
{
        for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
                for (const char *const *known = variables[i].names; *known; known++) {
                        if (!strcmp(*known, name))
                                return &variables[i];
                        cli_near_word_try(near, name, *known);
                }
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

static void check_value(struct capo_findings *f, const struct variable *v,
                        const struct setting *set)
{
        char *end;
        long long number;

        if (!*set->value || v->how == TEXT)
                return;
        if (v->how != INT) {
                if (!is_understood(v, set->value))
                        FOUND(WARN,
                              "%s=%s (%s): NCCL does not understand it and ignores it: expected %s%s%s",
                              set->name, set->value, set->where, v->how == LIST ? "a list of " : "",
                              v->words, v->how == NUMBER ? " or a number" : "");
                return;
        }
        errno = 0;
        number = strtoll(set->value, &end, 0);
        if (*end || errno)
                FOUND(WARN, "%s=%s (%s): NCCL expects a number and reads %lld%s", set->name,
                      set->value, set->where, number,
                      errno ? ", out of range: it uses the default" : "");
}

/* Unknown names without a similar known one are printed in one line. @library: the libnccl that
 * will be used; "": not known */
static void check_names(struct capo_findings *f, const struct settings *s, const char *library)
{
        _cleanup_(capo_elf_close) struct capo_elf_file nccl = {0};
        char names[400] = "";
        unsigned unknown = 0;

        if (*library)
                capo_elf_open(library, &nccl);
        for (const struct setting *set = s->rows; set < PAST_OF(s->rows, s->n); set++) {
                struct cli_near_word near = {0};
                const struct variable *v;

                if (!strncmp(set->name, "FI_", 3))
                        continue;
                v = find_variable(set->name, &near);
                if (v)
                        check_value(f, v, set);
                else if (nccl.bytes && capo_elf_has_word(&nccl, set->name))
                        continue; /* newer than the table */
                else if (near.word)
                        FOUND(WARN,
                              "%s=%s is set (%s): NCCL has no such variable; did you mean %s?",
                              set->name, set->value, set->where, near.word);
                else if (unknown++ < 4)
                        capo_append(names, sizeof names, "%s%s", *names ? ", " : "", set->name);
        }
        if (unknown > 4)
                capo_append(names, sizeof names, " and %u more", unknown - 4);
        if (unknown)
                FOUND(NOTE,
                      "%s: not a variable of NCCL or aws-ofi-nccl; the program or another plugin may read %s",
                      names, unknown > 1 ? "them" : "it");
}

static const struct setting *setting_find(const struct settings *s, const char *name)
{
        return FIRST_OF(set, s->rows, s->n, !strcmp(set->name, name));
}

/* Add "NAME=value" if it is NCCL's, libfabric's or aws-ofi-nccl's; the first source wins. */
static void setting_add(struct settings *s, const char *line, const char *where)
{
        const char *equals = strchr(line, '=');
        _cleanup_free_ char *name = NULL;

        line += strspn(line, " \t");
        if (!equals ||
            (strncmp(line, "NCCL_", 5) && strncmp(line, "FI_", 3) && strncmp(line, "OFI_NCCL_", 9)))
                return;
        name = xstrndup(line, strcspn(line, " \t="));
        if (setting_find(s, name))
                return;
        *xadd(s->rows, s->n) = (struct setting){
                steal(&name), xstrndup(equals + 1, strcspn(equals + 1, "\r\n")), where};
}

static void read_file(struct settings *s, const char *path)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        char line[1024];

        while (in && fgets(line, sizeof line, in))
                setting_add(s, line, path);
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
        char now[16], bound[16], when[80];

        capo_nccl_text((uint32_t)version, now, sizeof now);
        for (size_t i = 0; i < N_ELEMENTS(lives); i++) {
                const struct setting *set = setting_find(s, lives[i].name);
                bool late = version > lives[i].last;

                if (!set || (lives[i].first && (!version || (!late && version >= lives[i].first))))
                        continue;
                capo_nccl_text((uint32_t)(late ? lives[i].last : lives[i].first), bound,
                               sizeof bound);
                snprintf(when, sizeof when,
                         !lives[i].first ? "no NCCL reads it"
                         : late          ? "no NCCL after %s reads it, this one is %s"
                                         : "read from %s on, this NCCL is %s",
                         bound, now);
                FOUND(WARN, "%s=%s is set (%s): %s; use %s", set->name, set->value, set->where,
                      when, lives[i].instead);
        }
}

/* CollNet, the name from when there was only one kind, is still accepted. */
static unsigned find_algo(const char *word)
{
        bool old = strlen(word) == 7 &&
                   !strncasecmp(word, capo_algo_name(CAPO_ALGO_COLLNET_DIRECT), 7);

        return old ? CAPO_ALGO_COLLNET_DIRECT : capo_algo_find(word);
}

static bool is_coll(const char *word)
{
        for (int c = 0; c < CAPO_COLLS; c++) {
                if (!strcasecmp(word, capo_coll_word(c)))
                        return true;
        }
        return false;
}

/* The first word of "^a,b" that is none; NULL: all are known. */
static const char *find_unknown(char *list, unsigned (*find_word)(const char *))
{
        char *rest = list + (*list == '^');

        for (char *word; (word = strsep(&rest, ",")) && (*word || rest);) {
                if (!find_word(word))
                        return word;
        }
        return NULL;
}

/* A value such as "ring;allreduce:^tree,nvls". Return: does a list without ^ name LL128? */
static bool check_choice(struct capo_findings *f, const struct setting *set,
                         unsigned (*find_word)(const char *), int version)
{
        bool strict = capo_nccl_has(version, CAPO_NCCL_ALGO_BY_COLL), ll128 = false;
        _cleanup_free_ char *copy = xstrdup(set->value);
        char *rest = copy;

        if (strpbrk(set->value, ":;") && version && !strict)
                FOUND(WARN,
                      "%s=%s: the form with functions needs 2.24; older releases take it as one list of "
                      "unknown words",
                      set->name, set->value);
        for (char *part; (part = strsep(&rest, ";")) && (*part || rest);) {
                char *list = strchr(part, ':');
                const char *bad;

                if (list)
                        *list++ = 0;
                else if (part != copy)
                        FOUND(FAIL,
                              "%s=%s: only the first list may stand without a function; NCCL refuses it",
                              set->name, set->value);
                ll128 |= *(list ?: part) != '^' &&
                         strcasestr(list ?: part, capo_proto_name(CAPO_PROTO_LL128));
                bad = list && !is_coll(part) ? part : find_unknown(list ?: part, find_word);
                if (bad)
                        capo_finding_add(
                                f, strict ? CAPO_FINDING_FAIL : CAPO_FINDING_WARN, "settings",
                                "%s=%s: \"%s\" is not a word NCCL knows; %s", set->name, set->value,
                                bad,
                                strict ? "communicator init fails with ncclInvalidUsage"
                                       : "releases before 2.24 ignore it silently, 2.24 and later refuse to start");
        }
        return ll128;
}

static void check_choices(struct capo_findings *f, const struct settings *s, int version)
{
        const struct setting *algo = setting_find(s, "NCCL_ALGO"),
                             *proto = setting_find(s, "NCCL_PROTO");

        if (algo) {
                check_choice(f, algo, find_algo, version);
                if (capo_nccl_has(version, CAPO_NCCL_ALGO_FOR_ALLREDUCE))
                        FOUND(NOTE, "NCCL_ALGO=%s: releases 2.7 to 2.16 apply it to AllReduce only",
                              algo->value);
                if (capo_nccl_has(version, CAPO_NCCL_ALGO_TREE_FAILS) &&
                    capo_algo_find(algo->value) == CAPO_ALGO_TREE)
                        FOUND(FAIL,
                              "NCCL_ALGO=Tree: on 2.17 and 2.18 every other collective then fails, none of "
                              "them has a tree");
        }
        if (proto && check_choice(f, proto, capo_proto_find, version))
                FOUND(WARN,
                      "NCCL_PROTO=%s: naming LL128 skips NCCL's test whether the links keep "
                      "128-byte stores whole; on others data is silently damaged",
                      proto->value);
        if (algo || proto)
                FOUND(NOTE,
                      "NCCL_ALGO and NCCL_PROTO win over every profile: capo chooses among what they leave");
}

static bool is_on(const char *value) { return atoi(value) != 0; }

static bool is_unreadable(const char *value) { return access(value, R_OK) < 0; }

static bool is_above_two(const char *value) { return atoi(value) < 0 || atoi(value) > 2; }

static void check_values(struct capo_findings *f, const struct settings *s, int version)
{
        static const char *const both[][2] = {{"NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS"},
                                              {"NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS"}};
        static const struct {
                const char *name;
                bool (*is)(const char *value);
                const char *text;
        } rows[] = {{"NCCL_CROSS_NIC", is_above_two, ": expected 0, 1 or 2"},
                    {"NCCL_TOPO_FILE", is_unreadable, " cannot be read on this machine"},
                    {"NCCL_GRAPH_FILE", is_unreadable, " cannot be read on this machine"},
                    {"NCCL_CONF_FILE", is_unreadable, " cannot be read on this machine"},
                    {"NCCL_P2P_DISABLE", is_on, " takes away a fast path inside the node"},
                    {"NCCL_SHM_DISABLE", is_on, " takes away a fast path inside the node"},
                    {"NCCL_NVB_DISABLE", is_on, " takes away a fast path inside the node"}};
        const struct setting *set = setting_find(s, both[0][1]),
                             *most = setting_find(s, both[1][1]);

        if (set && most && atoi(set->value) > atoi(most->value))
                FOUND(WARN, "%s=%s is more than %s=%s", set->name, set->value, most->name,
                      most->value);
        for (int i = 0; i < 2; i++) {
                if (setting_find(s, both[i][0]) && setting_find(s, both[i][1]))
                        FOUND(WARN, "%s and %s are both set: the latter wins", both[i][0],
                              both[i][1]);
        }
        set = setting_find(s, "NCCL_NTHREADS");
        if (set && capo_nccl_has(version, CAPO_NCCL_NTHREADS_CHECKED) &&
            (atoi(set->value) % 32 || atoi(set->value) < 64 || atoi(set->value) > 512))
                FOUND(WARN, "NCCL_NTHREADS=%s: NCCL takes multiples of 32 from 64 to 512 only",
                      set->value);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                set = setting_find(s, rows[i].name);
                if (set && rows[i].is(set->value))
                        FOUND(WARN, "%s=%s%s", set->name, set->value, rows[i].text);
        }
        if (setting_find(s, "NCCL_GRAPH_FILE"))
                FOUND(NOTE,
                      "NCCL_GRAPH_FILE applies to every communicator of a process: one over fewer GPUs than "
                      "the file names fails");
        set = setting_find(s, "NCCL_DEBUG");
        if (set && !strcasecmp(set->value, "TRACE"))
                FOUND(NOTE, "NCCL_DEBUG=TRACE prints more than INFO only in builds with TRACE=1");
}

void capo_doctor_settings(struct capo_findings *f, const struct capo_reach *reach)
{
        struct settings s = {0};
        size_t before = f->n;

        for (char **e = environ; *e; e++)
                setting_add(&s, *e, "environment");
        if (getenv("HOME"))
                read_file(&s, xprintf("%s/.nccl.conf", getenv("HOME")));
        read_file(&s, "/etc/nccl.conf");
        check_life(f, &s, reach->version);
        check_names(f, &s, reach->library);
        check_choices(f, &s, reach->version);
        check_values(f, &s, reach->version);
        capo_doctor_own(f, reach->version);
        if (f->n == before)
                FOUND(OK,
                      "%zu NCCL and libfabric settings: none ignored, contradictory or dangerous",
                      s.n);
}
