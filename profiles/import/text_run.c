/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: its header, labels, NCCL's log lines and the user's flags must agree on the
 * collective, the ranks and what was forced. Then its rows become samples. A run that cannot be
 * trusted is left out completely, with the reason. */
#include <math.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/import/text_rows.h"

/* Derives the number of ranks and the collective from the two bandwidths of a run's rows. */

/* The number of ranks from the bandwidths, if exactly one fits all rows (between @lo and @hi); else
 * 0, and *@factor is busbw/algbw of the fastest row if that is precise enough. */
static int find_ranks(const struct block *b, unsigned call, double *factor, double *lo, double *hi)
{
        unsigned kind = capo_call_kind(call);
        const double two = kind == CAPO_KIND_ALLREDUCE ? 2 : 1;
        double best = 0;

        *factor = *lo = 0;
        *hi = INFINITY;
        for (size_t i = 0; i < b->n_rows; i++) {
                const struct row *r = &b->rows[i];
                double f = r->busbw / r->algbw, half = 0.0055 * (1 + f) / r->algbw;

                if (r->algbw < 1 || r->busbw <= 0)
                        continue;
                /* printed with two decimals: with few bytes or many ranks the range is wide */
                *lo = fmax(*lo, f - half < two ? two / (two - (f - half)) : INFINITY);
                *hi = fmin(*hi, f + half < two ? two / (two - (f + half)) : INFINITY);
                if (r->algbw > best && r->algbw >= 5)
                        *factor = r->busbw / r->algbw;
                best = fmax(best, r->algbw);
        }
        switch (kind) {
        case CAPO_KIND_ALLREDUCE:
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_REDUCESCATTER:
        case CAPO_KIND_ALLTOALL:
        case CAPO_KIND_GATHER:
        case CAPO_KIND_SCATTER: break;
        default: *hi = INFINITY; return 0;
        }
        return *hi < 1e6 && ceil(*lo) == floor(*hi) && *hi >= 2 ? (int)floor(*hi) : 0;
}

/* The collective of a reduction without root whose rates are too low to decide, for example on a
 * broken network: the listed ranks may exclude one. CAPO_CALL_NONE: both or neither fit. */
static uint8_t find_call(const struct reader *r)
{
        static const uint8_t calls[] = {CAPO_CALL_ALLREDUCE, CAPO_CALL_REDUCESCATTER};
        const struct capo_label *user = r->in->label;
        int n = user && user->n_ranks ? user->n_ranks : r->block.n_devices;
        bool fits[2] = {n >= 2, n >= 2};

        for (int k = 0; k < 2 && n >= 2; k++) {
                double f = capo_busbw_factor(capo_call_kind(calls[k]), (unsigned)n);

                for (size_t i = 0; i < r->block.n_rows; i++) {
                        const struct row *row = &r->block.rows[i];

                        fits[k] &= fabs(row->busbw - f * row->algbw) <= 0.0055 * (1 + f);
                }
        }
        return fits[0] == fits[1] ? CAPO_CALL_NONE : calls[fits[1]];
}

void capo_text_fault(struct reader *r)
{
        const char *said = r->in->error;
        size_t n = strlen(r->in->path);

        if (!strncmp(said, r->in->path, n) && said[n] == ':')
                said += n + 1;
        said += strspn(said, " ");
        if (strspn(said, "0123456789") && said[strspn(said, "0123456789")] == ':')
                capo_text_reject(&r->block, "line %s", said);
        else
                capo_text_reject(&r->block, "%s", said);
        *r->in->error = 0;
}

/* Compare --layout with the listed devices. Some of their lines may be lost: then the bandwidths
 * must fit --layout (@by_bandwidth: the ranks they show; 0: unclear). */
