/* SPDX-License-Identifier: Apache-2.0 */
/* capo completion: scripts that complete verbs, options and values in shells, from the tables that
 * the parser uses. */

#include "capo/msg.h"
#include "cli/base/cli.h"

enum { BASH, ZSH, FISH };

static const char *const shells[] = {[BASH] = "bash", [ZSH] = "zsh", [FISH] = "fish", NULL};

/* Print the begin of a help text in single quotes; @special: characters that the shell needs
 * escaped. */
static void print_quoted(const char *text, const char *special)
{
        size_t n = strcspn(text, ".;:(\n");

        for (size_t i = 0; i < n && i < 76; i++) {
                if (text[i] == '\'')
                        fputs("'\\'", stdout);
                else if (strchr(special, text[i]))
                        putchar('\\');
                putchar(text[i]);
        }
}

static const char *find_subverb(const struct cli_verb *v) { return strchr(v->name, ' '); }

/* The verbs of a group; "": the first words. */
static void print_verbs(const char *group)
{
        size_t n = strlen(group);

        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (n ? !strncmp(v->name, group, n) && v->name[n] == ' ' : !find_subverb(v))
                        printf("%s ", v->name + n + (n > 0));
        }
}

static void print_bash(void)
{
        puts("# bash completion for capo; made by capo completion bash\n"
             "_capo()\n{\n"
             "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=\n"
             "\tcase \"$verb ${COMP_WORDS[2]}\" in");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (find_subverb(v))
                        printf("\t'%s') [ \"$COMP_CWORD\" -gt 2 ] && verb='%s' ;;\n", v->name,
                               v->name);
        }
        fputs("\tesac\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='", stdout);
        print_verbs("");
        puts("help'\n\telse\n\t\tcase \"$verb/$prev\" in");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                struct cli_found found[CLI_OPTIONS_MAX];
                unsigned n = cli_options(v->command, found);

                for (unsigned i = 0; i < n; i++) {
                        if (found[i].row->kind != CLI_KIND_CHOICE)
                                continue;
                        printf("\t\t'%s/--%s') words='", v->name, found[i].row->name);
                        for (size_t k = 0; found[i].row->words[k]; k++)
                                printf("%s ", found[i].row->words[k]);
                        puts("' ;;");
                }
        }
        puts("\t\t*)\n\t\t\tcase \"$verb\" in");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                struct cli_found found[CLI_OPTIONS_MAX];
                unsigned n = cli_options(v->command, found);

                printf("\t\t\t'%s') words='", v->name);
                print_verbs(v->name);
                for (unsigned i = 0; i < n; i++)
                        printf("--%s ", found[i].row->name);
                puts("--help' ;;");
        }
        puts("\t\t\tesac ;;\n\t\tesac\n\tfi\n"
             "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
             "complete -o default -F _capo capo");
}

static void zsh_option(const struct cli_option *o)
{
        printf(" \\\n\t\t'--%s%s[", o->name, cli_has_value(o) ? "=" : "");
        print_quoted(o->help, "[]:\\");
        putchar(']');
        if (o->kind == CLI_KIND_CHOICE) {
                fputs(":word:(", stdout);
                for (size_t k = 0; o->words[k]; k++)
                        printf("%s ", o->words[k]);
                putchar(')');
        } else if (cli_has_value(o)) {
                fputs(o->kind == CLI_KIND_FILE || o->kind == CLI_KIND_LIST ? ":file:_files"
                                                                           : ":value:",
                      stdout);
        }
        putchar('\'');
}

static void print_zsh(void)
{
        puts("#compdef capo\n# made by capo completion zsh\n"
             "local verb=\"$words[2]\"\nlocal -a verbs");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                bool begins = !find_subverb(v) && v[1].name && find_subverb(&v[1]);

                if (begins)
                        printf("[[ $CURRENT -gt 3 ]] && case \"$words[2] $words[3]\" in\n");
                if (find_subverb(v))
                        printf("'%s') verb='%s' ;;\n", v->name, v->name);
                if (find_subverb(v) && (!v[1].name || !find_subverb(&v[1])))
                        puts("esac");
        }
        puts("if (( CURRENT == 2 )); then\n\tverbs=(");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (find_subverb(v))
                        continue;
                printf("\t\t'%s:", v->name);
                print_quoted(v->help, ":\\");
                puts("'");
        }
        puts("\t)\n\t_describe verb verbs\n\treturn\nfi\ncase \"$verb\" in");
        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                struct cli_found found[CLI_OPTIONS_MAX];
                unsigned n = cli_options(v->command, found);

                printf("'%s')\n\t_arguments '--help[explains it]'", v->name);
                for (unsigned i = 0; i < n; i++)
                        zsh_option(found[i].row);
                if (v->command->run) {
                        puts(" '*:file:_files' ;;");
                } else {
                        fputs(" '*:verb:(", stdout);
                        print_verbs(v->name);
                        puts(")' ;;");
                }
        }
        puts("esac");
}

static void fish_verb(const struct cli_verb *v)
{
        struct cli_found found[CLI_OPTIONS_MAX];
        unsigned n = cli_options(v->command, found);
        int first = (int)strcspn(v->name, " ");

        if (find_subverb(v))
                printf("complete -c capo -n '__fish_seen_subcommand_from %.*s' -a %s -d '", first,
                       v->name, find_subverb(v) + 1);
        else
                printf("complete -c capo -n __fish_use_subcommand -f -a %s -d '", v->name);
        print_quoted(v->help, "\\");
        puts("'");
        for (unsigned i = 0; i < n; i++) {
                const struct cli_option *o = found[i].row;

                printf("complete -c capo -n '__fish_seen_subcommand_from %.*s%s%s' -l %s%s -d '",
                       first, v->name, find_subverb(v) ? "; and __fish_seen_subcommand_from" : "",
                       find_subverb(v) ? find_subverb(v) : "", o->name,
                       cli_has_value(o) ? " -r" : "");
                print_quoted(o->help, "\\");
                puts("'");
        }
}

static int run_completion(void *options, int n, char **shell)
{
        if (!strcmp(shell[0], shells[BASH])) {
                print_bash();
        } else if (!strcmp(shell[0], shells[ZSH])) {
                print_zsh();
        } else if (!strcmp(shell[0], shells[FISH])) {
                for (const struct cli_verb *v = cli_verbs; v->name; v++)
                        fish_verb(v);
        } else {
                return capo_fail(CAPO_EXIT_USAGE,
                                 "completion: expected bash, zsh or fish, found \"%s\"", shell[0]);
        }
        return CAPO_EXIT_OK;
}

const struct cli_command completion_command = {
        .usage = "bash|zsh|fish",
        .about =
                "Prints the completion of capo's command line for a shell, made from the tables that parse it. An "
                "installed capo has it in place already.",
        .after = "  source <(capo completion bash)",
        .status = "0; 2 wrong command line.",
        .missing = "which shell? bash, zsh or fish",
        .least = 1,
        .most = 1,
        .run = run_completion,
};
