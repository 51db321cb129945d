/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are turned into their Config twins (shim/nccl/call_override.c): what NCCL is given. */
#include <criterion/criterion.h>
#include <limits.h>
#include <string.h>

#include "capo/seam.h"
#include "core/base/util.h"
#include "core/profile/profile_table.h"
#include "shim/nccl/call_override.h"
#include "shim/nccl/tag.h"

/* ---- an NCCL that notes what it is asked ---- */

static struct {
        unsigned plain, twin;
        ncclCollConfig_t config;
        bool same; /* it is the program's own config */
        const ncclCollConfig_t *own;
        ncclResult_t answer;
} seen;

#define PLAIN(name, params)                    \
        static ncclResult_t fake_##name params \
        {                                      \
                seen.plain++;                  \
                return ncclSuccess;            \
        }
#define TWIN(name, params)                                                                     \
        static ncclResult_t fake_##name params                                                 \
        {                                                                                      \
                seen.twin++;                                                                   \
                seen.same = config == seen.own;                                                \
                memcpy(&seen.config, config,                                                   \
                       config->size < sizeof seen.config ? config->size : sizeof seen.config); \
                return seen.same ? ncclSuccess : seen.answer;                                  \
        }
PLAIN(ncclAllReduce, (const void *s, void *r, size_t n, ncclDataType_t type, ncclRedOp_t op,
                      ncclComm_t c, cudaStream_t st))
PLAIN(ncclAllGather,
      (const void *s, void *r, size_t n, ncclDataType_t type, ncclComm_t c, cudaStream_t st))
TWIN(ncclAllReduceConfig, (const void *s, void *r, size_t n, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t st, const ncclCollConfig_t *config))
TWIN(ncclAllGatherConfig, (const void *s, void *r, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t st, const ncclCollConfig_t *config))
TWIN(ncclBroadcastConfig, (const void *s, void *r, size_t n, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t st, const ncclCollConfig_t *config))

static struct capo_nccl lib = {.ncclAllReduce = fake_ncclAllReduce,
                               .ncclAllGather = fake_ncclAllGather,
                               .ncclAllReduceConfig = fake_ncclAllReduceConfig,
                               .ncclAllGatherConfig = fake_ncclAllGatherConfig,
                               .ncclBroadcastConfig = fake_ncclBroadcastConfig,
                               .base = 1,
                               .version = 23203};

static struct capo_tables *tables;
const struct capo_tables *capo_tuner_overrides(uint64_t hash) { return hash == 99 ? tables : NULL; }

static struct capo_ring *ring;
static struct capo_comm
        comm = {.handle = &comm, .lib = &lib, .into = &lib, .n_ranks = 4, .nccl_hash = 99},
        plain = {.handle = &plain, .lib = &lib, .into = &lib, .n_ranks = 4, .nccl_hash = 98};

static void setup(void)
{
        static const char text[] =
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": 400, \"leave\": true}, "
                "{\"upto\": 4000, \"ctas\": 3}, {\"upto\": 8000, \"cluster\": 4}, {\"upto\": \"max\", \"kernel\": "
                "\"symk ST\", \"ctas\": 8, \"cluster\": 2, \"cta_policy\": \"efficiency\"}], "
                "\"allgather\": [{\"upto\": 4000, \"leave\": true}, {\"upto\": \"max\", \"ctas\": 5}], "
                "\"broadcast\": [{\"upto\": \"max\", \"ctas\": 6}]}]}";
        const struct capo_shape shape = {
                .n_ranks = 4, .n_nodes = 1, .min_local = 4, .max_local = 4, .nccl = 23203};
        static struct capo_site_entry sites[CAPO_SITE_CACHE];
        struct capo_profile *p;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t", &p, NULL), 0);
        cr_assert_eq(capo_tables_new(p, &shape, &tables), 0);
        capo_override_settle(&comm);
        capo_override_settle(&plain);
        ring = calloc(1, sizeof *ring + 4 * sizeof(struct capo_record));
        capo_tls = (struct capo_tls){.ready = 1,
                                     .ring = ring,
                                     .mask = 3,
                                     .comm = &comm,
                                     .inside = &comm,
                                     .sites = sites};
        memset(&seen, 0, sizeof seen);
}

TestSuite(call_override, .init = setup);

