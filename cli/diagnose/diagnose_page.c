/* SPDX-License-Identifier: Apache-2.0 */
/* The page: what was read, the verdict with its lines, one next step. */

#include "cli/base/cli_json.h"
#include "cli/base/cli_page.h"
#include "cli/base/cli_options.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "core/base/nccl_release.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/page_form.h"
#include "analysis/diagnose/prose.h"
#include "analysis/diagnose/recorded_bugs.h"

enum { SEEN_SHOWN = 3 };

/* "job.log:1,3,5 ras.txt". To be freed. */
static char *marks_text(const struct capo_evidence *e, const struct capo_diagnose_finding *f)
{
        char *text = NULL;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        if (f->n_marks > 3 && !f->marks[0].line) /* whole files */
                fprintf(out, "%s and %u more", e->texts[f->marks[0].text].name, f->n_marks - 1);
        for (uint32_t i = 0; i < f->n_marks && (f->n_marks <= 3 || f->marks[0].line); i++) {
                bool same = i && f->marks[i].text == f->marks[i - 1].text;

                if (!same)
                        fprintf(out, "%s%s", i ? " " : "", e->texts[f->marks[i].text].name);
                if (f->marks[i].line)
                        fprintf(out, "%c%u", same ? ',' : ':', f->marks[i].line);
        }
        fputs(f->n_marks == CAPO_DIAGNOSE_MARKS ? " ..." : "", out);
        xmemclose(out);
        return text;
}

/* " (rank 5, attempt 2)": the rank of a headline that does not name it, and which story it is. */
static const char *who_text(const struct capo_evidence *e, const struct capo_diagnose_finding *f,
                            char text[240])
{
        const char *story = f->story < e->n_stories ? e->stories[f->story] : "";
        char list[128];
        /* an undecided line may come from any rank: who prints it is no culprit */
        bool named = f->n_ranks != 1 || f->rank == CAPO_RANK_UNDECIDED ||
                     strcasestr(f->headline, capo_rank_list(f->ranks, 1, list)) != NULL;

        *text = 0;
        if (!named || *story)
                snprintf(text, 240, " (%s%s%s)", named ? "" : list, !named && *story ? ", " : "",
                         story);
        return text;
}

/* Foreign text must not control the terminal. Adds a row per line. */
static void add_plain(struct cli_section *s, const char *text)
{
        _cleanup_free_ char *copy = xstrdup(text);

        capo_plain(copy, strlen(copy), false, true);
        for (char *line, *rest = copy; (line = strsep(&rest, "\n"));) {
                if (*line)
                        cli_section_cell(s, "%s", line);
        }
}

/* The ranks with lines or dumps: another one may be the one to examine. */
static void add_ranks(const struct capo_evidence *e, struct cli_section *s)
{
        int32_t list[64];
        uint32_t n = 0, more = 0;
        char text[128];

        for (uint32_t i = 0; i < e->n_seen; i++) {
                if (e->seen[i] && n < N_ELEMENTS(list))
                        list[n++] = (int32_t)i;
                else
                        more += e->seen[i];
        }
        if (n)
                cli_section_line(s, "lines marked %s%s", capo_rank_list(list, n, text),
                                 more ? " and more" : "");
}

static bool is_alike(const struct capo_evidence_text *a, const struct capo_evidence_text *b)
{
        for (unsigned k = 0; k < CAPO_EVIDENCE_KINDS; k++) {
                if (!a->n[k] != !b->n[k])
                        return false;
        }
        return true;
}

/* One row for all files of the same kinds: the logs of 64 ranks are one. */
static void add_files(const struct capo_evidence *e, uint32_t first, struct cli_section *s)
{
        const struct capo_evidence_text *t = &e->texts[first];
        uint32_t n = 0;
        char text[512] = "";

        for (unsigned k = 0; k < CAPO_EVIDENCE_KINDS; k++) {
                bool weak = k == CAPO_EVIDENCE_QUESTION || k == CAPO_EVIDENCE_FRAMEWORK ||
                            k == CAPO_EVIDENCE_SETTINGS;

                if (t->n[k] && !(weak && *text))
                        ADD(text, "%s%s", *text ? ", " : "", capo_evidence_words(k));
        }
        for (uint32_t i = first + 1; i < e->n_texts; i++)
                n += is_alike(t, &e->texts[i]);
        if (n)
                ADD(text, " (and %u more such file%s)", n, n == 1 ? "" : "s");
        cli_section_cell(s, "%s", t->name);
        cli_section_cell(s, "%s%s", t->n[CAPO_EVIDENCE_UNKNOWN] ? "" : "about ", text);
}

