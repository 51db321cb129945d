/* SPDX-License-Identifier: Apache-2.0 */
/* The folder where nodes meet. Other users may be able to write there: a file is believed only if
 * this user wrote it, and is created under a name that nobody can guess. */
#pragma once

#include <jansson.h>

/** check_folder_begin() - make @folder if it is missing, and find out as whom the file system knows
 * this user (root may be nobody there). Return: 0; -errno with a message. */
int check_folder_begin(const char *folder);

/** check_folder_write() - replace the file @path. Return: 0; -errno with a message. */
int check_folder_write(const char *path, const json_t *json);

/** check_folder_read() - the content of @path, as check_plain() makes it. Return: NULL: there is no
 * such file, or it is not this user's, which a message says once. */
json_t *check_folder_read(const char *path);

/** check_plain() - a copy in which no text has a control character: a name with a newline would
 * print a line of its own. NULL: @json is NULL. */
json_t *check_plain(json_t *json);
