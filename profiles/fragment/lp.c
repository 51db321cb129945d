/* SPDX-License-Identifier: Apache-2.0 */
/* The revised simplex method with columns generated on demand. Rows are links: sum of use * amount
 * + slack = capacity. The basis inverse is stored completely; with tens of links it is small.
 *
 * One step: the basis gives each link a price (how much more could be packed with one unit more).
 * If a price is negative, the link is overused and its slack enters the basis. Otherwise the oracle
 * finds the cheapest thing at these prices. If it costs less than 1, its value, it enters the
 * basis, and the variable that would first become negative leaves (the largest pivot among equals,
 * for numerical stability). If the cheapest thing costs at least 1, the packing is optimal.
 *
 * The bound does not depend on correct steps. Let the prices be >= 0 and every thing cost at least
 * c > 0. Any packing pays at least c per unit and at most the price of all capacity, so its amount
 * is at most (sum of price * capacity) / c. The smallest such bound seen is the result; at the end
 * the packing reaches it. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/lp.h"

#define STEPS_MAX 4000
#define SMALL     1e-9

struct simplex {
        int m;
        const double *cap;
        double *inverse; /* m * m */
        double *amount;  /* of each row's basic variable */
        double *value;   /* objective of each basic variable: 1 for a thing, 0 for slack */
        double *price, *use, *step;
};

/* Bring a column into the basis. False: nothing limits it (it uses no link). */
static bool enter_column(struct simplex *s, const double *column, double value)
{
        int m = s->m, row = -1;
        double least = INFINITY, pivot;

        for (int i = 0; i < m; i++) {
                double a = 0;

                for (int j = 0; j < m; j++)
                        a += s->inverse[i * m + j] * column[j];
                s->step[i] = a;
                if (a > SMALL) {
                        double t = (s->amount[i] > 0 ? s->amount[i] : 0) / a;

                        if (t < least - 1e-12 ||
                            (t < least + 1e-12 && row >= 0 && a > s->step[row])) {
                                least = t < least ? t : least;
                                row = i;
                        }
                }
        }
        if (row < 0)
                return false;
        pivot = s->step[row];
        for (int i = 0; i < m; i++) {
                if (i != row)
                        s->amount[i] -= least * s->step[i];
        }
        s->amount[row] = least;
        for (int j = 0; j < m; j++)
                s->inverse[row * m + j] /= pivot;
        for (int i = 0; i < m; i++) {
                double a = s->step[i];

                if (i == row || a == 0)
                        continue;
                for (int j = 0; j < m; j++)
                        s->inverse[i * m + j] -= a * s->inverse[row * m + j];
        }
        s->value[row] = value;
        return true;
}

void lp_pack(int m, const double *cap, lp_oracle oracle, void *user, double *most)
{
        size_t square = (size_t)m * (size_t)m, rows = (size_t)m;
        _cleanup_free_ double *memory = xcalloc(square + 5 * rows + 1, sizeof *memory);
        struct simplex s = {.m = m, .cap = cap};

        *most = INFINITY;
        s.inverse = memory;
        s.amount = s.inverse + square;
        s.value = s.amount + rows;
        s.price = s.value + rows;
        s.use = s.price + rows;
        s.step = s.use + rows;
        for (int i = 0; i < m; i++) {
                s.inverse[i * m + i] = 1;
                s.amount[i] = cap[i];
        }
        for (int k = 0; k < STEPS_MAX; k++) {
                int slack = -1;
                double cost, total = 0;

                for (int j = 0; j < m; j++) {
                        s.price[j] = 0;
                        for (int i = 0; i < m; i++)
                                s.price[j] += s.value[i] * s.inverse[i * m + j];
                        if (s.price[j] < -SMALL && (slack < 0 || s.price[j] < s.price[slack]))
                                slack = j;
                }
                if (slack >= 0) { /* a negative price: the link's slack enters the basis */
                        memset(s.use, 0, sizeof *s.use * rows);
                        s.use[slack] = 1;
                        if (!enter_column(&s, s.use, 0))
                                return;
                        continue;
                }
                for (int j = 0; j < m; j++) {
                        if (s.price[j] < 0)
                                s.price[j] = 0;
                        total += s.price[j] * cap[j];
                }
                memset(s.use, 0, sizeof *s.use * rows);
                cost = oracle(user, s.price, s.use);
                if (cost < 0) { /* there is none */
                        *most = 0;
                        return;
                }
                if (cost > 0 && total / cost < *most)
                        *most = total / cost;
                if (cost >= 1 - 1e-10 || !enter_column(&s, s.use, 1))
                        return;
        }
}
