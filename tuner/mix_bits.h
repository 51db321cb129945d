/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* splitmix64's finalizer (Steele, Lea, Flood 2014): each bit in reaches each bit out. */
static inline uint64_t mix_bits(uint64_t x)
{
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
}
