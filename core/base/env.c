/* SPDX-License-Identifier: Apache-2.0 */
/* The settings table at work. Each row of env.def becomes one field, one parse call and one printed
 * line, so the list, the parser and the documentation cannot drift apart. */

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/site_conf.h"
#include "core/base/size.h"

static bool parse_STR(const char *text, capo_env_STR *out)
{
        *out = text;
        return true;
}

static bool parse_INT(const char *text, capo_env_INT *out)
{
        char *end;
        long long v = strtoll(text, &end, 10);

        if (end == text || *end)
                return false;
        *out = v;
        return true;
}

static bool parse_SIZE(const char *text, capo_env_SIZE *out)
{
        return capo_size_parse(text, out) == 0;
}

static bool parse_BOOL(const char *text, capo_env_BOOL *out)
{
        static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
                if (!strcasecmp(text, words[i])) {
                        *out = i & 1;
                        return true;
                }
        }
        return false;
}

/* What is expected, in words. */
#define EXPECTED_STR  "text"
#define EXPECTED_INT  "a whole number"
#define EXPECTED_SIZE "a size such as 64K"
#define EXPECTED_BOOL "0 or 1"

/* The file of site defaults, by capo_env_begin(). No lock, which a fork could leave held. */
static char begun[CAPO_SITE_ROOM], begun_fault[CAPO_SITE_FAULT];
static bool has_begun;

static const struct {
        const char *name;
        long long least;
} limits[] = {
#define ENV(...)
#define ENV_LEAST(field, type, name, def, least, help) {name, least},
#include "capo/env.def"
};

bool capo_env_below(const char *name, const char *text, long long *least)
{
        capo_env_SIZE size;
        capo_env_INT number;

        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
                *least = limits[i].least;
                if (!strcmp(name, limits[i].name))
                        return *least ? parse_SIZE(text, &size) && size < (uint64_t)*least
                                      : parse_INT(text, &number) && number < 0;
        }
        return false;
}

int capo_env_read(struct capo_env *env)
{
        /* once in a process, which may read its settings more than once */
        static atomic_bool said;
        bool first = !atomic_exchange(&said, true), say_own, say_site;
        const char *text, *own, *of_file;
        char fault[CAPO_SITE_FAULT] = "";
        int bad = 0;

        *env->site = 0;
        if (has_begun && *begun)
                memcpy(env->site, begun, sizeof env->site);
        else if (!has_begun)
                capo_site_read(env->site, fault);
        of_file = has_begun ? begun_fault : fault;
        capo_site_warn(env->site, of_file);
        /* the capo run that started this process has printed what is wrong in its own environment
         * and in its own node's file */
        say_own = first && !getenv(CAPO_ENV_run_pid);
        say_site = first && !capo_site_is_known(env->site, of_file);
#define ENV(field, type, name, def, help)                                 \
        own = getenv(name);                                               \
        text = own ? own : capo_site_value(env->site, name);              \
        if (!text || !*text || !parse_##type(text, &env->field)) {        \
                (void)parse_##type(def, &env->field);                     \
                if (text && *text) {                                      \
                        if (own ? say_own : say_site)                     \
                                capo_warn("%s=%s is not " EXPECTED_##type \
                                          ", using the default \"%s\"",   \
                                          name, text, def);               \
                        bad++;                                            \
                }                                                         \
        }
#include "capo/env.def"
        for (size_t i = 0; say_own && i < sizeof limits / sizeof *limits; i++) {
                long long least;

                own = getenv(limits[i].name);
                if (own && capo_env_below(limits[i].name, own, &least))
                        capo_warn("%s=%s is below %lld: taken for %lld", limits[i].name, own, least,
                                  least);
        }
        return bad;
}

void capo_env_begin(void)
{
        if (!getenv(CAPO_ENV_off) || !getenv(CAPO_ENV_dir)) {
                capo_site_read(begun, begun_fault);
                has_begun = true;
        }
}

static bool is_wanted(const char *off, const char *dir, const char *site)
{
        capo_env_BOOL is_off;

        off = off ? off : capo_site_value(site, CAPO_ENV_off);
        dir = dir ? dir : capo_site_value(site, CAPO_ENV_dir);
        return dir && *dir && !(off && parse_BOOL(off, &is_off) && is_off);
}

/* Apart, since few processes need its stack. */
__attribute__((noinline)) static bool is_wanted_early(const char *off, const char *dir)
{
        char site[CAPO_SITE_ROOM], fault[CAPO_SITE_FAULT];

        capo_site_read(site, fault); /* capo_env_read() says what is wrong with it */
        return is_wanted(off, dir, site);
}

bool capo_env_wanted(void)
{
        const char *off = getenv(CAPO_ENV_off), *dir = getenv(CAPO_ENV_dir);

        return has_begun || (off && dir) ? is_wanted(off, dir, begun) : is_wanted_early(off, dir);
}

int capo_env_understood(const char *known, const char *text, const char **of)
{
#define ENV(field, type, name, def, help)                                  \
        if (!strcmp(known, name)) {                                        \
                capo_env_##type value;                                     \
                *of = EXPECTED_##type;                                     \
                return !*text || parse_##type(text, &value) ? 0 : -EINVAL; \
        }
#include "capo/env.def"
        return -ENOENT;
}
