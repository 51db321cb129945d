/* SPDX-License-Identifier: Apache-2.0 */
/* Files that verbs write (-o FILE, --svg FILE, ...). */
#ifndef CAPO_CLI_OUTPUT_H
#define CAPO_CLI_OUTPUT_H

#include <stdio.h>

struct cli_output {
        FILE *file;
        const char *path; /* as given; NULL: standard output */
        char *target; /* the regular file that appears at once when all is written; NULL: written in
                         place */
        char *beside; /* what is written meanwhile */
};

/**
 * cli_output_open() - begin to write @path, or standard output when it is NULL
 *
 * A regular file, or one that is not there yet, is written beside and renamed at the end: whoever
 * reads it meanwhile reads the old one or the new one, and one that could not be written whole
 * leaves the old one. Whatever else the path names (a device, a FIFO, a socket of /dev/fd) is
 * written in place and never replaced. A folder is refused.
 *
 * Return: 0; negative errno after saying what is wrong.
 */
int cli_output_open(struct cli_output *o, const char *path);

/** cli_output_open_bytes() - the same of a file that is no text: bytes are written as they are. */
int cli_output_open_bytes(struct cli_output *o, const char *path);

/**
 * cli_output_close() - end it; @error (a negative errno) is what went wrong in between, and leaves
 * nothing behind
 *
 * Return: 0; negative errno, said (-ECANCELED, said by the caller, is passed on without a word).
 */
int cli_output_close(struct cli_output *o, int error);

#endif
