/* SPDX-License-Identifier: Apache-2.0 */
/* Site defaults: /etc/capo/capo.conf, lines NAME=VALUE of settings that users may set. The
 * environment wins. The file is read into memory of the caller: in the job nothing is allocated. */
#pragma once

#include "core/base/util.h"

#define CAPO_SITE_CONF "/etc/capo/capo.conf"
enum {
        CAPO_SITE_ROOM = 4096, /* bytes of a whole file */
        CAPO_SITE_FAULT = 512, /* of a sentence on it */
};

/** capo_site_path() - the file; NULL: CAPO_CONF=none. CAPO_CONF may name another. */
const char *capo_site_path(void);

/** capo_site_read() - the file's settings, "NAME=VALUE" one behind the other, an empty one at the
 * end
 *
 * A file that others than root (or this user) may write is not read, because it decides what runs
 * in other people's jobs. @fault says so, or names the first bad line, or is ""; the other lines
 * count. A missing file is no error.
 *
 * Return: how many. */
unsigned capo_site_read(char text[CAPO_SITE_ROOM], char fault[CAPO_SITE_FAULT]);

/** capo_site_parse() - the same of @n bytes that are there already; @text has room for 2 more. */
unsigned capo_site_parse(char *text, size_t n, const char *path, char fault[CAPO_SITE_FAULT]);

/** capo_site_hash() - of the settings and @fault that capo_site_read() found. */
uint32_t capo_site_hash(const char *text, const char *fault);

/** capo_site_is_known() - did the capo run that started this process read the same file, as
 * CAPO_RUN_PID has it? Then it has printed what is wrong. Another node may have another file. */
bool capo_site_is_known(const char *text, const char *fault);

/** capo_site_warn() - print @fault, unless it is "", known, or one was printed here before. */
void capo_site_warn(const char *text, const char *fault);

/** capo_site_value() - NULL: the file does not have the setting. */
const char *capo_site_value(const char *text, const char *name);
