/* SPDX-License-Identifier: Apache-2.0 */
/* What holds a GPU's clock back, from its list. */
#pragma once

enum capo_clock_weight { CAPO_CLOCK_IDLE, CAPO_CLOCK_SLOW, CAPO_CLOCK_CAP };

enum capo_clock_reason {
#define CLOCK_REASON(id, bit, weight, words) CAPO_CLOCK_REASON_##id,
#include "capo/clock_reasons.def"
        CAPO_CLOCK_REASONS,
};

/** capo_clock_reason_name(), _words(), _weight() - "hw_thermal", "too hot (hardware)",
 * CAPO_CLOCK_SLOW. */
const char *capo_clock_reason_name(enum capo_clock_reason reason);
const char *capo_clock_reason_words(enum capo_clock_reason reason);
enum capo_clock_weight capo_clock_reason_weight(enum capo_clock_reason reason);
