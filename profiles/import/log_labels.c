/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/log/rules_read.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/log/info.h"
#include "profiles/import/log_labels.h"

const char *log_text(const struct capo_job_process *p, const char *key)
{
        return capo_job_info(p, key) ?: "";
}

static void read_rules(struct log_labels *labels, const char *rules)
{
        struct capo_rules_row row;

        while (capo_rules_next(&rules, &row)) {
                if (row.rule >= LOG_RULES)
                        continue;
                labels->sweep |= row.candidate;
                labels->n_candidates =
                        row.rule >= labels->n_candidates ? row.rule + 1 : labels->n_candidates;
                labels->candidates[row.rule] = (struct log_candidate){
                        row.candidate,
                        {CAPO_ALGO_PROTO(capo_algo_find(row.algo), capo_proto_find(row.proto)),
                         (uint8_t)row.channels, row.chunk}};
        }
}

void log_labels_read(struct log_labels *labels, const struct capo_job_process *p)
{
        const char *algo = log_text(p, CAPO_INFO_NCCL_ALGO),
                   *proto = log_text(p, CAPO_INFO_NCCL_PROTO),
                   *net = log_text(p, CAPO_INFO_NCCL_NET),
                   *nccl = log_text(p, CAPO_INFO_NCCL_VERSION);

        labels->nccl =
                (uint32_t)(strchr(nccl, '.') ? capo_nccl_named(nccl) : capo_nccl_code(atoi(nccl)));
        labels->env_algo = (uint8_t)capo_algo_find(algo);
        labels->env_proto = (uint8_t)capo_proto_find(proto);
        labels->env_several = (*algo && !labels->env_algo) || (*proto && !labels->env_proto);
        labels->settings[0] = 0;
        capo_settings_add_all(labels->settings, log_text(p, CAPO_INFO_NCCL_SETTINGS));
        if (*net)
                capo_settings_add(labels->settings, "NCCL_NET_PLUGIN", net);
        memset(labels->candidates, 0, labels->n_candidates * sizeof *labels->candidates);
        labels->n_candidates = 0;
        labels->sweep = false;
        read_rules(labels, p->rules);
}

enum log_known log_labels_want(const struct log_labels *labels, uint16_t rule, uint8_t ran,
                               struct log_want *want)
{
        bool both = CAPO_ALGO_OF(ran) && CAPO_PROTO_OF(ran);

        *want = (struct log_want){0};
        if (capo_ran_beside(ran)) /* neither a tuner nor a variable decided it */
                return LOG_KNOWN;
        if (rule == 0 && labels->env_several && !(labels->env_algo && labels->env_proto)) {
                want->algo_proto =
                        both ? ran : 0; /* a restricted choice counts as forced to what ran */
                return both ? LOG_KNOWN : LOG_UNKNOWN;
        }
        if (rule == 0) {
                want->algo_proto = CAPO_ALGO_PROTO(labels->env_algo, labels->env_proto);
                return LOG_KNOWN;
        }
        if (labels->sweep) {
                if (!labels->candidates[rule].known)
                        return LOG_UNNAMED;
                *want = labels->candidates[rule].want;
                return LOG_KNOWN;
        }
        if (!ran)
                return LOG_UNNAMED;
        *want = (struct log_want){.algo_proto = ran,
                                  .chunk = capo_nccl_has((int)labels->nccl, CAPO_NCCL_CHUNK)
                                                   ? labels->candidates[rule].want.chunk
                                                   : 0};
        return LOG_KNOWN;
}
