/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define FAKE_GROUP  0x1000
#define FAKE_HANDLE 0x2000

/* What the last call was given, and how many there were. Every seventh is refused. */
struct fake_ext {
        const void *given[3];
        unsigned n;
};
