/* SPDX-License-Identifier: Apache-2.0 */
/* What the drain thread asks the loader (dl_iterate_phdr, dlopen, dlsym) takes locks of the
 * loader's, which glibc does not set back in a fork's child: one that was taken at that moment
 * would stop the child in its next dlopen() or, before glibc 2.35, its next C++ exception. So a
 * fork() waits until the drain thread is through, for a second at most. */
#pragma once

/** capo_loader_enter(), capo_loader_leave() - around what the drain thread asks */
void capo_loader_enter(void);
void capo_loader_leave(void);

/** capo_loader_fork(), capo_loader_forked(), capo_loader_child() - handlers of pthread_atfork():
 * before, then of the parent and the child */
void capo_loader_fork(void);
void capo_loader_forked(void);
void capo_loader_child(void);
