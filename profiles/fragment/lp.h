/* SPDX-License-Identifier: Apache-2.0 */
/* Packing by linear programming: as much as possible of things that each use a part of some links.
 * The things (trees through relays, rings, chains) are too many to list. An oracle finds the
 * cheapest one at given link prices, and prices rise until no thing costs less than 1. Then the
 * prices prove that no more fits. */
#pragma once

/* Finds the cheapest thing at these prices and fills use[n_links]. Return: its cost; negative:
 * there is none. */
typedef double (*lp_oracle)(void *user, const double *price, double *use);

/** lp_pack() - @most: set to the bound; after too many steps it is not reached. */
void lp_pack(int n_links, const double *cap, lp_oracle oracle, void *user, double *most);
