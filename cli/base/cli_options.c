/* SPDX-License-Identifier: Apache-2.0 */
/* Parses command lines by the tables of cli_options.h. getopt_long() splits the words; values and
 * all messages are handled here. Also lists all options. */
#include <getopt.h>
#include <math.h>

#include "capo/msg.h"
#include "cli/base/cli_options.h"
#include "cli/base/near_word.h"
#include "cli/base/cli_screen.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

enum { FIRST = 256 }; /* getopt's number of the first option: above all letters */

struct parser {
        const char *verb;
        void *options;
        struct cli_found found[CLI_OPTIONS_MAX];
        unsigned n;
};

/* @old: also earlier names of options. */
static unsigned add_table(const struct cli_option *rows, size_t base, bool old,
                          struct cli_found *found, unsigned n)
{
        for (; rows && rows->kind != CLI_KIND_END; rows++) {
                if (rows->kind == CLI_KIND_TABLE)
                        n = add_table(rows->table, base + rows->at, old, found, n);
                else if (rows->kind != CLI_KIND_HEADING && (rows->help || old) &&
                         n < CLI_OPTIONS_MAX)
                        found[n++] = (struct cli_found){rows, base};
        }
        return n;
}

const struct cli_option cli_wide_options[] = {CLI_WIDE, {0}};

unsigned cli_options(const struct cli_command *command, struct cli_found found[CLI_OPTIONS_MAX])
{
        return add_table(command->options, 0, false, found, 0);
}

/* ---- values: each function returns NULL, or what it expected ---- */

static const char *take_number(const struct cli_option *row, void *target, const char *value)
{
        static char expected[96];
        static const char *const what[] = {[CLI_KIND_COUNT] = "a whole number",
                                           [CLI_KIND_NUMBER] = "a number",
                                           [CLI_KIND_SECONDS] = "a number of seconds",
                                           [CLI_KIND_PERCENT] = "percent"};
        static const char *const units[] = {[CLI_KIND_SECONDS] = "s", [CLI_KIND_PERCENT] = "%"};
        const char *unit = row->kind < N_ELEMENTS(units) ? units[row->kind] : NULL;
        char *end;
        double v = strtod(value, &end);
        bool good = end != value && (isdigit((unsigned char)*value) || strchr(".-+", *value));

        if (unit && !strcmp(end, unit))
                end++;
        if (good && !*end && v >= row->least && v <= row->most &&
            (row->kind != CLI_KIND_COUNT || v == floor(v))) {
                if (row->kind == CLI_KIND_COUNT)
                        *(int *)target = (int)v;
                else
                        *(double *)target = row->kind == CLI_KIND_PERCENT ? v / 100 : v;
                return NULL;
        }
        if (row->most >= INT_MAX)
                snprintf(expected, sizeof expected, "%s from %g on", what[row->kind], row->least);
        else
                snprintf(expected, sizeof expected, "%s from %g to %g", what[row->kind], row->least,
                         row->most);
        return expected;
}

static const char *take_choice(const struct cli_option *row, void *target, const char *value)
{
        static char expected[256];

        for (int i = 0; row->words[i]; i++) {
                if (!strcmp(row->words[i], value)) {
                        *(int *)target = i;
                        return NULL;
                }
        }
        *expected = 0;
        for (int i = 0; row->words[i]; i++)
                capo_append(expected, sizeof expected, "%s%s",
                            !i                  ? ""
                            : row->words[i + 1] ? ", "
                                                : " or ",
                            row->words[i]);
        return expected;
}

static const char *take_words(const struct cli_option *row, void *options, void *target,
                              const char *value)
{
        static char expected[48];
        const char **words = target;
        size_t *n = (size_t *)((char *)options + row->n_at);

        snprintf(expected, sizeof expected, "no more than %zu", row->room);
        if (row->kind == CLI_KIND_WORDS) {
                if (*n == row->room)
                        return expected;
                words[(*n)++] = value;
                return NULL;
        }
        for (char *word = (char *)value, *comma; word;
             word = comma) { /* main()'s words are writable */
                comma = strchr(word, ',');
                if (comma)
                        *comma++ = 0;
                if (!*word)
                        return "words with single commas between them";
                if (*n == row->room)
                        return expected;
                words[(*n)++] = word;
        }
        return NULL;
}

