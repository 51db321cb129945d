/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a file of capo diagnose: compressed, UTF-16, a picture, a pickle, JSON, a page of capo,
 * a log. Whatever they are, the reading ends, its text is bounded, and its answer has a place.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_TEXT = 192 << 20 };

/* cli/diagnose/diagnose_jobs.c, which the target hang covers, has it. */
void diagnose_ras(struct capo_evidence *e, char *text, uint32_t number)
{
        must(text && number < e->n_texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct diagnose_inputs in = {0};
        int fd = memfd_create("input", MFD_CLOEXEC), r;
        char path[32], *words[] = {path};

        must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        capo_msg_set_level(CAPO_ERROR);
        r = diagnose_read(&in, 1, words);
        must(r == 0 || r == -ENOENT);
        for (uint32_t i = 0; i < in.evidence.n_texts; i++)
                must(in.evidence.texts[i].records.size < MOST_TEXT);
        diagnose_finish(&in);
        close(fd);
        return 0;
}
