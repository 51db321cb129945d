/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a log: what a text says ends with its frame, whatever stands behind that. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "cli/cmd_trace.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"

/* A frame of a kind that is not known yet begins with its number, 49: in a text that would be a 1.
 */
Test(trace, a_rank_at_the_end_of_its_frame)
{
        char path[] = "/tmp/capo-test-trace-XXXXXX", why[256];
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        _cleanup_free_ char *text = NULL;
        struct trace t = {0};
        struct gen_log g;
        size_t size;

        close(mkstemp(path));
        gen_log_open(&g, path, 42);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tnode-a\nrank\t1234567");
        gen_log_frame(&g, '1', "", 0);
        gen_log_close(&g);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        unlink(path);
        t.out = open_memstream(&text, &size);
        trace_begin(&t);
        cr_assert_eq(trace_log(&t, log), 0);
        trace_end(&t);
        fclose(t.out);
        cr_expect_not_null(strstr(text, "\"rank 1234567 node-a pid 42\""), "%s", text);
}
