/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, one document or several in a row: the report of nccl-tests -J (its src/util.cu, version 2),
 * one document per run, with its environment and so with what was forced; and NCCL Inspector's
 * records (inspector.c). A document that cannot be read is reported and left out. */
#include <math.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_json.h"
#include "profiles/import/text_command.h"

/* ---- nccl-tests ---- */

static int parse_choice(struct capo_input *in, const json_t *root, struct capo_trial *run,
                        uint8_t *want, uint8_t *channels)
{
        const struct capo_label *user = in->label;
        unsigned algo = 0, proto = 0;
        const char *tuner = "", *several = NULL;
        char name[48], value[64];
        const json_t *v;
        size_t i;

        *channels = 0;
        json_array_foreach(json_object_get(root, "env"), i, v)
        {
                const char *s = json_string_value(v);

                if (!s)
                        continue;
                if ((!strncmp(s, "NCCL_ALGO=", 10) && s[10] && !(algo = capo_algo_find(s + 10))) ||
                    (!strncmp(s, "NCCL_PROTO=", 11) && s[11] && !(proto = capo_proto_find(s + 11))))
                        several = s;
                if (!strncmp(s, "NCCL_MAX_NCHANNELS=", 19))
                        *channels = (uint8_t)atoi(s + 19);
                if (!strncmp(s, "NCCL_TUNER_PLUGIN=", 18)) {
                        tuner = s + 18;
                        several = strcasestr(tuner, "capo") ? s
                                                            : several; /* its profile is unknown */
                }
                if (sscanf(s, "%47[A-Z0-9_]=%63s", name, value) != 2)
                        continue;
                if (capo_text_forces(name) && strcmp(name, "NCCL_ALGO") &&
                    strcmp(name, "NCCL_PROTO") && strcmp(name, "NCCL_TUNER_PLUGIN"))
                        several = s;
                else
                        capo_settings_add(run->settings, name, value);
        }
        snprintf(run->why, sizeof run->why, "%s",
                 algo || proto ? "NCCL_ALGO, NCCL_PROTO of its environment"
                               : "its environment forces nothing");
        for (int k = 0; user && k < 2; k++) {
                unsigned *found = k ? &proto : &algo, said = k ? user->proto : user->algo;

                if (*found && *found != said && (said || user->default_choice))
                        return capo_input_error(
                                in, run->line,
                                "contradicting labels: --%s on the command line, NCCL_%s=%s in the file",
                                k ? "proto" : "algo", k ? "PROTO" : "ALGO",
                                k ? capo_proto_name(proto) : capo_algo_name(algo));
                *found = *found ? *found : said;
        }
        if (user && user->channels)
                *channels = user->channels;
        *want = CAPO_ALGO_PROTO(algo, proto);
        capo_input_tuner(run, tuner, *want);
        if (several && !(user && (user->algo || user->proto)))
                capo_trial_leave_out(run, "%.60s does not say what ran", several);
        return 0;
}

/* @odd: set to why the run is useless, if it is. */
static void parse_devices(const json_t *config, struct capo_trial *run, const char **odd)
{
        const json_t *list = json_object_get(config, "devices"), *d;
        struct capo_layout layout = {0};
        json_auto_t *hosts = json_object();
        const char *host;
        json_t *count;
        _cleanup_free_ const char **names = NULL;
        int several = (int)(json_count(config, "ngpus", 1, INT16_MAX) *
                            json_count(config, "nthreads", 1, INT16_MAX));
        size_t i, n = 0;

        json_array_foreach(list, i, d)
        {
                const char *gpu = json_str(d, "device_info");

                host = json_str(d, "hostname");
                json_object_set_new(
                        hosts, host,
                        json_integer(1 + json_integer_value(json_object_get(hosts, host))));
                gpu += !strncmp(gpu, "NVIDIA ", 7) ? 7 : 0;
                if (*run->gpu && *gpu && strncmp(run->gpu, gpu, sizeof run->gpu - 1))
                        *odd = "two kinds of GPU in one run";
                snprintf(run->gpu, sizeof run->gpu, "%.47s", gpu);
        }
        run->n_ranks = (int)json_array_size(list);
        run->n_nodes = (int)json_object_size(hosts);
        names = xcalloc((size_t)run->n_nodes + 1, sizeof *names);
        json_object_foreach(hosts, host, count)
        {
                capo_layout_add(&layout, (uint32_t)json_integer_value(count), 1);
                names[n++] = host;
        }
        capo_input_hosts(run, names, n);
        capo_input_place(&layout, run);
        /* Without MPI, nccl-tests writes one entry of several lines, parsed as one (its
         * writeDeviceReport). */
        if (run->n_ranks == 1 && several > 1) {
                run->n_ranks = several;
                snprintf(run->layout, sizeof run->layout, "%d", run->n_ranks);
        }
}

