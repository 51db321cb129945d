/* SPDX-License-Identifier: Apache-2.0 */
/* capo profile: shows, checks and finds profiles before a job uses them. In core/profile/,
 * profile_find.c finds them, profile_check.c checks, match.c matches. */
#include <dirent.h>

#include "capo/collectives.h"
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "cli/base/install_paths.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/profile/profile_check.h"
#include "core/profile/profile_find.h"
#include "core/profile/profile_table.h"

struct profile_ask {
        struct capo_shape shape;
        const char *layout;            /* canonical layout of the communicator; NULL: none */
        struct capo_question question; /* its bytes are only used if `one` */
        int coll;                      /* -1: all */
        bool one;
};

static void format_size_range(const struct capo_row *row, char *text, size_t room)
{
        char a[24], b[24];

        capo_size_print(row->from ? row->from - 1 : 0, a, sizeof a);
        capo_size_print(row->upto, b, sizeof b);
        if (!row->from)
                snprintf(text, room, row->upto == UINT64_MAX ? "all sizes" : "up to %s", b);
        else if (row->upto == UINT64_MAX)
                snprintf(text, room, "above %s", a);
        else
                snprintf(text, room, "%s - %s", a, b);
}

static void format_number(float value, const char *format, char *text, size_t room)
{
        if (isfinite(value))
                snprintf(text, room, format, (double)value);
        else
                snprintf(text, room, "-");
}

#define PROFILE_COLUMNS "  l14,.l24,.l14,.l7/e,.r8/d,.r10/c,.r9/a,.r7,.r8/b"

static void show_row(struct capo_table *t, const struct capo_row *row, bool first)
{
        char turned[CAPO_TURNED_TEXT], size[64], us[24], spread[24], gain[24], channels[8] = "-",
                                                                               samples[16] = "-";

        format_size_range(row, size, sizeof size);
        format_number(row->us, "%.6g", us, sizeof us);
        format_number(row->spread_us, "%.3g", spread, sizeof spread);
        format_number(row->gain * 100, "%+.1f %%", gain, sizeof gain);
        if (row->channels)
                snprintf(channels, sizeof channels, "%u", row->channels);
        if (row->samples)
                snprintf(samples, sizeof samples, "%u", row->samples);
        capo_table_row(
                t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", first ? capo_coll_word(row->coll) : "",
                size, row->algo ? capo_algo_name(row->algo) : "(NCCL's own)",
                row->algo ? capo_proto_name(row->proto) : "", channels, us, spread, gain, samples);
        if (row->measured)
                capo_table_row(t, "\t\tmeasured on %s", row->measured);
        if (row->chunk)
                capo_table_row(t, "\t\tchunks of %s",
                               capo_size_print(row->chunk, size, sizeof size));
        if (capo_row_turned(row))
                capo_table_row(t, "\t\tcalls turned: %s",
                               capo_row_turned_text(row, turned, sizeof turned));
}

/* The rows of @rule for @coll, below a head in a table that has none. */
static void show_rows(struct capo_table *t, const struct capo_profile *p,
                      const struct capo_rule *rule, unsigned coll, bool *head)
{
        if (!*head && rule->count[coll])
                capo_table_row(
                        t,
                        "collective\tsizes\talgorithm\tproto\tchannels\tus\tspread\tgain\tsamples");
        *head |= rule->count[coll] > 0;
        for (uint32_t i = 0; i < rule->count[coll]; i++)
                show_row(t, &p->rows[rule->first[coll] + i], !i);
}

static void show_rule(const struct capo_profile *p, const struct capo_rule *rule)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new(PROFILE_COLUMNS);
        bool head = false;
        char when[600];

        printf("\nline %u: %s%s\n", rule->line, capo_when_print(&rule->when, when, sizeof when),
               rule->basis == CAPO_BASIS_MODELLED ? "  (modelled, not measured)" : "");
        if (rule->n_constants)
                printf("    %u of NCCL's model constants corrected\n", rule->n_constants);
        for (unsigned k = 0; k < CAPO_COLLS; k++)
                show_rows(t, p, rule, capo_coll_at(k), &head);
        capo_table_print(t, stdout, 1);
}

