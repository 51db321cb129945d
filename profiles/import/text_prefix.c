/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what launchers, log drivers and terminals put before or inside lines of nccl-tests'
 * output. */
#include "core/base/util.h"
#include "profiles/import/text_reader.h"
#include "profiles/import/text_rows.h"

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
        int n = 0, stamp = 0, zone;
        unsigned a, b, c;

        if (*line == '[' && isdigit((unsigned char)line[1]) && strnlen(line, 6) == 6 &&
            line[5] == '-') { /* "[2025-11-20 ...] " */
                n = measure_prefix(line + 1);
                return n && line[1 + n] == ']' ? 2 + n : 0;
        }
        if (*line != '[' && *line != '(' &&
            !(isdigit((unsigned char)*line) && strnlen(line, 5) == 5 && line[4] == '-'))
                return 0;
        /* Open MPI --tag-output: "[1,0]<stdout>:", from release 5 on
         * "[prterun-node1-4711@1,0]<stdout>: " */
        if (sscanf(line, "[%u,%u]<std%*[a-z]>:%n", &a, &b, &n) == 2 && n)
                return n;
        if (sscanf(line, "[prterun-%*[^]@]@%u,%u]<std%*[a-z]>:%n", &a, &b, &n) == 2 && n)
                return n;
        /* ISO time (Kubernetes, Slurm, journals), then for containers the stream: "stdout F" */
        if (sscanf(line, "%4u-%2u-%2u%*1[T ]%*2u:%*2u:%*2u%n", &a, &b, &c, &stamp) == 3 && stamp) {
                stamp += (int)strspn(line + stamp, ".,0123456789");
                zone = 0;
                if (line[stamp] == 'Z')
                        zone = 1;
                else if (line[stamp] == '+' && strspn(line + stamp + 1, "0123456789:") >= 4)
                        zone = 1 + (int)strspn(line + stamp + 1, "0123456789:");
                n = 0;
                sscanf(line + stamp + zone, " std%*[a-z] %*1[FP]%n", &n);
                return strchr(" ]", line[stamp + zone]) ? stamp + zone + n : 0; /* or its end */
        }
        /* kubectl logs --prefix: "[pod/name/container]"; torchrun: "[default0]:"; "[rank0]:" */
        if (sscanf(line, "[pod/%*[^]]]%n", &n) == 0 && n)
                return n;
        if ((sscanf(line, "[default%u]:%n", &a, &n) == 1 ||
             sscanf(line, "[rank%u]:%n", &a, &n) == 1) &&
            n)
                return n;
        /* Ray: "(worker pid=123, ip=10.0.0.1)" */
        if (sscanf(line, "(%*[A-Za-z0-9_.:] pid=%u,%*[^)])%n", &a, &n) == 1 && n)
                return n;
        return sscanf(line, "(%*[A-Za-z0-9_.:] pid=%u)%n", &a, &n) == 1 && n ? n : 0;
}

/* Does nccl-tests or NCCL print this at the begin of a line? */
static bool begins_output(const char *text)
{
        unsigned pid, tid;
        int n = 0;

        if (*text == '#')
                return true;
        sscanf(text, "%*[A-Za-z0-9_.-]:%u:%u [%*u] NCCL %n", &pid, &tid, &n);
        return n > 0 || capo_text_begins_row(text);
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
                int n = 0;

                if (sscanf(line, forms[i], &n) < 0 || !n)
                        continue;
                if (i == 0) /* its text follows directly, also for pieces of rows */
                        return n;
                if (begins_output(line + n + strspn(line + n, " ")))
                        return n;
        }
        return 0;
}

char *capo_text_untag(char *line, unsigned *task)
{
        unsigned a, b, number;
        int n, gap = 0;

        strip_colours(line);
        while ((n = measure_prefix(line + gap)) > 0 || (n = measure_loose_prefix(line + gap)) > 0) {
                line += n + gap;
                gap = (int)strspn(line, " "); /* prefixes may be separated by blanks */
        }
        for (char *p = line; (p = strchr(p, '[')); p++) {
                n = 0;
                if (sscanf(p, "[%u,%u]<std%*[a-z]>:%n", &a, &b, &n) != 2 || !n)
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
