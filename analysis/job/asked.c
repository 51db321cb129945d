/* SPDX-License-Identifier: Apache-2.0 */
/* The log stores it with the call site (shim/record/config.c): calls that ask for something get a
 * call site of their own, whose text begins with a line "config: ...". A call site can be written
 * to the log after its calls. */
#include <fnmatch.h>

#include "capo/frame_types.h"
#include "capo/record.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/job/asked.h"
#include "analysis/job/log_calls.h"

const char *capo_asked_text(const char *site, size_t n, size_t *length)
{
        static const char begin[] = "config: ";
        const char *end;

        if (n < sizeof begin || strncmp(site, begin, sizeof begin - 1) != 0)
                return NULL;
        end = memchr(site, '\n', n);
        *length = (size_t)((end ? end : site + n) - site) - (sizeof begin - 1);
        return site + sizeof begin - 1;
}

enum { IDS = 65536 };

struct site_counts {
        unsigned call;
        uint64_t bytes, most;
        bool comms[IDS];     /* by communicator id: does the name match? */
        uint64_t calls[IDS]; /* by site id */
};

static int count_site(const struct capo_record *r, unsigned thread, void *arg)
{
        struct site_counts *s = arg;

        (void)thread;
        if (r->call == s->call && r->bytes >= s->bytes && r->bytes <= s->most && s->comms[r->comm])
                s->calls[r->site]++;
        return 0;
}

static void add_asked(struct capo_asked **list, size_t *n, const char *text, size_t length,
                      uint64_t calls)
{
        size_t i = 0;

        while (i < *n &&
               (strlen((*list)[i].text) != length || memcmp((*list)[i].text, text, length)))
                i++;
        if (i == *n)
                *xadd(*list, *n) = (struct capo_asked){.text = xstrndup(text, length)};
        (*list)[i].calls += calls;
}

/* Counts the calls of one log, then reads the call sites that they name. */
static void count_sites(struct capo_log *log, struct site_counts *s, struct capo_asked **list,
                        size_t *n)
{
        struct capo_log_frame f;

        capo_log_calls_each(log, count_site, s);
        capo_log_rewind(log);
        while (capo_log_next(log, &f) > 0) {
                struct capo_log_site site;
                const char *text;
                size_t length;

                if (f.type != CAPO_FRAME_SITE || capo_log_site(&f, &site, &text) < 0 ||
                    !s->calls[site.id] || !(text = capo_asked_text(text, site.text_size, &length)))
                        continue;
                add_asked(list, n, text, length, s->calls[site.id]);
                s->calls[site.id] = 0;
        }
        capo_log_park(log);
}

CAPO_ORDERED(by_calls, struct capo_asked, CAPO_ORDER(b->calls, a->calls), strcmp(a->text, b->text));

long capo_job_asked(const struct capo_job *job, unsigned call, uint64_t bytes, uint64_t most,
                    const char *comm, struct capo_asked **out)
{
        _cleanup_free_ struct site_counts *s = xcalloc(1, sizeof *s);
        struct capo_asked *list = NULL;
        uint64_t rest = 0;
        size_t n = 0;

        for (uint32_t p = 0; p < job->n_processes; p++) {
                struct capo_log *log = capo_job_log(job, p);
                const struct capo_job_use *use;
                uint32_t n_uses;

                memset(s, 0, sizeof *s);
                s->call = call;
                s->bytes = bytes;
                s->most = most;
                use = capo_job_uses(job, p, &n_uses);
                for (; n_uses--; use++)
                        s->comms[job->comms[use->comm].members[use->member].id] =
                                !comm || fnmatch(comm, job->comms[use->comm].name, 0) == 0;
                if (log)
                        count_sites(log, s, &list, &n);
                for (size_t i = 0; i < IDS; i++)
                        rest += s->calls[i];
        }
        if (n && rest)
                add_asked(&list, &n, "", 0, rest);
        CAPO_SORT(list, n, by_calls);
        *out = list;
        return (long)n;
}