static struct capo_profile *load_named_profile(const char *name)
{
        struct capo_profile *p = NULL;
        struct capo_fault fault;
        char path[PATH_MAX];

        if (capo_profile_find(name, cli_shipped_profiles(), path, sizeof path, &fault) < 0 ||
            capo_profile_load(path, &p, &fault) < 0)
                capo_error("%s", fault.text);
        return p;
}

/* Print the whole profile as tables to standard output. */
static int show_profile(void *options, int n_words, char **words)
{
        static const char *const sections[] = {"provenance", "platform"};
        _cleanup_(capo_profile_freep) struct capo_profile *p = load_named_profile(words[0]);

        if (!p)
                return CAPO_EXIT_FAIL;
        cli_screen_begin(stdout);
        printf("%s  %s\ndigest %s\n", *p->name ? p->name : "(no name)", p->file, p->digest);
        for (int s = 0; s < CAPO_SECTIONS; s++) {
                if (p->n_notes[s])
                        printf("\n%s\n", sections[s]);
                for (uint32_t i = 0; i < p->n_notes[s]; i++) {
                        const char *json = p->notes[s][i].json;
                        int n = (int)strlen(json), quote = *json == '"' && n > 1;

                        printf("    %-14s %.*s\n", p->notes[s][i].key, n - 2 * quote, json + quote);
                }
        }
        for (uint32_t i = 0; i < p->n_rules; i++)
                show_rule(p, &p->rules[i]);
        return CAPO_EXIT_OK;
}

/* ---- match ---- */

static void show_choice(const struct capo_profile *p, const struct profile_ask *ask,
                        struct capo_choice c, const struct capo_turn *turn, const char *unknown)
{
        uint16_t rule = turn ? turn->rule : c.rule; /* the last number is that of all rows behind */
        const struct capo_row *row = rule && rule < UINT16_MAX ? &p->rows[rule - 1] : NULL;
        char bytes[24], size[16], where[40], turned[CAPO_TURNED_TEXT];
        bool new = capo_nccl_has(ask->shape.nccl, CAPO_NCCL_CALL_CONFIG);

        if (row)
                snprintf(where, sizeof where, "%u", row->line);
        else
                snprintf(where, sizeof where, "a row behind the %uth", UINT16_MAX - 1u);
        printf("\n%s of %s: ", capo_coll_word(ask->coll),
               capo_size_print(ask->question.bytes, bytes, sizeof bytes));
        if (!c.rule && unknown)
                printf("not known without %s\n", unknown);
        else if (!c.rule)
                puts("no opinion, NCCL chooses");
        else if (!c.algo)
                printf("left to NCCL (%s:%s)\n", p->file, where);
        else
                printf(c.channels ? "%s, %s, at most %u channels (%s:%s)\n"
                                  : "%s, %s, NCCL's own channels%.0u (%s:%s)\n",
                       capo_algo_name(c.algo), capo_proto_name(c.proto), c.channels, p->file,
                       where);
        if (c.chunk)
                printf("    chunks of %s (NCCL 2.30 on)\n",
                       capo_size_print(c.chunk, size, sizeof size));
        if (row && capo_row_turned(row))
                printf("    calls %sturned: %s%s\n", turn || !new ? "" : "not ",
                       capo_row_turned_text(row, turned, sizeof turned),
                       turn  ? ""
                       : new ? "; a condition on single calls is known too late for that"
                             : " (NCCL 2.31 on)");
}

/* The option that would decide whether @rule matches; NULL: it cannot match, whatever the option.
 */
static const char *find_missing_option(const struct capo_rule *rule, const struct profile_ask *ask,
                                       const char *why)
{
        struct capo_rule rest = *rule;
        const char *option = NULL;

        if (!strcmp(why, "nccl") && !ask->shape.nccl) {
                rest.when.nccl = CAPO_ANY;
                option = "--nccl";
        } else if (!strcmp(why, "class") && !ask->shape.class_name) {
                rest.when.class_name = NULL;
                option = "--class";
        } else if (!strcmp(why, "comm") && !ask->shape.comm) {
                rest.when.comm = NULL;
                option = "--comm";
        } else {
                return NULL;
        }
        if (capo_rule_settled(&rest, &ask->shape, &why))
                return option;
        return find_missing_option(&rest, ask, why) ? option : NULL;
}

