/* SPDX-License-Identifier: Apache-2.0 */
/* What one of capo's logs says of itself: the process, its communicators, and the candidates that
 * rules stand for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/frame_types.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"
#include "analysis/log/info_read.h"
#include "analysis/log/rules_read.h"
#include "profiles/import/import_private.h"
#include "profiles/import/log_labels.h"

/* "NCCL_A=1 NCCL_B=2" */
static void read_settings(struct log_said *f, const char *text)
{
        char name[48], setting[64];

        for (int n = 0; sscanf(text, " %47[^= ]=%63s%n", name, setting, &n) == 2 && n;
             text += n, n = 0) {
                capo_settings_add(&f->settings, name, setting);
                n += (int)strcspn(text + n, " "); /* of a longer one the beginning */
        }
}

static int read_info(struct log_said *f, const struct capo_log_frame *frame)
{
        struct capo_info_line line;
        size_t at = 0;

        while (capo_info_next(frame, &at, &line)) {
                _cleanup_free_ char *value = strndup(line.value, line.n_value);

                if (!value)
                        return -ENOMEM;
                if (capo_info_is(&line, CAPO_INFO_NCCL_VERSION)) {
                        f->nccl = (uint32_t)(strchr(value, '.') ? capo_nccl_named(value)
                                                                : capo_nccl_code(atoi(value)));
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_ALGO)) {
                        f->env_algo = (uint8_t)capo_algo_find(value);
                        f->env_several |= f->env_algo == 0;
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_PROTO)) {
                        f->env_proto = (uint8_t)capo_proto_find(value);
                        f->env_several |= f->env_proto == 0;
                } else if (capo_info_is(&line, CAPO_INFO_LAYOUT)) {
                        snprintf(f->layout, sizeof f->layout, "%.255s", value);
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_HOSTID) ||
                           (capo_info_is(&line, CAPO_INFO_HOST) && !f->host[0])) {
                        snprintf(f->host, sizeof f->host, "%.63s", value);
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_TUNER)) {
                        snprintf(f->tuner, sizeof f->tuner, "%.255s", value);
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_SETTINGS)) {
                        read_settings(f, value);
                } else if (capo_info_is(&line, CAPO_INFO_NCCL_NET)) {
                        capo_settings_add(&f->settings, "NCCL_NET_PLUGIN", value);
                } else if (capo_info_is(&line, CAPO_INFO_CUDA_DRIVER)) {
                        snprintf(f->driver, sizeof f->driver, "CUDA %.24s", value);
                } else if (capo_info_is(&line, CAPO_INFO_GPU_NAME)) {
                        snprintf(f->gpu, sizeof f->gpu, "%.47s", value);
                }
        }
        return 0;
}

static int read_rules(struct log_said *f, const struct capo_log_frame *frame)
{
        size_t at = 0, n;
        const char *line;

        while ((line = capo_log_next_line(frame, &at, &n))) {
                struct capo_rules_row row;
                _cleanup_free_ char *text = strndup(line, n);

                if (!text)
                        return -ENOMEM;
                if (!capo_rules_row(text, &row) || row.rule > 65535)
                        continue;
                f->sweep |= row.candidate;
                f->n_candidates = row.rule >= f->n_candidates ? row.rule + 1u : f->n_candidates;
                f->candidates[row.rule] = (struct log_candidate){
                        row.candidate,
                        {CAPO_ALGO_PROTO(capo_algo_find(row.algo), capo_proto_find(row.proto)),
                         (uint8_t)row.channels, row.chunk}};
        }
        return 0;
}

enum log_known log_said_want(const struct log_said *f, uint16_t rule, uint8_t ran,
                             struct log_want *want)
{
        bool both = CAPO_ALGO_OF(ran) && CAPO_PROTO_OF(ran);

        *want = (struct log_want){0};
        if (capo_ran_beside(ran)) /* whatever a tuner or a variable wanted: it decided nothing */
                return LOG_KNOWN;
        if (rule == 0 && f->env_several && !(f->env_algo && f->env_proto)) {
                want->algo_proto =
                        both ? ran : 0; /* not NCCL's own choice, but what ran is known or not */
                return both ? LOG_KNOWN : LOG_UNKNOWN;
        }
        if (rule == 0) {
                want->algo_proto = CAPO_ALGO_PROTO(f->env_algo, f->env_proto);
                return LOG_KNOWN;
        }
        if (f->sweep) {
                if (!f->candidates[rule].known)
                        return LOG_UNNAMED;
                *want = f->candidates[rule].want;
                return LOG_KNOWN;
        }
        if (!ran)
                return LOG_UNNAMED;
        *want = (struct log_want){.algo_proto = ran,
                                  .chunk = capo_nccl_has((int)f->nccl, CAPO_NCCL_CHUNK)
                                                   ? f->candidates[rule].want.chunk
                                                   : 0};
        return LOG_KNOWN;
}

const struct capo_log_comm *log_said_comm(const struct log_said *f, unsigned id)
{
        return id < f->n_comms && f->comms[id].known ? &f->comms[id].comm : NULL;
}

int log_said_read(struct log_said *f, struct capo_log *log)
{
        struct capo_log_frame frame;
        int e, r = 0;

        f->began = (int64_t)(capo_log_header(log)->t0_real_ns / 1000000000);
        while ((e = r < 0 ? r : capo_log_next(log, &frame)) > 0) {
                struct capo_log_comm comm;
                const char *name;

                if (frame.type == CAPO_FRAME_INFO)
                        r = read_info(f, &frame);
                else if (frame.type == CAPO_FRAME_RULES)
                        r = read_rules(f, &frame);
                else if (frame.type == CAPO_FRAME_COMM &&
                         capo_log_comm(&frame, &comm, &name) == 0) {
                        f->comms[comm.id].comm = comm;
                        f->comms[comm.id].known = true;
                        f->n_comms = comm.id >= f->n_comms ? comm.id + 1u : f->n_comms;
                }
        }
        return e;
}

struct log_said *log_said_new(void)
{
        struct log_said *f = calloc(1, sizeof *f);

        if (f) {
                f->comms = calloc(65536, sizeof *f->comms);
                f->candidates = calloc(65536, sizeof *f->candidates);
        }
        if (f && f->comms && f->candidates)
                return f;
        log_said_free(f);
        return NULL;
}

void log_said_clear(struct log_said *f)
{
        memset(f->comms, 0, f->n_comms * sizeof *f->comms);
        memset(f->candidates, 0, f->n_candidates * sizeof *f->candidates);
        *f = (struct log_said){.comms = f->comms, .candidates = f->candidates};
}

void log_said_free(struct log_said *f)
{
        if (!f)
                return;
        free(f->comms);
        free(f->candidates);
        free(f);
}
