/* SPDX-License-Identifier: Apache-2.0 */
/* The output of nccl-tests as people keep it: complete or reduced to rows, several runs in one
 * file, NCCL's log lines in the middle of a row, launcher tags before each line, the old ("error")
 * and new ("#wrong") columns, with or without root, in-place and per-iteration columns.
 *
 * A file is a list of runs. A run begins at a header ("# nccl-tests version", "# nThread") or at a
 * label line that people write between runs ("### ALGO=Ring size=1G", "=== NCCL_PROTO=LL rep 2"),
 * and ends where the next one begins. Its rows are kept until then, because what rejects a run
 * (wrong results, ranks that ran alone) is at its end.
 *
 * A row is a size, a count and a type, perhaps operator and root, then groups of time, algbw,
 * busbw, errors. nccl-tests prints a row in three pieces, and a log line of another thread may be
 * glued to the last word: the host names in the file show where the word ends. */
#include "core/base/xalloc.h"
#include "profiles/import/text_command.h"
#include "profiles/import/text_rows.h"

/* Removes what launchers, log drivers and terminals put before or inside lines of nccl-tests'
 * output. */

/* Remove colours: ESC [ ... letter. In place. */
static void strip_colours(char *line)
{
        char *out = strchrnul(line, 27);

        for (const char *p = out; *p; p++) {
                if (*p == 27 && p[1] == '[') {
                        p += 2 + strspn(p + 2, "0123456789;?");
                        if (!*p)
                                break;
                        continue;
                }
                *out++ = *p;
        }
        *out = 0;
}

/* Length of the prefix that a launcher or a container's log driver put before the text; 0: none. */
static int measure_prefix(const char *line)
{
        static const char *const forms[] = {
                "[%*u,%*u]<std%*[a-z]>:%n",                 /* Open MPI --tag-output */
                "[prterun-%*[^]@]@%*u,%*u]<std%*[a-z]>:%n", /* "[prterun-node1-4711@1,0]<stdout>: " */
                "[pod/%*[^]]]%n",                           /* kubectl logs --prefix */
                "[default%*u]:%n",                          /* torchrun */
                "[rank%*u]:%n",
                "(%*[A-Za-z0-9_.:] pid=%*u,%*[^)])%n", /* Ray: "(worker pid=123, ip=10.0.0.1)" */
                "(%*[A-Za-z0-9_.:] pid=%*u)%n",
        };
        int n = 0, stamp = 0, zone = 0;

        if (*line == '[' && isdigit((unsigned char)line[1]) && strnlen(line, 6) == 6 &&
            line[5] == '-') { /* "[2025-11-20 ...] " */
                n = measure_prefix(line + 1);
                return n && line[1 + n] == ']' ? 2 + n : 0;
        }
        for (size_t i = 0; (*line == '[' || *line == '(') && i < N_ELEMENTS(forms) && !n; i++)
                sscanf(line, forms[i], &n);
        if (!isdigit((unsigned char)*line) || strnlen(line, 5) < 5 || line[4] != '-')
                return n;
        /* ISO time (Kubernetes, Slurm, journals), then for containers the stream: "stdout F" */
        sscanf(line, "%*4u-%*2u-%*2u%*1[T ]%*2u:%*2u:%*2u%n", &stamp);
        if (!stamp)
                return 0;
        stamp += (int)strspn(line + stamp, ".,0123456789");
        if (line[stamp] == 'Z')
                zone = 1;
        else if (line[stamp] == '+' && strspn(line + stamp + 1, "0123456789:") >= 4)
                zone = 1 + (int)strspn(line + stamp + 1, "0123456789:");
        sscanf(line + stamp + zone, " std%*[a-z] %*1[FP]%n", &n);
        return strchr(" ]", line[stamp + zone]) ? stamp + zone + n : 0; /* or its end */
}

/* The same for prefixes that look like other text, accepted only before known output. "host: "
 * (pdsh, clush), "[0] " (Hydra -l), "worker-1  | " (docker compose), "Nov 20 10:00:00 host tag[1]:
 * " (syslog), "host tag[1]: " (syslog, after an ISO time), "Nov 20 10:00:00 " (ts), "Thu Jul 18
 * 15:41:05 2024<stdout>:" (Open MPI 4 --timestamp-output). 0: none. */
