/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FABRIC frames of one log, taken apart: what a process did over libfabric, per domain (that is: per NIC) and per
 * endpoint and queue. The lines are described in docs/log-format.md; shim/fabric/text.c writes them.
 */
#ifndef CAPO_FABRIC_READ_H
#define CAPO_FABRIC_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capo/log.h"
#include "core/log/fabric_kinds.h"

extern const char *const capo_fabric_kind_names[CAPO_FI_KINDS];
extern const bool capo_fabric_kind_sends[CAPO_FI_KINDS]; /* the bytes leave, or are fetched by, this side */

struct capo_fabric_hist {
        uint64_t count, sum_ns, max_ns;
        uint32_t bucket[CAPO_HIST_BUCKETS]; /* capo/log.h */
};

#define CAPO_FABRIC_ERRORS 8
struct capo_fabric_error {
        int code; /* FI_E..., positive */
        uint64_t count;
        char text[48]; /* libfabric's own words */
};

/* What was counted, of an object or of all of a domain. */
struct capo_fabric_counts {
        struct {
                uint64_t count, bytes; /* posted; of receives the bytes are the buffers' */
                uint64_t sizes[CAPO_FI_SIZES];
        } kind[CAPO_FI_KINDS];
        uint64_t eagain;                   /* posts refused for the moment */
        uint64_t empty, reads;             /* queue reads that found nothing, and something */
        uint64_t completions;              /* entries they returned */
        uint64_t received, received_bytes; /* completed receives of known length (formats MSG, DATA, TAGGED) */
        uint64_t errors;                   /* all */
        uint64_t overruns;                 /* of those FI_EOVERRUN: a queue was too small */
        struct capo_fabric_error error[CAPO_FABRIC_ERRORS];
        unsigned n_errors; /* rows used */
};

struct capo_fabric_object {
        char kind[8]; /* ep, cq, cntr, eq, pep */
        uint32_t id, domain;
        bool closed;
        char type[8];            /* of an endpoint: msg, rdm, dgram, other */
        char contexts_repeat[8]; /* tx, rx, txrx: not timed, because contexts were not unique */
        struct capo_fabric_counts n;
};

struct capo_fabric_domain {
        uint32_t id;
        char provider[64], fabric[64], name[64], device[64];
        char nic[16];                /* PCI address, "" not known */
        int numa;                    /* -1 not known */
        uint64_t speed_bps;          /* 0 not known */
        unsigned sample;             /* one in so many posts was timed; 0 none */
        struct capo_fabric_counts n; /* of all its endpoints, queues and counters */
        unsigned endpoints, queues;
        uint64_t mr_count, mr_bytes, mr_failed;
        struct capo_fabric_hist mr; /* how long registrations took */
        struct capo_fabric_hist tx; /* post to completion of sends, reads, writes, atomics (CLOCK_MONOTONIC) */
        struct capo_fabric_hist rx; /* of receives: waiting for the peer included */
};

struct capo_fabric_window {
        uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
        uint64_t ops, tx_bytes, rx_bytes;
};

/* What the drain thread saw when it looked at the network, at a moment chosen by chance (shim/fabric/look.c). */
struct capo_fabric_look {
        uint64_t t_ns; /* CLOCK_MONOTONIC, to a microsecond */
        float every_s; /* the time it stands for */
        bool moving;   /* nothing waited, but something was posted to leave, or a completion read, within
                          capo_fabric.slit_ns */
        bool waiting;  /* something posted to leave had not completed */
        bool unsure;   /* more may have been waiting than is known */
};

/* What was posted inside an NCCL call, on the thread that made it. */
struct capo_fabric_inside {
        uint64_t comm_uid;
        uint8_t call; /* enum capo_call_id */
        uint64_t ops, bytes;
};

struct capo_fabric {
        char infiniband[256], cxi[256]; /* devices of the machine, comma separated; "" none */
        struct capo_fabric_domain *domains;
        size_t n_domains;
        struct capo_fabric_object *objects;
        size_t n_objects;
        struct capo_fabric_window *windows;
        size_t n_windows;
        struct capo_fabric_look *looks; /* by time */
        size_t n_looks;
        uint64_t slit_ns;
        uint64_t looks_taken, looks_late; /* ever; of them by more than half a millisecond after their time */
        struct capo_fabric_inside *inside;
        size_t n_inside;
        unsigned bad_lines; /* of the snapshot used: not understood, left out */
};

/**
 * capo_fabric_parse() - the joined text of a log's FABRIC frames
 * @text: lines; the complete snapshot of the highest number is used, or the last one when none is complete
 * @out:  set only on success; capo_fabric_free() it
 *
 * Return: 0; -ENOMEM. Lines and keys this version does not know are left out.
 */
int capo_fabric_parse(const char *text, struct capo_fabric **out);
void capo_fabric_free(struct capo_fabric *f);
static inline void capo_fabric_freep(struct capo_fabric **f)
{
        capo_fabric_free(*f);
}

/** capo_fabric_percentile() - the @p'th part (0..1) of @h in ns, to a sixteenth; 0 when it is empty. */
double capo_fabric_percentile(const struct capo_fabric_hist *h, double p);

/** capo_fabric_counts_add() - @to += @from. */
void capo_fabric_counts_add(struct capo_fabric_counts *to, const struct capo_fabric_counts *from);

/** capo_fabric_hist_add() - @to += @from. */
void capo_fabric_hist_add(struct capo_fabric_hist *to, const struct capo_fabric_hist *from);

/** capo_fabric_sent(), capo_fabric_recv() - bytes out (fetched ones too) and in. *@exact false: receives were counted
 * by the size of their buffers, because the queue's format has no lengths. */
uint64_t capo_fabric_sent(const struct capo_fabric_counts *n);
uint64_t capo_fabric_recv(const struct capo_fabric_counts *n, bool *exact);
uint64_t capo_fabric_ops(const struct capo_fabric_counts *n);

/** capo_fabric_is_slow() - is @provider one that goes through the kernel's network stack (tcp, udp, sockets, net)? */
bool capo_fabric_is_slow(const char *provider);

#endif
