/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text frames of a log: INFO, FABRIC, RULES. */
#include "capo/frame_types.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/job/stats_private.h"
#include "analysis/log/info_read.h"

static void put_text(char *to, const void *bytes, size_t size)
{
        if (size)
                memcpy(to, bytes, size);
        to[capo_plain(to, size, false, true)] = 0;
}

char *job_text_copy(const void *bytes, size_t size)
{
        char *copy = xmalloc(size + 1);

        put_text(copy, bytes, size);
        return copy;
}

/* @length: of *@text, updated; a 0 in @more ends it. */
static void append_text(char **text, size_t *length, const void *more, size_t size, bool newline)
{
        size_t old = *length;
        char *larger = xrealloc(*text, old + size + 2);

        if (old && newline)
                larger[old++] = '\n';
        put_text(larger + old, more, size);
        *length = old + strlen(larger + old);
        *text = larger;
}

enum { MACHINE_MOST = 4 << 20 };

/* Keys of a process; capo writes some dozens, and more in a foreign log is ignored. */
enum { KEYS = 1024 };

static void add_info(struct capo_job_process *p, const struct capo_info_line *line)
{
        for (uint32_t i = 0; i < p->n_info; i++) {
                struct capo_job_info *info = &p->info[i];

                if (!capo_info_is(line, info->key))
                        continue;
                info->size_ = !line->more ? 0 : info->size_ ? info->size_ : strlen(info->value);
                append_text(&info->value, &info->size_, line->value, line->n_value, line->more);
                return;
        }
        if (p->n_info < KEYS)
                *xadd(p->info, p->n_info) =
                        (struct capo_job_info){job_text_copy(line->key, line->n_key),
                                               job_text_copy(line->value, line->n_value), 0};
}

/* A long job has many: the middle ones make room. */
static void add_machine(struct capo_job_process *p, const struct capo_log_frame *f)
{
        if (p->machine_size_ > MACHINE_MOST) {
                char *from = strchr(p->machine + MACHINE_MOST / 2, '\n'),
                     *to = strstr(p->machine + MACHINE_MOST * 3 / 4, "\nat\t");

                if (from && to && to > from) {
                        memmove(from, to, strlen(to) + 1);
                        p->machine_size_ = strlen(p->machine);
                }
        }
        append_text(&p->machine, &p->machine_size_, f->payload, f->size, false);
}

void job_add_text_frame(struct capo_job_process *p, const struct capo_log_frame *f)
{
        struct capo_info_line info;
        const char *line;
        size_t at = 0, n;

        if (f->type == CAPO_FRAME_FABRIC) {
                /* Each piece begins with the number of its snapshot. The last two are kept, because
                 * a kill may cut the last one. */
                char *now = p->fabric ? p->fabric + p->fabric_last_ : NULL;

                line = capo_log_next_line(f, &at, &n);
                /* a line may contain a 0, and be longer than what is kept */
                if (line && now &&
                    (p->fabric_size_ - p->fabric_last_ <= n || memcmp(now, line, n) != 0 ||
                     now[n] != '\n')) {
                        p->fabric_last_ = p->fabric_size_ -= p->fabric_last_;
                        memmove(p->fabric, now, p->fabric_size_ + 1);
                }
                append_text(&p->fabric, &p->fabric_size_, f->payload, f->size, false);
                return;
        }
        if (f->type == CAPO_FRAME_MACHINE)
                add_machine(p, f);
        if (f->type == CAPO_FRAME_RULES) {
                free(p->rules);
                p->rules = job_text_copy(f->payload, f->size);
        }
        while (f->type == CAPO_FRAME_INFO && capo_info_next(f, &at, &info))
                add_info(p, &info);
}