static int measure_loose_prefix(const char *line)
{
        static const char *const forms[] = {
                "%*3[A-Za-z] %*3[A-Za-z] %*u %*u:%*u:%*u %*u<std%*[a-z]>:%n",
                "%*3[A-Za-z] %*u %*u:%*u:%*u %*[^ :] %*[^ :]: %n",
                "%*3[A-Za-z] %*u %*u:%*u:%*u %n",
                "[%*[A-Za-z0-9_.-]] %n",
                "%*[A-Za-z0-9_.-] %*[^ :]: %n",
                "%*[A-Za-z0-9_.-] | %n",
                "%*[A-Za-z0-9_.-]: %n",
        };

        if (!isalpha((unsigned char)*line) && *line != '[')
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(forms); i++) {
                const char *text;
                int n = 0, nccl = 0;

                if (sscanf(line, forms[i], &n) < 0 || !n)
                        continue;
                text = line + n + strspn(line + n, " ");
                sscanf(text, "%*[A-Za-z0-9_.-]:%*u:%*u [%*u] NCCL %n", &nccl);
                /* the text of the first one follows directly, also for pieces of rows */
                if (i == 0 || *text == '#' || nccl || capo_text_begins_row(text))
                        return n;
        }
        return 0;
}

/* Remove prefixes from @line, and Open MPI's tags inside it where pieces of a row were flushed; in
 * place. @task: 1 + the number that srun -l puts before nccl-tests' output, as seen so far; 0: none.
 */
static char *remove_tags(char *line, unsigned *task)
{
        unsigned number;
        int n, gap = 0;

        strip_colours(line);
        while ((n = measure_prefix(line + gap)) > 0 || (n = measure_loose_prefix(line + gap)) > 0) {
                line += n + gap;
                gap = (int)strspn(line, " "); /* prefixes may be separated by blanks */
        }
        for (char *p = line; (p = strchr(p, '[')); p++) {
                n = 0;
                sscanf(p, "[%*u,%*u]<std%*[a-z]>:%n", &n);
                if (!n)
                        continue;
                if (p > line && p - line < 40 &&
                    isalpha((unsigned char)*line)) { /* mpirun --timestamp-output: a date */
                        line = p + n;
                        p = line - 1;
                        continue;
                }
                memset(p, ' ', (size_t)n);
        }
        n = (int)strspn(line, " ");
        n += (int)strspn(line + n, "0123456789");
        if (n == 0 || line[n - 1] == ' ' || line[n] != ':') /* srun -l */
                return line;
        number = 1 + (unsigned)strtoul(line, NULL, 10);
        n += 1 + (int)strspn(line + n + 1, " \t");
        if (line[n] == '#' || capo_text_begins_row(line + n))
                *task = number;
        return *task == number ? line + n
                               : line; /* pieces of rows too, from the task that prints rows */
}

/* In "host:123:456 [0] NCCL INFO ...": begin of the host; NULL: no such mark. @said: set to the
 * text after "INFO ". */
static const char *nccl_mark(const char *line, const char **said)
{
        const char *mark = strstr(line, " NCCL "), *p;

        while (mark && strncmp(mark + 6, "INFO ", 5) && strncmp(mark + 6, "WARN ", 5))
                mark = strstr(mark + 5, " NCCL ");
        if (!mark)
                return NULL;
        *said = mark + 11;
        p = mark;
        if (p > line && p[-1] == ']') { /* [rank or device] */
                while (p > line && p[-1] != '[')
                        p--;
                if (p > line)
                        p--;
                while (p > line && p[-1] == ' ')
                        p--;
        }
        while (p > line && !isspace((unsigned char)p[-1]))
                p--;
        return p;
}

