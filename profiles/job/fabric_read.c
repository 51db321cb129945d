/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line is a word and tab-separated key=value pairs. Snapshots replace one another: a first pass finds the last one
 * that was written to its end (a killed process may have been writing), a second takes its lines apart.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/job/fabric_read.h"
#include "core/base/util.h"

const char *const capo_fabric_kind_names[CAPO_FI_KINDS] = {
#define KIND(id, name, sends) name,
        CAPO_FI_KIND_LIST(KIND)
#undef KIND
};

const bool capo_fabric_kind_sends[CAPO_FI_KINDS] = {
#define KIND(id, name, sends) sends,
        CAPO_FI_KIND_LIST(KIND)
#undef KIND
};

enum { OVERRUN = 268 }; /* FI_EOVERRUN (rdma/fi_errno.h) */

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool number(const char **at, uint64_t *out)
{
        char *end;

        if (**at < '0' || **at > '9')
                return false;
        errno = 0;
        *out = strtoull(*at, &end, 10);
        *at = end;
        return errno == 0;
}

/* "bucket:count,bucket:count": to @n counters of @width bytes. */
static bool pairs(const char *at, void *out, size_t n, size_t width)
{
        while (*at) {
                uint64_t bucket, count;

                if (!number(&at, &bucket) || *at++ != ':' || !number(&at, &count) || bucket >= n)
                        return false;
                if (width == 4)
                        ((uint32_t *)out)[bucket] += (uint32_t)count;
                else
                        ((uint64_t *)out)[bucket] += count;
                if (*at == ',')
                        at++;
                else if (*at)
                        return false;
        }
        return true;
}

static bool hist(const char *at, struct capo_fabric_hist *h)
{
        return number(&at, &h->count) && *at++ == ',' && number(&at, &h->sum_ns) && *at++ == ',' &&
               number(&at, &h->max_ns) && *at++ == ';' && pairs(at, h->bucket, CAPO_HIST_BUCKETS, 4);
}

static bool two(const char *at, uint64_t *a, uint64_t *b)
{
        return number(&at, a) && *at++ == ',' && number(&at, b) && !*at;
}

static bool one(const char *at, uint64_t *a)
{
        return number(&at, a) && !*at;
}

static void name(char *to, size_t room, const char *from)
{
        snprintf(to, room, "%s", from);
}

static void error_add(struct capo_fabric_counts *n, int code, uint64_t count, const char *text)
{
        n->errors += count;
        if (code == OVERRUN)
                n->overruns += count;
        for (unsigned i = 0; i < CAPO_FABRIC_ERRORS; i++) {
                if (i == n->n_errors) {
                        n->error[n->n_errors++] = (struct capo_fabric_error){.code = code};
                        name(n->error[i].text, sizeof n->error[i].text, text);
                }
                if (n->error[i].code == code) {
                        n->error[i].count += count;
                        return;
                }
        }
}

/* A key that endpoints, queues and domains share. Returns 1 taken, 0 not one of these, -1 malformed. */
static int counts_key(struct capo_fabric_counts *n, const char *key, const char *value)
{
        static const struct {
                const char *key;
                size_t at;
        } plain[] = {
                {"eagain", offsetof(struct capo_fabric_counts, eagain)},
                {"empty", offsetof(struct capo_fabric_counts, empty)},
                {"reads", offsetof(struct capo_fabric_counts, reads)},
                {"completions", offsetof(struct capo_fabric_counts, completions)},
                {"errors_other", offsetof(struct capo_fabric_counts, errors)},
        };

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                if (!strcmp(key, capo_fabric_kind_names[k])) {
                        if (!number(&value, &n->kind[k].count) || *value++ != ',' ||
                            !number(&value, &n->kind[k].bytes) || *value++ != ';')
                                return -1;
                        return pairs(value, n->kind[k].sizes, CAPO_FI_SIZES, 8) ? 1 : -1;
                }
        }
        for (size_t i = 0; i < N_ELEMENTS(plain); i++) {
                if (!strcmp(key, plain[i].key)) {
                        uint64_t v;

                        if (!one(value, &v))
                                return -1;
                        *(uint64_t *)((char *)n + plain[i].at) += v;
                        return 1;
                }
        }
        if (!strcmp(key, "received"))
                return two(value, &n->received, &n->received_bytes) ? 1 : -1;
        if (!strcmp(key, "error")) {
                uint64_t code, count;

                if (!number(&value, &code) || *value++ != ',' || !number(&value, &count) || *value++ != ',')
                        return -1;
                error_add(n, (int)code, count, value);
                return 1;
        }
        return 0;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* The next key=value of a line that is cut into strings as it is walked; false at its end. */
