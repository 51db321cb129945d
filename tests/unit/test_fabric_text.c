/* SPDX-License-Identifier: Apache-2.0 */
/* FABRIC text: the bytes a snapshot has, and that the reader gets back what was put. */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/log/fabric_read.h"
#include "core/log/fabric_kinds.h"
#include "tests/log_numbers.h"

static struct capo_fabric_text t;
static char said[1 << 22];
static size_t n_said;
static unsigned pieces;

static void out(unsigned type, const char *text, size_t size)
{
        cr_assert_eq(type, CAPO_FRAME_FABRIC);
        cr_assert_leq(size, CAPO_FABRIC_PIECE);
        cr_assert_eq(text[size - 1], '\n', "whole lines");
        memcpy(said + n_said, text, size);
        n_said += size;
        pieces++;
}

static void finish(void)
{
        capo_fabric_end(&t);
        said[n_said] = 0;
}

static struct capo_fabric *parsed(void)
{
        struct capo_fabric *f = NULL;

        f = capo_fabric_parse(said);
        cr_assert_eq(f->bad_lines, 0);
        return f;
}

static struct capo_fabric_domain domain = {
        .id = 2,
        .fabric_id = 1,
        .provider = "tcp;ofi_rxm",
        .fabric = "net",
        .name = "eth\t0",
        .device = "e",
        .nic = "0000:10:1b.0",
        .numa = 0,
        .speed_bps = 100000000000,
        .sample = 64,
        .lost_samples = 3,
        .folded = 7,
        .mr_count = 2,
        .mr_bytes = 8192,
        .mr_failed = 1,
        .tx = {.count = 3, .sum_ns = 30000, .max_ns = 12000},
        .n = {.eagain = 4,
              .received = 5,
              .received_bytes = 0,
              .error = {{21, 2, "Bad\nthing"}, {268, 1, "Overrun"}},
              .errors_other = 9}};

