/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of nccl-tests' output, and the hosts of the file they are in. */
#pragma once

#include "profiles/import/text_reader.h"

/* Leave out this run; the first reason is kept. */
void capo_text_reject(struct block *b, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* The index of a host, added if new; -1: no room, or @name is empty or too long. */
int capo_text_host(struct reader *r, const char *name, size_t size);

/* Length of the part of @word that belongs to the row before a log line that is glued to it: in
 * "-138dcf168f605:1391:1391" with host 38dcf168f605 it is 2. */
size_t capo_text_glued(const struct reader *r, const char *word);

/* Add the words of a row, or of a part of one. @begins: the row begins here. @open: a log line
 * follows, so the row may continue later. Return: 0; -errno with the error set. */
int capo_text_row_piece(struct reader *r, const char *text, unsigned line, bool begins, bool open);

/* Does @text begin a row (size, count and type)? */
bool capo_text_begins_row(const char *text);

/* Finish the row being built, if any. Return: 0; -errno with the error set. */
int capo_text_row_end(struct reader *r);
