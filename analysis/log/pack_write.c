/* SPDX-License-Identifier: Apache-2.0 */
/* The new file is first named .HOST.capo.zst.part. Only one file can have that name, so only one
 * process packs the logs of a host at a time, even from several machines. link() gives it its final
 * name, then the logs are removed, then the first name. A file that a killed packer left is removed
 * after ten minutes. */
#include <dirent.h>
#include <time.h>
#include <zstd.h>

#include "analysis/log/info_read.h"
#include "analysis/log/pack.h"
#include "analysis/log/recover.h"
#include "capo/frame_types.h"
#include "core/base/among.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"
#include "core/log/log_write.h"
#include "core/log/info.h"

enum { LEVEL = 3, STALE_S = 600 };

/* A log of the folder. */
struct finished {
        char *name;
        char host[64]; /* "": the log is left */
        struct stat st;
};

struct packing {
        const char *folder;
        struct finished *log;
        size_t n;
        char **held; /* logs whose process, live or dead, still has memory here */
        size_t n_held;
        void (*say)(const struct capo_pack_event *event, void *arg);
        void *arg;
        int error; /* the first one */
};

static void packing_finish(struct packing *p)
{
        for (size_t i = 0; i < p->n; i++)
                free(p->log[i].name);
        for (size_t i = 0; i < p->n_held; i++)
                free(p->held[i]);
        xfree(p->log, p->held);
}

static void say_event(struct packing *p, struct capo_pack_event event)
{
        if (p->say)
                p->say(&event, p->arg);
}

static void say_failed(struct packing *p, const char *path, int error)
{
        say_event(p, (struct capo_pack_event){CAPO_PACK_FAILED, path, strerror(-error)});
        p->error = p->error ?: error;
}

/* ---- which logs ---- */

static int is_log(const struct dirent *e)
{
        size_t n = strlen(e->d_name);

        return n > 5 && n < 250 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 5, ".capo");
}

static int hold_log(const struct capo_segment_info *info, void *arg)
{
        struct packing *p = arg;

        *xadd(p->held, p->n_held) = xstrdup(info->log_path);
        return 0;
}

static bool is_held(const struct packing *p, const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL);

        return real && ANY_OF(held, p->held, p->n_held, !strcmp(*held, real));
}

static void take_host(const struct capo_log_frame *f, struct finished *log)
{
        struct capo_info_line line;

        for (size_t at = 0; capo_info_next(f, &at, &line);) {
                if (capo_info_is(&line, CAPO_INFO_HOST) && line.n_value < sizeof log->host)
                        capo_info_value(&line, log->host, sizeof log->host);
        }
}

/* Return: NULL with the host set, or the reason why the log is left. */
static const char *read_finished(const struct packing *p, const char *path, struct finished *log)
{
        static char why[256];
        _cleanup_(capo_log_closep) struct capo_log *open = NULL;
        struct capo_log_end end = {0};
        struct capo_log_frame f;

        if (lstat(path, &log->st) < 0 || !S_ISREG(log->st.st_mode))
                return "is not a regular file";
        if (log->st.st_uid != geteuid())
                return "belongs to another user";
        if (is_held(p, path))
                return "its process runs, or left calls for capo report --recover";
        if (capo_log_open(path, &open, why, sizeof why) < 0)
                return why;
        while (capo_log_next(open, &f) > 0) {
                if (f.type == CAPO_FRAME_INFO)
                        take_host(&f, log);
                else if (f.type == CAPO_FRAME_END)
                        capo_log_end(&f, &end);
        }
        if (capo_log_health(open)->n_damages || capo_log_health(open)->cut_bytes)
                return "is damaged";
        if (!end.clean)
                return "its process has not come to its end";
        return *log->host && !strchr(log->host, '/') && *log->host != '.'
                       ? NULL
                       : "does not name its host";
}

static int find_finished(struct packing *p, bool all)
{
        struct dirent **names = NULL;
        int n = scandir(p->folder, &names, is_log, alphasort), r = n < 0 ? -errno : 0;
        char here[64] = "";

        gethostname(here, sizeof here - 1);
        for (int i = 0; i < n; i++) {
                struct finished log = {.name = xstrdup(names[i]->d_name)};
                _cleanup_free_ char *path = xprintf("%s/%s", p->folder, log.name);
                const char *why;

                free(names[i]);
                why = read_finished(p, path, &log);
                if (!why && !all && strcmp(log.host, here) != 0)
                        why = "is of another node (--all)";
                if (why) {
                        *log.host = 0;
                        say_event(p, (struct capo_pack_event){CAPO_PACK_LEFT, path, why});
                }
                *xadd(p->log, p->n) = log;
        }
        free(names);
        return r;
}

/* ---- one file ---- */

static int write_at(int fd, const void *bytes, size_t n, uint64_t *at)
{
        int r = capo_log_write_all(fd, bytes, n, *at);

        if (r == 0)
                *at += n;
        return r;
}

