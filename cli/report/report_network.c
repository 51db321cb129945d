/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a report: NIC use by rank, then traffic by call (analysis/network/network.h). */

#include "analysis/report/job_judge.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/among.h"
#include "core/log/fabric_kinds.h"
#include "core/log/info.h"

enum { LINKS_SHOWN = 16 };

#define GUESSED_WORTH_SAYING 0.05 /* share of the calls */

/* ---- what libfabric counts: of a NIC, and of each of its objects ---- */

#define LATENCY_FIELDS(F)                                               \
        F("samples", COUNT, of->count)                                  \
        F("p50", EXACT, capo_fabric_percentile(of, 0.50) / 1000)        \
        F("p99", EXACT, capo_fabric_percentile(of, 0.99) / 1000)        \
        F("mean", EXACT, (double)of->sum_ns / (double)of->count / 1000) \
        F("max", EXACT, (double)of->max_ns / 1000)
CLI_ENTITY(latency, struct capo_fabric_hist, void, LATENCY_FIELDS);
#define LATENCY(h) cli_entity_json(&latency, NULL, (h)->count ? (h) : NULL)

static json_t *sizes_json(const uint64_t *sizes)
{
        json_t *j = json_object();

        for (int b = 0; b < CAPO_FI_SIZES; b++) {
                char key[32];

                snprintf(key, sizeof key, "%" PRIu64, b ? (uint64_t)1 << (b - 1) : 0);
                if (sizes[b])
                        json_object_set_new(j, key, json_integer((json_int_t)sizes[b]));
        }
        return j;
}

static json_t *ops_json(const struct capo_fabric_counts *n)
{
        json_t *ops = json_object();

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                if (n->kind[k].count)
                        json_object_set_new(ops, capo_fabric_kind_names[k],
                                            json_pack("{s:I,s:I,s:o}", "count",
                                                      (json_int_t)n->kind[k].count, "bytes",
                                                      (json_int_t)n->kind[k].bytes, "from_bytes",
                                                      sizes_json(n->kind[k].sizes)));
        }
        return ops;
}

#define ERROR_FIELDS(F)              \
        F("code", COUNT, of->code)   \
        F("count", COUNT, of->count) \
        F("text", TEXT, of->text)
CLI_ENTITY(fabric_error, struct capo_fabric_error, void, ERROR_FIELDS);

#define RECEIVED_FIELDS(F)              \
        F("count", COUNT, of->received) \
        F("bytes", BYTES, of->received_bytes)
CLI_ENTITY(received, struct capo_fabric_counts, void, RECEIVED_FIELDS);

/* @c: struct capo_fabric_counts */
#define COUNTS_FIELDS(F, c)                                                                \
        F("ops", JSON, ops_json(c))                                                        \
        F("eagain", COUNT, (c)->eagain, "retries", "r")                                    \
        F("errors", COUNT, (c)->errors)                                                    \
        F("error_list", JSON, CLI_ENTITIES(fabric_error, NULL, (c)->error, (c)->n_errors)) \
        F("overruns", COUNT, (c)->overruns)                                                \
        F("empty_polls", COUNT, (c)->empty, "empty", "r/a")                                \
        F("completions", COUNT, (c)->completions)                                          \
        F("received", JSON, cli_entity_json(&received, NULL, (c)->received ? (c) : NULL))

#define OBJECT_FIELDS(F)                                                                           \
        F("kind", TEXT, of->kind)                                                                  \
        F("id", COUNT, of->id)                                                                     \
        F("type", JSON, *of->type ? json_string(of->type) : NULL)                                  \
        F("contexts_repeat", JSON, *of->contexts_repeat ? json_string(of->contexts_repeat) : NULL) \
        COUNTS_FIELDS(F, &of->n)
CLI_ENTITY(fabric_object, struct capo_fabric_object, void, OBJECT_FIELDS);

static json_t *objects_json(const struct capo_fabric *f, uint32_t domain)
{
        json_t *list = json_array();

        for (size_t i = 0; i < f->n_objects; i++) {
                if (f->objects[i].domain == domain)
                        json_array_append_new(
                                list, cli_entity_json(&fabric_object, NULL, &f->objects[i]));
        }
        return list;
}

/* ---- a NIC of a rank ---- */

#define NOTE_FIELDS(F)                                  \
        F("kind", WORD, capo_page_note_names[of->kind]) \
        F("text", TEXT, of->text)
CLI_ENTITY(nic_note, struct capo_page_note, void, NOTE_FIELDS);

#define MR_FIELDS(F)                      \
        F("count", COUNT, of->mr_count)   \
        F("bytes", BYTES, of->mr_bytes)   \
        F("failed", COUNT, of->mr_failed) \
        F("us", JSON, LATENCY(&of->mr))
CLI_ENTITY(registrations, struct capo_fabric_domain, void, MR_FIELDS);

#define NEARER_FIELDS(F)                 \
        F("name", TEXT, of->nearer)      \
        F("path", WORD, of->nearer_path) \
        F("idle", FLAG, of->nearer_idle)
