/* SPDX-License-Identifier: Apache-2.0 */
/* The capo command: finds the verb in the table and runs it. */
#include <jansson.h>
#include <poll.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_plain.h"
#include "cli/base/near_word.h"
#include "cli/commit.h"
#include "core/base/site_conf.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

const struct cli_verb cli_verbs[] = {
#define VERB_GROUP(id, title)
#define VERB(group, name, help)   {CLI_VERBS_##group, #name, help, &name##_command},
#define SUBVERB(verb, name, help) {0, #verb " " #name, help, &verb##_##name##_command},
#include "cli/base/verbs.def"
        {0}};

const struct cli_verb *cli_verb_find(const char *name, const char *sub)
{
        size_t n = strlen(name);

        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (!strncmp(v->name, name, n) &&
                    (sub ? v->name[n] == ' ' && !strcmp(v->name + n + 1, sub) : !v->name[n]))
                        return v;
        }
        return NULL;
}

static int fail_verb(const char *name)
{
        struct cli_near_word near = {0};

        for (const struct cli_verb *v = cli_verbs; v->name; v++)
                cli_near_word_try(&near, name, v->name);
        if (near.word && 2 * near.edits <= strlen(name))
                return capo_fail(CAPO_EXIT_USAGE,
                                 "unknown verb \"%s\", is it %s? capo --help lists them", name,
                                 near.word);
        return capo_fail(CAPO_EXIT_USAGE, "unknown verb \"%s\"; capo --help lists them", name);
}

/* A group got a word that is none of its verbs. */
static int fail_group(const struct cli_verb *verb, const char *word)
{
        char names[256] = "";
        size_t n = strlen(verb->name);

        for (const struct cli_verb *v = cli_verbs; v->name; v++) {
                if (!strncmp(v->name, verb->name, n) && v->name[n] == ' ')
                        capo_append(names, sizeof names, "%s%s", *names ? ", " : "",
                                    v->name + n + 1);
        }
        return capo_fail(CAPO_EXIT_USAGE, "%s: expected one of %s; found \"%s\"; capo %s --help",
                         verb->name, names, word ? word : "nothing", verb->name);
}

/* capo recover is the earlier name of capo report --recover; its --list, --all and --drop are
 * --recover-list and so on. */
static int run_recover(int argc, char **argv)
{
        _cleanup_free_ char **words = xcalloc((size_t)argc + 2, sizeof *words);

        words[0] = xstrdup("report");
        words[1] = xstrdup("--recover");
        for (int i = 1; i < argc; i++) {
                bool old = !strcmp(argv[i], "--list") || !strcmp(argv[i], "--all") ||
                           !strcmp(argv[i], "--drop");

                words[i + 1] = old ? xprintf("--recover-%s", argv[i] + 2) : argv[i];
        }
        return cli_run(cli_verb_find("report", NULL), argc + 1, words);
}

static int run_verb(int argc, char **argv)
{
        const struct cli_verb *verb = cli_verb_find(argv[0], NULL);
        const struct cli_verb *sub = argc > 1 ? cli_verb_find(argv[0], argv[1]) : NULL;

        if (sub)
                return cli_run(sub, argc - 1, argv + 1);
        if (!strcmp(argv[0], "recover"))
                return run_recover(argc, argv);
        if (!verb)
                return fail_verb(argv[0]);
        if (!verb->command->run && (argc < 2 || argv[1][0] != '-'))
                return fail_group(verb, argv[1]);
        return cli_run(verb, argc, argv);
}

/* capo help [VERB [WORD]]; --man and --options are for the build and for tests. */
static int print_help(int argc, char **argv)
{
        const struct cli_verb *verb =
                argc > 1 ? cli_verb_find(argv[1], argc > 2 ? argv[2] : NULL) : NULL;

        if (argc < 2)
                cli_usage(stdout);
        else if (!strcmp(argv[1], "--man"))
                cli_manual(stdout);
        else if (!strcmp(argv[1], "--options"))
                cli_table(stdout);
        else if (verb)
                cli_help(stdout, verb, false);
        else
                fail_verb(argv[1]);
        return argc < 2 || verb || argv[1][0] == '-' ? CAPO_EXIT_OK : CAPO_EXIT_USAGE;
}

/* Output that could not be written is a failure, whichever verb printed it; a closed pipe (head) is
 * not. */
static int check_stdout(int status)
{
        struct pollfd reader = {STDOUT_FILENO, POLLOUT, 0};

        errno = 0;
        if ((fflush(stdout) != 0 || ferror(stdout)) &&
            !(poll(&reader, 1, 0) == 1 && reader.revents & POLLERR)) {
                int why = errno ? errno : cli_plain_why_not();

                capo_error("standard output: %s", why ? strerror(why) : "not all could be written");
                return status == CAPO_EXIT_OK ? CAPO_EXIT_FAIL : status;
        }
        return status;
}

/* Apply the site's settings to this process and to the command that it starts. */
static void take_site_defaults(void)
{
        static char text[CAPO_SITE_ROOM], fault[CAPO_SITE_FAULT];

        capo_site_read(text, fault);
        capo_site_warn(text, fault);
        for (const char *at = text; *at; at += strlen(at) + 1) {
                char name[64];

                snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "="), at);
                setenv(name, capo_site_value(text, name), 0);
        }
}

int main(int argc, char **argv)
{
        cli_plain_stdout();
        json_set_alloc_funcs(xmalloc, free);
        if (argc > 1 && strcmp(argv[1], "env") != 0) /* it prints where values come from */
                take_site_defaults();
        if (argc < 2) {
                cli_usage(stderr);
                return CAPO_EXIT_USAGE;
        }
        if (!strcmp(argv[1], "--version")) {
                puts("capo " CAPO_VERSION " (commit " CAPO_COMMIT ", " CAPO_COMPILER ")");
                return check_stdout(CAPO_EXIT_OK);
        }
        if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
                return check_stdout(print_help(1, argv + 1));
        return check_stdout(!strcmp(argv[1], "help") ? print_help(argc - 1, argv + 1)
                                                     : run_verb(argc - 1, argv + 1));
}
