/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that no NCCL reads, and values that NCCL misinterprets: it reports neither.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "core/base/util.h"
#include "cli/doctor/doctor_variables.h"
#include "cli/base/near_word.h"

enum how { TEXT, INT, ONE, EXACT, LIST, NUMBER };

static const struct variable {
        const char *name;
        enum how how;
        const char *words;
} variables[] = {
#define NCCL_INT(name)              {name, INT, NULL},
#define NCCL_TEXT(name)             {name, TEXT, NULL},
#define NCCL_WORD(name, how, words) {name, how, words},
#include "cli/doctor/nccl_variables.def"
};

static const struct variable *find_variable(const char *name, struct cli_near_word *near)
{
        for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
                if (!strcmp(variables[i].name, name))
                        return &variables[i];
                cli_near_word_try(near, name, variables[i].name);
        }
        return NULL;
}

/* Is the word of @n letters one of @words? */
static bool is_one_of(const char *word, size_t n, const char *words, bool any_case)
{
        for (; *words; words += strcspn(words, ","), words += *words == ',') {
                if (strcspn(words, ",") == n &&
                    !(any_case ? strncasecmp(word, words, n) : strncmp(word, words, n)))
                        return true;
        }
        return false;
}

static bool is_understood(const struct variable *v, const char *value)
{
        const char *word = value + (*value == '^');

        if (v->how != LIST)
                return is_one_of(value, strlen(value), v->words, v->how == ONE) ||
                       (v->how == NUMBER && *value >= '0' && *value <= '9');
        for (; *word; word += strcspn(word, ","), word += *word == ',') {
                if (!is_one_of(word, strcspn(word, ","), v->words, true))
                        return false;
        }
        return true;
}

static void check_value(struct capo_findings *f, const struct variable *v, const char *value,
                        const char *where)
{
        char *end;
        long long number;

        if (!*value || v->how == TEXT)
                return;
        if (v->how != INT) {
                if (!is_understood(v, value))
                        capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                         "%s=%s (%s): NCCL does not understand it and ignores it: "
                                         "expected %s%s%s",
                                         v->name, value, where, v->how == LIST ? "a list of " : "",
                                         v->words, v->how == NUMBER ? " or a number" : "");
                return;
        }
        errno = 0;
        number = strtoll(value, &end, 0);
        if (*end || errno)
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "%s=%s (%s): NCCL expects a number and reads %lld%s", v->name,
                                 value, where, number,
                                 errno ? ", out of range: it uses the default" : "");
}

void capo_doctor_variable(struct capo_findings *f, struct capo_unknown_variables *unknown,
                          const struct capo_elf_file *nccl, const char *name, const char *value,
                          const char *where)
{
        struct cli_near_word near = {0};
        const struct variable *v;

        if (strncmp(name, "NCCL_", 5) != 0 && strncmp(name, "OFI_NCCL_", 9) != 0)
                return;
        v = find_variable(name, &near);
        if (v) {
                check_value(f, v, value, where);
        } else if (nccl->bytes && capo_elf_has_word(nccl, name)) {
                return; /* newer than the table */
        } else if (near.word) {
                capo_finding_add(f, CAPO_FINDING_WARN, "settings",
                                 "%s=%s is set (%s): NCCL has no such variable; did you mean %s?",
                                 name, value, where, near.word);
        } else {
                if (unknown->n++ < 4)
                        capo_append(unknown->names, sizeof unknown->names, "%s%s",
                                    unknown->n > 1 ? ", " : "", name);
        }
}

void capo_doctor_unknown(struct capo_findings *f, const struct capo_unknown_variables *unknown)
{
        char more[32] = "";

        if (unknown->n > 4)
                capo_append(more, sizeof more, " and %u more", unknown->n - 4);
        if (unknown->n)
                capo_finding_add(f, CAPO_FINDING_NOTE, "settings",
                                 "%s%s: not a variable of NCCL or aws-ofi-nccl; the program or "
                                 "another plugin may read %s",
                                 unknown->names, more, unknown->n > 1 ? "them" : "it");
}