/* Compress all of @from to @to, from offset *@at on. */
static int compress_file(int from, uint64_t size, int to, uint64_t *at)
{
        static char in[1 << 17], out[1 << 17];
        static ZSTD_CCtx *zstd;
        ZSTD_EndDirective step = ZSTD_e_continue;

        zstd = zstd ?: ZSTD_createCCtx();
        if (!zstd)
                return -ENOMEM;
        ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
        ZSTD_CCtx_setPledgedSrcSize(zstd, size);
        while (step != ZSTD_e_end) {
                ssize_t n = read(from, in, sizeof in);
                ZSTD_inBuffer source = {in, n > 0 ? (size_t)n : 0, 0};
                size_t left;

                if (n < 0)
                        return -errno;
                step = n ? ZSTD_e_continue : ZSTD_e_end;
                do {
                        ZSTD_outBuffer made = {out, sizeof out, 0};
                        int r;

                        left = ZSTD_compressStream2(zstd, &made, &source, step);
                        if (ZSTD_isError(left)) /* for example because it grew meanwhile */
                                return -EAGAIN;
                        r = write_at(to, out, made.pos, at);
                        if (r < 0)
                                return r;
                } while (step == ZSTD_e_end ? left : source.pos < source.size);
        }
        return 0;
}

/* Compare unpacked bytes with the log. @arg: the log's descriptor, at its begin. */
static int compare_bytes(void *arg, const void *bytes, size_t n)
{
        char own[1 << 17];
        size_t had = 0;

        while (had < n) {
                ssize_t k = read(*(int *)arg, own + had, n - had);

                if (k <= 0)
                        return -EIO;
                had += (size_t)k;
        }
        return memcmp(own, bytes, n) ? -EIO : 0;
}

/* Append @log to the file @part, open as @to. Return: 0; -ESTALE: another process packed it
 * meanwhile, or its process went on. */
static int pack_log(const struct packing *p, const struct finished *log, const char *part, int to,
                    uint64_t *at)
{
        _cleanup_free_ char *path = xprintf("%s/%s", p->folder, log->name);
        _cleanup_close_ int from = -1;
        struct pack_head head = {.skip = PACK_SKIP,
                                 .size = (uint64_t)log->st.st_size,
                                 .version = PACK_VERSION,
                                 .n_name = (uint16_t)strlen(log->name)};
        struct capo_pack_entry entry = {.at = *at + sizeof head + head.n_name, .size = head.size};
        uint64_t begin = *at, end = entry.at;
        struct stat st;
        int r;

        from = capo_others_open(path, O_RDONLY, log->st.st_uid, &st, NULL, 0);
        if (from < 0 || st.st_ino != log->st.st_ino || st.st_size != log->st.st_size)
                return -ESTALE;
        r = compress_file(from, head.size, to, &end);
        if (r < 0)
                return r;
        memcpy(head.magic, PACK_MAGIC, sizeof head.magic);
        entry.packed = head.packed = end - entry.at;
        head.skip_size = (uint32_t)(sizeof head - 8 + head.n_name);
        head.check = pack_check(&head, log->name);
        r = write_at(to, &head, sizeof head, at) ?: write_at(to, log->name, head.n_name, at);
        if (r == 0 && (lseek(from, 0, SEEK_SET) < 0 || head.size / PACK_RATIO > head.packed))
                r = -ESTALE;
        r = r ?: capo_pack_unpack(part, &entry, compare_bytes, &from);
        if (r == 0 && (fstat(from, &st) < 0 || st.st_size != log->st.st_size))
                r = -ESTALE;
        *at = r == 0 ? end : begin;
        return r;
}

/* Create the file. Return: a descriptor; -EEXIST: another process is packing; -errno. */
static int make_part(const char *part)
{
        struct stat st;
        int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0 && errno == EEXIST && lstat(part, &st) == 0 &&
            st.st_mtim.tv_sec < time(NULL) - STALE_S && unlink(part) == 0)
                fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

/* Find a free name: HOST.capo.zst, HOST.1.capo.zst, ... */
static int name_part(const char *part, const char *folder, const char *host, char **name)
{
        for (unsigned i = 0; i < 10000; i++) {
                free(*name);
                *name = i ? xprintf("%s/%s.%u%s", folder, host, i, CAPO_PACK_SUFFIX)
                          : xprintf("%s/%s%s", folder, host, CAPO_PACK_SUFFIX);
                if (link(part, *name) == 0)
                        return 0;
                if (errno != EEXIST)
                        return -errno;
        }
        return -EEXIST;
}

/* Remove the logs that are in the new file. */
static void remove_packed(struct packing *p, const char *host, const bool *packed)
{
        for (size_t i = 0; i < p->n; i++) {
                _cleanup_free_ char *path = xprintf("%s/%s", p->folder, p->log[i].name);

                if (packed[i] && !strcmp(p->log[i].host, host) && unlink(path) < 0)
                        say_failed(p, path, -errno);
        }
}

