/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of JSON: the report of nccl-tests -J (src/util.cu there, version 2), one document per run, with the
 * environment it ran in, so that it says itself what was forced; and NCCL Inspector's records (plugins/profiler/
 * inspector, formats v4.0 to v4.2), one object per collective and rank, back to back or one per line.
 *
 * Inspector counts coll_sn per communicator the same on all ranks. A rank that waits for others measures the waiting:
 * all-reduce, all-gather and reduce-scatter cannot end on any rank before the last one has come, so the shortest rank's
 * time is the transfer; where a root may be done early, the longest is.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "profiles/import/import_priv.h"

static void json_freep(json_t **j)
{
        json_decref(*j);
}

static double num(const json_t *o, const char *key, double otherwise)
{
        const json_t *v = json_object_get(o, key);

        if (json_is_string(v)) { /* nccl-tests writes the root and bools as text */
                char *end;
                double d = strtod(json_string_value(v), &end);

                return end == json_string_value(v) ? otherwise : d;
        }
        return json_is_number(v) ? json_number_value(v) : otherwise;
}

static const char *str(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));

        return s ? s : "";
}

/* ---- nccl-tests ---- */

static int choice(struct capo_input *in, const json_t *root, struct capo_trial *run, uint8_t *want, uint8_t *channels)
{
        struct capo_settings settings = {""};
        unsigned algo = 0, proto = 0;
        const char *tuner = "";
        char name[48], value[64];
        const json_t *v;
        size_t i;

        *channels = 0;
        json_array_foreach(json_object_get(root, "env"), i, v)
        {
                const char *s = json_string_value(v);

                if (!s)
                        continue;
                if (!strncmp(s, "NCCL_ALGO=", 10) && s[10] && !(algo = capo_algo_find(s + 10)))
                        return capo_input_error(in, 0, "%s is not one algorithm: it does not say what ran", s);
                if (!strncmp(s, "NCCL_PROTO=", 11) && s[11] && !(proto = capo_proto_find(s + 11)))
                        return capo_input_error(in, 0, "%s is not one protocol: it does not say what ran", s);
                if (!strncmp(s, "NCCL_MAX_NCHANNELS=", 19))
                        *channels = (uint8_t)atoi(s + 19);
                if (!strncmp(s, "NCCL_TUNER_PLUGIN=", 18))
                        tuner = s + 18;
                if (sscanf(s, "%47[A-Z0-9_]=%63s", name, value) == 2)
                        capo_settings_add(&settings, name, value);
        }
        memcpy(run->settings, settings.text, sizeof run->settings);
        snprintf(run->why, sizeof run->why, "%s",
                 algo || proto ? "NCCL_ALGO, NCCL_PROTO of its environment" : "its environment forces nothing");
        if (in->label) {
                if ((in->label->algo && algo && in->label->algo != algo) || (in->label->default_choice && algo))
                        return capo_input_error(
                                in, 0, "contradicting labels: --algo on the command line, NCCL_ALGO=%s in the file",
                                capo_algo_name(algo));
                if ((in->label->proto && proto && in->label->proto != proto) || (in->label->default_choice && proto))
                        return capo_input_error(
                                in, 0, "contradicting labels: --proto on the command line, NCCL_PROTO=%s in the file",
                                capo_proto_name(proto));
                algo = algo ? algo : in->label->algo;
                proto = proto ? proto : in->label->proto;
                *channels = in->label->channels ? in->label->channels : *channels;
        }
        *want = CAPO_ALGO_PROTO(algo, proto);
        capo_input_tuner(run, tuner, *want);
        return 0;
}

