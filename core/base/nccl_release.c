/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"

enum { LAST = CAPO_NCCL_LAST };

struct span {
        int first, last;
};

static const struct span facts[] = {
#define CAPO_NCCL_FACT(id, first, last) [CAPO_NCCL_##id] = {first, last},
#include "capo/nccl_facts.def"
};

static const struct span tuner_abis[] = {
#define CAPO_TUNER_ABI(version, first, last) [version] = {first, last},
#include "capo/plugin_abis.def"
};

static bool span_contains(struct span s, int version)
{
        return version > 0 && version >= s.first && version <= s.last;
}

bool capo_nccl_has(int version, enum capo_nccl_fact fact)
{
        return span_contains(facts[fact], version);
}

int capo_nccl_since(enum capo_nccl_fact fact) { return facts[fact].first; }

bool capo_tuner_abi_asked(int version, int abi)
{
        return abi > 0 && abi < (int)N_ELEMENTS(tuner_abis) &&
               span_contains(tuner_abis[abi], version);
}

int capo_tuner_abi_since(int abi) { return tuner_abis[abi].first; }

/* A function of NCCL's that this capo has a row for, wrapped or not. */
static bool is_known_call(const char *name)
{
        static const char *const names[] = {
#define CALL(name, ...)       #name,
#define HAND(name, ...)       #name,
#define PASS(type, name, ...) #name,
#define PAST(name)            #name,
#include "capo/nccl_calls.def"
        };

        return ANY_OF(known, names, N_ELEMENTS(names), !strcmp(*known, name));
}

void capo_nccl_strange(char *list, size_t room, const char *name)
{
        size_t used = strlen(list), length = strlen(name);

        if (strncmp(name, "nccl", 4) != 0 || name[4] < 'A' || name[4] > 'Z' || is_known_call(name))
                return;
        for (const char *at = list; (at = strstr(at, name)); at += length) {
                if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ','))
                        return;
        }
        if (used + length + sizeof ", , ..." <= room)
                capo_append(list, room, "%s%s", used ? ", " : "", name);
        else if (used + sizeof ", ..." <= room && (used < 3 || strcmp(list + used - 3, "...") != 0))
                capo_append(list, room, ", ...");
}

int capo_nccl_code(int said)
{
        if (said < 10000)
                return said > 0 ? said / 1000 * 10000 + said % 1000 : 0;
        return said;
}

int capo_nccl_parse(const char *text, int *first, int *last, const char **end)
{
        int part[3] = {0}, n = 0;

        for (;; text++) {
                int digits = 0;

                for (; *text >= '0' && *text <= '9' && digits < 3; text++, digits++)
                        part[n] = part[n] * 10 + *text - '0';
                if (!digits || part[n] > 99)
                        return -EINVAL;
                if (++n == 3 || *text != '.')
                        break;
        }
        if (n < 2 || !part[0] || (!end && *text))
                return -EINVAL;
        if (end)
                *end = text;
        *first = part[0] * 10000 + part[1] * 100 + part[2];
        *last = n == 3 ? *first : *first + 99;
        return 0;
}

int capo_nccl_named(const char *text)
{
        int first, last;
        const char *rest;

        return capo_nccl_parse(text, &first, &last, &rest) == 0 && first == last ? first : 0;
}

char *capo_nccl_text(uint32_t version, char *text, size_t room)
{
        int v = capo_nccl_code((int)version);

        if (!v)
                snprintf(text, room, "?");
        else
                snprintf(text, room, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
        return text;
}
