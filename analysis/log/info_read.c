/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/log/info_read.h"
#include "core/base/util.h"

bool capo_info_next(const struct capo_log_frame *f, size_t *at, struct capo_info_line *out)
{
        const char *line, *tab;
        size_t n;

        while ((line = capo_log_next_line(f, at, &n))) {
                tab = memchr(line, '\t', n);
                if (!tab || tab == line)
                        continue;
                *out = (struct capo_info_line){
                        .key = line, .value = tab + 1, .more = tab[-1] == '+'};
                out->n_key = (size_t)(tab - line) - out->more;
                if (!out->n_key) /* a lone "+" */
                        continue;
                out->n_value = n - (size_t)(out->value - line);
                return true;
        }
        return false;
}

bool capo_info_is(const struct capo_info_line *line, const char *key)
{
        return strlen(key) == line->n_key && !memcmp(line->key, key, line->n_key);
}

char *capo_info_value(const struct capo_info_line *line, char *text, size_t room)
{
        size_t n = line->n_value < room ? line->n_value : room - 1;

        memcpy(text, line->value, n);
        text[n] = 0;
        return text;
}

int capo_info_index(const char *key, const char *base)
{
        size_t n = strlen(base);
        char *end;
        long v;

        if (strncmp(key, base, n) != 0 || key[n] != '.' || key[n + 1] < '0' || key[n + 1] > '9')
                return -1;
        v = strtol(key + n + 1, &end, 10);
        return *end || v > INT_MAX ? -1 : (int)v;
}