static int set_option(const struct parser *p, const struct cli_found *f, const char *value)
{
        const struct cli_option *row = f->row;
        char *options = (char *)p->options + f->base;
        void *target = options + row->at;
        const char *expected = NULL;

        switch (row->kind) {
        case CLI_KIND_FLAG: *(bool *)target = true; break;
        case CLI_KIND_WIDE: cli_screen_wide(); break;
        case CLI_KIND_SET: *(int *)target = row->value; break;
        case CLI_KIND_TEXT:
        case CLI_KIND_FILE: *(const char **)target = value; break;
        case CLI_KIND_COUNT:
        case CLI_KIND_NUMBER:
        case CLI_KIND_SECONDS:
        case CLI_KIND_PERCENT: expected = take_number(row, target, value); break;
        case CLI_KIND_CHOICE: expected = take_choice(row, target, value); break;
        case CLI_KIND_WORDS:
        case CLI_KIND_LIST: expected = take_words(row, options, target, value); break;
        case CLI_KIND_TAKE: expected = row->take(target, value); break;
        default: break;
        }
        return expected ? capo_fail(-EINVAL, "%s: --%s: expected %s, found \"%s\"", p->verb,
                                    row->name, expected, value)
                        : 0;
}

/* ---- words ---- */

static int report_unknown_option(const struct parser *p, const char *word)
{
        char name[64] = "";
        const char *nearest = NULL, *other = NULL;
        struct cli_near_word near = {0};
        unsigned begin = 0;

        if (!strncmp(word, "--", 2))
                snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        for (unsigned i = 0; *name && i < p->n; i++) {
                const char *known = p->found[i].row->name;

                if (!strncmp(known, name, strlen(name)) && begin++ < 2)
                        *(begin == 1 ? &nearest : &other) = known;
                cli_near_word_try(&near, name, known);
        }
        if (!begin && near.word && 2 * near.edits <= strlen(name))
                nearest = near.word;
        if (begin > 1)
                capo_error("%s: \"%s\" may be --%s or --%s; capo %s --help", p->verb, word, nearest,
                           other, p->verb);
        else if (nearest)
                capo_error("%s: unknown option \"%s\", is it --%s? capo %s --help", p->verb, word,
                           nearest, p->verb);
        else
                capo_error("%s: unknown option \"%s\"; capo %s --help", p->verb, word, p->verb);
        return -EINVAL;
}

struct words {
        const struct cli_command *command;
        char **v;
        unsigned n;
};

static int add_operand(const struct parser *p, struct words *w, char *word)
{
        if (w->n == w->command->most)
                return capo_fail(-EINVAL, "%s: unexpected \"%s\"; capo %s --help", p->verb, word,
                                 p->verb);
        w->v[w->n++] = word;
        return w->command->take ? w->command->take(p->options, word) : 0;
}

/* A beginning of a name is not taken for it: "--top 3" would be --topo 3. @value: of the option,
 * which may be a word of its own. Return: 0; -EINVAL, printed. */
static int check_whole(const struct parser *p, const char *name, char *const *argv,
                       const char *value)
{
        const char *word = argv[optind - 1];

        if (value && value == word)
                word = argv[optind - 2];
        if (strncmp(word, "--", 2) != 0 || strcspn(word + 2, "=") == strlen(name))
                return 0;
        return report_unknown_option(p, word);
}

/* "-profile", of which getopt takes each letter for an option: suggest --profile. */
static int report_unknown_letter(const struct parser *p, const char *word)
{
        char whole[64], letter[] = {'-', (char)optopt, 0};

        if (!word || word[0] != '-' || word[1] != optopt || strlen(word) < 3)
                return report_unknown_option(p, letter);
        snprintf(whole, sizeof whole, "-%s", word);
        return report_unknown_option(p, whole);
}