static bool next_pair(char **at, char **key, char **value)
{
        char *pair = *at, *end;

        if (!pair)
                return false;
        end = strchr(pair, '\t');
        if (end)
                *end = 0;
        *at = end ? end + 1 : NULL;
        *key = pair;
        *value = strchr(pair, '=');
        if (*value)
                *(*value)++ = 0;
        else
                *value = pair + strlen(pair);
        return true;
}

static void *grow(void *array, size_t *n, size_t size)
{
        char **at = array;
        char *more;

        if (!(*n & (*n - 1))) { /* at powers of two */
                more = realloc(*at, (*n ? 2 * *n : 1) * size);
                if (!more)
                        return NULL;
                *at = more;
        }
        memset(*at + *n * size, 0, size);
        return *at + (*n)++ * size;
}

static int domain_line(struct capo_fabric *f, char *at)
{
        struct capo_fabric_domain *d = grow(&f->domains, &f->n_domains, sizeof *d);
        char *key, *value;
        int r = 0;

        if (!d)
                return -ENOMEM;
        d->numa = -1;
        while (next_pair(&at, &key, &value)) {
                uint64_t v = 0;
                int k = counts_key(&d->n, key, value);

                if (k < 0)
                        r = 1;
                if (k)
                        continue;
                if (!strcmp(key, "provider"))
                        name(d->provider, sizeof d->provider, value);
                else if (!strcmp(key, "fabric_name"))
                        name(d->fabric, sizeof d->fabric, value);
                else if (!strcmp(key, "name"))
                        name(d->name, sizeof d->name, value);
                else if (!strcmp(key, "device"))
                        name(d->device, sizeof d->device, value);
                else if (!strcmp(key, "nic"))
                        name(d->nic, sizeof d->nic, value);
                else if (!strcmp(key, "mr"))
                        r |= !two(value, &d->mr_count, &d->mr_bytes);
                else if (!strcmp(key, "mr_ns"))
                        r |= !hist(value, &d->mr);
                else if (!strcmp(key, "tx_ns"))
                        r |= !hist(value, &d->tx);
                else if (!strcmp(key, "rx_ns"))
                        r |= !hist(value, &d->rx);
                else if (!one(value, &v))
                        continue;
                else if (!strcmp(key, "id"))
                        d->id = (uint32_t)v;
                else if (!strcmp(key, "speed"))
                        d->speed_bps = v;
                else if (!strcmp(key, "numa"))
                        d->numa = (int)v;
                else if (!strcmp(key, "sample"))
                        d->sample = (unsigned)v;
                else if (!strcmp(key, "mr_failed"))
                        d->mr_failed = v;
                else if (!strcmp(key, "folded"))
                        d->endpoints += (unsigned)v;
        }
        return r;
}

static int object_line(struct capo_fabric *f, const char *kind, char *at)
{
        struct capo_fabric_object *o = grow(&f->objects, &f->n_objects, sizeof *o);
        char *key, *value;
        int r = 0;

        if (!o)
                return -ENOMEM;
        name(o->kind, sizeof o->kind, kind);
        while (next_pair(&at, &key, &value)) {
                uint64_t v = 0;
                int k = counts_key(&o->n, key, value);

                if (k < 0)
                        r = 1;
                if (k)
                        continue;
                if (!strcmp(key, "type"))
                        name(o->type, sizeof o->type, value);
                else if (!strcmp(key, "contexts_repeat"))
                        name(o->contexts_repeat, sizeof o->contexts_repeat, value);
                else if (!one(value, &v))
                        continue;
                else if (!strcmp(key, "id"))
                        o->id = (uint32_t)v;
                else if (!strcmp(key, "domain"))
                        o->domain = (uint32_t)v;
                else if (!strcmp(key, "closed"))
                        o->closed = v;
        }
        return r;
}

static int window_line(struct capo_fabric *f, char *at)
{
        struct capo_fabric_window *w = grow(&f->windows, &f->n_windows, sizeof *w);
        char *key, *value;
        int r = 0;

        if (!w)
                return -ENOMEM;
        while (next_pair(&at, &key, &value)) {
                uint64_t v;

                if (!one(value, &v))
                        r = 1;
                else if (!strcmp(key, "begin"))
                        w->begin_ns = v;
                else if (!strcmp(key, "end"))
                        w->end_ns = v;
                else if (!strcmp(key, "ops"))
                        w->ops = v;
                else if (!strcmp(key, "tx"))
                        w->tx_bytes = v;
                else if (!strcmp(key, "rx"))
                        w->rx_bytes = v;
        }
        if (w->end_ns < w->begin_ns) {
                f->n_windows--;
                return 1;
        }
        return r;
}

