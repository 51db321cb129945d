/* SPDX-License-Identifier: Apache-2.0 */
/* capo's own settings: unknown names, invalid values, a profile that cannot be loaded. */

#include "capo/env.h"
#include "capo/profile.h"
#include "core/base/layout.h"
#include "core/base/nccl_facts.h"
#include "core/base/plugin_file.h"
#include "core/base/text.h"
#include "core/profile/profile_find.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_own.h"
#include "cli/base/near_word.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "settings", __VA_ARGS__)

extern char **environ;

/* The setting that a name which is none may mean; NULL: none. */
static const char *find_meant(const char *name)
{
        struct cli_near_word near = {0};
        const char *whole = NULL, *part = name + strlen("CAPO"); /* the name lacks a word */

#define ENV(field, type, known, def, help)                     \
        cli_near_word_try(&near, name, known);                 \
        if (!whole && strlen(part) > 3 && strstr(known, part)) \
                whole = known;
#include "capo/env.def"
        return near.word ? near.word : whole;
}

/* Is "NAME=value" understood? Return: 0, also if it is not capo's; as capo_env_understood(). */
static int judge_variable(const char *var, char name[64], const char **type)
{
        const char *equals = strchr(var, '=');

        *type = "";
        if (!equals || strncmp(var, "CAPO_", 5) != 0)
                return 0;
        snprintf(name, 64, "%.*s", (int)(equals - var), var);
        return capo_env_understood(name, equals + 1, type);
}

void capo_doctor_misspelt(void (*say)(const char *name, const char *meant))
{
        for (char **e = environ; *e; e++) {
                const char *type, *meant;
                char name[64];

                if (judge_variable(*e, name, &type) == -ENOENT && (meant = find_meant(name)))
                        say(name, meant);
        }
}

static const char *value_of(const char *name)
{
        const char *text = getenv(name);

        return text && *text ? text : NULL;
}

static void check_words(struct capo_findings *f)
{
        static const struct {
                const char *name, *words[5];
        } rows[] = {{CAPO_ENV_trace, {"all"}},
                    {CAPO_ENV_cmdline, {"safe", "all", "none"}},
                    {CAPO_ENV_tuner, {"on", "only", "chain", "off"}},
                    {CAPO_ENV_profiler, {"on", "off", "auto"}}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *value = value_of(rows[i].name);
                bool known = !value;
                char words[64] = "";

                for (size_t k = 0; rows[i].words[k]; k++) {
                        known |= value && !strcmp(value, rows[i].words[k]);
                        capo_append(words, sizeof words, "%s%s", k ? ", " : "", rows[i].words[k]);
                }
                if (!known)
                        FOUND(WARN, "%s=%s is not understood: expected %s; the default is used",
                              rows[i].name, value, words);
        }
}

static bool is_off(const char *value)
{
        return value && (!strcmp(value, "0") || !strcasecmp(value, "no") ||
                         !strcasecmp(value, "off") || !strcasecmp(value, "false"));
}

/* Why the tuner would refuse to run: capo run gave all ranks the digest of another profile, or
 * there is no profile here. */
static void check_digest(struct capo_findings *f, const struct capo_profile *profile, bool lax)
{
        const char *digest = value_of(CAPO_ENV_profile_digest),
                   *modelled = value_of(CAPO_ENV_allow_modelled), *trial = value_of(CAPO_ENV_trial);
        char agreed[CAPO_AGREEMENT] = "";

        if (profile)
                capo_profile_agreement(profile, modelled && !is_off(modelled), trial ? trial : "",
                                       agreed);
        if (digest && strcasecmp(digest, agreed))
                capo_finding_add(f, lax ? CAPO_FINDING_WARN : CAPO_FINDING_FAIL, "settings",
                                 "CAPO_PROFILE_DIGEST=%s, but %s%s%s%s", digest,
                                 profile ? profile->file : "CAPO_PROFILE is not set",
                                 profile ? " has " : "", agreed,
                                 lax ? "" : "; the init of every communicator would fail");
}

/* Rows that override settings per call have no effect without the preload library, before NCCL
 * 2.31, and if not enabled. */
static void check_turns(struct capo_findings *f, const struct capo_profile *profile, int version)
{
        const char *preload = value_of("LD_PRELOAD"), *steer = value_of(CAPO_ENV_steer),
                   *why = NULL;

        if (!capo_profile_turned(profile))
                return;
        if (version && !capo_nccl_has(version, CAPO_NCCL_CALL_CONFIG))
                why = "NCCL before 2.31 has no calls that take them";
        else if (!preload || !strstr(preload, "libcapo.so"))
                why = "only the preload library turns calls; a tuner plugin alone cannot";
        else if (!steer || is_off(steer))
                why = "CAPO_STEER=1 is not set, as capo run does on every rank";
        if (why)
                FOUND(WARN, "%s: rows with kernel, ctas, cluster or cta_policy do nothing: %s",
                      profile->file, why);
}

/* A profile alone loads no tuner, and NCCL prints nothing. */
static void check_named(struct capo_findings *f, const char *file, int version)
{
        const char *plugin = value_of("NCCL_TUNER_PLUGIN");

        if (version && !capo_nccl_has(version, CAPO_NCCL_TUNER)) {
                FOUND(FAIL, "CAPO_PROFILE=%s is not used: NCCL before 2.19 asks no tuner", file);
                return;
        }
        if (plugin && (capo_plugin_own(plugin) || capo_plugin_static(plugin)))
                return; /* doctor_plugins.c checks whether this release finds it */
        FOUND(FAIL,
              "CAPO_PROFILE=%s is not used: NCCL_TUNER_PLUGIN does not name capo's tuner. Use "
              "capo run --profile %s -- COMMAND",
              file, file);
}

