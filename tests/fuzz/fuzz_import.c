/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as measurements, by each importer. The first line names it: "text", "json labelled"
 * (with what a user says of the run). "any" leaves the choice to the content; capo logs come that
 * way. An input without such a line is read like any: the files of tests/fit/data are inputs, too.
 * What comes of it is fitted, as capo fit would: whatever the numbers, a profile or a reason.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capo/log_layout.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "profiles/import/import_private.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"
#include "tests/log_numbers.h"

static const struct {
        const char *name;
        int (*read)(struct capo_input *in);
        bool whole;
} importers[] = {
#define IMPORTER(name, whole, what) {#name, capo_import_##name, whole},
#include "profiles/import/importers.def"
};
enum { FITTED = 400 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        const uint8_t *end = memchr(data, '\n', size);
        size_t head = end ? (size_t)(end - data) + 1 : size;

        return size - head > 8 && !memcmp(data + head, CAPO_LOG_MAGIC, 8)
                       ? head + fuzz_frames_mutate(data + head, size - head, max_size - head, seed)
                       : LLVMFuzzerMutate(data, size, max_size);
}

static void fit(struct capo_samples *set)
{
        struct capo_fit_options options = {0};
        struct capo_fault fault = {""};
        struct capo_profile *profile = capo_profile_new("fuzz");
        struct capo_fit *f = NULL;

        must(profile);
        capo_fit_guard(set, false);
        if (capo_fit_make(set, &options, &f, &fault) == 0)
                capo_fit_profile(f, profile);
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
        char *line = fuzz_word(&b, '\n'), *rest = line, *name = strsep(&rest, " ");
        int (*importer)(struct capo_input * in) = NULL;
        struct capo_samples set = {0};
        char error[512] = "";
        struct capo_input in = {.path = "fuzz",
                                .label = rest && !strcmp(rest, "labelled") ? &labels[1] : NULL,
                                .set = &set,
                                .error = error,
                                .room = sizeof error,
                                .fd = -1};
        int r;

        for (size_t i = 0; i < N_ELEMENTS(importers); i++) {
                if (importers[i].whole && !strcmp(name, importers[i].name))
                        importer = importers[i].read;
        }
        if (!importer && strcmp(name, "any"))
                b = (struct fuzz_bytes){data, size};
        free(line);
        if (!importer) {
                r = capo_import(fuzz_file(0, b.at, b.left), in.label, &set, error, sizeof error);
        } else {
                in.text = fuzz_text(b.at, b.left);
                in.size = strlen(in.text); /* who reads a file has refused zeros */
                r = importer(&in);
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