static int check_layout(struct reader *r, int by_bandwidth)
{
        const struct capo_label *user = r->in->label;
        const struct block *b = &r->block;

        if (user && user->n_nodes && b->log.n_nodes && user->n_nodes != b->log.n_nodes)
                return capo_input_error(
                        r->in, b->run.line,
                        "contradicting labels: --layout has %d node%s, but NCCL counts %d (hosts of "
                        "one NVLink domain are one node to it): a rule for %d could never match",
                        user->n_nodes, user->n_nodes == 1 ? "" : "s", b->log.n_nodes,
                        user->n_nodes);
        if (!user || !user->n_ranks || !b->n_devices)
                return 0;
        if (b->n_devices > user->n_ranks ||
            (b->n_devices < user->n_ranks && by_bandwidth && by_bandwidth != user->n_ranks))
                return capo_input_error(
                        r->in, b->run.line,
                        "contradicting labels: --layout has %d ranks, but %d devices are listed",
                        user->n_ranks, b->n_devices);
        if (b->n_devices == user->n_ranks && user->layout[0] && b->run.layout[0] &&
            strcmp(user->layout, b->run.layout) && !b->log.n_nodes)
                return capo_input_error(
                        r->in, b->run.line,
                        "contradicting labels: --layout %s, but the devices listed are %s",
                        user->layout, b->run.layout);
        return 0;
}

static int settle_ranks(struct reader *r)
{
        struct block *b = &r->block;
        struct capo_trial *run = &b->run;
        struct capo_layout layout = {0};
        int e, by_bandwidth;
        double factor, lo, hi;

        if (b->n_devices && !run->layout[0]) {
                for (int i = 0; i < r->n_hosts; i++) {
                        if (r->on_host[i] &&
                            capo_layout_add(&layout, (uint32_t)r->on_host[i], 1) < 0)
                                break;
                }
                if (run->n_ranks && run->n_ranks != b->n_devices)
                        return capo_input_error(
                                r->in, b->label_line,
                                "contradicting labels: %d ranks, but %d devices are listed",
                                run->n_ranks, b->n_devices);
                run->n_ranks = b->n_devices;
                run->n_nodes = b->n_hosts;
                if (layout.n_ranks == (uint32_t)b->n_devices)
                        capo_input_place(&layout, run);
        }
        if (b->log.n_nodes && run->n_ranks && b->log.n_nodes != run->n_nodes &&
            run->n_ranks % b->log.n_nodes == 0) {
                run->n_nodes =
                        b->log.n_nodes; /* NCCL counts the hosts of one NVLink domain as one node */
                run->layout[0] = 0;
                capo_input_even(run);
        }
        if (b->n_devices && (!b->device_rank0 || b->last_rank >= b->n_devices) &&
            !(r->in->label && r->in->label->n_ranks))
                capo_text_reject(
                        b,
                        "it lists %d rank%s, the last is rank %d%s: lines are missing; --layout says the ranks",
                        b->n_devices, b->n_devices == 1 ? "" : "s", b->last_rank,
                        b->device_rank0 ? "" : ", and no rank 0");
        by_bandwidth = find_ranks(b, b->call, &factor, &lo, &hi);
        e = check_layout(r, by_bandwidth);
        if (e == 0)
                e = capo_input_label(r->in, run);
        if (e < 0)
                return e;
        if (!run->n_ranks)
                run->n_ranks = by_bandwidth;
        if (!run->n_ranks && !by_bandwidth && isfinite(hi) && floor(hi) > ceil(lo))
                capo_text_reject(
                        b,
                        "its bandwidths are those of %.0f to %.0f ranks, too many to tell; --layout says it",
                        ceil(lo), floor(hi));
        if (run->n_ranks == 1)
                capo_text_reject(b, "one rank: it ran alone, nothing was communicated");
        else if (run->n_ranks && factor > 0) {
                double expected =
                        capo_busbw_factor(capo_call_kind(b->call), (unsigned)run->n_ranks);

                if (fabs(factor - expected) > 0.02)
                        capo_text_reject(
                                b,
                                "%d ranks are listed, but its bandwidths are those of %d (busbw/algbw %.3f, expected "
                                "%.3f); if lines were lost, say --layout",
                                run->n_ranks, by_bandwidth, factor, expected);
        }
        if (run->n_ranks > 0 && run->n_nodes == 1 && !run->layout[0])
                capo_input_even(run);
        return 0;
}