CLI_ENTITY(nearer_nic, struct capo_page_near, void, NEARER_FIELDS);

/* Of item @of of in->fabric->links. */
#define NTH      (of - in->fabric->links)
#define PROCESS  (&in->job->processes[of->process])
#define OF_NOTES (&in->links[NTH])
#define NEAR     (in->near ? &in->near[NTH] : NULL) /* NULL: no topology */

static const char *rank_text(const struct capo_job_process *p, char *text)
{
        snprintf(text, CLI_ROOM, p->rank >= 0 ? "%d" : "pid %d",
                 p->rank >= 0 ? p->rank : (int)p->header.pid);
        return text;
}

/* @bound: the number is an upper bound. */
static const char *most_text(bool bound, uint64_t bytes, char *text)
{
        char size[CLI_ROOM / 2];

        snprintf(text, CLI_ROOM, "%s%s", bound ? "<= " : "", cli_bytes_text((int64_t)bytes, size));
        return text;
}

static double sends_ns(const struct capo_fabric_domain *d, double q)
{
        return d->tx.count ? capo_fabric_percentile(&d->tx, q) : -1;
}

static const char *notes_text(const struct capo_page_link *notes, char *text)
{
        *text = 0;
        for (unsigned k = 0; k < notes->n_notes; k++)
                capo_append(text, CLI_ROOM, "%s%s", k ? "; " : "", notes->note[k].text);
        return text;
}

#define DOMAIN of->domain

#define NIC_FIELDS(F)                                                                     \
        F(NULL, TEXT, rank_text(PROCESS, room), "rank", "l")                              \
        F("rank", RANK, PROCESS->rank)                                                    \
        F("host", TEXT, PROCESS->host)                                                    \
        F("pid", RANK, PROCESS->header.pid)                                               \
        F("libfabric", TEXT, capo_job_info(PROCESS, CAPO_INFO_FABRIC_VERSION))            \
        F("provider", TEXT, DOMAIN->provider, "provider", "l")                            \
        F("fabric", TEXT, DOMAIN->fabric)                                                 \
        F("domain", TEXT, DOMAIN->name)                                                   \
        F("nic", TEXT, *DOMAIN->nic ? DOMAIN->nic : NULL)                                 \
        F(NULL, TEXT,                                                                     \
          *DOMAIN->nic      ? DOMAIN->nic                                                 \
          : *DOMAIN->device ? DOMAIN->device                                              \
                            : DOMAIN->name,                                               \
          "NIC", "l")                                                                     \
        F("numa", RANK, DOMAIN->numa)                                                     \
        F("near_gpu", FLAG, capo_fabric_link_near(of))                                    \
        F("gpu_path", JSON, NEAR ? cli_json_text(NEAR->path) : NULL)                      \
        F("nearer_nic", JSON,                                                             \
          !NEAR           ? NULL                                                          \
          : *NEAR->nearer ? cli_entity_json(&nearer_nic, NULL, NEAR)                      \
                          : json_null())                                                  \
        F("speed_gbps", EXACT, DOMAIN->speed_bps ? (double)DOMAIN->speed_bps / 1e9 : NAN) \
        F("sharers", COUNT, of->sharers)                                                  \
        F("sent_bytes", BYTES, of->sent, "sent", "r")                                     \
        F("recv_bytes", BYTES, of->received)                                              \
        F("recv_exact", FLAG, of->received_exact)                                         \
        F(NULL, TEXT, most_text(!of->received_exact, of->received, room), "recv", "r")    \
        F(NULL, COUNT, of->ops, "ops", "r/c")                                             \
        F(NULL, DURATION, sends_ns(DOMAIN, 0.50), "p50", "r")                             \
        F(NULL, DURATION, sends_ns(DOMAIN, 0.99), "p99", "r/d")                           \
        COUNTS_FIELDS(F, &DOMAIN->n)                                                      \
        F("latency_us", JSON, LATENCY(&DOMAIN->tx))                                       \
        F("recv_wait_us", JSON, LATENCY(&DOMAIN->rx))                                     \
        F("mr", JSON, cli_entity_json(&registrations, NULL, DOMAIN))                      \
        F(NULL, COUNT, DOMAIN->mr_count, "MR", "r/b")                                     \
        F("notes", JSON, CLI_ENTITIES(nic_note, NULL, OF_NOTES->note, OF_NOTES->n_notes)) \
        F(NULL, TEXT, notes_text(OF_NOTES, room), "note", "l~")                           \
        F("objects", JSON, objects_json(in->fabric->process[of->process], DOMAIN->id))
CLI_ENTITY_SHARED(report_nic, struct capo_fabric_link, struct capo_page, NIC_FIELDS);

