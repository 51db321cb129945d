/* SPDX-License-Identifier: Apache-2.0 */
/* Output files of verbs (-o FILE, --html FILE, ...). */
#pragma once

#include <stdio.h>

struct cli_output {
        FILE *file;
        const char *path; /* as given; NULL: standard output */
        char *target;     /* the regular file that is replaced at the end; NULL: written in place */
        char *beside;     /* the temporary file */
};

/** cli_output_open() - open @path for writing; NULL: standard output
 *
 * A regular or new file is written to a temporary file beside it, which is renamed at the end:
 * readers see the old file or the new one, and a failed write keeps the old one. Other targets (a
 * device, a FIFO, a socket of /dev/fd) are written in place and never replaced. A folder is
 * rejected.
 *
 * Return: 0; negative errno after printing the reason. */
int cli_output_open(struct cli_output *o, const char *path);

/** cli_output_open_bytes() - the same for binary files: bytes are written unchanged. */
int cli_output_open_bytes(struct cli_output *o, const char *path);

/** cli_output_close() - finish the file; @error (a negative errno) from writing it removes the
 * temporary file. Return: 0; negative errno, printed (-ECANCELED: the caller has printed the
 * reason). */
int cli_output_close(struct cli_output *o, int error);
