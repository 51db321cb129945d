/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers out of the files of /proc and /sys. Files are opened for each reading: descriptors that
 * stay open would count against the job's limit, and a job that closes what is not its own would
 * have us read its file. Nothing allocates. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "capo/env.h"
#include "shim/machine/machine_source.h"
#include "shim/record/shim.h"

enum { LONG_FILE = 512 };

char capo_machine_proc[256], capo_machine_sys[256];

static struct {
        char path[320], text[16384];
        bool there;
} last;

bool capo_machine_path(char *to, size_t room, const char *format, ...)
{
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(to, room, format, args);
        va_end(args);
        if (n >= 0 && n < (int)room)
                return true;
        *to = 0;
        return false;
}

uint64_t capo_machine_hash(uint64_t h, const char *s, size_t room)
{
        for (h = h ?: 14695981039346656037u; room-- && *s; s++)
                h = (h ^ (unsigned char)*s) * 1099511628211u;
        return h;
}

static void set_root(char to[256], const char *part, const char *usual)
{
        const char *root = capo_shim_env()->machine_root;
        struct stat st;

        if (*root && capo_machine_path(to, 256, "%s/%s", root, part) && stat(to, &st) == 0)
                return;
        snprintf(to, 256, "%s", usual);
}

void capo_machine_roots(void)
{
        set_root(capo_machine_proc, "proc", "/proc");
        set_root(capo_machine_sys, "sys", capo_shim_env()->sysfs);
}

bool capo_machine_text(const char *path, char *text, size_t room)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        size_t n = 0;
        ssize_t more;

        if (fd < 0)
                return false;
        do {
                more = read(fd, text + n, room - 1 - n);
                n += more > 0 ? (size_t)more : 0;
        } while (more >= LONG_FILE && n < room - 1); /* the kernel gives a shorter one at once */
        text[n] = 0;
        return n > 0;
}

void capo_machine_names(const char *folder, void (*found)(const char *name, void *arg), void *arg)
{
        _cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char list[2048] __attribute__((aligned(8)));
        long got;

        while (fd >= 0 && (got = syscall(SYS_getdents64, fd, list, sizeof list)) > 0) {
                for (long at = 0; at < got;) { /* readdir() would allocate */
                        struct dirent64 *e = (struct dirent64 *)(void *)(list + at);

                        at += e->d_reclen;
                        if (*e->d_name != '.')
                                found(e->d_name, arg);
                }
        }
}

void capo_machine_forget(void) { *last.path = 0; }

static const char *text_of(const char *path)
{
        if (strcmp(last.path, path)) {
                snprintf(last.path, sizeof last.path, "%s", path);
                last.there = capo_machine_text(path, last.text, sizeof last.text);
        }
        return last.there ? last.text : NULL;
}

static bool parse_number(const char *text, uint64_t *value)
{
        char *end;

        text += strspn(text, " \t");
        if (!isdigit((unsigned char)*text))
                return false;
        *value = strtoull(text, &end, 10);
        return end > text;
}

/* The @nth word from @text on, from 1. */
static const char *find_word(const char *text, unsigned long nth)
{
        for (;;) {
                text += strspn(text, " \t");
                if (!*text || *text == '\n')
                        return NULL;
                if (--nth == 0)
                        return text;
                text += strcspn(text, " \t\n");
        }
}

/* What follows on the line that begins with the word @key, of @n bytes; NULL: there is none. */
static const char *find_line(const char *text, const char *key, size_t n)
{
        while (text && (strncmp(text, key, n) || (text[n] != ' ' && text[n] != '\t'))) {
                text = strchr(text, '\n');
                text = text ? text + 1 : NULL;
        }
        return text ? text + n : NULL;
}

/* net/snmp and net/netstat: a line of names and below it a line of numbers. @key: "Tcp:OutSegs". */
static bool read_table(const char *text, const char *key, uint64_t *value)
{
        size_t n = strcspn(key, ":") + 1;
        const char *names = find_line(text, key, n),
                   *numbers = names ? find_line(strchr(names, '\n') ? strchr(names, '\n') + 1 : "",
                                                key, n)
                                    : NULL;

        for (unsigned long i = 1; numbers; i++) {
                const char *name = find_word(names, i), *number = find_word(numbers, i);

                if (!name || !number)
                        return false;
                if (!strncmp(name, key + n, strlen(key + n)) &&
                    strchr(" \n", name[strlen(key + n)]))
                        return parse_number(number, value);
        }
        return false;
}

static bool read_key(const char *text, const char *key, uint64_t *value)
{
        const char *colon = strchr(key, ':'), *at;

        if (!*key)
                return parse_number(text, value);
        if (colon && isdigit((unsigned char)colon[1])) { /* "cpu:8": 8th number of that line */
                at = find_line(text, key, (size_t)(colon - key));
                at = at ? find_word(at, strtoul(colon + 1, NULL, 10)) : NULL;
                return at && parse_number(at, value);
        }
        if (colon && colon[1])
                return read_table(text, key, value);
        if (isdigit((unsigned char)*key)) {
                unsigned long nth = strtoul(key, NULL, 10);
                const char *name = strrchr(text, ')'); /* a process's name may hold anything */

                at = name ? find_word(name + 1, nth - 2) : find_word(text, nth);
                return at && parse_number(at, value);
        }
        at = find_line(text, key, strlen(key));
        if (at && !strcmp(key, "some")) {
                const char *total = strstr(at, "total=");

                return total && parse_number(total + 6, value);
        }
        return at && parse_number(at, value);
}

static uint64_t count_cpus(int tid)
{
        uint64_t bits[128] = {0};
        long n = syscall(SYS_sched_getaffinity, tid, sizeof bits, bits);
        uint64_t sum = 0;

        for (long i = 0; i < n / 8; i++)
                sum += (uint64_t)__builtin_popcountll(bits[i]);
        return sum;
}

bool capo_machine_number(const struct machine_object *o, const char *source, const char *key,
                         uint64_t *value)
{
        char path[320];
        const char *text;

        if (!strcmp(source, "affinity"))
                return (*value = count_cpus(o->tid)) > 0;
        if (!strcmp(source, "online")) {
                long n = sysconf(_SC_NPROCESSORS_ONLN);

                *value = n > 0 ? (uint64_t)n : 0;
                return n > 0;
        }
        if (!capo_machine_path(path, sizeof path, "%s/%s", o->dir, source))
                return false;
        text = text_of(path);
        if (!text || !read_key(text, key, value))
                return false;
        if (!strcmp(source, "schedstat"))
                *value /= 1000; /* ns */
        return true;
}

uint64_t capo_machine_own_wait_us(void)
{
        struct machine_object me = {0};
        uint64_t us = 0;

        capo_machine_path(me.dir, sizeof me.dir, "/proc/thread-self");
        capo_machine_forget();
        capo_machine_number(&me, "schedstat", "2", &us);
        capo_machine_forget();
        return us;
}