/* Collect the host names before the first row needs them. */
static void collect_hosts(struct reader *r)
{
        const char *said, *colon;
        char host[HOST_ROOM];
        int rank;

        for (char *line = r->in->text, *end; *line; line = end + (*end == '\n')) {
                char saved;

                end = strchrnul(line, '\n');
                saved = *end;
                *end = 0; /* sscanf() first computes the length of its text */
                if (*line == '#') {
                        if (capo_text_device(line, &rank, host))
                                capo_text_host(r, host, strlen(host));
                } else if (end - line >= 24 && !isspace((unsigned char)*line) &&
                           nccl_mark(line, &said) == line && (colon = strchr(line, ':')) &&
                           isdigit((unsigned char)colon[1])) {
                        capo_text_host(r, line, (size_t)(colon - line));
                }
                *end = saved;
        }
}

/* Convert rows in CSV (rccl-tests -Z csv) to words separated by blanks. In place. */
static void replace_commas(char *line)
{
        unsigned commas = 0;

        for (const char *p = line; (p = strchr(p, ',')); p++)
                commas++;
        if (commas < 8 || !isdigit((unsigned char)line[strspn(line, " \t")]))
                return;
        for (char *p = line; *p; p++)
                *p = *p == ',' ? ' ' : *p;
}

/* Is it a header line whose # was taken for a heading of Markdown? */
static bool is_bare_header(const char *line)
{
        static const char *const begins[] = {"nThread ", "nccl-tests version", "Using devices",
                                             "Out of bounds values"};
        char host[HOST_ROOM];
        int rank;

        line += strspn(line, " ");
        for (size_t i = 0; i < N_ELEMENTS(begins); i++) {
                if (!strncmp(line, begins[i], strlen(begins[i])))
                        return true;
        }
        return (!strncmp(line, "Rank ", 5) && capo_text_device(line, &rank, host)) ||
               (!strncmp(line, "size ", 5) && strstr(line, "algbw")) ||
               (!strncmp(line, "(B) ", 4) && strstr(line, "(elements)"));
}

static int read_line(struct reader *r, char *line, unsigned n)
{
        const char *said, *mark;
        char *cr = strchr(line, '\r'), bare[1024];
        bool row;
        int e;

        if (cr && !cr[1])
                *cr = 0;
        line = remove_tags(line, &r->task);
        line = capo_text_join(r, line, &n);
        if (!line)
                return 0;
        replace_commas(line);
        mark = nccl_mark(line, &said);
        if (mark) {
                size_t before = (size_t)(mark - line);

                capo_nccl_log_line(&r->block.log, said, n);
                before += capo_text_glued(r, mark);
                line[before] = 0;
                return before ? capo_text_row_piece(r, line, n, capo_text_begins_row(line), true)
                              : 0;
        }
        while (*line == ' ' && (line[1] == ' ' || line[1] == '#'))
                line++;
        if (*line == '#')
                return capo_text_header(r, line, n);
        if (is_bare_header(line)) {
                snprintf(bare, sizeof bare, "# %s", line);
                return capo_text_header(r, bare, n);
        }
        row = capo_text_begins_row(line);
        if (row || r->n_words) {
                bool waiting = r->n_words > 0;
                unsigned before = r->n_words;

                e = capo_text_row_piece(r, line, n, row, false);
                if (e < 0 || row || (waiting && r->n_words != before))
                        return e;
        }
        capo_nccl_log_line(&r->block.log, line,
                           n); /* extracts may have NCCL's lines without their prefix */
        return capo_text_labels(r, line, n);
}

bool capo_import_is_text(const char *head, size_t n) { return true; }

int capo_import_text(struct capo_input *in)
{
        struct reader *r = xcalloc(1, sizeof *r);
        unsigned n = 0;

        r->in = in;
        r->block.make = CAPO_MAKE_LOOP;
        collect_hosts(r);
        for (char *next = in->text, *line; (line = strsep(&next, "\n")) && (next || *line);) {
                struct capo_stamp stamp = capo_stamp_read(line);
                int e = read_line(r, line, ++n);

                if (!r->block.run.began.at) /* of the run that the line begins */
                        r->block.run.began = stamp;
                if (e < 0) { /* only this run is rejected */
                        capo_text_fault(r);
                        r->n_words = 0;
                }
        }
        capo_text_run_end(r);
        capo_text_run_clear(r);
        free(r->hosts);
        free(r);
        return 0;
}
