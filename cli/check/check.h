/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this node, are these nodes fit for a job? A node is what doctor finds there and its facts;
 * nodes are compared by their facts. Both are JSON from the beginning, because nodes meet as text:
 *
 *      node: {"node": name, "index": n, "time_s": t, "findings": [{level, topic, text}],
 *             "facts": {name: text}}
 *      page: {"capo_check": 1, "verdict": ..., "nodes": [node], "differences": [...],
 *             "missing": [index]}
 */
#ifndef CAPO_CHECK_H
#define CAPO_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/doctor/doctor.h"

struct check_options {
        bool json, strict;
        const char *dir; /* shared folder where nodes meet; NULL: this node alone */
        const char *merge;
        int nodes, index; /* of the job; -1: as the launcher says */
        double wait_s;
        double limit_s;              /* for the look at this node; 0: as it has GPUs or not */
        int gpus;                    /* how many are expected; -1: any number */
        const char *topo, *platform; /* what is expected; NULL: nothing */
        const char *size;            /* also time an all-reduce of so much; NULL: none */
        uint64_t bytes;              /* the same */
};

/** check_node() - look at this machine. @reach: its NCCL. Return: the node; NULL without memory. */
json_t *check_node(const struct check_options *o, int index, struct capo_reach *reach);

/**
 * check_guarded() - what is found on this node within a limit of time
 * @rows:  findings are appended; the last says so where the look was given up
 * @facts: what nodes are compared by; unchanged where the look did not come to them
 *
 * Return: is it complete?
 */
bool check_guarded(const struct check_options *o, struct capo_reach *reach, json_t *rows,
                   json_t **facts);

/** check_finding_rows() - findings from number @from on, as a node has them. */
json_t *check_finding_rows(const struct capo_findings *f, size_t from);

/** check_reduce_node() - an all-reduce over the GPUs of this node. */
void check_reduce_node(struct capo_findings *f, const struct check_options *o, const char *libnccl);

/** check_lead() - on node 0: all-reduces over all nodes and parts of them; what they say becomes
 * findings of the first of @nodes. */
void check_lead(const struct check_options *o, json_t *nodes, const char *libnccl);

/** check_follow() - on the other nodes: take part until node 0 ends it. Return: 0; -ETIMEDOUT. */
int check_follow(const struct check_options *o, const json_t *node, const char *libnccl);

/** check_facts() - what nodes of one job should have alike. */
json_t *check_facts(const struct capo_reach *reach);

/** check_libraries() - do capo's and NCCL's libraries load here, does a preload? */
void check_libraries(struct capo_findings *f, const struct capo_reach *reach);

/** check_machine() - the GPUs, links and NICs here against what is expected, and each other. */
void check_machine(struct capo_findings *f, const struct check_options *o);

/** check_clock() - does this machine's clock follow others? */
void check_clock(struct capo_findings *f);

/** check_page() - nodes with their differences and the verdict. @nodes, @missing: taken. */
json_t *check_page(json_t *nodes, json_t *missing);

void check_print(const json_t *page, FILE *out);

/** check_failed() - is there a FAIL? @strict: or a warning or a difference? */
bool check_failed(const json_t *page, bool strict);

/** check_read() - nodes of pages in @path, a page a line; what stands in front of a page's { is a
 * launcher's. Return: 0; -errno with a message. */
int check_read(json_t *nodes, const char *path);

/**
 * check_gather() - leave @node in the folder, and, on node 0, wait for the others
 * @nodes: on node 0 filled with all that came; @missing with the numbers of the others
 *
 * Return: 1 on node 0, 0 elsewhere; -errno with a message.
 */
int check_gather(const struct check_options *o, json_t *node, json_t *nodes, json_t *missing);

/** check_place() - number of nodes and which one this is, by options or launcher; @local: which
 * process of this node. */
void check_place(const struct check_options *o, int *nodes, int *index, int *local);

#endif