static ncclResult_t all_reduce(size_t bytes, const ncclCollConfig_t *own)
{
        ncclComm_t handle = comm.handle;

        seen.own = own;
        return own ? comm.into->ncclAllReduceConfig(NULL, NULL, bytes, 0, 0, handle, NULL, own)
                   : comm.into->ncclAllReduce(NULL, NULL, bytes, 0, 0, handle, NULL);
}

static ncclCollConfig_t nothing(void)
{
        return (ncclCollConfig_t){.size = sizeof(ncclCollConfig_t),
                                  .magic = CAPO_NCCL_CONFIG_MAGIC,
                                  .version = 23203,
                                  .minCTAs = INT_MIN,
                                  .maxCTAs = INT_MIN,
                                  .nvlsCTAs = INT_MIN,
                                  .cgaClusterSize = INT_MIN,
                                  .forceAlgSelection = 1,
                                  .CTAPolicy = INT_MIN};
}

Test(call_override, only_what_has_a_rule)
{
        cr_expect(plain.into == &lib && comm.into != &lib);
        cr_expect_eq(all_reduce(400, NULL), ncclSuccess);
        cr_expect(seen.plain == 1 && seen.twin == 0);
        cr_expect_eq(all_reduce(0, NULL), ncclSuccess);
        cr_expect(seen.plain == 2 && seen.twin == 0);
        ring->records[0].rule = 0;
        cr_expect_eq(all_reduce(401, NULL), ncclSuccess);
        cr_assert(seen.plain == 2 && seen.twin == 1);
        cr_expect(seen.config.minCTAs == 3 && seen.config.maxCTAs == 3 &&
                  seen.config.cgaClusterSize == INT_MIN && seen.config.CTAPolicy == INT_MIN &&
                  !seen.config.algSelection &&
                  seen.config.userProfilerTag >> 48 == CAPO_TAG_OURS >> 48 && !capo_tls.tag &&
                  seen.config.size == 72);
        cr_expect_eq(ring->records[0].rule, 2, "in the record");
        cr_expect_eq(all_reduce(8001, NULL), ncclSuccess);
        cr_expect_str_eq(seen.config.algSelection, "SYMK_ST");
        cr_expect(seen.config.forceAlgSelection == 0 && seen.config.minCTAs == 8 &&
                  seen.config.cgaClusterSize == 2 && seen.config.CTAPolicy == 1);
        /* sizes are those of rows: all ranks' parts for an all-gather */
        cr_expect_eq(comm.into->ncclAllGather(NULL, NULL, 1000, 0, comm.handle, NULL), ncclSuccess);
        cr_expect_eq(seen.plain, 3);
        cr_expect_eq(comm.into->ncclAllGather(NULL, NULL, 1001, 0, comm.handle, NULL), ncclSuccess);
        cr_expect(seen.plain == 3 && seen.config.minCTAs == 5);
        cr_expect_eq(comm.into->ncclBcast(NULL, 8, 0, 0, comm.handle, NULL), ncclSuccess);
        cr_expect(seen.plain == 3 && seen.config.minCTAs == 6, "as the broadcast that it is");
}

Test(call_override, the_programs_own_fields_win)
{
        ncclCollConfig_t own = nothing();

        own.userProfilerTag = capo_tls.tag = 7; /* as capo_config_take() does */
        own.algSelection = "ring";
        own.maxCTAs = 2;
        cr_expect_eq(all_reduce(9000, &own), ncclSuccess);
        cr_expect(!seen.same && seen.config.userProfilerTag == 7 && seen.config.maxCTAs == 2 &&
                  seen.config.minCTAs == INT_MIN && seen.config.forceAlgSelection == 1 &&
                  seen.config.cgaClusterSize == 2 && seen.config.CTAPolicy == 1);
        cr_expect_str_eq(seen.config.algSelection, "ring");
        own.cgaClusterSize = 0;
        own.CTAPolicy = 2;
        cr_expect_eq(all_reduce(9000, &own), ncclSuccess);
        cr_expect(seen.same, "nothing is left to a rule");
        own = nothing();
        capo_tls.tag = 0;
        cr_expect_eq(all_reduce(100, &own), ncclSuccess);
        cr_expect(seen.same && seen.plain == 0, "no rule");
        own.size = 64; /* 2.31's */
        own.version = 23102;
        cr_expect_eq(all_reduce(500, &own), ncclSuccess);
        cr_expect(!seen.same && seen.config.size == 64 && seen.config.minCTAs == 3);
        own.size = 257; /* more than is known */
        cr_expect_eq(all_reduce(500, &own), ncclSuccess);
        cr_expect(seen.same);
        own.size = 56;
        cr_expect_eq(all_reduce(500, &own), ncclSuccess);
        cr_expect(seen.same, "NCCL's to refuse");
        own = nothing();
        own.magic = 0;
        cr_expect_eq(all_reduce(500, &own), ncclSuccess);
        cr_expect(seen.same);
}

