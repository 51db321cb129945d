/* SPDX-License-Identifier: Apache-2.0 */
/* Opens every input, recognises the format by its first bytes, and calls that format's parser.
 * Folders are walked in name order, so that the same folder always gives the same samples in the
 * same order. */
#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analysis/job/stats.h"
#include "analysis/log/pack.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_private.h"

bool capo_import_is_log(const char *head, size_t n)
{
        return n >= 8 && !memcmp(head, CAPO_LOG_MAGIC, 8);
}

/* Keep an open log for capo_import_end(), which reads the logs of one job together. */
static void keep_log(struct capo_input *in, struct capo_log *log)
{
        struct capo_late *late = capo_late_of(in);

        if (!late->job) {
                late->job = capo_job_new();
                late->job->no_lateness = true;
        }
        xarray_room(&late->named, late->job->n_processes, sizeof *late->named);
        late->named[late->job->n_processes] = xstrdup(in->named ? in->named : in->path);
        capo_job_add(late->job, log);
}

/* Note why this log is not used; the other logs of its job are. */
static void leave_out(struct capo_input *in, const char *why)
{
        struct capo_late *late = capo_late_of(in);

        capo_samples_note(in->set, "left out %s: %s", in->path, why);
        if (!late->unread)
                late->unread = xprintf("%s: %s", in->path, why);
}

int capo_import_log(struct capo_input *in)
{
        struct capo_log *log;
        char why[160];
        int r = in->fd < 0 ? capo_log_open(in->path, &log, why, sizeof why)
                           : capo_log_open_fd(in->fd, in->path, &log, why, sizeof why);

        in->fd = -1;
        if (r < 0)
                leave_out(in, why);
        else
                keep_log(in, log);
        return 0;
}

/* ---- the formats ---- */

static const struct importer {
        bool (*known)(const char *head, size_t n);
        int (*read)(struct capo_input *in);
        bool whole;
        const char *what;
} importers[] = {
#define IMPORTER(name, whole, what) {capo_import_is_##name, capo_import_##name, whole, what},
#include "profiles/import/importers.def"
};

static int no_measurement(const struct capo_input *in, bool rejected)
{
        size_t used = (size_t)snprintf(in->error, in->room, "%s: no measurement %s", in->path,
                                       rejected ? "left: every run in it was rejected"
                                                : "found: expected ");

        for (size_t i = 0; !rejected && i < N_ELEMENTS(importers) && used < in->room; i++)
                used += (size_t)snprintf(in->error + used, in->room - used, "%s%s",
                                         i == 0                          ? ""
                                         : i + 1 < N_ELEMENTS(importers) ? ", "
                                                                         : " or ",
                                         importers[i].what);
        return -ENODATA;
}

/* A copy of a file counts once, or it would pass for a repetition. The hash is that of a whole text,
 * or of the beginning of a log, which has the start time and the process. Return: was a file of
 * this content read before? Then a note says so. */
static bool read_before(struct capo_input *in, uint64_t file_size)
{
        struct capo_samples *set = in->set;
        struct capo_samples_file file = {.size = file_size,
                                         .hash = XXH3_64bits(in->text, in->size)};

        if (in->label) /* with another label (release, layout) it is another measurement */
                file.hash = XXH3_64bits_withSeed(in->label, sizeof *in->label, file.hash);
        for (size_t i = 0; i < set->n_known; i++) {
                if (set->files[i].size != file.size || set->files[i].hash != file.hash)
                        continue;
                capo_samples_note(set, "%s has the same content as %s: counted once", in->path,
                                  set->files[i].path);
                set->n_again++;
                return true;
        }
        xarray_room(&set->files, set->n_known, sizeof *set->files);
        file.path = xstrdup(in->path);
        set->files[set->n_known++] = file;
        return false;
}

static int system_error(struct capo_input *in, int r)
{
        capo_input_error(in, 0, "%s", strerror(-r));
        return r;
}

/* Read all of @fd, whose first bytes were read before. A pipe cannot be rewound: the rest is
 * appended. */
static int read_whole(struct capo_input *in, int fd)
{
        _cleanup_free_ char *rest = NULL;
        size_t n = 0;
        char *all;
        int r;

        if (lseek(fd, 0, SEEK_SET) == 0) {
                free(in->text);
                in->text = NULL;
                return capo_file_read_fd(fd, SIZE_MAX, &in->text, &in->size);
        }
        r = capo_file_read_fd(fd, SIZE_MAX - in->size - 1, &rest, &n);
        if (r < 0)
                return r;
        all = xrealloc(in->text, in->size + n + 1);
        memcpy(all + in->size, rest, n + 1);
        in->text = all;
        in->size += n;
        return 0;
}

/* Editors and spreadsheets of Windows write a byte order mark first. */
static void strip_bom(struct capo_input *in)
{
        if (in->size < 3 || memcmp(in->text, "\xef\xbb\xbf", 3) != 0)
                return;
        in->size -= 3;
        memmove(in->text, in->text + 3, in->size + 1);
}

/* Number of samples, and of logs and records that capo_import_end() will read. */
static size_t count_measured(const struct capo_input *in)
{
        return in->set->n + capo_late_count(in->set);
}

enum { HEAD = 65536 };

static int take_head(void *input, const void *bytes, size_t n)
{
        struct capo_input *in = input;
        size_t more = HEAD - in->size < n ? HEAD - in->size : n;

        memcpy(in->text + in->size, bytes, more);
        in->size += more;
        return in->size == HEAD;
}

