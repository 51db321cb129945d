/* SPDX-License-Identifier: Apache-2.0 */
/* capo-plan-worker: the process of one simulated node. It is a program of its own, because it
 * exports these C library functions to everything that it loads. They work like the originals, with
 * less load or without access to this machine:
 *
 *   sched_yield, recv, accept   NCCL polls with them. Many virtual ranks share few cores here, so a
 *                               poll that finds nothing yields the processor for a moment. Results
 *                               are unchanged, and 16 ranks start ten times as fast.
 *   fallocate                   34 MB per rank in /dev/shm stay a sparse file.
 *   mkstemp                     notes the files made in /dev/shm, so that the parent can remove
 *                               them.
 *   realpath                    hides this machine's PCI tree: only the topology file counts.
 *   dlopen                      returns the virtual driver for libcuda.so, the name that NCCL up to
 *                               2.20 uses. Without it there is no NVLS, and this machine's would be
 *                               a real driver. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/util.h"
#include "profiles/plan/plan_job.h"

static struct plan_job *job;

/* The symbol names in the libraries: headers rename some of these functions by the size of off_t.
 */
#define EXPORT(name) __asm__(name) CAPO_EXPORT __attribute__((used))

int soft_sched_yield(void) EXPORT("sched_yield");
ssize_t soft_recv(int fd, void *data, size_t n, int flags) EXPORT("recv");
int soft_accept(int fd, struct sockaddr *address, socklen_t *length) EXPORT("accept");
int soft_fallocate(int fd, int mode, off_t offset, off_t length) EXPORT("fallocate");
int soft_fallocate64(int fd, int mode, off_t offset, off_t length) EXPORT("fallocate64");
int soft_mkstemp(char *template) EXPORT("mkstemp");
int soft_mkstemp64(char *template) EXPORT("mkstemp64");
void *soft_memset(void *to, int value, size_t n) EXPORT("memset");
char *soft_realpath(const char *path, char *out) EXPORT("realpath");
void *soft_dlopen(const char *path, int mode) EXPORT("dlopen");

/* Number of consecutive empty polls of this thread. The pause grows with it and with the number of
 * ranks, up to 2 ms. */
static _Thread_local unsigned empty_polls;

static void pause_after_empty_poll(void)
{
        int e = errno;
        long ns = 20000l * (1 + (job ? (long)job->n_asked / 8 : 0));

        if (++empty_polls > 8)
                ns *= 1 + (empty_polls - 8) / 4;
        nanosleep(&(struct timespec){.tv_nsec = ns < 2000000 ? ns : 2000000}, NULL);
        errno = e;
}

int soft_sched_yield(void)
{
        pause_after_empty_poll();
        return 0;
}

static long note_poll(long got)
{
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                pause_after_empty_poll();
        else
                empty_polls = 0;
        return got;
}

ssize_t soft_recv(int fd, void *data, size_t n, int flags)
{
        return note_poll(syscall(SYS_recvfrom, fd, data, n, flags, NULL, NULL));
}

int soft_accept(int fd, struct sockaddr *address, socklen_t *length)
{
        return (int)note_poll(syscall(SYS_accept, fd, address, length));
}

int soft_fallocate(int fd, int mode, off_t offset, off_t length)
{
        return mode == 0 ? ftruncate(fd, offset + length)
                         : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int soft_fallocate64(int fd, int mode, off_t offset, off_t length)
{
        return soft_fallocate(fd, mode, offset, length);
}

/* The name is noted before the file is made, so that a kill in between leaves no unknown file. */
static int noted_mkstemp(char *template, char *tail)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        const char *name = template + strlen("/dev/shm/");
        uint32_t note = atomic_fetch_add(&job->n_shm, 1);

        for (int attempt = 0; attempt < 100; attempt++) {
                unsigned char random[6];
                int fd;

                if (syscall(SYS_getrandom, random, sizeof random, 0) != (long)sizeof random)
                        return -1;
                for (size_t i = 0; i < sizeof random; i++)
                        tail[i] = letters[random[i] % (sizeof letters - 1)];
                if (note < PLAN_MAX_SHM)
                        strcpy(job->shm[note], name);
                fd = open(template, O_RDWR | O_CREAT | O_EXCL, 0600);
                if (fd >= 0)
                        return fd;
                if (note < PLAN_MAX_SHM) /* not one of NCCL's, or none */
                        job->shm[note][0] = 0;
                if (errno != EEXIST)
                        return -1;
        }
        return -1;
}

