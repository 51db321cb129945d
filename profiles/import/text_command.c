/* SPDX-License-Identifier: Apache-2.0 */
/* Normalises command lines as people write them: continued lines are joined, and all ways to set a
 * variable become KEY=VALUE. Any other occurrence of a setting that decides what runs counts as a
 * mention: if a mention is not understood, the run is unknown (docs/store.md, "Labels"). */
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/import/text_reader.h"
#include "profiles/import/text_command.h"

/* Variables that decide which algorithm and protocol run, in any release and fork of NCCL. */
#define FORCING                                                                        \
        "@(CAPO_@(PROFILE|CONF)|NCCL_ALGO|NCCL_PROTO|NCCL_TUNER_PLUGIN"                \
        "|NCCL_TUNER_CONFIG_FILE|NCCL_CONF_FILE|NCCL_TREE_THRESHOLD|NCCL_LL_THRESHOLD" \
        "|NCCL_LL128_THRESHOLD|MSCCL_XML_FILES|NCCL_ENABLE_MSCCL|RCCL_MSCCL_ENABLE"    \
        "|RCCL_MSCCLPP_ENABLE|RCCL_MSCCL_FORCE_ENABLE)"

static size_t name_length(const char *text)
{
        size_t n = 0;

        while (isalnum((unsigned char)text[n]) || text[n] == '_')
                n++;
        return n;
}

bool capo_text_forces(const char *key) { return capo_word_is(key, FORCING); }

unsigned capo_text_mentions(const char *text)
{
        unsigned n = 0;

        for (size_t k; *text; text += k ? k : 1) {
                _cleanup_free_ char *name = NULL;

                k = name_length(text);
                if (k < 5)
                        continue;
                name = xstrndup(text, k);
                /* also in lower case, which sets nothing but was meant to, and after another name, as in
                 * APPTAINERENV_NCCL_ALGO */
                n += (k > 8 && !fnmatch("?(*_)" FORCING, name, FNM_EXTMATCH | FNM_CASEFOLD)) ||
                     !strcasecmp(name, "msccl");
        }
        return n;
}

char *capo_text_prompt(char *text)
{
        char *end = strpbrk(text, "$#%"), *at = strchr(text, '@');

        while (end && !(end > text && end[1] == ' ' && end[-1] != ' '))
                end = strpbrk(end + 1, "$#%");
        if (!end || (*text != '[' && *text != '(' && !isalpha((unsigned char)*text)))
                return text;
        if (at && at < end ? !memchr(text, '=', (size_t)(end - text))
                           : strcspn(text, " =") >= (size_t)(end - text))
                return end + 1 + strspn(end + 1, " ");
        return text;
}

/* May @word, of a command line, set variables that the line does not show? @option: the word before
 * it, if that is an option; "" if not. */
static bool word_hides(const char *word, const char *option)
{
        const char *name = *word == '.' ? word : capo_base_name(word);

        return capo_word_is(
                       word,
                       "+(-)@(am|amca|app|appfile|configfile|env-file|environment|env-host|envfile"
                       "|export-file|multi-prog|prolog|task-prolog|tune)?(=*)") ||
               capo_word_is(word, "*mca_base_@(param_files|envar_file)*") ||
               capo_word_is(word, "*?@(.sh|.bash|.py)") || !strcmp(name, "capo") ||
               strchr(word, '`') || strstr(word, "libcapo") || strstr(word, "$(") ||
               (strchr(word, '$') && capo_word_is(option, "@(-e|-x|-env|-genv|--env)")) ||
               (!*option &&
                (capo_word_is(name, "@(eval|xargs|source|.)") || !strncmp(word, "./", 2) ||
                 (*word == '$' && word[1] && !strchr(word, '/'))));
}

char *capo_text_recorded(char *text)
{
        static const char run[] = "capo run -- ";
        char *at = text + (strncmp(text, "$ ", 2) ? 0 : 2), *end = strstr(at, run);
        bool begins = end && !memchr(at, ' ', (size_t)(end - at)) && (end == at || end[-1] == '/');

        return begins ? end + strlen(run) : text;
}

bool capo_text_hides(const char *text)
{
        char copy[sizeof((struct reader *)0)->joined], *save = NULL;
        const char *option = "";

        snprintf(copy, sizeof copy, "%s", text);
        for (char *w = strtok_r(copy, " \t\"'", &save); w && !strstr(w, "_perf");
             w = strtok_r(NULL, " \t\"'", &save)) {
                if (word_hides(w, option))
                        return true;
                option = *w == '-' && !strchr(w, '=') ? w : "";
        }
        return false;
}

bool capo_text_drops(const char *text, bool set)
{
        char copy[sizeof((struct reader *)0)->joined], *save = NULL;
        const char *before = "";
        bool last = !strstr(text, "_perf");

        snprintf(copy, sizeof copy, "%s", text);
        for (char *w = strtok_r(copy, " \t\"'", &save); w && !last;
             w = strtok_r(NULL, " \t\"'", &save)) {
                bool drops = capo_word_is(w, "--export=!(ALL*)") ||
                             (!strcmp(before, "--export") && strncmp(w, "ALL", 3)) ||
                             (!strcmp(before, "env") &&
                              capo_word_is(w, "@(-i|-|--ignore-environment)")) ||
                             (!strcmp(before, "sudo") && !capo_word_is(w, "@(-E|--preserve-env*)"));

                before = *w == '-' ? w : capo_base_name(w);
                if (set && (drops || capo_word_is(before, "@(docker|kubectl|podman|ssh)")))
                        return true;
                set |= !strncmp(w, "NCCL_", 5) && strchr(w, '=');
                last = strstr(w, "_perf") != NULL;
        }
        return false;
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
        for (size_t k; *text; text += k ? k : 1) {
                char name[32];

                k = name_length(text);
                snprintf(name, sizeof name, "%.*s", k < sizeof name ? (int)k : 0, text);
                note_name(algo, capo_algo_find(name));
                note_name(proto, capo_proto_find(name));
                n += k > 0;
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
        char *value = p + strspn(p, " \t");
        const char *end = name, *word;
        char setter[16];

        if ((*value == '=' || *value == ':') && (value > p || *value == ':' || value[1]))
                return value + 1 + strspn(value + 1, " \t");
        while (end > text && isblank((unsigned char)end[-1]))
                end--;
        for (word = end; word > text && !isspace((unsigned char)word[-1]);)
                word--;
        snprintf(setter, sizeof setter, "%.*s", (int)(end - word), word);
        return value > p && *value && capo_word_is(setter, "@(?(-)-@(genv|env)|setenv|-E|--setenv)")
                       ? value
                       : NULL;
}

void capo_text_normalise(char *text)
{
        for (char *p = text; *p;) {
                char name[64], *value, *end;
                size_t n = name_length(p), k;

                snprintf(name, sizeof name, "%.*s", (int)n, p);
                value = n > 8 && (capo_text_forces(name) || !strncmp(name, "NCCL_", 5))
                                ? find_value(text, p, p + n)
                                : NULL;
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
