/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a command under capo: what `capo run` and the verbs built on it (`capo sweep`) share. */
#ifndef CAPO_RUN_H
#define CAPO_RUN_H

#include "cli/base/cli_options.h"

struct run {
        const char *dir;             /* NULL: capo-logs/<job id or time> */
        const char *trace;           /* NULL: not set */
        int sample;                  /* -1: not set */
        const char *names;           /* file with names of communicators */
        const char *profile;         /* file, name or "auto"; NULL: no tuner is loaded at all */
        const char *layout;          /* ranks per node; NULL: from the launcher */
        const char *topo, *platform; /* the machine, as in capo topo; NULL: not given */
        const char *gpus, *alloc;    /* the allocation on it */
        bool allow_modelled;         /* or CAPO_ALLOW_MODELLED */
        bool allow_predicted;        /* predicted rows are tried, never believed */
        bool guard;                  /* the profile's rows are compared with NCCL's choice */
        double budget;               /* percent of the calls that trials take */
        bool quiet;
        const char *metrics; /* folder for those of `capo watch`; NULL none */
        bool no_watch;
};

/* --dir, --names, --layout, the machine and its GPUs, --quiet, into a struct run: for every verb
 * that starts a command. */
extern const struct cli_option run_options[];

/** run_allocation() - class and layout of the given allocation, into the environment.
 * Return: 0; an exit status after saying what is wrong. */
int run_allocation(const struct run *run);

/** run_record_topology() - this machine, to DIR/topology-HOST.xml where it has GPUs and none is
 * there; waits three seconds at most. */
void run_record_topology(const char *dir);

/** run_start_watch() - `capo watch` of the logs in @dir, until this process has ended, whatever
 * program it becomes. */
void run_start_watch(const struct run *run, const char *dir);

/**
 * run_setenv() - set a variable for the command and remember to forward it through launchers
 */
void run_setenv(const char *name, const char *value);

/**
 * run_take_plugin() - NCCL is to take capo's plugin from the library that is preloaded anyway
 * @variable: which says the plugin; @chain: whatever the user had set there is kept in this one
 * @library:  an absolute path, because only a path names that very file, and most releases take it
 */
void run_take_plugin(const char *variable, const char *chain, const char *library);

/** run_library() - where libcapo.so is. Return: 0; -ENOENT, -EINVAL: the loader cannot be given
 * its path. Prints why. */
int run_library(char *path, size_t room);

/**
 * run_exec() - set LD_PRELOAD and CAPO_*, and become @command
 *
 * Does not return when all went well. Return: the exit status to use: 127 when there is no such
 * command, 126 when it cannot be run (the shell's numbers), 1 when capo's library is not to be
 * found or the profile is not usable.
 */
int run_exec(const struct run *run, char **command);

#endif
