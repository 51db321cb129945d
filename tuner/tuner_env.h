/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct capo_env; /* capo/env.h */

/** capo_tuner_env() - the settings, read at the first call and kept for good. Any thread. */
const struct capo_env *capo_tuner_env(void);
