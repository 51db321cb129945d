/* SPDX-License-Identifier: Apache-2.0 */
/* How long the creation of communicators took. A creation ends on all ranks together, so its
 * duration on the rank that came first is the total, and the difference to the rank that came last
 * was waiting. NCCL 2.22 and later report the parts in debug lines; these are read if
 * NCCL_DEBUG_FILE of a process names an existing file. */

#include "capo/call_ids.h"
#include "analysis/report/job_judge.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

enum { FILES_MOST = 64, LINE = 1024 };
#define BYTES_MOST ((long)64 << 20)

static bool is_creation(uint8_t call)
{
        return call == CAPO_CALL_COMMINIT || call == CAPO_CALL_COMMSPLIT ||
               call == CAPO_CALL_COMMSHRINK || call == CAPO_CALL_COMMGROW;
}

static bool is_nonblocking(const struct capo_job_comm *c)
{
        for (uint32_t i = 0; i < c->n_members; i++) {
                if (c->members[i].flags & CAPO_COMM_NONBLOCKING)
                        return true;
        }
        return false;
}

/* The value of NCCL_DEBUG_FILE of @p with %h and %p filled in, as NCCL does. False: none. */
static bool debug_file_of(const struct capo_job_process *p, char *path, size_t room)
{
        static const char key[] = "NCCL_DEBUG_FILE=";
        const char *settings = capo_job_info(p, CAPO_INFO_NCCL_SETTINGS), *at;
        size_t n = 0;

        at = settings ? strstr(settings, key) : NULL;
        if (!at)
                return false;
        for (at += sizeof key - 1; *at && *at != ' ' && n + 1 < room; at++) {
                int wrote;

                if (at[0] != '%' || (at[1] != 'h' && at[1] != 'p')) {
                        path[n++] = *at;
                        continue;
                }
                wrote = *++at == 'h' ? snprintf(path + n, room - n, "%s", p->host)
                                     : snprintf(path + n, room - n, "%u", p->header.pid);
                n += wrote < 0 ? 0 : (size_t)wrote;
                if (n >= room)
                        return false;
        }
        path[n] = 0;
        return n > 0 && path[0] == '/';
}

/* "... Init timings - ncclCommInitRank: rank 0 nranks 8 total 2.48 (kernels 0.34, alloc ...)". */
static void read_line(const char *line, struct capo_page_creation *c)
{
        const char *at = strstr(line, "Init timings - ");
        struct capo_page_init init = {0};
        int used = 0;

        at = at ? strstr(at, ": rank ") : NULL;
        if (!at ||
            sscanf(at, ": rank %d nranks %d total %lf (%n", &init.rank, &init.n_ranks,
                   &init.total_s, &used) < 3 ||
            !used)
                return;
        for (at += used; init.n_parts < CAPO_INIT_PARTS;) {
                struct capo_page_init_part *part = &init.part[init.n_parts];

                if (sscanf(at, "%15[a-z] %lf%n", part->name, &part->seconds, &used) < 2)
                        break;
                init.n_parts++;
                at += used;
                if (strncmp(at, ", ", 2) != 0)
                        break;
                at += 2;
        }
        c->n_inits++;
        if (init.total_s > c->slowest.total_s)
                c->slowest = init;
}

/* @owner: of the log that names the file. */
static void read_debug_file(const char *path, uid_t owner, struct capo_page_creation *c)
{
        struct stat st;
        int fd = capo_others_open(path, O_RDONLY, owner, &st, NULL, 0);
        _cleanup_fclose_ FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
        char line[LINE];
        long read = 0;

        while (f && read < BYTES_MOST && fgets(line, sizeof line, f)) {
                read += (long)strlen(line);
                read_line(line, c);
        }
}

void capo_judge_creation(struct capo_page *page)
{
        const struct capo_job *job = page->job;
        struct capo_page_creation *c = &page->creation;
        char path[1024], last[1024] = "";

        *c = (struct capo_page_creation){.comm = CAPO_NO_COMM};
        page->created = xcalloc(job->n_comms + 1, sizeof *page->created);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];
                const struct capo_hist *h = &r->time[CAPO_CLOCK_HOST];
                struct capo_page_created *to;

                if (r->comm == CAPO_NO_COMM || !is_creation(r->call) || !h->count ||
                    is_nonblocking(&job->comms[r->comm]))
                        continue;
                to = &page->created[r->comm];
                if (to->least_ns <= 0 || (double)h->min_ns < to->least_ns)
                        to->least_ns = (double)h->min_ns;
                if ((double)h->max_ns > to->ns)
                        to->ns = (double)h->max_ns;
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_page_created *k = &page->created[i];

                c->n += k->ns > 0;
                c->ns += k->ns;
                if (k->ns > 0 && (c->comm == CAPO_NO_COMM || k->ns > page->created[c->comm].ns))
                        c->comm = i;
        }
        for (uint32_t i = 0; i < job->n_processes && i < FILES_MOST; i++) {
                if (!debug_file_of(&job->processes[i], path, sizeof path) || !strcmp(path, last))
                        continue;
                read_debug_file(path, capo_others_owner(job->processes[i].path), c);
                snprintf(last, sizeof last, "%s", path);
        }
}