static int fill_part(struct packing *p, const char *host, const char *part, int fd, bool *packed,
                     struct capo_pack_event *event)
{
        struct timespec newest[2] = {{0}, {0}};
        int r = 0;

        for (size_t i = 0; i < p->n && r == 0; i++) {
                const struct finished *log = &p->log[i];

                if (strcmp(log->host, host) != 0)
                        continue;
                r = pack_log(p, log, part, fd, &event->to);
                packed[i] = r == 0;
                if (r == -ESTALE || r == -EAGAIN)
                        r = 0;
                if (!packed[i])
                        continue;
                event->n++;
                event->from += (uint64_t)log->st.st_size;
                if (log->st.st_mtim.tv_sec > newest[1].tv_sec)
                        newest[0] = newest[1] = log->st.st_mtim;
        }
        if (r == 0 && event->n &&
            (ftruncate(fd, (off_t)event->to) < 0 || futimens(fd, newest) < 0 || fsync(fd) < 0))
                r = -errno;
        return r;
}

static void pack_host(struct packing *p, const char *host)
{
        struct capo_pack_event event = {CAPO_PACK_MADE, NULL, NULL, 0, 0, 0};
        _cleanup_free_ bool *packed = xcalloc(p->n, sizeof *packed);
        _cleanup_free_ char *part = xprintf("%s/.%s%s.part", p->folder, host, CAPO_PACK_SUFFIX),
                            *name = NULL;
        _cleanup_close_ int fd = make_part(part);
        int r;

        if (fd == -EEXIST) /* another process packs them */
                say_event(p, (struct capo_pack_event){CAPO_PACK_LEFT, part,
                                                      "another process is packing these logs"});
        else if (fd < 0)
                say_failed(p, part, fd);
        if (fd < 0)
                return;
        r = fill_part(p, host, part, fd, packed, &event);
        if (r == 0 && event.n)
                r = name_part(part, p->folder, host, &name);
        if (r == 0 && event.n) {
                remove_packed(p, host, packed);
                event.path = name;
                say_event(p, event);
        }
        unlink(part);
        if (r < 0)
                say_failed(p, part, r);
}

/* Report what pack_host() would make. */
static void list_host(struct packing *p, const char *host)
{
        _cleanup_free_ char *name = xprintf("%s/%s%s", p->folder, host, CAPO_PACK_SUFFIX);
        struct capo_pack_event event = {CAPO_PACK_MADE, name, NULL, 0, 0, 0};

        for (size_t i = 0; i < p->n; i++) {
                if (!strcmp(p->log[i].host, host))
                        event.n++, event.from += (uint64_t)p->log[i].st.st_size;
        }
        say_event(p, event);
}

int capo_pack_folder(const char *folder, bool all, bool dry,
                     void (*say)(const struct capo_pack_event *event, void *arg), void *arg)
{
        _cleanup_(packing_finish) struct packing p = {.folder = folder, .say = say, .arg = arg};
        int r;

        capo_segment_find(NULL, NULL, true, hold_log, &p);
        r = find_finished(&p, all);
        for (size_t i = 0; i < p.n && r == 0; i++) {
                bool first = *p.log[i].host;

                for (size_t k = 0; k < i && first; k++)
                        first = strcmp(p.log[k].host, p.log[i].host) != 0;
                if (first)
                        (dry ? list_host : pack_host)(&p, p.log[i].host);
        }
        return r ?: p.error;
}

/* ---- unpack ---- */

static int write_log(const char *pack, const struct capo_pack_entry *entry, const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
        int r = file ? capo_pack_unpack(pack, entry, capo_pack_to_file, file) : -errno;

        if (file && (fflush(file) || fsync(fd)) && r == 0)
                r = -errno;
        if (file)
                fclose(file);
        if (r < 0 && fd >= 0)
                unlink(path);
        return r;
}

int capo_pack_undo(const char *path, void (*say)(const struct capo_pack_event *event, void *arg),
                   void *arg)
{
        const char *slash = strrchr(path, '/');
        struct packing p = {.say = say, .arg = arg};
        _cleanup_(capo_pack_finish) struct capo_pack list = {0};
        char why[256];
        int r = capo_pack_list(path, &list, why, sizeof why);

        if (r < 0) {
                say_event(&p, (struct capo_pack_event){CAPO_PACK_FAILED, path, why});
                return r;
        }
        for (size_t i = 0; i < list.n; i++) {
                _cleanup_free_ char *log = xprintf("%.*s%s", slash ? (int)(slash + 1 - path) : 0,
                                                   path, list.v[i].name);

                r = write_log(path, &list.v[i], log);
                if (r < 0)
                        say_failed(&p, log, r);
        }
        if (!p.error && list.bytes_lost)
                say_failed(&p, path, -EBADMSG);
        if (!p.error && unlink(path) < 0)
                say_failed(&p, path, -errno);
        if (!p.error)
                say_event(&p, (struct capo_pack_event){CAPO_PACK_MADE, path, NULL, list.n, 0, 0});
        return p.error;
}
