/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines and prose that may say what was forced. */
#pragma once

#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>

struct reader;

/* Does @word fit @pattern, such as "@(ssh|docker)"? */
static inline bool capo_word_is(const char *word, const char *pattern)
{
        return fnmatch(pattern, word, FNM_EXTMATCH) == 0;
}

/* Join @line with the lines before it that ended with a backslash; NULL: the command continues. @n: its
 * number, or that of the first line. */
char *capo_text_join(struct reader *r, char *line, unsigned *n);

/* Is it a heading with names of algorithms or protocols, but no setting? They are set; 0: none,
 * CAPO_HEADING_SEVERAL: more than one. */
enum { CAPO_HEADING_SEVERAL = 255 };
bool capo_text_heading(const char *text, uint8_t *algo, uint8_t *proto);

/* How often @text names a setting that decides what runs (NCCL_ALGO, NCCL_TUNER_PLUGIN, MSCCL,
 * ...). Each must be understood, or the run is unknown. */
unsigned capo_text_mentions(const char *text);

/* What follows the prompt of a shell, such as "user@host:~$ " or "[root@host dir]# "; @text: there
 * is none. */
char *capo_text_prompt(char *text);

/* What follows a "capo run -- ", which records only, without an option; @text: there is none. */
char *capo_text_recorded(char *text);

/* May this command line set variables that it does not show, by a script, a file or a program? */
bool capo_text_hides(const char *text);

/* Does this command line drop variables set before its program, as ssh, "docker run" and sudo do? @set: one
 * was exported before; else only if the line sets one. */
bool capo_text_drops(const char *text, bool set);

/* Replace "-genv NCCL_ALGO Ring", "--env NCCL_ALGO Ring", "setenv NCCL_ALGO Ring", "NCCL_ALGO =
 * Ring" and "NCCL_ALGO: Ring" by "NCCL_ALGO=Ring", and remove quotes of values. In place. */
void capo_text_normalise(char *text);

/** capo_text_forces() - does variable @key decide which algorithm and protocol run? */
bool capo_text_forces(const char *key);