/* Print the rules that hold, and their rows. */
static void show_holding(const struct capo_profile *p, const struct profile_ask *ask,
                         const uint32_t *holding, int n)
{
        bool decided[CAPO_COLLS] = {false};
        char when[600];

        for (int i = 0; i < n; i++) {
                const struct capo_rule *rule = &p->rules[holding[i]];
                _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new(PROFILE_COLUMNS);
                bool head = false;
                const char *why;

                printf("\nholds   line %u: %s\n", rule->line,
                       capo_when_print(&rule->when, when, sizeof when));
                if (i + 1 < n) {
                        capo_rule_compare(p, holding[i], holding[i + 1], &why);
                        printf("        comes before line %u: its %s is more specific\n",
                               p->rules[holding[i + 1]].line, why);
                }
                for (unsigned k = 0; k < CAPO_COLLS; k++) {
                        unsigned c = capo_coll_at(k);

                        if (!rule->count[c] || (ask->coll >= 0 && (int)c != ask->coll))
                                continue;
                        if (decided[c] && !p->csv)
                                capo_table_row(t, "    %s is decided above", capo_coll_word(c));
                        else if (!ask->one)
                                show_rows(t, p, rule, c, &head);
                        decided[c] |= !capo_when_asks(&rule->when);
                }
                capo_table_print(t, stdout, 1);
        }
}

/* Print what this communicator gets, and why. Return: 0; -errno after a message. */
static int profile_show_match(const struct capo_profile *p, struct profile_ask *ask)
{
        _cleanup_free_ uint32_t *holding = NULL, *all = NULL;
        struct capo_tables *tables = NULL;
        char layout[CAPO_LAYOUT_TEXT], when[600], release[16];
        const char *why = "", *option, *unknown = NULL;
        int n, n_all, r;

        capo_shape_fill(&ask->shape, ask->layout, layout, sizeof layout, NULL);
        cli_screen_begin(stdout);
        printf("%s on %s%s%s", capo_text_plural((unsigned)ask->shape.n_ranks, "rank", NULL),
               capo_text_plural((unsigned)ask->shape.n_nodes, "node", NULL),
               ask->shape.layout ? ", layout " : "", ask->shape.layout ?: "");
        if (ask->shape.nccl)
                printf(", NCCL %s",
                       capo_nccl_text((uint32_t)ask->shape.nccl, release, sizeof release));
        puts("");
        n = capo_match(p, &ask->shape, &holding);
        n_all = capo_match(p, NULL, &all);
        r = n < 0 || n_all < 0 ? -1 : capo_tables_new(p, &ask->shape, &tables);
        if (r < 0)
                return capo_fail(
                        r,
                        "%s: out of memory, or more conditions on single calls than can be compiled",
                        p->file);
        show_holding(p, ask, holding, n);
        for (int i = 0; i < n_all; i++) {
                const struct capo_rule *rule = &p->rules[all[i]];

                if (capo_rule_settled(rule, &ask->shape, &why))
                        continue;
                option = find_missing_option(rule, ask, why);
                printf("\n%s line %u: %s\n        %s%s\n", option ? "unknown" : "not    ",
                       rule->line, capo_when_print(&rule->when, when, sizeof when),
                       option ? "without " : "does not match: ", option ?: why);
                unknown = unknown ?: option;
        }
        if (ask->one) {
                ask->question.coll = (uint8_t)ask->coll;
                show_choice(
                        p, ask,
                        capo_tables_chunk(tables->chunks, capo_tables_find(tables, &ask->question)),
                        capo_tables_turn(tables, ask->question.coll, ask->question.bytes), unknown);
        }
        if (!n && unknown)
                printf("\nno rule is known to hold: give %s\n", unknown);
        else if (!n)
                puts("\nno rule holds: NCCL's own choices stand");
        return 0;
}

/* ---- check ---- */

struct said {
        const char *file;
        int n[3];
};