/* Return: 0; 1: help was requested; 2: all of it; -EINVAL, printed. */
static int parse_argv(struct parser *p, struct words *w, int argc, char **argv)
{
        struct option longs[CLI_OPTIONS_MAX + 2] = {{0}};
        char letters[2 * CLI_OPTIONS_MAX + 4], *at = letters;
        int c, r = 0;

        *at++ = w->command->command
                        ? '+'
                        : '-'; /* stop at the first operand, or return operands in order */
        *at++ = ':';
        *at++ = 'h';
        for (unsigned i = 0; i < p->n; i++) {
                const struct cli_option *o = p->found[i].row;

                longs[i] = (struct option){o->name, cli_has_value(o), NULL, FIRST + (int)i};
                if (o->letter) {
                        *at++ = o->letter;
                        *at++ = ':';
                        at -= !cli_has_value(o);
                }
        }
        *at = 0;
        longs[p->n] = (struct option){"help", optional_argument, NULL, 'h'};
        optind = 0;
        opterr = 0;
        while (r == 0 && (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
                unsigned i = 0;

                if (c == 'h' && (!optarg || !strcmp(optarg, "all")))
                        return optarg ? 2 : 1;
                if (c == 'h')
                        return capo_fail(-EINVAL, "%s: --help takes no value, or all", p->verb);
                if (c == 1) {
                        r = add_operand(p, w, optarg);
                        continue;
                }
                if (c == ':' || (c == '?' && optopt)) {
                        if (c == ':')
                                capo_error("%s: %s needs a value", p->verb, argv[optind - 1]);
                        else if (optopt >= FIRST)
                                capo_error("%s: --%s takes no value", p->verb,
                                           p->found[optopt - FIRST].row->name);
                        else
                                report_unknown_letter(p, argv[optind]);
                        return -EINVAL;
                }
                if (c == '?')
                        return report_unknown_option(p, argv[optind - 1]);
                if (c >= FIRST)
                        r = check_whole(p, longs[c - FIRST].name, argv, optarg);
                while (c < FIRST && p->found[i].row->letter != c)
                        i++;
                r = r ?: set_option(p, &p->found[c < FIRST ? i : (unsigned)c - FIRST], optarg);
        }
        for (int i = optind; i < argc && r == 0; i++)
                r = add_operand(p, w, argv[i]);
        if (r == 0 && w->n < w->command->least)
                r = capo_fail(-EINVAL, "%s: %s; capo %s --help", p->verb, w->command->missing,
                              p->verb);
        return r;
}

int cli_run(const struct cli_verb *verb, int argc, char **argv)
{
        const struct cli_command *command = verb->command;
        _cleanup_free_ void *options = xcalloc(1, command->size + 1);
        _cleanup_free_ char **words = xcalloc((size_t)argc + 1, sizeof *words);
        struct parser p = {.verb = verb->name, .options = options};
        struct words w = {command, words, 0};
        int r;

        if (command->defaults)
                memcpy(options, command->defaults, command->size);
        p.n = add_table(command->options, 0, true, p.found, 0);
        r = parse_argv(&p, &w, argc, argv);
        if (r > 0)
                cli_help(stdout, verb, r > 1);
        if (r == 0 && !command->run)
                r = capo_fail(-EINVAL, "%s: which of its verbs? capo %s --help", verb->name,
                              verb->name);
        if (r == 0)
                r = command->run(options, (int)w.n, words);
        else
                r = r > 0 ? CAPO_EXIT_OK : CAPO_EXIT_USAGE;
        if (command->finish)
                command->finish(options);
        return r;
}

static const char *format_example(const struct cli_option *o, char *text, size_t room)
{
        double some = o->least > 1 ? o->least : o->most < 1 ? o->most : 1;

        switch (o->kind) {
        case CLI_KIND_COUNT:
        case CLI_KIND_NUMBER:
        case CLI_KIND_SECONDS: snprintf(text, room, "%g", some); break;
        case CLI_KIND_PERCENT: snprintf(text, room, "%g%%", some); break;
        case CLI_KIND_CHOICE: snprintf(text, room, "%s", o->words[0]); break;
        default: snprintf(text, room, "x");
        }
        return o->example ? o->example : text;
}

void cli_table(FILE *out)
{
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                struct cli_found found[CLI_OPTIONS_MAX];
                unsigned n = cli_options(v->command, found);
                char text[64];

                fprintf(out, "%s\thelp\th\t0\t\n", v->name);
                for (unsigned i = 0; i < n; i++) {
                        const struct cli_option *o = found[i].row;
                        char letter[2] = {o->letter, 0};

                        fprintf(out, "%s\t%s\t%s\t%d\t%s\n", v->name, o->name,
                                *letter ? letter : "-", cli_has_value(o),
                                cli_has_value(o) ? format_example(o, text, sizeof text) : "");
                }
        }
}
