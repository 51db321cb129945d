/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a log: each frame by its reader. Checksums would hide what is inside: frames are
 * changed one at a time and made right again (frames.c). What is made of logs: page.c.
 */
#include <limits.h>
#include <string.h>

#include "capo/call_ids.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/log/info_read.h"
#include "analysis/job/log_calls.h"
#include "capo/frame_types.h"
#include "core/log/unfinished.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        return fuzz_frames_mutate(data, size, max_size, seed);
}

static int call(const struct capo_record *r, unsigned thread, void *arg)
{
        return ++*(unsigned *)arg > 100000;
}

static void hang(const struct capo_log_frame *f)
{
        struct capo_unfinished_call last;
        struct capo_hang_text head;
        char text[CAPO_HANG_LINE];
        unsigned nth;
        size_t at = 0;

        if (capo_hang_text_read(f, &head) == 0)
                must(head.since_ns <= head.at_ns);
        while (capo_hang_text_next(f, &at, &last))
                must(last.where <= CAPO_UNFINISHED_WHERES && last.record.call < CAPO_CALLS);
        at = 0;
        while (capo_hang_text_next_line(f, CAPO_HANG_KEY_PYTHON, &at, &nth, text))
                must(strlen(text) < sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *path = fuzz_file(0, data, size);
        struct capo_log_columns columns;
        struct capo_log_frame f, again;
        struct capo_log_comm comm;
        struct capo_log_site site;
        struct capo_log_end end;
        struct capo_log *log;
        const char *text;
        unsigned n = 0;
        char why[256];

        if (capo_log_open(path, &log, why, sizeof why) < 0) {
                must(*why);
                return 0;
        }
        while (capo_log_next(log, &f) > 0) {
                const struct capo_log_shape *shapes;
                struct capo_log_hist_view host, gpu;
                struct capo_log_cell cell;
                struct capo_info_line line;
                struct capo_record r;
                size_t at = 0;

                must(*capo_frame_name(f.type) != '?');
                must(capo_log_frame_at(log, f.offset, &again) == 0 && again.size == f.size);
                if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &columns) == 0 && columns.n)
                        must(columns.shape[columns.n - 1] <= UINT16_MAX);
                if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &cell, &host, &gpu) == 0) {
                        for (uint32_t i = 0; i < host.head.n; i++)
                                n += host.pairs[i].bucket & 1;
                }
                if (f.type == CAPO_FRAME_SHAPE && capo_log_shapes(&f, &shapes))
                        n += shapes[capo_log_shapes(&f, &shapes) - 1].id & 1;
                for (unsigned i = 0; f.type == CAPO_FRAME_WIDE && capo_log_wide(&f, i, &r); i++)
                        n += r.call & 1;
                if (f.type == CAPO_FRAME_COMM && capo_log_comm(&f, &comm, &text) == 0)
                        must(strnlen(text, comm.name_size) <= comm.name_size);
                if (f.type == CAPO_FRAME_SITE && capo_log_site(&f, &site, &text) == 0)
                        n += strnlen(text, site.text_size) + capo_log_site_chosen(&f).gpu_count > 0;
                if (f.type == CAPO_FRAME_HANG)
                        hang(&f);
                if (f.type == CAPO_FRAME_END && capo_log_end(&f, &end) == 0)
                        n += end.clean > 0;
                while (f.type == CAPO_FRAME_INFO && capo_info_next(&f, &at, &line))
                        must(line.n_key && line.n_key + line.n_value < f.size + 1);
        }
        must(capo_log_health(log)->bytes_lost <= capo_log_position(log));
        capo_log_close(log);
        if (capo_log_open(path, &log, why, sizeof why) == 0) {
                capo_log_calls_each(log, call, &n);
                capo_log_close(log);
        }
        return n == UINT_MAX; /* all of it was read */
}
