/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins NCCL would load, by its search rules (core/base/plugin_file.h): tuners before 2.21
 * only by NCCL_TUNER_PLUGIN; if none was opened, from the net plugin's file. */
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/nccl_facts.h"
#include "core/base/text.h"
#include "core/base/nccl_release.h"
#include "core/base/plugin_file.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_plugins.h"
#include "profiles/machine/elf_file.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "plugins", __VA_ARGS__)

/* The file that dlopen(name) would open, without opening it: a path, LD_LIBRARY_PATH, or the usual
 * folders. */
static bool find_library(const char *name, char *path, size_t room)
{
        static const char usual[] =
                "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/usr/local/lib:"
                "/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib64";

        struct stat st;

        return (capo_file_find(getenv("LD_LIBRARY_PATH"), name, R_OK, path, room) ||
                capo_file_find(usual, name, R_OK, path, room)) &&
               !stat(path, &st) && S_ISREG(st.st_mode);
}

/* By the forms of the name that release @version (0: not known) tries. */
static bool find_plugin(int version, const char *kind, const char *value, char *path, size_t room)
{
        bool by_file = !strcmp(kind, "tuner") && capo_nccl_has(version, CAPO_NCCL_TUNER_BY_FILE);
        char name[CAPO_PLUGIN_FILE];

        for (unsigned i = 0; capo_plugin_file(kind, value, i, name); i++) {
                if (!(capo_nccl_has(version, CAPO_NCCL_PLUGIN_NO_PATH) && strchr(name, '/')) &&
                    (!by_file || (value && *value && i == 0)) && find_library(name, path, room))
                        return true;
        }
        *path = 0;
        return false;
}

/* capo's own plugin: does this release accept the name? If not, nothing would be tuned, and NCCL
 * prints nothing. */
static void say_own(struct capo_findings *f, int version, const char *variable, const char *value,
                    const char *path, const char *own)
{
        bool by_name = capo_nccl_has(version, CAPO_NCCL_PLUGIN_NO_PATH);
        const char *preload = getenv("LD_PRELOAD");
        char release[16], nccl[24] = "NCCL";

        /* the preload library replaces its own path by its name for a release that takes no path */
        if (*path || (by_name && preload && strstr(preload, "libcapo.so") &&
                      !strcmp(capo_base_name(value), "libcapo.so"))) {
                FOUND(OK, "%s=%s: capo's own plugin would be loaded%s%s", variable, value,
                      *path ? ": " : " by its name", path);
                return;
        }
        if (version)
                snprintf(nccl, sizeof nccl, "NCCL %s",
                         capo_nccl_text((uint32_t)version, release, sizeof release));
        if (by_name)
                FOUND(FAIL,
                      "%s=%s: %s would not load it and not say so: it takes a name that the loader finds, no "
                      "path. Use LD_LIBRARY_PATH=%.*s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} %s=%s",
                      variable, value, nccl, (int)(capo_base_name(own) - own - 1), own, variable,
                      capo_base_name(own));
        else
                FOUND(FAIL, "%s=%s: %s would not load it and not say so: %s. Use %s=%s", variable,
                      value, nccl,
                      capo_nccl_has(version, CAPO_NCCL_TUNER_BY_FILE)
                              ? "it opens the value as a file"
                              : "the file is not where the loader looks",
                      variable, own);
}

/* "v2, v3 and so on" for the exported symbols <stem>_v1..; "": none. */
static bool exported_versions(const char *path, const char *stem, char *text, size_t room)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        *text = 0;
        if (capo_elf_open(path, &elf))
                return false;
        for (int v = 1; v <= 12; v++) {
                char symbol[64];

                snprintf(symbol, sizeof symbol, "%s_v%d", stem, v);
                if (capo_elf_exports(&elf, symbol))
                        capo_append(text, room, "%sv%d", *text ? ", " : "", v);
        }
        return *text;
}

static void say_named(struct capo_findings *f, const char *variable, const char *kind,
                      const char *stem, const char *path, bool found)
{
        char versions[64];
        const char *value = getenv(variable);

        if (!found) {
                FOUND(WARN,
                      "%s=%s is set, but neither that file nor libnccl-%s-%s.so is found here",
                      variable, value, kind, value);
        } else if (!exported_versions(path, stem, versions, sizeof versions)) {
                FOUND(WARN, "%s=%s: %s exports no %s_v*: NCCL will not use it", variable, value,
                      path, stem);
        } else {
                FOUND(NOTE,
                      "%s=%s: %s (%s) would be loaded; capo run --profile takes its place and asks it where "
                      "the profile is silent",
                      variable, value, path, versions);
        }
}