/* "gap" and a letter for each look: see docs/log-format.md. */
static int looks_line(struct capo_fabric *f, char *at)
{
        static const char letters[] = "imwbIMWB"; /* bits: moving, waiting, unsure */
        const char *seen = "", *letter;
        char *key, *value;
        uint64_t every = 0, t = 0;

        while (next_pair(&at, &key, &value)) {
                uint64_t v = 0;

                if (!strcmp(key, "seen"))
                        seen = value;
                else if (!one(value, &v))
                        return 1;
                else if (!strcmp(key, "every"))
                        every = v;
                else if (!strcmp(key, "begin"))
                        t = v;
        }
        while (*seen) {
                struct capo_fabric_look *look;
                uint64_t gap_us;

                if (!number(&seen, &gap_us) || !*seen || !(letter = strchr(letters, *seen++)))
                        return 1;
                look = grow(&f->looks, &f->n_looks, sizeof *look);
                if (!look)
                        return -ENOMEM;
                t += 1000 * gap_us;
                *look = (struct capo_fabric_look){.t_ns = t,
                                                  .every_s = (float)every / 1e9f,
                                                  .moving = (letter - letters) & 1,
                                                  .waiting = (letter - letters) & 2,
                                                  .unsure = (letter - letters) & 4};
        }
        return 0;
}

static int looked_line(struct capo_fabric *f, char *at)
{
        char *key, *value;

        while (next_pair(&at, &key, &value)) {
                uint64_t v;

                if (!one(value, &v))
                        return 1;
                if (!strcmp(key, "taken"))
                        f->looks_taken = v;
                else if (!strcmp(key, "late"))
                        f->looks_late = v;
                else if (!strcmp(key, "slit"))
                        f->slit_ns = v;
        }
        return 0;
}

static int inside_line(struct capo_fabric *f, char *at)
{
        struct capo_fabric_inside *i = grow(&f->inside, &f->n_inside, sizeof *i);
        char *key, *value;
        int r = 0;

        if (!i)
                return -ENOMEM;
        while (next_pair(&at, &key, &value)) {
                uint64_t v;

                if (!one(value, &v))
                        r = 1;
                else if (!strcmp(key, "comm"))
                        i->comm_uid = v;
                else if (!strcmp(key, "call"))
                        i->call = (uint8_t)v;
                else if (!strcmp(key, "ops"))
                        i->ops = v;
                else if (!strcmp(key, "bytes"))
                        i->bytes = v;
        }
        return r;
}

static int machine_line(struct capo_fabric *f, char *at)
{
        char *key, *value;

        while (next_pair(&at, &key, &value)) {
                if (!strcmp(key, "infiniband"))
                        name(f->infiniband, sizeof f->infiniband, value);
                else if (!strcmp(key, "cxi"))
                        name(f->cxi, sizeof f->cxi, value);
        }
        return 0;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static uint64_t snapshot_of(const char *line, const char *word)
{
        size_t n = strlen(word);

        return !strncmp(line, word, n) && line[n] == '\t' ? strtoull(line + n + 1, NULL, 10) : 0;
}

static uint64_t choose_snapshot(const char *text)
{
        uint64_t complete = 0, last = 0, v;

        for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
                if ((v = snapshot_of(line, "snapshot")))
                        last = v;
                else if ((v = snapshot_of(line, "complete")) > complete) /* a recovered one may come late */
                        complete = v;
        }
        return complete ? complete : last;
}

static struct capo_fabric_domain *domain_by_id(struct capo_fabric *f, uint32_t id)
{
        for (size_t i = 0; i < f->n_domains; i++) {
                if (f->domains[i].id == id)
                        return &f->domains[i];
        }
        return NULL;
}

