/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/log/rules_read.h"

static const char *next_line(const char *line)
{
        line += strcspn(line, "\n");
        return line + (*line == '\n');
}

/* The text after @word and a tab; NULL: the line begins with another word. */
static const char *skip_word(const char *line, const char *word)
{
        size_t n = strlen(word);

        return !strncmp(line, word, n) && line[n] == '\t' ? line + n + 1 : NULL;
}

bool capo_rules_value(const char *rules, const char *key, char *out, size_t room)
{
        for (const char *line = rules ? rules : ""; *line; line = next_line(line)) {
                const char *value = skip_word(line, key);

                if (value) {
                        snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
                        return true;
                }
        }
        *out = 0;
        return false;
}

bool capo_rules_row(const char *line, struct capo_rules_row *out)
{
        unsigned long long from = 0, upto = 0;
        const char *fields = skip_word(line, CAPO_RULES_CANDIDATE);
        bool candidate = fields, whole;
        int end = 0;

        *out = (struct capo_rules_row){.candidate = candidate};
        if (!candidate)
                fields = skip_word(line, CAPO_RULES_ROW);
        if (!fields)
                return false;
        whole = candidate
                        ? sscanf(fields, "%u\t%31[^\t\n]\t%15[^\t\n]\t%u%n", &out->rule, out->algo,
                                 out->proto, &out->channels, &end) == 4
                        : sscanf(fields,
                                 "%u\t%u\t%399[^\t\n]\t%31[^\t\n]\t%llu\t%llu\t%31[^\t\n]\t%15[^\t\n]\t%u%n",
                                 &out->rule, &out->line, out->when, out->coll, &from, &upto,
                                 out->algo, out->proto, &out->channels, &end) == 9;
        if (whole && !candidate && fields[end] == '\t') {
                int n = (int)strcspn(fields + end + 1, "\t\n");

                snprintf(out->turned, sizeof out->turned, "%.*s", n, fields + end + 1);
                end += 1 + n;
        }
        if (whole && fields[end] == '\t' && sscanf(fields + end + 1, "%u", &out->chunk) != 1)
                out->chunk = 0;
        out->from = from;
        out->upto = upto;
        return whole;
}

bool capo_rules_next(const char **at, struct capo_rules_row *out)
{
        while (*at && **at) {
                const char *line = *at;

                *at = next_line(line);
                if (capo_rules_row(line, out))
                        return true;
        }
        return false;
}

bool capo_rules_find(const char *rules, unsigned rule, struct capo_rules_row *out)
{
        for (const char *at = rules; capo_rules_next(&at, out);) {
                char path[4096];

                if (out->rule != rule)
                        continue;
                if (!out->candidate) {
                        capo_rules_value(rules, CAPO_RULES_FILE, path, sizeof path);
                        snprintf(out->file, sizeof out->file, "%.255s", capo_base_name(path));
                }
                return true;
        }
        return false;
}

const char *capo_rules_place(const char *rules, unsigned rule, char *text, size_t room)
{
        struct capo_rules_row row;

        if (!capo_rules_find(rules, rule, &row))
                snprintf(text, room, "rule %u", rule);
        else if (row.candidate)
                snprintf(text, room, "sweep candidate");
        else
                snprintf(text, room, "%s:%u", row.file, row.line);
        return text;
}
