/* SPDX-License-Identifier: Apache-2.0 */
/* The sections on communicators, their ceilings, and waiting. */

#include "cli/report/report_json.h"
#include "cli/report/report_page.h"

enum { COMMS_SHOWN = 6, CEILINGS_SHOWN = 12 };

/* ---- communicators ---- */

/* An item of in->job->comms. */
#define ID (uint32_t)(of - in->job->comms)

/* The sum over the communicators that are shown together with @id. */
static uint64_t sum_class(const struct capo_page *r, uint32_t id, bool members)
{
        uint64_t n = 0;

        for (uint32_t k = id; k < r->job->n_comms; k++) {
                const struct capo_job_comm *c = &r->job->comms[k];

                n += r->class_of[k] != id ? 0 : members ? c->n_members : c->n_calls;
        }
        return n;
}

static const char *parent_text(const struct capo_page *r, const struct capo_job_comm *c, char *room)
{
        if (c->parent == CAPO_NO_COMM)
                return "-";
        snprintf(room, CLI_ROOM,
                 c->color >= 0 && r->class_size[c - r->job->comms] == 1 ? "%s color %d" : "%s",
                 r->job->comms[c->parent].name, c->color);
        return room;
}

struct members {
        const struct capo_job *job;
        const struct capo_job_comm *comm;
};

/* An item of in->comm->members. */
#define LATENESS (&in->comm->skew->ranks[of - in->comm->members])

/* What one rank can cost: the job's duration on all others. */
#define MOST_CAUSED_NS ((double)capo_job_duration_ns(in->job) * (in->comm->n_members - 1.0))

#define RANK_FIELDS(F)                                      \
        F("rank", INTEGER, of->rank)                        \
        F("job_rank", INTEGER, of->job_rank)                \
        F("last", COUNT, LATENESS->last)                    \
        F("late_p50_us", REAL, LATENESS->late_p50_ns / 1e3) \
        F("wait_us", REAL, LATENESS->wait_ns / 1e3)         \
        F("caused_s", REAL, LATENESS->caused_ns / 1e9)      \
        F("caused_pm_s", REAL,                              \
          fmin(LATENESS->caused_pm_ns + LATENESS->clocks_pm_ns, MOST_CAUSED_NS) / 1e9)
CLI_ENTITY(lateness, struct capo_job_member, struct members, RANK_FIELDS);

static int last_most_often(const struct capo_job_comm *c)
{
        uint32_t often = 0;

        for (uint32_t i = 1; i < c->n_members; i++)
                often = c->skew->ranks[i].last > c->skew->ranks[often].last ? i : often;
        return c->skew->n_calls ? c->members[often].rank : -1;
}

#define SKEW            of->skew
#define COMPARED(value) (SKEW->n_calls ? (value) : -1)

#define SKEW_FIELDS(F)                                                                        \
        F("calls_compared", COUNT, SKEW->n_calls)                                             \
        F("from", WORD, SKEW->from == CAPO_SKEW_GPU_DURATION ? "gpu_duration" : "host_start") \
        F("?calls_by_kernel_wait", COUNT, SKEW->n_kernel ? (int64_t)SKEW->n_kernel : -1)      \
        F("uncertain_us", DURATION, SKEW->aligned ? 0 : -1)                                   \
        F("p50_us", DURATION, COMPARED(SKEW->p50_ns))                                         \
        F("p95_us", DURATION, COMPARED(SKEW->p95_ns))                                         \
        F("max_us", DURATION, COMPARED(SKEW->max_ns))                                         \
        F("last_most_often", RANK, last_most_often(of))                                       \
        F("wait_share", SHARE, COMPARED(SKEW->wait_share))                                    \
        F("wait_share_pm", SHARE, SKEW->wait_share >= 0 ? COMPARED(SKEW->wait_pm) : -1)       \
        F("mismatched", COUNT, SKEW->mismatched)                                              \
        F("per_rank", JSON,                                                                   \
          CLI_ENTITIES(lateness, (&(struct members){in, of}), of->members,                    \
                       SKEW->n_calls ? of->n_members : 0))
CLI_ENTITY(comm_skew, struct capo_job_comm, struct capo_job, SKEW_FIELDS);

#define CREATED(value) (in->created[ID].ns > 0 ? in->created[ID].value : -1)

