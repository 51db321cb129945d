/* SPDX-License-Identifier: Apache-2.0 */
/* How does a command reach NCCL? It may be linked (the preload sees every call), opened at run time
 * (caught through dlsym), linked in statically (seen only if the symbols are exported), or not
 * used. A Python program's imports are not known before it runs. So its interpreter is started in a
 * child to print its search path, and the packages there are checked. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/network_devices.h"
#include "core/base/file.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/elf_file.h"

#define FOUND(level, ...)   capo_finding_add(f, CAPO_FINDING_##level, "nccl", __VA_ARGS__)
#define EXPERTS(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "experts", __VA_ARGS__)

/* NCCL EP and NCCL M2N beside this NCCL. The rules are NVIDIA's (nccl_ep/README.md and nccl_m2n.h
 * of github.com/NVIDIA/nccl-extensions): NCCL is not older than the release that the library was
 * built with, and from 2.31 on needs NCCL_DEV_API_JIT=1 for a library that was built with an
 * earlier one. */
enum { OLDEST_BUILT = 22900, OLDEST_M2N = 23005, OLDEST_COMPATIBLE = 23100 };

/* The release whose nccl.h @elf was compiled with: it stands behind the magic number of the structs
 * that NCCL's macros initialize. 0: not known. */
static int built_with(const struct capo_elf_file *elf)
{
        static const unsigned magic = 0xcafebeef;
        const unsigned char *at = elf->bytes, *end = at + elf->size;
        int release;

        while ((at = memmem(at, (size_t)(end - at), &magic, sizeof magic)) && end - at >= 8) {
                at += sizeof magic;
                memcpy(&release, at, sizeof release);
                if (release >= OLDEST_BUILT && release <= CAPO_NCCL_LAST)
                        return release;
        }
        return 0;
}

static bool is_off(const char *name)
{
        const char *value = getenv(name);

        return value && !strcmp(value, "0");
}

static void check_release(struct capo_findings *f, const char *path, int version, bool m2n)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        const char *name = capo_base_name(path), *jit = getenv("NCCL_DEV_API_JIT");
        int built = capo_elf_open(path, &elf) ? 0 : built_with(&elf);
        char built_text[16], text[16];

        capo_nccl_text((uint32_t)built, built_text, sizeof built_text);
        capo_nccl_text((uint32_t)version, text, sizeof text);
        if (!version)
                EXPERTS(NOTE, "%s is here; the release of NCCL beside it is not known", name);
        else if (m2n && version < OLDEST_M2N)
                EXPERTS(WARN, "%s needs NCCL 2.30.5 (nccl_m2n.h), found %s", name, text);
        else if (version < built)
                EXPERTS(WARN, "%s was built with NCCL %s and needs at least that, found %s", name,
                        built_text, text);
        else if (built && built < OLDEST_COMPATIBLE && version >= OLDEST_COMPATIBLE &&
                 (!jit || !atoi(jit)))
                EXPERTS(WARN,
                        "%s was built with NCCL %s, found %s: from 2.31 on set NCCL_DEV_API_JIT=1",
                        name, built_text, text);
        else if (!built)
                EXPERTS(NOTE, "%s: the NCCL that it was built with is not known", name);
        else
                EXPERTS(OK, "%s, built with NCCL %s, fits NCCL %s", name, built_text, text);
}

/* Do the libraries of @reach fit its NCCL, and what do they need here? */
static void capo_doctor_extensions(struct capo_findings *f, const struct capo_reach *reach)
{
        _cleanup_free_ struct capo_network *net = xcalloc(1, sizeof *net);
        const char *nvcc = getenv("NCCL_EP_JIT_NVCC");
        char path[4096];

        for (unsigned i = 0; i < N_ELEMENTS(reach->extensions); i++) {
                if (*reach->extensions[i])
                        check_release(f, reach->extensions[i], reach->version, i);
        }
        if (!*reach->extensions[0] && !*reach->extensions[1])
                return;
        if (is_off("NCCL_CUMEM_ENABLE"))
                EXPERTS(WARN,
                        "NCCL_CUMEM_ENABLE=0: without cuMem NCCL has neither LSA nor GIN, which both "
                        "libraries need");
        capo_network_read(net);
        if (is_off("NCCL_GIN_ENABLE") || !net->n)
                EXPERTS(WARN,
                        "%s: no GIN. Calls work only among GPUs that reach each other by NVLink or PCIe "
                        "(LSA), not between nodes",
                        net->n ? "NCCL_GIN_ENABLE=0" : "no RDMA device here");
        if (!*reach->extensions[0])
                return;
        if (!nvcc && !capo_file_find(getenv("PATH"), "nvcc", X_OK, path, sizeof path))
                EXPERTS(WARN,
                        "no nvcc on PATH: NCCL EP compiles kernels when they are first used. Or set "
                        "NCCL_EP_JIT_NVCC");
        EXPERTS(NOTE,
                "known bug (hang): calls of two low-latency handles of one group can time out; use one "
                "handle per group (github.com/NVIDIA/nccl-extensions/pull/6, August 2026; not known to be "
                "fixed)");
}

