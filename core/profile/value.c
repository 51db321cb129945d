/* SPDX-License-Identifier: Apache-2.0 */
/* JSON's numbers and texts by themselves, whatever the locale. */
#include <locale.h>
#include <math.h>

#include "core/profile/value.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The value of any number, whose grammar has been looked at. */
static bool number_value(const char *text, size_t size, double *out)
{
        locale_t c_locale;
        char copy[64];

        if (size >= sizeof copy)
                return false;
        memcpy(copy, text, size);
        copy[size] = 0;
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!c_locale)
                return false;
        *out = strtod_l(copy, NULL, c_locale);
        freelocale(c_locale);
        return isfinite(*out);
}

/* Nearly every number has up to 15 digits and no exponent. They and a power of ten below 1e16 are
 * both exact in a double, so one division rounds right. */
const char *capo_number_read(const char *p, const char *end, double *out)
{
        static const double tens[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
        bool negative = p < end && *p == '-', simple;
        const char *begin = p, *whole = p + negative, *fraction = NULL, *exponent;
        uint64_t digits = 0;

        for (p = whole; p < end && is_digit(*p); p++)
                digits = digits * 10 + (uint64_t)(*p - '0');
        if (p == whole || (*whole == '0' && p - whole > 1))
                return NULL;
        if (p < end && *p == '.') {
                for (fraction = ++p; p < end && is_digit(*p); p++)
                        digits = digits * 10 + (uint64_t)(*p - '0');
                if (p == fraction)
                        return NULL;
        }
        simple = p - whole <= 15 + (fraction != NULL);
        if (p < end && (*p == 'e' || *p == 'E')) {
                simple = false;
                p++;
                p += p < end && (*p == '+' || *p == '-');
                for (exponent = p; p < end && is_digit(*p);)
                        p++;
                if (p == exponent)
                        return NULL;
        }
        if (!simple)
                return number_value(begin, (size_t)(p - begin), out) ? p : NULL;
        *out = (double)digits;
        if (fraction)
                *out /= tens[p - fraction];
        *out = negative ? -*out : *out;
        return p;
}

bool capo_number_parse(const char *text, size_t size, double *out)
{
        double value;

        if (capo_number_read(text, text + size, &value) != text + size || !size)
                return false;
        *out = value;
        return true;
}

char *capo_number_print(double value, char *text, size_t room)
{
        locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = uselocale(c_locale);
        double back;

        for (int digits = 1; digits <= 17; digits++) {
                snprintf(text, room, "%.*g", digits, value);
                if (digits == 17 || (capo_number_parse(text, strlen(text), &back) && back == value))
                        break;
        }
        /* 1e+06 is good JSON, but people write 1000000 */
        if (strchr(text, 'e') && fabs(value) < 1e15 && value == floor(value))
                snprintf(text, room, "%.0f", value);
        uselocale(old);
        if (c_locale)
                freelocale(c_locale);
        return text;
}

char *capo_float_print(float value, char *text, size_t room)
{
        for (int digits = 1; digits <= 9; digits++) {
                char shorter[40];
                double rounded = 0;

                snprintf(shorter, sizeof shorter, "%.*e", digits - 1, (double)value);
                for (char *c = shorter; *c; c++) {
                        if (*c == ',')
                                *c = '.';
                }
                if (capo_number_parse(shorter, strlen(shorter), &rounded) &&
                    (float)rounded == value)
                        return capo_number_print(rounded, text, room);
        }
        return capo_number_print((double)value, text, room);
}

void capo_text_put(FILE *out, const char *text)
{
        putc('"', out);
        for (; *text; text++) {
                if (*text == '"' || *text == '\\')
                        putc('\\', out);
                if ((unsigned char)*text < 0x20)
                        fprintf(out, "\\u%04x", (unsigned char)*text);
                else
                        putc(*text, out);
        }
        putc('"', out);
}
