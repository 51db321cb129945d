/* SPDX-License-Identifier: Apache-2.0 */

#include "analysis/report/page_kinds.h"
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "analysis/report/job_page.h"
#include "core/log/info.h"

static_assert(CAPO_NOTES < CAPO_NOTE_ROOM, "no room for every note");

static void finish_rows(struct capo_page_rows *rows)
{
        for (uint32_t i = 0; i < rows->n; i++) {
                for (unsigned c = 0; c < CAPO_TIMES; c++)
                        capo_hist_finish(&rows->row[i].row.time[c]);
        }
        free(rows->row);
}

void capo_page_finish(struct capo_page *r)
{
        finish_rows(&r->rows);
        finish_rows(&r->judged);
        finish_rows(&r->others);
        for (uint32_t i = 0; i < r->n_waits; i++)
                free(r->waits[i].text);
        for (uint32_t i = 0; i < r->n_problems; i++) {
                free(r->problems[i].text);
                free(r->problems[i].runs);
        }
        for (uint32_t i = 0; i < r->n_next; i++)
                free(r->next[i].text);
        for (uint32_t i = 0; i < r->n_places; i++)
                free(r->places[i].line);
        for (unsigned i = 0; i < r->allocation.n_advice; i++)
                free(r->allocation.advice[i]);
        xfree(r->waits, r->causes, r->unknown, r->problems, r->next, r->places, r->rules, r->links,
              r->class_of, r->class_size, r->ceiling, r->near, r->allocation.experiment,
              r->created);
        capo_job_steps_finish(&r->steps);
        capo_fabric_job_free(r->fabric);
        capo_job_free(r->job);
        *r = (struct capo_page){0};
}

const struct capo_problem_is capo_problem_is[] = {
#define CAPO_PROBLEM(id, name, severity, words) {name, severity},
#include "analysis/report/problem_kinds.def"
};

const char *const capo_next_names[] = {
#define CAPO_NEXT(id, words) #id,
#include "analysis/report/next_kinds.def"
};

const char *const capo_page_note_names[] = {
#define CAPO_NOTE(id, words) #id,
#include "analysis/report/note_kinds.def"
};

const char *capo_page_info(const struct capo_page *r, const char *key)
{
        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                const char *value = capo_job_info(&r->job->processes[i], key);

                if (value && *value)
                        return value;
        }
        return NULL;
}

char *capo_page_title(const struct capo_page *r, char *text, size_t room)
{
        const char *id = capo_page_info(r, CAPO_INFO_JOB),
                   *name = capo_page_info(r, CAPO_INFO_JOB_NAME),
                   *command = capo_page_info(r, CAPO_INFO_CMDLINE);

        if (!command) /* CAPO_CMDLINE=none */
                command = capo_page_info(r, CAPO_INFO_EXE);
        if (!name && command) { /* without the folder of the program */
                for (name = command + strcspn(command, " "); name > command && name[-1] != '/';)
                        name--;
        }
        snprintf(text, room, "%s%s%s%.*s", id ? "job " : "", id ? id : "", id && name ? "  " : "",
                 name == capo_page_info(r, CAPO_INFO_JOB_NAME) ? 1000 : 60, name ? name : "");
        return text;
}

const char *capo_page_comm(const struct capo_page *r, uint32_t comm)
{
        return comm == CAPO_NO_COMM ? "-" : r->job->comms[comm].name;
}

char *capo_page_comm_label(const struct capo_page *r, uint32_t comm, char *text, size_t room)
{
        const struct capo_job_comm *c = comm == CAPO_NO_COMM ? NULL : &r->job->comms[comm];
        bool many = c && r->class_size[comm] > 1;

        snprintf(text, room, "%.*s%s", many ? (int)strcspn(c->name, "#") : 200, c ? c->name : "-",
                 many && !c->named ? ".." : "");
        if (c && c->n_ranks > 0)
                capo_append(text, room, " (%d)", c->n_ranks);
        if (many)
                capo_append(text, room, " x%u", r->class_size[comm]);
        return text;
}

char *capo_page_size(const struct capo_page_row *row, char *text, size_t room)
{
        char from[32], to[32];
        size_t n;

        if (row->row.bytes == row->bytes_max)
                return capo_size_print(row->row.bytes, text, room);
        capo_size_print(row->row.bytes, from, sizeof from);
        capo_size_print(row->bytes_max, to, sizeof to);
        n = strcspn(from, " ");
        if (!strcmp(from + n, to + strcspn(to, " ")))
                from[n] = 0; /* "1-1.9 MiB" */
        snprintf(text, room, "%s-%s", from, to);
        return text;
}

const char *capo_page_group_of(const struct capo_job_row *row)
{
        if (row->call != CAPO_CALL_GROUP || !row->channels)
                return NULL;
        return row->channels == CAPO_CALL_GROUP ? "Send, Recv" : capo_call_name(row->channels);
}

char *capo_page_call(const struct capo_job_row *row, char *text, size_t room)
{
        const char *of = capo_page_group_of(row);

        snprintf(text, room, "%s%s%s%s%s", capo_call_name(row->call), of ? " of " : "",
                 of ? of : "", row->flags & CAPO_RECORD_MEMBER ? " in group" : "",
                 row->flags & CAPO_RECORD_CAPTURED ? " captured" : "");
        return text;
}