#define COMM_FIELDS(F)                                                                         \
        F("id", RANK, ID)                                                                      \
        F(NULL, TEXT, capo_page_comm_label(in, ID, room, CLI_ROOM), "name (ranks)", "l")       \
        F("name", TEXT, of->name)                                                              \
        F("ranks", COUNT, of->n_ranks > 0 ? of->n_ranks : (int)of->n_members)                  \
        F("nodes", COUNT, of->n_nodes, "nodes", "r")                                           \
        F("layout", TEXT, of->layout, "layout", "l~")                                          \
        F("class", JSON, in->ceiling ? json_string(in->ceiling[ID].class) : NULL)              \
        F("uid", TEXT, (snprintf(room, CLI_ROOM, "%016" PRIx64, of->uid), room))               \
        F(NULL, TEXT, parent_text(in, of, room), "from", "l/a")                                \
        F("parent", RANK, of->parent == CAPO_NO_COMM ? -1 : (int64_t)of->parent)               \
        F("color", RANK, of->color)                                                            \
        F("calls", COUNT, of->n_calls)                                                         \
        F(NULL, COUNT, sum_class(in, ID, false), "collectives", "r")                           \
        F(NULL, COUNT, sum_class(in, ID, true), "logs", "r")                                   \
        F("created_s", DURATION, CREATED(ns))                                                  \
        F("created_least_s", DURATION, CREATED(least_ns))                                      \
        F("ranks_logged", JSON,                                                                \
          CLI_EACH(uint32_t k = 0; k < of->n_members; k++, json_integer(of->members[k].rank))) \
        F("skew", JSON, cli_entity_json(&comm_skew, in->job, of->skew ? of : NULL))
CLI_ENTITY_SHARED(report_comm, struct capo_job_comm, struct capo_page, COMM_FIELDS);

void report_comms(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_job *job = r->job;
        uint32_t shown = 0, n_classes = 0, limit;
        struct cli_section *s;

        for (uint32_t i = 0; i < job->n_comms; i++)
                n_classes += r->class_of[i] == i;
        if (n_classes < 2)
                return;
        s = cli_page_entity(page, "COMMUNICATORS", &report_comm);
        s->how =
                "Communicators that do the same for other ranks are shown together, with nodes and "
                "layout of the first.";
        limit = r->all || n_classes <= COMMS_SHOWN + 2 ? n_classes : COMMS_SHOWN;
        for (uint32_t i = 0; i < job->n_comms && shown < limit; i++) {
                if (r->class_of[i] == i) {
                        cli_section_entity(s, r, &job->comms[i]);
                        shown++;
                }
        }
        if (shown < n_classes)
                cli_section_line(s, "%u more: --all", n_classes - shown);
}

/* ---- waiting ---- */

/* The source of start times, and which clocks they are from. */
static void add_clock_notes(const struct capo_page *r, struct cli_page *page, struct cli_section *s)
{
        const struct capo_job *job = r->job;
        uint64_t kernel = 0, host = 0, calls = 0;
        char clocks[64];

        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_skew *k = job->comms[r->waits[i].comm].skew;

                kernel += k->n_kernel;
                host += k->from == CAPO_SKEW_GPU_DURATION ? k->n_host : k->n_calls;
                calls += k->n_calls;
        }
        if (kernel)
                cli_section_note(page, s,
                                 "%s of %s compared by how long NCCL's kernels waited (the GPU's "
                                 "clock)",
                                 TEXT_COUNT(kernel), capo_text_plural(calls, "call", NULL));
        snprintf(clocks, sizeof clocks, ", on the clocks of %u hosts as they are", job->n_clocks);
        if (host)
                cli_section_note(page, s, "%s of %s compared by the host's start%s",
                                 TEXT_COUNT(host), capo_text_plural(calls, "call", NULL),
                                 job->n_clocks < 2 ? " of the call" : clocks);
}

#define COMM         (&in->job->comms[of->comm])
#define WAIT_SKEW    COMM->skew
#define LAST         (&WAIT_SKEW->ranks[of->last])
#define NAMED(value) (of->stands_out ? (value) : -1)

#define WAIT_FIELDS(F)                                                                      \
        F("comm", RANK, of->comm)                                                           \
        F("rank", RANK, NAMED(COMM->members[of->last].rank))                                \
        F("job_rank", RANK, NAMED(COMM->members[of->last].job_rank))                        \
        F("host", TEXT,                                                                     \
          of->stands_out ? in->job->processes[COMM->members[of->last].process].host : NULL) \
        F("caused_s", DURATION, NAMED(LAST->caused_ns))                                     \
        F("caused_pm_s", DURATION, NAMED(capo_interval_pm(of->caused, LAST->caused_ns)))    \
        F("caused_share", SHARE, NAMED(of->caused_share))                                   \
        F("calls_compared", COUNT, WAIT_SKEW->n_calls)                                      \
        F("calls_by_host", COUNT, WAIT_SKEW->n_host)                                        \
        F("last", COUNT, LAST->last)                                                        \
        F("behind_max_us", DURATION, NAMED(WAIT_SKEW->worst_max_ns))                        \
        F("last_share", EXACT, of->last_share)                                              \
        F("behind_p50_us", DURATION, NAMED(WAIT_SKEW->worst_p50_ns))                        \
        F("others_p50_us", DURATION, NAMED(WAIT_SKEW->others_p50_ns))                       \
        F("wait_share", SHARE, WAIT_SKEW->wait_share)                                       \
        F("most_of_it_for", WORD, NULL)                                                     \
        F("text", TEXT, of->text)                                                           \
        F("cause", JSON, cli_json_cause(&of->cause))
CLI_ENTITY_SHARED(report_wait, struct capo_page_wait, struct capo_page, WAIT_FIELDS);

#define UNKNOWN_FIELDS(F)         \
        F("comm", RANK, of->comm) \
        F("why", TEXT, of->why)