enum { ASK_SECONDS = 10, VERSION_SECONDS = 6, MOST_OUTPUT = 1 << 20 };

struct program {
        char *const *argv;
        char *variable; /* NULL: none */
        int output;
};

static int become_program(const void *program, void *nothing)
{
        const struct program *p = program;
        const struct rlimit most = {MOST_OUTPUT, MOST_OUTPUT};

        setrlimit(RLIMIT_FSIZE, &most);
        dup2(p->output, STDOUT_FILENO);
        unsetenv("LD_PRELOAD"); /* capo must not change the answer */
        if (p->variable)
                putenv(p->variable);
        execvp(p->argv[0], p->argv);
        return 127;
}

/* The output of @argv with @variable, "NAME=value", in its environment. No shell is involved. NULL:
 * none. */
static char *capture_output(char *const *argv, const char *variable)
{
        _cleanup_close_ int fd = memfd_create("capo-doctor", MFD_CLOEXEC);
        const struct program p = {argv, (char *)(uintptr_t)variable, fd};
        char *text = NULL;
        size_t size = 0;

        capo_apart(become_program, &p, &(char){0}, 1, ASK_SECONDS);
        lseek(fd, 0, SEEK_SET);
        if (capo_file_read_fd(fd, MOST_OUTPUT, &text, &size) < 0 || size)
                return text;
        free(text);
        return NULL;
}

static int ask_version_of(const void *path, void *version)
{
        void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        int (*get)(int *) = library ? (int (*)(int *))dlsym(library, "ncclGetVersion") : NULL;

        return get ? get(version) != 0 : 1;
}

/* The library path in a line of the dynamic loader's listing, "\tlibx.so => /path (0x...)". */
static bool find_library_path(const char *listing, const char *soname, char *path, size_t room)
{
        const char *at = strstr(listing, soname), *arrow, *end;

        if (!at)
                return false;
        arrow = strstr(at, "=> ");
        end = arrow ? strstr(arrow, " (0x") : NULL;
        if (!arrow || !end || memchr(at, '\n', (size_t)(arrow - at)))
                return false;
        snprintf(path, room, "%.*s", (int)(end - arrow - 3), arrow + 3);
        return true;
}

static void say_abi(struct capo_findings *f, const struct capo_elf_file *elf, const char *release,
                    const char *kind, const char *stem, int newest)
{
        int asked = capo_elf_highest(elf, stem);

        if (asked > newest)
                FOUND(NOTE,
                      "NCCL %s looks for %s%d first, which this capo does not have: it is given the %s's v%d, and "
                      "nothing that v%d brought is used",
                      release, stem, asked, kind, newest, asked);
}

/* Functions that the libnccl at @path exports and this capo does not know, and versions of the plugin
 * interfaces it looks for that this capo does not have. @release: as it calls itself. */
