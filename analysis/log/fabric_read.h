/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of FABRIC frames. core/log/fabric_frame.h describes the lines. */
#pragma once

#include "core/log/fabric_frame.h"

/* One process. */
struct capo_fabric {
        struct capo_fabric_machine machine;
        struct capo_fabric_last_count last_count;
        struct capo_fabric_root *fabrics;
        size_t n_fabrics;
        struct capo_fabric_domain *domains;
        size_t n_domains;
        struct capo_fabric_object *objects;
        size_t n_objects;
        struct capo_fabric_window *windows;
        size_t n_windows;
        struct capo_fabric_inside *inside;
        size_t n_inside;
        unsigned bad_lines; /* of the snapshot used: lines not understood, wholly or in part */
};

extern const char *const capo_fabric_kind_names[CAPO_FI_KIND_ROOM];
extern const bool capo_fabric_kind_sends[CAPO_FI_KIND_ROOM]; /* the bytes leave, or are fetched by,
                                                                this side */

/** capo_fabric_parse() - parse the joined text of a log's FABRIC frames
 * @text: lines; uses the complete snapshot with the highest number, or the last one if none is
 * complete. Lines and keys that this version does not know are skipped.
 *
 * Return: capo_fabric_free() it. Counts of objects are added to their domain's. NULL: no @text. */
struct capo_fabric *capo_fabric_parse(const char *text);
void capo_fabric_free(struct capo_fabric *f);
static inline void capo_fabric_freep(struct capo_fabric **f) { capo_fabric_free(*f); }
