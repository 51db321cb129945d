/* SPDX-License-Identifier: Apache-2.0 */
/* A program that finds libfabric as Intel MPI does: dlopen() with local scope, dlsym() on the handle. dlsym
 * LIBFABRIC.SO */
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdio.h>

int main(int argc, char **argv)
{
        static char name[] = "fake", domain_name[] = "fake0";
        struct fi_fabric_attr attr = {.name = name, .prov_name = name, .api_version = FI_VERSION(1, 17)};
        struct fi_domain_attr domain_attr = {.name = domain_name};
        struct fi_info info = {.caps = FI_MSG, .fabric_attr = &attr, .domain_attr = &domain_attr};
        void *h = dlopen(argc > 1 ? argv[1] : "libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
        int (*open_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
                h ? (int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))dlsym(h, "fi_fabric") : NULL;
        struct fid_fabric *fabric;
        struct fid_domain *domain;

        if (!open_fabric || open_fabric(&attr, &fabric, NULL) || fi_domain(fabric, &info, &domain, NULL))
                return 1;
        printf("absent stays absent %d\n", dlsym(h, "fi_fabric3") == NULL);
        return fi_close(&domain->fid) || fi_close(&fabric->fid);
}
