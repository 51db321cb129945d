/* SPDX-License-Identifier: Apache-2.0 */
/* Settings. include/capo/env.def is the one list; the struct below, the parser, `capo env` and
 * docs/env.md are made from it. Read once, at load; all else gets a const pointer to it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const char *capo_env_STR; /* "" when unset; points into the environment, into `site` of the
                                     same struct, or to the default */
typedef int64_t capo_env_INT;
typedef uint64_t capo_env_SIZE; /* bytes; K, M, G suffixes are powers of 1024 */
typedef bool capo_env_BOOL;     /* 1/0, yes/no, on/off, true/false */

struct capo_env {
#define ENV(field, type, name, def, help) capo_env_##type field;
#include "capo/env.def"
        char site[4096]; /* the file of site defaults, as values point into it */
};

/* CAPO_ENV_dir is the name of the variable behind capo_env.dir, and so on: for who sets one for
 * another process, or look at one before there are settings. */
#define ENV(field, type, name, def, help) \
        static const char CAPO_ENV_##field[] __attribute__((unused)) = name;
#include "capo/env.def"

/* What to do where nothing was recorded: the job and the verbs that look for its logs say it. */
#define CAPO_TRY_VERBOSE \
        "CAPO_VERBOSE=1 capo run -- COMMAND names each process that LD_PRELOAD reaches"

/** capo_env_read() - read all settings from the process environment, and those that are not there
 * from the file of site defaults (core/base/site_conf.h)
 * @env: filled completely; a value that does not parse gets its default
 *
 * For each value that does not parse one warning line names variable, value and the default used.
 *
 * Return: the number of values that did not parse. */
int capo_env_read(struct capo_env *env);

/** capo_env_begin() - read the file of site defaults, if the environment leaves a need for it. By a
 * constructor, so that no thread of the job reads the file later. Without it, each of the others
 * reads the file. */
void capo_env_begin(void);

/** capo_env_wanted() - do the settings ask for logs? For processes that have not called NCCL and
 * may never: what is not understood is not reported. */
bool capo_env_wanted(void);

/** capo_env_understood() - is @text a value of setting @name?
 * @type: set to its type, "SIZE" and so on, when there is such a setting
 *
 * Return: 0, for an empty text too; -EINVAL it does not parse; -ENOENT no such setting. */
int capo_env_understood(const char *name, const char *text, const char **type);

/** capo_env_below() - is @text below what setting @name may be? Then *@least is in force. */
bool capo_env_below(const char *name, const char *text, long long *least);
