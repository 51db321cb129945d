/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalises command lines as people write them: continued lines are joined, and all ways to set a
 * variable become KEY=VALUE. Any other occurrence of a setting that decides what runs counts as a
 * mention: if a mention is not understood, the run is unknown (docs/store.md, "Labels").
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/import/import_text.h"

/* Variables that decide which algorithm and protocol run, in any release and fork of NCCL. */
static const char *const forcing[] = {"NCCL_ALGO",
                                      "NCCL_PROTO",
                                      "NCCL_TUNER_PLUGIN",
                                      "NCCL_TUNER_CONFIG_FILE",
                                      "NCCL_CONF_FILE",
                                      "NCCL_TREE_THRESHOLD",
                                      "NCCL_LL_THRESHOLD",
                                      "NCCL_LL128_THRESHOLD",
                                      "MSCCL_XML_FILES",
                                      "NCCL_ENABLE_MSCCL",
                                      "RCCL_MSCCL_ENABLE",
                                      "RCCL_MSCCLPP_ENABLE",
                                      "RCCL_MSCCL_FORCE_ENABLE"};

static bool is_name(char c)
{
        return isalnum((unsigned char)c) || c == '_';
}

bool capo_text_forces(const char *key)
{
        for (size_t i = 0; i < N_ELEMENTS(forcing); i++) {
                if (!strcmp(key, forcing[i]))
                        return true;
        }
        return false;
}

/* Is it the name of one of them, also in lower case? That sets nothing, but was meant to. */
static bool means_forcing(const char *name)
{
        for (size_t i = 0; i < N_ELEMENTS(forcing); i++) {
                if (!strcasecmp(name, forcing[i]))
                        return true;
        }
        return false;
}

unsigned capo_text_mentions(const char *text)
{
        unsigned n = 0;

        for (const char *p = text; *p;) {
                char name[32];
                size_t k = 0;

                while (is_name(p[k]))
                        k++;
                snprintf(name, sizeof name, "%.*s", (int)k, p);
                n += (k > 8 && means_forcing(name)) || !strcasecmp(name, "msccl");
                p += k ? k : 1;
        }
        return n;
}

enum { HEADING_WORDS = 8 }; /* at most, in a heading */

static void note_name(uint8_t *name, unsigned found)
{
        if (found)
                *name = (uint8_t)(*name && *name != found ? CAPO_HEADING_SEVERAL : found);
}

bool capo_text_heading(const char *text, uint8_t *algo, uint8_t *proto)
{
        unsigned n = 0;

        *algo = *proto = 0;
        for (const char *p = text; (p = strchr(p, '=')); p++) {
                if (p > text && (isupper((unsigned char)p[-1]) || p[-1] == '_'))
                        return false; /* a setting; unlike "== Ring ==", "algo=ring" */
        }
        if (strstr(text, "NCCL ") || capo_text_mentions(text) || strstr(text, "_perf"))
                return false;
        for (const char *p = text; *p;) {
                char name[32];
                size_t k = 0;

                while (is_name(p[k]))
                        k++;
                if (k && k < sizeof name) {
                        snprintf(name, sizeof name, "%.*s", (int)k, p);
                        note_name(algo, capo_algo_find(name));
                        note_name(proto, capo_proto_find(name));
                }
                n += k > 0;
                p += k ? k : 1;
        }
        return (*algo || *proto) && n <= HEADING_WORDS;
}

char *capo_text_join(struct reader *r, char *line, unsigned *n)
{
        size_t size = strlen(line);
        bool more;

        while (size && isspace((unsigned char)line[size - 1]))
                size--;
        more = size && line[size - 1] == '\\';
        if (!more && !r->n_joined)
                return line;
        if (!r->n_joined)
                r->joined_line = *n;
        if (r->n_joined + size + 2 < sizeof r->joined) {
                memcpy(r->joined + r->n_joined, line, size);
                r->n_joined += size - more;
                r->joined[r->n_joined++] = ' ';
        } else {
                r->block.unsure_line = *n; /* too long */
        }
        r->joined[r->n_joined] = 0;
        if (more)
                return NULL;
        r->n_joined = 0;
        *n = r->joined_line;
        return r->joined;
}

/* The separator between a name at @p and its value: "=", " = ", ": ", or a blank after a word that
 * sets variables. Returns the begin of the value; NULL: none. */
static char *find_value(const char *text, const char *name, char *p)
{
        static const char *const setters[] = {"-genv",  "--genv", "-env",    "--env",
                                              "setenv", "-E",     "--setenv"};
        char *value = p + strspn(p, " \t");
        const char *end = name;

        if ((*value == '=' || *value == ':') && (value > p || *value == ':' || value[1]))
                return value + 1 + strspn(value + 1, " \t");
        while (end > text && isblank((unsigned char)end[-1]))
                end--;
        for (size_t i = 0; i < N_ELEMENTS(setters) && value > p && *value; i++) {
                size_t n = strlen(setters[i]);

                if ((size_t)(end - text) >= n && !memcmp(end - n, setters[i], n) &&
                    ((size_t)(end - text) == n || isspace((unsigned char)end[-(long)n - 1])))
                        return value;
        }
        return NULL;
}

void capo_text_normalise(char *text)
{
        for (char *p = text; *p;) {
                char name[32], *value, *end;
                size_t n = 0, k;

                while (is_name(p[n]))
                        n++;
                snprintf(name, sizeof name, "%.*s", (int)n, p);
                value = n > 8 && capo_text_forces(name) ? find_value(text, p, p + n) : NULL;
                p += n ? n : 1;
                if (!value)
                        continue;
                *p = '=';
                if (*value == '"' || *value == '\'') {
                        end = strchr(value + 1, *value);
                        k = end ? (size_t)(end - value) - 1 : 0;
                        memmove(p + 1, value + 1, k);
                        end = end ? end + 1 : value + 1;
                } else {
                        k = strcspn(value, " \t\"',");
                        k = value[k] == ',' ? strcspn(value, " \t\"'") : k; /* a list */
                        memmove(p + 1, value, k);
                        end = value + k;
                }
                for (size_t i = 0; i < k; i++) /* a value is one word */
                        p[1 + i] = p[1 + i] == ' ' ? ';' : p[1 + i];
                p += 1 + k;
                memset(p, ' ', (size_t)(end - p));
                p = end;
        }
}
