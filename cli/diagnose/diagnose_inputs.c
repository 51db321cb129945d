/* SPDX-License-Identifier: Apache-2.0 */
/* Reads folders, compressed files, dumps and texts; the kind of each is detected by its content. An
 * input of any length takes a bounded memory. */
#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "capo/log_layout.h"
#include "capo/msg.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "analysis/log/pack.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/pickle.h"

/* What is kept of an input: 88 MiB; with the text made of it the memory stays below 256. */
enum {
        MOST_DEPTH = 4,
        CHUNK = 1 << 18,
        HEAD_BYTES = 24 << 20,
        TAIL_BYTES = 64 << 20,
        HEAD_LINES = 500000, /* the rest of MOST_LINES are the last ones */
        MOST_LINES = 2000000,
};

/* An input that another reader has, or had. Return: its index. */
static uint32_t add_other(struct diagnose_inputs *in, const char *path,
                          enum capo_evidence_kind kind)
{
        uint32_t n = capo_evidence_add(&in->evidence, path, NULL);

        in->evidence.texts[n].n[kind] = 1;
        return n;
}

/* ---- the bytes of an input ---- */

/* The first and the last bytes of an input of any length. */
struct keep {
        char *head, *tail; /* tail: a ring */
        size_t n_head, room;
        uint64_t total, lines; /* lines: newlines in all of it */
        uint32_t gap;          /* the line behind which some are left out; 0: none */
};

static uint64_t count_lines(const char *text, size_t n)
{
        uint64_t lines = 0;

        for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + n - at))); at++)
                lines++;
        return lines;
}

static void keep_bytes(struct keep *k, const char *bytes, size_t n)
{
        size_t part = HEAD_BYTES - k->n_head < n ? HEAD_BYTES - k->n_head : n;

        k->lines += count_lines(bytes, n);
        if (k->n_head + part >= k->room) {
                k->room = 2 * (k->n_head + part) + 1;
                k->head = xrealloc(k->head, k->room);
        }
        memcpy(k->head + k->n_head, bytes, part);
        k->n_head += part;
        k->total += part;
        if (part < n && !k->tail)
                k->tail = xmalloc(TAIL_BYTES);
        for (size_t at; part < n; part += at, k->total += at) {
                size_t place = (size_t)(k->total - HEAD_BYTES) % TAIL_BYTES;

                at = TAIL_BYTES - place < n - part ? TAIL_BYTES - place : n - part;
                memcpy(k->tail + place, bytes + part, at);
        }
}

/* Leave out @text's bytes from @from up to @to, and of the many lines the middle ones. @k->lines is
 * then the number of lines that are left out. Return: its new size. */
static size_t cut_middle(struct keep *k, char *text, size_t size, size_t from, size_t to)
{
        uint64_t n = count_lines(text, size), first = 0;

        if (n > MOST_LINES) {
                const char *at = text, *end;

                for (; first < HEAD_LINES && at < text + from; first++)
                        at = (const char *)memchr(at, '\n', (size_t)(text + size - at)) + 1;
                end = at;
                for (n -= first; n > MOST_LINES - HEAD_LINES; n--)
                        end = (const char *)memchr(end, '\n', (size_t)(text + size - end)) + 1;
                from = (size_t)(at - text) < from ? (size_t)(at - text) : from;
                to = (size_t)(end - text) > to ? (size_t)(end - text) : to;
        }
        text[from - 1] = '\n'; /* no line of two parts */
        k->gap = (uint32_t)count_lines(text, from);
        k->lines -= count_lines(text + to, size - to) + k->gap;
        memmove(text + from, text + to, size - to + 1);
        return from + size - to;
}

