/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/diagnose/records.h"
#include "core/base/xalloc.h"

enum {
        LINE_MOST = 1 << 16, /* bytes that are kept of a line */
        PREFIX_MOST = 128,
        MOST_RANKS = 1 << 20,
        MOST_ATTEMPTS = 1000,
        LAST_LABELS = 2,
};

struct maker {
        struct capo_records *r;
        size_t room;
        uint32_t line;    /* of the input */
        uint16_t pod;     /* from the answer of a log store; 0: none */
        uint16_t attempt; /* so far */
        bool began;       /* a rank or NCCL printed something since the attempt began */
};

/* ---- ranks ---- */

int32_t capo_line_rank(const char *line)
{
        static const char *const marks[] = {"[rank", "[Rank ", "rank: ", "process rank "};
        size_t size = strcspn(line, "\n");

        for (size_t i = 0; i < N_ELEMENTS(marks); i++) {
                size_t n = strlen(marks[i]);

                for (const char *at = line;
                     (at = memmem(at, size - (size_t)(at - line), marks[i], n));) {
                        char *end;
                        long rank;

                        at += n;
                        if (at - line >= 12 && !strncmp(at - 12, "local_", 6))
                                continue; /* a number within a node, not within the job */
                        rank = strtol(at, &end, 10);
                        if (end != at && rank >= 0 && rank < MOST_RANKS)
                                return (int32_t)rank;
                }
        }
        return -1;
}

/* The number in the line's label of @kind: " 8: " of srun -l, "[8] " of mpiexec -l,
 * "[1,8]<stderr>:" of mpirun; -1: no label. */
static int32_t read_label(enum capo_line_label kind, const char *line)
{
        const char *at = line + strspn(line, " ");
        char *end;
        long n;

        if (kind != CAPO_LABEL_SRUN && *at++ != '[')
                return -1;
        if (kind == CAPO_LABEL_MPIRUN) {
                at += strcspn(at, ",]\n");
                if (*at++ != ',')
                        return -1;
        }
        if (*at < '0' || *at > '9')
                return -1;
        n = strtol(at, &end, 10);
        if (n >= MOST_RANKS)
                return -1;
        if (kind == CAPO_LABEL_SRUN)
                return end[0] == ':' && strchr(" \r\n", end[1]) ? (int32_t)n : -1;
        if (kind == CAPO_LABEL_MPIRUN)
                return !strncmp(end, "]<std", 5) ? (int32_t)n : -1;
        return !strncmp(end, "] ", 2) ? (int32_t)n : -1;
}

/* Labels are ranks only if the whole text has them: at least half of its lines, not as consecutive
 * line numbers, and no line names another rank itself. */
static bool is_labelled(const char *text, enum capo_line_label kind)
{
        uint32_t n = 0, n_labels = 0, n_next = 0;
        int32_t last = -1;

        for (const char *line = text, *end; *line; line = end + (*end == '\n')) {
                int32_t label, said;

                end = line + strcspn(line, "\n");
                if (strspn(line, " \t\r") == (size_t)(end - line))
                        continue;
                n++;
                label = read_label(kind, line);
                if (label < 0)
                        continue;
                said = capo_line_rank(line);
                if (said >= 0 && said != label)
                        return false;
                n_labels++;
                n_next += label == last + 1;
                last = label;
        }
        return n_labels >= LAST_LABELS && n_labels >= n - n_labels && n_next + 1 < n_labels;
}

/* Under torchrun a label is a node. */
static enum capo_line_label find_label(const char *text)
{
        static const char *const launchers[] = {"torchrun", "torch.distributed.elastic",
                                                "torch/distributed/elastic",
                                                "torch.distributed.launch"};

        for (size_t i = 0; i < N_ELEMENTS(launchers); i++) {
                if (strstr(text, launchers[i]))
                        return CAPO_LABEL_NONE;
        }
        for (unsigned kind = CAPO_LABEL_SRUN; kind < CAPO_LABELS; kind++) {
                if (is_labelled(text, kind))
                        return kind;
        }
        return CAPO_LABEL_NONE;
}