/* The collective: as given, or the only one that fits the columns. */
static void settle_call(struct reader *r)
{
        struct block *b = &r->block;
        double factor, lo, hi;

        if (r->in->label && r->in->label->call)
                b->call = r->in->label->call;
        if (b->call)
                return;
        b->call = (uint8_t)capo_nccl_log_call(&b->log);
        if (b->call)
                return;
        /* Otherwise the columns decide as far as possible (nccl-tests doc/PERFORMANCE.md): with a
         * root it is broadcast or reduce; a reduction without root is all-reduce or reduce-scatter,
         * by the factor of its bus bandwidth. All-gather and all-to-all look alike. */
        find_ranks(b, CAPO_CALL_NONE, &factor, &lo, &hi);
        if (b->root >= 0)
                b->call = b->rows[0].sample[0].op != 255 ? CAPO_CALL_REDUCE : CAPO_CALL_BROADCAST;
        else if (b->rows[0].sample[0].op != 255 && factor > 0)
                b->call = factor >= 0.999 ? CAPO_CALL_ALLREDUCE : CAPO_CALL_REDUCESCATTER;
        else if (b->rows[0].sample[0].op != 255)
                b->call = find_call(r);
}

/* NCCL_ALGO or NCCL_PROTO restricted NCCL's choice to several. */
static bool is_choice_restricted(const struct block *b) { return b->several || b->log.env_several; }

/* What was forced: the user's flags, the label lines, NCCL's log of its environment, and its tuning
 * table must agree, as far as each exists. */
