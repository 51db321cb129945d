/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing by linear programming: as much as possible of things that each use some of every link.
 * The things (trees through relays, rings, chains) are too many to list; an oracle finds the one
 * that is cheapest at given link prices, and the prices rise until no thing costs less than 1. Then
 * the prices prove that no more fits.
 */
#ifndef CAPO_FRAGMENT_LP_H
#define CAPO_FRAGMENT_LP_H

/* The cheapest thing at these prices: fills use[n_links]. Return: its cost, negative when there is
 * no thing at all. */
typedef double (*lp_oracle)(void *user, const double *price, double *use);

/** lp_pack() - @most: what nothing exceeds. Return: 0, and it is attained; -ELOOP no end after a
 * great many steps, it is an upper bound only; -ENOMEM. */
int lp_pack(int n_links, const double *cap, lp_oracle oracle, void *user, double *most);

#endif