/* What was kept, with a 0 behind it. */
static void give_kept(struct keep *k, const char *path, char **text, size_t *size)
{
        uint64_t behind = k->total - k->n_head;
        size_t n = (size_t)(behind < TAIL_BYTES ? behind : TAIL_BYTES),
               first = behind > TAIL_BYTES ? (size_t)(behind % TAIL_BYTES) : 0;
        char *all = xrealloc(k->head, k->n_head + n + 1);

        if (n) { /* a short input has no tail */
                memcpy(all + k->n_head, k->tail + first, n - first);
                memcpy(all + k->n_head + n - first, k->tail, first);
        }
        free(k->tail);
        k->tail = NULL;
        all[k->n_head + n] = 0;
        k->head = NULL;
        *text = all;
        *size = k->n_head + n;
        if (behind > TAIL_BYTES)
                *size = cut_middle(k, all, *size, k->n_head, k->n_head);
        else if (k->lines > MOST_LINES)
                *size = cut_middle(k, all, *size, *size, 0);
        if (!k->gap)
                return;
        capo_warn(
                "%s: %llu MiB of text: its first %u lines and its last %zu MiB at most are read, %llu lines between are left out",
                path, (unsigned long long)(k->total >> 20), k->gap, (size_t)TAIL_BYTES >> 20,
                (unsigned long long)k->lines);
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
                keep_bytes(k, out, CHUNK - z->avail_out);
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
                keep_bytes(k, out, to.pos);
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
                if (zipped)
                        r = inflate_bytes(&gzip, in, (size_t)n, k, out, &ended);
                else if (zstd)
                        r = expand_bytes(zstd, in, (size_t)n, k, out, &ended);
                else
                        keep_bytes(k, in, (size_t)n);
        }
        if (r == 0 && (zipped || zstd) && !ended)
                r = -EBADMSG;
        if (zipped)
                inflateEnd(&gzip);
        ZSTD_freeDStream(zstd);
        return r;
}

