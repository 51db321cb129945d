/* SPDX-License-Identifier: Apache-2.0 */
/* capo explain: why one call runs as it does. Three sources, each used as far as it was requested:
 * the profile's rules for the job's shape; NCCL's predicted costs on virtual GPUs, before and after
 * the tuner; what a recorded job really ran. */
#include "capo/call_ids.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/near_word.h"
#include "cli/explain/cmd_explain.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "cli/base/install_paths.h"
#include "core/profile/profile_find.h"

static void copy_lower(const char *name, char *to, size_t room)
{
        snprintf(to, room, "%s", name);
        for (; *to; to++)
                *to = (char)tolower((unsigned char)*to);
}

/* Say what the first word may mean: the two words the other way round, or a name that is near. */
static int refuse_call(const char *word, const char *size)
{
        char wrong[64], known[64], meant[160] = "";
        unsigned least = 3;
        uint64_t bytes;

        copy_lower(word, wrong, sizeof wrong);
        for (unsigned i = 1; i < CAPO_CALLS; i++) {
                if (capo_coll_of_call((uint8_t)i) < 0)
                        continue;
                copy_lower(capo_call_name(i), known, sizeof known);
                if (cli_count_edits(wrong, known) < least) {
                        least = cli_count_edits(wrong, known);
                        snprintf(meant, sizeof meant, ", is it %s?", known);
                }
        }
        if (capo_size_parse(word, &bytes) == 0)
                snprintf(meant, sizeof meant, ", is it a size? Try: capo explain %.20s %.20s", size,
                         word);
        return capo_fail(-EINVAL, "explain: \"%s\" is not a call NCCL asks a tuner about%s", word,
                         *meant ? meant
                                : ": allreduce, broadcast, reduce, allgather, reducescatter");
}

/* Parse the operands. Return: 0; -EINVAL, printed. */
static int parse_query(struct explain *e, char **words)
{
        e->call = capo_call_find(words[0]);
        e->coll = capo_coll_of_call(e->call);
        if (!e->call || (e->coll < 0 && !e->log))
                return refuse_call(words[0], words[1]);
        if (capo_size_range(words[1], &e->bytes, &e->bytes_max) ||
            (e->bytes != e->bytes_max && !e->log))
                return capo_fail(-EINVAL, "explain: \"%s\" is not a size, such as 64K or 25M",
                                 words[1]);
        snprintf(e->size, sizeof e->size, "%s", words[1]);
        e->layout = e->plan.layout && *e->plan.layout ? e->plan.layout : NULL;
        e->shape.allow_modelled = e->plan.allow_modelled;
        if (!e->log && !e->plan.n_topo && !e->plan.platform &&
            !(e->profile_name && e->shape.n_ranks && e->shape.n_nodes))
                return capo_fail(
                        -EINVAL,
                        "explain: name a machine (--platform, --topo), a job's shape with a profile (--ranks, "
                        "--nodes, --profile) or a recorded job (--log)");
        return 0;
}

static int run_explain(void *options, int n, char **words)
{
        struct explain *e = options;
        struct capo_fault fault;

        e->shape.min_local = e->shape.max_local = -1;
        if (parse_query(e, words) < 0)
                return CAPO_EXIT_USAGE;
        if (e->profile_name &&
            (capo_profile_find(e->profile_name, cli_shipped_profiles(), e->plan.profile_path,
                               sizeof e->plan.profile_path, &fault) ||
             capo_profile_load(e->plan.profile_path, &e->profile, &fault)))
                return capo_fail(CAPO_EXIT_FAIL, "%s", fault.text);
        e->plan.profile = e->profile_name ? e->plan.profile_path : NULL;
        if (e->log)
                return explain_recorded(e);
        return e->plan.n_topo || e->plan.platform ? explain_planned(e) : explain_shape(e);
}

static void finish_explain(void *options)
{
        struct explain *e = options;

        cli_question_finish(&e->plan);
        capo_profile_free(e->profile);
}

static const char *take_release(void *nccl, const char *value)
{
        int last;

        return capo_nccl_parse(value, nccl, &last, NULL) < 0 || *(int *)nccl < 20000
                       ? "a release such as 2.28.9"
                       : NULL;
}

