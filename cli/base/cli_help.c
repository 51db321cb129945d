/* SPDX-License-Identifier: Apache-2.0 */
/* Prints --help and the manual page from the option tables. */
#include "cli/base/cli_table.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "core/base/xalloc.h"

enum { WIDTH = 80, LABEL_MAX = 22 };

/* Print @n bytes of @line from column @at on, wrapped at WIDTH; further lines are indented by @indent.
 * @more: ends a line that goes on, as a shell would allow */
static void wrap_line(FILE *out, const char *line, int n, const char *more, int at, int indent)
{
        _cleanup_free_ char *copy = xstrndup(line, (size_t)n);

        for (const char *rest = copy; *rest; at = indent) {
                unsigned room = (unsigned)(WIDTH - at);
                size_t fits = cli_screen_width(rest) <= room
                                      ? strlen(rest)
                                      : cli_screen_fold(rest, room - (unsigned)strlen(more), NULL);

                fprintf(out, "%.*s", (int)fits, rest);
                rest += fits;
                rest += strspn(rest, " ");
                if (*rest)
                        fprintf(out, "%s\n%*s", more, indent, "");
        }
}

/* The same of all lines of @text, which are paragraphs; those that begin with a blank are commands. */
static void wrap_text(FILE *out, const char *text, int at, int indent)
{
        for (int n; *text; text += n + (text[n] != 0), at = indent) {
                int blanks = (int)strspn(text, " ");

                n = (int)strcspn(text, "\n");
                if (blanks)
                        wrap_line(out, text, n, strncmp(text + blanks, "capo ", 5) ? "" : " \\", 0,
                                  blanks + 4);
                else
                        wrap_line(out, text, n, "", at, indent);
                fputc('\n', out);
                if (text[n] && text[n + 1] && text[n + 1] != '\n')
                        fprintf(out, "%*s", indent, "");
        }
}

/* "-o, --output FILE" */
static int format_label(const struct cli_option *o, char *text, size_t room)
{
        char letter[5] = "";

        if (o->letter)
                snprintf(letter, sizeof letter, "-%c, ", o->letter);
        return snprintf(text, room, "%s--%s%s%s", letter, o->name, o->word ? " " : "",
                        o->word ? o->word : "");
}

/* Call @each for every row, headings included, in the order of --help. */
static void visit_rows(const struct cli_option *o, void (*each)(const struct cli_option *, void *),
                       void *arg)
{
        for (; o && o->kind != CLI_KIND_END; o++) {
                if (o->help)
                        each(o, arg);
                if (o->kind == CLI_KIND_TABLE)
                        visit_rows(o->table, each, arg);
        }
}

struct page {
        FILE *out;
        int column;
        bool any; /* an option has been printed */
        bool all; /* include rarely needed ones */
        unsigned left_out;
};

static void measure_label(const struct cli_option *o, void *arg)
{
        struct page *p = arg;
        char text[128];
        int n = o->name && (p->all || !o->rare) ? format_label(o, text, sizeof text) : 0;

        if (n > p->column && n <= LABEL_MAX)
                p->column = n;
}

static void print_option(const struct cli_option *o, void *arg)
{
        struct page *p = arg;
        char text[128];
        int at;

        if (!o->name) {
                if (p->any)
                        fputc('\n', p->out);
                wrap_text(p->out, o->help, 0, 0);
                return;
        }
        if (o->rare && !p->all) {
                p->left_out++;
                return;
        }
        p->any = true;
        format_label(o, text, sizeof text);
        at = fprintf(p->out, "  %-*s  ", p->column, text);
        if (at > p->column + 4)
                fprintf(p->out, "\n%*s", at = p->column + 4, "");
        wrap_text(p->out, o->help, at, p->column + 4);
}

/* Is it a verb of the group? */
static bool is_in_group(const struct cli_verb *v, const char *group)
{
        size_t n = strlen(group);

        return !strncmp(v->name, group, n) && v->name[n] == ' ';
}

static void each_usage(FILE *out, const struct cli_verb *verb, const char *before)
{
        for (const char *line = verb->command->usage; line;) {
                int n = (int)strcspn(line, "\n");
                char whole[512];

                snprintf(whole, sizeof whole, "%scapo %s%s%.*s", before, verb->name, n ? " " : "",
                         n, line);
                wrap_line(out, whole, (int)strlen(whole), "", 0, 15);
                fputc('\n', out);
                before = "       ";
                line = line[n] ? line + n + 1 : NULL;
        }
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (is_in_group(v, verb->name)) {
                        each_usage(out, v, before);
                        before = "       ";
                }
        }
}

