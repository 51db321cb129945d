/* SPDX-License-Identifier: Apache-2.0 */
/* capo env: prints the settings, and the paths of capo's libraries. */
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_page.h"
#include "cli/base/install_paths.h"
#include "core/base/site_conf.h"

enum question { SETTINGS, MARKDOWN, PRELOAD, PLUGIN };

struct options {
        enum question question;
        bool all;
};

static const struct {
        const char *name, *value, *help;
        bool own;
} settings[] = {
#define ENV(field, type, name, def, help)     {name, def, help, false},
#define ENV_OWN(field, type, name, def, help) {name, def, help, true},
#include "capo/env.def"
};

static void print_markdown(bool all)
{
        fputs("| variable | default | meaning |\n|---|---|---|\n", stdout);
        for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
                if (all || !settings[i].own)
                        printf("| `%s` | `%s` | %s |\n", settings[i].name, settings[i].value,
                               settings[i].help);
        }
}

static int print_settings(bool all)
{
        static const struct cli_column columns[] = {{"setting", "l"},
                                                    {"value", "l"},
                                                    {"from", "l"},
                                                    {"default", "l"},
                                                    {"meaning", "l~"}};
        static char site[CAPO_SITE_ROOM], fault[CAPO_SITE_FAULT];
        struct cli_page *page = cli_page_new();
        struct cli_section *s;

        capo_site_read(site, fault);
        capo_site_warn(site, fault);
        cli_page_title(page, "capo env");
        if (*site)
                cli_page_under(page, "site defaults: %s", capo_site_path());
        s = cli_page_section(page, "SETTINGS", columns, N_ELEMENTS(columns));
        for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
                const char *value = getenv(settings[i].name), *from = "env", *type = "";
                long long least;

                if (settings[i].own && !all)
                        continue;
                if (!value) {
                        value = capo_site_value(site, settings[i].name);
                        from = value ? "site" : "-";
                }
                cli_section_cell(s, "%s", settings[i].name);
                if (!value || !*value)
                        cli_section_cell(s, "-");
                else if (capo_env_understood(settings[i].name, value, &type) < 0)
                        cli_section_cell(s, "%s (%s is not %s)", settings[i].value, value, type);
                else if (capo_env_below(settings[i].name, value, &least))
                        cli_section_cell(s, "%lld (%s is below it)", least, value);
                else
                        cli_section_cell(s, "%s", value);
                cli_section_cell(s, "%s", from);
                cli_section_cell(s, "%s", *settings[i].value ? settings[i].value : "-");
                cli_section_cell(s, "%s", settings[i].help);
        }
        cli_page_text(page, stdout);
        return CAPO_EXIT_OK;
}

/* Print the path of a library, for LD_PRELOAD or NCCL_TUNER_PLUGIN in a manifest. */
static int print_library(const char *built, const char *installed)
{
        char path[PATH_MAX];

        if (cli_where(built, installed, path, sizeof path) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "env: %s is not beside this capo: not installed?",
                                 installed);
        puts(path);
        return CAPO_EXIT_OK;
}

static int run_env(void *options, int n, char **words)
{
        const struct options *o = options;

        switch (o->question) {
        case PRELOAD: return print_library("shim/libcapo.so", CAPO_LIBDIR "/libcapo.so");
        case PLUGIN:
                return print_library("tuner/libnccl-tuner-capo.so",
                                     CAPO_LIBDIR "/libnccl-tuner-capo.so");
        case MARKDOWN: print_markdown(o->all); return CAPO_EXIT_OK;
        default: return print_settings(o->all);
        }
}

static const struct cli_option options[] = {
        {"preload", CLI_SET(struct options, question, PRELOAD),
         "only the path of libcapo.so, for LD_PRELOAD"},
        {"plugin", CLI_SET(struct options, question, PLUGIN),
         "only the path of the tuner plugin, for NCCL_TUNER_PLUGIN"},
        {"all", CLI_FLAG(struct options, all),
         "also the settings that capo's own parts pass to each other"},
        {"markdown", CLI_SET(struct options, question, MARKDOWN), "the table of docs/env.md",
         .rare = true},
        CLI_WIDE,
        {0}};

const struct cli_command env_command = {
        .usage = "[OPTIONS]",
        .about = "Lists every setting that capo reads: the value in force (- when unset), where "
                 "it is from (env: the environment, site: the file of site defaults), the "
                 "default, what it means. capo run sets more for its command; these are not "
                 "shown.",
        .options = options,
        .after = "  capo env --wide | grep PROFILE\n"
                 "  LD_PRELOAD=$(capo env --preload) CAPO_DIR=logs python3 train.py",
        .status = "0; 1 the library is not there, 2 wrong command line.",
        .size = sizeof(struct options),
        .run = run_env,
};
