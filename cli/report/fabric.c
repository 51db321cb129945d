/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NETWORK part of capo report: NIC use by rank, then which calls the traffic was for. See profiles/job/fabric.h for how
 * the latter is known.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/fabric.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "cli/base/table.h"
#include "core/base/util.h"

#define LINKS_SHOWN       16
#define SHARES_SHOWN      8
#define LATE_WORTH_SAYING 0.05 /* part of the looks */

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *link_nic(const struct capo_fabric_domain *d)
{
        return d->nic[0] ? d->nic : d->device[0] ? d->device : d->name;
}

/* What a person should look at in this row; the most telling things first. */
static const char *note(const struct capo_fabric_link *l, const struct report_near *near, char *text, size_t room)
{
        const struct capo_fabric_domain *d = l->domain;
        size_t n = 0;
        char count[32];

        text[0] = 0;
#define NOTE(format, ...)                                                                                     \
        do {                                                                                                  \
                if (n < room)                                                                                 \
                        n += (size_t)snprintf(text + n, room - n, "%s" format, n ? "; " : "", ##__VA_ARGS__); \
        } while (0)
        if (!l->ops && strcmp(d->provider, "shm"))
                NOTE("idle");
        if (l->ops && near && *near->nearer)
                NOTE("%s from the GPU, %s is %s%s", capo_path_name(near->path), near->nearer,
                     capo_path_name(near->nearer_path), near->nearer_idle ? " and idle" : "");
        else if (l->ops && near && near->path == CAPO_PATH_SYS)
                NOTE("SYS from the GPU");
        else if (l->ops && capo_fabric_link_near(l) == 0)
                NOTE("far from the GPU (NUMA %d, GPU on %d)", d->numa, l->gpu_numa);
        if (l->sharers > 1 && l->ops)
                NOTE("%u ranks share this NIC", l->sharers);
        if (l->load >= 2)
                NOTE("%.1f times the mean NIC's bytes", l->load);
        if (d->n.overruns)
                NOTE("queue overrun %s times", capo_text_count(d->n.overruns, count));
        for (unsigned i = 0; i < d->n.n_errors && i < 2; i++)
                NOTE("%s x %s", d->n.error[i].text, capo_text_count(d->n.error[i].count, count));
        if (d->mr_failed)
                NOTE("%s registrations failed", capo_text_count(d->mr_failed, count));
#undef NOTE
        return text;
}

static void links_text(const struct report *r, const struct capo_fabric_job *f, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("lll rrrrrrrr l");
        static const char *const heads[] = {"rank",   "provider", "NIC",   "sent",  "recv", "ops",
                                            "p50 us", "p99 us",   "retry", "empty", "MR",   "note"};
        size_t shown = 0;

        for (size_t i = 0; i < N_ELEMENTS(heads); i++)
                capo_table_cell(t, "%s", heads[i]);
        for (size_t i = 0; i < f->n_links && (r->all || shown < LINKS_SHOWN); i++) {
                const struct capo_fabric_link *l = &f->links[i];
                const struct capo_fabric_domain *d = l->domain;
                const struct capo_job_process *p = &r->job->processes[l->process];
                char text[256];

                if (!l->ops && !r->all && !strcmp(d->provider, "shm"))
                        continue; /* memory that nobody used is no idle NIC */
                shown++;

                if (p->rank >= 0)
                        capo_table_cell(t, "%d", p->rank);
                else
                        capo_table_cell(t, "pid %u", p->header.pid);
                capo_table_cell(t, "%s", d->provider);
                capo_table_cell(t, "%s", link_nic(d));
                capo_table_cell(t, "%s", capo_size_print(l->sent, text, sizeof text));
                capo_table_cell(t, "%s%s", l->received_exact ? "" : "<= ",
                                capo_size_print(l->received, text + 32, sizeof text - 32));
                capo_table_cell(t, "%s", capo_text_count(l->ops, text));
                if (d->tx.count) {
                        capo_table_cell(t, "%s", capo_text_us(capo_fabric_percentile(&d->tx, 0.50), text));
                        capo_table_cell(t, "%s", capo_text_us(capo_fabric_percentile(&d->tx, 0.99), text));
                } else {
                        capo_table_cell(t, "-");
                        capo_table_cell(t, "-");
                }
                capo_table_cell(t, "%s", capo_text_count(d->n.eagain, text));
                capo_table_cell(t, "%s", capo_text_count(d->n.empty, text));
                capo_table_cell(t, "%s", capo_text_count(d->mr_count, text));
                capo_table_cell(t, "%s", note(l, r->near ? &r->near[i] : NULL, text, sizeof text));
        }
        capo_table_print(t, out, 1, "", "");
        if (shown == LINKS_SHOWN && shown < f->n_links)
                fprintf(out, "%zu more: capo report --all %s\n", f->n_links - shown, r->what);
}

static bool share_is_empty(const struct capo_fabric_share *s)
{
        return s->ops < 0.5 && !s->own_ops && !s->looks.n;
}

/* How much of the calls' time was network: estimated from looks, or without any (older logs) a bound. */
static void network_cell(struct capo_table *t, const struct capo_fabric_share *s)
{
        struct capo_fabric_part part;
        char text[32];

        if (capo_fabric_share_network(s, &part))
                capo_table_cell(t, "%s%s (%.1f-%.1f)", capo_fabric_share_sure(s) ? "" : "at least ",
                                capo_text_percent(part.share, text), 100 * part.low, 100 * part.high);
        else if (s->call_ns > 0)
                capo_table_cell(t, "at most %s of its time", capo_text_percent(s->net_ns / s->call_ns, text));
        else
                capo_table_cell(t, "-");
}

/* How long something posted had not completed, in all; when no look saw that, how long it may have been. */
static void wait_cell(struct capo_table *t, const struct capo_fabric_share *s)
{
        struct capo_fabric_part part;
        char text[32];

        if (!capo_fabric_share_wait(s, &part))
                capo_table_cell(t, "-");
        else if (part.share > 0)
                capo_table_cell(t, "%s", capo_text_time(part.share * capo_fabric_share_ns(s), text));
        else
                capo_table_cell(t, "< %s", capo_text_time(part.high * capo_fabric_share_ns(s), text));
}

static void shares_text(const struct report *r, const struct capo_fabric_job *f, FILE *out)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll rrrrrrr");
        static const char *const heads[] = {"comm",    "call",    "sent",  "recv", "ops",
                                            "own ops", "network", "looks", "wait"};
        size_t shown = 0, n = 0;
        char text[32], slit[32];

        for (size_t i = 0; i < f->n_shares; i++)
                n += f->shares[i].comm != CAPO_NO_COMM && !share_is_empty(&f->shares[i]);
        if (!n)
                return;
        fprintf(out,
                "\nWHAT THE NETWORK CARRIED     over all ranks; by time: traffic is divided among the calls under way, "
                "to %s; \"own\" was posted inside the call\n",
                capo_text_time(f->window_ns, text));
        if (f->slit_ns)
                fprintf(out,
                        "network: part of the calls' time (95 %% interval), by looks at random moments: something "
                        "posted "
                        "had not completed (wait), or moved within %s\n",
                        capo_text_time((double)f->slit_ns, slit));
        if (f->looks_late > LATE_WORTH_SAYING * (double)f->looks_taken)
                fprintf(out,
                        "%s of the looks came late, because the cores were busy: the interval does not cover what that "
                        "does\n",
                        capo_text_percent((double)f->looks_late / (double)f->looks_taken, text));
        for (size_t i = 0; i < N_ELEMENTS(heads); i++)
                capo_table_cell(t, "%s", heads[i]);
        for (size_t i = 0; i < f->n_shares && (r->all || shown < SHARES_SHOWN); i++) {
                const struct capo_fabric_share *s = &f->shares[i];

                if (share_is_empty(s))
                        continue;
                shown++;
                capo_table_cell(t, "%s", s->comm == CAPO_NO_COMM ? "-" : report_comm_name(r, s->comm));
                capo_table_cell(t, "%s", s->call ? capo_call_name(s->call) : "outside recorded calls");
                capo_table_cell(t, "%s", capo_size_print((uint64_t)s->sent, text, sizeof text));
                capo_table_cell(t, "%s", capo_size_print((uint64_t)s->received, text, sizeof text));
                capo_table_cell(t, "%s", capo_text_count((uint64_t)s->ops, text));
                capo_table_cell(t, "%s", capo_text_count(s->own_ops, text));
                network_cell(t, s);
                capo_table_cell(t, "%s", s->looks.n ? capo_text_count(s->looks.n, text) : "-");
                wait_cell(t, s);
        }
        capo_table_print(t, out, 1, "", "");
}

