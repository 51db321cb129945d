/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_STORE_ABOUT_H
#define CAPO_STORE_ABOUT_H

/* Properties of an import that are not in the measurements; "" not known. */
struct capo_store_about {
        const char *cluster, *link, *nic, *driver;
};

#endif
