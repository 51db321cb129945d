/* SPDX-License-Identifier: Apache-2.0 */

#include "analysis/job/figures.h"

char *capo_text_count(uint64_t n, char *text)
{
        char digits[24];
        int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;

        for (int i = 0; i < length; i++) {
                if (i && (length - i) % 3 == 0)
                        text[at++] = ',';
                text[at++] = digits[i];
        }
        text[at] = 0;
        return text;
}

const char *capo_text_plural(uint64_t n, const char *one, const char *many)
{
        static char places[4][96];
        static unsigned next;
        char *text = places[next++ % 4], count[32];

        snprintf(text, sizeof places[0], "%s %s%s", capo_text_count(n, count),
                 n != 1 && many ? many : one, n != 1 && !many ? "s" : "");
        return text;
}

/* Three significant digits, thousands separated. */
static char *three_digits(double v, char *text)
{
        if (!isfinite(v) || v < 0)
                return strcpy(text, "-");
        if (v < 9.995)
                snprintf(text, 32, "%.2f", v);
        else if (v < 99.95)
                snprintf(text, 32, "%.1f", v);
        else if (v < 1e18)
                capo_text_count((uint64_t)llround(v), text);
        else
                snprintf(text, 32, "%.3g", v);
        return text;
}

char *capo_text_gbs(double gbs, char *text)
{
        if (gbs > 0 && gbs < 0.001)
                return strcpy(text, "<0.001");
        if (gbs > 0 && gbs < 0.095) { /* two significant digits */
                int n = snprintf(text, 32, "%.*f", (int)(1 - floor(log10(gbs))), gbs);

                while (text[n - 1] == '0')
                        text[--n] = 0;
                return text;
        }
        return three_digits(gbs, text);
}

char *capo_text_time(double ns, char *text)
{
        double s = ns / 1e9;

        if (!isfinite(ns) || ns < 0)
                return strcpy(text, "-");
        if (ns < 999.5)
                snprintf(text, 32, "%.0f ns", ns);
        else if (ns < 9950)
                snprintf(text, 32, "%.1f us", ns / 1e3);
        else if (ns < 999.5e3)
                snprintf(text, 32, "%.0f us", ns / 1e3);
        else if (ns < 999.5e6)
                snprintf(text, 32, ns < 99.5e6 ? "%.1f ms" : "%.0f ms", ns / 1e6);
        else if (s < 119.5)
                snprintf(text, 32, "%.1f s", s);
        else if (s < 7199.5)
                snprintf(text, 32, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
        else if (s < 1e9)
                snprintf(text, 32, "%d h %02d min", (int)(s / 60 + 0.5) / 60,
                         (int)(s / 60 + 0.5) % 60);
        else
                snprintf(text, 32, "%.3g s", s);
        return text;
}

char *capo_text_duration(double ns, char *text)
{
        static const char *const units[] = {"ns", "us", "ms", "s"};
        unsigned unit = 0;
        double v = ns;

        if (!isfinite(ns) || ns < 0 || ns >= 119.5e9)
                return capo_text_time(ns, text);
        for (; v >= 999.5 && unit < 3; v /= 1e3)
                unit++;
        snprintf(text, 32, "%.*f %s", !unit || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, units[unit]);
        return text;
}

char *capo_text_ratio(double ratio, char *text)
{
        if (ratio >= 9.95 && ratio < 1e18)
                return capo_text_count((uint64_t)llround(ratio), text);
        snprintf(text, 32, "%.2g", ratio);
        return text;
}

char *capo_text_percent(double share, char *text)
{
        double p = 100 * share;

        if (!isfinite(p) || p < 0)
                return strcpy(text, "-");
        if (p >= 1 || p < 1e-9)
                snprintf(text, 32, "%.1f %%", p);
        else
                snprintf(text, 32, "%.*f %%", (int)-floor(log10(p)), p);
        return text;
}

char *capo_text_interval(double value, struct capo_interval i, char *(*print)(double, char *),
                         char *text)
{
        double pm = capo_interval_pm(i, value);
        char low[32], high[32];

        *text = 0;
        if (pm <= value / 1000)
                return text;
        if (fabs((value - i.low) - (i.high - value)) <= pm / 1000)
                snprintf(text, CAPO_TEXT_INTERVAL, " +- %s", print(pm, high));
        else
                snprintf(text, CAPO_TEXT_INTERVAL, " (%s to %s)", print(i.low, low),
                         print(i.high, high));
        return text;
}
