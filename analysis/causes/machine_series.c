/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sys/param.h>

#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/causes/machine_series.h"
#include "analysis/job/stops.h"

enum { OBJECTS = 512, STACKS = 4096, ROWS = 64 };
#define FEW_AT_ONCE (UINT64_C(1) << 20)
#define MOST_LATE   2 /* periods that a sample stands for at most */
#define CONFIRMED   0.9

static struct capo_machine_object *get_object(struct capo_machine_series *s,
                                              enum capo_machine_scope scope, const char *name)
{
        struct capo_machine_object *o =
                FIRST_OF(known, s->object, s->n_objects,
                         known->scope == scope && !strcmp(known->name, name));

        if (o)
                return o;
        if (s->n_objects == OBJECTS)
                return NULL;
        o = xput(s->object, s->n_objects, .scope = scope, .value = xcalloc(ROWS, sizeof *o->value),
                 .row = xcalloc(ROWS, sizeof *o->row));
        snprintf(o->name, sizeof o->name, "%s", name);
        return o;
}

/* By how much a counter grew that is lower than before: it wrapped at 32 bits if that makes no more
 * of it than was usual; else it began anew. */
static uint64_t wrapped_by(const struct capo_machine_value *v, uint64_t now)
{
        uint64_t grew = now + UINT32_MAX - v->last + 1;

        return v->last <= UINT32_MAX && grew <= MAX(8 * v->step, FEW_AT_ONCE) ? grew : 0;
}

static void add_value(struct capo_machine_series *s, struct capo_machine_value *v, bool counter,
                      bool fresh, uint64_t now, uint64_t before_ns)
{
        uint64_t grew;

        if (!v->asked) /* a fresh one began with 0 since the last reading */
                *v = (struct capo_machine_value){true, counter && fresh ? 0 : now, .least = now,
                                                 .most = now};
        if (v->gone)
                v->last = now;
        v->gone = false;
        grew = !counter ? 0 : now < v->last ? wrapped_by(v, now) : now - v->last;
        if (grew && !v->grew)
                v->since_ns = before_ns;
        if (grew) {
                v->until_ns = s->last_ns;
                v->more = grew;
        }
        v->grew += grew;
        v->step = now >= v->last ? MAX(v->step, grew) : v->step;
        if (s->last_ns == s->begun_ns) /* what it was before does not count */
                v->any = v->least = v->most = now;
        v->last = now;
        v->any |= now;
        v->least = now < v->least ? now : v->least;
        v->most = now > v->most ? now : v->most;
}

static void note_clock(struct capo_machine_object *o)
{
        uint64_t mhz = capo_machine_of(o, CAPO_M_GPU_SM)->last;

        if (o->scope == CAPO_MACHINE_GPU && mhz && (!o->busy_mhz || mhz < o->busy_mhz) &&
            !(capo_machine_of(o, CAPO_M_GPU_REASONS)->last & CAPO_MACHINE_IDLE))
                o->busy_mhz = mhz;
}

/* What grew until now was before the window; gauges keep what they were. */
static void begin_window(struct capo_machine_series *s, uint64_t at_ns)
{
        s->begun_ns = at_ns;
        s->first_ns = s->readings ? s->last_ns : at_ns;
        s->samples = s->inside = 0;
        s->sampled_ns = s->stopped_ns = s->idle_ns = 0;
        *s->left = 0;
        for (uint32_t i = 0; i < s->n_stacks; i++)
                s->stack[i].samples = 0;
        for (uint32_t i = 0; i < s->n_objects; i++) {
                for (unsigned k = 0; k < ROWS; k++) {
                        struct capo_machine_value *v = &s->object[i].value[k];

                        v->grew = v->since_ns = v->until_ns = 0;
                        v->any = v->least = v->most = v->last;
                }
                s->object[i].busy_mhz = 0;
                note_clock(&s->object[i]);
        }
}

static const struct capo_machine_reading *find_reading(enum capo_machine_scope scope,
                                                       const char *name)
{
        return FIRST_OF(r, capo_machine_readings, CAPO_MACHINE_READINGS,
                        r->scope == scope && !strcmp(r->name, name));
}

/* Which reading "ROW:key" or "ROW" or, in old logs, "key" is; NULL: not known. */
static const struct capo_machine_reading *name_reading(struct capo_machine_object *o,
                                                       const char *key)
{
        char *name;
        unsigned long row = strtoul(key, &name, 10);

        if (name == key)
                return find_reading(o->scope, key);
        if (row >= ROWS)
                return NULL;
        if (*name == ':')
                o->row[row] = find_reading(o->scope, name + 1);
        return o->row[row];
}