/* Return: 0; 1: only part of it, which was said; -errno. */
static int read_input(const char *path, struct keep *k, char **text, size_t *size)
{
        _cleanup_close_ int fd = strcmp(path, "-") ? capo_file_open(path) : dup(STDIN_FILENO);
        _cleanup_free_ char *in = xmalloc(CHUNK), *out = xmalloc(CHUNK);
        int r = fd >= 0 ? read_all(fd, k, in, out) : fd == -1 ? -errno : fd;

        if (r == -EBADMSG && k->total) {
                capo_warn("%s: truncated or damaged: only its first %llu bytes of text are read",
                          path, (unsigned long long)k->total);
                r = 0;
        }
        if (r == 0)
                give_kept(k, path, text, size);
        free(k->head);
        free(k->tail);
        return r;
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
static void add_pickle(struct diagnose_inputs *in, const char *path, const char *text, size_t size)
{
        _cleanup_free_ char *json = NULL, *copy = NULL;
        _cleanup_fclose_ FILE *out = NULL;
        char why[200];
        struct stat st;
        int r = capo_pickle_json(text, size, &json, why, sizeof why);

        if (r < 0) {
                capo_warn("left out %s: %s", path, why);
                return;
        }
        if (!*in->folder) {
                SAY(in->folder, "%s/capo-diagnose-XXXXXX", capo_file_temp_folder());
                if (!mkdtemp(in->folder)) {
                        *in->folder = 0;
                        capo_warn("left out %s: no folder in %s: %s", path, capo_file_temp_folder(),
                                  strerror(errno));
                        return;
                }
        }
        copy = xprintf("%s/%zu-%s", in->folder, in->flight.n, capo_base_name(path));
        out = fopen(copy, "w");
        if (!out || fputs(json, out) == EOF || fflush(out) == EOF) {
                capo_warn("left out %s: %s: %s", path, copy, strerror(errno));
                return;
        }
        if (stat(path, &st) == 0)
                futimens(fileno(out), (struct timespec[2]){st.st_atim, st.st_mtim});
        add_other(in, path, CAPO_EVIDENCE_FLIGHT);
        *xadd(in->flight.v, in->flight.n) = xstrdup(copy);
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

static void add_ras(struct diagnose_inputs *in, const char *path, char *text)
{
        diagnose_ras(&in->evidence, text, add_other(in, path, CAPO_EVIDENCE_RAS));
        free(text);
}

/* ---- what capo wrote ---- */

static const char WENT_ON[] = "WENT ON: ranks made progress again, that hang was over";

/* A finding that quotes @said. */
static void add_own(struct diagnose_inputs *in, const char *path, const char *verb,
                    const char *said, const char *next)
{
        uint32_t n = add_other(in, path, CAPO_EVIDENCE_PAGE);
        bool fine = capo_line_has(said, "NOTHING HUNG|NOTHING HANGS|healthy"),
             open = capo_line_has(said, "UNDECIDED|NOT DECIDED|undecided|no problem|WENT ON") ||
                    !strncasecmp(said, "ready", 5);
        struct capo_diagnose_finding *f;

        f = capo_evidence_finding(&in->evidence);
        capo_finding_mark(f, (struct capo_evidence_mark){n, 0});
        capo_finding_is(f,
                        fine                      ? CAPO_RANK_HEALTHY
                        : open                    ? CAPO_RANK_UNDECIDED
                        : !strcmp(verb, "report") ? CAPO_RANK_SLOW
                                                  : CAPO_RANK_HANG,
                        verb, open ? "unsure" : "likely");
        f->measured = true;
        SAY(f->headline, "capo %s SAYS: ", verb);
        capo_quote(said, f->headline + strlen(f->headline),
                   sizeof f->headline - strlen(f->headline));
        capo_quote(next, f->next, sizeof f->next);
}

/* In place: a page without the marks of Markdown; @join: each paragraph in one line. */
static void join_page(char *text, bool join)
{
        char *to = text;

        for (const char *at = text; *at; at++) {
                if (*at == '\\' && ispunct((unsigned char)at[1]))
                        at++;
                else if (!strncmp(at, "**", 2) || !strncmp(at, "> ", 2) || !strncmp(at, "##", 2) ||
                         !strncmp(at, "* ", 2)) {
                        at += 1 + strspn(at + 2, " ");
                        continue;
                }
                if (join && !strncmp(at, "\n  ", 3) && at[3] > ' ' && at[3] != '*')
                        at += 2, *to++ = ' ';
                else
                        *to++ = *at;
        }
        *to = 0;
}

/* Add the verdict of a page of capo hang, report or check. Return: is it one? */
static bool add_page(struct diagnose_inputs *in, const char *path, const char *text)
{
        static const char *const verbs[] = {"hang", "report", "check"};
        bool of_check = capo_line_has(text, "ok    |note  |warn  |FAIL  ") &&
                        (strstr(text, "\nREADY: ") || strstr(text, "\nNOT READY: "));
        const char *title = text + strspn(text, "# "), *verb = of_check ? verbs[2] : NULL, *said,
                   *next;
        _cleanup_free_ char *page = NULL;

        for (size_t i = 0; i < N_ELEMENTS(verbs) && !strncmp(title, "capo ", 5) && !verb; i++) {
                if (!strncmp(title + 5, verbs[i], strlen(verbs[i])) &&
                    !strncmp(title + 5 + strlen(verbs[i]), "  ", 2))
                        verb = verbs[i];
        }
        if (!verb)
                return false;
        page = xstrdup(text);
        join_page(page, verb == verbs[1]);
        next = strstr(page, "\nNEXT");
        said = strstr(page, verb == verbs[2] ? "FAIL  " : "\n! ") ?: strstr(page, "\nproblem:");
        if (!said && verb == verbs[2])
                said = strstr(page, "READY: ");
        else if (!said && verb == verbs[0])
                said = strchr(page, '\n');
        if (verb != verbs[1] && !said) /* its first line alone says nothing */
                return false;
        said = said ? said + strspn(said, "\n! ") : "no problem";
        said += strncmp(said, "problem:", 8) ? 0 : 8;
        add_own(in, path, verb, strstr(page, "\nWENT ON") ? WENT_ON : said,
                next ? next + 5 + strspn(next + 5, " ") : "");
        return true;
}

/* The same of the JSON of capo hang, report and check. */
static bool add_page_json(struct diagnose_inputs *in, const char *path, const char *text)
{
        bool ours = strstr(text, "\"capo_hang\"") || strstr(text, "\"capo_report\"") ||
                    strstr(text, "\"capo_check\"");
        json_t *doc = ours ? json_loads(text, 0, NULL) : NULL, *one,
               *problems = json_object_get(doc, "problems");
        const char *kind = json_string_value(json_object_get(doc, "verdict")), *problem;
        struct capo_diagnose_finding who = {.n_ranks = 0};
        char list[128] = "", said[400];
        size_t i;

        json_array_foreach(json_object_get(doc, "culprits"), i, one) capo_finding_rank_add(
                &who, (int32_t)json_integer_value(json_object_get(one, "rank")));
        problem = json_string_value(json_array_get(problems, 0));
        if (who.n_ranks)
                capo_rank_list(who.ranks, who.n_ranks, list);
        SAY(said, "%.60s%s%s", kind ? kind : "", *list ? ", " : "", list);
        if (json_object_get(doc, "capo_check") && kind)
                add_own(in, path, "check", said, "capo check of that machine: its FAIL lines");
        else if (kind)
                add_own(in, path, "hang", json_object_get(doc, "went_on") ? WENT_ON : said,
                        "capo hang of the same logs: its page says what to do");
        else if (json_is_array(problems))
                add_own(in, path, "report", problem ? problem : "no problem",
                        "capo report of the same logs: its page says what to do");
        ours = kind || json_is_array(problems);
        json_decref(doc);
        if (who.n_ranks && in->evidence.n_findings) {
                struct capo_diagnose_finding *f =
                        &in->evidence.findings[in->evidence.n_findings - 1];

                memcpy(f->ranks, who.ranks, sizeof f->ranks);
                f->n_ranks = who.n_ranks;
        }
        return ours;
}

/* ---- one file ---- */

static void take_log(struct diagnose_inputs *in, const char *path)
{
        add_other(in, path, CAPO_EVIDENCE_LOG);
        *xadd(in->logs.v, in->logs.n) = xstrdup(path);
}

static void add_text(struct diagnose_inputs *in, const char *path, char *text, const struct keep *k)
{
        uint32_t n = capo_evidence_add(&in->evidence, path, text);
        struct capo_records *records = &in->evidence.texts[n].records;

        if (records->n_cut_lines)
                capo_warn("%s: %u line%s longer than 64 KiB: only the begin of each is read", path,
                          records->n_cut_lines, records->n_cut_lines == 1 ? " is" : "s are");
        for (uint32_t i = 0; i < records->n && k->gap; i++)
                records->v[i].line += records->v[i].line > k->gap ? (uint32_t)k->lines : 0;
}

static void take_bytes(struct diagnose_inputs *in, const char *path, char *text, size_t size,
                       const struct keep *k)
{
        enum capo_evidence_kind kind = CAPO_EVIDENCE_UNKNOWN;
        const char *begin = text + strspn(text, " \r\n\t");
        char *answer;

        if (size >= 8 && !memcmp(text, CAPO_LOG_MAGIC, 8)) {
                take_log(in, path);
                free(text);
                return;
        }
        if (size > 2 && (uint8_t)text[0] == 0x80 && text[1] >= 2 && text[1] <= 5) {
                add_pickle(in, path, text, size);
                free(text);
                return;
        }
        for (size_t i = 0; i < size; i++) /* searches end at a 0 */
                text[i] = text[i] ? text[i] : '?';
        if (*begin == '{' ? add_page_json(in, path, text) : add_page(in, path, begin)) {
                free(text);
                return;
        }
        if (*begin == '{')
                kind = kind_of_json(text);
        answer = kind == CAPO_EVIDENCE_RAS ? text : ras_begin(text);
        if (kind == CAPO_EVIDENCE_FLIGHT && strcmp(path, "-") != 0) {
                add_other(in, path, kind);
                *xadd(in->flight.v, in->flight.n) = xstrdup(path);
                free(text);
        } else if (answer == text) {
                add_ras(in, path, text);
        } else {
                if (answer) {
                        add_ras(in, path, xstrdup(answer));
                        *answer = 0;
                }
                add_text(in, path, text, k);
        }
}

static void take_path(struct diagnose_inputs *in, const char *path, int depth);

static void take_folder(struct diagnose_inputs *in, const char *path, int depth)
{
        struct dirent **names = NULL;
        int n = scandir(path, &names, NULL, alphasort);

        if (n < 0)
                capo_warn("left out %s: %s", path, strerror(errno));
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *one = xprintf("%s/%s", path, names[i]->d_name);

                if (*names[i]->d_name != '.')
                        take_path(in, one, depth + 1);
                free(names[i]);
        }
        free(names);
}

static void take_path(struct diagnose_inputs *in, const char *path, int depth)
{
        const char *binary;
        struct stat st;
        bool known = strcmp(path, "-") != 0 && stat(path, &st) == 0;
        struct keep k = {0};
        char *text = NULL;
        size_t size = 0;
        int r;

        if (known && S_ISDIR(st.st_mode)) {
                if (depth < MOST_DEPTH)
                        take_folder(in, path, depth);
                return;
        }
        if (known && depth && !S_ISREG(st.st_mode)) /* reading a broken link reports the error */
                return;
        if (capo_pack_is_name(path)) { /* logs packed by capo pack */
                in->n_files++;
                take_log(in, path);
                return;
        }
        r = read_input(path, &k, &text, &size);
        if (r < 0) {
                capo_warn("left out %s: %s", path,
                          r == -EBADMSG  ? "truncated or damaged, nothing can be decompressed"
                          : r == -ESPIPE ? "a named pipe, not a regular file"
                                         : strerror(-r));
                return;
        }
        binary = name_binary(text, size);
        if (binary)
                capo_warn("not read: %s is %s", path, binary);
        read_utf16(text, &size);
        in->n_files++;
        take_bytes(in, path, text, size, &k);
}

int diagnose_read(struct diagnose_inputs *in, int n, char **words)
{
        for (int i = 0; i < n; i++)
                take_path(in, words[i], 0);
        if (in->n_files)
                return 0;
        return n == 1 ? capo_fail(-ENOENT, "%s: nothing could be read", words[0])
                      : capo_fail(-ENOENT, "nothing could be read in %d inputs", n);
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
