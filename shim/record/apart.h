/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_APART_H
#define CAPO_APART_H

/**
 * capo_apart() - start a program that is no child of this process, and not wait for it
 * @argv, @envp: of it; argv[0] is its file
 * @out:         its standard output, a file that is there; what was in it goes
 * @seconds:     after so many it is killed; of the processor it has at most half of them
 *
 * The job must not notice: no fork handler runs and no memory is copied or unmapped from a device
 * (the children share it until they exec, CLONE_VM | CLONE_VFORK, as posix_spawn() does it; what
 * fork() does to registered memory does not happen), no SIGCHLD comes, no wait() of the job finds a
 * stranger, no file of the job stays open in the program, and it has the lowest priority.
 *
 * Return: 0; -errno: the kernel has no process for it, @out cannot be written, or the file cannot
 * be run.
 */
int capo_apart(char *const argv[], char *const envp[], const char *out, unsigned seconds);

#endif