/* The words of one object, behind its name; changes @words. */
static void read_values(struct capo_machine_series *s, struct capo_machine_object *o, char *words,
                        uint64_t before_ns)
{
        char *word;

        while (o && (word = strsep(&words, "\t"))) {
                char *value = strpbrk(word, "=+");
                const struct capo_machine_reading *r;
                struct capo_machine_value *v;
                uint64_t now, grew;
                bool more = value && *value == '+';

                if (*word == '#')
                        o->number = (unsigned)atoi(word + 1);
                if (!value)
                        continue;
                *value++ = 0;
                r = name_reading(o, word);
                v = r ? &o->value[r->row] : NULL;
                if (v && *value == '-')
                        v->gone = true;
                if (!v || (more && !v->asked) || *value < '0' || *value > '9')
                        continue;
                grew = v->grew;
                now = strtoull(value, NULL, 10) + (more ? v->last : 0);
                add_value(s, v, r->kind != CAPO_MACHINE_GAUGE,
                          o->scope == CAPO_MACHINE_THREAD && s->readings > 1, now, before_ns);
                if (s->visit)
                        s->visit(s->arg, o, r, before_ns, s->last_ns, v->last, v->grew - grew);
        }
        if (o)
                note_clock(o);
}

static struct capo_machine_object *find_number(struct capo_machine_series *s, unsigned n)
{
        return n ? LAST_OF(o, s->object, s->n_objects, o->number == n) : NULL;
}

static void read_stack(struct capo_machine_series *s, char *words)
{
        char *number = strsep(&words, "\t"), *kind = strsep(&words, "\t");
        struct capo_machine_stack *stack;

        if (!words || s->n_stacks == STACKS)
                return;
        stack = xput(s->stack, s->n_stacks, .number = (unsigned)atoi(number),
                     .kind = CAPO_BETWEEN_OTHER, .text = xstrdup(words));
        for (unsigned k = 0; k < CAPO_BETWEEN_KINDS; k++)
                stack->kind = strcmp(kind, capo_between_kinds[k]) ? stack->kind : k;
}

static uint64_t more_now(const struct capo_machine_series *s, const struct capo_machine_value *v)
{
        return v->until_ns == s->last_ns ? v->more : 0;
}

/* Of the time since the last reading: a thread that ran, or waited for a CPU, was not stopped. */
static double most_stopped_ns(const struct capo_machine_series *s, uint64_t before_ns)
{
        uint64_t most = 0;

        for (uint32_t i = 0; i < s->n_objects; i++) {
                const struct capo_machine_object *o = &s->object[i];

                if (o->scope == CAPO_MACHINE_THREAD)
                        most = MAX(most,
                                   more_now(s, capo_machine_of(o, CAPO_M_THREAD_RUN)) +
                                           more_now(s, capo_machine_of(o, CAPO_M_THREAD_WAIT)));
        }
        return fmax(0, (double)(s->last_ns - before_ns) - (double)most * 1e3);
}

static double logged_stops(const struct capo_machine_series *s, const struct capo_job_process *p,
                           uint64_t since_ns)
{
        double t0 = (double)p->header.t0_real_ns, from = t0 + (double)since_ns,
               to = t0 + (double)s->last_ns, sum = 0;
        struct capo_stop stop[CAPO_STOPS_MOST];

        for (uint32_t i = capo_stops_of(p, stop, CAPO_STOPS_MOST); i-- > 0;)
                sum += fmax(0, fmin(to, stop[i].to) - fmax(from, stop[i].from));
        return sum;
}

/* No later reading could note what the log has of the last interval. Samples are too coarse for the
 * end of a stop: the log has the length of those that they confirm. */
static void add_logged_stops(struct capo_machine_series *s, const struct capo_job_process *p,
                             uint64_t before_ns)
{
        double all = logged_stops(s, p, s->first_ns), room = most_stopped_ns(s, before_ns);

        if (!s->noted_ns)
                s->stopped_ns += fmin(room, logged_stops(s, p, MAX(before_ns, s->first_ns)));
        if (s->stopped_ns > CONFIRMED * all)
                s->stopped_ns = fmax(s->stopped_ns, all);
}

