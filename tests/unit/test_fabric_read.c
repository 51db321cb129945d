/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/log/fabric_read.h"
#include "analysis/network/network.h"
#include "core/base/util.h"
#include "core/log/fabric_kinds.h"

#define LINES(n)                                                                                           \
        "machine\tinfiniband=mlx5_0,mlx5_1\tnet=eth0\n"                                                    \
        "domain\tid=3\tdomain=0\tfabric=1\tprovider=tcp;ofi_rxm\tname=eth0\tnic=0000:10:1b.0\tnuma=1"      \
        "\tspeed=100000000000\tmr=2,8192\tsample=64\ttx_ns=3,30000,12000;148:2,155:1\n"                    \
        "ep\tid=5\tdomain=3\ttype=rdm\tsend=" #n ",6400;7:" #n                                             \
        "\trecv=2,8192;13:2\teagain=9\terror=21,2,Bad thing\n"                                             \
        "ep\tid=6\tdomain=3\ttype=rdm\tclosed=1\tsend=1,64;7:1\n"                                          \
        "cq\tid=4\tdomain=3\tempty=1000\treads=90\tcompletions=102\treceived=2,128\terror=268,1,Overrun\n" \
        "window\tbegin=1000\tend=2000\tops=5\ttx=64\trx=0\n"

Test(fabric_read, a_snapshot)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
        const struct capo_fabric_domain *d;
        bool exact;

        f = capo_fabric_parse("snapshot\t1\n" LINES(100) "complete\t1\n");
        cr_assert_eq(f->n_domains, 1);
        cr_assert_eq(f->n_objects, 3);
        cr_assert_eq(f->bad_lines, 0);
        cr_assert_str_eq(f->machine.infiniband, "mlx5_0,mlx5_1");
        d = &f->domains[0];
        cr_assert_str_eq(d->provider, "tcp;ofi_rxm");
        cr_assert_str_eq(d->nic, "0000:10:1b.0");
        cr_assert_eq(d->numa, 1);
        cr_assert_eq(d->speed_bps, 100000000000u);
        cr_assert_eq(d->endpoints, 2);
        cr_assert_eq(d->n.kind[CAPO_FI_SEND].count, 101);
        cr_assert_eq(d->n.kind[CAPO_FI_SEND].bytes, 6464);
        cr_assert_eq(d->n.kind[CAPO_FI_SEND].sizes[7], 101);
        cr_assert_eq(d->n.eagain, 9);
        cr_assert_eq(d->n.empty, 1000);
        cr_assert_eq(d->n.errors, 3);
        cr_assert_eq(d->n.overruns, 1);
        cr_assert_str_eq(d->n.error[0].text, "Bad thing");
        cr_assert_eq(capo_fabric_ops(&d->n), 103);
        cr_assert_eq(capo_fabric_sent(&d->n), 6464);
        cr_assert_eq(capo_fabric_recv(&d->n, &exact), 128);
        cr_assert(exact);
        cr_assert_float_eq(capo_fabric_percentile(&d->tx, 0.5), 5248 - 128 / 2.0, 300);
        cr_assert_gt(capo_fabric_percentile(&d->tx, 0.9),
                     1.3 * capo_fabric_percentile(&d->tx, 0.5));
        cr_assert_eq(capo_fabric_percentile(&d->tx, 2.0 / 3), capo_fabric_percentile(&d->tx, 0.1));
        cr_assert_eq(capo_fabric_percentile(&d->rx, 0.5), 0);
        cr_assert_eq(capo_fabric_percentile(&d->tx, 0.5),
                     (double)(capo_hist_floor(148) + capo_hist_floor(149)) / 2);
        cr_assert_eq(f->n_windows, 1);
        cr_assert_eq(f->windows[0].end_ns, 2000);
}

Test(fabric_read, the_last_whole_snapshot_counts)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL, *g = NULL;

        f = capo_fabric_parse("snapshot\t1\n" LINES(10) "complete\t1\nsnapshot\t2\n" LINES(
                20) "snapshot\t2\ncomplete\t2\nsnapshot\t3\n" LINES(30) "ep\tid=9\tdomain=3\tse");
        cr_assert_eq(f->domains[0].n.kind[CAPO_FI_SEND].count, 21);
        /* none is whole: what there is */
        g = capo_fabric_parse("snapshot\t1\n" LINES(10));
        cr_assert_eq(g->domains[0].n.kind[CAPO_FI_SEND].count, 11);
}

