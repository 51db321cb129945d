/* SPDX-License-Identifier: Apache-2.0 */
/* What one of capo's logs says of itself: the process, its communicators, and the candidates that rules stand for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "profiles/import/import_priv.h"
#include "profiles/import/log_said.h"

static void read_info(struct log_said *f, const struct capo_log_frame *frame)
{
        size_t at = 0, n;
        const char *line;

        while ((line = capo_log_next_line(frame, &at, &n))) {
                char text[256], *tab;

                if (n >= sizeof text)
                        continue;
                memcpy(text, line, n);
                text[n] = 0;
                tab = strchr(text, '\t');
                if (!tab)
                        continue;
                *tab++ = 0;
                if (!strcmp(text, "nccl.version"))
                        f->nccl = strchr(tab, '.') ? capo_nccl_parse(tab) : (uint32_t)strtoul(tab, NULL, 10);
                else if (!strcmp(text, "nccl.algo") || !strcmp(text, "nccl.proto")) {
                        unsigned found = text[5] == 'a' ? capo_algo_find(tab) : capo_proto_find(tab);

                        *(text[5] == 'a' ? &f->env_algo : &f->env_proto) = (uint8_t)found;
                        f->env_several |= found == 0;
                } else if (!strcmp(text, "layout"))
                        snprintf(f->layout, sizeof f->layout, "%s", tab);
                else if (!strcmp(text, "nccl.hostid") || (!strcmp(text, "host") && !f->host[0]))
                        snprintf(f->host, sizeof f->host, "%.63s", tab);
                else if (!strncmp(text, "gpu", 3) && (!text[3] || !strcmp(text + 3, ".name")))
                        snprintf(f->gpu, sizeof f->gpu, "%.47s", tab);
        }
}

static void read_rules(struct log_said *f, const struct capo_log_frame *frame)
{
        size_t at = 0, n;
        const char *line;

        while ((line = capo_log_next_line(frame, &at, &n))) {
                char text[160], algo[32], proto[32];
                unsigned id, channels;

                if (n >= sizeof text)
                        continue;
                memcpy(text, line, n);
                text[n] = 0;
                if (sscanf(text, "candidate\t%u\t%31s\t%31s\t%u", &id, algo, proto, &channels) != 4 || id > 65535)
                        continue;
                f->sweep = true;
                f->candidates[id] = (struct log_candidate){
                        1, CAPO_ALGO_PROTO(capo_algo_find(algo), capo_proto_find(proto)), (uint8_t)channels};
        }
}

bool log_said_want(const struct log_said *f, uint16_t rule, uint8_t ran, uint8_t *want, uint8_t *channels)
{
        *want = *channels = 0;
        if (rule == 0) {
                *want = CAPO_ALGO_PROTO(f->env_algo, f->env_proto);
                if (f->env_several &&
                    !*want) /* a list was allowed: not NCCL's own choice, but what ran is known or not */
                        *want = ran;
                return *want || !f->env_several;
        }
        if (f->sweep) {
                if (!f->candidates[rule].known)
                        return false;
                *want = f->candidates[rule].algo_proto;
                *channels = f->candidates[rule].channels;
                return true;
        }
        *want = ran;
        return ran != 0;
}

const struct capo_log_comm *log_said_comm(const struct log_said *f, unsigned id)
{
        return id < MAX_COMMS && f->has_comm[id] ? &f->comm[id] : NULL;
}

int log_said_read(struct log_said *f, struct capo_log *log)
{
        struct capo_log_frame frame;
        int e;

        while ((e = capo_log_next(log, &frame)) > 0) {
                const struct capo_log_shape *shapes;
                struct capo_log_comm comm;
                const char *name;

                if (frame.type == CAPO_FRAME_INFO)
                        read_info(f, &frame);
                else if (frame.type == CAPO_FRAME_RULES)
                        read_rules(f, &frame);
                else if (frame.type == CAPO_FRAME_COMM && capo_log_comm(&frame, &comm, &name) == 0) {
                        if (comm.id < MAX_COMMS) {
                                f->comm[comm.id] = comm;
                                f->has_comm[comm.id] = true;
                        }
                } else if (frame.type == CAPO_FRAME_SHAPE) {
                        unsigned n = capo_log_shapes(&frame, &shapes);

                        for (unsigned i = 0; i < n; i++)
                                f->shapes[shapes[i].id] = shapes[i];
                }
        }
        return e;
}

struct log_said *log_said_new(void)
{
        struct log_said *f = calloc(1, sizeof *f);

        if (f) {
                f->shapes = calloc(65536, sizeof *f->shapes);
                f->candidates = calloc(65536, sizeof *f->candidates);
        }
        if (f && f->shapes && f->candidates)
                return f;
        log_said_free(f);
        return NULL;
}

void log_said_free(struct log_said *f)
{
        if (!f)
                return;
        free(f->shapes);
        free(f->candidates);
        free(f);
}
