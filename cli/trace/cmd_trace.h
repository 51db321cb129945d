/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trace_options {
        const char *out; /* NULL: standard output */
        double from_s, to_s;
        unsigned step_first, step_last; /* 0: none */
        bool ranks;                     /* only some ranks: */
        struct {
                unsigned first, last;
        } rank[64];
        size_t n_ranks;
};

/** trace_make() - write a trace of the logs that @words (of @verb) name. Return: an exit status. */
int trace_make(const struct trace_options *o, const char *verb, char **words, size_t n);
