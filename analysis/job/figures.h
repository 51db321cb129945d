/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them. Each function returns its argument `text` (at least 32 bytes). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analysis/job/interval.h"
#include "core/base/size.h"
#include "core/base/text.h"

/** capo_text_count() - 1204816 as "1,204,816". */
char *capo_text_count(uint64_t n, char *text);

/** capo_text_plural() - "1 rule", "2 rules", "1,200 rules"
 * @many: the plural; NULL: @one with an s
 *
 * Return: static text, overwritten by the fourth call after this one. */
const char *capo_text_plural(uint64_t n, const char *one, const char *many);

/** capo_text_time() - "88 us", "1.3 ms", "12.4 s", "42 min 18 s", "3 h 05 min" of ns. */
char *capo_text_time(double ns, char *text);

/** capo_text_duration() - ns with three significant digits: "611 ns", "5.52 ms", "43.0 ms"; from
 * two minutes on as capo_text_time(). */
char *capo_text_duration(double ns, char *text);

/** capo_text_gbs() - GB/s, two or three significant digits: "242", "35.0", "0.0042", "<0.001". */
char *capo_text_gbs(double gbs, char *text);

/** capo_text_ratio() - "7.7", "1,232". */
char *capo_text_ratio(double ratio, char *text);

/** capo_text_percent() - share 0..1 as "61.2 %", "0.002 %". */
char *capo_text_percent(double share, char *text);

enum { CAPO_TEXT_INTERVAL = 80 };

/** capo_text_interval() - the interval, to be printed behind @value: " +- 1.2 %"; " (0.1 % to 9.4
 * %)" when it is not symmetric; "" when it is below a thousandth of @value.
 * @print: capo_text_percent(), ...
 * @text: CAPO_TEXT_INTERVAL bytes */
char *capo_text_interval(double value, struct capo_interval i, char *(*print)(double, char *),
                         char *text);

/* The same, and sizes and times of day, in memory of the block around them: for arguments. */
#define TEXT_COUNT(n)         capo_text_count(n, (char[32]){0})
#define TEXT_TIME(ns)         capo_text_time(ns, (char[32]){0})
#define TEXT_DURATION(ns)     capo_text_duration(ns, (char[32]){0})
#define TEXT_GBS(gbs)         capo_text_gbs(gbs, (char[32]){0})
#define TEXT_RATIO(ratio)     capo_text_ratio(ratio, (char[32]){0})
#define TEXT_PERCENT(share)   capo_text_percent(share, (char[32]){0})
#define TEXT_SIZE(bytes)      capo_size_print(bytes, (char[16]){0}, 16)
#define TEXT_WHEN(ns, format) capo_text_when(ns, format, (char[32]){0})