CLI_ENTITY_SHARED(report_unknown, struct capo_page_unknown, void, UNKNOWN_FIELDS);

void report_waits(const struct capo_page *r, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        uint32_t shown = r->all || r->n_waits <= COMMS_SHOWN ? r->n_waits : COMMS_SHOWN;
        uint32_t unknown = r->all || r->n_unknown <= 2 ? r->n_unknown : 2;
        struct cli_section *s = cli_page_section(page, "WAITING", columns, N_ELEMENTS(columns));

        s->how =
                "Who starts the same call last, by how much. By GPU durations where there are any: a "
                "call ends on all ranks together, so the rank that is in it shortest came last. "
                "Else by when the host made the call. The cost is the sum of all waiting over the "
                "ranks' time in the job.";
        for (uint32_t i = 0; i < shown; i++) {
                double cost = r->job->comms[r->waits[i].comm].skew->wait_share;

                if (cost >= 0 && r->n_waits > 1 && r->wait_share >= 0)
                        cli_section_cell(s, "%s; all waiting here: %s of the job", r->waits[i].text,
                                         TEXT_PERCENT(cost));
                else
                        cli_section_cell(s, "%s", r->waits[i].text);
        }
        if (shown < r->n_waits)
                cli_section_line(s, "%u more communicators: --all", r->n_waits - shown);
        for (uint32_t i = 0; i < unknown; i++)
                cli_section_cell(s, "%s: not known: %s", capo_page_comm(r, r->unknown[i].comm),
                                 r->unknown[i].why);
        if (unknown < r->n_unknown)
                cli_section_line(s, "not known for %u more: --all", r->n_unknown - unknown);
        add_clock_notes(r, page, s);
}

/* ---- ceilings ---- */

/* With what it includes besides NVLink. */
static const char *ceiling_text(const struct capo_page *r, const struct capo_page_row *row,
                                char *room)
{
        const char *on = r->ceiling[row->row.comm].on[row->row.call];
        bool more = !strncmp(on, "NVLink", 6) && on[6];

        snprintf(room, CLI_ROOM, "%s%s%s", TEXT_GBS(row->ceiling), more ? " " : "",
                 more ? on + 7 : "");
        return room;
}

#define CEILING_FIELDS(F)                                                                  \
        F(NULL, TEXT, capo_page_comm_label(in, of->row.comm, room, CLI_ROOM), "comm", "l") \
        F(NULL, TEXT, in->ceiling[of->row.comm].class, "class", "l/a")                     \
        F(NULL, TEXT, capo_page_call(&of->row, room, CLI_ROOM), "call", "l")               \
        F(NULL, TEXT, report_size(in, of, room, CLI_ROOM), "size", "r")                    \
        F(NULL, RATE, of->busbw, "busbw", "r")                                             \
        F(NULL, TEXT, ceiling_text(in, of, room), "ceiling", "r")                          \
        F(NULL, TEXT, capo_text_percent(of->reached, room), "reached", "r")
CLI_ENTITY(ceiling_row, struct capo_page_row, struct capo_page, CEILING_FIELDS);

void report_ceiling_rows(const struct capo_page *r, struct cli_page *page)
{
        const char *beyond = NULL; /* kind of the exceeded ceilings: NVLink alone, or more */
        struct cli_section *s;
        bool adding = false;
        uint32_t shown = 0;

        if (!r->ceiling)
                return;
        s = cli_page_entity(page, "CEILINGS", &ceiling_row);
        cli_section_of(s, "of the links in %s, busbw in GB/s", r->topology);
        s->how =
                "The bandwidth that the links of the communicator's GPUs allow: no software exceeds "
                "it (docs/fragments.md).";
        for (uint32_t i = 0; i < r->rows.n && (r->all || shown < CEILINGS_SHOWN); i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                const char *on;

                if (row->row.comm == CAPO_NO_COMM || !*r->ceiling[row->row.comm].class ||
                    row->reached < 0)
                        continue;
                cli_section_entity(s, r, row);
                on = r->ceiling[row->row.comm].on[row->row.call];
                adding |= strstr(on, "+NVLS") != NULL;
                if (row->reached > 1 && (!beyond || *beyond))
                        beyond = strstr(on, "PCIe") ? "" : on;
                shown++;
        }
        if (adding)
                cli_section_note(page, s,
                                 "NVLS: the switches add and copy, which only NCCL's NVLS uses");
        if (beyond)
                cli_section_note(page, s,
                                 "above 100 %%: %s is less than these links carry, or the call "
                                 "used others too",
                                 *beyond && *r->link_speed ? r->link_speed
                                                           : "what the description says");
        for (uint32_t i = 0; !shown && i < r->job->n_comms;
             i++) { /* without GPU times, show only the classes */
                if (*r->ceiling[i].class && r->class_of[i] == i)
                        cli_section_line(s, "%s   %s", r->job->comms[i].name, r->ceiling[i].class);
        }
        if (*r->no_ceiling)
                cli_section_line(s, "not known for %s", r->no_ceiling);
}
