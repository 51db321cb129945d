/* SPDX-License-Identifier: Apache-2.0 */
/* Who used which NIC: a job of three ranks on two hosts, put together by hand. */
#include <limits.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/network/network_parts.h"
#include "core/log/info.h"

static struct capo_job_info info[][2] = {
        {{(char *)CAPO_INFO_RANK, (char *)"0"}, {(char *)"gpu.numa.0", (char *)"1"}},
        {{(char *)"gpu.numa.0", (char *)"0"}, {(char *)"gpu.numa.1", (char *)"1"}},
        {{(char *)"gpu.numa.0", (char *)"x"}, {(char *)"gpu.numa.x", (char *)"1"}},
};
static struct capo_job_process process[3];
static struct capo_job job = {.processes = process, .n_processes = 3};
static struct capo_fabric *parsed[3];
static struct capo_fabric_job f;

#define DOMAIN(id, provider, nic, sent)                                      \
        "domain\tid=" #id "\tprovider=" provider "\tname=n" #id "\tnic=" nic \
        "\tnuma=1\tsend=2," #sent ";9:2\n"

static void make(const char *machine, const char *first, const char *second, const char *third)
{
        const char *const lines[] = {first, second, third};

        for (unsigned p = 0; p < 3; p++) {
                char text[2048];

                process[p].rank = 2 - (int)p; /* the last process is rank 0 */
                process[p].host = (char *)(p < 2 ? "node-a" : "node-b");
                process[p].info = info[p];
                process[p].n_info = 2;
                snprintf(text, sizeof text, "snapshot\t1\nmachine%s\n%scomplete\t1\n", machine,
                         lines[p]);
                parsed[p] = capo_fabric_parse(text);
        }
        f = (struct capo_fabric_job){.process = parsed, .n_processes = 3};
        fabric_links_make(&f, &job);
}

Test(fabric_links, order_sharers_and_load)
{
        make("", DOMAIN(1, "efa", "0000:10:00.0", 100) DOMAIN(2, "efa", "0000:20:00.0", 300),
             DOMAIN(1, "efa", "0000:10:00.0", 800), DOMAIN(1, "efa", "0000:10:00.0", 0));
        cr_assert_eq(f.n_links, 4);
        /* by rank, then by bytes */
        cr_assert(f.links[0].process == 2 && f.links[1].process == 1);
        cr_assert(f.links[2].process == 0 && f.links[2].sent == 300 && f.links[3].sent == 100);
        /* the same NIC of the same host; the other host's is another */
        cr_assert(f.links[0].sharers == 1 && f.links[1].sharers == 2 && f.links[3].sharers == 2 &&
                  f.links[2].sharers == 1);
        cr_assert_float_eq(f.links[1].load, 800 / 300.0, 1e-9, "over the mean of the four");
        cr_assert_float_eq(f.links[0].load, 0, 1e-9);
        make("", DOMAIN(1, "efa", "0000:10:00.0", 1) DOMAIN(2, "efa", "0000:10:00.0", 2),
             DOMAIN(1, "efa", "0000:10:00.0", 3) DOMAIN(2, "efa", "0000:10:00.0", 4)
                     DOMAIN(3, "efa", "", 5),
             "");
        for (size_t i = 0; i < f.n_links;
             i++) /* several domains of a rank on one NIC are one rank */
                cr_assert_eq(f.links[i].sharers, *f.links[i].domain->nic ? 2u : 0u);
        make("", DOMAIN(1, "efa", "0000:10:00.0", 100), "", "");
        cr_assert(f.n_links == 1 && f.links[0].load == 0, "one NIC is no more loaded than others");
        make("", DOMAIN(1, "efa", "0000:10:00.0", 100), DOMAIN(1, "efa", "0000:10:00.0", 800), "");
        cr_assert(f.links[0].ops == 2 && f.links[0].received_exact && f.links[0].received == 0);
}