int32_t capo_record_rank(const struct capo_records *r, const char *line)
{
        int32_t said = capo_line_rank(line);

        return said >= 0 || !r->label ? said : read_label(r->label, line);
}

/* ---- when ---- */

/* "E918 19:29:24.4", "E0824 17:02", "2025-06-09 10:26:31", "2026-08-27T10:40:11", "[1744102518.301442]". */
static int64_t read_time(const char *at, const char *line)
{
        unsigned year, month, day, h, m, s;
        char digits[8];
        size_t n;

        if (sscanf(at, "%4u-%2u-%2u%*1[T _]%2u:%2u:%2u", &year, &month, &day, &h, &m, &s) == 6 &&
            month >= 1 && month <= 12 && day >= 1 && day <= 31)
                return ((int64_t)month * 31 + day) * 86400 + h * 3600 + m * 60 + s;
        n = strspn(at, "0123456789");
        if (n == 2 && (at == line || at[-1] == ' ') && /* "INFO 10-27 16:21:47" */
            sscanf(at, "%2u%*1[-/]%2u %2u:%2u:%2u", &month, &day, &h, &m, &s) == 5 && month >= 1 &&
            month <= 12 && day >= 1 && day <= 31)
                return ((int64_t)month * 31 + day) * 86400 + h * 3600 + m * 60 + s;
        if (n == 10 && at == line + 1 && *line == '[' && at[n] == '.') /* since 1970 */
                return strtoll(at, NULL, 10);
        if (at == line || !strchr("EWIF", at[-1]) || n < 3 || n > 4 || at[n] != ' ')
                return -1;
        memcpy(digits, at, n);
        digits[n] = 0;
        day = (unsigned)strtoul(digits + n - 2, NULL, 10);
        digits[n - 2] = 0;
        month = (unsigned)strtoul(digits, NULL, 10);
        if (sscanf(at + n, " %2u:%2u:%2u", &h, &m, &s) != 3 || month < 1 || month > 12 || day < 1 ||
            day > 31)
                return -1;
        return ((int64_t)month * 31 + day) * 86400 + h * 3600 + m * 60 + s;
}

int64_t capo_record_when(const char *line)
{
        size_t size = strcspn(line, "\n");

        size = size < 200 ? size : 200;
        for (const char *at = line; at < PAST_OF(line, size); at++) {
                int64_t when;

                if (!isdigit((unsigned char)*at) || (at > line && isdigit((unsigned char)at[-1])))
                        continue;
                when = read_time(at, line);
                if (when >= 0)
                        return when;
        }
        return -1;
}

/* ---- pods and attempts ---- */

static uint16_t find_pod(struct maker *m, const char *name, size_t n)
{
        struct capo_records *r = m->r;

        n = n < CAPO_POD_NAME ? n : CAPO_POD_NAME - 1;
        for (uint32_t i = 0; i < r->n_pods && n; i++) {
                if (!strncmp(r->pods[i], name, n) && !r->pods[i][n])
                        return (uint16_t)(i + 1);
        }
        if (!n || r->n_pods == CAPO_PODS_MOST)
                return 0;
        xarray_room(&r->pods, r->n_pods, sizeof *r->pods);
        memcpy(r->pods[r->n_pods], name, n);
        r->pods[r->n_pods][n] = 0;
        return (uint16_t)++r->n_pods;
}

/* "[pod/NAME/CONTAINER] " of kubectl logs --prefix. */
static uint16_t prefix_pod(struct maker *m, const char *line, size_t size)
{
        const char *end = size > 5 && !strncmp(line, "[pod/", 5) ? memchr(line, ']', size) : NULL;

        return end ? find_pod(m, line + 5, strcspn(line + 5, "/]")) : m->pod;
}

static bool number_in(const char *line, size_t size, const char *word, unsigned long *out)
{
        const char *at = memmem(line, size, word, strlen(word));
        char *end;

        if (!at)
                return false;
        *out = strtoul(at + strlen(word), &end, 10);
        return end != at + strlen(word) && *out < MOST_ATTEMPTS;
}

/* Does a new attempt of the job begin with this line? Agents of several nodes print the same, so a
 * line with the attempt's number counts more than one without. */