void cli_help(FILE *out, const struct cli_verb *verb, bool all)
{
        const struct cli_command *c = verb->command;
        struct page p = {.out = out, .all = all};
        bool any = false;

        each_usage(out, verb, "usage: ");
        fputc('\n', out);
        wrap_text(out, c->about, 0, 0);
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (!is_in_group(v, verb->name))
                        continue;
                fprintf(out, "%s  %-10s ", any ? "" : "\n", v->name + strlen(verb->name) + 1);
                wrap_text(out, v->help, 13, 13);
                any = true;
        }
        if (any)
                fprintf(out, "\ncapo %s WORD --help explains one of them.\n", verb->name);
        if (c->options) {
                fputc('\n', out);
                visit_rows(c->options, measure_label, &p);
                visit_rows(c->options, print_option, &p);
        }
        if (p.left_out)
                fprintf(out, "\n%s: capo %s --help=all\n",
                        capo_text_plural(p.left_out, "more option", NULL), verb->name);
        if (c->after) {
                fputc('\n', out);
                wrap_text(out, c->after, 0, 0);
        }
        if (c->list && all)
                c->list(out);
        fputs("\nExit status: ", out);
        wrap_text(out, c->status, 13, 0);
}

void cli_usage(FILE *out)
{
        static const char *const titles[CLI_VERB_GROUPS] = {
#define VERB_GROUP(id, title) [CLI_VERBS_##id] = title,
#define VERB(group, name, help)
#define SUBVERB(verb, name, help)
#include "cli/base/verbs.def"
        };

        fputs("usage: capo VERB [OPTIONS]\n\n"
              "Records what an unmodified NCCL job's collectives cost, and makes NCCL choose\nbetter ones.\n",
              out);
        for (enum cli_verb_group g = 0; g < CLI_VERB_GROUPS; g++) {
                fprintf(out, "\n%s:\n", titles[g]);
                for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                        if (v->group != g || strchr(v->name, ' '))
                                continue;
                        fprintf(out, "  %-10s ", v->name);
                        wrap_text(out, v->help, 13, 13);
                }
        }
        fputs("\ncapo VERB --help explains one verb, --help=all also the options that few need.\n",
              out);
}

/* ---- man(1): texts must not be parsed as requests or hyphens ---- */

static void write_roff(FILE *out, const char *text, size_t n)
{
        bool begin = true;

        for (size_t i = 0; i < n; i++) {
                if (begin && strchr(".' ", text[i]))
                        fputs("\\&", out);
                if (text[i] == '-' || text[i] == '\\')
                        fputs(text[i] == '-' ? "\\-" : "\\e", out);
                else
                        fputc(text[i], out);
                begin = text[i] == '\n';
        }
}

static void roff_line(FILE *out, const char *request, const char *text)
{
        fputs(request, out);
        write_roff(out, text, strlen(text));
        fputc('\n', out);
}

/* The section of a verb: its whole --help, as it is. */
static void roff_verb(FILE *out, const struct cli_verb *verb)
{
        char name[64], *text = NULL;
        size_t size;
        FILE *help = xmemstream(&text, &size);

        cli_help(help, verb, true);
        xmemclose(help);
        snprintf(name, sizeof name, "CAPO %s", verb->name);
        for (char *s = name; *s; s++)
                *s = (char)toupper((unsigned char)*s);
        roff_line(out, ".SH ", name);
        fputs(".nf\n", out);
        write_roff(out, text, size);
        fputs(".fi\n", out);
        free(text);
}

void cli_manual(FILE *out)
{
        fputs(".TH CAPO 1 \"\" \"capo " CAPO_VERSION "\" \"User Commands\"\n"
              ".SH NAME\ncapo \\- record what NCCL collectives cost, and make NCCL choose better\n"
              ".SH SYNOPSIS\ncapo VERB [OPTIONS]\n",
              out);
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                roff_line(out, ".TP\n.B capo ", v->name);
                roff_line(out, "", v->help);
        }
        for (const struct cli_verb *v = cli_verbs; v->name; v++)
                roff_verb(out, v);
        fputs(".SH ENVIRONMENT\n", out);
#define ENV(field, type, name, def, help) \
        roff_line(out, ".TP\n.B ", name); \
        roff_line(out, "", help);         \
        roff_line(out, "Default: ", *(def) ? (def) : "none");
#include "capo/env.def"
        fputs(".SH EXIT STATUS\n"
              "0 fine; 1 the answer is no, or something failed; 2 the command line is wrong. capo run and capo sweep "
              "end with\ntheir command's own status.\n"
              ".SH FILES\n"
              ".TP\n.B capo\\-logs/\nlogs of recorded jobs, one file a process, mode 0600\n"
              ".TP\n.B /dev/shm/capo\\-UID\\-PID\\-START\n"
              "a running process's last calls; recovered by capo report after kill \\-9\n",
              out);
}