/* How the tuner would use it. If it cannot be loaded, every communicator's init fails, unless
 * CAPO_STRICT=0. */
static void check_profile(struct capo_findings *f, int version)
{
        const char *name = value_of(CAPO_ENV_profile), *tuner = value_of(CAPO_ENV_tuner);
        _cleanup_(capo_profile_freep) struct capo_profile *profile = NULL;
        bool lax = is_off(value_of(CAPO_ENV_strict));
        const enum capo_finding_level level = lax ? CAPO_FINDING_WARN : CAPO_FINDING_FAIL;
        struct capo_fault fault;
        char path[4096];

        if (tuner && (!strcmp(tuner, "off") || !strcmp(tuner, "chain")))
                return;
        if (name && !strcmp(name, "auto"))
                FOUND(NOTE,
                      "CAPO_PROFILE=auto tunes only under capo run, which makes all ranks use one file");
        else if (name && !strcmp(name, "-"))
                capo_finding_add(f, level, "settings",
                                 "CAPO_PROFILE=- is no file, which every rank could read");
        else if (name && (capo_profile_find(name, NULL, path, sizeof path, &fault) < 0 ||
                          capo_profile_load(path, &profile, &fault) < 0))
                capo_finding_add(f, level, "settings", "CAPO_PROFILE=%s: %s; %s", name, fault.text,
                                 lax ? "with CAPO_STRICT=0 the job goes on with NCCL's own choices"
                                     : "the init of every communicator would fail");
        else {
                check_digest(f, profile, lax);
                if (profile) {
                        check_named(f, name, version);
                        check_turns(f, profile, version);
                        if (capo_profile_chunks(profile) && version &&
                            !capo_nccl_has(version, CAPO_NCCL_CHUNK))
                                FOUND(WARN,
                                      "%s: chunk does nothing: NCCL before 2.30 asks no tuner for it",
                                      profile->file);
                }
        }
}

/* Files and folders that the library will open. */
static void check_paths(struct capo_findings *f)
{
        static const struct {
                const char *name, *then;
                int mode;
        } rows[] = {{CAPO_ENV_shm, "records are kept in private memory, a kill would lose them",
                     W_OK | X_OK},
                    {CAPO_ENV_comm_names, "communicators keep the names that NCCL knows", R_OK},
                    {CAPO_ENV_nccl, "capo plan, explain and fit find no NCCL to ask", R_OK},
                    {CAPO_ENV_sysfs, "the network's devices are not known", R_OK | X_OK}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *value = value_of(rows[i].name);

                if (value && access(value, rows[i].mode))
                        FOUND(WARN, "%s=%s: %s; %s", rows[i].name, value, strerror(errno),
                              rows[i].then);
        }
}

/* Negative numbers are invalid here; the library takes them as off, or as the minimum. */
static void check_numbers(struct capo_findings *f)
{
        static const char *const names[] = {CAPO_ENV_flight, CAPO_ENV_gpu_sample,
                                            CAPO_ENV_fabric_sample};

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *value = value_of(names[i]);

                if (value && strtoll(value, NULL, 10) < 0)
                        FOUND(WARN, "%s=%s is below 0: taken for 0", names[i], value);
        }
}

static void check_layout(struct capo_findings *f)
{
        const char *text = value_of(CAPO_ENV_layout), *at = NULL;
        char layout_text[CAPO_LAYOUT_TEXT];
        struct capo_layout_launch launch;
        struct capo_layout layout;

        if (text && capo_layout_parse(text, &layout, &at) < 0)
                FOUND(WARN,
                      "CAPO_LAYOUT=%.60s: expected ranks per node such as 3+5 or 4x8, found \"%.20s\"",
                      text, at);
        else if (!text && capo_layout_from_launcher(capo_getenv, NULL, false, &launch) == 0 &&
                 launch.layout.n_runs > 1) {
                capo_layout_print(&launch.layout, layout_text, sizeof layout_text);
                FOUND(NOTE,
                      "%s: %s ranks per node. NCCL's model takes the nodes for even; capo plan --alloc %s shows what "
                      "it chooses and reaches there",
                      launch.source, layout_text, layout_text);
        } else if (!text && *launch.said)
                FOUND(WARN, "%s", launch.said);
}

void capo_doctor_own(struct capo_findings *f, int version)
{
        /* a misspelt name is silently ignored, an invalid value silently replaced by the default */
        for (char **e = environ; *e; e++) {
                const char *type, *meant;
                char name[64];
                int r = judge_variable(*e, name, &type);

                if (r == -ENOENT) {
                        meant = find_meant(name);
                        FOUND(WARN,
                              "%s is set: capo has no such setting%s%s%s; capo env lists them",
                              name, meant ? "; did you mean " : "", meant ? meant : "",
                              meant ? "?" : "");
                } else if (r < 0) {
                        FOUND(WARN, "%s=%s is not %s: the default is used; capo env shows it", name,
                              strchr(*e, '=') + 1, type);
                }
        }
        check_words(f);
        check_profile(f, version);
        check_layout(f);
        check_paths(f);
        check_numbers(f);
}
