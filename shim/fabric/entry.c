/* SPDX-License-Identifier: Apache-2.0 */
/* The door: fi_fabric() and fi_fabric2(), the only exported functions of libfabric that lead to its
 * objects.
 *
 * Versions. libfabric exports fi_fabric@FABRIC_1.0 (a fi_fabric_attr without api_version),
 * fi_fabric@@FABRIC_1.1 and, from 2.0 on, fi_fabric2@@FABRIC_1.8 (libfabric.map.in). An unversioned
 * fi_fabric of ours would catch all of them, and hand an old caller's short struct to the new
 * function. So each version is exported under its own name (shim/libcapo.map) and goes to the same
 * version of the real library; a version this file does not know passes us by. fi_getinfo() and its
 * family, whose structs differ between versions far more, are not wrapped at all.
 *
 * libfabric calls fi_fabric() itself, through its own procedure linkage table and so through us:
 * fi_fabric2() does, the compatible fi_fabric@FABRIC_1.0 does, and layered providers open the
 * fabric below them. Those calls come either while the application's own call is in progress, or
 * from inside libfabric; both pass. */
#include <link.h>

#include "capo/msg.h"
#include "core/log/info.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/fabric/fabric_dlsym.h"
#include "shim/find/symbol.h"
#include "shim/record/shim.h"

typedef int fabric_fn(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
typedef int fabric2_fn(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
                       void *context);

fabric_fn capo_fi_fabric_1_0, capo_fi_fabric_1_1;
fabric2_fn capo_fi_fabric2_1_8;
__asm__(".symver capo_fi_fabric_1_0, fi_fabric@FABRIC_1.0");
__asm__(".symver capo_fi_fabric_1_1, fi_fabric@@FABRIC_1.1");
__asm__(".symver capo_fi_fabric2_1_8, fi_fabric2@@FABRIC_1.8");

static uint32_t (*real_version)(void);
static char library[256];

static int find_by_name(struct dl_phdr_info *info, size_t size, void *out)
{
        if (strncmp(capo_base_name(info->dlpi_name), "libfabric.so", 12))
                return 0;
        *(const char **)out = info->dlpi_name;
        return 1;
}

/* The function the caller would have reached without us. Where libfabric came in with a
 * dlopen(RTLD_LOCAL) of the caller, as in Python and under NCCL, RTLD_NEXT sees nothing; then the
 * caller's own dependencies are asked, and then whatever libfabric the process has. Only a process
 * that has none gets one loaded. */
static void *real_of(const char *name, const char *version, const void *caller)
{
        const char *path = NULL;
        Dl_info where;
        void *f = capo_real_dlvsym(RTLD_NEXT, name, version), *h;

        if (!f && caller && dladdr(caller, &where) &&
            (h = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
                f = capo_real_dlvsym(h, name, version);
        if (!f && (h = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD)))
                f = capo_real_dlvsym(h, name, version);
        if (!f && dl_iterate_phdr(find_by_name, &path) &&
            (h = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)))
                f = capo_real_dlvsym(h, name, version);
        if (!f && (h = dlopen("libfabric.so.1", RTLD_LAZY)))
                f = capo_real_dlvsym(h, name, version);
        if (f && !capo_fi_strerror && dladdr(f, &where) &&
            (h = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) {
                /* this handle is never closed: the library stays for good */
                capo_fi_strerror =
                        (const char *(*)(int))capo_real_dlvsym(h, "fi_strerror", "FABRIC_1.0");
                real_version = (uint32_t(*)(void))capo_real_dlvsym(h, "fi_version", "FABRIC_1.0");
                snprintf(library, sizeof library, "%s", where.dli_fname);
        }
        return f;
}

bool capo_fi_wrapped(const char *name)
{
        return !strcmp(name, "fi_fabric") || !strcmp(name, "fi_fabric2");
}

void *capo_fi_wrapper_of(const char *name, const char *version, const void *real)
{
        static const struct {
                const char *name, *version;
                void *wrapper;
        } rows[] = {
                /* of each name the default version, which is what dlsym() gives, comes first */
                {"fi_fabric", "FABRIC_1.1", (void *)capo_fi_fabric_1_1},
                {"fi_fabric", "FABRIC_1.0", (void *)capo_fi_fabric_1_0},
                {"fi_fabric2", "FABRIC_1.8", (void *)capo_fi_fabric2_1_8},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                if (!strcmp(name, rows[i].name) && (!version || !strcmp(version, rows[i].version)))
                        return real_of(name, rows[i].version, NULL) == real ? rows[i].wrapper
                                                                            : NULL;
        }
        return NULL;
}

/* Is @caller code of the library that @f belongs to? */
static bool same_library(const void *caller, void *f)
{
        Dl_info a, b;

        return dladdr(caller, &a) && dladdr(f, &b) && a.dli_fbase == b.dli_fbase;
}

/* The real function, which is to find the caller's errno; *@pass: not the program's own call. */
static void *find_real(const char *name, const char *version, const void *caller, const void *frame,
                       bool *pass)
{
        int saved = errno;
        void *f = real_of(name, version, caller);

        *pass = f && (capo_fi_within(frame) || same_library(caller, f) || !capo_shim_start());
        errno = saved;
        return f;
}

static int track_fabric(int r, struct fid_fabric **fabric, const struct fi_fabric_attr *attr)
{
        int saved = errno;

        if (r == 0 && fabric && *fabric) {
                if (capo_fi_text_start()) {
                        uint32_t v = real_version ? real_version() : 0;

                        if (v)
                                capo_shim_info(CAPO_INFO_FABRIC_VERSION, "%u.%u", FI_MAJOR(v),
                                               FI_MINOR(v));
                        capo_shim_info(CAPO_INFO_FABRIC_PATH, "%s", library);
                }
                capo_fi_fabric_opened(*fabric, attr);
        }
        errno = saved;
        return r;
}

static int enter_fabric(const char *version, const void *caller, const void *frame,
                        struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
        bool pass;
        fabric_fn *real = (fabric_fn *)find_real("fi_fabric", version, caller, frame, &pass);
        int r;

        if (!real) {
                capo_warn_once("libfabric: no fi_fabric@%s in any loaded library", version);
                return -FI_ENOSYS;
        }
        if (pass)
                return real(attr, fabric, context);
        capo_fi_enter(frame, caller);
        r = real(attr, fabric, context);
        capo_fi_leave();
        return track_fabric(r, fabric, attr);
}

CAPO_EXPORT int capo_fi_fabric_1_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                                   void *context)
{
        return enter_fabric("FABRIC_1.0", FI_CALLER, FI_FRAME, attr, fabric, context);
}

CAPO_EXPORT int capo_fi_fabric_1_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                                   void *context)
{
        return enter_fabric("FABRIC_1.1", FI_CALLER, FI_FRAME, attr, fabric, context);
}

CAPO_EXPORT int capo_fi_fabric2_1_8(struct fi_info *info, struct fid_fabric **fabric,
                                    uint64_t flags, void *context)
{
        const void *caller = FI_CALLER, *frame = FI_FRAME;
        bool pass;
        fabric2_fn *real =
                (fabric2_fn *)find_real("fi_fabric2", "FABRIC_1.8", caller, frame, &pass);
        int r;

        if (!real)
                return -FI_ENOSYS; /* libfabric 1.x */
        if (pass)
                return real(info, fabric, flags, context);
        capo_fi_enter(frame, caller);
        r = real(info, fabric, flags, context);
        capo_fi_leave();
        return track_fabric(r, fabric, info ? info->fabric_attr : NULL);
}