static void add_links(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_fabric_job *f = r->fabric;
        struct cli_section *s = cli_page_entity(page, "NETWORK", &report_nic);
        unsigned sample = 1, shown = 0;

        s->how = "libfabric's operations by rank and NIC. p50, p99: from posting a send to its "
                 "completion, on the host's clock. retries: posts that found a full queue. empty: "
                 "queue reads that found nothing. MR: memory registrations.";
        for (size_t i = 0; i < f->n_links; i++) {
                const struct capo_fabric_link *l = &f->links[i];

                if (l->domain->sample)
                        sample = l->domain->sample;
                if (!l->ops && !r->all && !strcmp(l->domain->provider, "shm"))
                        continue; /* an opened but unused domain of shared memory is no idle NIC */
                if (shown++ < LINKS_SHOWN || r->all)
                        cli_section_entity(s, r, l);
        }
        if (shown > LINKS_SHOWN && !r->all)
                cli_section_line(s, "%u more: --all", shown - LINKS_SHOWN);
        if (shown && sample > 1)
                cli_section_note(page, s, "times: of 1 send in %u", sample);
}

/* ---- traffic by call ---- */

/* Are all received bytes exact? Otherwise some are counted by the size of posted buffers. */
static bool is_received_exact(const struct capo_fabric_job *f)
{
        return ALL_OF(l, f->links, f->n_links, l->received_exact || !l->domain->n.blind);
}

#define SHARE_FIELDS(F)                                                                            \
        F("comm", RANK, report_comm_number(of->comm))                                              \
        F(NULL, TEXT, capo_page_comm(in, of->comm), "comm", "l")                                   \
        F("call", WORD, report_call_name(of->call))                                                \
        F(NULL, WORD, of->call ? capo_call_name(of->call) : "outside recorded calls", "call", "l") \
        F("ops_by_time", EXACT, round(of->ops))                                                    \
        F("sent_by_time", EXACT, round(of->sent))                                                  \
        F(NULL, BYTES, round(of->sent), "sent", "r")                                               \
        F("recv_by_time", EXACT, round(of->received))                                              \
        F(NULL, TEXT,                                                                              \
          most_text(of->received >= 0.5 && !is_received_exact(in->fabric),                         \
                    (uint64_t)round(of->received), room),                                          \
          "recv", "r")                                                                             \
        F(NULL, COUNT, round(of->ops), "ops", "r")                                                 \
        F("own_ops", COUNT, of->own_ops, "own ops", "r/a")                                         \
        F("own_bytes", BYTES, of->own_bytes)                                                       \
        F("calls", COUNT, of->calls)                                                               \
        F("window_us", EXACT, in->fabric->window_ns / 1000)                                        \
        F("calls_guessed", COUNT, of->guessed)                                                     \
        F("bytes_by_guess", EXACT, round(of->by_guess))                                            \
        F("calls_us", EXACT, of->call_ns / 1000)
CLI_ENTITY(traffic, struct capo_fabric_share, struct capo_page, SHARE_FIELDS);

json_t *report_json_fabric_calls(const struct capo_page *r)
{
        const struct capo_fabric_job *f = r->fabric;
        json_t *list = json_array();

        for (size_t i = 0; f && i < f->n_shares; i++) {
                if (!capo_page_share_empty(&f->shares[i]))
                        json_array_append_new(list, cli_entity_json(&traffic, r, &f->shares[i]));
        }
        return list;
}

/* The times of some calls are derived from untimed ones. */
static void add_guess_note(const struct capo_job *job, const struct capo_fabric_job *f,
                           struct cli_page *page, struct cli_section *s)
{
        uint64_t calls = 0, guessed = 0;
        double bytes = 0, by_guess = 0;
        char moved[96] = "";

        for (size_t i = 0; i < f->n_shares; i++) {
                calls += f->shares[i].calls;
                guessed += f->shares[i].guessed;
                bytes += f->shares[i].sent + f->shares[i].received;
                by_guess += f->shares[i].by_guess;
        }
        if (guessed <= GUESSED_WORTH_SAYING * (double)calls)
                return;
        if (f->placed)
                snprintf(moved, sizeof moved, " (%s of the bytes moved outside all known times)",
                         TEXT_PERCENT(bytes > 0 ? by_guess / bytes : 0));
        cli_section_note(page, s, "%s of %s calls: GPU time is a guess%s; %s", TEXT_COUNT(guessed),
                         TEXT_COUNT(calls), moved, capo_sample_advice(job));
}

static void add_shares(const struct capo_page *r, struct cli_page *page)
{
        const struct capo_fabric_job *f = r->fabric;
        struct cli_section *s = cli_page_entity(page, "NETWORK BY CALL", &traffic);

        if (!ANY_OF(share, f->shares, f->n_shares,
                    share->comm != CAPO_NO_COMM && !capo_page_share_empty(share)))
                return;
        cli_section_of(s, "over all ranks, by time");
        s->how =
                "Traffic is divided among the calls under way when it moved. own ops: posted by the "
                "calling thread inside the call.";
        for (size_t i = 0; i < f->n_shares; i++) {
                if (!capo_page_share_empty(&f->shares[i]))
                        cli_section_entity(s, r, &f->shares[i]);
        }
        add_guess_note(r->job, f, page, s);
}

void report_network(const struct capo_page *r, struct cli_page *page)
{
        if (!r->fabric)
                return;
        add_links(r, page);
        if (r->all)
                add_shares(r, page);
}
