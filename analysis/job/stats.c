/* SPDX-License-Identifier: Apache-2.0 */
/* Adding a log. Frames are read once, in order. Descriptions (communicators, shapes) are taken up
 * at once; of CELLs and SITEs, which replace their earlier selves, only the last place is
 * remembered and read again at the end; single calls are stats_calls.c's. */
#include "capo/frame_types.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/job/reading.h"
#include "analysis/job/stats.h"
#include "core/log/info.h"

/* ---- communicators ---- */

static void add_comm(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_job_member *m = NULL;
        struct capo_job_comm *comm;
        struct capo_log_comm c;
        const char *name;
        uint32_t index;

        if (capo_log_comm(f, &c, &name) < 0)
                return;
        /* communicators without a uid are nobody else's: named by process and id */
        index = job_comm_of(rd->job, c.uid ? c.uid : ~(((uint64_t)rd->process << 16) | c.id));
        comm = &rd->job->comms[index];
        if (c.name_size && !comm->named) {
                free(comm->name);
                comm->name = job_text_copy(name, c.name_size);
                comm->named = true;
        }
        if (c.n_ranks > comm->n_ranks)
                comm->n_ranks = c.n_ranks;
        if (c.comm_hash)
                comm->comm_hash = c.comm_hash;
        if (c.parent && rd->comms[c.parent])
                comm->parent = rd->comms[c.parent] - 1;
        if (c.color >= 0)
                comm->color = c.color;
        /* those of this log are the last */
        for (uint32_t i = comm->n_members;
             i-- > 0 && !m && comm->members[i].process == rd->process;) {
                if (comm->members[i].id == c.id)
                        m = &comm->members[i];
        }
        m = m ?: xadd(comm->members, comm->n_members);
        *m = (struct capo_job_member){
                .rank = c.rank,
                .process = rd->process,
                .id = c.id,
                .device = c.device,
                .flags = c.flags,
                .t_created_ns = p->header.t0_real_ns + c.t_created,
                .t_destroyed_ns = c.t_destroyed ? p->header.t0_real_ns + c.t_destroyed : 0,
                .reported = {c.n_ranks, c.n_nodes, c.min_local, c.max_local}};
        if (rd->comms[c.id] && rd->ranks[c.id] == c.rank)
                return;
        rd->missed |= rd->blocks && /* calls on it have been described */
                      ANY_OF(s, rd->shapes, rd->n_shapes, s->call && s->comm == c.id);
        job_reading_comm(rd, c.id, index, c.rank);
        job_want_again(rd, c.id);
}

/* ---- a whole log ---- */

static void add_frame(struct reading *rd, const struct capo_log_frame *f)
{
        struct capo_job_process *p = &rd->job->processes[rd->process];
        struct capo_log_site site;
        struct capo_log_cell cell;
        struct capo_log_hist_view host, gpu;
        const char *text;

        switch (f->type) {
        case CAPO_FRAME_INFO:
        case CAPO_FRAME_FABRIC:
        case CAPO_FRAME_MACHINE:
        case CAPO_FRAME_RULES: job_add_text_frame(p, f); return;
        case CAPO_FRAME_COMM: add_comm(rd, f); return;
        case CAPO_FRAME_SHAPE: job_read_shapes(rd, f); return;
        case CAPO_FRAME_BLOCK: job_read_block(rd, f); return;
        case CAPO_FRAME_WIDE: job_read_wide(rd, f); return;
        case CAPO_FRAME_CELL:
                if (capo_log_cell(f, &cell, &host, &gpu) < 0)
                        return;
                job_place(&rd->cells, cell.id, f->offset);
                return;
        case CAPO_FRAME_SITE:
                if (capo_log_site(f, &site, &text) < 0)
                        return;
                job_place(&rd->sites, site.id, f->offset);
                return;
        case CAPO_FRAME_END:
                if (capo_log_end(f, &p->end) == 0) {
                        p->has_end = true;
                        job_seen_until(rd, p->end.t_ns);
                }
                return;
        default: return;
        }
}

