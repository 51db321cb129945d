/* SPDX-License-Identifier: Apache-2.0 */
/* What a process learns once: the profile, read at its first communicator and kept until the
 * process ends, and the tables compiled from it, one set per shape of communicator; a job that
 * makes thousands of communicators pays for a few shapes. The library is never unloaded (linked
 * with -z nodelete): NCCL closes and reopens a tuner when the last communicator goes and a new one
 * comes, and what was learned once stays. */
#include <dlfcn.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "capo/seam.h"
#include "core/base/calls.h"
#include "core/log/rules.h"
#include "core/profile/profile_find.h"
#include "tuner/process.h"
#include "tuner/tuner_env.h"

struct shape_tables {
        struct shape_tables *next;
        struct capo_shape shape; /* comm is a copy, layout points to `layout` */
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_tables *tables;
};
#define SHAPES_MAX 256

static struct shape_tables *shapes;
static unsigned n_shapes;
struct capo_process capo_process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The payload of a RULES frame: what numbers in records mean. */
static void tell_rules(const struct capo_profile *p)
{
        enum { ROWS_MAX = 4096 };
        struct capo_rules_row row = {0};
        char *text = NULL;
        size_t size = 0;
        FILE *f;

        if (!capo_seam || !capo_seam->rules)
                return;
        f = open_memstream(&text, &size);
        if (!f)
                return;
        capo_rules_put(f, CAPO_RULES_DIGEST, "%s", p->digest);
        capo_rules_put(f, CAPO_RULES_MODELLED, "%s",
                       capo_tuner_env()->allow_modelled ? "allowed" : "not allowed");
        capo_rules_put(f, CAPO_RULES_FILE, "%s", p->file);
        capo_rules_put(f, CAPO_RULES_NAME, "%s", p->name);
        if (capo_process.trial.mode)
                capo_rules_put(f, CAPO_RULES_TRIAL, "%s", capo_tuner_env()->trial);
        if (capo_profile_turned(p))
                capo_rules_put(f, CAPO_RULES_TURNS, "%s", capo_tuner_env()->steer ? "on" : "off");
        for (uint32_t r = 0; r < p->n_rules; r++) {
                const struct capo_rule *rule = &p->rules[r];

                capo_when_print(&rule->when, row.when, sizeof row.when);
                for (int c = 0; c < CAPO_NCCL_COLLS; c++) {
                        snprintf(row.coll, sizeof row.coll, "%s", capo_coll_word(c));
                        for (uint32_t k = 0; k < rule->count[c] && rule->first[c] + k < ROWS_MAX;
                             k++) {
                                const struct capo_row *of = &p->rows[rule->first[c] + k];

                                row.rule = rule->first[c] + k + 1;
                                row.candidate = false;
                                row.line = of->line;
                                row.from = of->from;
                                row.upto = of->upto;
                                row.channels = of->channels;
                                row.chunk = of->chunk;
                                snprintf(row.algo, sizeof row.algo, "%s", capo_algo_name(of->algo));
                                snprintf(row.proto, sizeof row.proto, "%s",
                                         capo_proto_name(of->proto));
                                capo_row_turned_text(of, row.turned, sizeof row.turned);
                                capo_rules_put_row(f, &row);
                                row.candidate = true; /* what a rule's number stands for is tried */
                                if (capo_process.trial.mode && of->algo)
                                        capo_rules_put_row(f, &row);
                        }
                }
        }
        if (p->n_rows > ROWS_MAX)
                capo_rules_put(f, CAPO_RULES_MORE, "%u", p->n_rows - ROWS_MAX);
        if (!fclose(f))
                capo_seam->rules(text);
        free(text);
}

static bool first_rank(void)
{
        static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "SLURM_PROCID"};

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *text = getenv(names[i]);

                if (text && *text)
                        return !strcmp(text, "0");
        }
        return true;
}

static void read_launcher(void)
{
        struct capo_layout_launch launch;
        int r = capo_layout_from_launcher(capo_getenv, NULL, true, &launch);

        if (*launch.said && capo_process.speaks)
                capo_warn("%s", launch.said);
        if (r == 0)
                capo_layout_print(&launch.layout, capo_process.layout, sizeof capo_process.layout);
}

#define REFUSE(...) snprintf(capo_process.why, sizeof capo_process.why, __VA_ARGS__)

/* The trial of the profile; where there is none, the profile is not used. */
static void load_trial(const struct capo_env *env)
{
        if (capo_trial_parse(env->trial, &capo_process.trial, capo_process.why,
                             sizeof capo_process.why) == 0 &&
            (!capo_process.trial.mode ||
             capo_trial_rows(&capo_process.trial, capo_process.profile) == 0))
                return;
        if (!*capo_process.why)
                REFUSE("out of memory");
        capo_process.trial.mode = CAPO_TRIAL_OFF;
        capo_profile_free(capo_process.profile);
        capo_process.profile = NULL;
}

