/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/base/rules_text.h"

bool rules_value(const char *rules, const char *key, char *out, size_t room)
{
        size_t n = strlen(key);

        for (const char *line = rules ? rules : ""; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                if (!strncmp(line, key, n) && line[n] == '\t') {
                        snprintf(out, room, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
                        return true;
                }
        }
        *out = 0;
        return false;
}

bool rules_find(const char *rules, unsigned rule, struct rules_row *out)
{
        for (const char *line = rules ? rules : ""; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                unsigned long long from, upto;
                char path[4096];
                unsigned n;

                *out = (struct rules_row){0};
                if (sscanf(line, "candidate\t%u\t%31[^\t\n]\t%15[^\t\n]\t%u", &n, out->algo, out->proto,
                           &out->channels) == 4 &&
                    n == rule) {
                        out->candidate = true;
                        return true;
                }
                if (sscanf(line, "row\t%u\t%u\t%399[^\t\n]\t%31[^\t\n]\t%llu\t%llu\t%31[^\t\n]\t%15[^\t\n]\t%u", &n,
                           &out->line, out->when, out->coll, &from, &upto, out->algo, out->proto,
                           &out->channels) == 9 &&
                    n == rule) {
                        const char *slash;

                        rules_value(rules, "file", path, sizeof path);
                        slash = strrchr(path, '/');
                        snprintf(out->file, sizeof out->file, "%.255s", slash ? slash + 1 : path);
                        out->from = from;
                        out->upto = upto;
                        return true;
                }
        }
        return false;
}

const char *rules_place(const char *rules, unsigned rule, char *text, size_t room)
{
        struct rules_row row;

        if (!rules_find(rules, rule, &row))
                snprintf(text, room, "rule %u", rule);
        else if (row.candidate)
                snprintf(text, room, "sweep candidate");
        else
                snprintf(text, room, "%s:%u", row.file, row.line);
        return text;
}
