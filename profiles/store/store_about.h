/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Properties of an import that are not in the measurements; "" not known. */
struct capo_store_about {
        const char *cluster, *link, *nic, *driver;
};