Test(fabric_read, damage_is_left_out)
{
        static const char *const texts[] = {
                "",
                "\n\n\n",
                "snapshot\n",
                "snapshot\t1\ndomain\n",
                "snapshot\t1\ndomain\tid=x\tsend=1\n",
                "snapshot\t1\ndomain\tid=1\ttx_ns=1,2,3;999:1\n",
                "snapshot\t1\nep\tdomain=7\tsend=1,2;99:1\n",
                "snapshot\t1\nep\tid=99999999999999999999999\n",
                "snapshot\t1\nwindow\tbegin=9\tend=1\n",
                "snapshot\t1\nthing\tof=tomorrow\n",
                "snapshot\t1\nep\t=\t==\t\t=x\n",
                "machine\n",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

                f = capo_fabric_parse(texts[i]);
        }
}

/* Every cut of a good text must parse. */
Test(fabric_read, any_cut)
{
        static const char text[] =
                "snapshot\t1\n" LINES(10) "complete\t1\nsnapshot\t2\n" LINES(20) "complete\t2\n";

        for (size_t n = 0; n < sizeof text; n++) {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
                _cleanup_free_ char *cut = strndup(text, n);

                f = capo_fabric_parse(cut);
        }
}

Test(fabric_read, slow_providers)
{
        cr_assert(capo_fabric_is_slow("tcp;ofi_rxm"));
        cr_assert(capo_fabric_is_slow("sockets"));
        cr_assert_not(capo_fabric_is_slow("efa"));
        cr_assert_not(capo_fabric_is_slow("verbs;ofi_rxm"));
        cr_assert_not(capo_fabric_is_slow("shm"));
}

/* Older versions sampled the network: those lines and keys are skipped. */
Test(fabric_read, samples_of_older_versions)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

        f = capo_fabric_parse("snapshot\t1\n"
                              "looked\ttaken=9\tlate=2\tslit=50000\tat=7000\n"
                              "looks\tevery=20000000\tbegin=7000\tseen=0i31250w\n"
                              "looks\n"
                              "domain\tid=3\n"
                              "complete\t1\n");
        cr_expect_eq(f->bad_lines, 0);
        cr_expect_eq(f->last_count.at_ns, 7000);
        cr_expect_eq(f->n_domains, 1);
}

Test(fabric_read, the_highest_number_counts_also_when_it_comes_first)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

        f = capo_fabric_parse(
                "snapshot\t3\n" LINES(30) "complete\t3\nsnapshot\t2\n" LINES(20) "complete\t2\n");
        cr_assert_eq(f->domains[0].n.kind[CAPO_FI_SEND].count, 31);
}

/* A key of a known line whose value is none makes the line a bad one; what is right in it counts.
 */
Test(fabric_read, values_that_are_none)
{
        static const char *const pairs[] = {
                "id",
                "id=",
                "id=x",
                "id=7x",
                "speed=-1",
                "speed=99999999999999999999",
                "numa=",
                "mr=1",
                "mr=1,",
                "mr=1,2,",
                "mr=,2",
                "tx_ns=1,2",
                "tx_ns=1,2,3",
                "tx_ns=1,2,3;4",
                "tx_ns=1,2,3;4:",
                "tx_ns=1,2,3;464:1",
                "send=1,2;40:1",
                "send=1;",
                "error=1",
                "error=1,2",
                "error=x,1,y",
        };

        for (size_t i = 0; i < N_ELEMENTS(pairs); i++) {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
                char line[256];

                snprintf(line, sizeof line,
                         "snapshot\t1\ndomain\tsample=3\t%s\tfolded=2\ncomplete\t1\n", pairs[i]);
                f = capo_fabric_parse(line);
                cr_assert_eq(f->bad_lines, 1, "%s", pairs[i]);
                cr_assert(f->n_domains == 1 && f->domains[0].sample == 3 &&
                                  f->domains[0].folded == 2,
                          "%s", pairs[i]);
        }
}

Test(fabric_read, versions_and_windows_that_are_none)
{
        static const char *const lines[] = {"fabric\tapi=1",       "fabric\tapi=1.",
                                            "fabric\tapi=.1",      "fabric\tapi=65536.1",
                                            "fabric\tapi=1.65536", "window\tbegin=9\tend=8"};

        for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
                _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
                char text[256];

                snprintf(text, sizeof text, "snapshot\t1\n%s\ncomplete\t1\n", lines[i]);
                f = capo_fabric_parse(text);
                cr_assert_eq(f->bad_lines, 1, "%s", lines[i]);
                cr_assert_eq(f->n_windows, 0);
        }
}

