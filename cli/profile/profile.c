/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo profile: everything a person wants to know about a profile before a job uses it. Thin: finding is in
 * core/profile/find.c, checking in core/profile/check.c, matching in core/profile/match.c; drawing is in profile_show.c.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/profile/show.h"
#include "cli/base/where.h"
#include "core/base/layout.h"
#include "core/profile/check.h"
#include "core/profile/find.h"
#include "core/base/util.h"

static const char help[] =
        "usage: capo profile check|show|match|digest|export|layouts FILE [OPTIONS]\n"
        "       capo profile list\n\n"
        "A profile tells NCCL which algorithm, protocol and channels to use, by communicator and size\n"
        "(docs/profile-format.md). FILE is a path, the name of a stored profile, or - for standard input; it may\n"
        "also be a CSV of NVIDIA's example tuner.\n\n"
        "  check FILE    unknown words, gaps, overlaps, impossible pairs, rows and rules that cannot win,\n"
        "                conditions that ranks could answer differently. Status 1 when something is wrong\n"
        "  show FILE     as tables: where it comes from, its rules, their rows\n"
        "  match FILE    which rule a given communicator gets, and why not the others\n"
        "      --ranks N  --nodes N      the communicator (nodes: 1)\n"
        "      --layout 3+5              ranks per node; sets ranks and nodes too\n"
        "      --nccl 2.28.9  --comm NAME  --class TEXT\n"
        "      --allow-modelled          as with CAPO_ALLOW_MODELLED=1: modelled rules may decide\n"
        "      --coll C --bytes SIZE     one question instead of all rows\n"
        "      --pipe-ops N  --reg-buff 0|1  --link nvlink|other  --ring-gbs X  --tree-gbs X\n"
        "  digest FILE   the 128 bits that every rank must agree on\n"
        "  export FILE   rewritten: --csv (NVIDIA's example tuner), or canonical JSON\n"
        "  layouts FILE --platform NAME | --topo FILE [--nccl FILE] [-o FILE]\n"
        "                add what NCCL's cost table says for every layout, so that the tuner can tell them apart;\n"
        "                capo profile layouts --help\n"
        "  list          the profiles that CAPO_PROFILE=NAME would find: user, site, shipped\n\n"
        "Example: which rule does all-reduce get on 3+5 GPUs of two servers?\n"
        "  capo profile match mycluster.json --layout 3+5 --nccl 2.28.9 --coll allreduce --bytes 1M\n\n"
        "Exit status: 0; 1 the profile is wrong or cannot be read (check: also when ranks could differ), 2 wrong "
        "command "
        "line.\n";

/* The folder of the shipped profiles, "" when this capo has none. */
static const char *shipped(void)
{
        static char path[PATH_MAX];

        if (!*path && capo_where(CAPO_BUILD_PROFILES, CAPO_DATADIR "/capo/profiles", path, sizeof path))
                return NULL;
        return path;
}

static struct capo_profile *load(const char *name)
{
        struct capo_profile *p = NULL;
        struct capo_fault fault;
        char path[PATH_MAX];

        if (capo_profile_find(name, shipped(), path, sizeof path, &fault) < 0 ||
            capo_profile_load(path, &p, &fault) < 0)
                capo_error("%s", fault.text);
        return p;
}

/* ---- check ---- */

struct said {
        const char *file;
        int n[3];
};

static void say(void *user, enum capo_finding_level level, uint32_t line, const char *text)
{
        static const char *const words[] = {"error", "warning", "note"};
        struct said *said = user;

        said->n[level]++;
        if (line)
                printf("%s:%u: %s: %s\n", said->file, line, words[level], text);
        else
                printf("%s: %s: %s\n", said->file, words[level], text);
}

