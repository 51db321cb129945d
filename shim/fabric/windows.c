/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: how much went over libfabric in which span of time. The drain thread's rounds fill a
 * table of them between checkpoints; that is what lets the report lay network traffic of a progress
 * thread against the collectives that were under way, without a clock in the data path. The table
 * has FI_WINDOWS places; when it is full the older half is merged pairwise, so the recent past is
 * fine-grained and the distant one coarse. */

#include "shim/fabric/shim_fabric.h"

#define FI_WINDOWS       512
#define FI_WINDOW_MIN_NS 5000000u

static struct capo_fabric_window window[FI_WINDOWS];
static unsigned n_windows;
static struct capo_fabric_window so_far; /* totals at its end */
static unsigned n_scanned; /* objects; adding one up takes about a microsecond, so many make the
                                windows longer */

const bool capo_fi_transmits[CAPO_FI_KINDS] = {
#define FABRIC_KIND(id, key, transmits) transmits,
#include "core/log/fabric_frame.def"
};

void capo_fi_blind(const struct fi_ep *e, uint64_t *count, uint64_t *bytes)
{
        static const uint8_t receives[] = {CAPO_FI_RECV, CAPO_FI_TRECV};

        for (unsigned i = 0; e->blind && i < FI_SETS * N_ELEMENTS(receives); i++) {
                const struct fi_post_set *s = &e->set[i % FI_SETS];
                unsigned k = receives[i / FI_SETS];

                *bytes += s->bytes[k];
                for (int b = 0; b < CAPO_FI_SIZES; b++)
                        *count += s->sizes[k][b];
        }
}

static void add_post(struct capo_fabric_window *w, const struct fi_post_set *s)
{
        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                for (int b = 0; b < CAPO_FI_SIZES; b++)
                        w->ops += s->sizes[k][b];
                if (capo_fi_transmits[k])
                        w->tx_bytes += s->bytes[k];
        }
}

static struct capo_fabric_window sum_counters(void)
{
        struct capo_fabric_window w = {.end_ns = capo_clock_mono()};
        uint64_t n_blind = 0; /* their number is of no use here */

        n_scanned = 0;
        for (struct fi_object *o = atomic_load_explicit(&capo_fi_objects, memory_order_acquire); o;
             o = o->next) {
                n_scanned++;
                if (o->type == FI_T_EP) {
                        for (int s = 0; s < FI_SETS; s++)
                                add_post(&w, &((struct fi_ep *)o)->set[s]);
                        capo_fi_blind((struct fi_ep *)o, &n_blind, &w.rx_bytes);
                } else if (o->type == FI_T_CQ) {
                        for (int s = 0; s < FI_SETS; s++)
                                w.rx_bytes += ((struct fi_cq *)o)->set[s].received_bytes;
                } else if (o->type == FI_T_DOMAIN) {
                        add_post(&w, &((struct fi_domain *)o)->folded.post);
                        w.rx_bytes += ((struct fi_domain *)o)->folded.cq.received_bytes +
                                      ((struct fi_domain *)o)->folded.blind_bytes;
                }
        }
        return w;
}

static void merge_older_half(void)
{
        unsigned half = FI_WINDOWS / 2, out = 0;

        for (unsigned i = 0; i < half; i += 2, out++) {
                window[out] = window[i];
                window[out].end_ns = window[i + 1].end_ns;
                window[out].ops += window[i + 1].ops;
                window[out].tx_bytes += window[i + 1].tx_bytes;
                window[out].rx_bytes += window[i + 1].rx_bytes;
        }
        memmove(&window[out], &window[half], (n_windows - half) * sizeof window[0]);
        n_windows -= half - out;
}

/* What @now is above the most seen so far. Counters have several writers and are read beside them:
 * a closed object may be seen once more where its domain keeps its counts. That comes off what
 * follows, so that windows have in all what the counters have. */
static uint64_t take_rise(uint64_t now, uint64_t *most)
{
        uint64_t by = now > *most ? now - *most : 0;

        *most += by;
        return by;
}

void capo_fi_windows_poll(bool last)
{
        uint64_t now = capo_clock_mono();
        struct capo_fabric_window t, w;

        if (now - so_far.end_ns < FI_WINDOW_MIN_NS + n_scanned * 100000u && !last)
                return;
        t = sum_counters();
        w = (struct capo_fabric_window){.begin_ns = so_far.end_ns,
                                        .end_ns = t.end_ns,
                                        .ops = take_rise(t.ops, &so_far.ops),
                                        .tx_bytes = take_rise(t.tx_bytes, &so_far.tx_bytes),
                                        .rx_bytes = take_rise(t.rx_bytes, &so_far.rx_bytes)};
        so_far.end_ns = t.end_ns;
        if (!w.ops && !w.tx_bytes &&
            !w.rx_bytes) /* a post is counted a moment before its bytes are */
                return;
        if (n_windows == FI_WINDOWS)
                merge_older_half();
        window[n_windows++] = w;
}

void capo_fi_windows_put(struct capo_fabric_text *t)
{
        for (unsigned i = 0; i < n_windows; i++)
                capo_fabric_put(t, CAPO_FABRIC_WINDOW, &window[i]);
}

void capo_fi_windows_start(void)
{
        n_windows = 0;
        so_far = (struct capo_fabric_window){.end_ns = capo_clock_mono()};
}