static void print_finding(void *user, enum capo_finding_level level, uint32_t line,
                          const char *text)
{
        static const char *const words[] = {"error", "warning", "note"};
        struct said *said = user;

        said->n[level]++;
        printf(line ? "%s:%u: %s: %s\n" : "%s%.0u: %s: %s\n", said->file, line, words[level], text);
}

/* ---- list ---- */

static int profiles_only(const struct dirent *e)
{
        const char *end = strrchr(e->d_name, '.');

        return end && (!strcmp(end, ".json") || !strcmp(end, ".csv"));
}

static int list_profiles(void *options, int n_words, char **words)
{
        char folder[PATH_MAX], path[PATH_MAX + 256];
        const char *what, *wanted = getenv(CAPO_ENV_profile);
        FILE *out = cli_screen_begin(stdout);

        if (wanted && *wanted)
                fprintf(out, "CAPO_PROFILE=%s\n", wanted);
        for (unsigned i = 0;
             capo_profile_folder(i, cli_shipped_profiles(), folder, sizeof folder, &what); i++) {
                _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("  lrrl~");
                struct dirent **entries = NULL;
                int n = *folder ? scandir(folder, &entries, profiles_only, alphasort) : -1;

                fprintf(out, "%-8s %s%s\n", what, *folder ? folder : "(no HOME)",
                        n < 0 ? "  (not there)"
                        : n   ? ""
                              : "  (empty)");
                for (int k = 0; k < n; k++) {
                        struct capo_profile *p = NULL;
                        struct capo_fault fault;

                        snprintf(path, sizeof path, "%s/%s", folder, entries[k]->d_name);
                        if (capo_profile_load(path, &p, &fault) < 0)
                                capo_table_row(t, "%s\tcannot be read: %s", entries[k]->d_name,
                                               fault.text);
                        else
                                capo_table_row(t, "%s\t%s\t%s\t%s", entries[k]->d_name,
                                               capo_text_plural(p->n_rules, "rule", NULL),
                                               capo_text_plural(p->n_rows, "row", NULL), p->name);
                        capo_profile_free(p);
                        free(entries[k]);
                }
                free(entries);
                if (n > 0)
                        capo_table_print(t, out, 0);
        }
        return CAPO_EXIT_OK;
}

/* ---- the command lines ---- */

static const char *take_layout(void *ask, const char *value)
{
        static char text[CAPO_LAYOUT_TEXT];
        struct profile_ask *a = ask;
        struct capo_layout layout;

        if (capo_layout_parse(value, &layout, NULL) < 0)
                return "ranks per node, such as 3+5";
        a->shape.n_ranks = (int)layout.n_ranks;
        a->shape.n_nodes = (int)layout.n_nodes;
        a->layout = capo_layout_print(&layout, text, sizeof text);
        return NULL;
}

static const char *take_nccl(void *ask, const char *value)
{
        int first, last;
        const char *end;

        if (capo_nccl_parse(value, &first, &last, &end) < 0 || *end)
                return "a release, such as 2.28.9";
        ((struct profile_ask *)ask)->shape.nccl = first;
        return NULL;
}

static const char *take_coll(void *coll, const char *value)
{
        *(int *)coll = capo_coll_find(value);
        return *(int *)coll < 0 ? "allreduce, broadcast, reduce, allgather or reducescatter" : NULL;
}

static const char *take_bytes(void *ask, const char *value)
{
        struct profile_ask *a = ask;

        a->one = capo_size_parse(value, &a->question.bytes) == 0;
        return a->one ? NULL : "a size, such as 64K or 25M";
}

static const char *take_reg_buff(void *reg_buff, const char *value)
{
        *(int8_t *)reg_buff = *value == '1';
        return strcmp(value, "0") && strcmp(value, "1") ? "0 or 1" : NULL;
}

static const char *take_link(void *link, const char *value)
{
        *(uint8_t *)link = *value == 'n' ? CAPO_LINK_NVLINK : CAPO_LINK_OTHER;
        return strcmp(value, "nvlink") && strcmp(value, "other") ? "nvlink or other" : NULL;
}

