/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C++ program that catches what NCCL EP throws through its C interface. The calls after it work,
 * and the objects between have their destructors run. usage: app_catch [aborts]: CreateGroup
 * without a communicator is an assertion of the library.
 */
#include <cstdio>
#include <cstring>
#include <exception>

extern "C" {
#include <nccl_ep.h>
#include "../jobs/perf_job.h"
}

static int n_destroyed, n_caught;

struct noticed {
        ~noticed() { n_destroyed++; }
};

template <typename F> static void expect_throw(F call)
{
        try {
                noticed n;

                call();
        } catch (const std::exception &e) {
                n_caught++;
        } catch (...) {
                n_caught++;
        }
}

int main(int argc, char **argv)
{
        struct job job;
        int error = 0, mask[8] = {0};
        ncclEpGroup_t group = nullptr;
        ncclEpGroupConfig_t config = {};

        job_open(&job, "world");
        config.size = sizeof config;
        config.magic = NCCL_EP_MAGIC;
        config.version = NCCL_EP_API_VERSION;
        config.num_experts = 8;
        config.max_dispatch_tokens_per_rank = 4;
        config.max_token_bytes = 32;
        NCCL_CHECK(ncclEpCreateGroup(&group, job.comm, &config));
        if (argc > 1 && !strcmp(argv[1], "aborts"))
                ncclEpCreateGroup(&group, nullptr, &config);
        for (int i = 0; i < 3; i++) {
                expect_throw([] { ncclEpErrorClear(nullptr); });
                expect_throw([&] { ncclEpGetAsyncError(nullptr, &error); });
                expect_throw([&] { ncclEpMaskQuery(nullptr, mask, job.stream); });
        }
        NCCL_CHECK(ncclEpGroupDestroy(group));
        job_close(&job);
        printf("%d caught, %d destroyed\n", n_caught, n_destroyed);
        return n_caught != 9 || n_destroyed != 9;
}
