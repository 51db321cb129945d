/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log/unfinished.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/log/info_read.h"

static bool parse_value(const struct capo_info_line *line, const char *key, uint64_t *to)
{
        char value[CAPO_HANG_LINE];

        return capo_info_is(line, key) &&
               sscanf(capo_info_value(line, value, sizeof value), "%" SCNu64, to) == 1;
}

int capo_hang_text_read(const struct capo_log_frame *f, struct capo_hang_text *out)
{
        struct capo_hang_text t = {0};
        struct capo_info_line line;
        unsigned found = 0;
        uint64_t nth = 0;
        size_t at = 0;

        while (capo_info_next(f, &at, &line)) {
                found |= parse_value(&line, CAPO_HANG_KEY_AT, &t.at_ns) ? 1 : 0;
                found |= parse_value(&line, CAPO_HANG_KEY_SINCE, &t.since_ns) ? 2 : 0;
                found |= parse_value(&line, CAPO_HANG_KEY_CALLS, &t.calls) ? 4 : 0;
                found |= parse_value(&line, CAPO_HANG_KEY_NTH, &nth) ? 8 : 0;
        }
        if (found != 15 || t.since_ns > t.at_ns || nth > UINT32_MAX)
                return -EBADMSG;
        t.nth = (unsigned)nth;
        *out = t;
        return 0;
}

/* Parse a line of the last calls. */
static bool read_last(const char *value, enum capo_unfinished_where where,
                      struct capo_unfinished_call *out)
{
        unsigned group, flags, clock, site;
        char line[CAPO_HANG_LINE + 8];
        uint64_t took;
        int result;

        /* its first words have the form of an unfinished call */
        snprintf(line, sizeof line, "host %s", value);
        if (!capo_unfinished_read(line, out) ||
            sscanf(value, "%*u %*s %*u %*u %*u %*u %*u %*u %*d %*u %" SCNu64 " %u %u %d %u %u",
                   &took, &group, &flags, &result, &clock, &site) != 6)
                return false;
        out->where = where;
        out->record.t_end = out->record.t_begin + took;
        out->record.group = group;
        out->record.flags = (uint8_t)flags;
        out->record.result = (int8_t)result;
        out->record.clock = (uint8_t)clock;
        out->record.site = (uint16_t)site;
        return true;
}

bool capo_hang_text_next(const struct capo_log_frame *f, size_t *at,
                         struct capo_unfinished_call *out)
{
        struct capo_info_line line;

        while (capo_info_next(f, at, &line)) {
                char value[CAPO_HANG_LINE];

                capo_info_value(&line, value, sizeof value);
                if ((capo_info_is(&line, CAPO_INFO_UNFINISHED) &&
                     capo_unfinished_read(value, out)) ||
                    (capo_info_is(&line, CAPO_HANG_KEY_LAST) &&
                     read_last(value, CAPO_UNFINISHED_WHERES, out)) ||
                    (capo_info_is(&line, CAPO_HANG_KEY_ENQUEUED) &&
                     read_last(value, CAPO_UNFINISHED_GPU, out)))
                        return true;
        }
        return false;
}

bool capo_hang_text_next_line(const struct capo_log_frame *f, const char *key, size_t *at,
                              unsigned *nth, char *text)
{
        struct capo_info_line line;

        while (capo_info_next(f, at, &line)) {
                char value[CAPO_HANG_LINE];
                int begin = 0;

                if (!capo_info_is(&line, key) ||
                    sscanf(capo_info_value(&line, value, sizeof value), "%u %n", nth, &begin) !=
                            1 ||
                    !begin)
                        continue;
                strcpy(text, value + begin);
                return true;
        }
        return false;
}
