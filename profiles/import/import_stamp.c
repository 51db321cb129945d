/* SPDX-License-Identifier: Apache-2.0 */
/* Start times of runs, from the time stamps of their file. Only their order is used. */
#include <time.h>

#include "profiles/import/import_private.h"

/* Apply "Z", "+01:00" or "+0100" after a time. True: @t is now UTC. */
static bool apply_zone(const char *zone, int64_t *t)
{
        int hours, minutes;

        if (*zone == 'Z')
                return true;
        if ((*zone != '+' && *zone != '-') || (sscanf(zone + 1, "%2d:%2d", &hours, &minutes) != 2 &&
                                               sscanf(zone + 1, "%2d%2d", &hours, &minutes) != 2))
                return false;
        *t += (*zone == '-' ? 1 : -1) * (3600 * hours + 60 * minutes);
        return true;
}

struct capo_stamp capo_stamp_read(const char *text)
{
        static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                                            "%a %b %d %H:%M:%S %Y"};

        text += *text == '[';
        if (!isdigit((unsigned char)*text) && !isupper((unsigned char)*text))
                return (struct capo_stamp){0};
        for (size_t i = 0; i < N_ELEMENTS(forms); i++) {
                struct tm tm = {0};
                struct capo_stamp stamp;
                const char *end = strptime(text, forms[i], &tm);

                if (!end)
                        continue;
                stamp.at = timegm(&tm);
                end += strspn(end, ".,0123456789");
                stamp.local = !apply_zone(end, &stamp.at);
                return stamp;
        }
        return (struct capo_stamp){0};
}