static void say_default(struct capo_findings *f, int version, const char *variable,
                        const char *kind, const char *stem, const char *net, bool has_net)
{
        char path[4096], versions[64];

        if (find_plugin(version, kind, NULL, path, sizeof path) &&
            exported_versions(path, stem, versions, sizeof versions))
                FOUND(NOTE, "%s is unset and %s (%s) would be loaded; capo would chain to it",
                      variable, path, versions);
        else if (has_net && exported_versions(net, stem, versions, sizeof versions))
                FOUND(NOTE,
                      "%s is unset and the net plugin %s exports a %s (%s): NCCL would use it; capo would "
                      "chain to it",
                      variable, net, kind, versions);
        else
                FOUND(OK, "no other %s: %s is unset and no default is found", kind, variable);
}

/* NCCL_NET is the name of a network: one of NCCL's two, or a plugin's own. NCCL stops with "network
 * not found" if none has that name. */
static void check_net_name(struct capo_findings *f, const char *plugin)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        const char *name = getenv("NCCL_NET");

        if (!name || !*name || !strcasecmp(name, "IB") || !strcasecmp(name, "Socket"))
                return;
        if (!plugin)
                FOUND(FAIL,
                      "NCCL_NET=%s: NCCL's own networks are IB and Socket, and no net plugin is found here that "
                      "could have this name: communicator init fails",
                      name);
        else if (!capo_elf_open(plugin, &elf) && !capo_elf_has_word(&elf, name))
                FOUND(WARN,
                      "NCCL_NET=%s: the net plugin %s does not contain this name (aws-ofi-nccl is \"AWS "
                      "Libfabric\"); communicator init fails if it has another",
                      name, plugin);
}

bool capo_doctor_net_plugin(int version, char *path, size_t room)
{
        const char *value = getenv("NCCL_NET_PLUGIN");

        *path = 0;
        return !capo_plugin_off(value) && find_plugin(version, "net", value, path, room);
}

void capo_doctor_plugins(struct capo_findings *f, int version, const char *own)
{
        static const struct {
                const char *variable, *kind, *stem;
                enum capo_nccl_fact
                        loads; /* the releases that load it; default names from 2.21 on */
        } kinds[] = {
                {"NCCL_TUNER_PLUGIN", "tuner", "ncclTunerPlugin", CAPO_NCCL_TUNER},
                {"NCCL_PROFILER_PLUGIN", "profiler", "ncclProfiler", CAPO_NCCL_PROFILER},
        };
        char net[4096], path[4096];
        const char *value = getenv("NCCL_NET_PLUGIN");
        bool has_net = capo_doctor_net_plugin(version, net, sizeof net);

        if (has_net)
                FOUND(NOTE, "net plugin: %s", net);
        else if (value && *value && !capo_plugin_off(value))
                FOUND(WARN,
                      "NCCL_NET_PLUGIN=%s is not found here: NCCL falls back to its own transports",
                      value);
        check_net_name(f, has_net ? net : NULL);
        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                value = getenv(kinds[i].variable);
                if (version && !capo_nccl_has(version, kinds[i].loads))
                        continue; /* doctor_settings.def has it as a variable without effect */
                if (capo_plugin_off(value))
                        FOUND(NOTE, "%s=none: NCCL loads no %s from 2.28 on", kinds[i].variable,
                              kinds[i].kind);
                else if (capo_plugin_static(value))
                        FOUND(NOTE,
                              "%s=%s: every prefix of STATIC_PLUGIN means symbols already in the program, a "
                              "preloaded library's included",
                              kinds[i].variable, value);
                else if (value && *value) {
                        bool found = find_plugin(version, kinds[i].kind, value, path, sizeof path);

                        if (capo_plugin_own(value))
                                say_own(f, version, kinds[i].variable, value, path, own);
                        else
                                say_named(f, kinds[i].variable, kinds[i].kind, kinds[i].stem, path,
                                          found);
                } else
                        say_default(f, version, kinds[i].variable, kinds[i].kind, kinds[i].stem,
                                    net, has_net);
        }
}
