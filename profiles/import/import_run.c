/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "profiles/import/import_run.h"

int capo_input_error(struct capo_input *in, unsigned line, const char *format, ...)
{
        char where[24] = " ";
        va_list ap;
        size_t n;

        if (line)
                snprintf(where, sizeof where, "%u: ", line);
        n = (size_t)snprintf(in->error, in->room, "%s:%s", in->path, where);
        va_start(ap, format);
        if (n < in->room)
                vsnprintf(in->error + n, in->room - n, format, ap);
        va_end(ap);
        return -EINVAL;
}

void capo_input_fault(struct capo_input *in, struct capo_input_faults *faults)
{
        if (faults->n < N_ELEMENTS(faults->text))
                snprintf(faults->text[faults->n], sizeof faults->text[0], "%s", in->error);
        faults->n++;
        *in->error = 0;
}

int capo_input_faults_end(struct capo_input *in, const struct capo_input_faults *faults,
                          const char *what, bool used)
{
        unsigned most = N_ELEMENTS(faults->text);

        if (!used && faults->n) {
                snprintf(in->error, in->room, "%s", faults->text[0]);
                return -EINVAL;
        }
        for (unsigned i = 0; i < faults->n && i < most; i++)
                capo_samples_note(in->set, "left out %s", faults->text[i]);
        if (faults->n > most)
                capo_samples_note(in->set, "%s: %u %s more are left out", in->path,
                                  faults->n - most, what);
        return 0;
}

void capo_trial_leave_out(struct capo_trial *run, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        vsnprintf(run->why, sizeof run->why, format, ap);
        va_end(ap);
        run->left_out = true;
}

int capo_input_label(struct capo_input *in, struct capo_trial *run)
{
        const struct capo_label *label = in->label;
        char a[16], b[16];

        if (!label)
                return 0;
        if (label->nccl && run->nccl && label->nccl != run->nccl)
                return capo_input_error(
                        in, run->line,
                        "contradicting labels: --nccl %s, but the input says NCCL %s",
                        capo_nccl_text(label->nccl, a, sizeof a),
                        capo_nccl_text(run->nccl, b, sizeof b));
        if (label->gpu[0] && run->gpu[0] && strcmp(label->gpu, run->gpu))
                return capo_input_error(
                        in, run->line,
                        "contradicting labels: --gpu \"%s\", but the input says \"%s\"", label->gpu,
                        run->gpu);
        if (label->gpu[0])
                memcpy(run->gpu, label->gpu, sizeof run->gpu);
        run->nccl = label->nccl ?: run->nccl;
        run->n_ranks = label->n_ranks ?: run->n_ranks;
        run->n_nodes = label->n_nodes ?: run->n_nodes;
        if (label->layout[0])
                memcpy(run->layout, label->layout, sizeof run->layout);
        else if (label->n_ranks && label->n_nodes == 1)
                snprintf(run->layout, sizeof run->layout, "%d", label->n_ranks);
        else if (label->n_ranks || label->n_nodes)
                run->layout[0] = 0;
        return 0;
}

bool capo_input_number(const char *text, double *out)
{
        static const double tens[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
        const char *p = text;
        uint64_t whole = 0;
        int digits = 0, behind = 0;
        char *end;

        /* A few digits and a point, as in nearly all numbers: both parts are exact, so their
         * quotient is what strtod() returns. */
        for (bool point = false; digits < 15; p++) {
                if (*p >= '0' && *p <= '9') {
                        whole = whole * 10 + (uint64_t)(*p - '0');
                        digits++;
                        behind += point;
                } else if (*p == '.' && !point) {
                        point = true;
                } else {
                        break;
                }
        }
        if (digits && !*p) {
                *out = (double)whole / tens[behind];
                return true;
        }
        errno = 0;
        *out = strtod(text, &end);
        return end != text && !*end && errno == 0 && isfinite(*out);
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void capo_input_hosts(struct capo_trial *run, const char **names, size_t n)
{
        uint32_t sum = 2166136261u; /* FNV-1a */
        size_t used = 0;

        if (n)
                qsort(names, n, sizeof *names, by_name);
        run->hosts[0] = 0;
        for (size_t i = 0; i < n; i++) {
                for (const char *c = names[i]; *c; c++)
                        sum = (sum ^ (unsigned char)*c) * 16777619u;
                sum = (sum ^ ',') * 16777619u;
                if (used < sizeof run->hosts)
                        used += (size_t)snprintf(run->hosts + used, sizeof run->hosts - used,
                                                 "%s%s", i ? "," : "", names[i]);
        }
        if (used >= sizeof run->hosts)
                snprintf(run->hosts + 40, sizeof run->hosts - 40, "... (%08x)", sum);
}

void capo_input_tuner(struct capo_trial *run, const char *value, bool forced)
{
        const char *name = capo_base_name(value);

        if (!*name || !strcasecmp(name, "none") || !strncasecmp(name, "internal", 8) ||
            strcasestr(name, "capo"))
                return;
        snprintf(run->tuner, sizeof run->tuner, "%.31s", name);
        if (!forced)
                capo_trial_leave_out(run, "another tuner plugin decided: %s", run->tuner);
}

int capo_input_layout(const char *text, struct capo_trial *run)
{
        struct capo_layout layout;

        if (capo_layout_parse(text, &layout, NULL) < 0)
                return -EINVAL;
        run->n_ranks = (int)layout.n_ranks;
        run->n_nodes = (int)layout.n_nodes;
        run->layout[0] = 0;
        capo_input_place(&layout, run);
        return 0;
}

void capo_input_place(const struct capo_layout *layout, struct capo_trial *run)
{
        char text[CAPO_LAYOUT_TEXT];

        capo_layout_print(layout, text, sizeof text);
        if (strlen(text) < sizeof run->layout)
                strcpy(run->layout, text);
}

void capo_input_even(struct capo_trial *run)
{
        struct capo_layout layout = {0};

        if (run->n_nodes > 0 && run->n_ranks % run->n_nodes == 0 &&
            capo_layout_add(&layout, (uint32_t)(run->n_ranks / run->n_nodes),
                            (uint32_t)run->n_nodes) == 0)
                capo_input_place(&layout, run);
}

bool capo_input_earliest(unsigned call)
{
        unsigned kind = capo_call_kind(call);

        return kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_ALLGATHER ||
               kind == CAPO_KIND_REDUCESCATTER;
}
