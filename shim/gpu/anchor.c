/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/anchor.h"

#define APART 5e-5 /* what two clocks may run apart, with room */

uint64_t capo_anchor_place(struct capo_anchor *a, double since, double took, uint64_t asked,
                           uint64_t seen)
{
        double least = (double)asked - since, most = (double)seen - since - took, at;

        if (!a->set || a->at < least)
                a->at = least;
        a->set = true;
        if (a->at > most)
                a->at = most;
        at = a->at + since;
        return at > (double)asked ? (uint64_t)at : asked;
}

void capo_anchor_move(struct capo_anchor *a, double since) { a->at += since - APART * since; }
