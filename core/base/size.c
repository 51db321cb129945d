/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/size.h"
#include "core/base/util.h"

int capo_size_parse(const char *text, uint64_t *out)
{
        static const char units[] = "kmgtpe";
        uint64_t whole;
        double value, part = 1;
        char *end;
        int shift = 0;

        if (!isdigit((unsigned char)*text)) {
                if (strcasecmp(text, "max") && strcasecmp(text, "inf"))
                        return -EINVAL;
                *out = UINT64_MAX;
                return 0;
        }
        errno = 0;
        whole = strtoull(text, &end, 10);
        if (errno == ERANGE)
                return -ERANGE;
        value = (double)whole;
        if (*end == '.') { /* by hand: strtod() wants the comma of the job's locale */
                double fraction = 0;

                for (end++; isdigit((unsigned char)*end); end++) {
                        if (part >= 1e17) /* more than a double holds; 309 of them would be infinity
                                             over infinity */
                                continue;
                        fraction = fraction * 10 + (*end - '0');
                        part *= 10;
                }
                value += fraction / part;
        }
        if (*end == ' ' && isalpha((unsigned char)end[1])) /* as capo_size_print() writes it */
                end++;
        for (int i = 0; units[i]; i++) {
                if (tolower((unsigned char)*end) == units[i]) {
                        shift = 10 * (i + 1);
                        end++;
                        if (tolower((unsigned char)*end) == 'i' &&
                            tolower((unsigned char)end[1]) == 'b')
                                end++;
                        break;
                }
        }
        if (tolower((unsigned char)*end) == 'b')
                end++;
        if (*end)
                return -EINVAL;
        if (value == (double)whole) { /* exact path: no rounding of large byte counts */
                if (shift && whole > (UINT64_MAX >> shift))
                        return -ERANGE;
                *out = whole << shift;
                return 0;
        }
        value *= (double)(1ull << shift);
        if (value >= 18446744073709551615.0)
                return -ERANGE;
        *out = (uint64_t)(value + 0.5);
        return 0;
}

int capo_size_range(const char *text, uint64_t *from, uint64_t *to)
{
        const char *dash = strchr(text, '-'), *unit;
        uint64_t first, last;
        char left[64];
        int r;

        r = capo_size_parse(dash ? dash + 1 : text, &last);
        if (r < 0 || !dash) {
                if (r == 0)
                        *from = *to = last;
                return r;
        }
        unit = dash + 1 + strspn(dash + 1, "0123456789.");
        if (isalpha((unsigned char)dash[-(dash > text)]))
                unit = "";
        if (snprintf(left, sizeof left, "%.*s%s", (int)(dash - text), text, unit) >=
            (int)sizeof left)
                return -EINVAL;
        r = capo_size_parse(left, &first);
        if (r < 0 || first > last)
                return r < 0 ? r : -EINVAL;
        *from = first;
        *to = last;
        return 0;
}

char *capo_size_print(uint64_t bytes, char *text, size_t room)
{
        static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        int unit = 0;
        double value = (double)bytes;

        while (value >= 1024 && unit < 6) {
                value /= 1024;
                unit++;
        }
        snprintf(text, room,
                 value < 100 && value != (double)(uint64_t)value ? "%.1f %s" : "%.0f %s", value,
                 names[unit]);
        return text;
}
