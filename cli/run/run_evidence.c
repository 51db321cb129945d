/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/base/cli_output.h"
#include "cli/run/run_evidence.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

static int append_found(struct run_evidence *e, uint64_t job, const struct capo_trial_found *f)
{
        xarray_room(&e->found, (size_t)e->n, sizeof *e->found);
        xarray_room(&e->job, (size_t)e->n, sizeof *e->job);
        e->found[e->n] = *f;
        e->job[e->n++] = job;
        return 0;
}

/* A line that makes sense: the file is the user's, who may edit it. */
static bool is_possible(const struct capo_trial_found *f)
{
        return f->bytes && f->n_ranks > 0 && f->own_us > 0 && f->row_us > 0 && f->se > 0 &&
               isfinite(f->own_us) && isfinite(f->row_us) && isfinite(f->change) &&
               isfinite(f->se) && isfinite(f->step_change) && isfinite(f->step_se);
}

int run_evidence_read(const char *path, struct run_evidence *out)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *line = NULL;
        size_t room = 0;
        int r = 0;

        *out = (struct run_evidence){0};
        while (in && r == 0 && getline(&line, &room, in) > 0) {
                struct capo_trial_found f = {.n_jobs = 1};
                uint64_t job;
                unsigned call;

                if (sscanf(line, "%" SCNx64 " %u %u %d %" SCNu64 " %u %u %lf %lf %lf %lf %lf %lf",
                           &job, &f.row, &call, &f.n_ranks, &f.bytes, &f.n_row, &f.n_own, &f.row_us,
                           &f.own_us, &f.change, &f.se, &f.step_change, &f.step_se) < 11 ||
                    call > UINT8_MAX || !is_possible(&f))
                        continue;
                f.call = (uint8_t)call;
                r = append_found(out, job, &f);
        }
        return r;
}

void run_evidence_finish(struct run_evidence *e)
{
        free(e->found);
        free(e->job);
        *e = (struct run_evidence){0};
}

int run_evidence_add(struct run_evidence *e, const char *dir, const struct capo_trial_found *found,
                     int n)
{
        uint64_t job = XXH3_64bits(dir, strlen(dir));

        for (int i = 0; i < n; i++) {
                if (append_found(e, job, &found[i]) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int run_evidence_write(const struct run_evidence *e, const char *path)
{
        struct cli_output out;
        int first = e->n, jobs = 0, r;

        while (first > 0) {
                jobs += first == e->n || e->job[first - 1] != e->job[first];
                if (jobs > EVIDENCE_JOBS)
                        break;
                first--;
        }
        r = cli_output_open(&out, path);
        if (r < 0)
                return r;
        for (int i = first; i < e->n; i++) {
                const struct capo_trial_found *f = &e->found[i];

                fprintf(out.file,
                        "%" PRIx64 " %u %u %d %" PRIu64 " %u %u %.9g %.9g %.9g %.9g %.9g %.9g\n",
                        e->job[i], f->row, f->call, f->n_ranks, f->bytes, f->n_row, f->n_own,
                        f->row_us, f->own_us, f->change, f->se, f->step_change, f->step_se);
        }
        return cli_output_close(&out, ferror(out.file) ? -EIO : 0);
}
