/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share. Exit statuses: 0 fine, 1 failed or "no", 2 wrong command line. */
#ifndef CAPO_CLI_H
#define CAPO_CLI_H

#define VERB(name, help) int capo_verb_##name(int argc, char **argv);
#include "cli/base/verbs.def"
#undef VERB

enum { CAPO_EXIT_OK = 0, CAPO_EXIT_FAIL = 1, CAPO_EXIT_USAGE = 2 };

#endif