static int parse_times(struct capo_input *in, unsigned line, const json_t *row,
                       struct capo_sample *s, const char *key, unsigned place, unsigned n)
{
        const json_t *o = json_object_get(row, key);
        double us;

        if (!json_is_object(o))
                return 0;
        us = json_num(o, "time", json_num(o, "cpu_time", NAN));
        if (json_object_get(o, "cpu_time"))
                s->make = CAPO_MAKE_CPU;
        if (!(us > 0))
                return capo_input_error(in, line, "results[%u].%s: expected a time in us above 0",
                                        n, key);
        if (json_num(o, "nwrong", 0) > 0)
                return 1;
        s->place = (uint8_t)place;
        /* -I adds the time between the events of each call: another clock, which other runs lack.
         */
        s->us = us;
        capo_samples_add(in->set, s);
        return 0;
}

static int nccl_tests(struct capo_input *in, const json_t *root, unsigned line)
{
        const json_t *config = json_object_get(root, "config"),
                     *results = json_object_get(root, "results"), *row;
        const char *program = json_string_value(json_array_get(json_object_get(root, "args"), 0));
        struct capo_trial run = {.source = (char *)in->path, .line = line};
        struct capo_sample s = {.make = json_num(config, "graph", 0) > 0 ? CAPO_MAKE_GRAPH
                                                                         : CAPO_MAKE_LOOP,
                                .op = 255};
        size_t i, first = in->set->n;
        const char *bad = NULL;
        char name[64];
        uint8_t want = 0;
        int e;

        if (!json_is_array(results))
                return capo_input_error(in, line,
                                        "expected a list \"results\" (is the run still going?)");
        snprintf(name, sizeof name, "%s", program ? capo_base_name(program) : "");
        if (strstr(name, "_perf"))
                *strstr(name, "_perf") = 0;
        s.call = !strcmp(name, "sendrecv") ? CAPO_CALL_SEND : (uint8_t)capo_call_find(name);
        if (in->label && in->label->call)
                s.call = in->label->call;
        if (!s.call)
                return capo_input_error(
                        in, line,
                        "expected args[0] to be a program of nccl-tests, found \"%s\"; --coll NAME says "
                        "which collective it is",
                        program ? program : "nothing");
        run.nccl = (uint32_t)capo_nccl_code((int)json_count(root, "nccl_version", 0, INT_MAX));
        run.iterations = (uint32_t)json_count(config, "iterations", 1, UINT32_MAX);
        parse_devices(config, &run, &bad);
        run.began = capo_stamp_read(json_str(root, "start_time"));
        e = capo_input_label(in, &run);
        if (e == 0)
                e = parse_choice(in, root, &run, &want, &s.want_channels);
        if (e < 0)
                return e;
        s.want = want;
        if (run.n_ranks < 2)
                bad = "one rank: it ran alone, nothing was communicated";
        else if (json_num(json_object_get(root, "out_of_bounds"), "count", 0) > 0)
                bad = "values out of bounds: its results are wrong";
        s.run = capo_samples_run(in->set, &run);
        json_array_foreach(results, i, row)
        {
                if (bad)
                        break;
                s.bytes = json_count(row, "size", 0, JSON_BYTES_MAX);
                s.order = (uint32_t)i;
                s.type = 255;
                for (unsigned t = 0; t <= 11; t++) {
                        if (!strcmp(capo_type_name(t), json_str(row, "type")))
                                s.type = (uint8_t)t;
                }
                if (s.bytes == 0) {
                        in->set->n_empty++;
                        continue;
                }
                e = parse_times(in, line, row, &s, "out_of_place", CAPO_PLACE_OUT, (unsigned)i);
                if (e == 0)
                        e = parse_times(in, line, row, &s, "in_place", CAPO_PLACE_IN, (unsigned)i);
                if (e < 0)
                        return e;
                if (e > 0)
                        bad = "wrong values: its results are wrong";
        }
        if (bad) {
                in->set->n = first;
                in->set->n_rejected++;
                capo_samples_note(in->set, "%s:%u: run rejected: %s", in->path, line, bad);
        }
        return 0;
}

/* A list of something other than objects; NULL: not a list. Prefixes of launchers begin with [ too.
 */