Test(call_override, a_twin_that_is_refused_is_made_as_it_was_written)
{
        static const struct {
                ncclResult_t answer, result;
                bool again;
        } rows[] = {{ncclInvalidArgument, ncclSuccess, true},
                    {ncclInvalidUsage, ncclSuccess, true},
                    {ncclInProgress, ncclInProgress, false},
                    {ncclSystemError, ncclSystemError, false},
                    {ncclRemoteError, ncclRemoteError, false}};
        ncclCollConfig_t own = nothing();

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                seen.plain = seen.twin = 0;
                seen.answer = rows[i].answer;
                cr_expect_eq(all_reduce(500, NULL), rows[i].result, "row %zu", i);
                cr_expect(seen.twin == 1 && seen.plain == rows[i].again, "row %zu", i);
                seen.twin = 0;
                cr_expect_eq(all_reduce(500, &own), rows[i].result, "row %zu", i);
                cr_expect_eq(seen.twin, rows[i].again ? 2 : 1, "row %zu", i);
        }
}

Test(call_override, one_cluster_size_for_a_group)
{
        struct capo_tls *t = &capo_tls;

        t->group_depth = 1;
        t->group_cluster = INT_MIN;
        cr_expect_eq(all_reduce(5000, NULL), ncclSuccess);
        cr_expect(seen.twin == 1 && seen.config.cgaClusterSize == 4);
        t->group_members = 1;
        cr_expect_eq(all_reduce(9000, NULL), ncclSuccess);
        cr_expect(seen.config.cgaClusterSize == 4 && seen.config.minCTAs == 8,
                  "the first member's");
        cr_expect_eq(all_reduce(100, NULL), ncclSuccess);
        cr_expect(seen.twin == 3 && seen.config.cgaClusterSize == 4 &&
                          seen.config.minCTAs == INT_MIN,
                  "also where no rule speaks");
        t->group_members = 0;
        cr_expect_eq(all_reduce(500, NULL), ncclSuccess);
        t->group_members = 1;
        cr_expect_eq(all_reduce(9000, NULL), ncclSuccess);
        cr_expect_eq(seen.config.cgaClusterSize, INT_MIN, "nor any, where the first has none");
}

Test(call_override, another_release_and_another_thread)
{
        ncclComm_t handle = comm.handle;

        lib.version = 23102;
        cr_expect_eq(all_reduce(500, NULL), ncclSuccess);
        cr_expect(seen.config.size == 64 && seen.config.version == 23100);
        lib.version = 23203;
        capo_tls = (struct capo_tls){.comm = NULL}; /* no ring: it makes the call all the same */
        capo_comm_enter(&comm);
        cr_expect(capo_override_unrecorded(&capo_tls, &lib, handle) == comm.into);
        cr_expect(capo_override_unrecorded(&capo_tls, &lib, &plain) == &lib);
        cr_expect(capo_override_unrecorded(&capo_tls, &lib, NULL) == &lib);
        seen.twin = 0;
        cr_expect_eq(all_reduce(500, NULL), ncclSuccess);
        cr_expect_eq(seen.twin, 1);
        capo_tls.inside = &comm;
        cr_expect(capo_override_unrecorded(&capo_tls, &lib, handle) == &lib, "NCCL's own call");
}

/* As NCCL 2.31.2 works them out: of 128 bytes 0, 1, 2, ...; of that one's second child of colour 3.
 */
Test(call_override, hashes)
{
        ncclUniqueId id;
        uint64_t h;

        for (int i = 0; i < 128; i++)
                id.internal[i] = (char)i;
        h = capo_override_hash(&id);
        cr_expect_eq(h, 0x6afe1cc17717e1f4u, "%llx", (unsigned long long)h);
        h = capo_override_hash_split(h, 2, 3);
        cr_expect_eq(h, 0x761890fa75046d6cu, "%llx", (unsigned long long)h);
        cr_expect_eq(capo_override_hash_split(0, 1, 0), 0, "not known");
}
