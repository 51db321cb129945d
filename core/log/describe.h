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
        uint32_t named;       /* sites that have been looked at by capo_describe_name_site() */
        char text[96u << 10]; /* the largest piece of text */
};

/** capo_describe_texts() - text that waits in the segment; with again all of it that still stands
 * there. */
void capo_describe_texts(struct capo_describe *d);

/** capo_describe_kept() - what a dead process would have said of itself next. */
void capo_describe_kept(struct capo_describe *d);

/** capo_describe_name_site() - the text of the next new site, if there is one, into the segment:
 * when the process is killed nobody else can name its addresses. */
void capo_describe_name_site(struct capo_describe *d);

/** capo_describe_things() - communicators and sites that changed. */
void capo_describe_things(struct capo_describe *d);

/** capo_describe_dropped() - calls that found no room. */
uint64_t capo_describe_dropped(const struct capo_describe *d);

/** capo_describe_end() - @clean: see struct capo_log_end. */
void capo_describe_end(struct capo_describe *d, unsigned clean);
