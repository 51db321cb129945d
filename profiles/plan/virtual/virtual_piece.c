/* SPDX-License-Identifier: Apache-2.0 */
/* Makes up what ranks that are not started would send. Two units of each kind are started.
 *
 * A piece is made word by word (32 bits). If the two units send the same, so does the third. If
 * both send their rank at the same place of their unit, the third sends its own. Everything else
 * that differs is a hash, a process id or an address: it becomes another number, the same for equal
 * words of one unit.
 *
 * Large pieces are topologies (struct ncclXml), whose attributes are text. The same rules hold for
 * whole strings: a decimal number is a rank, "0x..." a hash. */
#include "profiles/plan/virtual/virtual.h"

/* by rank: its index among the started ones, or -1; and its index within its unit */
static int16_t asked_at[CAPO_PLAN_RANKS_MAX];
static uint16_t place_in_unit[CAPO_PLAN_RANKS_MAX];

void plan_pieces_begin(void)
{
        memset(asked_at, -1, sizeof asked_at);
        for (uint32_t i = 0; i < plan_job->n_asked; i++)
                asked_at[plan_job->asked[i]] = (int16_t)i;
        for (uint32_t u = 0; u < plan_job->n_units; u++) {
                for (uint32_t i = 0; i < plan_job->units[u].n; i++)
                        place_in_unit[plan_job->by_unit[plan_job->units[u].first + i]] =
                                (uint16_t)i;
        }
}

int plan_asked_at(int rank)
{
        return rank < 0 || (uint32_t)rank >= plan_job->n_ranks ? -1 : asked_at[rank];
}

static bool is_rank_of(uint32_t word, uint32_t unit)
{
        return word < plan_job->n_ranks && plan_job->node_unit[plan_job->ranks[word].node] == unit;
}

static uint32_t make_word(uint32_t a, uint32_t b, uint32_t unit)
{
        const struct plan_unit *u = &plan_job->units[unit];

        if (a == b)
                return a;
        if (is_rank_of(a, u->like[0]) && is_rank_of(b, u->like[1]) &&
            place_in_unit[a] == place_in_unit[b])
                return plan_job->by_unit[u->first + place_in_unit[a]];
        return a ^ (uint32_t)plan_mix(unit, 0);
}

enum { PAGE = 4096, TEXT_BYTES = 1 << 16, TEXT_MOST = 255 /* NCCL's MAX_STR_LEN */ };

/* Convert the differing strings around @at of @a and of @b to that of @unit. Return: the offset
 * after it. */
static size_t make_text(char *to, const char *a, const char *b, size_t size, size_t at,
                        uint32_t unit)
{
        size_t start = at, end;
        char made[24] = "";

        while (start && at - start < TEXT_MOST && a[start - 1])
                start--;
        end = start + strnlen(a + start, size - start < TEXT_MOST ? size - start : TEXT_MOST);
        end = end > at ? end : at + 1;
        if (!strncmp(a + start, "0x", 2)) {
                uint64_t own = (uint32_t)plan_mix(unit, 0);

                snprintf(made, sizeof made, "0x%llx",
                         strtoull(a + start, NULL, 16) ^ (own << 32 | own));
        } else if (isdigit((unsigned char)a[start]) && isdigit((unsigned char)b[start])) {
                snprintf(made, sizeof made, "%" PRIu32,
                         make_word((uint32_t)strtoul(a + start, NULL, 10),
                                   (uint32_t)strtoul(b + start, NULL, 10), unit));
        }
        if (*made && start + sizeof made < size) {
                memset(to + start, 0, end - start);
                memcpy(to + start, made, strlen(made));
        }
        return end;
}

static void make_topology(char *to, const char *a, const char *b, size_t size, uint32_t unit)
{
        static const char zeros[PAGE];

        for (size_t at = 0, n; at < size; at += n) { /* most pages are untouched: keep them so */
                n = size - at < PAGE ? size - at : PAGE;
                if (memcmp(a + at, zeros, n) != 0)
                        memcpy(to + at, a + at, n);
        }
        for (size_t at = 0, n; at < size; at += n) {
                n = size - at < PAGE ? size - at : PAGE;
                if (memcmp(a + at, b + at, n) == 0)
                        continue;
                for (size_t i = at; i < at + n;)
                        i = a[i] == b[i] ? i + 1 : make_text(to, a, b, size, i, unit);
        }
}

static void make_piece(char *to, const char *a, const char *b, size_t size, uint32_t unit)
{
        size_t done = 0;

        if (size >= TEXT_BYTES) {
                make_topology(to, a, b, size, unit);
                return;
        }
        for (; done + 4 <= size; done += 4) {
                uint32_t x, y;

                memcpy(&x, a + done, 4);
                memcpy(&y, b + done, 4);
                x = make_word(x, y, unit);
                memcpy(to + done, &x, 4);
        }
        memcpy(to + done, a + done, size - done);
}

void plan_pieces_make_up(char *all, size_t size)
{
        for (uint32_t k = 0; k < plan_job->n_units; k++) {
                const struct plan_unit *u = &plan_job->units[k];
                const struct plan_unit *a = &plan_job->units[u->like[0]];
                const struct plan_unit *b = &plan_job->units[u->like[1]];
                const uint16_t *ranks = plan_job->by_unit;

                for (uint32_t i = 0; !u->real && i < u->n; i++)
                        make_piece(all + ranks[u->first + i] * size,
                                   all + ranks[a->first + i] * size,
                                   all + ranks[b->first + i] * size, size, k);
        }
}