static void read_attempt(struct maker *m, const char *line, size_t size)
{
        static const char *const begins[] = {"will restart worker group", "DUE TO JOB REQUEUE",
                                             "Restarting the job", "gang restart"};
        unsigned long n, of;
        const char *left;

        if (number_in(line, size, "restart_count=", &n) ||
            number_in(line, size, "RESTART_COUNT=", &n) ||
            number_in(line, size, "orker group restarts ", &n)) {
                m->attempt = n > m->attempt ? (uint16_t)n : m->attempt;
                m->began = false;
                return;
        }
        left = memmem(line, size, " attempts left; will restart", 28);
        if (left) {
                while (left > line && strchr("0123456789/", left[-1]))
                        left--;
                if (sscanf(left, "%lu/%lu", &n, &of) == 2 && of >= n && of < MOST_ATTEMPTS) {
                        n = of - n + 1;
                        m->attempt = n > m->attempt ? (uint16_t)n : m->attempt;
                        m->began = false;
                        return;
                }
        }
        for (size_t i = 0; i < N_ELEMENTS(begins); i++) {
                if (m->began && m->attempt < MOST_ATTEMPTS &&
                    memmem(line, size, begins[i], strlen(begins[i]))) {
                        m->attempt++;
                        m->began = false;
                        return;
                }
        }
        m->began |= size > 0;
}

/* ---- records ---- */

/* NCCL before 2.4 wrote "transport/p2p.cu:526 WARN" without its name. The text has room for it. */
static size_t name_library(char *line, size_t size)
{
        char *at = memmem(line, size, " WARN ", 6), *file;

        if (!at || memmem(line, size, " NCCL ", 6))
                return size;
        for (file = at; file > line && strchr("0123456789", file[-1]);)
                file--;
        if (file == at || file - line < 4 ||
            (strncmp(file - 4, ".cu:", 4) != 0 && strncmp(file - 3, ".h:", 3) != 0))
                return size;
        memmove(at + 5, at, (size_t)(line + size + 1 - at));
        memcpy(at, " NCCL", 5);
        return size + 5;
}

static void add_record(struct maker *m, const char *prefix, size_t n_prefix, const char *line,
                       size_t size, bool cut)
{
        struct capo_records *r = m->r;
        size_t need = r->size + n_prefix + size + 8, kept = 0;
        char *at;

        if (size > LINE_MOST) {
                size = LINE_MOST;
                r->n_cut_lines++;
        }
        if (need > m->room) {
                r->text = xrealloc(r->text, need + need / 2);
                m->room = need + need / 2;
        }
        xarray_room(&r->v, r->n, sizeof *r->v);
        at = r->text + r->size;
        memcpy(at, prefix, n_prefix);
        for (size_t i = 0; i < size; i++) { /* without the sequences that set colours */
                size_t n = line[i] == '\033' && i + 1 < size && line[i + 1] == '['
                                   ? 2 + strspn(line + i + 2, "0123456789;")
                                   : 0;

                if (n && i + n < size && isalpha((unsigned char)line[i + n]))
                        i += n;
                else
                        at[n_prefix + kept++] = line[i];
        }
        kept += n_prefix;
        at[kept] = 0;
        kept = name_library(at, kept);
        at[kept] = '\n';
        at[kept + 1] = 0;
        read_attempt(m, at, kept);
        r->v[r->n++] = (struct capo_record){.begin = (uint32_t)r->size,
                                            .line = m->line,
                                            .pod = prefix_pod(m, at, kept),
                                            .attempt = m->attempt,
                                            .cut = cut};
        r->size += kept + 1;
}

/* Does a writer's own mark begin here: "[rank3]:", "[E ProcessGroupNCCL.cpp:475]"? */
static bool is_mark(const char *at, size_t left)
{
        size_t n;

        if (left > 20 && *at == '[' && strchr("EWIF", at[1]) && !strncmp(at + 2, " ProcessG", 9))
                return true;
        if (left < 8 || strncmp(at, "[rank", 5) != 0)
                return false;
        n = strspn(at + 5, "0123456789");
        return n && left > n + 6 && at[5 + n] == ']' && at[6 + n] == ':';
}

