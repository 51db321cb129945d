/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the real functions. What ld.so does, tested with glibc 2.36:
 *
 *  1. The library was opened by dlopen with local scope (a Python extension that is linked to
 *     NCCL): our symbol is taken, because the global scope is searched first, but RTLD_NEXT finds
 *     nothing, because the real library is not in the global scope. This is the usual case.
 *  2. RTLD_NEXT works when the program itself is linked to NCCL.
 *  3. dlopen + dlsym(handle) passes by every preload; dlsym.c catches it.
 *  4. dlopen with RTLD_DEEPBIND and static linking with hidden symbols pass us by for good. A
 *     static NCCL with visible symbols does not, but has no libnccl.so.2 to ask for: only a walk
 *     finds it.
 *
 * So for code that called our wrapper, each function it would have been bound to is looked for
 *      next     in the global scope behind us, as ld.so would
 *      caller   in the caller's own object and what that depends on, in ld.so's order
 *      noload   as libnccl.so.2, or AMD's librccl.so.1, if somebody has loaded that
 *      walk     in any loaded object that is an NCCL
 *      dlopen   by loading one of these: only a program with a weak reference, bound to us although
 *               NCCL is not loaded, gets here
 * name by name until an NCCL is whole: tools that wrap some of its functions, or all, stand in
 * between, and each call goes to the next definition of its name. What was found is remembered per
 * object that calls. Copies are distinguished by their functions. Handles are never given back. */
#include <link.h>
#include <sys/mman.h>

#include "capo/msg.h"
#include "core/base/nccl_release.h"
#include "core/base/write_signals.h"
#include "core/log/info.h"
#include "shim/find/loader.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/ext_real.h"
#include "shim/nccl/real.h"
#include "shim/nccl/untuned.h"
#include "shim/record/start.h"

struct capo_nccl capo_nccl_copies[CAPO_NCCL_COPIES];
static _Atomic int n_copies; /* known */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capo_nccl absent; /* answers for an NCCL that is not there */
static struct {
        uintptr_t caller; /* where its object begins */
        struct capo_nccl *copy;
} callers[256];

/* What answers where a copy lacks a function. */
#define CALL(name, params, args, id, comm, stream, ...) \
        static ncclResult_t missing_##name params { return ncclInvalidUsage; }
#define HAND(name, params, args) CALL(name, params, args, , , )
#define PASS(type, name, params, args, missing) \
        static type missing_##name params { return missing; }
#include "capo/nccl_calls.def"

/* ---- scopes ---- */

/* Where the functions of one NCCL are looked for, name by name, in this order. */
struct scope {
        void *handle[4];
        unsigned n;
        const char *how; /* the last one's */
};

/* What stands in front of us in the global scope is left out: the caller has passed it, as a tool
 * that wraps NCCL and calls the next definition, and would come back to us for ever. */
static void *find_in(void *handle, const char *name)
{
        void *p = capo_real_dlsym(handle, name);

        if (!p || capo_own(p))
                return NULL;
        return handle == RTLD_NEXT || p != capo_real_dlsym(RTLD_DEFAULT, name) ? p : NULL;
}

/* The pncclX twin serves where somebody removed the plain name. */
static void *find_function(const struct scope *s, const char *name)
{
        char twin[64];
        void *p = NULL;

        for (unsigned i = 0; i < s->n && !p; i++)
                p = find_in(s->handle[i], name);
        snprintf(twin, sizeof twin, "p%s", name);
        for (unsigned i = 0; i < s->n && !p; i++) {
                p = capo_real_dlsym(s->handle[i], twin);
                p = p && capo_own(p) ? NULL : p;
        }
        return p;
}

static const char *const keys[] = {"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank",
                                   "ncclCommDestroy", "ncclAllReduce"};

/* A whole NCCL, or only some functions of it, which a tool has wrapped? */
static bool is_whole(const struct scope *s)
{
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                if (!find_function(s, keys[i]))
                        return false;
        }
        return true;
}

/* True: with it @s is whole. Where it adds nothing, it is not kept. */
static bool add_handle(struct scope *s, void *handle, const char *how)
{
        struct scope alone = {{handle}, 1, how};
        bool adds = false;

        if (!handle || s->n == N_ELEMENTS(s->handle))
                return false;
        for (size_t i = 0; i < N_ELEMENTS(keys) && !adds; i++)
                adds = find_function(&alone, keys[i]);
        if (!adds)
                return false;
        s->handle[s->n++] = handle;
        s->how = how;
        return is_whole(s);
}

