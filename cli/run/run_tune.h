/* SPDX-License-Identifier: Apache-2.0 */
/* capo run --tune: finds what to try for this job, and says at its end what it was worth. */
#pragma once

#include "cli/run/run_expect.h"

/* What capo run was given. */
struct run_tune {
        const char *profile, *platform; /* NULL: not given */
        double budget;                  /* percent of the calls */
        bool quiet;
};

/** run_tune_profile() - the profile that --tune tries
 * @x: what the launcher and the command's NCCL tell of the job
 * @path: set to it: run->profile, or the stored one of this machine; where no rule of that can hold,
 * one that lists NCCL's other choices for this layout, to be measured; "": nothing can be tried
 *
 * One line is printed: what will be tried, or why nothing. Return: 0; -EINVAL: run->profile is not
 * there, printed. */
int run_tune_profile(const struct run_tune *run, const struct run_expected *x, char *path,
                     size_t room);

/** run_tune_wait() - run @command, wait for it, and say what was gained
 * @dir: its logs; @asked: the profile of run_tune_profile(); the one used is in the environment
 *
 * Signals of the terminal go to the command; SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on.
 *
 * Return: its exit status; 128 + the signal that killed it. */
int run_tune_wait(char **command, const char *dir, const char *asked, bool quiet);