void report_fabric_text(const struct report *r, const struct capo_fabric_job *f, FILE *out, const char *bold,
                        const char *plain)
{
        unsigned sample = 0;

        for (size_t i = 0; i < f->n_links; i++)
                sample = f->links[i].domain->sample ? f->links[i].domain->sample : sample;
        fprintf(out,
                "\n%sNETWORK%s (libfabric)     post to completion of about one send in %u (CLOCK_MONOTONIC); "
                "empty: queue reads that found nothing\n",
                bold, plain, sample ? sample : 1);
        links_text(r, f, out);
        shares_text(r, f, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *count_json(uint64_t v)
{
        return json_integer((json_int_t)v);
}

static json_t *latency_json(const struct capo_fabric_hist *h)
{
        if (!h->count)
                return json_null();
        return json_pack("{s:I,s:f,s:f,s:f,s:f}", "samples", (json_int_t)h->count, "p50",
                         capo_fabric_percentile(h, 0.50) / 1000, "p99", capo_fabric_percentile(h, 0.99) / 1000, "mean",
                         (double)h->sum_ns / (double)h->count / 1000, "max", (double)h->max_ns / 1000);
}

static json_t *ops_json(const struct capo_fabric_counts *n)
{
        json_t *ops = json_object();

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                json_t *sizes;

                if (!n->kind[k].count)
                        continue;
                sizes = json_object();
                for (int b = 0; b < CAPO_FI_SIZES; b++) {
                        char key[32];

                        snprintf(key, sizeof key, "%" PRIu64, b ? (uint64_t)1 << (b - 1) : 0);
                        if (n->kind[k].sizes[b])
                                json_object_set_new(sizes, key, count_json(n->kind[k].sizes[b]));
                }
                json_object_set_new(ops, capo_fabric_kind_names[k],
                                    json_pack("{s:o,s:o,s:o}", "count", count_json(n->kind[k].count), "bytes",
                                              count_json(n->kind[k].bytes), "from_bytes", sizes));
        }
        return ops;
}

static json_t *errors_json(const struct capo_fabric_counts *n)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < n->n_errors; i++)
                json_array_append_new(list,
                                      json_pack("{s:i,s:o,s:o}", "code", n->error[i].code, "count",
                                                count_json(n->error[i].count), "text", json_string(n->error[i].text)));
        return list;
}

