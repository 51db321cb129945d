/* SPDX-License-Identifier: Apache-2.0 */
/* The network part of the JSON report. */
#include <inttypes.h>
#include <math.h>

#include "cli/report/report_json.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "core/log/fabric_kinds.h"
#include "core/log/info.h"

static json_t *count_json(uint64_t v)
{
        return json_integer((json_int_t)v);
}

static json_t *latency_json(const struct capo_fabric_hist *h)
{
        if (!h->count)
                return json_null();
        return json_pack("{s:I,s:f,s:f,s:f,s:f}", "samples", (json_int_t)h->count, "p50",
                         capo_fabric_percentile(h, 0.50) / 1000, "p99",
                         capo_fabric_percentile(h, 0.99) / 1000, "mean",
                         (double)h->sum_ns / (double)h->count / 1000, "max",
                         (double)h->max_ns / 1000);
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
                                    json_pack("{s:o,s:o,s:o}", "count",
                                              count_json(n->kind[k].count), "bytes",
                                              count_json(n->kind[k].bytes), "from_bytes", sizes));
        }
        return ops;
}

static json_t *errors_json(const struct capo_fabric_counts *n)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < n->n_errors; i++)
                json_array_append_new(list, json_pack("{s:i,s:o,s:o}", "code", n->error[i].code,
                                                      "count", count_json(n->error[i].count),
                                                      "text", json_string(n->error[i].text)));
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
                            n->received ? json_pack("{s:o,s:o}", "count", count_json(n->received),
                                                    "bytes", count_json(n->received_bytes))
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

static void near_json(json_t *j, const struct capo_page_near *near)
{
        json_object_set_new(j, "gpu_path", near->path ? json_string(near->path) : json_null());
        json_object_set_new(j, "nearer_nic",
                            *near->nearer ? json_pack("{s:s,s:s,s:b}", "name", near->nearer, "path",
                                                      near->nearer_path, "idle", near->nearer_idle)
                                          : json_null());
}

static json_t *notes_json(const struct capo_page_link *link)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < link->n_notes; i++)
                json_array_append_new(list, json_pack("{s:s,s:o}", "kind",
                                                      capo_page_note_name(link->note[i].kind),
                                                      "text", cli_json_text(link->note[i].text)));
        return list;
}

json_t *report_json_fabric(const struct capo_page *r)
{
        const struct capo_fabric_job *f = r->fabric;
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
                                    d->speed_bps ? json_real((double)d->speed_bps / 1e9)
                                                 : json_null());
                json_object_set_new(j, "sharers", json_integer(l->sharers));
                json_object_set_new(j, "sent_bytes", count_json(l->sent));
                json_object_set_new(j, "recv_bytes", count_json(l->received));
                json_object_set_new(j, "recv_exact", json_boolean(l->received_exact));
                counts_json(j, &d->n);
                json_object_set_new(j, "latency_us", latency_json(&d->tx));
                json_object_set_new(j, "recv_wait_us", latency_json(&d->rx));
                json_object_set_new(j, "mr",
                                    json_pack("{s:o,s:o,s:o,s:o}", "count", count_json(d->mr_count),
                                              "bytes", count_json(d->mr_bytes), "failed",
                                              count_json(d->mr_failed), "us",
                                              latency_json(&d->mr)));
                json_object_set_new(j, "notes", notes_json(&r->links[i]));
                json_object_set_new(j, "objects", objects_json(f->process[l->process], d->id));
                json_array_append_new(list, j);
        }
        return list;
}

static json_t *share_json(const struct capo_fabric_job *f, const struct capo_fabric_share *s)
{
        json_t *j = json_pack("{s:o,s:o,s:f,s:f,s:f,s:o,s:o,s:o,s:f}", "comm",
                              s->comm == CAPO_NO_COMM ? json_null() : json_integer(s->comm), "call",
                              s->call ? json_string(capo_call_name(s->call)) : json_null(),
                              "ops_by_time", round(s->ops), "sent_by_time", round(s->sent),
                              "recv_by_time", round(s->received), "own_ops", count_json(s->own_ops),
                              "own_bytes", count_json(s->own_bytes), "calls", count_json(s->calls),
                              "window_us", f->window_ns / 1000);

        json_object_set_new(j, "calls_guessed", count_json(s->guessed));
        json_object_set_new(j, "bytes_by_guess", json_real(round(s->by_guess)));
        json_object_set_new(j, "calls_us", json_real(s->call_ns / 1000));
        return j;
}

json_t *report_json_fabric_calls(const struct capo_page *r)
{
        const struct capo_fabric_job *f = r->fabric;
        json_t *list = json_array();

        for (size_t i = 0; f && i < f->n_shares; i++) {
                if (!capo_page_share_empty(&f->shares[i]))
                        json_array_append_new(list, share_json(f, &f->shares[i]));
        }
        return list;
}