static int settle_choice(struct reader *r, uint8_t *want)
{
        struct block *b = &r->block;
        const struct capo_label *user = r->in->label;
        uint8_t table = 0;
        bool several = false, by_table = b->call == CAPO_CALL_ALLREDUCE &&
                                         capo_nccl_log_forced(&b->log, &table, &several);
        const struct {
                unsigned of[2]; /* algorithm, protocol */
                const char *who;
        } say[] = {
                {{user ? user->algo : 0, user ? user->proto : 0}, "the command line"},
                {{b->algo, b->proto}, "its header"},
                {{b->log.env_algo, b->log.env_proto}, "NCCL's line about its environment"},
                {{CAPO_ALGO_OF(table), CAPO_PROTO_OF(table)}, "NCCL's tuning table"},
        };
        const char *(*const name[])(unsigned) = {capo_algo_name, capo_proto_name};
        unsigned found[2] = {0, 0}, algo, proto;
        const char *who[2] = {"", ""};

        b->log.env_several |= by_table && several;
        for (size_t i = 0; i < 2 * N_ELEMENTS(say); i++) {
                unsigned k = i % 2, of = say[i / 2].of[k];

                if (found[k] && of && found[k] != of)
                        return capo_input_error(
                                r->in, b->run.line, "contradicting labels: %s says %s, %s says %s",
                                who[k], name[k](found[k]), say[i / 2].who, name[k](of));
                who[k] = of ? say[i / 2].who : who[k];
                found[k] = of ? of : found[k];
        }
        algo = found[0];
        proto = found[1];
        if (user && user->default_choice && (algo || (proto && proto != user->proto)))
                return capo_input_error(
                        r->in, b->run.line,
                        "contradicting labels: the command line says NCCL chose, %s says %s",
                        who[!algo], name[!algo](found[!algo]));
        *want = CAPO_ALGO_PROTO(algo, proto);
        if (user && (user->default_choice || user->algo || user->proto))
                snprintf(b->run.why, sizeof b->run.why, "the command line");
        else if (b->unsure_line > b->label_line || (b->unsure_line && !algo && !proto))
                capo_trial_leave_out(&b->run, "line %u may say what was forced, or not",
                                     b->unsure_line);
        else if ((b->heading_algo && b->heading_algo != algo) ||
                 (b->heading_proto && b->heading_proto != proto))
                capo_trial_leave_out(&b->run, "line %u may say what was forced, or not",
                                     b->heading_line);
        else if (algo || proto)
                snprintf(b->run.why, sizeof b->run.why, "%s", who[!algo]);
        else if (is_choice_restricted(b))
                ; /* below: it may be known what ran */
        else if (b->auto_said)
                snprintf(b->run.why, sizeof b->run.why, "its header");
        else if (b->call == CAPO_CALL_ALLREDUCE && b->log.have_table)
                snprintf(b->run.why, sizeof b->run.why, "NCCL's tuning table: %s",
                         several ? "some are excluded" : "nothing is excluded");
        else if (b->log.env_said)
                snprintf(b->run.why, sizeof b->run.why, "NCCL's lines about its environment");
        else if (r->standing_line)
                capo_trial_leave_out(&b->run, "line %u may hold for it too", r->standing_line);
        else if (b->command)
                snprintf(b->run.why, sizeof b->run.why, "its command line forces nothing");
        else if (r->labelled_line)
                capo_trial_leave_out(&b->run, "no label, and line %u labels another run",
                                     r->labelled_line);
        else
                capo_trial_leave_out(
                        &b->run, "nothing says whether something was forced; --default, if not");
        if (!*want && *b->log.tuner)
                capo_trial_leave_out(&b->run, "another tuner plugin decided: %s", b->log.tuner);
        if (b->algo || b->proto || b->several) {
                r->labelled_line = b->label_line;
                if (!b->inline_label)
                        r->standing_line = b->label_line;
        }
        if (is_choice_restricted(b) && !(algo && proto) && !(user && (user->algo || user->proto)) &&
            b->log.n_decisions == 0)
                capo_trial_leave_out(
                        &b->run,
                        *b->restricted_by
                                ? "%s is set there: it does not say what ran"
                                : "%s is a list there, or no name: it does not say what ran",
                        *b->restricted_by ? b->restricted_by : "NCCL_ALGO or NCCL_PROTO");
        return 0;
}

/* Set what ran in @s. Return: 0; 1: not known, and NCCL's choice was restricted; -EINVAL with the
 * error set. */
static int fill_choice(struct reader *r, struct capo_sample *s, uint8_t want)
{
        struct block *b = &r->block;
        const struct capo_decision *d = capo_nccl_log_ran(&b->log, s->call, s->bytes);
        unsigned algo = CAPO_ALGO_OF(want), proto = CAPO_PROTO_OF(want);

        s->want = want;
        if (d && !d->split) {
                s->ran = d->ran;
                s->ran_channels = d->channels;
                if ((algo && algo != CAPO_ALGO_OF(d->ran)) ||
                    (proto && proto != CAPO_PROTO_OF(d->ran)))
                        return capo_input_error(
                                r->in, d->line,
                                "contradicting labels: %s %s was forced, but %s %s ran at %llu bytes",
                                capo_algo_name(algo), capo_proto_name(proto), capo_ran_algo(d->ran),
                                capo_ran_proto(d->ran), (unsigned long long)s->bytes);
        }
        if (!want && is_choice_restricted(b))
                s->want = s->ran; /* not NCCL's own choice, but it is known what ran */
        return !s->want && is_choice_restricted(b) && !b->run.left_out;
}

void capo_text_run_clear(struct reader *r)
{
        struct block *b = &r->block;

        free(b->rows);
        free(b->rejected);
        capo_nccl_log_free(&b->log);
        *b = (struct block){.make = CAPO_MAKE_LOOP};
        memset(r->on_host, 0, (size_t)r->n_hosts * sizeof *r->on_host);
}