/* The next loaded object. */
struct walk {
        unsigned skip, at;
        char path[512];
};

static int walk_step(struct dl_phdr_info *info, size_t size, void *cookie)
{
        struct walk *w = cookie;

        if (w->at++ < w->skip || !info->dlpi_name || !*info->dlpi_name ||
            capo_own((const void *)info->dlpi_phdr))
                return 0;
        snprintf(w->path, sizeof w->path, "%s", info->dlpi_name);
        return 1;
}

static bool add_any_object(struct scope *s)
{
        struct walk w = {0};

        for (; dl_iterate_phdr(walk_step, &w) == 1; w.skip = w.at, w.at = 0) {
                void *handle = dlopen(w.path, RTLD_LAZY | RTLD_NOLOAD);
                unsigned had = s->n;

                if (add_handle(s, handle, "walk"))
                        return true; /* the handle is kept */
                s->n = had;
                if (handle)
                        dlclose(handle);
        }
        return false;
}

/* ---- copies ---- */

static void resolve_functions(struct capo_nccl *copy, const struct scope *s)
{
        void *p;

#define FIND(name)                   \
        p = find_function(s, #name); \
        copy->name = p ? (__typeof__(copy->name))p : missing_##name;
#define CALL(name, params, args, id, comm, stream, ...) FIND(name)
#define HAND(name, params, args)                        FIND(name)
#define PASS(type, name, params, args, missing)         FIND(name)
#include "capo/nccl_calls.def"
#undef FIND
}

enum { FUNCTIONS = offsetof(struct capo_nccl, base) / sizeof(void *) };

static const void *function_of(const struct capo_nccl *copy, size_t i)
{
        const void *p;

        memcpy(&p, (const char *)copy + i * sizeof p, sizeof p);
        return p;
}

static bool has_function(const struct capo_nccl *copy, const void *symbol)
{
        for (size_t i = 0; i < FUNCTIONS; i++) {
                if (function_of(copy, i) == symbol)
                        return true;
        }
        return false;
}

/* Of the objects in which the functions lie the one that has most of them is NCCL. */
static bool place_copy(struct capo_nccl *copy)
{
        struct {
                struct capo_object o;
                unsigned n;
        } *object = capo_shim_alloc(CAPO_NCCL_OBJECTS * sizeof *object);
        unsigned n = 0, most = 0;

        if (!object)
                return false;
        for (size_t i = 0; i < FUNCTIONS; i++) {
                uintptr_t p = (uintptr_t)function_of(copy, i);
                unsigned k = 0;

                if (capo_own((const void *)p)) /* it answers for one that is missing */
                        continue;
                while (k < n && p - object[k].o.begin >= object[k].o.size)
                        k++;
                if (k == n) {
                        if (n == CAPO_NCCL_OBJECTS ||
                            !capo_object_of((const void *)p, &object[n].o))
                                continue;
                        n++;
                }
                object[k].n++;
        }
        for (unsigned k = 1; k < n; k++)
                most = object[k].n > object[most].n ? k : most;
        if (n) {
                copy->base = object[most].o.base;
                memcpy(copy->path, object[most].o.path, sizeof copy->path);
        }
        for (unsigned k = 0; k < n; k++) {
                unsigned to = k == most ? 0 : k < most ? k + 1 : k;

                copy->code[to].begin = object[k].o.begin;
                copy->code[to].size = object[k].o.size;
        }
        munmap(object, CAPO_NCCL_OBJECTS * sizeof *object);
        return n > 0;
}

/* A copy with the same functions, or a place for a new one. Caller holds the lock. */
static struct capo_nccl *enter_copy(const struct capo_nccl *new)
{
        int n = atomic_load_explicit(&n_copies, memory_order_relaxed);
        struct capo_nccl *same = NULL;

        for (int i = 0; i < n; i++) {
                struct capo_nccl *c = &capo_nccl_copies[i];

                if (c->base == new->base && !memcmp(c, new, FUNCTIONS * sizeof(void *)))
                        return c;
                if (!same && c->base == new->base)
                        same = c;
        }
        if (n == CAPO_NCCL_COPIES)
                return same;
        capo_nccl_copies[n] = *new;
        capo_nccl_copies[n].number = n;
        atomic_store_explicit(&n_copies, n + 1, memory_order_release);
        return &capo_nccl_copies[n];
}

/* The copy a thread is making: a tool that wraps NCCL asks it for public names meanwhile. */
static __thread struct capo_nccl *in_making __attribute__((tls_model("initial-exec")));

/* No lock is held while NCCL, or who wraps it, is asked: it may call us. */
static struct capo_nccl *make_copy(const struct scope *s)
{
        struct capo_nccl *new = capo_shim_alloc(sizeof *new), *copy = NULL;
        CAPO_NO_SIGNALS;

        if (!new)
                return NULL;
        resolve_functions(new, s);
        new->how = s->how;
        if (place_copy(new)) {
                in_making = new;
                if (new->ncclGetVersion(&new->version) != ncclSuccess)
                        new->version = 0;
                in_making = NULL;
                capo_untuned_prevent(new->version);
                capo_lock(&lock);
                copy = enter_copy(new);
                capo_unlock(&lock);
        }
        munmap(new, sizeof *new);
        return copy;
}

/* Functions a libnccl has that this capo does not know: calls of them are in no log. The names a
 * program gives its own functions, linked to NCCL, say nothing. */
enum { STRANGE = 400 };

static void add_strange(const char *name, void *names) { capo_nccl_strange(names, STRANGE, name); }

static int n_logged; /* copies the log knows of */

void capo_nccl_tell(void)
{
        struct capo_object front;
        bool in_front = false;

        capo_ext_tell();
        if (n_logged == 0 && atomic_load_explicit(&n_copies, memory_order_acquire)) {
                capo_loader_enter();
                in_front = capo_dlsym_front(&front);
                capo_loader_leave();
        }
        if (in_front)
                capo_shim_info(CAPO_INFO_DLSYM_FRONT, "%s", front.path);
        for (; n_logged < atomic_load_explicit(&n_copies, memory_order_acquire); n_logged++) {
                struct capo_nccl *copy = &capo_nccl_copies[n_logged];
                char strange[STRANGE] = "", path[32], how[32], version[32], unknown[32],
                     release[16], suffix[16] = "";

                if (capo_nccl_file(copy->path)) {
                        capo_loader_enter();
                        capo_object_functions(copy->base, add_strange, strange);
                        capo_loader_leave();
                }
                if (n_logged)
                        snprintf(suffix, sizeof suffix, ".%d", n_logged);
                snprintf(path, sizeof path, "%s%s", CAPO_INFO_NCCL_PATH, suffix);
                snprintf(how, sizeof how, "%s%s", CAPO_INFO_NCCL_HOW, suffix);
                snprintf(version, sizeof version, "%s%s", CAPO_INFO_NCCL_VERSION, suffix);
                snprintf(unknown, sizeof unknown, "%s%s", CAPO_INFO_NCCL_UNKNOWN, suffix);
                capo_shim_info(path, "%s", copy->path);
                capo_shim_info(how, "%s", copy->how);
                if (copy->version)
                        capo_shim_info(
                                version, "%s",
                                capo_nccl_text((uint32_t)copy->version, release, sizeof release));
                if (*strange)
                        capo_shim_info(unknown, "%s", strange);
        }
}

struct capo_nccl *capo_nccl_at(const void *symbol, const char *how)
{
        int n = atomic_load_explicit(&n_copies, memory_order_acquire);
        struct scope s = {.how = how};
        struct capo_object o;

        if (!symbol || capo_own(symbol))
                return NULL;
        for (int i = 0; i < n; i++) {
                if (has_function(&capo_nccl_copies[i], symbol))
                        return &capo_nccl_copies[i];
        }
        if (!capo_object_of(symbol, &o))
                return NULL;
        s.handle[s.n++] = *o.path ? dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD) : RTLD_NEXT;
        return s.handle[0] && is_whole(&s) ? make_copy(&s) : NULL;
}

