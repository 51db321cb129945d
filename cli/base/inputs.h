/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs on a command line: files and folders of measurements, with labels that apply to what follows them. */
#ifndef CAPO_CLI_INPUTS_H
#define CAPO_CLI_INPUTS_H

#include <stdio.h>

#include "profiles/import/import.h"

/** capo_inputs_help() - the options below, a line each. */
const char *capo_inputs_help(void);

/**
 * capo_inputs_option() - take argv[*i] when it is a label (--algo, --proto, --channels, --coll, --layout, --nccl,
 * --gpu)
 *
 * Return: 1 taken, *i is then the last word used; 0 not a label; -EINVAL it is a wrong one (said).
 */
int capo_inputs_option(struct capo_label *label, int argc, char **argv, int *i);

/** capo_inputs_read() - capo_import(), or a store's samples for "store:FILE", with its error said, and progress on a
 * terminal. Return: as capo_import(). */
int capo_inputs_read(const char *path, const struct capo_label *label, struct capo_samples *set);

/** capo_inputs_notes() - say what was left out and why: the first few as warnings. */
void capo_inputs_notes(const struct capo_samples *set);

/** capo_inputs_csv() - samples as flat CSV (profiles/store/csv.h). Return: 0 or -EIO. */
int capo_inputs_csv(FILE *out, const struct capo_samples *set);

/** capo_inputs_filter() - which samples of a store ("store:FILE") capo_inputs_read() takes; NULL: all. Kept, not
 * copied. */
struct capo_store_filter;
void capo_inputs_filter(const struct capo_store_filter *filter);

#endif
