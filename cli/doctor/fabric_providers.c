/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric loads its providers when asked for them, and they open devices: that is done in a child
 * process. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <rdma/fabric.h>

#include "core/base/text.h"
#include "cli/doctor/fabric_providers.h"

enum { MOST_SECONDS = 5 };

typedef int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info **info);

/* In the child: write the names, each once, a tab, the version, a tab and the path to @out. */
static int print_providers(FILE *out)
{
        static const char *const files[] = {"libfabric.so.1",
                                            "/opt/amazon/efa/lib64/libfabric.so.1",
                                            "/opt/amazon/efa/lib/libfabric.so.1"};
        struct fi_info *info = NULL;
        void *library = NULL;
        char all[400] = "";
        uint32_t (*version)(void), number;
        get_info *get;
        Dl_info where;

        for (size_t i = 0; i < N_ELEMENTS(files) && !library; i++)
                library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
                return ENOENT;
        get = (get_info *)dlsym(library, "fi_getinfo");
        if (!get || get(FI_VERSION(1, 7), NULL, NULL, 0, NULL, &info))
                return EIO;
        for (; info; info = info->next) {
                const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
                size_t n = name ? strcspn(name, ";") : 0; /* "udp;ofi_rxd" */
                char word[64];

                snprintf(word, sizeof word, "%.*s", (int)n, name ? name : "");
                if (*word && !strstr(all, word))
                        capo_append(all, sizeof all, "%s%s", *all ? ", " : "", word);
        }
        version = (uint32_t(*)(void))dlsym(library, "fi_version");
        number = version ? version() : 0;
        fprintf(out, "%s\t%u.%u\t%s", all, FI_MAJOR(number), FI_MINOR(number),
                dladdr((void *)(uintptr_t)get, &where) ? where.dli_fname : "");
        return fflush(out) ? EIO : 0;
}

int capo_fabric_providers(struct capo_fabric_found *found)
{
        char line[sizeof *found] = "", *tab;
        _cleanup_fclose_ FILE *in = NULL;
        int ends[2], status = 0;
        pid_t child;

        *found = (struct capo_fabric_found){0};
        if (pipe(ends))
                return -EIO;
        child = fork();
        if (!child) {
                FILE *out = fdopen(ends[1], "w");

                close(ends[0]);
                alarm(MOST_SECONDS);
                if (!out || !freopen("/dev/null", "w", stderr))
                        _exit(EIO);
                _exit(print_providers(out));
        }
        close(ends[1]);
        in = fdopen(ends[0], "r");
        if (!in)
                close(ends[0]);
        if (in && fgets(line, sizeof line, in) && (tab = strchr(line, '\t'))) {
                snprintf(found->names, sizeof found->names, "%.*s", (int)(tab - line), line);
                snprintf(found->version, sizeof found->version, "%.*s", (int)strcspn(tab + 1, "\t"),
                         tab + 1);
                tab = strchr(tab + 1, '\t');
                snprintf(found->path, sizeof found->path, "%s", tab ? tab + 1 : "");
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
                return -EIO;
        return -WEXITSTATUS(status);
}