static int print_profile_match(void *options, int n, char **words)
{
        struct profile_ask *ask = options;
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;

        if (ask->shape.n_ranks < 0)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "profile: match needs --ranks (and --nodes), or --layout");
        if (ask->one && ask->coll < 0)
                return capo_fail(CAPO_EXIT_USAGE, "profile: --bytes needs --coll");
        p = load_named_profile(words[0]);
        return p && profile_show_match(p, ask) == 0 ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}

static int check_profile_file(void *options, int n, char **words)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = load_named_profile(words[0]);
        struct said said = {.file = p ? p->file : NULL};
        int errors = p ? capo_profile_check(p, print_finding, &said) : -1;

        if (!p)
                return CAPO_EXIT_FAIL;
        if (errors < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", p->file, strerror(-errors));
        printf("%s: %s, %s, digest %s: ", p->file, capo_text_plural(p->n_rules, "rule", NULL),
               capo_text_plural(p->n_rows, "row", NULL), p->digest);
        if (said.n[0] + said.n[1] + said.n[2])
                printf("%s, %s, %s\n", capo_text_plural((unsigned)said.n[0], "error", NULL),
                       capo_text_plural((unsigned)said.n[1], "warning", NULL),
                       capo_text_plural((unsigned)said.n[2], "note", NULL));
        else
                puts("good");
        return errors ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static int print_digest(void *options, int n, char **words)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = load_named_profile(words[0]);

        if (p)
                printf("%s  %s\n", p->digest, p->file);
        return p ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}

struct export { bool csv; };

static int export_profile(void *options, int n, char **words)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = load_named_profile(words[0]);
        bool csv = ((struct export *)options)->csv;
        uint32_t choices;
        int r;

        if (!p)
                return CAPO_EXIT_FAIL;
        if (!csv && p->csv)
                return capo_fail(
                        CAPO_EXIT_FAIL,
                        "%s is a CSV: its lines may overlap, which JSON cannot say; --csv rewrites it",
                        p->file);
        r = csv ? capo_profile_write_csv(p, stdout, stderr) : capo_profile_write(p, stdout);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", p->file, strerror(-r));
        choices = COUNT_OF(row, p->rows, p->n_rows, row->algo);
        if (csv && choices && !r)
                return capo_fail(CAPO_EXIT_FAIL,
                                 "%s: the CSV is empty: none of %s can be said without the "
                                 "conditions above, which a CSV does not have",
                                 p->file, capo_text_plural(choices, "row", NULL));
        if (csv && (uint32_t)r < choices)
                capo_warn("%s: %u of %s left out of the CSV", p->file, choices - (uint32_t)r,
                          capo_text_plural(choices, "row", NULL));
        return CAPO_EXIT_OK;
}

#define STATUS   "0; 1 the profile is wrong or cannot be read, 2 wrong command line."
#define ONE_FILE .missing = "expected a file", .least = 1, .most = 1

const struct cli_command profile_command = {
        .about =
                "A profile tells NCCL which algorithm, protocol and channels to use, by communicator and size "
                "(docs/profile-format.md). FILE is a path, the name of a stored profile, or - for standard input; it "
                "may also be a CSV of NVIDIA's example tuner.",
        .after =
                "Example: which rule does all-reduce get on 3+5 GPUs of two servers?\n"
                "  capo profile match mycluster.json --layout 3+5 --nccl 2.28.9 --coll allreduce --bytes 1M",
        .status =
                "0; 1 the profile is wrong or cannot be read (check: also when ranks could differ), 2 wrong command "
                "line.",
};

const struct cli_command profile_check_command = {
        .usage = "FILE",
        .about =
                "Finds unknown words, impossible pairs, rows and rules that cannot win, and conditions "
                "that ranks could answer differently.",
        .status = "0 good; 1 something is wrong, or ranks could differ; 2 wrong command line.",
        ONE_FILE,
        .run = check_profile_file,
};

const struct cli_command profile_show_command = {
        .usage = "FILE",
        .about = "Shows a profile as tables: where it comes from, its rules, their rows.",
        .status = STATUS,
        ONE_FILE,
        .run = show_profile,
        .options = cli_wide_options,
};

