/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/plain_text.h"
#include "core/base/util.h"

enum { REFUSED = 0, UNDECIDED = CAPO_UTF8_CUT };

unsigned capo_utf8_put(uint32_t c, char *text)
{
        static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

        for (unsigned i = n; --i; c >>= 6)
                text[i] = (char)(0x80 | (c & 0x3f));
        *text = (char)(first[n] | c);
        return n;
}

size_t capo_utf8_size(const unsigned char *p, size_t n)
{
        size_t size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        unsigned least = 0x80, most = 0xbf; /* of the second byte */

        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        switch (p[0]) {
        case 0xe0: least = 0xa0; break; /* overlong */
        case 0xed: most = 0x9f; break;  /* surrogates */
        case 0xf0: least = 0x90; break;
        case 0xf4: most = 0x8f; break; /* behind the last letter there is */
        }
        for (size_t i = 1; i < size; i++) {
                if (i == n)
                        return CAPO_UTF8_CUT;
                if (p[i] < least || p[i] > most)
                        return 0;
                least = 0x80;
                most = 0xbf;
        }
        return size;
}

/* Letters that turn the direction of writing: they show a text in another order than it has. */
static bool is_direction(const unsigned char *p, size_t size)
{
        unsigned letter = size == 2   ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                          : size == 3 ? (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu)
                                      : 0;

        return letter == 0x61c || letter == 0x200e || letter == 0x200f ||
               (letter >= 0x202a && letter <= 0x202e) || (letter >= 0x2066 && letter <= 0x2069);
}

/* Bytes of the letter at @p; REFUSED; UNDECIDED: so far it is one. */
static size_t check_letter(const unsigned char *p, size_t n)
{
        size_t size;

        if (p[0] == '\n' || p[0] == '\t' || (p[0] >= ' ' && p[0] < 0x7f))
                return 1;
        size = capo_utf8_size(p, n);
        /* U+0080 to U+009F: C1 */
        return size == UNDECIDED ||
                               (!(p[0] == 0xc2 && size && p[1] < 0xa0) && !is_direction(p, size))
                       ? size
                       : REFUSED;
}

static size_t check_style(const unsigned char *p, size_t n)
{
        static const char *const styles[] = {CAPO_STYLE_BOLD, CAPO_STYLE_YELLOW, CAPO_STYLE_NORMAL};

        for (size_t i = 0; i < N_ELEMENTS(styles); i++) {
                size_t size = strlen(styles[i]);

                if (!memcmp(p, styles[i], n < size ? n : size))
                        return n < size ? UNDECIDED : size;
        }
        return REFUSED;
}

size_t capo_plain(char *text, size_t n, bool styles, bool last)
{
        for (size_t at = 0, size; at < n; at += size) {
                const unsigned char *p = (const unsigned char *)text + at;

                size = *p == '\033' && styles ? check_style(p, n - at) : check_letter(p, n - at);
                if (size == UNDECIDED && !last)
                        return at;
                if (size == UNDECIDED || size == REFUSED) {
                        text[at] = '?';
                        size = 1;
                }
        }
        return n;
}

void capo_plain_line(char *text, size_t n)
{
        capo_plain(text, n, false, true);
        for (size_t i = 0; i < n; i++)
                text[i] = text[i] == '\n' || text[i] == '\t' ? '?' : text[i];
}
