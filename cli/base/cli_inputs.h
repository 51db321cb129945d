/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs on a command line: files and folders of measurements, with labels that apply to what
 * follows them. */
#ifndef CAPO_CLI_INPUTS_H
#define CAPO_CLI_INPUTS_H

#include <stdio.h>

#include "cli/base/cli_options.h"
#include "profiles/import/import.h"

/* For a verb's options: cli_label_options fill the label, and cli_inputs_add() takes each operand
 * beside it. */
struct cli_inputs {
        struct capo_label label; /* so far */
        struct cli_input {
                const char *path;
                struct capo_label label;
        } * v;
        size_t n;
};

/* --algo, --proto, --channels and those of cli_place_options, into a struct capo_label. */
extern const struct cli_option cli_label_options[];
/* --coll, --layout, --nccl, --gpu: what a filter may also ask for. */
extern const struct cli_option cli_place_options[];
#define CLI_LABELS_HELP "labels, for the inputs that follow them (auto or none takes a label back):"

/** cli_inputs_add() - one more, with the labels so far. Return: 0; -ENOMEM, said. */
int cli_inputs_add(struct cli_inputs *inputs, const char *path);
void cli_inputs_free(struct cli_inputs *inputs);

/** cli_inputs_read() - all of them, by cli_input_read(), also after one that cannot be read.
 * Return: the first error, else 0. */
int cli_inputs_read(const struct cli_inputs *inputs, struct capo_samples *set);

/** cli_input_read() - capo_import(), or a store's samples for "store:FILE", with its error said,
 * and progress on a terminal. Return: as capo_import(). */
int cli_input_read(const char *path, const struct capo_label *label, struct capo_samples *set);

/** cli_inputs_notes() - say what was left out and why: the first few as warnings. */
void cli_inputs_notes(const struct capo_samples *set);

/** cli_inputs_left_out() - a warning for each of the first runs that take no part. */
void cli_inputs_left_out(const struct capo_samples *set);

/** cli_inputs_csv() - samples as flat CSV (profiles/store/store_csv.h). Return: 0 or -EIO. */
int cli_inputs_csv(FILE *out, const struct capo_samples *set);

/** cli_inputs_filter() - which samples of a store ("store:FILE") cli_input_read() takes; NULL: all.
 * Kept, not copied. */
struct capo_store_filter;
void cli_inputs_filter(const struct capo_store_filter *filter);

#endif
