/* SPDX-License-Identifier: Apache-2.0 */
/* Reads folders, compressed files, dumps and texts; the kind of each is detected by its content. An
 * input of any length takes a bounded memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "capo/log_layout.h"
#include "capo/msg.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "analysis/log/pack.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/pickle.h"

/* What is kept of an input: 88 MiB; with the text made of it the memory stays below 256. */
enum { MOST_DEPTH = 4, CHUNK = 1 << 18, HEAD_BYTES = 24 << 20, TAIL_BYTES = 64 << 20 };

static int add_path(struct diagnose_paths *paths, const char *path)
{
        char *copy = xstrdup(path);

        xarray_room(&paths->v, paths->n, sizeof *paths->v);
        paths->v[paths->n++] = copy;
        return 0;
}

/* ---- the bytes of an input ---- */

/* The first and the last bytes of an input of any length. */
struct keep {
        char *head, *tail; /* tail: a ring */
        size_t n_head, room;
        uint64_t total;
};

static int keep_bytes(struct keep *k, const char *bytes, size_t n)
{
        size_t part = HEAD_BYTES - k->n_head < n ? HEAD_BYTES - k->n_head : n;

        if (k->n_head + part >= k->room) {
                size_t room = 2 * (k->n_head + part) + 1;
                char *larger = xrealloc(k->head, room);

                k->head = larger;
                k->room = room;
        }
        memcpy(k->head + k->n_head, bytes, part);
        k->n_head += part;
        k->total += part;
        if (part < n && !k->tail && !(k->tail = xmalloc(TAIL_BYTES)))
                return -ENOMEM;
        for (size_t at; part < n; part += at, k->total += at) {
                size_t place = (size_t)(k->total - HEAD_BYTES) % TAIL_BYTES;

                at = TAIL_BYTES - place < n - part ? TAIL_BYTES - place : n - part;
                memcpy(k->tail + place, bytes + part, at);
        }
        return 0;
}

/* What was kept, with a 0 behind it. Return: 0; 1: its middle is left out; -ENOMEM. */
static int give_kept(struct keep *k, char **text, size_t *size)
{
        uint64_t behind = k->total - k->n_head;
        size_t n = (size_t)(behind < TAIL_BYTES ? behind : TAIL_BYTES),
               first = behind > TAIL_BYTES ? (size_t)(behind % TAIL_BYTES) : 0;
        char *all = xrealloc(k->head, k->n_head + n + 1);

        if (n) { /* a short input has no tail */
                memcpy(all + k->n_head, k->tail + first, n - first);
                memcpy(all + k->n_head + n - first, k->tail, first);
        }
        all[k->n_head + n] = 0;
        k->head = NULL;
        *text = all;
        *size = k->n_head + n;
        return behind > TAIL_BYTES;
}

/* @ended: whether the bytes so far are whole. */
static int inflate_bytes(z_stream *z, const char *in, size_t n, struct keep *k, char *out,
                         bool *ended)
{
        int r = *ended ? Z_STREAM_END : Z_OK;

        z->next_in = (Bytef *)(uintptr_t)in;
        z->avail_in = (uInt)n;
        do {
                z->next_out = (Bytef *)out;
                z->avail_out = CHUNK;
                if (r == Z_STREAM_END) /* another member follows */
                        inflateReset(z);
                r = inflate(z, Z_NO_FLUSH);
                if (keep_bytes(k, out, CHUNK - z->avail_out) < 0)
                        return -ENOMEM;
        } while ((r == Z_OK || r == Z_STREAM_END) && (z->avail_in || !z->avail_out));
        *ended = r == Z_STREAM_END;
        return r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR ? 0 : -EBADMSG;
}