/* Earlier meaning: the library to ask, which is still accepted. */
static const char *take_nccl(void *explain, const char *value)
{
        struct explain *e = explain;

        if (!strchr(value, '/') && strncmp(value, "lib", 3))
                return take_release(&e->shape.nccl, value);
        e->plan.nccl = value;
        return NULL;
}

static const struct cli_option options[] = {
        {CLI_HEADING,
         "by the real libnccl on virtual GPUs, as capo plan (its model, nothing measured):"},
        {"topo", CLI_LIST(struct explain, plan.topo, plan.n_topo, "FILE,..."),
         "the machine, as in capo plan"},
        {"platform", CLI_TEXT(struct explain, plan.platform, "NAME"), "the same by its name"},
        {"alloc", CLI_TEXT(struct explain, plan.alloc, "3+5"),
         "the first GPUs of its nodes, as in capo plan"},
        {"gpus", CLI_TEXT(struct explain, plan.gpus, "LIST"), "or these: 0:1,2,3;1:0-4"},
        {"libnccl", CLI_FILE(struct explain, plan.nccl, "FILE"), "the libnccl.so.2 to ask"},
        {"profile", CLI_FILE(struct explain, profile_name, "P"),
         "by this profile: a file, or a stored profile's name"},
        {"allow-modelled", CLI_FLAG(struct explain, plan.allow_modelled),
         "also use the profile's modelled rules"},
        {"layout", CLI_TAKE(struct explain, plan.layout, "3+5", cli_question_take_layout),
         "what a launcher says of the ranks per node; none: nothing", .example = "3+5"},
        {CLI_HEADING, "by the profile alone, for a job of this shape:"},
        {"ranks", CLI_COUNT(struct explain, shape.n_ranks, "N", 1, 1 << 24), "the job's ranks"},
        {"nodes", CLI_COUNT(struct explain, shape.n_nodes, "M", 1, 1 << 24), "on so many nodes"},
        {"nccl", CLI_WHOLE("2.28.9", take_nccl), "NCCL's release", .example = "2.28.9"},
        {"nccl-version", CLI_TAKE(struct explain, shape.nccl, "2.28.9", take_release), NULL},
        {CLI_HEADING, "from a recording:"},
        {"log", CLI_FILE(struct explain, log, "DIR"), "logs of the job"},
        {"comm", CLI_TEXT(struct explain, comm, "NAME"),
         "only communicators of this name; * and ? as in the shell"},
        {CLI_HEADING, "output:"},
        CLI_FORM_JSON_OPTION(struct explain, form),
        CLI_FORM_CSV_OPTION(struct explain, form),
        CLI_FORM_MARKDOWN_OPTION(struct explain, form),
        CLI_WIDE,
        {0}};

const struct cli_command explain_command = {
        .usage =
                "CALL SIZE --platform NAME|--topo FILE [--alloc 3+5|--gpus ...] [--profile P] [--libnccl FILE]\n"
                "CALL SIZE --ranks N --nodes M [--layout 3+5] [--nccl 2.28.9] --profile P\n"
                "CALL SIZE --log DIR [--comm NAME]",
        .about = "Explains why one call runs as it does: every candidate with NCCL's predicted "
                 "cost, and the rule of the profile that decides or was blocked.\n"
                 "\n"
                 "CALL is allreduce, broadcast, reduce, allgather or reducescatter; with --log "
                 "any recorded call. SIZE is as in nccl-tests (64K, 25M), with --log also as "
                 "the report shows it (\"37.5 KiB\", \"1-1.9 MiB\").",
        .options = options,
        .after =
                "  capo explain allreduce 1M --platform dgx1v --gpus '0:1,2,3;1:0-4' --profile mycluster.json\n"
                "  capo explain allreduce 25M --log capo-logs/JOB --comm dp",
        .status = "0 explained, 1 could not be, 2 wrong command line.",
        .missing = "expected a call and a size, such as: capo explain allreduce 4M ...",
        .least = 2,
        .most = 2,
        .size = sizeof(struct explain),
        .run = run_explain,
        .finish = finish_explain,
};
