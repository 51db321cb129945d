/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric loads its providers when asked for them, and they open devices: that is done in a child
 * process. */
#include <dlfcn.h>
#include <rdma/fabric.h>

#include "core/base/text.h"
#include "cli/doctor/fabric_providers.h"
#include "profiles/machine/apart.h"

enum { MOST_SECONDS = 5 };

typedef int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info **info);

static int ask_providers(const void *arg, void *result)
{
        static const char *const files[] = {"libfabric.so.1",
                                            "/opt/amazon/efa/lib64/libfabric.so.1",
                                            "/opt/amazon/efa/lib/libfabric.so.1"};
        struct capo_fabric_found *found = result;
        struct fi_info *info = NULL;
        void *library = NULL;
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
        for (; info; info = info->next) { /* each name once, of "udp;ofi_rxd" the first */
                const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
                char word[64];

                snprintf(word, sizeof word, "%.*s", name ? (int)strcspn(name, ";") : 0, name);
                if (*word && !strstr(found->names, word))
                        capo_append(found->names, sizeof found->names, "%s%s",
                                    *found->names ? ", " : "", word);
        }
        version = (uint32_t(*)(void))dlsym(library, "fi_version");
        number = version ? version() : 0;
        snprintf(found->version, sizeof found->version, "%u.%u", FI_MAJOR(number),
                 FI_MINOR(number));
        if (dladdr((void *)(uintptr_t)get, &where))
                snprintf(found->path, sizeof found->path, "%s", where.dli_fname);
        return 0;
}

int capo_fabric_providers(struct capo_fabric_found *found)
{
        int r;

        *found = (struct capo_fabric_found){0};
        r = capo_apart(ask_providers, NULL, found, sizeof *found, MOST_SECONDS);
        return r == ENOENT ? -ENOENT : r ? -EIO : 0;
}
