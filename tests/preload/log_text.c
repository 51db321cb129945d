/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_text LOG...: logs as lines a shell test can grep, without times. With --recover DIR: first
 * bring the segments of dead processes in DIR into their logs (prints how many records each had).
 *
 *      info KEY VALUE | comm ID RANK/RANKS parent=ID color=N uid=HEX flags=N name=NAME | site ID
 * COUNT FRAME;FRAME... cell CALL comm=ID bytes=N count=N result=N flags=N host=N gpu=N | call CALL
 * comm=ID bytes=N seq=N ... | end ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/record.h"
#include "core/base/calls.h"
#include "analysis/log/info_read.h"
#include "analysis/log/log_read.h"
#include "analysis/log/recover.h"
#include "tests/log_numbers.h"

static struct {
        struct capo_log_cell cell;
        uint64_t host, gpu;
} cells[65536];
static struct capo_log_shape shapes[65536];
static struct capo_log_comm comms[65536];
static char comm_names[65536][64];
static char *sites[65536];
static uint64_t site_counts[65536];

static void call(const struct capo_record *r)
{
        printf("call %s comm=%u bytes=%llu seq=%u group=%u peer=%d type=%u op=%u result=%d clock=%s flags=%u rule=%u "
               "ran=%02x/%u thread=%u gpu=%d order=%d\n",
               capo_call_name(r->call), r->comm, (unsigned long long)r->bytes, r->seq, r->group,
               r->peer, r->type, r->op, r->result, capo_clock_name(r->clock), r->flags, r->rule,
               r->algo_proto, r->channels, r->thread, r->gpu_ns > 0, r->t_end >= r->t_begin);
}

static void info(const struct capo_log_frame *f)
{
        struct capo_info_line line;
        size_t at = 0;

        while (capo_info_next(f, &at, &line))
                printf("info %.*s%s %.*s\n", (int)line.n_key, line.key, line.more ? "+" : "",
                       (int)line.n_value, line.value);
}

static void block(const struct capo_log_frame *f)
{
        struct capo_log_columns c;
        struct capo_record r;

        if (capo_log_block(f, &c))
                return;
        for (uint32_t i = 0; i < c.n; i++) {
                capo_log_record(&c, i, &shapes[c.shape[i]], &r);
                r.thread = c.thread;
                call(&r);
        }
}

static int show(const char *path)
{
        struct capo_log_hist_view host, gpu;
        const struct capo_log_shape *shape;
        struct capo_record wide;
        struct capo_log_frame f;
        struct capo_log_comm comm;
        struct capo_log_cell cell;
        struct capo_log_site site;
        struct capo_log_end end = {0};
        const char *text;
        struct capo_log *log;
        char why[256];
        unsigned n;

        if (capo_log_open(path, &log, why, sizeof why)) {
                fprintf(stderr, "%s: %s\n", path, why);
                return 1;
        }
        memset(cells, 0, sizeof cells);
        memset(comms, 0, sizeof comms);
        memset(site_counts, 0, sizeof site_counts);
        while (capo_log_next(log, &f) > 0) {
                switch (f.type) {
                case CAPO_FRAME_INFO: info(&f); break;
                case CAPO_FRAME_FABRIC:
                case CAPO_FRAME_RULES:
                        printf("text %u %.*s", f.type, (int)f.size, (const char *)f.payload);
                        break;
                case CAPO_FRAME_COMM:
                        if (capo_log_comm(&f, &comm, &text) == 0) {
                                comms[comm.id] = comm;
                                snprintf(comm_names[comm.id], sizeof *comm_names, "%.*s",
                                         comm.name_size, text);
                        }
                        break;
                case CAPO_FRAME_SITE:
                        if (capo_log_site(&f, &site, &text) == 0) {
                                site_counts[site.id] = site.count;
                                free(sites[site.id]);
                                sites[site.id] = strndup(text, site.text_size);
                                for (char *p = sites[site.id]; *p; p++)
                                        *p = *p == '\n' ? ';' : *p;
                        }
                        break;
                case CAPO_FRAME_SHAPE:
                        n = capo_log_shapes(&f, &shape);
                        for (unsigned i = 0; i < n; i++)
                                shapes[shape[i].id] = shape[i];
                        break;
                case CAPO_FRAME_BLOCK: block(&f); break;
                case CAPO_FRAME_WIDE:
                        for (unsigned i = 0; capo_log_wide(&f, i, &wide); i++)
                                call(&wide);
                        break;
                case CAPO_FRAME_CELL:
                        if (capo_log_cell(&f, &cell, &host, &gpu) == 0) {
                                cells[cell.id].cell = cell;
                                cells[cell.id].host = host.head.count;
                                cells[cell.id].gpu = gpu.head.count;
                        }
                        break;
                case CAPO_FRAME_END: capo_log_end(&f, &end); break;
                }
        }
        for (unsigned i = 0; i < 65536; i++) {
                const struct capo_log_comm *c = &comms[i];

                if (c->id)
                        printf("comm %u %d/%d parent=%u color=%d uid=%016llx flags=%u device=%d nodes=%d hash=%llx "
                               "dead=%d library=%u name=%s\n",
                               c->id, c->rank, c->n_ranks, c->parent, c->color,
                               (unsigned long long)c->uid, c->flags, c->device, c->n_nodes,
                               (unsigned long long)c->comm_hash, c->t_destroyed > 0, c->library,
                               comm_names[i]);
                if (site_counts[i])
                        printf("site %u %llu %s\n", i, (unsigned long long)site_counts[i],
                               sites[i]);
        }
        for (unsigned i = 0; i < 65536; i++) {
                const struct capo_log_cell *c = &cells[i].cell;

                if (c->count)
                        printf("cell %s comm=%u bytes=%llu count=%llu result=%d flags=%u host=%llu gpu=%llu\n",
                               capo_call_name(c->call), c->comm, (unsigned long long)c->bytes,
                               (unsigned long long)c->count, c->result, c->flags,
                               (unsigned long long)cells[i].host, (unsigned long long)cells[i].gpu);
        }
        printf("end calls=%llu dropped=%llu gpu_dropped=%llu lost=%llu clean=%u threads=%u cost=%s\n",
               (unsigned long long)end.calls, (unsigned long long)end.dropped,
               (unsigned long long)end.gpu_dropped, (unsigned long long)end.bytes_lost, end.clean,
               end.threads, end.cost_ns > 0 ? "measured" : "none");
        printf("health damages=%llu cut=%llu\n",
               (unsigned long long)capo_log_health(log)->n_damages,
               (unsigned long long)capo_log_health(log)->cut_bytes);
        capo_log_close(log);
        return 0;
}

static int take(const struct capo_segment_info *info, void *cookie)
{
        struct capo_segment_info got;
        int r = capo_segment_recover(info->path, NULL, &got);

        if (r < 0)
                printf("recover failed: %s: %s\n", info->path, strerror(-r));
        else
                printf("recovered %llu records of %d into %s\n", (unsigned long long)info->records,
                       info->pid, got.log_path);
        return 0;
}

int main(int argc, char **argv)
{
        int status = 0;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--recover") && i + 1 < argc)
                        printf("dead %d\n", capo_segment_find(argv[++i], NULL, false, take, NULL));
                else
                        status |= show(argv[i]);
        }
        return status;
}