static void check_newer(struct capo_findings *f, const char *path, const char *release)
{
        static const int tuners[] = {
#define CAPO_TUNER_ABI(version, first, last) version,
#include "capo/plugin_abis.def"
        };
        static const int profilers[] = {
#define CAPO_PROFILER_ABI(version, first, last) version,
#include "capo/plugin_abis.def"
        };
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        char names[600] = "";

        if (capo_elf_open(path, &elf) < 0)
                return;
        for (struct capo_elf_symbol s = {0}; capo_elf_next(&elf, SHT_DYNSYM, &s);) {
                if (s.symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s.symbol->st_info) == STT_FUNC)
                        capo_nccl_strange(names, sizeof names, s.name);
        }
        if (*names)
                FOUND(WARN,
                      "NCCL %s has functions that this capo does not know (%s): calls of them will be in no "
                      "log",
                      release, names);
        say_abi(f, &elf, release, "tuner", "ncclTunerPlugin_v", tuners[N_ELEMENTS(tuners) - 1]);
        say_abi(f, &elf, release, "profiler", "ncclProfiler_v",
                profilers[N_ELEMENTS(profilers) - 1]);
}

static void set_reach(struct capo_findings *f, struct capo_reach *reach, const char *path,
                      const char *how)
{
        bool amd = !strncmp(capo_base_name(path), "librccl", strlen("librccl"));
        int version = 0; /* loading it runs its constructors: not in this process */
        char text[32] = "of unknown version";

        version = capo_apart(ask_version_of, path, &version, sizeof version, VERSION_SECONDS)
                          ? 0
                          : capo_nccl_code(version);
        if (version)
                capo_nccl_text((uint32_t)version, text, sizeof text);
        capo_finding_add(f, version ? CAPO_FINDING_OK : CAPO_FINDING_WARN, "nccl", "%s %s (%s) %s",
                         amd ? "librccl" : "libnccl", text, path, how);
        if (amd)
                FOUND(NOTE,
                      "this is AMD's RCCL, its release that of the NCCL it follows: its choices and times are not "
                      "NCCL's, so no profile of one serves the other; capo was tried with a stand-in of it only");
        if (!*reach->library) {
                snprintf(reach->library, sizeof reach->library, "%s", path);
                reach->version = version;
        }
        if (version && !capo_nccl_has(version, CAPO_NCCL_RECORDED))
                FOUND(WARN,
                      "this release is older than 2.13: calls are recorded as far as they exist, untested");
        if (version && !capo_nccl_has(version, CAPO_NCCL_TUNER))
                FOUND(NOTE, "no tuner interface before 2.19: profiles are not used");
        check_newer(f, path, text);
}

/* The folders that the interpreter @program imports from, a line each; NULL: it does not tell. */
static char *ask_python(const char *program)
{
        return capture_output(
                (char *const[]){(char *)(uintptr_t)program, strdupa("-c"),
                                strdupa("import sys; print('\\n'.join(p for p in sys.path if p))"),
                                NULL},
                NULL);
}

/* The libraries of the package nccl-extensions; those for CUDA 12 and 13 are of one release. */
static void find_extensions(struct capo_reach *reach, const char *dir)
{
        for (unsigned i = 0; i < 4; i++) {
                const char *name = i % 2 ? "m2n" : "ep";
                char path[4096];

                snprintf(path, sizeof path, "%s/nccl/%s/lib/cu1%d/libnccl_%s.so", dir, name,
                         3 - i / 2, name);
                if (!*reach->extensions[i % 2] && !access(path, R_OK))
                        snprintf(reach->extensions[i % 2], sizeof reach->extensions[0], "%s", path);
        }
}

static void check_linked(struct capo_findings *f, const struct capo_elf_file *elf, const char *name,
                         const char *how)
{
        if (capo_elf_exports(elf, "ncclAllReduce"))
                FOUND(OK, "%s has NCCL linked in and exports it: the preload is seen first", name);
        else if (capo_elf_contains(elf, "ncclAllReduce"))
                FOUND(FAIL,
                      "%s has NCCL linked in%s and hidden: its calls cannot be recorded; tuner and "
                      "profiler plugin work",
                      name, how);
}