static void import_packed_log(struct capo_input *in, const char *pack,
                              const struct capo_pack_entry *entry)
{
        struct capo_log *log;
        char why[512];

        capo_pack_unpack(pack, entry, take_head, in); /* capo_log_open_packed() reports damage */
        in->set->n_files++;
        if (read_before(in, entry->size))
                return;
        if (capo_log_open_packed(pack, entry, &log, why, sizeof why) < 0)
                leave_out(in, why);
        else
                keep_log(in, log);
}

/* Read the logs in a file that capo pack wrote. */
static int import_pack(struct capo_input *in)
{
        _cleanup_(capo_pack_finish) struct capo_pack list = {0};
        char why[256];
        int r = capo_pack_list(in->path, &list, why, sizeof why);

        if (r < 0)
                return capo_input_error(in, 0, "%s", why);
        if (list.bytes_lost)
                capo_samples_note(in->set,
                                  "%s: damaged: the %zu logs in it that can be read are used",
                                  in->path, list.n);
        for (size_t i = 0; i < list.n; i++) {
                _cleanup_free_ char *path = xprintf("%s/%s", in->path, list.v[i].name);
                _cleanup_free_ char *head = xmalloc(HEAD);
                struct capo_input sub = *in;

                sub.size = 0;
                sub.text = head;
                sub.path = path;
                import_packed_log(&sub, in->path, &list.v[i]);
        }
        return 0;
}

static int import_file(struct capo_input *in, uint64_t file_size)
{
        const struct importer *format = importers;
        size_t before = count_measured(in), rejected = in->set->n_rejected;
        int r;
        bool more;

        in->fd = open(in->path, O_RDONLY | O_CLOEXEC);
        r = in->fd < 0 ? -errno : capo_file_read_fd(in->fd, HEAD, &in->text, &in->size);

        if (r < 0)
                return system_error(in, r);
        if (in->size == 0) {
                capo_input_error(in, 0, "empty file");
                return -ENODATA;
        }
        if (capo_pack_is(in->text, in->size))
                return import_pack(in);
        more = in->size == HEAD;
        strip_bom(in);
        in->set->n_files++;
        while (!format->known(in->text, in->size)) /* the last one accepts everything */
                format++;
        if (!format->whole)
                return read_before(in, file_size) ? 0 : format->read(in);
        if (more && (r = read_whole(in, in->fd)) == 0)
                strip_bom(in);
        if (r < 0)
                return system_error(in, r);
        if (memchr(in->text, 0, in->size))
                return capo_input_error(in, 0, "binary, and not a capo log");
        if (read_before(in, in->size))
                return 0;
        r = format->read(in);
        return r == 0 && count_measured(in) == before
                       ? no_measurement(in, in->set->n_rejected > rejected)
                       : r;
}

/* Skip hidden files, and what capo run and capo watch write beside the logs. */
static int entry_is_input(const struct dirent *d)
{
        return fnmatch("@(.*|topology-*.xml*|hang.@(txt|before.txt|json|watch))", d->d_name,
                       FNM_EXTMATCH) != 0;
}

enum { MAX_DEPTH = 8 };
static int import_path(struct capo_input *in, bool in_folder, unsigned depth);

static int import_folder(struct capo_input *in, unsigned depth)
{
        struct dirent **names;
        int n = scandir(in->path, &names, entry_is_input, alphasort), r = 0;
        size_t before = count_measured(in) + in->set->n_again;

        if (n < 0)
                return system_error(in, -errno);
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *path = xprintf("%s/%s", in->path, names[i]->d_name);
                struct capo_input sub = *in;

                sub.path = path;
                r = r < 0 ? r : import_path(&sub, true, depth + 1);
                free(names[i]);
        }
        free(names);
        if (r >= 0 && count_measured(in) + in->set->n_again == before && depth == 0) {
                capo_input_error(in, 0, "no measurement in this folder");
                return -ENODATA;
        }
        return r;
}

static int import_path(struct capo_input *in, bool in_folder, unsigned depth)
{
        struct stat st;
        int r;

        if (stat(in->path, &st) < 0)
                return system_error(in, -errno);
        if (S_ISDIR(st.st_mode) && depth == MAX_DEPTH)
                capo_samples_note(in->set, "left out %s: more than %d folders deep", in->path,
                                  MAX_DEPTH);
        if (S_ISDIR(st.st_mode))
                return depth < MAX_DEPTH ? import_folder(in, depth) : 0;
        if (in_folder && !S_ISREG(st.st_mode))
                return 0;
        r = import_file(in, (uint64_t)st.st_size);
        if (in->fd >= 0)
                close(in->fd);
        free(in->text);
        in->text = NULL;
        if ((r == -ENODATA || r == -EINVAL || r == -EACCES || r == -EIO) &&
            in_folder) { /* the others are used */
                capo_samples_note(in->set, "left out %s", in->error);
                return 0;
        }
        return r;
}

int capo_import_more(const char *path, const struct capo_label *label, struct capo_samples *set,
                     char *error, size_t room)
{
        struct capo_input in = {.path = path,
                                .label = label,
                                .set = set,
                                .error = error,
                                .room = room,
                                .named = path,
                                .fd = -1};

        error[0] = 0;
        return import_path(&in, false, 0);
}

int capo_import(const char *path, const struct capo_label *label, struct capo_samples *set,
                char *error, size_t room)
{
        char ends[768];
        int r = capo_import_more(path, label, set, error, room),
            e = capo_import_end(set, ends, sizeof ends);

        if (r >= 0 && e < 0)
                snprintf(error, room, "%s", ends);
        return r < 0 ? r : e;
}