static int take_rows(struct reader *r, uint8_t want)
{
        struct block *b = &r->block;
        const struct capo_label *user = r->in->label;
        const char *names[MAX_HOSTS];
        size_t first = r->in->set->n, n = 0;
        uint32_t run;

        for (int i = 0; i < r->n_hosts; i++) {
                if (r->on_host[i])
                        names[n++] = r->hosts[i];
        }
        capo_input_hosts(&b->run, names, n);
        capo_settings_add_all(b->run.settings, b->log.settings); /* the command line comes first */
        memcpy(b->run.tuner, b->log.tuner, sizeof b->run.tuner);
        memcpy(b->run.driver, b->log.driver, sizeof b->run.driver);
        run = capo_samples_run(r->in->set, &b->run);
        for (size_t i = 0; i < b->n_rows; i++) {
                for (unsigned g = 0; g < b->rows[i].n; g++) {
                        struct capo_sample s = b->rows[i].sample[g];
                        int e;

                        s.run = run;
                        s.call = b->call;
                        e = fill_choice(r, &s, want);
                        if (e < 0) { /* then nothing of the run is used */
                                r->in->set->n = first;
                                capo_trial_leave_out(&r->in->set->runs[run], "rejected");
                                return e;
                        }
                        if (e > 0)
                                continue;
                        s.want_channels = user && user->channels ? user->channels : b->channels;
                        capo_samples_add(r->in->set, &s);
                }
        }
        return 0;
}

void capo_text_next_table(struct reader *r, unsigned line)
{
        struct block *b = &r->block;
        struct block next = {.run = b->run,
                             .call = b->call,
                             .has_root = b->has_root,
                             .make = b->make,
                             .unsure_line = line,
                             .n_hosts = b->n_hosts,
                             .n_devices = b->n_devices};
        _cleanup_free_ int *on_host = xmalloc(((size_t)r->n_hosts + 1) * sizeof *on_host);

        memcpy(on_host, r->on_host, (size_t)r->n_hosts * sizeof *on_host);
        next.run.line = line;
        next.run.left_out = false;
        next.run.why[0] = next.run.settings[0] = 0;
        next.run.nccl = b->log.version ? b->log.version : b->run.nccl;
        next.log.n_nodes = b->log.n_nodes;
        if (!b->label_line)
                b->unsure_line = line; /* it is not clear which of the two the command line made */
        capo_text_run_end(r);
        r->block = next;
        memcpy(r->on_host, on_host, (size_t)r->n_hosts * sizeof *on_host);
}

void capo_text_run_end(struct reader *r)
{
        struct block *b = &r->block;
        uint8_t want = 0;
        int e = 0;

        if (capo_text_row_end(r) < 0)
                capo_text_fault(r);
        b->run.source = (char *)r->in->path;
        if (!b->run.iterations)
                b->run.iterations = 1;
        if (b->log.version) /* the library that ran; the header names the one it was built with */
                b->run.nccl = b->log.version;
        if (b->n_rows && !b->rejected) {
                settle_call(r);
                if (!b->call)
                        capo_text_reject(
                                b,
                                "which collective it measured is not said; --coll NAME or a line # COLL=NAME before it says it");
                e = settle_ranks(r);
                if (e == 0)
                        e = settle_choice(r, &want);
                if (e == 0 && !b->rejected && !b->run.n_ranks)
                        capo_text_reject(
                                b,
                                "on how many ranks it ran is not said (capo fit: --layout 3+5; expect: --alloc 3+5)");
                if (e == 0 && !b->rejected)
                        e = take_rows(r, want);
        }
        if (e < 0) /* only this run is rejected */
                capo_text_fault(r);
        if (b->rejected) {
                r->in->set->n_rejected++;
                capo_samples_note(r->in->set, "%s:%u: run rejected: %s", r->in->path, b->run.line,
                                  b->rejected);
        }
        capo_text_run_clear(r);
}