Test(fabric_text, the_bytes_of_a_snapshot)
{
        struct capo_fabric_machine machine = {.infiniband = "mlx5_0,mlx5_1", .net = "lo"};
        struct capo_fabric_root root = {.id = 1, .provider = "tcp", .api = 1 << 16 | 9};
        struct capo_fabric_object ep = {.id = 3,
                                        .domain = 2,
                                        .closed = true,
                                        .type = "rdm",
                                        .tx_cq = 4,
                                        .contexts_repeat = "txrx"};
        struct capo_fabric_object cntr = {
                .id = 5, .n.reads = 1, .waits = 2, .value = 18446744073709551615u};
        struct capo_fabric_window window = {.begin_ns = 10, .end_ns = 20};
        struct capo_fabric_last_count last_count = {.at_ns = 7000};
        struct capo_fabric_inside inside = {.comm_uid = 99, .call = 255, .ops = 1};

        domain.tx.bucket[148] = 2;
        domain.tx.bucket[CAPO_HIST_BUCKETS - 1] = 1;
        ep.n.kind[CAPO_FI_TSEND].count = 3;
        ep.n.kind[CAPO_FI_TSEND].bytes = 129;
        ep.n.kind[CAPO_FI_TSEND].sizes[0] = 1;
        ep.n.kind[CAPO_FI_TSEND].sizes[7] = 2;
        capo_fabric_begin(&t, 12, out);
        capo_fabric_put(&t, CAPO_FABRIC_MACHINE, &machine);
        capo_fabric_put(&t, CAPO_FABRIC_CNTR, &cntr);
        capo_fabric_put(&t, CAPO_FABRIC_EP, &ep);
        capo_fabric_put(&t, CAPO_FABRIC_DOMAIN, &domain);
        capo_fabric_put(&t, CAPO_FABRIC_FABRIC, &root);
        capo_fabric_put(&t, CAPO_FABRIC_WINDOW, &window);
        capo_fabric_put(&t, CAPO_FABRIC_LOOKED, &last_count);
        capo_fabric_put(&t, CAPO_FABRIC_INSIDE, &inside);
        finish();
        cr_assert_str_eq(
                said,
                "snapshot\t12\n"
                "machine\tinfiniband=mlx5_0,mlx5_1\tnet=lo\n"
                "cntr\tid=5\tdomain=0\treads=1\twaits=2\tvalue=18446744073709551615\n"
                "ep\tid=3\tdomain=2\tclosed=1\ttype=rdm\ttx_cq=4\tcontexts_repeat=txrx\ttsend=3,129;0:1,7:2\n"
                "domain\tid=2\tdomain=0\tfabric=1\tprovider=tcp;ofi_rxm\tfabric_name=net\tname=eth 0\tdevice=e"
                "\tnic=0000:10:1b.0\tspeed=100000000000\tnuma=0\tmr=2,8192\tmr_failed=1\tsample=64"
                "\ttx_ns=3,30000,12000;148:2,463:1\tlost_samples=3\tfolded=7\teagain=4\treceived=5,0"
                "\terror=21,2,Bad thing\terror=268,1,Overrun\terrors_other=9\n"
                "fabric\tid=1\tdomain=0\tprovider=tcp\tapi=1.9\n"
                "window\tbegin=10\tend=20\tops=0\ttx=0\trx=0\n"
                "looked\tat=7000\n"
                "inside\tcomm=99\tcall=255\tops=1\tbytes=0\n"
                "complete\t12\n");
        cr_assert_eq(pieces, 1);
        {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = parsed();
                const struct capo_fabric_domain *d = &f->domains[0];
                const struct capo_fabric_object *o = f->objects;

                cr_assert_str_eq(f->machine.infiniband, "mlx5_0,mlx5_1");
                cr_assert_str_eq(f->machine.net, "lo");
                cr_assert(f->n_fabrics == 1 && f->fabrics[0].api == root.api &&
                          f->fabrics[0].id == 1);
                cr_assert_str_eq(f->fabrics[0].provider, "tcp");
                cr_assert(f->n_domains == 1 && d->id == 2 && d->fabric_id == 1 && d->numa == 0 &&
                          d->sample == 64);
                cr_assert(d->lost_samples == 3 && d->folded == 7 && d->mr_count == 2 &&
                          d->mr_bytes == 8192);
                cr_assert(d->mr_failed == 1 && d->speed_bps == 100000000000 && !d->closed);
                cr_assert_str_eq(d->name, "eth 0");
                cr_assert_str_eq(d->fabric, "net");
                cr_assert_str_eq(d->device, "e");
                cr_assert_str_eq(d->nic, "0000:10:1b.0");
                cr_assert_arr_eq(d->tx.bucket, domain.tx.bucket, sizeof d->tx.bucket);
                cr_assert(d->tx.count == 3 && d->tx.sum_ns == 30000 && d->tx.max_ns == 12000 &&
                          d->rx.count == 0);
                cr_assert(d->n.eagain == 4 && d->n.received == 5 && d->n.errors == 12 &&
                          d->n.overruns == 1);
                cr_assert(d->n.n_errors == 2 && d->n.error[0].code == 21 &&
                          d->n.error[0].count == 2);
                cr_assert(d->endpoints == 7 + 1 && d->queues == 0,
                          "folded ones count as endpoints");
                cr_assert(f->n_objects == 2 && o[0].waits == 2 && o[0].value == UINT64_MAX &&
                          o[0].n.reads == 1);
                cr_assert_str_eq(o[0].kind, "cntr");
                cr_assert(o[1].closed && o[1].tx_cq == 4 && o[1].rx_cq == 0 && o[1].domain == 2);
                cr_assert_str_eq(o[1].type, "rdm");
                cr_assert_str_eq(o[1].contexts_repeat, "txrx");
                cr_assert(o[1].n.kind[CAPO_FI_TSEND].bytes == 129 &&
                          o[1].n.kind[CAPO_FI_TSEND].sizes[7] == 2);
                cr_assert_eq(d->n.kind[CAPO_FI_TSEND].count, 3,
                             "an endpoint's counts are its domain's");
                cr_assert(f->n_windows == 1 && f->windows[0].end_ns == 20);
                cr_assert_eq(f->last_count.at_ns, 7000);
                cr_assert(f->n_inside == 1 && f->inside[0].call == 255 &&
                          f->inside[0].comm_uid == 99);
        }
}