static bool has_code(const struct capo_nccl *copy, uintptr_t address)
{
        for (unsigned i = 0; i < CAPO_NCCL_OBJECTS && copy->code[i].size; i++) {
                if (address - copy->code[i].begin < copy->code[i].size)
                        return true;
        }
        return false;
}

bool capo_nccl_own(const struct capo_nccl *lib, const void *address)
{
        int n = atomic_load_explicit(&n_copies, memory_order_acquire);
        struct capo_object o;

        if (likely(lib && (uintptr_t)address - lib->code[0].begin < lib->code[0].size) ||
            capo_own(address)) /* who wraps NCCL jumped to it */
                return true;
        for (int i = 0; i < n; i++) {
                if (has_code(&capo_nccl_copies[i], (uintptr_t)address))
                        return true;
        }
        return capo_object_of(address, &o) && capo_nccl_file(o.path);
}

/* Asked on the long way of every call: remembered per caller, the answer in the lowest bit. */
bool capo_nccl_beyond(const void *caller)
{
        static _Atomic uintptr_t known[1024];
        uintptr_t key = (uintptr_t)caller << 1, found;
        _Atomic uintptr_t *at =
                &known[(uint64_t)key * 0x9e3779b97f4a7c15u >> 54]; /* the upper ten bits */
        struct capo_object o;
        const char *file;

        found = atomic_load_explicit(at, memory_order_relaxed);
        if (likely((found & ~(uintptr_t)1) == key))
                return found & 1;
        file = capo_object_of(caller, &o) ? capo_base_name(o.path) : "";
        found = !strncmp(file, "libnccl_ep.", strlen("libnccl_ep.")) ||
                !strncmp(file, "libnccl_m2n.", strlen("libnccl_m2n."));
        atomic_store_explicit(at, key | found, memory_order_relaxed);
        return found;
}