/* HOST.PID.capo; a host's name may have dots. */
static char *host_from_path(const char *path)
{
        const char *name = capo_base_name(path);
        size_t n = strlen(name), end = strcspn(name, ".");

        for (unsigned parts = 0; n > end && parts < 2; parts += name[n] == '.')
                n--;
        return job_text_copy(name, n);
}

/* A killed process that kept every call: its log has calls that no checkpoint counted. */
static bool cells_are_stale(struct capo_job_process *p)
{
        const char *trace = capo_job_info(p, CAPO_INFO_TRACE);

        if (p->end.clean || p->n_records <= p->end.calls || !trace || strcmp(trace, "all") != 0)
                return false;
        p->end.calls = p->n_records;
        return true;
}

static void read_frames(struct reading *rd)
{
        struct capo_log_frame f;
        int read;

        while ((read = capo_log_next(rd->log, &f)) > 0) {
                add_frame(rd, &f);
        }
        rd->job->processes[rd->process].read_error = read;
        job_read_silences(rd);
        if (rd->missed)
                job_read_again(rd);
        if (cells_are_stale(&rd->job->processes[rd->process]))
                job_add_traced_cells(rd->job, rd->log, rd->process, rd->comms);
        else
                job_add_cells(rd->job, rd->log, &rd->cells, rd->process, rd->comms);
        job_add_sites(rd->job, rd->log, &rd->sites);
}

/* The one text of the job that equals @text, which it takes; @likely is one of the job's, or NULL. */
static char *share_text(struct job_scratch *s, char *text, char *likely)
{
        uint64_t hash;
        char *known = likely && !strcmp(likely, text) ? likely : NULL;

        hash = known ? 0 : job_hash(text, strlen(text));
        for (uint32_t at = 0, i;
             !known && (i = job_index_next(&s->texts, hash, &at)) != JOB_INDEX_END;)
                known = strcmp(s->text[i], text) ? NULL : s->text[i];
        if (known) {
                free(text);
                return known;
        }
        job_index_enter(&s->texts, hash, s->n_texts);
        return *xadd(s->text, s->n_texts) = text;
}

/* When the log is read: share texts with processes such as the one before it (NULL: none). */
static void share_texts(struct job_scratch *s, struct capo_job_process *p,
                        const struct capo_job_process *before)
{
        for (uint32_t i = 0; i < p->n_info; i++) {
                struct capo_job_info *like =
                        before && before->shared_ && i < before->n_info ? &before->info[i] : NULL;

                p->info[i].key = share_text(s, p->info[i].key, like ? like->key : NULL);
                p->info[i].value = share_text(s, p->info[i].value, like ? like->value : NULL);
        }
        if (p->n_info)
                p->info = xrealloc(p->info, p->n_info * sizeof *p->info);
        p->host = share_text(s, p->host, before && before->shared_ ? before->host : NULL);
        p->shared_ = true;
}

void capo_job_add(struct capo_job *job, struct capo_log *from)
{
        _cleanup_(capo_log_closep) struct capo_log *log = from;
        const char *path = capo_log_path(log), *host;
        struct reading *rd;
        struct capo_job_process *p;

        xarray_room(&job->processes, job->n_processes, sizeof *job->processes);
        rd = job_reading_new(job, job->n_processes, log);
        p = &job->processes[job->n_processes++];
        *p = (struct capo_job_process){
                .rank = -1, .header = *capo_log_header(log), .path = xstrdup(path)};
        read_frames(rd);
        p->health = *capo_log_health(log);
        p->log = steal(&log);
        capo_log_park(p->log);
        host = capo_job_info(p, CAPO_INFO_HOST);
        p->host = host ? job_text_copy(host, strlen(host)) : host_from_path(path);
        share_texts(job->scratch, p, job->n_processes > 1 ? p - 1 : NULL);
        job_reading_end(rd);
}
