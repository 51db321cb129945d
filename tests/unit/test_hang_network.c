/* SPDX-License-Identifier: Apache-2.0 */
/* What the lines of a FABRIC snapshot say of a rank that stands. */
#include <stdio.h>
#include <string.h>
#include <criterion/criterion.h>

#include "analysis/hang/hang_network.h"

#define LOOKED "looked\tat=7000\n"
#define DOMAIN(id, more) \
        "domain\tid=" #id "\tdomain=0\tname=efa_" #id "-rdm\tnic=0000:1" #id ":00.0" more "\n"
#define CQ(id, domain, more) "cq\tid=" #id "\tdomain=" #domain more "\n"
#define EP(id, domain, cq, more) \
        "ep\tid=" #id "\tdomain=" #domain "\ttx_cq=" #cq "\trx_cq=" #cq more "\n"

static struct capo_hang_network net;

static void see(const char *lines)
{
        char text[2048];
        struct capo_job_process p = {.header = {.t0_real_ns = 1000000, .t0_mono_ns = 2000},
                                     .fabric = text};

        snprintf(text, sizeof text, "snapshot\t3\n%scomplete\t3\n", lines);
        capo_hang_network(&p, &net);
}

Test(hang_network, by_nic)
{
        see(LOOKED DOMAIN(1, "") CQ(3, 1, "\toutstanding=2\tcompleted=5000\treceived=4,400")
                    EP(4, 1, 3, "\tsend=9,900;9:9\trecv=10,1000;9:10\teagain=5") DOMAIN(2, "")
                            CQ(5, 2, "\toutstanding=7\tcompleted=4000")
                                    CQ(6, 2, "\toutstanding=1\tcompleted=6000\terror=5,2,I/O")
                                            EP(7, 2, 5, "\twrite=9,900;9:9"));
        cr_assert_eq(net.n_nics, 2);
        cr_assert_eq(net.at_ns, 1005000, "a CLOCK_MONOTONIC as time since 1970");
        cr_assert_str_eq(net.nics[0].name, "efa_2-rdm", "most outstanding first");
        cr_assert_eq(net.nics[0].outstanding, 8, "of all its queues");
        cr_assert_eq(net.nics[0].completed_ns, 1004000, "the last of all its queues");
        cr_assert(net.nics[0].errors == 2 && !strcmp(net.nics[0].error, "I/O") &&
                  net.nics[0].receives == 0);
        cr_assert_str_eq(net.nics[1].pci, "0000:11:00.0");
        cr_assert_eq(net.nics[1].outstanding, 2);
        cr_assert_eq(net.nics[1].completed_ns, 1003000);
        cr_assert(net.nics[1].receives == 6 && net.nics[1].refused == 5 && net.nics[1].errors == 0);
}

/* Nothing is said that is not known. */
Test(hang_network, not_known)
{
        see(LOOKED DOMAIN(1, "") CQ(3, 1, "\tunsure=1")
                    EP(4, 1, 3, "\tsend=9,900;9:9\trecv=10,1000;9:10"));
        cr_assert(net.n_nics == 1 && net.nics[0].unsure && net.nics[0].outstanding == 0);
        cr_assert_eq(net.nics[0].completed_ns, 0);
        cr_assert_eq(net.nics[0].receives, 0, "the queue does not tell what it received");
        see(LOOKED DOMAIN(1, "") CQ(3, 1, "\treceived=4,400") EP(4, 1, 3, "\trecv=10,1000;9:10")
                    EP(5, 1, 3, "\tclosed=1\trecv=10,1000;9:10"));
        cr_assert_eq(net.nics[0].receives, 0, "which of them were the closed one's?");
        see(LOOKED DOMAIN(1, "\tfolded=1") CQ(3, 1, "\treceived=4,400")
                    EP(4, 1, 3, "\trecv=10,1000;9:10"));
        cr_assert_eq(net.nics[0].receives, 0, "some have no line of their own");
        see(LOOKED DOMAIN(1, "\tclosed=1") DOMAIN(2, "") CQ(3, 1, "\toutstanding=2")
                    EP(4, 1, 3, "\tsend=9,900;9:9"));
        cr_assert_eq(net.n_nics, 0, "one is closed, the other unused");
        see(LOOKED DOMAIN(1, "") CQ(3, 1, "\tclosed=1\toutstanding=2")
                    EP(4, 1, 3, "\tsend=9,900;9:9"));
        cr_assert(net.n_nics == 1 && net.nics[0].outstanding == 0, "that queue is closed");
        see(DOMAIN(1, "") CQ(3, 1, "") EP(4, 1, 3, "\tsend=9,900;9:9"));
        cr_assert(net.n_nics == 0 && net.at_ns == 0, "a log of before, or nothing was counted");
        see(LOOKED "domain\tid=1\tdomain=0\tname=\033[2Jx\n" EP(4, 1, 3, "\tsend=9,900;9:9"));
        cr_assert_str_eq(net.nics[0].name, "?[2Jx", "nothing steers a terminal");
}