/* Packages of a Python installation that bring or open NCCL. */
static void check_python(struct capo_findings *f, const char *program, struct capo_reach *reach)
{
        static const struct {
                const char *file; /* below a folder of sys.path */
                bool library;     /* it is an NCCL library itself */
                const char *says;
        } packages[] = {
                {"nvidia/nccl/lib/libnccl.so.2", true,
                 "is the wheel's; torch links it (local scope): calls are seen"},
                {"torch/lib/libnccl.so.2", true, "is torch's own copy: calls are seen"},
                {"vllm/__init__.py", false, "vllm opens libnccl by dlopen: caught through dlsym"},
                {"sglang/__init__.py", false,
                 "sglang opens libnccl by dlopen: caught through dlsym"},
                {"jaxlib/__init__.py", false,
                 "jax opens libnccl by dlopen, older wheels link it in: calls of the latter are not seen"},
                {"xgboost/__init__.py", false,
                 "xgboost opens libnccl by dlopen: caught through dlsym"},
                {"cupy_backends/__init__.py", false, "cupy links libnccl: calls are seen"},
        };
        _cleanup_free_ char *text = ask_python(program);
        char *save = NULL;
        bool any = false;

        if (!text) {
                FOUND(NOTE, "%s does not tell its search path", program);
                return;
        }
        for (char *dir = strtok_r(text, "\n", &save); dir; dir = strtok_r(NULL, "\n", &save)) {
                char path[4096];

                find_extensions(reach, dir);
                for (size_t i = 0; i < N_ELEMENTS(packages); i++) {
                        snprintf(path, sizeof path, "%s/%s", dir, packages[i].file);
                        if (access(path, R_OK))
                                continue;
                        any = true;
                        if (packages[i].library)
                                set_reach(f, reach, path, packages[i].says);
                        else
                                FOUND(NOTE, "%s", packages[i].says);
                }
                snprintf(path, sizeof path, "%s/torch/lib/libtorch_cuda.so", dir);
                if (!access(path, R_OK)) {
                        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};

                        any = true;
                        if (!capo_elf_open(path, &elf))
                                check_linked(f, &elf, "libtorch_cuda.so", "");
                }
        }
        reach->shown = any;
        if (!any)
                FOUND(NOTE, "%s: no package that brings NCCL on its search path", program);
}

/* The program that env(1) starts, after its options and assignments, as in
 * "env -S -u NAME VAR=x python3 -u". The words come from strtok_r(). */
static const char *find_env_program(char **save)
{
        static const char *const with_value[] = {"-u", "-C", "--unset", "--chdir"};
        static const char long_split[] = "--split-string=";
        const char *word = strtok_r(NULL, " \t\n", save);

        while (word && (*word == '-' || strchr(word, '='))) {
                if (!strncmp(word, "-S", 2) && word[2])
                        return word + 2;
                if (!strncmp(word, long_split, sizeof long_split - 1))
                        return word + sizeof long_split - 1;
                for (size_t i = 0; i < N_ELEMENTS(with_value); i++) {
                        if (!strcmp(word, with_value[i]))
                                strtok_r(NULL, " \t\n", save);
                }
                word = strtok_r(NULL, " \t\n", save);
        }
        return word;
}

/* The Python that a script's first line names, as torchrun's does. */
static bool find_python(const char *script, char *path, size_t room)
{
        char line[512] = "", *save = NULL;
        const char *word;
        FILE *f = fopen(script, "re");
        bool found = f && fgets(line, sizeof line, f) && !strncmp(line, "#!", 2);

        if (f)
                fclose(f);
        word = found ? strtok_r(line + 2, " \t\n", &save) : NULL;
        if (word && !strcmp(capo_base_name(word), "env"))
                word = find_env_program(&save);
        return word && !strncmp(capo_base_name(word), "python", 6) &&
               capo_file_find(getenv("PATH"), word, X_OK, path, room);
}

static void check_program(struct capo_findings *f, const char *program, struct capo_reach *reach)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        _cleanup_free_ char *listing = NULL;
        char path[4096];

        if (capo_elf_open(program, &elf)) {
                if (find_python(program, path, sizeof path))
                        check_python(f, path, reach);
                else
                        FOUND(NOTE, "%s is a script: what it starts decides", program);
                return;
        }
        reach->shown = memmem(elf.bytes, elf.size, "nccl", 4);
        if (capo_elf_is_static(&elf)) {
                FOUND(FAIL, "%s is statically linked: LD_PRELOAD has no effect on it", program);
                return;
        }
        check_linked(f, &elf, program, " statically");
        /* The dynamic loader's own answer; LD_TRACE_LOADED_OBJECTS makes it list instead of run the
         * program. */
        listing = capture_output((char *const[]){(char *)(uintptr_t)program, NULL},
                                 "LD_TRACE_LOADED_OBJECTS=1");
        if (listing && (find_library_path(listing, "libnccl.so.2", path, sizeof path) ||
                        find_library_path(listing, "librccl.so.1", path, sizeof path))) {
                reach->shown = true;
                find_library_path(listing, "libnccl_ep.so", reach->extensions[0], sizeof path);
                find_library_path(listing, "libnccl_m2n.so", reach->extensions[1], sizeof path);
                set_reach(f, reach, path, "is linked: the preload sees every call");
        } else if (!reach->shown) /* a launcher, or no user of NCCL */
                FOUND(NOTE,
                      "%s does not name NCCL: only a library or a program that it loads "
                      "or starts can call it",
                      program);
}