static int check(struct capo_profile *p)
{
        struct said said = {.file = p->file};
        int errors = capo_profile_check(p, say, &said);

        if (errors < 0) {
                capo_error("%s: %s", p->file, strerror(-errors));
                return CAPO_EXIT_FAIL;
        }
        printf("%s: %u rule%s, %u row%s, digest %s: ", p->file, p->n_rules, p->n_rules == 1 ? "" : "s", p->n_rows,
               p->n_rows == 1 ? "" : "s", p->digest);
        if (said.n[0] + said.n[1] + said.n[2])
                printf("%d errors, %d warnings, %d notes\n", said.n[0], said.n[1], said.n[2]);
        else
                puts("good");
        return errors ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

/* ---- list ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int profiles_only(const struct dirent *e)
{
        const char *end = strrchr(e->d_name, '.');

        return end && (!strcmp(end, ".json") || !strcmp(end, ".csv"));
}

static int list(void)
{
        char folder[PATH_MAX], path[PATH_MAX + 256];
        const char *what, *wanted = getenv("CAPO_PROFILE");

        if (wanted && *wanted)
                printf("CAPO_PROFILE=%s\n", wanted);
        for (unsigned i = 0; capo_profile_folder(i, shipped(), folder, sizeof folder, &what); i++) {
                struct dirent **entries = NULL;
                int n = *folder ? scandir(folder, &entries, profiles_only, by_name) : -1;

                printf("%-8s %s%s\n", what, *folder ? folder : "(no HOME)",
                       n < 0 ? "  (not there)"
                       : n   ? ""
                             : "  (empty)");
                for (int k = 0; k < n; k++) {
                        struct capo_profile *p = NULL;
                        struct capo_fault fault;

                        snprintf(path, sizeof path, "%s/%s", folder, entries[k]->d_name);
                        if (capo_profile_load(path, &p, &fault) < 0)
                                printf("         %-36s cannot be read: %s\n", entries[k]->d_name, fault.text);
                        else
                                printf("         %-36s %3u rules %4u rows  %s\n", entries[k]->d_name, p->n_rules,
                                       p->n_rows, p->name);
                        capo_profile_free(p);
                        free(entries[k]);
                }
                free(entries);
        }
        return CAPO_EXIT_OK;
}

/* ---- the command line ---- */

enum {
        OPT_RANKS = 256,
        OPT_NODES,
        OPT_LAYOUT,
        OPT_NCCL,
        OPT_COMM,
        OPT_CLASS,
        OPT_COLL,
        OPT_BYTES,
        OPT_PIPE,
        OPT_REG,
        OPT_LINK,
        OPT_RING,
        OPT_TREE,
        OPT_MODELLED,
        OPT_CSV,
        OPT_HELP
};

static const struct option options[] = {{"ranks", required_argument, NULL, OPT_RANKS},
                                        {"nodes", required_argument, NULL, OPT_NODES},
                                        {"layout", required_argument, NULL, OPT_LAYOUT},
                                        {"nccl", required_argument, NULL, OPT_NCCL},
                                        {"comm", required_argument, NULL, OPT_COMM},
                                        {"class", required_argument, NULL, OPT_CLASS},
                                        {"coll", required_argument, NULL, OPT_COLL},
                                        {"bytes", required_argument, NULL, OPT_BYTES},
                                        {"pipe-ops", required_argument, NULL, OPT_PIPE},
                                        {"reg-buff", required_argument, NULL, OPT_REG},
                                        {"link", required_argument, NULL, OPT_LINK},
                                        {"ring-gbs", required_argument, NULL, OPT_RING},
                                        {"tree-gbs", required_argument, NULL, OPT_TREE},
                                        {"csv", no_argument, NULL, OPT_CSV},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {"allow-modelled", no_argument, NULL, OPT_MODELLED},
                                        {NULL, 0, NULL, 0}};

/* @text as a whole number from @min on; -1 after a message. */
static int whole(const char *option, const char *text, int min)
{
        char *end;
        long v = strtol(text, &end, 10);

        if (end != text && !*end && v >= min && v <= 1 << 24)
                return (int)v;
        capo_error("profile: %s: expected a whole number of at least %d, found \"%s\"", option, min, text);
        return -1;
}

static int usage(const char *what, const char *value)
{
        capo_error("profile: %s \"%s\"; capo profile --help", what, value);
        return CAPO_EXIT_USAGE;
}

/* One option of `match`. 0, or -1 after a message. */
static int match_option(struct capo_match_ask *ask, int option, const char *value)
{
        unsigned major, minor, patch = 0;
        static char layout_text[CAPO_LAYOUT_TEXT];
        struct capo_layout layout;
        char *end;

        switch (option) {
        case OPT_RANKS: return ask->shape.n_ranks = whole("--ranks", value, 1);
        case OPT_NODES: return ask->shape.n_nodes = whole("--nodes", value, 1);
        case OPT_PIPE: return ask->question.pipe_ops = whole("--pipe-ops", value, 1);
        case OPT_LAYOUT:
                if (capo_layout_parse(value, &layout, NULL) < 0)
                        break;
                ask->shape.n_ranks = (int)layout.n_ranks;
                ask->shape.n_nodes = (int)layout.n_nodes;
                ask->layout = capo_layout_print(&layout, layout_text, sizeof layout_text);
                return 0;
        case OPT_NCCL:
                if (sscanf(value, "%u.%u.%u", &major, &minor, &patch) < 2 || major > 9 || minor > 99 || patch > 99)
                        break;
                ask->shape.nccl = (int)(major * 10000 + minor * 100 + patch);
                return 0;
        case OPT_COMM: ask->shape.comm = value; return 0;
        case OPT_MODELLED: ask->shape.allow_modelled = true; return 0;
        case OPT_CLASS: ask->shape.fragment = value; return 0;
        case OPT_COLL:
                ask->coll = capo_coll_find(value);
                if (ask->coll < 0)
                        break;
                return 0;
        case OPT_BYTES:
                if (capo_size_parse(value, &ask->question.bytes) < 0)
                        break;
                ask->one = true;
                return 0;
        case OPT_REG:
                if (strcmp(value, "0") && strcmp(value, "1"))
                        break;
                ask->question.reg_buff = *value == '1';
                return 0;
        case OPT_LINK:
                if (strcmp(value, "nvlink") && strcmp(value, "other"))
                        break;
                ask->question.link = *value == 'n' ? CAPO_LINK_NVLINK : CAPO_LINK_OTHER;
                return 0;
        default: /* OPT_RING, OPT_TREE */
                *(option == OPT_RING ? &ask->question.ring_gbs : &ask->question.tree_gbs) = strtod(value, &end);
                if (end == value || *end)
                        break;
                return 0;
        }
        for (const struct option *o = options; o->name; o++) {
                if (o->val == option)
                        capo_error("profile: --%s: \"%s\" is not understood; capo profile --help", o->name, value);
        }
        return -1;
}

int capo_verb_profile(int argc, char **argv)
{
        static const char *const verbs[] = {"check", "show", "match", "digest", "export", "list"};
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        struct capo_match_ask ask = {.shape = {.n_ranks = -1, .n_nodes = 1, .min_local = -1, .max_local = -1},
                                     .question = {.reg_buff = -1, .pipe_ops = 1, .ring_gbs = -1, .tree_gbs = -1},
                                     .coll = -1};
        const char *verb = argc > 1 ? argv[1] : "";
        bool csv = false, match = !strcmp(verb, "match"), known = false;
        int option, r;

        if (!strcmp(verb, "--help") || !strcmp(verb, "-h")) {
                fputs(help, stdout);
                return CAPO_EXIT_OK;
        }
        if (!strcmp(verb, "layouts"))
                return profile_layouts(argc - 1, argv + 1);
        for (size_t i = 0; i < N_ELEMENTS(verbs); i++)
                known |= !strcmp(verb, verbs[i]);
        if (!known)
                return usage(*verb ? "unknown action"
                                   : "expected check, show, match, digest, export, layouts or list, found",
                             verb);
        optind = 1;
        opterr = 0;
        while ((option = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
                if (option == OPT_HELP) {
                        fputs(help, stdout);
                        return CAPO_EXIT_OK;
                }
                if (option == OPT_CSV && !strcmp(verb, "export"))
                        csv = true;
                else if (option == '?' || option == OPT_CSV || !match)
                        return usage("unknown option, or one without its value:", argv[optind]);
                else if (match_option(&ask, option, optarg) < 0)
                        return CAPO_EXIT_USAGE;
        }
        argv += 1 + optind;
        argc -= 1 + optind;
        if (!strcmp(verb, "list"))
                return argc ? usage("list takes no file:", argv[0]) : list();
        if (argc != 1)
                return argc ? usage("one file at a time:", argv[1]) : usage("expected a file for", verb);
        if (match && ask.shape.n_ranks < 0) {
                capo_error("profile: match needs --ranks (and --nodes), or --layout");
                return CAPO_EXIT_USAGE;
        }
        if (ask.one && ask.coll < 0) {
                capo_error("profile: --bytes needs --coll");
                return CAPO_EXIT_USAGE;
        }
        p = load(argv[0]);
        if (!p)
                return CAPO_EXIT_FAIL;
        if (match)
                return capo_profile_show_match(p, &ask) < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
        if (!strcmp(verb, "check"))
                return check(p);
        if (!strcmp(verb, "show")) {
                capo_profile_show(p);
                return CAPO_EXIT_OK;
        }
        if (!strcmp(verb, "digest")) {
                printf("%s  %s\n", p->digest, p->file);
                return CAPO_EXIT_OK;
        }
        if (!csv && p->csv) {
                capo_error("%s is a CSV: its lines may overlap, which JSON cannot say; --csv rewrites it", p->file);
                return CAPO_EXIT_FAIL;
        }
        r = csv ? capo_profile_write_csv(p, stdout, stderr) : capo_profile_write(p, stdout);
        if (r < 0)
                capo_error("%s: %s", p->file, strerror(-r));
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
