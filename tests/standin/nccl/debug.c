/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in says: NCCL_DEBUG and NCCL_DEBUG_SUBSYS with NCCL's line format, since tools
 * read those lines; the last error of ncclGetLastError; and the few settings of its own.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "std.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level;
static unsigned long subsystems;
static FILE *to;
static char host[64];
static __thread char last_error[256];

static void read_env(void)
{
        static const char *const levels[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
        static const struct {
                const char *name;
                unsigned long bit;
        } names[] = {{"INIT", SUB_INIT}, {"COLL", SUB_COLL},     {"P2P", SUB_P2P},
                     {"NET", SUB_NET},   {"GRAPH", SUB_GRAPH},   {"ENV", SUB_ENV},
                     {"ALL", ~0ul},      {"TUNING", SUB_TUNING}, {"PROFILE", SUB_PROFILE}};
        const char *debug = getenv("NCCL_DEBUG"), *subsys = getenv("NCCL_DEBUG_SUBSYS"),
                   *file = getenv("NCCL_DEBUG_FILE");

        level = LOG_NONE;
        for (int i = 0; debug && i <= LOG_TRACE; i++)
                if (!strcasecmp(debug, levels[i]))
                        level = i;
        subsystems = SUB_INIT | SUB_ENV;
        if (subsys && *subsys) {
                char text[256], *save, *word;
                bool invert = *subsys == '^';

                subsystems = invert ? ~0ul : 0;
                snprintf(text, sizeof text, "%s", subsys + invert);
                for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save))
                        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                                if (!strcasecmp(word, names[i].name))
                                        subsystems = invert ? subsystems & ~names[i].bit
                                                            : subsystems | names[i].bit;
        }
        gethostname(host, sizeof host - 1);
        host[strcspn(host, ".")] = 0;
        to = stdout;
        if (file && *file) {
                char path[1024];
                size_t n = 0;

                for (const char *p = file; *p && n < sizeof path - 80; p++) {
                        if (p[0] == '%' && p[1] == 'h')
                                n += (size_t)sprintf(path + n, "%s", host), p++;
                        else if (p[0] == '%' && p[1] == 'p')
                                n += (size_t)sprintf(path + n, "%d", getpid()), p++;
                        else
                                path[n++] = *p;
                }
                path[n] = 0;
                to = fopen(path, "w");
                if (!to)
                        to = stdout;
        }
        setvbuf(to, NULL, _IOLBF, 0);
}

void std_log_reset(void) { read_env(); }

bool std_log_wants(int l, unsigned long flags)
{
        pthread_once(&once, read_env);
        if (l == LOG_WARN)
                return level >= LOG_WARN;
        return level >= l && (flags & subsystems);
}

void std_log(int l, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
        char text[1024];
        va_list args;
        int device = 0;

        if (!std_log_wants(l, flags))
                return;
        if (cu.p_cuCtxGetDevice)
                cu.p_cuCtxGetDevice(&device);
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        if (l == LOG_WARN)
                fprintf(to, "\n%s:%d:%ld [%d] %s:%d NCCL WARN %s\n", host, getpid(),
                        syscall(SYS_gettid), device, file, line, text);
        else if (l == LOG_VERSION)
                fprintf(to, "%s\n", text);
        else
                fprintf(to, "%s:%d:%ld [%d] NCCL INFO %s\n", host, getpid(), syscall(SYS_gettid),
                        device, text);
        fflush(to);
}

ncclResult_t fail(struct comm *comm, ncclResult_t code, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(last_error, sizeof last_error, fmt, args);
        va_end(args);
        if (comm)
                memcpy(comm->last_error, last_error, sizeof last_error);
        std_log(LOG_WARN, ~0ul, "stand-in", 0, "%s", last_error);
        return code;
}

const char *std_last_error(void) { return last_error; }

/* CAPO_STANDIN_LOG=PREFIX: every call that communicates, as it comes in, in PREFIX.<pid>; also of a
 * process that is killed. */
void std_note(const struct comm *comm, const char *what, size_t count, size_t type_bytes, int peer)
{
        static _Atomic int file; /* 0 not looked, -1 none, else the descriptor */
        const char *prefix;
        char text[256];
        int fd = file;

        if (fd == 0) {
                prefix = getenv("CAPO_STANDIN_LOG");
                fd = -1;
                if (prefix && *prefix) {
                        snprintf(text, sizeof text, "%s.%d", prefix, getpid());
                        fd = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
                }
                file = fd;
        }
        if (fd > 0)
                dprintf(fd,
                        "%s count=%zu type_bytes=%zu peer=%d comm=%016lx ranks=%d rank=%d grouped=%d name=%s\n",
                        what, count, type_bytes, peer, (unsigned long)comm->hash, comm->n,
                        comm->rank, group_depth > 0, comm->name);
}

static int version = 22809;
static double timeout_s;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static void read_settings(void)
{
        const char *text = getenv("CAPO_STANDIN_NCCL_VERSION");
        int x, y, z;

        if (text && sscanf(text, "%d.%d.%d", &x, &y, &z) == 3)
                version = x <= 2 && y <= 8 ? x * 1000 + y * 100 + z : x * 10000 + y * 100 + z;
        else if (text && atoi(text) > 0)
                version = atoi(text);
        timeout_s = (double)std_env_long("CAPO_STANDIN_TIMEOUT", 0);
}

int std_version(void)
{
        pthread_once(&settings_once, read_settings);
        return version;
}

double std_timeout_s(void)
{
        pthread_once(&settings_once, read_settings);
        return timeout_s;
}

long std_env_long(const char *name, long otherwise)
{
        const char *text = getenv(name);
        char *end;
        long v;

        if (!text || !*text)
                return otherwise;
        v = strtol(text, &end, 10);
        return *end ? otherwise : v;
}

uint64_t std_now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
