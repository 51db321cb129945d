/* SPDX-License-Identifier: Apache-2.0 */
/* The section CAUSES: why the late rank is late, or all calls are slow, and what else was seen. */

#include "cli/base/cli_fields.h"
#include "cli/report/report_causes.h"
#include "core/base/text.h"
#include "analysis/causes/causes.h"

#define FOUND_FIELDS(F)                                                            \
        F("kind", WORD, capo_whys[of->why].name)                                   \
        F("rank", RANK, capo_why_rank(in->job, of))                                \
        F("node", TEXT, in->job->nodes[in->job->processes[of->process].node].name) \
        F("explained_s", DURATION, of->explained_ns)                               \
        F("evidence", TEXT, of->text)                                              \
        F("advice", TEXT, capo_whys[of->why].advice)
CLI_ENTITY(found, struct capo_cause_found, struct capo_page, FOUND_FIELDS);

/* Causes come first; the rest was also seen. */
static unsigned n_causes(const struct capo_causes *c)
{
        unsigned n = 0;

        while (n < c->n && c->found[n].is_cause)
                n++;
        return n;
}

#define CAUSES_FIELDS(F)                                                                      \
        F("comm", TEXT, of->comm == CAPO_NO_COMM ? NULL : capo_page_comm(in, of->comm))       \
        F("rank", RANK, of->comm == CAPO_NO_COMM ? -1 : in->job->processes[of->process].rank) \
        F("lost_s", DURATION, of->lost_ns)                                                    \
        F("since", COUNT, of->since_ns ? (int64_t)(of->since_ns / 1000000000) : -1)           \
        F("until", COUNT, of->until_ns ? (int64_t)(of->until_ns / 1000000000) : -1)           \
        F("longer", SHARE, of->longer > 0 ? of->longer : -1)                                  \
        F("found", JSON, CLI_ENTITIES(found, in, of->found, n_causes(of)))                    \
        F("asked", TEXT, *of->asked ? of->asked : NULL)                                       \
        F("not_asked", TEXT, *of->not_asked ? of->not_asked : NULL)
CLI_ENTITY_SHARED(report_cause, struct capo_causes, struct capo_page, CAUSES_FIELDS);

#define SEEN_FIELDS(F)                                                                        \
        F("rank", RANK, of->comm == CAPO_NO_COMM ? -1 : in->job->processes[of->process].rank) \
        F("found", JSON, CLI_ENTITIES(found, in, of->found + n_causes(of), of->n - n_causes(of)))
CLI_ENTITY_SHARED(report_seen, struct capo_causes, struct capo_page, SEEN_FIELDS);

static void add_found(const struct capo_page *r, const struct capo_causes *c, struct cli_section *s)
{
        char who[32], share[120];

        for (unsigned i = 0; i < c->n; i++) {
                const struct capo_cause_found *f = &c->found[i];
                int32_t rank = capo_why_rank(r->job, f);

                *who = 0;
                if (rank >= 0)
                        snprintf(who, sizeof who, "rank %d: ", rank);
                if (f->explained_ns >= 0 && c->lost_ns > 0)
                        snprintf(share, sizeof share, " (explains %s",
                                 TEXT_PERCENT(f->explained_ns / c->lost_ns));
                else
                        snprintf(share, sizeof share, " (how much it cost is not known");
                if (c->since_ns && !(c->longer > 0))
                        capo_append(share, sizeof share,
                                    c->until_ns ? "; late from %s" : "; late since %s",
                                    TEXT_WHEN(c->since_ns, "%H:%M:%S"));
                if (c->until_ns)
                        capo_append(share, sizeof share, c->since_ns ? " to %s" : "; late until %s",
                                    TEXT_WHEN(c->until_ns, "%H:%M:%S"));
                cli_section_cell(s, "%s%s%s%s)", f->is_cause ? "" : "also seen: ", who, f->text,
                                 share);
        }
}

void report_causes(const struct capo_page *r, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l~"}};
        struct cli_section *s;

        if (!r->n_causes)
                return;
        s = cli_page_section(page, "CAUSES", columns, 1);
        s->how = "What the machine said while the job ran, compared with the other ranks. A cause "
                 "explains at least half of the time that the rank was late.";
        for (uint32_t i = 0; i < r->n_causes; i++) {
                const struct capo_causes *c = &r->causes[i];

                if (c->longer > 0)
                        cli_section_cell(s,
                                         "steps take %s longer since %s:", TEXT_PERCENT(c->longer),
                                         TEXT_WHEN(c->since_ns, "%H:%M:%S"));
                else if (c->comm == CAPO_NO_COMM && c->lost_ns > 0)
                        cli_section_cell(s,
                                         "%s the calls took %s longer than their median does, "
                                         "mean over ranks",
                                         i ? "besides,"
                                         : capo_page_unseen(r) >= 0.01
                                                 ? "no rank is known to be late;"
                                                 : "no rank is late;",
                                         TEXT_TIME(c->lost_ns));
                add_found(r, c, s);
                if (c->n && c->found[0].is_cause)
                        cli_section_cell(s, "try: %s", capo_whys[c->found[0].why].advice);
                else if (c->comm != CAPO_NO_COMM)
                        cli_section_cell(s, "rank %d: cause not known; asked: %s; not asked: %s",
                                         r->job->processes[c->process].rank,
                                         *c->asked ? c->asked : "nothing",
                                         *c->not_asked ? c->not_asked : "nothing");
        }
}
