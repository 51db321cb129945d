/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "core/base/secret.h"

struct line {
        char *out;
        size_t n, room;
};

static void append_bytes(struct line *l, const char *text, size_t n)
{
        if (n > l->room - 1 - l->n)
                n = l->room - 1 - l->n;
        memcpy(l->out + l->n, text, n);
        l->n += n;
}

static bool word_is(const char *word, size_t n, const char *what)
{
        return n == strlen(what) && !strncasecmp(word, what, n);
}

/* Does the name of @n bytes say that its value is secret? Its words end at - _ . and where a
 * capital follows a small letter. */
static bool says_secret(const char *name, size_t n)
{
        static const char *const words[] = {"token",       "secret",    "password",   "passwd",
                                            "passphrase",  "apikey",    "bearer",     "credential",
                                            "credentials", "accesskey", "privatekey", "pwd",
                                            "pass",        "jwt",       "sig",        "signature",
                                            "licensekey"},
                                 *const before_key[] = {"api",     "access",  "private",
                                                        "auth",    "secret",  "account",
                                                        "license", "signing", "encryption",
                                                        "shared",  "master"};
        const char *last = NULL;
        size_t n_last = 0;

        for (size_t at = 0, size; at < n; at += size + 1) {
                const char *word = name + at;

                for (size = 0; at + size < n && isalnum((unsigned char)word[size]); size++) {
                        if (size && isupper((unsigned char)word[size]) &&
                            islower((unsigned char)word[size - 1]))
                                break;
                }
                if (ANY_OF(of, words, N_ELEMENTS(words), word_is(word, size, *of)) ||
                    (last && word_is(word, size, "key") &&
                     ANY_OF(of, before_key, N_ELEMENTS(before_key), word_is(last, n_last, *of))))
                        return true;
                last = word;
                n_last = size;
                if (at + size < n && isupper((unsigned char)word[size]))
                        at--; /* nothing between the two words */
        }
        return false;
}

/* Bytes at @text that a key may have. */
static size_t key_bytes(const char *text, size_t n)
{
        size_t i = 0;

        while (i < n && (isalnum((unsigned char)text[i]) || text[i] == '_' || text[i] == '-'))
                i++;
        return i;
}

/* Bytes at @text of one word that nobody chose: hex digits, or letters and digits of all kinds. */
static size_t random_word(const char *text, size_t n)
{
        size_t i = 0, digits = 0, upper = 0, lower = 0, hex = 0;

        for (; i < n && isalnum((unsigned char)text[i]); i++) {
                digits += isdigit((unsigned char)text[i]) != 0;
                upper += isupper((unsigned char)text[i]) != 0;
                lower += islower((unsigned char)text[i]) != 0;
                hex += isxdigit((unsigned char)text[i]) != 0;
        }
        return (i >= 32 && hex == i && digits && digits < i) ||
                               (i >= 24 && digits >= 3 && upper >= 3 && lower >= 3)
                       ? i
                       : 0;
}

/* How many bytes at @text are the key of a known service; 0 none. */
static size_t known_key(const char *text, size_t n)
{
        static const struct {
                const char *prefix;
                size_t least; /* bytes behind it */
        } keys[] = {{"hf_", 20},      {"sk-", 20},         {"ghp_", 20},   {"gho_", 20},
                    {"ghs_", 20},     {"github_pat_", 20}, {"AKIA", 16},   {"ASIA", 16},
                    {"xoxb-", 20},    {"xoxp-", 20},       {"glpat-", 15}, {"AIza", 30},
                    {"nvapi-", 20},   {"dop_v1_", 20},     {"npm_", 20},   {"pypi-", 30},
                    {"wandb_v1_", 20}};

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                size_t p = strlen(keys[i].prefix), more;

                if (n < p || memcmp(text, keys[i].prefix, p))
                        continue;
                more = key_bytes(text + p, n - p);
                if (more >= keys[i].least)
                        return p + more;
        }
        if (n > 3 &&
            !memcmp(text, "eyJ", 3)) { /* {" in base64: the three parts of a JSON web token */
                size_t head = key_bytes(text, n), body, tail;

                body = head < n && text[head] == '.' ? key_bytes(text + head + 1, n - head - 1) : 0;
                if (body < 8)
                        return 0;
                tail = head + 1 + body < n && text[head + 1 + body] == '.'
                               ? key_bytes(text + head + body + 2, n - head - body - 2)
                               : 0;
                return head + 1 + body + (tail ? tail + 1 : 0);
        }
        return 0;
}