/* The begin of "host:pid:tid [0] NCCL INFO" if @at is the blank before NCCL; NULL: another form. A
 * warning has its place in NCCL's sources between. */
static const char *find_origin(const char *line, const char *at)
{
        for (unsigned word = 0; word < 3; word++) {
                const char *end = at, *colon;

                while (at > line && !strchr(" \t", at[-1]))
                        at--;
                colon = memchr(at, ':', (size_t)(end - at));
                if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
                        return at;
                while (at > line && strchr(" \t", at[-1]))
                        at--;
        }
        return NULL;
}

/* Where the next writer's record begins behind @from; @size: there is none. */
static size_t find_writer(const char *line, size_t size, size_t from)
{
        static const char *const words[] = {" NCCL INFO ", " NCCL WARN "};
        size_t first = size, marks = 0;
        const char *mark = NULL;

        for (const char *at = line + from; (at = memchr(at, '[', size - (size_t)(at - line)));
             at++) {
                if (!is_mark(at, size - (size_t)(at - line)))
                        continue;
                if (mark && at - mark > 12) { /* "[rank0]: [rank0]:" is one writer */
                        first = (size_t)(at - line);
                        break;
                }
                mark = at;
                marks++;
        }
        for (size_t i = 0, seen = 0; i < N_ELEMENTS(words); i++) {
                const char *at = line + from;

                while ((at = memmem(at, size - (size_t)(at - line), words[i], 11))) {
                        const char *origin = find_origin(line + from, at);

                        if (seen++ && origin > line + from && (size_t)(origin - line) < first)
                                first = (size_t)(origin - line);
                        at += 11;
                }
        }
        return first;
}

/* A line, which may be of several writers. */
static void add_line(struct maker *m, const char *line, size_t size)
{
        size_t n_prefix = 0, from = 0, next;

        while (size && line[size - 1] == '\r')
                size--;
        if (size > 5 && !strncmp(line, "[pod/", 5)) {
                const char *end = memchr(line, ']', size < PREFIX_MOST ? size : PREFIX_MOST);

                n_prefix = end ? (size_t)(end - line) + 2 : 0;
                n_prefix = n_prefix <= size ? n_prefix : 0;
        }
        do {
                next = find_writer(line, size, from);
                add_record(m, line, from ? n_prefix : 0, line + from, next - from, next < size);
                from = next;
        } while (from < size);
}

/* A progress bar goes back to the begin of its line. */
static void add_input_line(struct maker *m, const char *line, size_t size)
{
        while (size && line[size - 1] == '\r')
                size--;
        for (const char *end; (end = memchr(line, '\r', size));) {
                add_line(m, line, (size_t)(end - line));
                size -= (size_t)(end + 1 - line);
                line = end + 1;
        }
        add_line(m, line, size);
}

/* ---- answers of log stores ---- */

static size_t put_letter(unsigned c, char *out)
{
        if (c < 0x80) {
                out[0] = c ? (char)c : '?';
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char)(0xc0 | c >> 6);
                out[1] = (char)(0x80 | (c & 63));
                return 2;
        }
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
}

/* Copy the string whose first quote is before @at to @out, which is as long. Return: the letter
 * behind its last quote, or the end of a string that is cut. */
static const char *read_string(const char *at, const char *end, char *out, size_t *n)
{
        static const char names[] = "nrtbf", letters[] = "\n\r\t\b\f";

        for (*n = 0; at < end && *at != '"'; at++) {
                const char *name;
                unsigned c;

                if (*at != '\\' || at + 1 == end) {
                        out[(*n)++] = *at;
                        continue;
                }
                at++;
                name = strchr(names, *at);
                if (*at == 'u' && end - at > 4 && sscanf(at + 1, "%4x", &c) == 1) {
                        *n += put_letter(c, out + *n);
                        at += 4;
                } else {
                        out[(*n)++] = name ? letters[name - names] : *at;
                }
        }
        return at < end ? at + 1 : end;
}