static void read_line(struct capo_machine_series *s, char *line, uint64_t *before_ns)
{
        char *word = strsep(&line, "\t");
        unsigned long long at, taken, inside, period = 0, stopped = 0;
        unsigned number, did;

        if (!line)
                return;
        if (!strcmp(word, "at") && sscanf(line, "%llu", &at) == 1 &&
            (at > s->last_ns || !s->readings)) { /* time that goes back is no new reading */
                s->idle_ns =
                        s->readings > 1 ? fmax(0, most_stopped_ns(s, *before_ns) - s->noted_ns) : 0;
                s->noted_ns = 0;
                if ((at > s->from_ns || !s->from_ns) && !s->begun_ns)
                        begin_window(s, at);
                *before_ns = s->last_ns;
                s->last_ns = at;
                s->first_ns = s->readings++ ? s->first_ns : at;
        } else if (!strcmp(word, "samples") && sscanf(line, "%llu\t%llu\t%llu\t%llu", &taken,
                                                      &inside, &period, &stopped) >= 2) {
                s->samples += taken;
                s->sampled_ns += (double)(s->last_ns - *before_ns);
                s->inside += inside;
                s->period_ns = period ? (double)period : s->period_ns;
                /* by the first sample behind it: maybe behind the reading that ended the stop */
                s->noted_ns =
                        fmin((double)stopped * 1e3, s->idle_ns + most_stopped_ns(s, *before_ns));
                s->stopped_ns += s->noted_ns;
        } else if (!strcmp(word, "stack")) {
                read_stack(s, line);
        } else if (!strcmp(word, "did") && sscanf(line, "%u\t%u", &number, &did) == 2) {
                for (uint32_t i = 0; i < s->n_stacks; i++)
                        s->stack[i].samples += s->stack[i].number == number ? did : 0;
        } else if (!strcmp(word, "left") && (!*s->left || strstr(line, CAPO_MACHINE_SILENT))) {
                char *scope = strsep(&line, "\t"), *name = strsep(&line, "\t");

                if (scope && name && line)
                        snprintf(s->left, sizeof s->left, "%s: %s", name, line);
        } else if (*word == '#') {
                read_values(s, find_number(s, (unsigned)atoi(word + 1)), line, *before_ns);
        }
        for (unsigned i = 0; line && i < CAPO_MACHINE_SCOPES; i++) {
                char *name = strcmp(word, capo_machine_scopes[i]) ? NULL : strsep(&line, "\t");

                if (name)
                        read_values(s, get_object(s, i, name), line, *before_ns);
        }
}

/* Is it the first line of a reading after the window? */
static bool is_past(const struct capo_machine_series *s, const char *line)
{
        return !strncmp(line, "at\t", 3) && strtoull(line + 3, NULL, 10) > s->to_ns &&
               !(s->through && s->last_ns < s->to_ns);
}

static struct capo_machine_series *read_series(const struct capo_job_process *process,
                                               uint64_t from_ns, uint64_t to_ns, bool through,
                                               capo_machine_visitor *visit, void *arg)
{
        _cleanup_free_ char *copy = process->machine ? xstrdup(process->machine) : NULL;
        struct capo_machine_series *s = copy ? xcalloc(1, sizeof *s) : NULL;
        char *text = copy, *line;
        uint64_t before_ns = 0;

        if (!s)
                return NULL;
        s->visit = visit;
        s->arg = arg;
        s->from_ns = from_ns;
        s->to_ns = to_ns;
        s->through = through;
        while ((line = strsep(&text, "\n")) && !is_past(s, line))
                read_line(s, line, &before_ns);
        if (s->begun_ns && s->samples)
                add_logged_stops(s, process, before_ns);
        /* Samples come late on a busy machine. Those taken stand for those missed, up to a limit: a
         * driver that hangs holds up the thread that takes them. */
        if (s->samples)
                s->period_ns = fmax(s->period_ns,
                                    fmin((s->sampled_ns - s->stopped_ns) / (double)s->samples,
                                         MOST_LATE * s->period_ns));
        if (s->begun_ns || !s->readings)
                return s;
        capo_machine_series_free(s); /* the window is behind the last reading */
        return NULL;
}

struct capo_machine_series *capo_machine_series(const struct capo_job_process *process,
                                                uint64_t from_ns, uint64_t to_ns, bool through)
{
        return read_series(process, from_ns, to_ns, through, NULL, NULL);
}

void capo_machine_visit(const struct capo_job_process *process, capo_machine_visitor *visit,
                        void *arg)
{
        capo_machine_series_free(read_series(process, 0, UINT64_MAX, false, visit, arg));
}

void capo_machine_series_free(struct capo_machine_series *s)
{
        if (!s)
                return;
        for (uint32_t i = 0; i < s->n_objects; i++)
                xfree(s->object[i].value, s->object[i].row);
        for (uint32_t i = 0; i < s->n_stacks; i++)
                free(s->stack[i].text);
        xfree(s->object, s->stack, s);
}

bool capo_machine_sum(const struct capo_machine_series *s, enum capo_machine_id id,
                      const char *part, double *sum)
{
        bool asked = false;

        *sum = 0;
        for (uint32_t i = 0; s && i < s->n_objects; i++) {
                const struct capo_machine_object *o = &s->object[i];

                if (o->scope != capo_machine_readings[id].scope ||
                    (part && !strstr(o->name, part)) || !capo_machine_of(o, id)->asked)
                        continue;
                asked = true;
                *sum += (double)capo_machine_of(o, id)->grew;
        }
        return asked;
}

const struct capo_machine_object *capo_machine_most(const struct capo_machine_series *s,
                                                    enum capo_machine_id id, const char *part)
{
        const struct capo_machine_object *best = NULL;

        for (uint32_t i = 0; s && i < s->n_objects; i++) {
                const struct capo_machine_object *o = &s->object[i];

                if (o->scope == capo_machine_readings[id].scope &&
                    (!part || strstr(o->name, part)) && capo_machine_of(o, id)->asked &&
                    (!best || capo_machine_of(o, id)->grew > capo_machine_of(best, id)->grew))
                        best = o;
        }
        return best;
}
