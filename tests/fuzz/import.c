/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as measurements, by each importer: the first byte says which, 0 that the content
 * decides (then capo logs are among them). What comes of it is fitted, as capo fit would: whatever
 * the numbers, a profile or a reason.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capo/log.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "profiles/import/import_private.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"

static int (*const importers[])(struct capo_input *in) = {
#define IMPORTER(name, whole, what) capo_import_##name,
#include "profiles/import/importers.def"
};
enum { FITTED = 400 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        bool log = size > 9 && data[0] % (N_ELEMENTS(importers) + 1) < 2 &&
                   !memcmp(data + 1, CAPO_LOG_MAGIC, 8);

        return log ? 1 + fuzz_frames_mutate(data + 1, size - 1, max_size - 1, seed)
                   : LLVMFuzzerMutate(data, size, max_size);
}

static void fit(struct capo_samples *set)
{
        struct capo_fit_options options = {0};
        struct capo_fault fault = {""};
        struct capo_profile *profile = capo_profile_new("fuzz");
        struct capo_fit *f = NULL;
        int n_rules, n_rows;

        must(profile && capo_fit_guard(set, false) == 0);
        if (capo_fit_make(set, &options, &f, &fault) == 0)
                must(capo_fit_profile(f, profile, &n_rules, &n_rows) == 0);
        else
                must(*fault.text);
        capo_fit_free(f);
        capo_profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct capo_label labels[] = {{0},
                                                   {.call = CAPO_CALL_ALLREDUCE,
                                                    .algo = CAPO_ALGO_RING,
                                                    .proto = CAPO_PROTO_LL,
                                                    .n_ranks = 8}};
        struct fuzz_bytes b = {data, size};
        unsigned which = (unsigned)fuzz_number(&b, 1);
        struct capo_samples set = {0};
        char error[512] = "";
        struct capo_input in = {.path = "fuzz",
                                .label = which & 128 ? &labels[1] : NULL,
                                .set = &set,
                                .error = error,
                                .room = sizeof error};
        unsigned n = (which & 127) % (N_ELEMENTS(importers) + 1);
        int r;

        if (n < 2) { /* by the front door, where logs are known too */
                r = capo_import(fuzz_file(0, b.at, b.left), in.label, &set, error, sizeof error);
        } else {
                in.text = fuzz_text(b.at, b.left);
                in.size = strlen(in.text); /* who reads a file has refused zeros */
                r = importers[n - 1](&in);
                if (r >= 0) /* Inspector's records wait for it */
                        r = capo_import_end(&set, error, sizeof error);
                free(in.text);
        }
        must(r >= 0 || *error);
        for (size_t i = 0; i < set.n; i++)
                must(set.v[i].run < set.n_runs && set.v[i].us > 0 && isfinite(set.v[i].us));
        if (set.n && set.n <= FITTED)
                fit(&set);
        capo_samples_free(&set);
        return 0;
}