/* The file of a profile; names of shipped ones are found beside this library. */
static int find_profile(const char *name, char *path, size_t room, struct capo_fault *fault)
{
        Dl_info own;
        char folder[PATH_MAX];
        bool known = dladdr(&capo_process, &own) != 0;

        return capo_profile_find(
                name, capo_profile_shipped(known ? own.dli_fname : NULL, folder, sizeof folder),
                path, room, fault);
}

void capo_process_load(void)
{
        const struct capo_env *env = capo_tuner_env();
        const char *wanted = env->profile, *digest = env->profile_digest;
        struct capo_fault fault;
        char path[4096], agreed[CAPO_AGREEMENT];
        uint32_t n;

        if (capo_process.ready)
                return;
        capo_process.ready = true;
        capo_process.speaks = first_rank();
        capo_process.direct_blocked = (getenv("NCCL_ALGO") && *getenv("NCCL_ALGO")) ||
                                      (getenv("NCCL_PROTO") && *getenv("NCCL_PROTO"));
        if (env->off || !strcmp(env->tuner, "off") || !strcmp(env->tuner, "chain"))
                return;
        if (!*wanted) {
                if (*digest)
                        REFUSE("CAPO_PROFILE_DIGEST is %s but CAPO_PROFILE is not set in this process",
                               digest);
        } else if (!strcmp(wanted, "auto") && !*digest) {
                capo_warn_once(
                        "CAPO_PROFILE=auto tunes only under capo run, which makes all ranks use one file: no "
                        "profile used");
        } else if (!strcmp(wanted,
                           "-")) { /* reading a job's input would wait for it, or take it away */
                REFUSE("CAPO_PROFILE=- is no file, which every rank could read");
        } else if (find_profile(wanted, path, sizeof path, &fault) < 0 ||
                   capo_profile_load(path, &capo_process.profile, &fault) < 0) {
                REFUSE("%s%s%s%s", fault.text,
                       *digest ? " (the other ranks use a profile with digest " : "", digest,
                       *digest ? ")" : "");
        } else if (*digest && strcasecmp(digest, capo_profile_agreement(capo_process.profile,
                                                                        env->allow_modelled,
                                                                        env->trial, agreed))) {
                bool same_file = !strncasecmp(digest, capo_process.profile->digest,
                                              strlen(capo_process.profile->digest));

                REFUSE("%.700s has digest %s, but the job was started with digest %s: %s", path,
                       agreed, digest,
                       same_file ? "CAPO_ALLOW_MODELLED or CAPO_TRIAL is not the same here"
                                 : "the file is another one here, or was changed since the start");
                capo_profile_free(capo_process.profile);
                capo_process.profile = NULL;
        }
        if (capo_process.profile && !*capo_process.why)
                load_trial(env);
        if (*capo_process.why && !env->strict) {
                capo_warn("%s; going on with NCCL's own choices because CAPO_STRICT=0",
                          capo_process.why);
                *capo_process.why = 0;
        }
        capo_process.failed = *capo_process.why;
        if (capo_process.profile) {
                read_launcher();
                capo_debug("profile %s, digest %s, %u rules, %u rows", capo_process.profile->file,
                           capo_process.profile->digest, capo_process.profile->n_rules,
                           capo_process.profile->n_rows);
                tell_rules(capo_process.profile);
                n = env->allow_modelled ? 0 : capo_profile_modelled(capo_process.profile);
                if (n) /* with a digest, capo run has said it once for the job */
                        capo_msg(
                                *digest ? CAPO_DEBUG : CAPO_INFO,
                                "modelled rules of the profile that are not used: %u; CAPO_ALLOW_MODELLED=1 on every "
                                "rank uses them",
                                n);
        }
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_shape(const struct capo_shape *a, const struct capo_shape *b)
{
        return a->n_ranks == b->n_ranks && a->n_nodes == b->n_nodes &&
               a->min_local == b->min_local && a->max_local == b->max_local && a->nccl == b->nccl &&
               a->allow_modelled == b->allow_modelled && same_text(a->layout, b->layout) &&
               !strcmp(a->trays, b->trays) && same_text(a->class_name, b->class_name) &&
               same_text(a->comm, b->comm);
}

int capo_process_tables(const struct capo_shape *shape, const struct capo_tables **out, bool *own)
{
        struct shape_tables *s;
        struct capo_tables *tables;
        int r;

        for (s = shapes; s; s = s->next) {
                if (same_shape(&s->shape, shape)) {
                        *out = s->tables;
                        *own = false;
                        return 0;
                }
        }
        r = capo_tables_new(capo_process.profile, shape, &tables);
        if (r < 0)
                return r;
        *out = tables;
        s = n_shapes < SHAPES_MAX ? calloc(1, sizeof *s) : NULL;
        *own = !s;
        if (s) {
                s->shape = *shape;
                s->shape.comm = shape->comm ? strdup(shape->comm) : NULL;
                if (shape->layout) {
                        snprintf(s->layout, sizeof s->layout, "%s", shape->layout);
                        s->shape.layout = s->layout;
                }
                s->tables = tables;
                s->next = shapes;
                shapes = s;
                n_shapes++;
        }
        return 0;
}
