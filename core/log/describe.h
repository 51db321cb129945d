/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a log holds beside calls, out of the segment: texts, communicators, call sites,
 * and END. cells.h writes cells. */
#pragma once

#include "core/log/log_output.h"

/** capo_site_text_fn - pc[] to @text, once per new site; Return: bytes of it. */
typedef unsigned (*capo_site_text_fn)(const struct capo_seg_site *site, char *text, unsigned room);

struct capo_describe {
        struct capo_segment *seg;
        struct capo_output *out;
        capo_site_text_fn site_text; /* NULL: numbers only */
        bool again;                  /* say what was written, too */
        uint64_t dropped;            /* what the last END said */
        uint32_t named;              /* sites that have been looked at by describe_site() */
        char text[96u << 10];        /* the largest piece of text */
};
