/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of traffic: whatever moment the counters are read at, all windows together have what the
 * counters have. */
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/log/fabric_read.h"
#include "shim/fabric/shim_fabric.h"
#include "tests/log_numbers.h"

struct fi_object *_Atomic capo_fi_objects;
static struct fi_ep ep;
static struct fi_cq cq;
static struct fi_domain domain;

static void begin(void)
{
        cq.o.type = FI_T_CQ;
        ep.o.type = FI_T_EP;
        domain.o.type = FI_T_DOMAIN;
        cq.o.next = &ep.o;
        ep.o.next = &domain.o;
        capo_fi_objects = &cq.o;
        capo_fi_windows_start();
}

TestSuite(windows, .init = begin);

static char text[1 << 16];

static void out(unsigned type, const char *piece, size_t size)
{
        cr_assert_eq(type, CAPO_FRAME_FABRIC);
        cr_assert_lt(strlen(text) + size, sizeof text);
        strncat(text, piece, size);
}

/* Ends the window under way; what all of them have: a sum, and in end_ns their number. */
static struct capo_fabric_window all(void)
{
        static struct capo_fabric_text t;
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
        struct capo_fabric_window sum = {0};

        capo_fi_windows_poll(true);
        text[0] = 0;
        capo_fabric_begin(&t, 1, out);
        capo_fi_windows_put(&t);
        capo_fabric_end(&t);
        f = capo_fabric_parse(text);
        for (size_t i = 0; i < f->n_windows; i++) {
                cr_assert(f->windows[i].begin_ns < f->windows[i].end_ns &&
                          (!i || f->windows[i - 1].end_ns <= f->windows[i].begin_ns));
                sum.ops += f->windows[i].ops;
                sum.tx_bytes += f->windows[i].tx_bytes;
                sum.rx_bytes += f->windows[i].rx_bytes;
        }
        sum.end_ns = f->n_windows;
        return sum;
}

#define HAVE(n, o, tx, rx)                                                              \
        do {                                                                            \
                struct capo_fabric_window w = all();                                    \
                                                                                        \
                cr_expect(w.end_ns == (n) && w.ops == (o) && w.tx_bytes == (tx) &&      \
                                  w.rx_bytes == (rx),                                   \
                          "%u windows of %u ops, %u and %u bytes", (unsigned)w.end_ns,  \
                          (unsigned)w.ops, (unsigned)w.tx_bytes, (unsigned)w.rx_bytes); \
        } while (0)

Test(windows, only_where_something_moved)
{
        HAVE(0, 0, 0, 0);
        ep.set[0].sizes[CAPO_FI_TSEND][12] = 2;
        ep.set[0].bytes[CAPO_FI_TSEND] = 5000;
        HAVE(1, 2, 5000, 0);
        HAVE(1, 2, 5000, 0);
        ep.set[2].sizes[CAPO_FI_TRECV][12] = 1; /* what will be received is posted, and not sent */
        ep.set[2].bytes[CAPO_FI_TRECV] = 2500;
        HAVE(2, 3, 5000, 0);
        cq.set[1].received_bytes = 2400;
        HAVE(3, 3, 5000, 2400);
}

Test(windows, a_post_that_is_half_counted)
{
        ep.set[0].sizes[CAPO_FI_TSEND][12] = 1;
        HAVE(1, 1, 0, 0);
        ep.set[0].bytes[CAPO_FI_TSEND] = 2728; /* its thread had been stopped before this */
        HAVE(2, 1, 2728, 0);
}

Test(windows, an_endpoint_that_is_seen_in_its_domain_too)
{
        ep.set[0].sizes[CAPO_FI_SEND][10] = 4;
        ep.set[0].bytes[CAPO_FI_SEND] = 4000;
        cq.set[0].received_bytes = 100;
        HAVE(1, 4, 4000, 100);
        domain.folded.post = ep.set[0];
        HAVE(2, 8, 8000, 100);
        memset(ep.set, 0, sizeof ep.set);
        HAVE(2, 8, 8000, 100);
        ep.set[0].sizes[CAPO_FI_SEND][10] = 5;
        ep.set[0].bytes[CAPO_FI_SEND] = 5000;
        HAVE(3, 9, 9000, 100);
}