int soft_mkstemp(char *template)
{
        size_t n = strlen(template);

        if (job && n > 15 && n - 9 < sizeof job->shm[0] && !strncmp(template, "/dev/shm/", 9) &&
            !strcmp(template + n - 6, "XXXXXX"))
                return noted_mkstemp(template, template + n - 6);
        return mkostemp(template, 0);
}

int soft_mkstemp64(char *template) { return soft_mkstemp(template); }

static int pagemap = -1; /* /proc/self/pagemap */

static void fill_bytes(unsigned char *to, int value, size_t n)
{
#if defined(__x86_64__)
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
#else
        for (volatile unsigned char *p = to; n;
             n--) /* volatile: otherwise it is compiled to a call of memset */
                *p++ = (unsigned char)value;
#endif
}

/* Clear @n whole pages, except those never written: not mapped and not swapped out (pagemap, bits
 * 63 and 62: Documentation/admin-guide/mm/pagemap.rst) and, for shared files, not in the page cache
 * (mincore). */
static bool clear_pages(unsigned char *first, size_t n)
{
        enum { CHUNK = 512, PAGE = 4096 };
        uint64_t entries[CHUNK];
        unsigned char cached[CHUNK];

        for (size_t done = 0; done < n; done += CHUNK) {
                size_t now = n - done < CHUNK ? n - done : CHUNK;
                unsigned char *at = first + done * PAGE;

                if (pread(pagemap, entries, now * 8, (off_t)((uintptr_t)at / PAGE * 8)) !=
                            (ssize_t)(now * 8) ||
                    mincore(at, now * PAGE, cached) < 0)
                        return false;
                for (size_t i = 0; i < now; i++) {
                        if (entries[i] >> 62 || cached[i] & 1)
                                fill_bytes(at + i * PAGE, 0, PAGE);
                }
        }
        return true;
}

void *soft_memset(void *to, int value, size_t n)
{
        unsigned char *p = to, *first = (unsigned char *)(((uintptr_t)to + 4095) & ~4095ul);
        unsigned char *last = (unsigned char *)(((uintptr_t)to + n) & ~4095ul);

        if (value || n < 1 << 17 || pagemap < 0 ||
            !clear_pages(first, (size_t)(last - first) / 4096)) {
                fill_bytes(p, value, n);
        } else {
                fill_bytes(p, 0, (size_t)(first - p));
                fill_bytes(last, 0, (size_t)(p + n - last));
        }
        return to;
}

char *soft_realpath(const char *path, char *out)
{
        if (!strncmp(path, "/sys/", 5)) {
                errno = ENOENT;
                return NULL;
        }

        static char *(*real)(const char *, char *);

        if (!real)
                real = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
        return real(path, out);
}

static const char *virtual_driver; /* path of the shared object */

void *soft_dlopen(const char *path, int mode)
{
        static void *(*real)(const char *, int);
        const char *slash = path ? strrchr(path, '/') : NULL, *file = slash ? slash + 1 : path;

        if (!real)
                real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
        if (file && virtual_driver &&
            (!strcmp(file, "libcuda.so") || !strcmp(file, "libcuda.so.1")))
                path = virtual_driver;
        return real(path, mode);
}

int main(int argc, char **argv)
{
        struct stat st;
        int (*node)(struct plan_job *, uint32_t);
        void *handle;

        if (argc != 3 || fstat(PLAN_JOB_FD, &st) < 0 || (size_t)st.st_size < sizeof *job) {
                fputs("capo-plan-worker is started by capo plan; it has no use by itself\n",
                      stderr);
                return 2;
        }
        /* NCCL clears its path tables after it allocates them. New pages from the kernel stay
         * untouched then (soft_memset); by default malloc() reuses freed ones. */
        mallopt(M_MMAP_THRESHOLD, 128 << 10);
        prctl(PR_SET_PDEATHSIG, 9); /* never outlive capo */
        job = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, PLAN_JOB_FD, 0);
        if (job == MAP_FAILED || job->size != (uint64_t)st.st_size)
                return 2;
        close(PLAN_JOB_FD);
        if (sysconf(_SC_PAGESIZE) == 4096)
                pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        virtual_driver = argv[1];
        handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        node = handle ? (int (*)(struct plan_job *, uint32_t))dlsym(handle, "capo_plan_node")
                      : NULL;
        if (!node) {
                fprintf(stderr, "%s\n", dlerror());
                return 2;
        }
        /* NCCL's threads still wait for what never completes: exit without joining them. */
        _exit(node(job, (uint32_t)atoi(argv[2])));
}
