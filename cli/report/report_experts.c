/* SPDX-License-Identifier: Apache-2.0 */
/* TOKENS of the report: how evenly the ranks of an EP group give tokens, over the whole job and in
 * the first and last quarter of its calls. The first is exact, the second of the calls that the
 * logs kept one by one. Experts are chosen on the GPU. */

#include "analysis/job/log_calls.h"
#include "capo/call_ids.h"
#include "capo/record.h"
#include "cli/base/cli_fields.h"
#include "cli/report/report_experts.h"

struct tokens {
        uint32_t comm, n;
        uint64_t calls, least, most;
        double mean; /* of the group */
        struct {
                int rank; /* in the group; -1 all are alike */
                double mean;
        } low, high, drift; /* drift: the rank that changed most; mean: late against early */
        double early, late; /* of the group */
        double unit;        /* bytes of a token; 1: not known */
};

enum { EARLY, LATE, FEWEST = 4 /* calls in a quarter of the job */ };

/* The kept dispatches of a rank in the first and last quarter of its calls. */
struct quarters {
        uint64_t last, n[2], bytes[2]; /* last: the number of its last dispatch, counted first */
        bool counted;
        uint32_t id; /* of the group in the log */
};

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct quarters *q = arg;
        uint64_t at = (uint64_t)r->seq * 4;

        (void)thread;
        if (r->call != CAPO_CALL_EPDISPATCH || r->comm != q->id || r->result)
                return 0;
        if (!q->counted) {
                q->last = r->seq > q->last ? r->seq : q->last;
        } else if (at <= q->last || at > 3 * q->last) {
                q->n[at > q->last]++;
                q->bytes[at > q->last] += r->bytes;
        }
        return 0;
}

static double mean_of(const struct quarters *q, int when)
{
        return q->n[when] >= FEWEST ? (double)q->bytes[when] / (double)q->n[when] : NAN;
}

static void find_drift(const struct capo_job *job, const struct capo_job_comm *c, struct tokens *t)
{
        struct quarters all = {.last = 0};
        double least = INFINITY, most = 0;

        for (uint32_t i = 0; i < c->n_members; i++) {
                struct quarters q = {.id = c->members[i].id};
                struct capo_log *log;
                double share;

                for (int pass = 0; pass < 2 && (log = capo_job_log(job, c->members[i].process));
                     pass++) {
                        q.counted = pass;
                        capo_log_calls_each(log, add_call, &q);
                        capo_log_park(log);
                }
                for (int k = EARLY; k <= LATE; k++)
                        all.n[k] += q.n[k], all.bytes[k] += q.bytes[k];
                share = mean_of(&q, LATE) / mean_of(&q, EARLY);
                least = fmin(least, share);
                most = fmax(most, share);
                if (!(fabs(log2(share)) <= fabs(log2(t->drift.mean))) && share > 0 &&
                    share < INFINITY)
                        t->drift.rank = c->members[i].rank, t->drift.mean = share;
        }
        t->early = mean_of(&all, EARLY);
        t->late = mean_of(&all, LATE);
        if (least == most) /* there is no rank to name */
                t->drift.rank = -1;
}

/* Bytes that a token of each dispatch is, where all call sites say the same; 0 not known. */
static double token_bytes(const struct capo_job *job)
{
        static const char key[] = " token_bytes=";
        double bytes = 0;

        for (uint32_t i = 0; i < job->n_sites; i++) {
                const char *at = strncmp(job->sites[i].text, "config: topk=", 13) == 0
                                         ? strstr(job->sites[i].text, key)
                                         : NULL;
                double here = at ? atof(at + sizeof key - 1) : bytes;

                if (bytes > 0 && here != bytes)
                        return 0;
                bytes = here;
        }
        return bytes;
}

/* False: nobody dispatched in @comm. */
static bool find_tokens(const struct capo_job *job, uint32_t comm, struct tokens *t)
{
        const struct capo_job_comm *c = &job->comms[comm];
        double unit = token_bytes(job), bytes = 0;

        *t = (struct tokens){.comm = comm,
                             .least = UINT64_MAX,
                             .low = {-1, INFINITY},
                             .high = {-1, -1},
                             .drift = {-1, NAN},
                             .unit = unit > 0 ? unit : 1};
        for (uint32_t k = 0; k < c->n_members; k++) {
                const struct capo_job_member *m = &c->members[k];
                double mean = m->given.calls ? (double)m->given.bytes / (double)m->given.calls : 0;

                if (!m->given.calls)
                        continue;
                t->n++;
                t->calls += m->given.calls;
                bytes += (double)m->given.bytes;
                t->least = m->given.least < t->least ? m->given.least : t->least;
                t->most = m->given.most > t->most ? m->given.most : t->most;
                if (mean < t->low.mean)
                        t->low.rank = m->rank, t->low.mean = mean;
                if (mean > t->high.mean)
                        t->high.rank = m->rank, t->high.mean = mean;
        }
        t->mean = t->calls ? bytes / (double)t->calls : 0;
        if (t->low.mean >= t->high.mean)
                t->low.rank = t->high.rank = -1;
        if (t->calls)
                find_drift(job, c, t);
        return t->calls > 0;
}

#define PER(bytes) (of->unit > 1 ? (double)(bytes) / of->unit : NAN)
#define TOKEN_FIELDS(F)                                                                   \
        F(NULL, TEXT, capo_page_comm_label(in, of->comm, room, CLI_ROOM), "group", "l")   \
        F("comm", RANK, of->comm)                                                         \
        F("calls", COUNT, of->calls, "calls", "r")                                        \
        F("tokens_mean", REAL, PER(of->mean), "tokens", "r")                              \
        F("tokens_least", REAL, PER(of->least))                                           \
        F("tokens_most", REAL, PER(of->most))                                             \
        F("tokens_early", REAL, PER(of->early), "early", "r")                             \
        F("tokens_late", REAL, PER(of->late), "late", "r")                                \
        F("drift_rank", RANK, of->drift.rank, "drift", "r")                               \
        F("drift_share", REAL, of->drift.mean)                                            \
        F("bytes_mean", BYTES, of->mean)                                                  \
        F("low_rank", RANK, of->low.rank, "low", "r")                                     \
        F("low_share", REAL, of->mean > 0 ? of->low.mean / of->mean : NAN, "x mean", "r") \
        F("high_rank", RANK, of->high.rank, "high", "r")                                  \
        F("high_share", REAL, of->mean > 0 ? of->high.mean / of->mean : NAN, "x mean", "r")
CLI_ENTITY(report_tokens_row, struct tokens, struct capo_page, TOKEN_FIELDS);

void report_tokens(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "TOKENS", &report_tokens_row);
        struct tokens t;

        s->how =
                "Tokens that a rank gives to one EpDispatch: over the job, in the first and last quarter "
                "of its calls (of those that the logs kept), the rank that changed most, and the ranks that "
                "give fewest and most. What experts get is not known: they are "
                "chosen on the GPU.";
        for (uint32_t i = 0; i < r->job->n_comms; i++) {
                if (find_tokens(r->job, i, &t))
                        cli_section_entity(s, r, &t);
        }
}

json_t *report_json_tokens(const struct capo_page *page)
{
        json_t *list = json_array();
        struct tokens t;

        for (uint32_t i = 0; i < page->job->n_comms; i++) {
                if (find_tokens(page->job, i, &t))
                        json_array_append_new(list, cli_entity_json(&report_tokens_row, page, &t));
        }
        return list;
}