static void add_read(const struct capo_evidence *e, struct cli_page *page)
{
        static const struct cli_column columns[] = {{NULL, "l"}, {NULL, "l~"}};
        struct cli_section *s = cli_page_section(page, "READ", columns, N_ELEMENTS(columns));
        char text[64], release[16];

        for (uint32_t i = 0; i < e->n_texts; i++) {
                bool first = true;

                for (uint32_t k = 0; k < i && first; k++)
                        first = !is_alike(&e->texts[k], &e->texts[i]);
                if (first)
                        add_files(e, i, s);
        }
        *text = 0;
        if (e->nccl)
                ADD(text, "NCCL %s", capo_nccl_text((uint32_t)e->nccl, release, sizeof release));
        for (uint32_t i = 0; i < e->n_nccls; i++) {
                if (e->nccls[i] != e->nccl)
                        ADD(text, ", %s",
                            capo_nccl_text((uint32_t)e->nccls[i], release, sizeof release));
        }
        if (e->ofi)
                ADD(text, "%saws-ofi-nccl %s", *text ? ", " : "",
                    capo_nccl_text((uint32_t)e->ofi, release, sizeof release));
        if (*text)
                cli_section_line(s, "%s", text);
        add_ranks(e, s);
        if (e->n_stories > 1)
                cli_section_line(s, "of %u attempts or jobs; each is judged alone", e->n_stories);
}

static const struct cli_column sentence[] = {{NULL, "l~"}};

/* What is in a text without a verdict: its last line, where the job may have stopped. */
static void add_seen(const struct capo_evidence_text *t, struct cli_section *s)
{
        size_t size = t->text ? strlen(t->text) : 0, from;
        char text[400], line[240];

        while (size && !isalnum((unsigned char)t->text[size - 1]) &&
               strchr(" \r\n\t`|-=*#", t->text[size - 1]))
                size--;
        if (!size) {
                if (t->text)
                        cli_section_cell(s, "%s is empty", t->name);
                return;
        }
        for (from = size; from && t->text[from - 1] != '\n';)
                from--;
        capo_quote(t->text + from, line, sizeof line);
        SAY(text, "%.120s ends with: %s", t->name, line);
        add_plain(s, text);
}

static void add_verdict(const struct capo_evidence *e, const struct capo_diagnose_finding *v,
                        struct cli_page *page)
{
        struct cli_section *s = cli_page_section(page, "VERDICT", sentence, 1);
        _cleanup_free_ char *marks = v ? marks_text(e, v) : NULL;
        bool any = false;
        char who[240];

        s->leads = true;
        for (uint32_t i = 0; i < e->n_texts; i++)
                any |= !e->texts[i].n[CAPO_EVIDENCE_UNKNOWN];
        if (v) {
                cli_section_cell(s, "%s%s%s%s", v->headline, who_text(e, v, who),
                                 capo_verdict_decides(v) ? ", " : "",
                                 capo_verdict_decides(v) ? v->sure : "");
                add_plain(s, v->detail);
                cli_section_cell(s, "from %s", marks ? marks : "");
        } else {
                cli_section_cell(
                        s, "%s",
                        any ? "NOT DECIDED: capo knows no line here that shows a fault or a good end"
                            : "NOTHING RECOGNISED in these inputs");
                for (uint32_t i = 0; i < e->n_texts && i < SEEN_SHOWN; i++)
                        add_seen(&e->texts[i], s);
        }
}

static void add_advice(struct diagnose_inputs *in, const struct capo_diagnose_finding *v,
                       struct cli_page *page)
{
        char ask[512];
        struct cli_section *next = cli_page_section(page, "NEXT", sentence, 1);

        if (v && *v->next)
                cli_section_cell(next, "%s", v->next);
        if (!v && in->evidence.n_texts && in->evidence.texts[0].n[CAPO_EVIDENCE_PROFILE] &&
            capo_text_has(&in->evidence.texts[0], "coll_busbw_gbs")) {
                cli_section_cell(next, "are these rates normal? capo expect %s",
                                 in->evidence.texts[0].name);
        } else if (!v) {
                cli_section_cell(next, "%s",
                                 capo_prose_ask(&in->evidence, CAPO_TOPIC_NONE, ask, sizeof ask));
        }
        if (in->logs.n)
                cli_section_cell(next, "capo hang %s%s: %s", in->logs.v[0],
                                 in->logs.n > 1 ? " ..." : "",
                                 in->logs_judged ? "what each rank did last"
                                                 : "these are logs of capo, not judged here");
}