/* The password of a URL whose "://" is at @text: its size, and where it begins; 0: there is none. */
static size_t url_password(const char *text, size_t n, size_t *begin)
{
        size_t end = 3, colon = 0, at = 0;

        for (; end < n && !strchr("/?# ,\"'", text[end]); end++) {
                if (text[end] == ':' && !colon)
                        colon = end;
                if (text[end] == '@')
                        at = end;
        }
        *begin = colon + 1;
        return colon && at > colon ? at - *begin : 0;
}

/* A name with its value inside of an argument, at @text: of JSON ("token": "x"), of a URL
 * (?sig=x&), of a header (X-Api-Key: x). Return: the size of the value, where it is secret, and
 * @begin; else 0. */
static size_t named_value(const char *text, size_t n, size_t *begin)
{
        size_t name = key_bytes(text, n), at = name;
        const char *ends;

        if (!name || !says_secret(text, name))
                return 0;
        if (at < n && strchr("\"'", text[at]))
                at++;
        if (at == n || !strchr(":=", text[at]))
                return 0;
        ends = text[at++] == '=' ? " \"',;&}" : "\"',;}";
        while (at < n && text[at] == ' ')
                at++;
        if (at < n && strchr("\"'", text[at])) {
                ends = text[at] == '"' ? "\"" : "'";
                at++;
        }
        *begin = at;
        while (at < n && !strchr(ends, text[at]))
                at++;
        return at - *begin;
}

/* One argument, of which nothing says that it is secret. */
static void put_masked(struct line *l, const char *text, size_t n)
{
        for (size_t at = 0; at < n;) {
                const char *p = text + at;
                size_t left = n - at, keep = 0, hide = 0;
                bool begins = at == 0 || !isalnum((unsigned char)p[-1]), bearer = false;

                if (begins)
                        hide = known_key(p, left) ?: random_word(p, left) ?: named_value(p, left, &keep);
                if (!hide && left > 3 && !memcmp(p, "://", 3))
                        hide = url_password(p, left, &keep);
                if (!hide && begins && left > 7 && !strncasecmp(p, "bearer ", 7)) {
                        bearer = true;
                        for (keep = 7; keep + hide < left && !strchr(" \"'", p[keep + hide]);)
                                hide++;
                }
                if (!hide && !bearer) {
                        append_bytes(l, text + at++, 1);
                        continue;
                }
                append_bytes(l, p, keep);
                append_bytes(l, "***", 3);
                at += keep + hide;
        }
}

size_t capo_secret_args(const char *args, size_t size, char *out, size_t room)
{
        struct line line = {out, 0, room};
        bool next_is = false; /* the argument before was the name of a secret */

        for (size_t at = 0, n; at < size; at += n + 1) {
                const char *arg = args + at, *equals;
                size_t name;

                n = strnlen(arg, size - at);
                equals = memchr(arg, '=', n);
                name = equals ? (size_t)(equals - arg) : n;
                if (at)
                        append_bytes(&line, " ", 1);
                if (next_is && *arg != '-') {
                        append_bytes(&line, "***", 3);
                        next_is = false;
                        continue;
                }
                next_is = !equals && *arg == '-' && says_secret(arg, n);
                if (equals && !memchr(arg, ' ', name) && says_secret(arg, name)) {
                        append_bytes(&line, arg, name + 1);
                        append_bytes(&line, "***", 3);
                } else {
                        put_masked(&line, arg, n);
                }
        }
        out[line.n] = 0;
        return line.n;
}
