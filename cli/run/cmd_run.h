/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a command under capo: what `capo run` and the verbs built on it (`capo sweep`) share. */
#pragma once

#include "cli/base/cli_options.h"

struct run {
        const char *dir;             /* NULL: <job id or time> in CAPO_DIR or capo-logs */
        const char *trace;           /* NULL: not set */
        int sample;                  /* -1: not set */
        const char *names;           /* file with names of communicators */
        const char *profile;         /* file, name or "auto"; NULL: no tuner is loaded at all */
        const char *layout;          /* ranks per node; NULL: from the launcher */
        const char *topo, *platform; /* the machine, as in capo topo; NULL: not given */
        const char *gpus, *alloc;    /* the allocation on it */
        bool allow_modelled;         /* or CAPO_ALLOW_MODELLED */
        bool allow_predicted;        /* predicted rows are tried in few calls */
        bool tune;                   /* all of it by itself (run_tune.h) */
        bool guard;                  /* the profile's rows are compared with NCCL's choice */
        double budget;               /* percent of the calls that trials take */
        bool quiet;
        const char *metrics; /* folder for those of `capo watch`; NULL none */
        bool no_watch;
};

/* The options of every verb that starts a command (--dir, --names, --layout, ...), for a struct
 * run. */
extern const struct cli_option run_options[];

/** run_record_topology() - write this machine to DIR/topology-HOST.xml, if it has GPUs and the file
 * does not exist. Takes three seconds at most. */
void run_record_topology(const char *dir);

/** run_start_watch() - start `capo watch` for the logs in @dir. It ends with this process, also
 * after an exec. */
void run_start_watch(const struct run *run, const char *dir);

/** run_setenv() - set a variable for the command and remember to forward it through launchers */
void run_setenv(const char *name, const char *value);

/** run_take_plugin() - have NCCL load capo's plugin, which is part of the preloaded library
 * @variable: NCCL's variable for the plugin
 * @chain:    capo's variable that keeps the user's plugin, so that capo's plugin can load it
 * @library:  absolute path: a name could be another file, and most releases accept a path */
void run_take_plugin(const char *variable, const char *chain, const char *library);

/** run_library() - find libcapo.so. Return: 0; -ENOENT; -EINVAL: its path cannot be in LD_PRELOAD.
 * Errors are printed. */
int run_library(char *path, size_t room);

/** run_exec() - set LD_PRELOAD and CAPO_*, and become @command. Returns only on errors. Return: the
 * exit status to use: as a shell 127 if there is no such command and 126 if it cannot be run; 1 if
 * capo's library is missing or the profile is unusable. */
int run_exec(const struct run *run, char **command);
