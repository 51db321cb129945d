/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of several logs: what is found in it lies in it, and is read as any log. */
#include <string.h>

#include "analysis/log/log_read.h"
#include "analysis/log/pack.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        return LLVMFuzzerMutate(data, size, max_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *path = fuzz_file(0, data, size);
        struct capo_pack pack;
        char why[256] = "";

        if (capo_pack_list(path, &pack, why, sizeof why) < 0)
                must(*why && !pack.n);
        for (size_t i = 0; i < pack.n; i++) {
                struct capo_log_frame f;
                struct capo_log *log;

                must(pack.v[i].at <= size && *pack.v[i].name && !strchr(pack.v[i].name, '/'));
                must(pack.v[i].size / PACK_RATIO <= size);
                if (capo_log_open_packed(path, &pack.v[i], &log, why, sizeof why) < 0)
                        continue;
                must(capo_log_size(log) <= pack.v[i].size);
                while (capo_log_next(log, &f) > 0)
                        must(f.offset + f.size <= capo_log_size(log));
                capo_log_close(log);
        }
        capo_pack_finish(&pack);
        return 0;
}
