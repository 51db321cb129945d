/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RAS's text for people. It omits communicators whose ranks have all launched the same. For others,
 * it names the ranks of the smaller side:
 *
 *      #0-0 (f3532dd4dcf57853) MISMATCH
 *        Communicator ranks have different AllGather operation counts
 *        3 ranks have launched up to operation 2
 *        Rank 2 has launched up to operation 1 -- GPU 0 managed by process 16397 on node 10.0.0.7
 *
 * The ranks that are not named have the count of the line that names none. The size of a
 * communicator is in the table above, in the row of its group (the 0 before the dash).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "analysis/hang/ras.h"

/* Limit on ranks of all communicators. Under a fuzzer it is small: otherwise fuzzing soon does
 * nothing but create ranks. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { LARGEST = 1 << 10 };
#else
enum { LARGEST = 1 << 20 };
#endif

enum { GROUPS = 4096 };

/* Meaning of the last "N ranks ..." line; it applies to the ranks named below it, or to all unnamed
 * ones. */
enum said { NOTHING, COUNT, STATUS, ERROR, MISSING };

struct reading {
        struct ras_snapshot *snapshot;
        struct ras_comm *comm;
        bool in_summary, in_table, all_dead,
                silent; /* in a section about processes: DEAD, or those that did not answer */
        int32_t size[GROUPS], n_ranks;
        /* of the communicator's section */
        bool *named;
        int call; /* index in ras_calls[] */
        enum said said;
        uint64_t count, rest;
        bool has_rest, pending; /* pending: the last "N ranks" line has named no rank so far */
        char status[16];
};

static struct ras_rank *rank_at(struct reading *rd, int64_t rank)
{
        return rd->comm && rank >= 0 && rank < rd->comm->n_ranks ? &rd->comm->ranks[rank] : NULL;
}

/* Parse " -- GPU 0 managed by process 16397 on node 10.0.0.7". */
static void take_who(struct ras_rank *r, const char *line)
{
        const char *gpu = strstr(line, "-- GPU "), *process = strstr(line, "managed by process ");
        const char *node = process ? strstr(process, " on node ") : NULL;

        if (!gpu || !node)
                return;
        r->device = atoi(gpu + 7);
        r->pid = (uint32_t)strtoul(process + 19, NULL, 10);
        snprintf(r->host, sizeof r->host, "%.*s", (int)strcspn(node + 9, " \r\n"), node + 9);
}

static void apply_field(struct reading *rd, struct ras_rank *r, enum said said)
{
        switch (said) {
        case COUNT:
                r->count[rd->call] = rd->count;
                rd->named[r->rank] = true;
                break;
        case STATUS:
                r->making = !strcmp(rd->status, "INIT");
                r->aborted = !strcmp(rd->status, "ABORT");
                r->ended = r->aborted || !strcmp(rd->status, "FINALIZE") ||
                           !strcmp(rd->status, "NOCOMM");
                break;
        case ERROR: r->error = 1; break;
        case MISSING:
                r->absent = true;
                r->dead = rd->all_dead && !rd->silent;
                break;
        default: break;
        }
}

/* A line of counts without named ranks is about the rest. If there are two such lines, it is not
 * known which ranks each one is about. */
static void end_line(struct reading *rd)
{
        if (!rd->pending)
                return;
        rd->snapshot->partial |= rd->has_rest;
        rd->rest = rd->has_rest && rd->rest > rd->count ? rd->rest : rd->count;
        rd->has_rest = true;
        rd->pending = false;
}

/* End of the counts of one collective: unnamed ranks get the count of the line without names. */
static void end_counts(struct reading *rd)
{
        end_line(rd);
        for (uint32_t i = 0; rd->has_rest && rd->comm && i < rd->comm->n_ranks; i++) {
                if (!rd->named[i])
                        rd->comm->ranks[i].count[rd->call] = rd->rest;
        }
        rd->has_rest = false;
        rd->said = NOTHING;
        if (rd->comm)
                memset(rd->named, 0, rd->comm->n_ranks * sizeof *rd->named);
}

/* Parse "#0-1 (f3532dd4dcf57853) MISMATCH". A communicator may have several sections. */
static void begin_comm(struct reading *rd, const char *line)
{
        unsigned group, place;
        uint64_t hash;
        char id[24];
        int at = 0;

        end_counts(rd);
        rd->comm = NULL;
        if (sscanf(line, "#%u-%u (%16[0-9a-fA-F]) %n", &group, &place, id, &at) < 3 ||
            group >= GROUPS)
                return;
        hash = strtoull(id, NULL, 16);
        rd->said = !strncmp(line + at, "INCOMPLETE", 10) ? MISSING : NOTHING;
        for (uint32_t i = 0; i < rd->snapshot->n_comms; i++) {
                if (rd->snapshot->comms[i].hash == hash)
                        rd->comm = &rd->snapshot->comms[i];
        }
        if (!rd->comm && rd->size[group] > LARGEST - rd->n_ranks) {
                rd->snapshot->partial = true;
                return;
        }
        if (!rd->comm && rd->size[group] > 0) {
                rd->n_ranks += rd->size[group];
                rd->comm = ras_comm_new(rd->snapshot, id, hash, rd->size[group]);
                for (int32_t i = 0; i < rd->size[group]; i++)
                        ras_rank_new(rd->comm, i);
        }
        if (!rd->comm)
                return;
        free(rd->named);
        rd->named = xcalloc(rd->comm->n_ranks + 1, sizeof *rd->named);
}