static void counts_json(json_t *j, const struct capo_fabric_counts *n)
{
        json_object_set_new(j, "ops", ops_json(n));
        json_object_set_new(j, "eagain", count_json(n->eagain));
        json_object_set_new(j, "errors", count_json(n->errors));
        json_object_set_new(j, "error_list", errors_json(n));
        json_object_set_new(j, "overruns", count_json(n->overruns));
        json_object_set_new(j, "empty_polls", count_json(n->empty));
        json_object_set_new(j, "completions", count_json(n->completions));
        json_object_set_new(j, "received",
                            n->received ? json_pack("{s:o,s:o}", "count", count_json(n->received), "bytes",
                                                    count_json(n->received_bytes))
                                        : json_null());
}

static json_t *objects_json(const struct capo_fabric *f, uint32_t domain)
{
        json_t *list = json_array();

        for (size_t i = 0; i < f->n_objects; i++) {
                const struct capo_fabric_object *o = &f->objects[i];
                json_t *j;

                if (o->domain != domain)
                        continue;
                j = json_pack("{s:s,s:i}", "kind", o->kind, "id", (int)o->id);
                if (o->type[0])
                        json_object_set_new(j, "type", json_string(o->type));
                if (o->contexts_repeat[0])
                        json_object_set_new(j, "contexts_repeat", json_string(o->contexts_repeat));
                counts_json(j, &o->n);
                json_array_append_new(list, j);
        }
        return list;
}

static void near_json(json_t *j, const struct report_near *near)
{
        json_object_set_new(j, "gpu_path",
                            near->path < CAPO_PATH_UNKNOWN ? json_string(capo_path_name(near->path)) : json_null());
        json_object_set_new(j, "nearer_nic",
                            *near->nearer ? json_pack("{s:s,s:s,s:b}", "name", near->nearer, "path",
                                                      capo_path_name(near->nearer_path), "idle", near->nearer_idle)
                                          : json_null());
}