Test(fabric_text, an_unknown_node_is_left_out)
{
        domain.numa = -1;
        capo_fabric_begin(&t, 1, out);
        capo_fabric_put(&t, CAPO_FABRIC_DOMAIN, &domain);
        finish();
        cr_assert_null(strstr(said, "numa"));
        {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = parsed();

                cr_assert_eq(f->domains[0].numa, -1);
        }
}

Test(fabric_text, pieces_begin_with_the_number_and_lines_stay_whole)
{
        struct capo_fabric_object ep = {.type = "rdm"};
        const char *at = said;
        unsigned numbers = 0;

        capo_fabric_begin(&t, 4711, out);
        for (ep.id = 1; ep.id <= 3000; ep.id++) {
                ep.n.kind[CAPO_FI_SEND].count = ep.n.kind[CAPO_FI_SEND].sizes[3] = ep.id;
                capo_fabric_put(&t, CAPO_FABRIC_EP, &ep);
        }
        finish();
        cr_assert_gt(pieces, 5);
        while ((at = strstr(at, "snapshot\t4711\n"))) {
                numbers++;
                at++;
        }
        cr_assert_eq(numbers, pieces);
        {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = parsed();

                cr_assert_eq(f->n_objects, 3000);
                for (uint32_t i = 0; i < 3000; i++)
                        cr_assert(f->objects[i].id == i + 1 &&
                                  f->objects[i].n.kind[CAPO_FI_SEND].sizes[3] == i + 1);
        }
}

/* Fields that are full: a name without a zero, all rows of errors, the last bucket before another
 * histogram. */
Test(fabric_text, full_fields)
{
        struct capo_fabric_domain full = {
                .id = 1, .numa = -1, .mr = {.count = 2}, .tx = {.count = 5}};
        struct capo_fabric_object ep = {.id = 2};

        memcpy(full.nic, "0123456789abcdefghij", sizeof full.nic);
        memset(ep.type, 't', sizeof ep.type);
        memset(ep.contexts_repeat, 'c', sizeof ep.contexts_repeat);
        full.mr.bucket[CAPO_HIST_BUCKETS - 1] = 2;
        full.n.errors_other = 77;
        full.n.n_errors = 9; /* the reader's; behind the last row */
        for (int i = 0; i < CAPO_FABRIC_ERRORS; i++)
                full.n.error[i] = (struct capo_fabric_error){.code = i + 1, .count = 1};
        capo_fabric_begin(&t, 1, out);
        capo_fabric_put(&t, CAPO_FABRIC_DOMAIN, &full);
        capo_fabric_put(&t, CAPO_FABRIC_EP, &ep);
        finish();
        cr_assert_str_eq(
                said,
                "snapshot\t1\n"
                "domain\tid=1\tdomain=0\tfabric=0\tnic=0123456789abcde\tmr_ns=2,0,0;463:2\tsample=0"
                "\ttx_ns=5,0,0;\terror=1,1,\terror=2,1,\terror=3,1,\terror=4,1,\terror=5,1,\terror=6,1,"
                "\terror=7,1,\terror=8,1,\terrors_other=77\n"
                "ep\tid=2\tdomain=0\ttype=ttttttt\tcontexts_repeat=ccccccc\ncomplete\t1\n");
        {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = parsed();

                cr_assert_eq(f->domains[0].n.errors, 8 + 77);
                cr_assert_eq(f->domains[0].n.n_errors, 8);
        }
        capo_fabric_free(NULL);
}
