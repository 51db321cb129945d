/* SPDX-License-Identifier: Apache-2.0 */
/* capo completion: scripts for shells, which ask capo for the words that can follow. It answers from
 * the tables that the parser uses. */

#include "capo/msg.h"
#include "cli/base/cli.h"

static const struct {
        const char *shell, *script;
} scripts[] = {
        {"bash",
         "# bash completion for capo; made by capo completion bash\n"
         "_capo()\n{\n"
         "\tlocal IFS=$'\\n'\n"
         "\tCOMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" 2>/dev/null |\n"
         "\t\tcut -f 1)\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _capo capo\n"},
        {"zsh",
         "#compdef capo\n# made by capo completion zsh\n"
         "local -a found\n"
         "found=(${(f)\"$(${words[1]} completion words -- ${words[2,CURRENT-1]} 2>/dev/null)\"})\n"
         "compadd -- ${found%%$'\\t'*}\n"
         "[[ $CURRENT -eq 2 || $PREFIX == -* ]] || _files\n"},
        {"fish",
         "complete -c capo -a '(capo completion words -- (commandline -opc)[2..-1] 2>/dev/null)'\n"},
};

/* A word, and the begin of what it means. */
static void print_word(const char *before, const char *word, const char *help)
{
        printf("%s%s\t%.*s\n", before, word, (int)strcspn(help, ".;:(\n"), help);
}

/* The words that can follow @words: verbs, verbs of a group, options, values of an option. Nothing
 * where a file may follow. */
static void print_words(int n, char **words)
{
        const struct cli_verb *sub = n > 1 ? cli_verb_find(words[0], words[1]) : NULL,
                              *verb = n && !sub ? cli_verb_find(words[0], NULL) : sub;
        size_t length = n == 1 ? strlen(words[0]) : 0;
        struct cli_found found[CLI_OPTIONS_MAX];
        unsigned n_found = verb ? cli_options(verb->command, found) : 0;

        for (unsigned i = 0; i < n_found; i++) {
                const struct cli_option *o = found[i].row;

                if (strncmp(words[n - 1], "--", 2) || strcmp(words[n - 1] + 2, o->name) ||
                    !cli_has_value(o))
                        continue;
                for (size_t k = 0; o->kind == CLI_KIND_CHOICE && o->words[k]; k++)
                        print_word("", o->words[k], "");
                return;
        }
        for (const struct cli_verb *v = cli_verbs; v->name && n < 2; v++) {
                if (n ? !strncmp(v->name, words[0], length) && v->name[length] == ' '
                      : !strchr(v->name, ' '))
                        print_word("", v->name + length + n, v->help);
        }
        for (unsigned i = 0; i < n_found; i++)
                print_word("--", found[i].row->name, found[i].row->help);
        print_word(n ? "--" : "", "help", "");
}

static int run_completion(void *options, int n, char **words)
{
        if (!strcmp(words[0], "words")) {
                print_words(n - 1, words + 1);
                return CAPO_EXIT_OK;
        }
        if (n > 1)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "completion: unexpected \"%s\"; capo completion --help", words[1]);
        for (size_t i = 0; i < N_ELEMENTS(scripts); i++) {
                if (!strcmp(words[0], scripts[i].shell)) {
                        fputs(scripts[i].script, stdout);
                        return CAPO_EXIT_OK;
                }
        }
        return capo_fail(CAPO_EXIT_USAGE, "completion: expected bash, zsh or fish, found \"%s\"",
                         words[0]);
}

const struct cli_command completion_command = {
        .usage = "bash|zsh|fish",
        .about =
                "Prints the completion of capo's command line for a shell. It asks capo for the words that can "
                "follow. An installed capo has it in place already.",
        .after = "  source <(capo completion bash)",
        .status = "0; 2 wrong command line.",
        .missing = "which shell? bash, zsh or fish",
        .least = 1,
        .most = UINT_MAX,
        .run = run_completion,
};
