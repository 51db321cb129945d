/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs of a machine a job should take, where it may choose. It costs nothing to take others.
 */
#pragma once

#include "profiles/fragment/fragment.h"

enum { FRAGMENT_GPUS_TEXT = 768 };

/**
 * fragment_gpus_text() - other GPUs, as many of each node, with more all-reduce bandwidth by the
 * links, the setting that takes them, and their nearest NICs, in a sentence
 *
 * For up to 16 ranks on machines of up to 16 GPUs. Nodes with as many GPUs get the same ones. At most
 * a thousand choices are tried for the nodes with as many GPUs.
 *
 * Return: @text, of FRAGMENT_GPUS_TEXT; "": none is 5 % better, or it is not known.
 */
char *fragment_gpus_text(const struct capo_topology *t, const struct capo_alloc *a, char *text);