static bool is_word(const char *const *words, const char *word, size_t n)
{
        for (; *words; words++) {
                if (strlen(*words) == n && !strncasecmp(*words, word, n))
                        return true;
        }
        return false;
}

/* Take the log lines of JSON: of Loki, Elasticsearch, CloudWatch, journald, Docker and Kubernetes.
 * It is read from string to string, so that a long or a cut answer needs no more memory than
 * itself. Return: how many lines; 0: it is JSON of another kind, or none. */
static uint32_t add_json(struct maker *m, const char *text, size_t size, bool dry)
{
        static const char *const lines[] = {"log", "message", "textPayload", "msg", "line", NULL},
                                 *const pods[] = {"pod", "pod_name", "podName", NULL};
        const char *end = text + size;
        char *word = xmalloc(size + 1), key[32] = "";
        bool number = false; /* the string before is a time of Loki */
        uint32_t found = 0;
        size_t n;

        for (const char *at = text; at < end && (at = memchr(at, '"', (size_t)(end - at)));) {
                bool time = number;

                at = read_string(at + 1, end, word, &n);
                at += strspn(at, " \t\r\n");
                if (*at == ':') {
                        snprintf(key, sizeof key, "%.*s", (int)(n < 31 ? n : 31), word);
                        number = false;
                        continue;
                }
                number = n >= 16 && n <= 20 && strspn(word, "0123456789") >= n;
                if (is_word(pods, key, strlen(key)) && !dry) {
                        m->pod = find_pod(m, word, n);
                } else if ((time && !number) || is_word(lines, key, strlen(key))) {
                        found++;
                        for (char *line = word; n && !dry;) {
                                char *stop = memchr(line, '\n', n);
                                size_t one = stop ? (size_t)(stop - line) : n;

                                add_input_line(m, line, one);
                                n -= stop ? one + 1 : one;
                                line += stop ? one + 1 : one;
                        }
                }
                if (*key && !time)
                        *key = 0;
        }
        free(word);
        return found;
}

/* Lines of Docker and journald name the pod behind the message. */
static void find_line_pod(struct maker *m, const char *line, size_t size)
{
        const char *at = memmem(line, size, "\"pod_name\":", 11);

        m->pod = 0;
        if (!at)
                return;
        at += 11;
        at += *at == ' ';
        if (*at == '"')
                m->pod = find_pod(m, at + 1, strcspn(at + 1, "\"\n"));
}

void capo_records_read(const char *input, size_t size, struct capo_records *out)
{
        struct capo_records r = {0};
        struct maker m = {.r = &r, .line = 1};
        const char *end = input + size, *first = input + strspn(input, " \t\r\n"),
                   *stop = memchr(first, '\n', (size_t)(end - first));
        bool whole = (*first == '{' || *first == '[') &&
                     (!stop || !stop[1 + strspn(stop + 1, " \t\r\n")] || first[1] == '\n');

        if (whole && add_json(&m, first, (size_t)(end - first), true))
                add_json(&m, first, (size_t)(end - first), false);
        else {
                for (const char *line = input; line < end; m.line++) {
                        const char *nl = memchr(line, '\n', (size_t)(end - line));
                        size_t n = nl ? (size_t)(nl - line) : (size_t)(end - line);

                        if (*line == '{' && n > 8 && add_json(&m, line, n, true)) {
                                find_line_pod(&m, line, n);
                                add_json(&m, line, n, false);
                        } else {
                                m.pod = 0;
                                add_input_line(&m, line, n);
                        }
                        line += n + 1;
                }
        }
        if (!r.text)
                r.text = xcalloc(1, 1);
        r.label = find_label(r.text);
        *out = r;
}

void capo_records_finish(struct capo_records *r)
{
        xfree(r->text, r->v, r->pods);
        *r = (struct capo_records){0};
}

struct capo_record *capo_record_at(const struct capo_records *r, const char *at)
{
        uint32_t first = 0, end = r->n, begin = (uint32_t)(at - r->text);

        while (first < end) {
                uint32_t middle = first + (end - first) / 2;

                if (r->v[middle].begin <= begin)
                        first = middle + 1;
                else
                        end = middle;
        }
        return first ? &r->v[first - 1] : NULL;
}
