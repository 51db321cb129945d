/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps capo's logs and Inspector's records until all inputs are known. Each rank's file has its
 * own times of the job's calls, so the files of a job must be read together. */
#include "analysis/job/stats.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_json.h"

struct capo_late *capo_late_of(struct capo_input *in)
{
        struct capo_samples *set = in->set;
        struct capo_late *l;

        for (size_t i = 0; i < set->n_late; i++) {
                l = &set->late[i];
                if (l->labelled == !!in->label &&
                    (!in->label || !memcmp(&l->label, in->label, sizeof l->label)))
                        return l;
        }
        xarray_room(&set->late, set->n_late, sizeof *l);
        set->late_free = capo_late_free;
        l = &set->late[set->n_late];
        *l = (struct capo_late){.labelled = in->label, .records = xcalloc(1, sizeof *l->records)};
        if (in->label) /* with its padding, because memcmp() compares it */
                memcpy(&l->label, in->label, sizeof l->label);
        set->n_late++;
        return l;
}

size_t capo_late_count(const struct capo_samples *set)
{
        size_t n = 0;

        for (size_t i = 0; i < set->n_late; i++)
                n += (set->late[i].job ? set->late[i].job->n_processes : 0) +
                     (set->late[i].unread != NULL) + set->late[i].records->n;
        return n;
}

void capo_late_free(struct capo_samples *set)
{
        for (size_t i = 0; i < set->n_late; i++) {
                struct capo_late *l = &set->late[i];

                for (uint32_t k = 0; l->job && k < l->job->n_processes; k++)
                        free(l->named[k]);
                free(l->named);
                free(l->unread);
                capo_job_free(l->job);
                inspector_finish(l->records);
                free(l->records);
        }
        free(set->late);
        set->late = NULL;
        set->n_late = 0;
}

/* Handle the result of one part: the first error is returned, later ones become notes. */
static void take_result(struct capo_input *in, int r, int *first, char *error, size_t room)
{
        if (r < 0 && !in->error[0])
                snprintf(in->error, in->room, "%s: %s", in->path, strerror(-r));
        if (r < 0 && *first)
                capo_samples_note(in->set, "left out %s", in->error);
        else if (r < 0)
                snprintf(error, room, "%s", in->error);
        *first = *first ? *first : r;
        in->error[0] = 0;
}

int capo_import_end(struct capo_samples *set, char *error, size_t room)
{
        char said[768] = "";
        int first = 0;

        error[0] = 0;
        for (size_t i = 0; i < set->n_late; i++) {
                struct capo_late *l = &set->late[i];
                struct capo_input in = {.label = l->labelled ? &l->label : NULL,
                                        .set = set,
                                        .error = said,
                                        .room = sizeof said};

                in.path = l->records->n ? l->records->files.v[0] : "";
                take_result(&in, inspector_samples(&in, l->records), &first, error, room);
                if (l->job) {
                        in.path = l->named[0];
                        capo_job_finish(l->job);
                        take_result(&in, capo_import_job_as(&in, l->job, l->named), &first, error,
                                    room);
                } else if (l->unread) {
                        snprintf(said, sizeof said, "%s", l->unread);
                        take_result(&in, -ENODATA, &first, error, room);
                }
        }
        capo_late_free(set);
        return first;
}