Test(fabric_links, the_nearest_of_the_ranks_gpus)
{
        make("", DOMAIN(1, "efa", "0000:10:00.0", 1), DOMAIN(1, "efa", "0000:10:00.0", 1),
             DOMAIN(1, "efa", "0000:10:00.0", 1));
        cr_assert_eq(f.links[0].gpu_numa, -1, "what is no number is not known");
        cr_assert_eq(f.links[1].gpu_numa, 1, "one of two GPUs is on the NIC's node");
        cr_assert_eq(f.links[2].gpu_numa, 1);
        cr_assert_eq(capo_fabric_link_near(&f.links[0]), -1);
        cr_assert_eq(capo_fabric_link_near(&f.links[1]), 1);
        info[1][1].key = (char *)"gpu.busid.1";
        make("", DOMAIN(1, "efa", "0000:10:00.0", 1), DOMAIN(1, "efa", "0000:10:00.0", 1), "");
        cr_assert_eq(f.links[0].gpu_numa, 0, "its only GPU is on the other");
        cr_assert_eq(capo_fabric_link_near(&f.links[0]), 0);
}

Test(fabric_links, data_over_the_kernel_is_warned_of)
{
        char text[256];

        make("\tinfiniband=mlx5_0", DOMAIN(1, "tcp;ofi_rxm", "", 900),
             DOMAIN(1, "verbs", "0000:10:00.0", 100), "");
        cr_assert(capo_fabric_job_warning(&f, &job, text, sizeof text));
        cr_assert_str_eq(
                text,
                "90 % of the network traffic went over tcp;ofi_rxm (n1), though node-a has InfiniBand or EFA "
                "devices mlx5_0");
        make("\tinfiniband=mlx5_0\tcxi=cxi0", DOMAIN(1, "tcp", "", 900),
             DOMAIN(1, "verbs", "", 100), "");
        cr_assert(capo_fabric_job_warning(&f, &job, text, sizeof text));
        cr_assert(strstr(text, "Slingshot devices cxi0"));
        make("\tcxi=cxi0", DOMAIN(1, "tcp", "", 50) DOMAIN(2, "tcp", "", 50),
             DOMAIN(1, "cxi", "", 900), "");
        cr_assert(capo_fabric_job_warning(&f, &job, text, sizeof text), "a tenth");
        cr_assert(strstr(text, "10 % of the network traffic went over tcp (n1),"),
                  "of two the first: %s", text);
}

Test(fabric_links, no_warning_without_reason)
{
        char text[256];

        make("", DOMAIN(1, "tcp", "", 900), "", "");
        cr_assert_null(capo_fabric_job_warning(&f, &job, text, sizeof text), "no better devices");
        make("\tcxi=cxi0", DOMAIN(1, "tcp", "", 99), DOMAIN(1, "cxi", "", 901), "");
        cr_assert_null(capo_fabric_job_warning(&f, &job, text, sizeof text), "less than a tenth");
        make("\tcxi=cxi0", DOMAIN(1, "tcp", "", 0), "", "");
        cr_assert_null(capo_fabric_job_warning(&f, &job, text, sizeof text),
                       "nothing went over it");
}

Test(fabric_links, what_was_received_counts_too)
{
        info[2][0].value = (char *)"-5"; /* no node */
        make("",
             "domain\tid=1\tprovider=efa\tname=a\tsend=2,300;9:2\n"
             "domain\tid=2\tprovider=efa\tname=b\tsend=2,500;9:2\treceived=1,400\n",
             "", "domain\tid=3\tprovider=efa\tname=c\tnic=0000:10:1b.0\n");
        cr_assert_eq(f.n_links, 3);
        cr_expect(f.links[1].sent == 500 && f.links[1].received == 400 && f.links[2].sent == 300);
        cr_expect(f.links[0].process == 2 && f.links[0].gpu_numa == -1);
        info[2][0] = (struct capo_job_info){(char *)"gpu.numa.0", (char *)"2147483647"};
        make("", "", "", DOMAIN(1, "efa", "0000:10:00.0", 1));
        cr_expect_eq(f.links[0].gpu_numa, INT_MAX);
        info[2][0].value = (char *)"2147483648";
        make("", "", "", DOMAIN(1, "efa", "0000:10:00.0", 1));
        cr_expect_eq(f.links[0].gpu_numa, -1);
}