static json_t *plain_list(const char *text, size_t n)
{
        const char *from = text + strspn(text, " \t\r\n");

        return *from == '[' && from[1 + strspn(from + 1, " \t\r\n")] != '{'
                       ? json_loadb(text, n, 0, NULL)
                       : NULL;
}

bool capo_import_is_json(const char *text, size_t n)
{
        json_auto_t *list = plain_list(text, n);

        text += strspn(text, " \t\r\n");
        return list || *text == '{' ||
               (*text == '[' && text[1 + strspn(text + 1, " \t\r\n")] == '{');
}

/* Where the next document may begin: a line with the same indentation as the one at @at; in->size:
 * none. */
static size_t next_document(const struct capo_input *in, size_t at)
{
        size_t from = at, indent;

        while (from > 0 && in->text[from - 1] != '\n')
                from--;
        indent = strspn(in->text + from, " \t[");
        for (const char *p = in->text + at; (p = strchr(p, '\n')); p++) {
                if (strspn(p + 1, " \t,") == indent && p[1 + indent] == '{')
                        return (size_t)(p + 1 + (ptrdiff_t)indent - in->text);
        }
        return in->size;
}

/* Describe an unknown document by its first keys. */
static char *json_foreign(const json_t *o, char *text, size_t room)
{
        enum { KEYS = 5 };
        size_t n = 0, all = json_object_size(o);
        const char *key;
        json_t *v;

        snprintf(text, room,
                 "expected \"results\" (nccl-tests -J) or \"header\" (NCCL Inspector), found ");
        if (!json_is_object(o))
                return capo_append(text, room, "a list of %zu", json_array_size(o));
        capo_append(text, room, all ? "the keys " : "an object without keys");
        json_object_foreach((json_t *)o, key, v)
        {
                char plain[33];

                snprintf(plain, sizeof plain, "%s", key);
                for (char *c = plain; *c; c++)
                        *c = *c >= ' ' && *c <= '~' && *c != '"' ? *c : '?';
                if (n++ < KEYS)
                        capo_append(text, room, "%s\"%s%s\"", n > 1 ? ", " : "", plain,
                                    strlen(key) < sizeof plain ? "" : "...");
        }
        if (all > KEYS)
                capo_append(text, room, " and %zu more", all - KEYS);
        return text;
}

int capo_import_json(struct capo_input *in)
{
        struct capo_late *late = capo_late_of(in);
        struct inspector *all = late->records;
        size_t at = 0, before = in->set->n, kept = all->n;
        unsigned line = 1;
        struct capo_input_faults faults = {0};
        int e = 0;
        json_auto_t *list = plain_list(in->text, in->size);
        char what[320];

        if (list)
                return capo_input_error(in, line, "%s", json_foreign(list, what, sizeof what));
        while (e == 0) {
                json_error_t why;
                json_auto_t *o = NULL;
                size_t n = in->set->n, runs = in->set->n_runs, next;

                for (; at < in->size && strchr(" \t\r\n,[]", in->text[at]); at++)
                        line += in->text[at] == '\n';
                if (at >= in->size)
                        break;
                o = json_loadb(in->text + at, in->size - at, JSON_DISABLE_EOF_CHECK, &why);
                if (o) {
                        next = at + (size_t)why.position;
                        if (json_is_object(json_object_get(o, "header")))
                                e = inspector_add(in, all, o, line);
                        else if (json_is_array(json_object_get(o, "results")) ||
                                 (json_object_get(o, "config") && json_object_get(o, "args")))
                                e = nccl_tests(in, o, line);
                        else
                                e = capo_input_error(in, line, "%s",
                                                     json_foreign(o, what, sizeof what));
                } else {
                        next = next_document(in, at);
                        if (next == in->size &&
                            (all->n > kept ||
                             in->set->n > before)) { /* a killed job ends with such a document */
                                capo_samples_note(in->set,
                                                  "%s:%u: the last record is cut off and left out",
                                                  in->path, line);
                                break;
                        }
                        e = why.line > 1 ? capo_input_error(in, line, "%s, in line %u", why.text,
                                                            line + (unsigned)why.line - 1)
                                         : capo_input_error(in, line, "%s", why.text);
                }
                if (e < 0) { /* concerns only this document */
                        capo_input_fault(in, &faults);
                        in->set->n = n;
                        for (; runs < in->set->n_runs; runs++)
                                capo_trial_leave_out(&in->set->runs[runs], "rejected");
                        e = 0;
                }
                for (; at < next; at++)
                        line += in->text[at] == '\n';
        }
        return e < 0 ? e
                     : capo_input_faults_end(in, &faults, "documents",
                                             in->set->n > before || all->n > kept);
}
