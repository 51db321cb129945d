/* SPDX-License-Identifier: Apache-2.0 */
/* Is a measured bus bandwidth normal? It is compared with public measurements on such a machine,
 * else with NCCL's own prediction, else with the ceiling of the links. Pure functions. */
#pragma once

#include "capo/call_kinds.h"
#include "core/base/layout.h"

struct capo_public_rate {
        const char *platform, *layout;
        uint8_t call; /* enum capo_call_id */
        uint64_t bytes;
        double busbw_gbs;
        int nccl; /* 0 not known */
        const char *source;
        bool low; /* out of a complaint: what a fault left */
};

extern const struct capo_public_rate capo_public_rates[];
extern const size_t capo_n_public_rates;

enum { CAPO_EXPECTED_RATES = 4, CAPO_EXPECTED_CAUSES = 4 };

struct capo_expected_shape {
        const char *platform; /* from platforms.def; "" not known */
        bool named;           /* named by the user, so that its NICs are known too */
        struct capo_layout layout;
        size_t n_nics; /* per node; 0 not known */
        bool nvlink;   /* NVLink connects the GPUs of a node */
        bool sharp;    /* and its switches can add (NVLink SHARP) */
};

enum capo_expected_verdict {
        CAPO_EXPECTED_UNKNOWN, /* nothing to compare it with */
        CAPO_EXPECTED_NORMAL,
        CAPO_EXPECTED_LOW,
        CAPO_EXPECTED_NOT_NORMAL,
        CAPO_EXPECTED_IMPOSSIBLE, /* more than the links carry: it is another machine or layout */
};

enum capo_expected_by { CAPO_BY_NOTHING, CAPO_BY_PUBLIC, CAPO_BY_NCCL, CAPO_BY_CEILING };

struct capo_expected_row {
        uint8_t call; /* enum capo_call_id */
        uint64_t bytes;
        double measured;  /* bus bandwidth, GB/s */
        double predicted; /* by NCCL's model; 0 not known */
        double ceiling;   /* of the links; 0 not known */
        /* set by capo_expected_judge() */
        const struct capo_public_rate
                *rates[CAPO_EXPECTED_RATES]; /* matching ones: of the named platform first; lowest
                                                rate first */
        unsigned n_rates;
        double normal; /* the value it was compared with; 0: none */
        enum capo_expected_by by;
        enum capo_expected_verdict verdict;
};

/** capo_expected_judge() - compare @row with what is normal
 *
 * Limits: with public measurements, 80 % and more is normal, below 50 % is not. NCCL's model has
 * larger errors (docs/internals/models.md): 70 % and 40 %, below 64 MiB 40 % and 20 %. Software
 * does not reach ceilings: 60 % is normal, below 10 % is not, between them there is no verdict. 20
 * % above the ceiling is impossible: planning constants are up to 14 % below the links. */
void capo_expected_judge(const struct capo_expected_shape *shape, struct capo_expected_row *row);

struct capo_expected_cause {
        const char *name, *text, *next;
        char proof[64]; /* the text that was found; "": none */
};

/** capo_expected_causes() - possible causes of a low @row, likely ones first
 * @has: does the evidence (logs, settings) contain this text?
 *
 * Return: how many, at most CAPO_EXPECTED_CAUSES. */
unsigned capo_expected_causes(const struct capo_expected_shape *shape,
                              const struct capo_expected_row *row,
                              bool (*has)(const char *text, void *arg), void *arg,
                              struct capo_expected_cause *out);

/** capo_expected_misfit() - the reason why measurements on @gpu ("H100 80GB HBM3"; "" not known) do
 * not apply to a machine whose GPUs have compute capability @sm (90; 0 not known). @named: the
 * machine is from platforms.def, whose GPUs are all modules with NVLink. Return: text to follow the
 * GPU's name; NULL: they apply. */
const char *capo_expected_misfit(const char *gpu, int sm, bool named);

/** capo_expected_by_gpu() - judge a row of one node by the name of its GPUs alone
 * @gpu: "NVIDIA H100 80GB HBM3"
 * @shape: its layout is set; the rest is set here
 * @row: its ceiling and verdict are set: by public measurements of such nodes, else by the GPU's links
 *
 * Return: is there something to compare it with? false: also for several nodes. */
bool capo_expected_by_gpu(const char *gpu, struct capo_expected_shape *shape,
                          struct capo_expected_row *row);

/** capo_expected_word() - in JSON: "normal", "low", "not-normal", "impossible", "unknown";
 * capo_expected_by_word() - "public", "nccl", "ceiling", "". Static. */
const char *capo_expected_word(enum capo_expected_verdict verdict);
const char *capo_expected_by_word(enum capo_expected_by by);
