/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_STORE_ABOUT_H
#define CAPO_STORE_ABOUT_H

/* What a store keeps with an import that measurements themselves do not say; "" not known. */
struct capo_store_about {
        const char *cluster, *link, *nic, *driver;
};

#endif
