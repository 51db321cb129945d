/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the profile reader and writer share with each other only. */
#pragma once

#include "capo/profile.h"
#include "core/profile/profile_json.h"

extern const struct capo_when capo_when_any;

/** capo_profile_parse_json(), capo_profile_parse_csv() - fill @profile; 0; -errno with @fault. */
int capo_profile_parse_json(struct capo_profile *profile, const char *text, size_t size,
                            struct capo_fault *fault);
int capo_profile_parse_csv(struct capo_profile *profile, const char *text, size_t size,
                           struct capo_fault *fault);

/** capo_profile_keep_bytes() - like capo_profile_keep, of a text that does not end in 0. */
char *capo_profile_keep_bytes(struct capo_profile *profile, const char *text, size_t size);

/** capo_profile_row_raw() - append a row to the last rule as it is; 0 or -ENOMEM. */
int capo_profile_row_raw(struct capo_profile *profile, const struct capo_row *row);

int capo_profile_fault(int rc, struct capo_fault *fault, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