static int devices(struct capo_input *in, const json_t *config, struct capo_trial *run)
{
        const json_t *list = json_object_get(config, "devices"), *d;
        struct capo_layout layout = {0};
        _cleanup_(json_freep) json_t *hosts = json_object();
        const char *host;
        json_t *count;
        _cleanup_free_ const char **names = NULL;
        char text[CAPO_LAYOUT_TEXT];
        size_t i, n = 0;

        json_array_foreach(list, i, d)
        {
                const char *gpu = str(d, "device_info");

                host = str(d, "hostname");
                json_object_set_new(hosts, host, json_integer(1 + json_integer_value(json_object_get(hosts, host))));
                gpu += !strncmp(gpu, "NVIDIA ", 7) ? 7 : 0;
                snprintf(run->gpu, sizeof run->gpu, "%.47s", gpu);
        }
        run->n_ranks = (int)json_array_size(list);
        run->n_nodes = (int)json_object_size(hosts);
        names = calloc((size_t)run->n_nodes + 1, sizeof *names);
        json_object_foreach(hosts, host, count)
        {
                capo_layout_add(&layout, (uint32_t)json_integer_value(count), 1);
                if (names)
                        names[n++] = host;
        }
        if (names)
                capo_input_hosts(run, names, n);
        capo_layout_print(&layout, text, sizeof text);
        if (strlen(text) < sizeof run->layout)
                strcpy(run->layout, text);
        /* Without MPI nccl-tests writes one entry of several lines, parsed as one (writeDeviceReport there). */
        if (run->n_ranks == 1 && num(config, "ngpus", 1) * num(config, "nthreads", 1) > 1) {
                run->n_ranks = (int)(num(config, "ngpus", 1) * num(config, "nthreads", 1));
                snprintf(run->layout, sizeof run->layout, "%d", run->n_ranks);
        }
        return 0;
}

