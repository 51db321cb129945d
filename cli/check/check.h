/* SPDX-License-Identifier: Apache-2.0 */
/* Is a node, or are several nodes fit for a job? A node has doctor's findings and facts; nodes are
 * compared by their facts. Both are JSON throughout, because nodes exchange them as text:
 *
 *      node: {"node": name, "index": n, "time_s": t, "findings": [{level, topic, text}],
 *             "facts": {name: text}}
 *      page: {"capo_check": 1, "verdict": ..., "nodes": [node], "differences": [...],
 *             "missing": [index]} */
#pragma once

#include <jansson.h>

#include "cli/doctor/doctor.h"
#include "core/base/util.h"

struct check_options {
        bool json, strict;
        const char *dir; /* shared folder to exchange results; NULL: only this node */
        const char *merge;
        int nodes, index; /* -1: from the launcher */
        double wait_s;
        double limit_s; /* time limit for checking this node; 0: depends on whether it has GPUs */
        int gpus;       /* expected number; -1: any */
        const char *topo, *platform; /* expected machine; NULL: none */
        const char *size;            /* also time an all-reduce of this size; NULL: none */
        uint64_t bytes;              /* the same in bytes */
};

/** check_guarded() - check this node within a time limit
 * @rows: findings are appended; if the check was stopped, the last one says so
 * @facts: facts for comparison; unchanged if the check did not get to them
 *
 * Return: is it complete? */
bool check_guarded(const struct check_options *o, struct capo_reach *reach, json_t *rows,
                   json_t **facts);

/** check_finding() - append a finding, printf-like, to the rows of a node. */
void check_finding(json_t *rows, enum capo_finding_level level, const char *topic,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/** check_reduce_node() - time an all-reduce over the GPUs of this node. */
void check_reduce_node(json_t *rows, const struct check_options *o, const char *libnccl);

/** check_lead() - on node 0: time all-reduces over all nodes and over parts of them; findings are
 * added to the first of @nodes. */
void check_lead(const struct check_options *o, json_t *nodes, const char *libnccl);

/** check_follow() - on the other nodes: take part until node 0 ends. Return: 0; -ETIMEDOUT. */
int check_follow(const struct check_options *o, const json_t *node, const char *libnccl);

/** check_facts() - properties that should be equal on all nodes of a job. */
json_t *check_facts(const struct capo_reach *reach);

/** check_libraries() - do capo's and NCCL's libraries load here, and does a preload work? */
void check_libraries(struct capo_findings *f, const struct capo_reach *reach);

/** check_machine() - compare GPUs, links and NICs with what is expected, and with each other. */
void check_machine(struct capo_findings *f, const struct check_options *o);

/** check_clock() - is this machine's clock synchronised? */
void check_clock(struct capo_findings *f);

/** check_page() - nodes, differences and verdict. Takes ownership of @nodes and @missing. */
json_t *check_page(json_t *nodes, json_t *missing);

/** check_list() - "node1, node2 and 5 more". Return: @text. */
char *check_list(const json_t *names, char text[400]);

void check_print(const json_t *page, FILE *out);

/** check_failed() - is there a FAIL? @strict: a warning or a difference counts too. */
bool check_failed(const json_t *page, bool strict);

/** check_read() - read the nodes of pages in @path, one page per line; text before a page's { is a
 * launcher's label. Return: 0; -errno with a message. */
int check_read(json_t *nodes, const char *path);

/** check_gather() - put @node into the folder and, on node 0, wait for the others
 * @n, @index: of nodes, and of this one
 * @nodes: on node 0 filled with all results; @missing with the indices of missing nodes
 *
 * Return: 1 on node 0, 0 elsewhere; -errno with a message. */
int check_gather(const struct check_options *o, int n, int index, json_t *node, json_t *nodes,
                 json_t *missing);

/** check_place() - number of nodes and this node's index, from options or launcher; @local: index
 * of this process on its node. */
void check_place(const struct check_options *o, int *nodes, int *index, int *local);