static const char *const names[] = {"libnccl.so.2", "librccl.so.1"};

bool capo_nccl_file(const char *path)
{
        const char *file = capo_base_name(path);

        return !strncmp(file, "libnccl", strlen("libnccl")) ||
               !strncmp(file, "librccl", strlen("librccl"));
}

/* As the linker would have bound @caller without us. False: there is no NCCL. */
static bool find_loaded(struct scope *s, const void *caller)
{
        CAPO_NO_SIGNALS;
        struct capo_object o;
        bool whole = add_handle(s, RTLD_NEXT, "next");

        if (!whole && capo_object_of(caller, &o) && *o.path)
                whole = add_handle(s, dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD), "caller");
        for (size_t i = 0; !whole && i < N_ELEMENTS(names); i++)
                whole = add_handle(s, dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD), "noload");
        return whole || add_any_object(s) || find_function(s, "ncclCommInitRank");
}

static struct capo_nccl *look_up(const void *caller)
{
        struct scope s = {.n = 0};
        bool whole = find_loaded(&s, caller);

        for (size_t i = 0; !whole && i < N_ELEMENTS(names); i++)
                whole = add_handle(&s, dlopen(names[i], RTLD_LAZY), "dlopen");
        return whole ? make_copy(&s) : NULL;
}

struct capo_nccl *capo_nccl_of(const void *caller)
{
        struct capo_nccl *copy = NULL;
        struct capo_tables object;
        int saved = errno;
        uintptr_t from;
        unsigned at;

        if (in_making)
                return in_making;
        from = capo_object_tables((uintptr_t)caller, &object) ? object.begin : (uintptr_t)caller;
        at = (unsigned)(from >> 12 ^ from >> 21) % N_ELEMENTS(callers);
        capo_lock(&lock);
        if (callers[at].caller == from)
                copy = callers[at].copy;
        capo_unlock(&lock);
        if (copy)
                return copy;
        copy = look_up(caller);
        if (copy) {
                capo_lock(&lock);
                callers[at].caller = from;
                callers[at].copy = copy;
                capo_unlock(&lock);
        } else {
                capo_warn_once(
                        "no libnccl.so.2 to be found behind a call of NCCL, nor librccl.so.1; it gets ncclInvalidUsage");
                capo_lock(&lock);
                if (!absent.ncclGetVersion)
                        resolve_functions(&absent, &(struct scope){.n = 0});
                capo_unlock(&lock);
                copy = &absent;
        }
        errno = saved;
        return copy;
}

void capo_nccl_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        n_logged = 0;
}