/* Numbers of four bytes and of one leave their neighbours alone, in whatever order keys come. */
Test(fabric_read, keys_in_any_order)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

        f = capo_fabric_parse("snapshot\t1\nep\tclosed=1\trx_cq=6\ttx_cq=5\tdomain=4\tid=3\n"
                              "inside\tops=8\tcall=7\tcomm=6\ndomain\tclosed=2\tdomain=9\tid=4\n"
                              "complete\t1\n");
        cr_assert_eq(f->bad_lines, 0);
        cr_assert(f->objects[0].id == 3 && f->objects[0].domain == 4 && f->objects[0].closed);
        cr_assert(f->objects[0].tx_cq == 5 && f->objects[0].rx_cq == 6);
        cr_assert(f->inside[0].comm_uid == 6 && f->inside[0].call == 7 && f->inside[0].ops == 8 &&
                  !f->inside[0].bytes);
        cr_assert(f->domains[0].id == 4 && f->domains[0].domain == 9 && f->domains[0].closed);
        cr_assert_eq(f->domains[0].endpoints, 1);
}

Test(fabric_read, all_counts_of_objects_are_their_domains)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
        const struct capo_fabric_counts *n;

        f = capo_fabric_parse(
                "snapshot\t1\n"
                "cq\tid=3\tdomain=1\tempty=1\treads=2\tcompletions=3\treceived=4,5\n"
                "cq\tid=4\tdomain=1\tempty=10\treads=20\tcompletions=30\treceived=40,50"
                "\terrors_other=3\n"
                "ep\tid=5\tdomain=1\teagain=6\terror=1,2,x\terror=268,1,y\n"
                "ep\tid=6\tdomain=1\teagain=60\terror=1,5,x\n"
                "cntr\tid=7\tdomain=1\treads=1000\nep\tid=8\tdomain=2\teagain=1000\n"
                "domain\tid=1\tempty=100\treads=200\tcompletions=300\treceived=400,500\n"
                "complete\t1\n");
        n = &f->domains[0].n;
        cr_assert(n->empty == 111 && n->reads == 222 && n->completions == 333 && n->eagain == 66);
        cr_assert(n->received == 444 && n->received_bytes == 555);
        cr_assert(n->errors == 11 && n->overruns == 1 && n->n_errors == 2 &&
                  n->error[0].count == 7);
        cr_assert(f->domains[0].queues == 2 && f->domains[0].endpoints == 2);
}

Test(fabric_read, every_kind_of_object)
{
        static const char *const kinds[] = {"ep", "cq", "cntr", "eq", "pep"};
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

        f = capo_fabric_parse(
                "snapshot\t1\nep\tid=1\ttype=msg\tclosed=1\ncq\tid=2\ncntr\tid=3\twaits=7\n"
                "eq\tid=4\tevents=5\nthing\tid=9\npep\tid=5\tlistens=6\trejects=8\n"
                "fabric\tapi=65535.65535\tprovider=efa\nwindow\tbegin=9\tend=9\tops=3\n"
                "complete\t1\n");
        cr_assert(f->n_objects == 5 && f->bad_lines == 0);
        for (uint32_t i = 0; i < 5; i++) {
                cr_expect_str_eq(f->objects[i].kind, kinds[i]);
                cr_expect_eq(f->objects[i].id, i + 1);
                cr_expect_eq(f->objects[i].closed, i == 0);
        }
        cr_expect_str_eq(f->objects[0].type, "msg");
        cr_expect(f->objects[2].waits == 7 && f->objects[3].events == 5);
        cr_expect(f->objects[4].listens == 6 && f->objects[4].rejects == 8);
        cr_expect(f->n_fabrics == 1 && f->fabrics[0].api == UINT32_MAX);
        cr_expect(f->n_windows == 1 && f->windows[0].ops == 3, "a window may be of no length");
}

Test(fabric_read, lines_before_any_snapshot_where_there_is_none)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;

        f = capo_fabric_parse("domain\tid=3\nwindow\tbegin=x\n");
        cr_expect(f->n_domains == 1 && f->domains[0].id == 3);
        cr_expect(f->bad_lines == 1);
}

/* Untrusted text: each takes kilobytes, and each object looks for its domain among all. */
Test(fabric_read, a_great_many_objects)
{
        enum { LINES_OF_EACH = 100000 };
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = NULL;
        _cleanup_free_ char *text = malloc(LINES_OF_EACH * 64);
        size_t n = (size_t)sprintf(text, "snapshot\t1\n");

        for (unsigned i = 1; i <= LINES_OF_EACH; i++)
                n += (size_t)sprintf(text + n, "domain\tid=%u\ncq\tid=1\tdomain=%u\tempty=1\n", i,
                                     i);
        sprintf(text + n, "window\tbegin=1\tend=2\tops=1\ncomplete\t1\n");
        f = capo_fabric_parse(text);
        cr_expect_eq(f->n_domains, 16384);
        cr_expect_eq(f->n_objects, 16384);
        cr_expect_eq(f->domains[16383].n.empty, 1);
        cr_expect_eq(f->n_windows, 1);
        cr_expect_eq(f->bad_lines, 2 * (LINES_OF_EACH - 16384));
}