int capo_fabric_parse(const char *text, struct capo_fabric **out)
{
        _cleanup_(capo_fabric_freep) struct capo_fabric *f = calloc(1, sizeof *f);
        _cleanup_free_ char *copy = strdup(text);
        uint64_t wanted = choose_snapshot(text), now = 0;

        if (!f || !copy)
                return -ENOMEM;
        for (char *line = copy, *next; line; line = next) {
                char *rest;
                int r = 0;

                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                else
                        break; /* a line without its end was cut */
                if (!strncmp(line, "snapshot\t", 9)) {
                        now = snapshot_of(line, "snapshot");
                        continue;
                }
                rest = strchr(line, '\t');
                if (rest)
                        *rest++ = 0;
                if (!strcmp(line, "machine"))
                        r = machine_line(f, rest);
                else if (now != wanted)
                        continue;
                else if (!strcmp(line, "domain"))
                        r = domain_line(f, rest);
                else if (!strcmp(line, "window"))
                        r = window_line(f, rest);
                else if (!strcmp(line, "looks"))
                        r = looks_line(f, rest);
                else if (!strcmp(line, "looked"))
                        r = looked_line(f, rest);
                else if (!strcmp(line, "inside"))
                        r = inside_line(f, rest);
                else if (!strcmp(line, "ep") || !strcmp(line, "cq") || !strcmp(line, "cntr") || !strcmp(line, "eq") ||
                         !strcmp(line, "pep"))
                        r = object_line(f, line, rest);
                if (r < 0)
                        return r;
                f->bad_lines += r;
        }
        for (size_t i = 0; i < f->n_objects; i++) {
                struct capo_fabric_object *o = &f->objects[i];
                struct capo_fabric_domain *d = domain_by_id(f, o->domain);

                if (!d)
                        continue;
                d->endpoints += !strcmp(o->kind, "ep");
                d->queues += !strcmp(o->kind, "cq");
                if (strcmp(o->kind, "cntr")) /* reads of a counter are no reads of a queue */
                        capo_fabric_counts_add(&d->n, &o->n);
        }
        *out = steal(&f);
        return 0;
}

void capo_fabric_free(struct capo_fabric *f)
{
        if (!f)
                return;
        free(f->domains);
        free(f->objects);
        free(f->windows);
        free(f->looks);
        free(f->inside);
        free(f);
}

double capo_fabric_percentile(const struct capo_fabric_hist *h, double p)
{
        uint64_t seen = 0, total = 0;

        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++)
                total += h->bucket[b];
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS && total; b++) {
                seen += h->bucket[b];
                if ((double)seen >= p * (double)total) {
                        double middle = (double)(capo_hist_floor(b) + capo_hist_floor(b + 1)) / 2;

                        return middle < (double)h->max_ns || !h->max_ns ? middle : (double)h->max_ns;
                }
        }
        return 0;
}

void capo_fabric_hist_add(struct capo_fabric_hist *to, const struct capo_fabric_hist *from)
{
        to->count += from->count;
        to->sum_ns += from->sum_ns;
        if (to->max_ns < from->max_ns)
                to->max_ns = from->max_ns;
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++)
                to->bucket[b] += from->bucket[b];
}

void capo_fabric_counts_add(struct capo_fabric_counts *to, const struct capo_fabric_counts *from)
{
        uint64_t known = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                to->kind[k].count += from->kind[k].count;
                to->kind[k].bytes += from->kind[k].bytes;
                for (int b = 0; b < CAPO_FI_SIZES; b++)
                        to->kind[k].sizes[b] += from->kind[k].sizes[b];
        }
        to->eagain += from->eagain;
        to->empty += from->empty;
        to->reads += from->reads;
        to->completions += from->completions;
        to->received += from->received;
        to->received_bytes += from->received_bytes;
        for (unsigned i = 0; i < from->n_errors; i++) {
                error_add(to, from->error[i].code, from->error[i].count, from->error[i].text);
                known += from->error[i].count;
        }
        to->errors += from->errors - known;
}

uint64_t capo_fabric_sent(const struct capo_fabric_counts *n)
{
        uint64_t bytes = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++) {
                if (capo_fabric_kind_sends[k])
                        bytes += n->kind[k].bytes;
        }
        return bytes;
}

uint64_t capo_fabric_recv(const struct capo_fabric_counts *n, bool *exact)
{
        uint64_t posts = n->kind[CAPO_FI_RECV].count + n->kind[CAPO_FI_TRECV].count;

        *exact = n->received || !posts;
        return n->received ? n->received_bytes : n->kind[CAPO_FI_RECV].bytes + n->kind[CAPO_FI_TRECV].bytes;
}

uint64_t capo_fabric_ops(const struct capo_fabric_counts *n)
{
        uint64_t ops = 0;

        for (int k = 0; k < CAPO_FI_KINDS; k++)
                ops += n->kind[k].count;
        return ops;
}

bool capo_fabric_is_slow(const char *provider)
{
        static const char *const slow[] = {"tcp", "udp", "sockets", "net"};
        size_t n = strcspn(provider, ";");

        for (size_t i = 0; i < N_ELEMENTS(slow); i++) {
                if (strlen(slow[i]) == n && !strncmp(provider, slow[i], n))
                        return true;
        }
        return false;
}