static int expand_bytes(ZSTD_DStream *z, const char *in, size_t n, struct keep *k, char *out,
                        bool *ended)
{
        ZSTD_inBuffer from = {in, n, 0};
        size_t left;

        for (ZSTD_outBuffer to = {out, CHUNK, CHUNK}; from.pos < n || to.pos == CHUNK;) {
                to.pos = 0;
                left = ZSTD_decompressStream(z, &to, &from);
                if (ZSTD_isError(left))
                        return -EBADMSG;
                *ended = !left;
                if (keep_bytes(k, out, to.pos) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Read all of @fd, through the library of its compression. Return: 0; -EBADMSG: damaged; -errno. */
static int read_all(int fd, struct keep *k, char *in, char *out)
{
        z_stream gzip = {0};
        ZSTD_DStream *zstd = NULL;
        bool zipped = false, first = true, ended = false;
        ssize_t n;
        int r = 0;

        while (r == 0 && (n = read(fd, in, CHUNK)) != 0) {
                if (n < 0) {
                        r = errno == EINTR ? 0 : -errno;
                        continue;
                }
                if (first && n > 4 && !memcmp(in, "\x1f\x8b", 2))
                        zipped = inflateInit2(&gzip, 15 + 32) == Z_OK;
                else if (first && n > 4 && !memcmp(in, "\x28\xb5\x2f\xfd", 4))
                        zstd = ZSTD_createDStream();
                first = false;
                r = zipped ? inflate_bytes(&gzip, in, (size_t)n, k, out, &ended)
                    : zstd ? expand_bytes(zstd, in, (size_t)n, k, out, &ended)
                           : keep_bytes(k, in, (size_t)n);
        }
        if (r == 0 && (zipped || zstd) && !ended)
                r = -EBADMSG;
        if (zipped)
                inflateEnd(&gzip);
        ZSTD_freeDStream(zstd);
        return r;
}

/* Return: 0; 1: only part of it, which was said; -errno. */
static int read_input(const char *path, char **text, size_t *size)
{
        _cleanup_close_ int fd = strcmp(path, "-") ? capo_file_open(path) : dup(STDIN_FILENO);
        _cleanup_free_ char *in = xmalloc(CHUNK), *out = xmalloc(CHUNK);
        struct keep k = {0};
        int r = fd < 0      ? (fd == -1 ? -errno : fd)
                : in && out ? read_all(fd, &k, in, out)
                            : -ENOMEM,
            middle;

        if (r == -EBADMSG && k.total) {
                capo_warn("%s: truncated or damaged: only its first %llu bytes of text are read",
                          path, (unsigned long long)k.total);
                r = 0;
        }
        if (r == 0 && !k.head)
                k.head = xcalloc(1, 1);
        if (r == 0) {
                r = k.head ? give_kept(&k, text, size) : -ENOMEM;
                middle = r;
                if (middle > 0)
                        capo_warn(
                                "%s: %llu MiB of text: only its first %d and last %d MiB are read",
                                path, (unsigned long long)(k.total >> 20), HEAD_BYTES >> 20,
                                TAIL_BYTES >> 20);
        }
        free(k.head);
        free(k.tail);
        return r < 0 ? r : 0;
}

/* UTF-16 with its mark to UTF-8, in place: it is never longer. */
static void read_utf16(char *text, size_t *size)
{
        const uint8_t *from = (const uint8_t *)text;
        bool big = *size > 2 && from[0] == 0xfe && from[1] == 0xff;
        size_t n = 0;

        if (*size < 4 || (!big && (from[0] != 0xff || from[1] != 0xfe)))
                return;
        for (size_t i = 2; i + 1 < *size; i += 2) {
                unsigned c = big ? (unsigned)from[i] << 8 | from[i + 1]
                                 : (unsigned)from[i + 1] << 8 | from[i];

                text[n++] = c && c < 0x80 ? (char)c : '?';
        }
        text[n] = 0;
        *size = n;
}

/* A file that is no text, in words with what to do; NULL: it may be text. */
static const char *name_binary(const char *text, size_t size)
{
        static const struct {
                const char *begin, *words;
        } kinds[] = {
                {"\x89PNG", "a picture (PNG): copy its text into a file"},
                {"\xff\xd8\xff", "a picture (JPEG): copy its text into a file"},
                {"GIF8", "a picture (GIF): copy its text into a file"},
                {"%PDF-", "a PDF: pdftotext FILE makes a text of it"},
                {"PK\x03\x04", "a ZIP archive: unzip it first"},
                {"\xfd"
                 "7zXZ",
                 "compressed by xz: xz -d it first"},
                {"BZh", "compressed by bzip2: bzip2 -d it first"},
                {"SQLite format 3", "an SQLite database (nsys?): export its text first"},
                {"\x7f"
                 "ELF",
                 "a program or a core file: gdb PROGRAM CORE, then bt"},
        };

        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                size_t n = strlen(kinds[i].begin);

                if (size >= n && !memcmp(text, kinds[i].begin, n))
                        return kinds[i].words;
        }
        return size > 262 && !memcmp(text + 257, "ustar", 5) ? "a tar archive: tar -x it first"
                                                             : NULL;
}

/* ---- dumps ---- */

/* Convert a recorder's pickle to JSON with the same name and time. */
static int add_pickle(struct diagnose_inputs *in, const char *path, const char *text, size_t size)
{
        _cleanup_free_ char *json = NULL, *copy = NULL;
        _cleanup_fclose_ FILE *out = NULL;
        char why[200];
        struct stat st;
        int r = capo_pickle_json(text, size, &json, why, sizeof why);

        if (r < 0) {
                capo_warn("left out %s: %s", path, why);
                return r == -ENOMEM ? r : 0;
        }
        if (!*in->folder) {
                SAY(in->folder, "/tmp/capo-diagnose-XXXXXX");
                if (!mkdtemp(in->folder)) {
                        *in->folder = 0;
                        capo_warn("left out %s: no folder in /tmp: %s", path, strerror(errno));
                        return 0;
                }
        }
        copy = xprintf("%s/%zu-%s", in->folder, in->flight.n, capo_base_name(path));
        out = fopen(copy, "w");
        if (!out || fputs(json, out) == EOF || fflush(out) == EOF) {
                capo_warn("left out %s: %s: %s", path, copy, strerror(errno));
                return 0;
        }
        if (stat(path, &st) == 0)
                futimens(fileno(out), (struct timespec[2]){st.st_atim, st.st_mtim});
        r = capo_evidence_add(&in->evidence, path, NULL);
        if (r < 0)
                return r;
        in->evidence.texts[r].n[CAPO_EVIDENCE_FLIGHT] = 1;
        return add_path(&in->flight, copy);
}

/* By words near its begin: a dump may be long, or cut. */
static enum capo_evidence_kind kind_of_json(const char *text)
{
        json_t *doc;
        enum capo_evidence_kind kind = CAPO_EVIDENCE_UNKNOWN;

        if (!strstr(text, "\"entries\"") && !strstr(text, "\"pg_config\"") &&
            !strstr(text, "\"communicators\""))
                return kind;
        doc = json_loads(text, 0, NULL);
        if (json_is_array(json_object_get(doc, "entries")) ||
            json_is_object(json_object_get(doc, "pg_config")))
                kind = CAPO_EVIDENCE_FLIGHT;
        else if (json_is_array(json_object_get(doc, "communicators")))
                kind = CAPO_EVIDENCE_RAS;
        json_decref(doc);
        return kind;
}

/* RAS's answer from its first line on; text of a terminal before it stays a text. */
static char *ras_begin(char *text)
{
        char *summary = strstr(text, "\nJob summary"), *version = NULL;

        if (!summary || !strstr(summary, "Communicators..."))
                return NULL;
        for (char *p = text; (p = strstr(p, "NCCL version ")) && p < summary; p++)
                version = p;
        return version;
}

static int add_ras(struct diagnose_inputs *in, const char *path, char *text)
{
        _cleanup_free_ char *answer = text;
        int n = capo_evidence_add(&in->evidence, path, NULL);

        if (n < 0)
                return n;
        in->evidence.texts[n].n[CAPO_EVIDENCE_RAS] = 1;
        diagnose_ras(&in->evidence, answer, (uint32_t)n);
        return 0;
}

/* ---- what capo wrote ---- */

/* Add the verdict of a page of capo hang, report or check that was kept as text. Return: 1: it is one;
 * 0: it is not; -ENOMEM. */
static int add_page(struct diagnose_inputs *in, const char *path, const char *text)
{
        static const struct {
                const char *begin, *kind;
        } pages[] = {
                {"capo hang  ", "hang"}, {"capo report   ", "report"}, {"capo check", "check"}};
        struct capo_diagnose_finding *f;
        const char *line, *next = strstr(text, "\nNEXT");
        size_t i = 0;
        int r;

        while (i < N_ELEMENTS(pages) && strncmp(text, pages[i].begin, strlen(pages[i].begin)) != 0)
                i++;
        if (i == N_ELEMENTS(pages))
                return 0;
        line = strstr(text, "\n! ") ?: strstr(text, "\nNOT READY") ?: strchr(text, '\n');
        line = line ? line + 1 + 2 * !strncmp(line, "\n! ", 3) : text;
        r = capo_evidence_add(&in->evidence, path, NULL);
        f = r < 0 ? NULL : capo_evidence_finding(&in->evidence);
        if (!f)
                return -ENOMEM;
        in->evidence.texts[r].n[CAPO_EVIDENCE_LOG] = 1;
        capo_finding_mark(f, (struct capo_evidence_mark){(uint32_t)r, 0});
        f->kind = pages[i].kind;
        f->rank = strncmp(line, "NOTHING HUNG", 12) && strncmp(line, "NOTHING HANGS", 13) &&
                                  strncmp(line, "READY", 5) && (i != 1 || line[-1] == ' ')
                          ? !strncmp(line, "UNDECIDED", 9) || !strncmp(line, "NOT DECIDED", 11)
                                    ? CAPO_RANK_UNDECIDED
                            : i == 1 ? CAPO_RANK_SLOW
                                     : CAPO_RANK_HANG
                          : CAPO_RANK_HEALTHY;
        SAY(f->headline, "capo %s SAYS: ", pages[i].kind);
        if (i == 1 && f->rank == CAPO_RANK_HEALTHY)
                ADD(f->headline, "no problem");
        else
                capo_quote(line, f->headline + strlen(f->headline),
                           sizeof f->headline - strlen(f->headline));
        if (next)
                capo_quote(next + 5 + strspn(next + 5, " "), f->next, sizeof f->next);
        return 1;
}

/* The same of the JSON of capo hang. */
static int add_page_json(struct diagnose_inputs *in, const char *path, const char *text)
{
        json_t *doc = strstr(text, "\"capo_hang\"") ? json_loads(text, 0, NULL) : NULL, *one;
        const char *kind = json_string_value(json_object_get(doc, "verdict"));
        struct capo_diagnose_finding *f;
        char who[128];
        size_t i;
        int r;

        if (!kind) {
                json_decref(doc);
                return 0;
        }
        r = capo_evidence_add(&in->evidence, path, NULL);
        f = r < 0 ? NULL : capo_evidence_finding(&in->evidence);
        if (f) {
                in->evidence.texts[r].n[CAPO_EVIDENCE_LOG] = 1;
                capo_finding_mark(f, (struct capo_evidence_mark){(uint32_t)r, 0});
                json_array_foreach(json_object_get(doc, "culprits"), i, one) capo_finding_rank_add(
                        f, (int32_t)json_integer_value(json_object_get(one, "rank")));
                f->kind = "hang";
                f->rank = !strcmp(kind, "healthy")     ? CAPO_RANK_HEALTHY
                          : !strcmp(kind, "undecided") ? CAPO_RANK_UNDECIDED
                                                       : CAPO_RANK_HANG;
                SAY(f->headline, "capo hang SAYS: %.60s%s%s", kind, f->n_ranks ? ", " : "",
                    f->n_ranks ? capo_rank_list(f->ranks, f->n_ranks, who) : "");
                SAY(f->next, "capo hang of the same logs: its page says what to do");
        }
        json_decref(doc);
        return f ? 1 : -ENOMEM;
}

/* ---- one file ---- */

static int take_log(struct diagnose_inputs *in, const char *path)
{
        int r = capo_evidence_add(&in->evidence, path, NULL);

        if (r < 0)
                return r;
        in->evidence.texts[r].n[CAPO_EVIDENCE_LOG] = 1;
        return add_path(&in->logs, path);
}

static int take_bytes(struct diagnose_inputs *in, const char *path, char *text, size_t size)
{
        enum capo_evidence_kind kind = CAPO_EVIDENCE_UNKNOWN;
        const char *begin = text + strspn(text, " \r\n\t");
        char *answer;
        int r;

        if (size >= 8 && !memcmp(text, CAPO_LOG_MAGIC, 8)) {
                free(text);
                return take_log(in, path);
        }
        if (size > 2 && (uint8_t)text[0] == 0x80 && text[1] >= 2 && text[1] <= 5) {
                r = add_pickle(in, path, text, size);
                free(text);
                return r;
        }
        for (size_t i = 0; i < size; i++) /* searches end at a 0 */
                text[i] = text[i] ? text[i] : '?';
        r = *begin == '{' ? add_page_json(in, path, text) : add_page(in, path, begin);
        if (r) {
                free(text);
                return r < 0 ? r : 0;
        }
        if (*begin == '{')
                kind = kind_of_json(text);
        if (kind == CAPO_EVIDENCE_FLIGHT && strcmp(path, "-") != 0) {
                free(text);
                r = capo_evidence_add(&in->evidence, path, NULL);
                if (r < 0)
                        return r;
                in->evidence.texts[r].n[kind] = 1;
                return add_path(&in->flight, path);
        }
        if (kind == CAPO_EVIDENCE_RAS)
                return add_ras(in, path, text);
        answer = ras_begin(text);
        if (answer == text)
                return add_ras(in, path, text);
        if (answer) {
                char *copy = xstrdup(answer);

                r = copy ? add_ras(in, path, copy) : -ENOMEM;
                *answer = 0;
                if (r < 0) {
                        free(text);
                        return r;
                }
        }
        r = capo_evidence_add(&in->evidence, path, text);
        if (r >= 0 && in->evidence.texts[r].records.n_cut_lines)
                capo_warn("%s: %u line%s longer than 64 KiB: only the begin of each is read", path,
                          in->evidence.texts[r].records.n_cut_lines,
                          in->evidence.texts[r].records.n_cut_lines == 1 ? " is" : "s are");
        return r < 0 ? r : 0;
}

static int take_path(struct diagnose_inputs *in, const char *path, int depth);

static int take_folder(struct diagnose_inputs *in, const char *path, int depth)
{
        struct dirent **names = NULL;
        int n = scandir(path, &names, NULL, alphasort), r = 0;

        if (n < 0) {
                r = -errno;
                capo_warn("left out %s: %s", path, strerror(-r));
                return r == -ENOMEM ? r : 0;
        }
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *one = NULL;

                if (*names[i]->d_name != '.' && r == 0)
                        r = asprintf(&one, "%s/%s", path, names[i]->d_name) < 0
                                    ? -ENOMEM
                                    : take_path(in, one, depth + 1);
                free(names[i]);
        }
        free(names);
        return r;
}

static int take_path(struct diagnose_inputs *in, const char *path, int depth)
{
        const char *binary;
        struct stat st;
        bool known = strcmp(path, "-") != 0 && stat(path, &st) == 0;
        char *text = NULL;
        size_t size = 0;
        int r;

        if (known && S_ISDIR(st.st_mode))
                return depth < MOST_DEPTH ? take_folder(in, path, depth) : 0;
        if (known && depth && !S_ISREG(st.st_mode)) /* reading a broken link reports the error */
                return 0;
        if (capo_pack_is_name(path)) { /* logs packed by capo pack */
                in->n_files++;
                return take_log(in, path);
        }
        r = capo_file_is_fifo(path) ? -ESPIPE : read_input(path, &text, &size);
        if (r < 0) {
                capo_warn("left out %s: %s", path,
                          r == -EBADMSG  ? "truncated or damaged, nothing can be decompressed"
                          : r == -ESPIPE ? "a named pipe, not a regular file"
                                         : strerror(-r));
                return r == -ENOMEM ? r : 0;
        }
        binary = name_binary(text, size);
        if (binary)
                capo_warn("not read: %s is %s", path, binary);
        read_utf16(text, &size);
        in->n_files++;
        return take_bytes(in, path, text, size);
}

int diagnose_read(struct diagnose_inputs *in, int n, char **words)
{
        int r = 0;

        for (int i = 0; i < n && r == 0; i++)
                r = take_path(in, words[i], 0);
        if (r == 0 && !in->n_files)
                r = n == 1 ? capo_fail(-ENOENT, "%s: nothing could be read", words[0])
                           : capo_fail(-ENOENT, "nothing could be read in %d inputs", n);
        return r;
}

void diagnose_finish(struct diagnose_inputs *in)
{
        for (size_t i = 0; i < in->flight.n; i++) {
                if (*in->folder && !strncmp(in->flight.v[i], in->folder, strlen(in->folder)))
                        unlink(in->flight.v[i]);
                free(in->flight.v[i]);
        }
        for (size_t i = 0; i < in->logs.n; i++)
                free(in->logs.v[i]);
        free(in->flight.v);
        free(in->logs.v);
        if (*in->folder)
                rmdir(in->folder);
        capo_evidence_finish(&in->evidence);
}