/* Parse "The missing ranks: 2,3" (up to 2.25). */
static void missing_list(struct reading *rd, const char *list)
{
        char *end;

        for (long rank = strtol(list, &end, 10); end != list;
             list = end + (*end == ','), rank = strtol(list, &end, 10)) {
                if (rank_at(rd, rank))
                        apply_field(rd, rank_at(rd, rank), MISSING);
        }
}

static void take_line(struct reading *rd, const char *line)
{
        unsigned long rank, n;
        char word[32];
        int at = 0;

        if (sscanf(line, "Communicator ranks have different %31s", word) == 1) {
                end_counts(rd);
                rd->call = ras_call_of(word);
                if (rd->call < 0) /* up to 2.25 "collective": all kinds together */
                        rd->call = RAS_ANY;
        } else if (sscanf(line, "%lu ranks have launched up to operation %lu", &n, &rank) == 2 ||
                   (sscanf(line, "%lu ranks have not launched %n", &n, &at) == 1 && at)) {
                end_line(rd);
                rd->said = COUNT;
                rd->count = at ? 0 : rank;
                rd->pending = true;
        } else if (sscanf(line, "%lu ranks have status %15s", &n, rd->status) == 2) {
                rd->said = STATUS;
        } else if (sscanf(line, "%lu ranks reported %31s", &n, word) == 2) {
                rd->said = ERROR;
        } else if (!strncmp(line, "The missing rank", 16) && strchr(line, ':')) {
                missing_list(rd, strchr(line, ':') + 1);
        } else if (sscanf(line, "Rank %lu %n", &rank, &at) == 1 && at &&
                   rank_at(rd, (int64_t)rank)) {
                struct ras_rank *r = rank_at(rd, (int64_t)rank);
                enum said said = rd->said;

                take_who(r, line);
                if (sscanf(line + at, "has launched up to operation %lu", &n) == 1 ||
                    !strncmp(line + at, "has not launched", 16)) {
                        uint64_t kept = rd->count;

                        rd->count = line[at + 4] == 'n' ? 0 : n;
                        apply_field(rd, r, COUNT);
                        rd->count = kept;
                } else if (sscanf(line + at, "has status %15s", rd->status) == 1) {
                        apply_field(rd, r, STATUS);
                } else if (!strncmp(line + at, "reported ", 9)) {
                        apply_field(rd, r, ERROR);
                } else {
                        rd->pending &= said != COUNT;
                        apply_field(rd, r, said);
                }
        }
}

static void parse_line(struct reading *rd, const char *line)
{
        int group, comms, nodes, size;
        char per_node[16];

        if (*line == '#') {
                begin_comm(rd, line);
                return;
        }
        if (!strncmp(line, "Job summary", 11))
                rd->in_summary = true;
        if (strstr(line, "#  in group"))
                rd->in_table = true;
        else if (rd->in_summary && !rd->in_table &&
                 sscanf(line, "%d %15s %d", &nodes, per_node, &size) == 3 && nodes > 0)
                rd->snapshot->n_nodes += (uint32_t)nodes;
        else if (rd->in_table &&
                 sscanf(line, "%d %d %d %15s %d", &group, &comms, &nodes, per_node, &size) == 5 &&
                 group >= 0 && group < GROUPS && size > 0 && size <= LARGEST)
                rd->size[group] = size;
        else if (!strncmp(line, "DEAD", 4))
                rd->all_dead = true;
        else if (!strncmp(line, "INCOMPLETE", 10))
                rd->silent = true;
        else if (rd->comm)
                take_line(rd, line + strspn(line, " "));
}

static bool tells_counts(const struct ras_comm *c)
{
        for (uint32_t i = 0; i < c->n_ranks; i++) {
                for (int k = 0; k < RAS_CALLS; k++) {
                        if (c->ranks[i].count[k])
                                return true;
                }
        }
        return false;
}

void ras_read_text(char *text, struct ras_snapshot *out)
{
        _cleanup_free_ struct reading *rd = xcalloc(1, sizeof *rd);
        char *rest = text;

        rd->snapshot = out;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
                parse_line(rd, line);
        end_counts(rd);
        free(rd->named);
        out->partial |= !out->n_comms;
        for (uint32_t i = 0; i < out->n_comms; i++)
                out->partial |= !tells_counts(&out->comms[i]);
}