static const struct profile_ask nothing_asked = {
        .shape = {.n_ranks = -1, .n_nodes = 1, .min_local = -1, .max_local = -1},
        .question = {.reg_buff = -1, .pipe_ops = 1, .ring_gbs = -1, .tree_gbs = -1},
        .coll = -1};

static const struct cli_option match_options[] = {
        {CLI_HEADING, "the communicator:"},
        {"ranks", CLI_COUNT(struct profile_ask, shape.n_ranks, "N", 1, 1 << 24), "its ranks"},
        {"nodes", CLI_COUNT(struct profile_ask, shape.n_nodes, "N", 1, 1 << 24),
         "on so many nodes; default 1"},
        {"layout", CLI_WHOLE("3+5", take_layout), "ranks per node; sets ranks and nodes too",
         .example = "3+5"},
        {"nccl", CLI_WHOLE("2.28.9", take_nccl), "NCCL's release", .example = "2.28.9"},
        {"comm", CLI_TEXT(struct profile_ask, shape.comm, "NAME"), "its name"},
        {"class", CLI_TEXT(struct profile_ask, shape.class_name, "TEXT"),
         "class of its GPUs, as capo topo names it"},
        {"allow-modelled", CLI_FLAG(struct profile_ask, shape.allow_modelled),
         "as with CAPO_ALLOW_MODELLED=1: modelled rules may decide"},
        {CLI_HEADING, "one question instead of all rows:"},
        {"coll", CLI_TAKE(struct profile_ask, coll, "C", take_coll), "the collective",
         .example = "allreduce"},
        {"bytes", CLI_WHOLE("SIZE", take_bytes), "and its size", .example = "1M"},
        {"pipe-ops", CLI_COUNT(struct profile_ask, question.pipe_ops, "N", 1, 1 << 24),
         "operations that NCCL fuses; default 1"},
        {"reg-buff", CLI_TAKE(struct profile_ask, question.reg_buff, "0|1", take_reg_buff),
         "are its buffers registered?", .example = "1"},
        {"link", CLI_TAKE(struct profile_ask, question.link, "nvlink|other", take_link),
         "what joins the GPUs", .example = "other"},
        {"ring-gbs", CLI_NUMBER(struct profile_ask, question.ring_gbs, "X", 0, INT_MAX),
         "what NCCL's cost table has for Ring"},
        {"tree-gbs", CLI_NUMBER(struct profile_ask, question.tree_gbs, "X", 0, INT_MAX),
         "and for Tree"},
        CLI_WIDE,
        {0}};

const struct cli_command profile_match_command = {
        .usage = "FILE (--ranks N [--nodes N] | --layout 3+5) [OPTIONS]",
        .about = "Says which rule a given communicator gets, and why not the others.",
        .options = match_options,
        .after =
                "  capo profile match mycluster.json --layout 3+5 --nccl 2.28.9 --coll allreduce --bytes 1M",
        .status = STATUS,
        ONE_FILE,
        .size = sizeof(struct profile_ask),
        .defaults = &nothing_asked,
        .run = print_profile_match,
};

const struct cli_command profile_digest_command = {
        .usage = "FILE",
        .about = "Prints the 128 bits that every rank must agree on.",
        .status = STATUS,
        ONE_FILE,
        .run = print_digest,
};

static const struct cli_option export_options[] = {
        {"csv", CLI_FLAG(struct export, csv), "for NVIDIA's example tuner"}, {0}};

const struct cli_command profile_export_command = {
        .usage = "FILE [--csv]",
        .about = "Rewrites a profile: canonical JSON, or CSV.",
        .options = export_options,
        .status =
                "0; 1 the profile is wrong or cannot be read, or a CSV can have none of its rows; 2 wrong command line.",
        ONE_FILE,
        .size = sizeof(struct export),
        .run = export_profile,
};

static const struct cli_option list_options[] = {CLI_WIDE, {0}};

const struct cli_command profile_list_command = {
        .usage = "",
        .about = "Lists the profiles that CAPO_PROFILE=NAME would find: user, site, shipped.",
        .options = list_options,
        .status = "0; 2 wrong command line.",
        .run = list_profiles,
};
