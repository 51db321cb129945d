/* SPDX-License-Identifier: Apache-2.0 */
/* An input while it is read, and what all importers do to describe its runs. */
#pragma once

#include "core/base/layout.h"
#include "profiles/import/import.h"

struct capo_input {
        const char *path;
        char *text;
        size_t size;
        const struct capo_label *label;
        struct capo_samples *set;
        char *error;
        size_t room;
        const char *named; /* by the user: the file, or the folder that it is in; NULL: the file */
        int fd; /* of the file while it is read, at any offset; -1 when it was taken over */
};

/* Parts of an input (documents, rows) that are not used. */
struct capo_input_faults {
        char text[5][320]; /* of the first few */
        unsigned n;
};

/** capo_input_fault() - keep in->error, which is about one part of the input only, and clear it. */
void capo_input_fault(struct capo_input *in, struct capo_input_faults *faults);

/** capo_input_faults_end() - at the end of the input
 * @what: "documents", "rows"
 * @used: something of it is used
 *
 * Return: 0, and the first few faults are notes; -EINVAL: nothing is used, and in->error is the
 * first fault. */
int capo_input_faults_end(struct capo_input *in, const struct capo_input_faults *faults,
                          const char *what, bool used);

/** capo_input_error() - "path:line: ..." into in->error; line 0 leaves it out. Returns -EINVAL. */
int capo_input_error(struct capo_input *in, unsigned line, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/** capo_input_label() - apply the user's label to a run
 * @run: layout, ranks, nodes, GPU and release are set if the label has them
 *
 * Ranks and layout of the label override those of the input, because texts lose device lines.
 *
 * Return: 0; -EINVAL: the input names another release or GPU than the label. */
int capo_input_label(struct capo_input *in, struct capo_trial *run);

/** capo_input_number() - the same as strtod() of the whole text, but fast, because tables have many
 * numbers. Return: false: not a number, or not finite. */
bool capo_input_number(const char *text, double *out);

/** capo_input_hosts() - put the names of the hosts that @run ran on into it; @names are sorted. */
void capo_input_hosts(struct capo_trial *run, const char **names, size_t n);

/** capo_input_tuner() - apply the NCCL_TUNER_PLUGIN of @run's environment
 * @forced: the run forces its choices, so the tuner decided nothing
 *
 * A plugin that is neither NCCL's own nor capo's becomes the tuner of the run. Such a run is left
 * out, unless @forced. */
void capo_input_tuner(struct capo_trial *run, const char *value, bool forced);

/** capo_trial_leave_out() - the run takes no part, and why. */
void capo_trial_leave_out(struct capo_trial *run, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_input_layout() - put layout @text ("3+5", "10x8") with its ranks and nodes into @run.
 * Return: 0 or -EINVAL. capo_input_place() - put @layout there, but not its numbers; nothing, if it is
 * too long. capo_input_even() - put the layout of as many ranks on each node there, if that can be. */
int capo_input_layout(const char *text, struct capo_trial *run);
void capo_input_place(const struct capo_layout *layout, struct capo_trial *run);
void capo_input_even(struct capo_trial *run);

/** capo_input_earliest() - do all ranks end @call only after the last one has come, so that of their times
 * the shortest is the transfer? If not, it is the longest. */
bool capo_input_earliest(unsigned call);
