/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, declared from their list. */
#pragma once

#include "cli/base/cli_options.h"

#define VERB_GROUP(id, title)
#define VERB(group, name, help)   extern const struct cli_command name##_command;
#define SUBVERB(verb, name, help) extern const struct cli_command verb##_##name##_command;
#include "cli/base/verbs.def"

#ifndef CAPO_VERSION
#define CAPO_VERSION "unknown"
#endif
