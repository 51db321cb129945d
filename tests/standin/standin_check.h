/* SPDX-License-Identifier: Apache-2.0 */
/* For the stand-in's own test programs: an expectation that says where it failed and lets the test
 * go on. */
#pragma once

#include <stdio.h>

extern int n_checks, n_failures;
#define EXPECT(what)                                                                       \
        do {                                                                               \
                n_checks++;                                                                \
                if (!(what)) {                                                             \
                        n_failures++;                                                      \
                        fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
                }                                                                          \
        } while (0)
#define EXPECT_IS(call, value)                                                                \
        do {                                                                                  \
                int is_ = (int)(call);                                                        \
                n_checks++;                                                                   \
                if (is_ != (int)(value)) {                                                    \
                        n_failures++;                                                         \
                        fprintf(stderr, "%s:%d: %s is %d, expected %s\n", __FILE__, __LINE__, \
                                #call, is_, #value);                                          \
                }                                                                             \
        } while (0)
#define DONE(name)                                                                  \
        (fprintf(stderr, "%s: %d checks, %d failed\n", name, n_checks, n_failures), \
         n_failures ? 1 : 0)