/* A preloaded library comes first in the global scope. A library opened with RTLD_DEEPBIND searches
 * its own dependencies before that, and one opened by dlmopen() has its own global scope. The flags
 * are not in the file: only a program that links NCCL itself is certainly unaffected. */
static void check_loading(struct capo_findings *f, const char *program)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};

        if (capo_elf_open(program, &elf) < 0)
                return;
        if (capo_elf_imports(&elf, "dlmopen"))
                FOUND(WARN, "%s opens libraries by dlmopen(): their calls of NCCL are not seen",
                      program);
        else if (strncmp(capo_base_name(program), "python", 6) && /* it sets no RTLD_DEEPBIND */
                 capo_elf_imports(&elf, "dlopen") && !capo_elf_imports(&elf, "ncclCommInitRank"))
                FOUND(NOTE,
                      "%s opens libraries as it runs: calls of NCCL by those that it opens "
                      "with RTLD_DEEPBIND are not seen",
                      program);
}

void capo_doctor_command(struct capo_findings *f, char *const *command, struct capo_reach *reach)
{
        char program[4096], resolved[4096];
        struct stat st;

        *reach = (struct capo_reach){0};
        if (command) {
                if (!capo_file_find(getenv("PATH"), command[0], X_OK, program, sizeof program)) {
                        FOUND(FAIL, "%s: no such command", command[0]);
                        return;
                }
                if (!stat(program, &st) && (st.st_mode & (S_ISUID | S_ISGID)))
                        FOUND(FAIL,
                              "%s is set-user-id or set-group-id: the loader ignores LD_PRELOAD paths for it",
                              program);
                if (!realpath(program, resolved))
                        snprintf(resolved, sizeof resolved, "%s", program);
                if (!strncmp(capo_base_name(resolved), "python", 6))
                        check_python(f, program, reach);
                else
                        check_program(f, program, reach);
        } else if (capo_file_find(getenv("PATH"), "python3", X_OK, program, sizeof program)) {
                _cleanup_free_ char *text = ask_python(program);
                char *save = NULL;

                for (char *dir = text ? strtok_r(text, "\n", &save) : NULL; dir;
                     dir = strtok_r(NULL, "\n", &save))
                        find_extensions(reach, dir);
        }
        if (!*reach->library) { /* what a dlopen by SONAME would get */
                char *cache[] = {strdupa("ldconfig"), strdupa("-p"), NULL}, path[4096] = "";
                _cleanup_free_ char *listing = NULL;
                const char *at, *end;

                if (!capo_file_find(getenv("LD_LIBRARY_PATH"), "libnccl.so.2", R_OK, path,
                                    sizeof path)) {
                        listing = capture_output(cache, NULL);
                        cache[0] = strdupa("/sbin/ldconfig");
                        listing = listing ?: capture_output(cache, NULL);
                }
                if (listing && (at = strstr(listing, "libnccl.so.2 ")) &&
                    (at = strstr(at, "=> ")) && (end = strchr(at, '\n')))
                        snprintf(path, sizeof path, "%.*s", (int)(end - at - 3), at + 3);
                if (*path)
                        set_reach(f, reach, path, "is what opening libnccl.so.2 by name gives");
                else
                        capo_finding_add(
                                f, command ? CAPO_FINDING_WARN : CAPO_FINDING_NOTE, "nccl",
                                "no libnccl.so.2 is linked or on the library path: nothing would be recorded "
                                "unless the program brings its own");
        }
        capo_doctor_extensions(f, reach);
        if (command)
                check_loading(f, program);
}
