/* SPDX-License-Identifier: Apache-2.0 */
/* What libfabric operations are counted as: the words of the log, the report and the JSON. No libfabric header here. */
#ifndef CAPO_FABRIC_KINDS_H
#define CAPO_FABRIC_KINDS_H

/*   KIND(id, name, transmits)    senddata counts as send, injects of all sorts as inject, fetching atomics as atomic */
#define CAPO_FI_KIND_LIST(KIND)         \
        KIND(SEND, "send", 1)           \
        KIND(RECV, "recv", 0)           \
        KIND(TSEND, "tsend", 1)         \
        KIND(TRECV, "trecv", 0)         \
        KIND(READ, "read", 1)           \
        KIND(WRITE, "write", 1)         \
        KIND(WRITEDATA, "writedata", 1) \
        KIND(ATOMIC, "atomic", 1)       \
        KIND(INJECT, "inject", 1)

enum capo_fi_kind {
#define KIND(id, name, transmits) CAPO_FI_##id,
        CAPO_FI_KIND_LIST(KIND)
#undef KIND
                CAPO_FI_KINDS,
};

/* Size class of a message: number of bits of its size. Class 0 holds empty messages, class b those of 2^(b-1) .. 2^b -
 * 1 bytes, the last everything larger. */
#define CAPO_FI_SIZES 40

#endif
