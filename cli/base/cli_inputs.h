/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs on a command line: files and folders of measurements. A label applies to the inputs after
 * it. */
#pragma once

#include "cli/base/cli_options.h"
#include "profiles/import/import.h"

/* Use cli_label_options in the verb's table; they fill `label`. Call cli_inputs_add() for each
 * operand. */
struct cli_inputs {
        struct capo_label label; /* the current label */
        struct capo_label last;  /* of the last input */
        struct cli_input {
                const char *path;
                struct capo_label label;
        } * v;
        size_t n;
};

/* --algo, --proto, --channels and those of cli_place_options, into a struct capo_label. */
extern const struct cli_option cli_label_options[];
/* --coll, --layout, --nccl, --gpu: also used as filters. */
extern const struct cli_option cli_place_options[];
#define CLI_LABELS_HELP "labels, for the inputs that follow them (auto or none takes a label back):"

/** cli_inputs_add() - add @path with the current label. Return: 0. */
int cli_inputs_add(struct cli_inputs *inputs, const char *path);

/** cli_inputs_unused() - was a label given after the last input? It would apply to nothing. */
bool cli_inputs_unused(const struct cli_inputs *inputs);

/** cli_inputs_read() - read all inputs with cli_input_read(), even if some fail. Return: the first
 * error, else 0. */
int cli_inputs_read(const struct cli_inputs *inputs, struct capo_samples *set);

/** cli_input_read() - capo_import(), or a store's samples for "store:FILE"; prints errors, and
 * progress on a terminal. Return: as capo_import(). */
int cli_input_read(const char *path, const struct capo_label *label, struct capo_samples *set);

/** cli_inputs_notes() - print what was left out and why; the first few as warnings. */
void cli_inputs_notes(const struct capo_samples *set);

/** cli_inputs_left_out() - print a warning for each of the first runs that are left out. */
void cli_inputs_left_out(const struct capo_samples *set);

/** cli_inputs_csv() - samples as flat CSV (profiles/store/store.h). Return: 0 or -EIO. */
int cli_inputs_csv(FILE *out, const struct capo_samples *set);

/** cli_inputs_filter() - the filter for stores ("store:FILE") in cli_input_read(); NULL: all
 * samples. The pointer is kept, not copied. */
struct capo_store_filter;
void cli_inputs_filter(const struct capo_store_filter *filter);