int diagnose_page(struct diagnose_inputs *in, bool markdown, FILE *out)
{
        struct cli_page *page = cli_page_new();
        struct capo_evidence *e = &in->evidence;
        const struct capo_diagnose_finding *v = capo_evidence_verdict(e);

        cli_page_title(page, "capo diagnose   %s%s",
                       e->n_texts ? capo_base_name(e->texts[0].name) : "",
                       e->n_texts > 1 ? " ..." : "");
        add_read(e, page);
        add_verdict(e, v, page);
        add_advice(in, v, page);
        (markdown ? cli_page_markdown : cli_page_text)(page, out);
        return fflush(out) || ferror(out) ? -EIO : 0;
}

/* ---- JSON ---- */

static json_t *finding_json(const struct capo_evidence *e, const struct capo_diagnose_finding *f)
{
        json_t *ranks = json_array(), *from = json_array();

        for (uint32_t i = 0; i < f->n_ranks; i++)
                json_array_append_new(ranks, json_integer(f->ranks[i]));
        for (uint32_t i = 0; i < f->n_marks; i++)
                json_array_append_new(from,
                                      json_pack("{s:o, s:i}", "file",
                                                cli_json_text(e->texts[f->marks[i].text].name),
                                                "line", (int)f->marks[i].line));
        return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "kind", f->kind, "sure", f->sure,
                         "text", cli_json_text(f->headline), "detail", cli_json_text(f->detail),
                         "ranks", ranks, "from", from, "next", cli_json_text(f->next));
}

int diagnose_json(struct diagnose_inputs *in, FILE *out)
{
        struct capo_evidence *e = &in->evidence;
        const struct capo_diagnose_finding *v = capo_evidence_verdict(e);
        json_t *read = json_array(), *also = json_array(), *ranks = json_array(), *page;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                json_t *kinds = json_object();

                for (unsigned k = 0; k < CAPO_EVIDENCE_KINDS; k++) {
                        if (e->texts[i].n[k])
                                json_object_set_new(kinds, capo_evidence_name(k),
                                                    json_integer(e->texts[i].n[k]));
                }
                json_array_append_new(read,
                                      json_pack("{s:o, s:o}", "file",
                                                cli_json_text(e->texts[i].name), "kinds", kinds));
        }
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (&e->findings[i] != v)
                        json_array_append_new(also, finding_json(e, &e->findings[i]));
        }
        for (uint32_t i = 0; i < e->n_seen; i++) {
                if (e->seen[i])
                        json_array_append_new(ranks, json_integer(i));
        }
        page = json_pack("{s:i, s:o, s:o, s:i, s:o, s:o, s:i}", "capo_diagnose", 1, "read", read,
                         "ranks", ranks, "nccl", e->nccl, "verdict",
                         v ? finding_json(e, v) : json_null(), "also", also, "status",
                         diagnose_exit(in));
        return cli_json_print(out, page, JSON_INDENT(2)) < 0 || ferror(out) ? -EIO : 0;
}

int diagnose_bugs(int release, bool json, FILE *out)
{
        json_t *rows = json ? json_array() : NULL;
        char first[16], fixed[32], asked[16];

        if (release > capo_bugs_newest() && !json)
                fprintf(out,
                        "NCCL %s is newer than %s, the newest release that these bugs name: it may have others, and some of these may be fixed in it\n",
                        capo_nccl_text((uint32_t)release, asked, sizeof asked),
                        capo_nccl_text((uint32_t)capo_bugs_newest(), first, sizeof first));
        for (size_t i = 0; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *b = &capo_known_bugs[i];

                if (release && (b->of != CAPO_BUG_NCCL || !capo_bug_in(b, release)))
                        continue;
                if (json) {
                        json_array_append_new(rows, cli_json_bug(b, NULL));
                        continue;
                }
                fprintf(out, "%-12s %-10s %s\n", capo_bug_software(b->of), capo_bug_does(b->effect),
                        b->when);
                if (b->first)
                        fprintf(out, "  since %s, ",
                                capo_nccl_text((uint32_t)b->first, first, sizeof first));
                else
                        fputs("  ", out);
                fprintf(out, "%s: %s\n  %s\n", capo_bug_fixed(b, fixed), b->advice, b->link);
        }
        if (json)
                return cli_json_print(out,
                                      json_pack("{s:i, s:i, s:o}", "capo_known_bugs", 1, "newest",
                                                capo_bugs_newest(), "bugs", rows),
                                      JSON_INDENT(2)) < 0
                               ? -EIO
                               : 0;
        return fflush(out) || ferror(out) ? -EIO : 0;
}

int diagnose_exit(const struct diagnose_inputs *in)
{
        const struct capo_diagnose_finding *verdict = capo_evidence_verdict(&in->evidence);

        if (!verdict || verdict->rank == CAPO_RANK_UNDECIDED || !strcmp(verdict->sure, "unsure"))
                return CAPO_EXIT_UNKNOWN;
        return verdict->rank == CAPO_RANK_HEALTHY ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}
