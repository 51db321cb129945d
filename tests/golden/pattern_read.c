/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "tests/golden/gen_pattern.h"

static const char *path_read;
static unsigned line_read;

static void bad(const char *why)
{
        fprintf(stderr, "%s:%u: %s\n", path_read, line_read, why);
        exit(1);
}

/* "0,2,5": numbers below @below into @out. Return: how many. */
static unsigned numbers(const char *text, unsigned below, unsigned *out)
{
        unsigned n = 0;

        for (const char *p = text; *p; p += *p == ',') {
                char *end;
                unsigned long value = strtoul(p, &end, 10);

                if (end == p || value >= below || n == PATTERN_RANKS)
                        bad("not a list of ranks");
                out[n++] = (unsigned)value;
                p = end;
        }
        return n;
}

/* comm NUMBER NAME grow|copy PARENT RANKS... */
static void read_comm(struct pattern *out, char *line)
{
        unsigned number, parent, ranks[PATTERN_RANKS], n;
        char name[PATTERN_NAME], how[8], *save = NULL;
        struct pattern_comm *c;
        int at = 0;

        if (sscanf(line, "comm %u %47s %7s %u %n", &number, name, how, &parent, &at) != 4 || !at ||
            !number || number > PATTERN_COMMS)
                bad("not a communicator");
        c = &out->comm[number];
        snprintf(c->name, sizeof c->name, "%s", strcmp(name, "-") ? name : "");
        c->grows = !strcmp(how, "grow");
        c->parent = parent;
        for (char *word = strtok_r(line + at, " ", &save); word;
             word = strtok_r(NULL, " ", &save)) {
                n = numbers(word, out->ranks, ranks);
                if (c->n_inst && n != c->n)
                        bad("communicators of one family have as many ranks each");
                c->n = n;
                c->member = realloc(c->member, (size_t)(c->n_inst + 1) * n * sizeof *ranks);
                if (!c->member)
                        bad("no memory");
                memcpy(c->member + (size_t)c->n_inst++ * n, ranks, n * sizeof *ranks);
        }
        out->n_comms = number > out->n_comms ? number : out->n_comms;
}

static uint8_t number_of(const char *word, const char *(*name)(unsigned))
{
        for (unsigned i = 0; i < 16; i++) {
                if (!strcmp(word, name(i)))
                        return (uint8_t)i;
        }
        return !strcmp(word, "user") ? 254 : 255;
}

/* CALL COMM [TYPE OPERATOR COUNT PEER STREAM [captured]] */
static struct pattern_call read_call(const struct pattern *p, const char *line, uint32_t group)
{
        char call[24], type[12] = "-", op[12] = "-", peer[12] = "-", captured[12] = "";
        unsigned long long count = 0;
        unsigned comm, stream = 0;
        int n = sscanf(line, "%23s %u %11s %11s %llu %11s %u %11s", call, &comm, type, op, &count,
                       peer, &stream, captured);

        if ((n != 2 && n < 7) || !capo_call_find(call) || !comm || comm > p->n_comms ||
            !p->comm[comm].n)
                bad("not a call");
        return (struct pattern_call){.count = count,
                                     .stream = stream,
                                     .peer = strcmp(peer, "-") ? atoi(peer) : -1,
                                     .group = group,
                                     .call = (uint8_t)capo_call_find(call),
                                     .type = number_of(type, capo_type_name),
                                     .op = number_of(op, capo_op_name),
                                     .comm = (uint8_t)comm,
                                     .captured = !strcmp(captured, "captured")};
}

static void add_call(struct pattern_class *c, struct pattern_call call)
{
        c->call = realloc(c->call, (c->n_calls + 1) * sizeof *c->call);
        if (!c->call)
                bad("no memory");
        c->call[c->n_calls++] = call;
}

void pattern_read(const char *path, struct pattern *out)
{
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        unsigned ranks[PATTERN_RANKS], groups = 0, n;
        struct pattern_class *class = NULL;
        bool open = false;
        char line[4096];

        *out = (struct pattern){0};
        path_read = path;
        line_read = 0;
        if (!f)
                bad("cannot be read");
        while (fgets(line, sizeof line, f)) {
                line_read++;
                line[strcspn(line, "\n")] = 0;
                if (line_read == 1) {
                        if (strcmp(line, "capo_pattern 1"))
                                bad("not a pattern, or a later one");
                } else if (!*line || *line == '#') {
                        continue;
                } else if (sscanf(line, "ranks %u", &out->ranks) == 1) {
                        if (!out->ranks || out->ranks > PATTERN_RANKS)
                                bad("so many ranks are not read");
                } else if (!strncmp(line, "comm ", 5)) {
                        read_comm(out, line);
                } else if (!strncmp(line, "rank ", 5)) {
                        if (out->n_classes == PATTERN_RANKS)
                                bad("more classes than ranks");
                        class = &out->class[out->n_classes];
                        n = numbers(line + 5, out->ranks, ranks);
                        for (unsigned i = 0; i < n; i++)
                                out->class_of[ranks[i]] = out->n_classes;
                        out->n_classes++;
                        groups = 0;
                } else if (!class) {
                        bad("whose call?");
                } else if (!strcmp(line, "Group")) {
                        groups++;
                        open = true;
                } else if (!strcmp(line, "End")) {
                        open = false;
                } else {
                        add_call(class, read_call(out, line, open ? groups : 0));
                }
        }
        if (!out->ranks || !class)
                bad("ends too soon");
}

void pattern_free(struct pattern *p)
{
        for (unsigned i = 0; i <= PATTERN_COMMS; i++)
                free(p->comm[i].member);
        for (unsigned i = 0; i < p->n_classes; i++)
                free(p->class[i].call);
        *p = (struct pattern){0};
}
