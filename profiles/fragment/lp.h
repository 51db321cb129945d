/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing by linear programming: as much as possible of things that each use some of every link. The things (trees
 * through relays, rings, chains) are too many to list; an oracle finds the one that is cheapest at given link prices,
 * and the prices rise until no thing costs less than 1. Then the prices prove that no more fits.
 */
#ifndef CAPO_FRAGMENT_LP_H
#define CAPO_FRAGMENT_LP_H

#include <stddef.h>
#include <stdint.h>

/* The cheapest thing at these prices: fills use[n_links] and what else it likes into thing. Return: its cost, negative
 * when there is no thing at all. */
typedef double (*lp_oracle)(void *user, const double *price, double *use, void *thing);

struct lp_part {
        double amount;
        void *thing; /* thing_size bytes, in lp_result.things */
};

struct lp_result {
        double value, bound; /* value is attained; nothing exceeds bound; they differ by rounding only */
        int n_parts;
        struct lp_part *parts; /* at most one per link, largest amount first */
        void *things;
};

/** lp_pack() - Return: 0; -ENOMEM; -ELOOP no end after a great many steps (value is attained, bound holds). */
int lp_pack(int n_links, const double *cap, lp_oracle oracle, void *user, size_t thing_size, struct lp_result *out);
void lp_result_free(struct lp_result *r);

#endif
