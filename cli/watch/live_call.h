/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a row of calls of a running job: of capo top, and as metrics. They belong to the page
 * of its late ranks; NULL: none. */
#pragma once

#include "analysis/report/waits_causes.h"
#include "analysis/watch/live_rates.h"
#include "cli/base/cli_fields.h"
#include "core/base/calls.h"

#define LIVE_CALL_FIELDS(F)                                                                   \
        F("comm", TEXT, of->row->comm, "COMM", "l")                                           \
        F("call", WORD, capo_call_name(of->row->call), "CALL", ".l/h")                        \
        F("size", WORD, capo_live_size_text(of->row->size, room), "SIZE", ".l/e")             \
        F("gpu_share", SHARE, of->share, "TIME", ".r")                                        \
        F("calls", COUNT, of->row->calls, NULL, NULL, "capo_calls")                           \
        F("calls_per_s", REAL, of->calls_s, "CALLS/S", ".r/g")                                \
        F("bytes_per_s", RATE, of->bytes_s / 1e9, "GB/S", ".r/f")                             \
        F("p50_us", DURATION, of->p50_ns > 0 ? of->p50_ns : -1, "P50", ".r/d")                \
        F("busbw_gbs", RATE, of->row->busbw > 0 ? of->row->busbw : -1, "BUSBW", ".r/c",       \
          "capo_bus_bandwidth_bytes_per_second")                                              \
        F("reached", SHARE, of->row->reached, "LINKS", ".r/b",                                \
          "capo_bus_bandwidth_expected_ratio")                                                \
        F("late", TEXT, in ? capo_late_why(in, of->row->comm, room, CLI_ROOM) : NULL, "LATE", \
          ".l/a")                                                                             \
        F(NULL, BYTES, of->row->bytes, NULL, NULL, "capo_message_bytes")
CLI_ENTITY(live_call, struct capo_live_rate, struct capo_page, LIVE_CALL_FIELDS);
