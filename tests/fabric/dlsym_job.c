/* SPDX-License-Identifier: Apache-2.0 */
/* A program that finds libfabric at run time: dlopen() with local scope, then dlsym() on the
 * handle, or, as Intel MPI does, dlvsym(). dlsym LIBFABRIC.SO [VERSION] */
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdio.h>

int main(int argc, char **argv)
{
        static char name[] = "fake", domain_name[] = "fake0";
        struct fi_fabric_attr attr = {
                .name = name, .prov_name = name, .api_version = FI_VERSION(1, 17)};
        struct fi_domain_attr domain_attr = {.name = domain_name};
        struct fi_info info = {.caps = FI_MSG, .fabric_attr = &attr, .domain_attr = &domain_attr};
        void *h = dlopen(argc > 1 ? argv[1] : "libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
        int (*open_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
                !h ? NULL
                   : (int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))(
                             argc > 2 ? dlvsym(h, "fi_fabric", argv[2]) : dlsym(h, "fi_fabric"));
        struct fid_fabric *fabric;
        struct fid_domain *domain;

        if (!open_fabric || open_fabric(&attr, &fabric, NULL) ||
            fi_domain(fabric, &info, &domain, NULL))
                return 1;
        printf("absent stays absent %d\n",
               !dlsym(h, "fi_fabric3") && !dlvsym(h, "fi_fabric", "FABRIC_9.9"));
        return fi_close(&domain->fid) || fi_close(&fabric->fid);
}
