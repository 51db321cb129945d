/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: what to choose, for which communicator, at which size. docs/profile-format.md is the
 * format for people; this is the same thing in memory. Made by capo_profile_load (a JSON profile,
 * or NVIDIA's example-tuner CSV) or built with the functions below and written with
 * capo_profile_write.
 *
 * A profile is a list of rules. A rule has a `when` and, per collective, rows by rising size. The
 * most specific rule whose `when` holds and that lists the collective decides (core/profile/match.h
 * has the order). It decides every size, because the last row of a list reaches "max".
 *
 * Sizes are bytes as NCCL gives them to a tuner: all-gather and reduce-scatter the total over all
 * ranks, else count x element size (NCCL src/include/info.h; nccl-tests prints the same number in
 * its first column). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "capo/call_kinds.h"

#define CAPO_PROFILE_VERSION 1

/* Both ends included. CAPO_ANY matches also values not known; other ranges do not. */
struct capo_range {
        double min, max;
};
#define CAPO_ANY ((struct capo_range){-1, -1})

/* One thing NCCL's cost table shows about links, at any size: core/profile/match.h says how. */
enum capo_link { CAPO_LINK_ANY = 0, CAPO_LINK_NVLINK, CAPO_LINK_OTHER };

/* When a rule holds. Texts are owned by the profile (capo_profile_keep), NULL = any. The last five
 * can change from call to call; the others are settled when the communicator is made. */
struct capo_when {
        struct capo_range nodes, ranks;
        struct capo_range min_local, max_local; /* ranks on the node with the fewest and the most */
        struct capo_range
                nccl;       /* NCCL_VERSION_CODE: 22809 is 2.28.9; "2.28-2.30" is 22800 to 23099 */
        const char *layout; /* "3+5", in rank order; "4+3x8 in any order", "even", "uneven" */
        const char *trays;  /* the same of hosts, which NCCL may count together: NVLink domains */
        const char *class_name; /* key "class": allocation class by `capo run`, compared as text */
        const char *comm;       /* communicator name, fnmatch(3) pattern */

        struct capo_range
                pipe_ops; /* NCCL's numPipeOps: collectives fused or grouped into one question */
        struct capo_range ring_gbs; /* bus bandwidth the cost table implies for Ring/Simple;
                                       questions >= 16 MiB only */
        struct capo_range tree_gbs;
        uint8_t link;    /* enum capo_link */
        int8_t reg_buff; /* -1 any; 0, 1. May differ between ranks: see docs/profile-format.md */
};

struct capo_row {
        uint64_t from, upto;  /* both included; from = previous upto + 1 in JSON, free in CSV */
        const char *kernel;   /* a symmetric kernel, as algSelection names it: "SYMK_RSxLD_AGxST";
                                NULL: none */
        const char *measured; /* of a rule over a range: "2, 4, 8 nodes"; NULL: all of it */
        uint8_t algo, proto;  /* enum capo_algo, capo_proto; both 0: leave to NCCL */
        uint8_t channels;     /* 1 .. CAPO_CHANNELS_MAX; 0: NCCL's own number */
        uint8_t coll;         /* enum capo_coll */
        uint8_t ctas;         /* 1 .. CAPO_CHANNELS_MAX; 0: not said, and so below */
        uint8_t cluster;      /* thread blocks of one, plus 1 */
        uint8_t cta_policy;   /* NCCL's bits: 1 efficiency, 2 zero */
        bool predicted;       /* no clock has seen it: it decides only where modelled rules may */
        uint32_t chunk;   /* bytes that travel at a time; 0: NCCL's own. Only with algo and proto */
        uint32_t line;    /* in the file; 0 when built */
        uint32_t samples; /* behind us; 0 not known */
        float us; /* measured or modelled time of this choice, at the largest size measured in the
                     row; NAN */
        float spread_us; /* its standard deviation; NAN not known */
        float gain;      /* (NCCL's default - us) / default: 0.12 is 12 % faster; NAN not known */
        uint32_t rule;   /* the profile's rule that has it */
};
#define CAPO_CHANNELS_MAX \
        64 /* MAXCHANNELS since NCCL 2.25; more overflows nothing but helps nobody */
#define CAPO_CLUSTER_MAX 8  /* cgaClusterSize: 0 to 8 (NCCL 2.31) */
#define CAPO_CHUNK_MIN   16 /* LL's grain, the smallest there is */
#define CAPO_CHUNK_MAX \
        (64u << 20) /* NCCL cuts what its buffers have no room for: 2 MiB, unless NCCL_BUFFSIZE \
                       says more */

/** capo_row_turned() - does @row ask for what only a call's own config can have (NCCL 2.31,
 * ncclAllReduceConfig and the like)? */
static inline bool capo_row_turned(const struct capo_row *row)
{
        return row->kernel || row->ctas || row->cluster || row->cta_policy;
}

/** capo_row_turned_text() - "symk RSxLD_AGxST, 16 CTAs, clusters of 4, CTA policy zero"; "" for
 * none of these. Returns @text. */
char *capo_row_turned_text(const struct capo_row *row, char *text, size_t room);
#define CAPO_TURNED_TEXT 128

/* A value of NCCL's model constants to overwrite (tuner v5 and later). Index 2 is unused where a
 * table has two. */
struct capo_constant {
        uint8_t table; /* enum capo_constant_table */
        uint8_t index[3];
        double value; /* us for latencies, GB/s for bandwidths */
        uint32_t line;
};
enum capo_constant_table {
        CAPO_CONST_BASE_LATENCY,  /* [algo 7][proto 3] */
        CAPO_CONST_HW_LATENCY,    /* [link 3][algo 7][proto 3] */
        CAPO_CONST_LL_BW,         /* [gpu 4][scale 3], and so on below */
        CAPO_CONST_RING_LL128_BW, /* per channel */
        CAPO_CONST_TREE_LL128_BW,
        CAPO_CONST_TREE_BW,
        CAPO_CONST_NVLS_TREE_BW,
        CAPO_CONST_TABLES,
};

enum capo_basis { CAPO_BASIS_MEASURED, CAPO_BASIS_MODELLED };

struct capo_rule {
        struct capo_when when;
        uint8_t basis; /* enum capo_basis */
        uint32_t line;
        /* rows first[c] .. first[c] + count[c] - 1 of the profile's rows are this rule's for
         * collective c */
        uint32_t first[CAPO_NCCL_COLLS], count[CAPO_NCCL_COLLS];
        struct capo_constant *constants;
        uint32_t n_constants;
};

/* A line of "provenance" or "platform": key and value as JSON ("\"me\"", "40", "[1, 2]"). */
struct capo_note {
        const char *key, *json;
};
enum capo_section { CAPO_PROVENANCE, CAPO_PLATFORM, CAPO_SECTIONS };

struct capo_profile {
        char *file;       /* path it was read from, or the name given to capo_profile_new */
        const char *name; /* key "name"; "" when absent */
        char digest[33];  /* XXH3 128 bits of the file's bytes, hexadecimal; "" when built */
        bool csv; /* read from CSV: rows may overlap, the first in the file that fits wins */

        struct capo_rule *rules;
        uint32_t n_rules;
        struct capo_row *rows; /* all rows; capo_record.rule is 1 + index here (65535: beyond) */
        uint32_t n_rows;
        uint32_t old_layouts_line; /* of the key "layouts", which older versions wrote; 0 none */
        struct capo_note *notes[CAPO_SECTIONS];
        uint32_t n_notes[CAPO_SECTIONS];
        void *arena; /* texts */
};

/* What went wrong, ready to print: "file:line:column: expected ..., found ...". */
struct capo_fault {
        char text[512];
};

/** capo_profile_load() - read a profile, JSON or CSV (distinguished by the first character that is
 * not blank: '{' is JSON)
 * @path:  a file; "-" is standard input
 * @out:   set only on success; free with capo_profile_free
 * @fault: may be NULL
 *
 * Return: 0; -errno of open or read; -EINVAL what is in it is wrong; -EFBIG larger than
 * CAPO_PROFILE_BYTES_MAX; -ENOMEM. fault->text is set for each. */
int capo_profile_load(const char *path, struct capo_profile **out, struct capo_fault *fault);
#define CAPO_PROFILE_BYTES_MAX (256u << 20)

/** capo_profile_parse() - the same from memory. @text may lack a 0; @file is named in faults. */
int capo_profile_parse(const char *text, size_t size, const char *file, struct capo_profile **out,
                       struct capo_fault *fault);

/** capo_profile_free() - NULL is fine. */
void capo_profile_free(struct capo_profile *profile);
void capo_profile_freep(struct capo_profile **profile);

/* ---- building one ---- */

/** capo_profile_new() - an empty profile called @name. NULL: no memory. */
struct capo_profile *capo_profile_new(const char *name);

/** capo_profile_keep() - copy of @text that lives as long as @profile; NULL for NULL or no memory.
 */
const char *capo_profile_keep(struct capo_profile *profile, const char *text);

/**
 * capo_profile_note()        - add a text to a section ("date" -> "2026-11-20"), quoted and escaped
 * capo_profile_note_number() - add a number
 * Return: 0 or -ENOMEM.
 */
int capo_profile_note(struct capo_profile *profile, enum capo_section section, const char *key,
                      const char *text);
int capo_profile_note_number(struct capo_profile *profile, enum capo_section section,
                             const char *key, double value);

/** capo_profile_note_json() - the same with a value that is JSON text already. */
int capo_profile_note_json(struct capo_profile *profile, enum capo_section section, const char *key,
                           const char *json);

/** capo_profile_rule() - append a rule that matches everything; set its `when` in place. The
 * pointer is good until the next rule is added. NULL: no memory. */
struct capo_rule *capo_profile_rule(struct capo_profile *profile, enum capo_basis basis);

/** capo_profile_row() - append a row to the last rule
 * @row: algo and proto both 0 is "leave to NCCL"; from and line are ignored; us, spread_us, gain:
 * NAN when not known
 *
 * Rows of one collective are added together and by rising @row->upto, the last one with UINT64_MAX.
 *
 * Return: 0; -EINVAL out of order, no rule yet, or only one of algo and proto given; -ENOMEM. */
int capo_profile_row(struct capo_profile *profile, const struct capo_row *row);

/** capo_profile_constant() - append to the last rule. 0; -EINVAL no rule or index; -ENOMEM. */
int capo_profile_constant(struct capo_profile *profile, const struct capo_constant *constant);

/** capo_profile_write() - as JSON; equal profiles give equal bytes. Return: 0, or -errno. */
int capo_profile_write(const struct capo_profile *profile, FILE *out);

/** capo_profile_write_csv() - as NVIDIA's example-tuner CSV (10 fields). The format has no
 * conditions other than nodes, ranks, pipe_ops and reg_buff, no modelled rules, no "leave to
 * NCCL", no constants, no chunks and no overridden calls. Such things are left out, each named
 * once through @left_out (may be NULL). Return: number of lines, or -errno. */
int capo_profile_write_csv(const struct capo_profile *profile, FILE *out, FILE *left_out);

/** capo_profile_modelled() - number of its modelled rules. */
uint32_t capo_profile_modelled(const struct capo_profile *profile);

/** capo_profile_turned() - number of its rows that turn calls (capo_row_turned()). */
uint32_t capo_profile_turned(const struct capo_profile *profile);

/** capo_profile_chunks() - number of its rows that say how large a chunk is. */
uint32_t capo_profile_chunks(const struct capo_profile *profile);

/** capo_profile_agreement() - what every rank must have alike, in one word: the digest, and
 * "+modelled" after it where modelled rules may decide. CAPO_PROFILE_DIGEST is this. Return: @text.
 */
#define CAPO_AGREEMENT 160 /* bytes of @text */
const char *capo_profile_agreement(const struct capo_profile *profile, bool allow_modelled,
                                   const char *trial, char text[CAPO_AGREEMENT]);

/** capo_when_print() - the condition, "nodes=2 layout=3+5", or "always". Returns @text. */
char *capo_when_print(const struct capo_when *when, char *text, size_t room);

/** capo_layout_canonical() - "5 + 3" to "3+5"; "even", "uneven" (also spelled "min<max") as they
 * are. Return: 0; -EINVAL when @text is none of that, -ENOSPC when it does not fit. */
int capo_layout_canonical(const char *text, char *out, size_t room);
