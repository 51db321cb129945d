/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical forms of small link matrices, for naming classes and for tests of it. */
#ifndef CAPO_FRAGMENT_CLASSES_H
#define CAPO_FRAGMENT_CLASSES_H

#include <stdint.h>

#include "profiles/fragment/fragment.h"

#define CLASS_GPUS 16 /* of one machine without a switch */

struct class_code {
        int n;
        uint8_t row[CLASS_GPUS][CLASS_GPUS];
};

/** class_labels() - bricks between GPUs; for PCIe-only machines the enum capo_path between them. */
void class_labels(const struct capo_topology *t, const int *gpus, int n, uint8_t label[CLASS_GPUS][CLASS_GPUS]);

/** class_code() - equal codes exactly when some renumbering makes the labels equal (up to 10 GPUs; above, equal
 * labels still have equal codes). */
void class_code(int n, uint8_t label[CLASS_GPUS][CLASS_GPUS], struct class_code *out);

#endif