static int times(struct capo_input *in, const json_t *row, struct capo_sample *s, const char *key, unsigned place,
                 unsigned n)
{
        const json_t *o = json_object_get(row, key), *v, *list;
        char per_iteration[40];
        size_t i;
        double us;

        if (!json_is_object(o))
                return 0;
        us = num(o, "time", num(o, "cpu_time", NAN));
        if (json_object_get(o, "cpu_time"))
                s->make = CAPO_MAKE_CPU;
        if (!(us > 0))
                return capo_input_error(in, 0, "results[%u].%s: expected a time in us above 0", n, key);
        if (num(o, "nwrong", 0) > 0)
                return 1;
        s->place = (uint8_t)place;
        snprintf(per_iteration, sizeof per_iteration, "%s_per_iter", key);
        list = json_object_get(json_object_get(row, per_iteration), "times_us");
        if (json_array_size(list) == 0) {
                s->us = us;
                return capo_samples_add(in->set, s);
        }
        json_array_foreach(list, i, v)
        {
                s->us = json_number_value(v);
                if (s->us > 0 && capo_samples_add(in->set, s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int nccl_tests(struct capo_input *in, const json_t *root)
{
        const json_t *config = json_object_get(root, "config"), *results = json_object_get(root, "results"), *row;
        const char *program = json_string_value(json_array_get(json_object_get(root, "args"), 0));
        struct capo_trial run = {.source = (char *)in->path, .line = 1};
        struct capo_sample s = {.make = num(config, "graph", 0) > 0 ? CAPO_MAKE_GRAPH : CAPO_MAKE_LOOP, .op = 255};
        size_t i, first = in->set->n;
        const char *slash, *bad = NULL;
        char name[64];
        uint8_t want = 0;
        int e;

        if (!json_is_array(results))
                return capo_input_error(in, 0, "expected a list \"results\" (is the run still going?)");
        slash = program ? strrchr(program, '/') : NULL;
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : program ? program : "");
        if (strstr(name, "_perf"))
                *strstr(name, "_perf") = 0;
        s.call = !strcmp(name, "sendrecv") ? CAPO_CALL_SEND : (uint8_t)capo_call_find(name);
        if (in->label && in->label->call)
                s.call = in->label->call;
        if (!s.call)
                return capo_input_error(
                        in, 0,
                        "expected args[0] to be a program of nccl-tests, found \"%s\"; --coll NAME says "
                        "which collective it is",
                        program ? program : "nothing");
        run.nccl = (uint32_t)capo_nccl_code((int)num(root, "nccl_version", 0));
        run.iterations = (uint32_t)num(config, "iterations", 1);
        devices(in, config, &run);
        e = capo_input_label(in, &run);
        if (e == 0)
                e = choice(in, root, &run, &want, &s.want_channels);
        if (e < 0)
                return e;
        s.want = want;
        if (run.n_ranks < 2)
                bad = "one rank: it ran alone, nothing was communicated";
        else if (num(json_object_get(root, "out_of_bounds"), "count", 0) > 0)
                bad = "values out of bounds: its results are wrong";
        s.run = capo_samples_run(in->set, &run);
        if (s.run == UINT32_MAX)
                return -ENOMEM;
        json_array_foreach(results, i, row)
        {
                if (bad)
                        break;
                s.bytes = (uint64_t)num(row, "size", 0);
                s.order = (uint32_t)i;
                s.type = 255;
                for (unsigned t = 0; t <= 11; t++) {
                        if (!strcmp(capo_type_name(t), str(row, "type")))
                                s.type = (uint8_t)t;
                }
                if (s.bytes == 0) {
                        in->set->n_empty++;
                        continue;
                }
                e = times(in, row, &s, "out_of_place", CAPO_PLACE_OUT, (unsigned)i);
                if (e == 0)
                        e = times(in, row, &s, "in_place", CAPO_PLACE_IN, (unsigned)i);
                if (e < 0)
                        return e;
                if (e > 0)
                        bad = "wrong values: its results are wrong";
        }
        if (bad) {
                in->set->n = first;
                in->set->n_rejected++;
                capo_samples_note(in->set, "%s: run rejected: %s", in->path, bad);
        }
        return 0;
}

/* ---- Inspector ---- */

struct heard {
        uint64_t comm, bytes;
        double us;
        uint32_t sn, run;
        uint8_t call, make, ran, channels;
};

static int by_call(const void *a, const void *b)
{
        const struct heard *x = a, *y = b;

        return CAPO_ORDER(x->comm, y->comm) ?: CAPO_ORDER(x->sn, y->sn) ?: CAPO_ORDER(x->us, y->us);
}

static unsigned make_of(const char *source)
{
        if (!strcmp(source, "kernel_gpu"))
                return CAPO_MAKE_KERNEL;
        if (!strncmp(source, "kernel_cpu", 10))
                return CAPO_MAKE_REPORT;
        return strstr(source, "cpu") ? CAPO_MAKE_HOST : CAPO_MAKE_UNKNOWN;
}

static int inspector_one(struct capo_input *in, const json_t *o, unsigned line, struct heard *h)
{
        const json_t *header = json_object_get(o, "header"), *perf = json_object_get(o, "coll_perf");
        struct capo_trial run = {.source = (char *)in->path, .line = line, .iterations = 1};
        unsigned algo, proto;

        if (!json_is_object(header))
                return capo_input_error(in, line,
                                        "expected \"header\" (NCCL Inspector) or \"results\" (nccl-tests -J)");
        if (!json_is_object(perf))
                return 1; /* p2p_perf, dump_stats, ... */
        h->call = (uint8_t)capo_call_find(str(perf, "coll"));
        if (!h->call)
                return capo_input_error(in, line, "coll_perf.coll: expected a collective, found \"%s\"",
                                        str(perf, "coll"));
        h->bytes = (uint64_t)num(perf, "coll_msg_size_bytes", 0);
        h->us = num(perf, "coll_exec_time_us", 0);
        h->sn = (uint32_t)num(perf, "coll_sn", 0);
        if (h->bytes == 0 || !(h->us > 0)) {
                in->set->n_empty++;
                return 1;
        }
        h->make = (uint8_t)make_of(str(perf, "coll_timing_source"));
        algo = capo_algo_find(str(perf, "coll_algo"));
        proto = capo_proto_find(str(perf, "coll_proto"));
        h->ran = CAPO_ALGO_PROTO(algo, proto);
        h->channels = (uint8_t)num(perf, "coll_n_channels", 0);
        h->comm = strtoull(str(header, "id"), NULL, 16);
        run.n_ranks = (int)num(header, "n_ranks", 0);
        run.n_nodes = (int)num(header, "nnodes", 0);
        if (run.n_ranks < 2)
                return 1;
        if (run.n_nodes == 1)
                snprintf(run.layout, sizeof run.layout, "%d", run.n_ranks);
        else if (run.n_nodes == run.n_ranks) {
                char text[24];

                snprintf(text, sizeof text, "%dx1", run.n_nodes);
                capo_input_layout(text, &run);
        }
        if (capo_input_label(in, &run) < 0)
                return -EINVAL;
        for (size_t i = in->set->n_runs; i > 0; i--) {
                const struct capo_trial *r = &in->set->runs[i - 1];

                if (strcmp(r->source, in->path))
                        break;
                if (r->n_ranks == run.n_ranks && r->n_nodes == run.n_nodes) {
                        h->run = (uint32_t)(i - 1);
                        return 0;
                }
        }
        h->run = capo_samples_run(in->set, &run);
        return h->run == UINT32_MAX ? -ENOMEM : 0;
}

static int inspector_samples(struct capo_input *in, struct heard *v, size_t n)
{
        const struct capo_label *user = in->label;

        if (n)
                qsort(v, n, sizeof *v, by_call);
        for (size_t i = 0, k; i < n; i = k) {
                const struct heard *h = &v[i];
                struct capo_sample s;
                unsigned kind = capo_call_kind(h->call);

                for (k = i + 1; k < n && h->comm && v[k].comm == h->comm && v[k].sn == h->sn; k++)
                        ;
                if (kind != CAPO_KIND_ALLREDUCE && kind != CAPO_KIND_ALLGATHER && kind != CAPO_KIND_REDUCESCATTER)
                        h = &v[k - 1];
                s = (struct capo_sample){.bytes = h->bytes,
                                         .us = h->us,
                                         .run = h->run,
                                         .order = h->sn,
                                         .call = h->call,
                                         .make = h->make,
                                         .type = 255,
                                         .op = 255,
                                         .ran = h->ran,
                                         .ran_channels = h->channels};
                if (user)
                        s.want = CAPO_ALGO_PROTO(user->algo, user->proto);
                if (user)
                        s.want_channels = user->channels;
                if (s.want && s.ran &&
                    ((CAPO_ALGO_OF(s.want) && CAPO_ALGO_OF(s.want) != CAPO_ALGO_OF(s.ran)) ||
                     (CAPO_PROTO_OF(s.want) && CAPO_PROTO_OF(s.want) != CAPO_PROTO_OF(s.ran))))
                        return capo_input_error(
                                in, 0, "contradicting labels: the command line says %s %s, the file %s %s",
                                capo_algo_name(CAPO_ALGO_OF(s.want)), capo_proto_name(CAPO_PROTO_OF(s.want)),
                                capo_algo_name(CAPO_ALGO_OF(s.ran)), capo_proto_name(CAPO_PROTO_OF(s.ran)));
                if (capo_samples_add(in->set, &s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

bool capo_import_is_json(const char *text, size_t n)
{
        text += strspn(text, " \t\r\n");
        return *text == '{' || (*text == '[' && text[1 + strspn(text + 1, " \t\r\n")] == '{');
}

int capo_import_json(struct capo_input *in)
{
        _cleanup_free_ struct heard *heard = NULL;
        size_t at = 0, n = 0;
        unsigned line = 1;
        int e;

        while (at < in->size) {
                json_error_t why;
                _cleanup_(json_freep) json_t *o = NULL;
                struct heard h = {0};

                for (; at < in->size && strchr(" \t\r\n,[]", in->text[at]); at++)
                        line += in->text[at] == '\n';
                if (at >= in->size)
                        break;
                o = json_loadb(in->text + at, in->size - at, JSON_DISABLE_EOF_CHECK, &why);
                if (!o && in->size - at < 4096 && heard && n) { /* a killed job leaves a cut last record */
                        capo_samples_note(in->set, "%s:%u: the last record is cut off and left out", in->path, line);
                        break;
                }
                if (!o)
                        return capo_input_error(in, line + (unsigned)(why.line > 0 ? why.line - 1 : 0), "%s", why.text);
                if (json_object_get(o, "results") || json_object_get(o, "config") || json_object_get(o, "args")) {
                        e = nccl_tests(in, o);
                        if (e < 0)
                                return e;
                        at += (size_t)why.position;
                        line += (unsigned)(why.line > 0 ? why.line - 1 : 0);
                        continue;
                }
                e = inspector_one(in, o, line, &h);
                if (e < 0)
                        return e;
                at += (size_t)why.position;
                line += (unsigned)(why.line > 0 ? why.line - 1 : 0);
                if (e > 0)
                        continue;
                if (capo_array_room(&heard, n, sizeof *heard) < 0)
                        return -ENOMEM;
                heard[n++] = h;
        }
        return inspector_samples(in, heard, n);
}