json_t *report_fabric_json(const struct report *r, const struct capo_fabric_job *f)
{
        json_t *list = json_array();

        for (size_t i = 0; f && i < f->n_links; i++) {
                const struct capo_fabric_link *l = &f->links[i];
                const struct capo_fabric_domain *d = l->domain;
                const struct capo_job_process *p = &r->job->processes[l->process];
                const char *version = capo_job_info(p, CAPO_INFO_FABRIC_VERSION);
                int near = capo_fabric_link_near(l);
                json_t *j = json_object();

                json_object_set_new(j, "rank", p->rank >= 0 ? json_integer(p->rank) : json_null());
                json_object_set_new(j, "host", json_string(p->host));
                json_object_set_new(j, "pid", json_integer(p->header.pid));
                json_object_set_new(j, "libfabric", version ? json_string(version) : json_null());
                json_object_set_new(j, "provider", json_string(d->provider));
                json_object_set_new(j, "fabric", json_string(d->fabric));
                json_object_set_new(j, "domain", json_string(d->name));
                json_object_set_new(j, "nic", d->nic[0] ? json_string(d->nic) : json_null());
                json_object_set_new(j, "numa", d->numa >= 0 ? json_integer(d->numa) : json_null());
                json_object_set_new(j, "near_gpu", near < 0 ? json_null() : json_boolean(near));
                if (r->near)
                        near_json(j, &r->near[i]);
                json_object_set_new(j, "speed_gbps",
                                    d->speed_bps ? json_real((double)d->speed_bps / 1e9) : json_null());
                json_object_set_new(j, "sharers", json_integer(l->sharers));
                json_object_set_new(j, "sent_bytes", count_json(l->sent));
                json_object_set_new(j, "recv_bytes", count_json(l->received));
                json_object_set_new(j, "recv_exact", json_boolean(l->received_exact));
                counts_json(j, &d->n);
                json_object_set_new(j, "latency_us", latency_json(&d->tx));
                json_object_set_new(j, "recv_wait_us", latency_json(&d->rx));
                json_object_set_new(j, "mr",
                                    json_pack("{s:o,s:o,s:o,s:o}", "count", count_json(d->mr_count), "bytes",
                                              count_json(d->mr_bytes), "failed", count_json(d->mr_failed), "us",
                                              latency_json(&d->mr)));
                json_object_set_new(j, "objects", objects_json(f->process[l->process], d->id));
                json_array_append_new(list, j);
        }
        return list;
}

static json_t *part_json(const struct capo_fabric_part *part)
{
        return json_pack("{s:f,s:f,s:f}", "share", part->share, "low", part->low, "high", part->high);
}

static json_t *share_json(const struct capo_fabric_job *f, const struct capo_fabric_share *s)
{
        json_t *j = json_pack("{s:o,s:o,s:f,s:f,s:f,s:o,s:o,s:o,s:f,s:o}", "comm",
                              s->comm == CAPO_NO_COMM ? json_null() : json_integer(s->comm), "call",
                              s->call ? json_string(capo_call_name(s->call)) : json_null(), "ops_by_time",
                              round(s->ops), "sent_by_time", round(s->sent), "recv_by_time", round(s->received),
                              "own_ops", count_json(s->own_ops), "own_bytes", count_json(s->own_bytes), "calls",
                              count_json(s->calls), "window_us", f->window_ns / 1000, "network_share",
                              s->call_ns > 0 ? json_real(s->net_ns / s->call_ns) : json_null());
        struct capo_fabric_part part;
        json_t *network = NULL, *wait = NULL;

        if (capo_fabric_share_network(s, &part)) {
                network = part_json(&part);
                json_object_set_new(network, "sure", json_boolean(capo_fabric_share_sure(s)));
        }
        if (capo_fabric_share_wait(s, &part)) {
                wait = part_json(&part);
                json_object_set_new(wait, "us", json_real(part.share * capo_fabric_share_ns(s) / 1000));
        }
        json_object_set_new(j, "calls_us", json_real(s->call_ns / 1000));
        json_object_set_new(j, "looks", count_json(s->looks.n));
        json_object_set_new(j, "looks_late",
                            f->looks_taken ? json_real((double)f->looks_late / (double)f->looks_taken) : json_null());
        json_object_set_new(j, "network", network ? network : json_null());
        json_object_set_new(j, "wait", wait ? wait : json_null());
        return j;
}

json_t *report_fabric_calls_json(const struct capo_fabric_job *f)
{
        json_t *list = json_array();

        for (size_t i = 0; f && i < f->n_shares; i++) {
                if (!share_is_empty(&f->shares[i]))
                        json_array_append_new(list, share_json(f, &f->shares[i]));
        }
        return list;
}
