/* SPDX-License-Identifier: Apache-2.0 */
/* The drain: takes finished calls out of the rings of a segment, counts them into cells, keeps the
 * last ones (or, when everything is traced, all of them) and writes the log. It works on a mapped
 * segment and nothing else, so the living process and the one that recovers a dead one run the same
 * code. One caller at a time. */
#pragma once

#include "core/log/log_output.h"

struct capo_drain; /* look-up tables and buffers, private to whoever drains */

/** capo_site_text_fn - pc[] to @text, once per new site; Return: bytes of it. */
typedef unsigned (*capo_site_text_fn)(const struct capo_seg_site *site, char *text, unsigned room);

/** capo_drain_new() - Return: 0; -ENOMEM. No file is touched yet. */
int capo_drain_new(struct capo_segment *seg, struct capo_drain **out);
void capo_drain_free(struct capo_drain *d);

/** capo_drain_forget() - the same in a fork's child: what the parent writes on is let go of, too.
 */
void capo_drain_forget(struct capo_drain *d);

/** capo_drain_create_log() - make the log at header.log_path, or beside it where that name is taken
 * Return: 0; -errno: there will be no log, records are still counted. */
int capo_drain_create_log(struct capo_drain *d);

/** capo_drain_into() - before capo_drain_take_over(): all that is known goes into an empty file
 * that has no name (memfd_create), and no other is touched. @fd stays the caller's. */
void capo_drain_into(struct capo_drain *d, int fd);

/** capo_drain_take_over() - go on with a dead process's log, at its last commit, or make it. */
int capo_drain_take_over(struct capo_drain *d);

/** capo_drain_round() - take out what is finished; with trace_all write the blocks that are full
 * Return: the number of records taken. */
unsigned capo_drain_round(struct capo_drain *d);

/** capo_drain_waits() - a block is full, and there is no log to write it to. */
bool capo_drain_waits(const struct capo_drain *d);

/** capo_drain_fullest() - after a round: how full the fullest ring was before it, 0 .. 1. */
double capo_drain_fullest(const struct capo_drain *d);

/** capo_drain_checkpoint() - write text, what changed of the rest, and a not-clean END. */
int capo_drain_checkpoint(struct capo_drain *d);

/** capo_drain_text() - write waiting text only (early, so that the log says whose it is). */
int capo_drain_text(struct capo_drain *d);

/** capo_drain_goes_on() - capo_drain_finish() may not be the last: it leaves the log open. */
void capo_drain_goes_on(struct capo_drain *d);

/** capo_drain_finish() - checkpoint, the flight recorder, END with @clean (1 exit, 2 killed); sync
 * when taken over. Return: 0; -errno: log and segment are as before, for another try or for `capo
 * report` to recover. */
int capo_drain_finish(struct capo_drain *d, unsigned clean);

/** capo_drain_near_max() - has the log reached three quarters of CAPO_LOG_MAX? */
bool capo_drain_near_max(const struct capo_drain *d);

/** capo_drain_quiet() - after capo_drain_finish(): nothing that it has not written has come since,
 * and no thread is in a call. */
bool capo_drain_quiet(const struct capo_drain *d);

/** capo_drain_wait() - how long to wait until what failed is tried again, ns: longer each time, 0.1
 * to 10 seconds. @before_ns: 0 the first time. */
uint64_t capo_drain_wait(uint64_t *before_ns);

/** capo_drain_resolve() - who turns a site's pc[] into text, when drained; NULL: numbers only. */
void capo_drain_resolve(struct capo_drain *d, capo_site_text_fn site_text);

/** capo_drain_name_site() - name one new site, in a round that has time for it. */
void capo_drain_name_site(struct capo_drain *d);
