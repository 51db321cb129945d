/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that several lines show together; cause_rules.def has them. */
#include "analysis/diagnose/evidence.h"

static const struct cause_rule {
        const char *all, *none;
        enum capo_finding_rank rank;
        const char *kind, *sure, *headline, *next;
} rules[] = {
#define CAUSE_RULE(all, none, rank, kind, sure, headline, next) \
        {all, none, CAPO_RANK_##rank, kind, sure, headline, next},
#include "analysis/diagnose/cause_rules.def"
};

enum { WORD_ROOM = 128, QUOTED = 240 };

struct place {
        const char *behind; /* must follow in the line; "": nothing */
        const char *line, *at;
        struct capo_evidence_mark mark;
        uint32_t text;
};

static void take_place(const char *at, const char *line, uint32_t number, void *arg)
{
        struct place *p = arg;

        if (!p->line &&
            (!*p->behind || memmem(at, strcspn(at, "\n"), p->behind, strlen(p->behind)))) {
                p->line = *at == '\n' ? at + 1 : line; /* of "\nNAME=1\n" the line itself */
                p->at = *at == '\n' ? at + 1 : at;
                p->mark = (struct capo_evidence_mark){p->text, number + (*at == '\n')};
        }
}

/* Find a line with one of the words: "A|B*C", up to @size bytes of @words. */
static bool find_words(const struct capo_evidence *e, const char *words, size_t size,
                       struct place *found)
{
        while (size) {
                const char *bar = memchr(words, '|', size);
                size_t n = bar ? (size_t)(bar - words) : size;
                char word[WORD_ROOM], *star;

                SAY(word, "%.*s", (int)n, words);
                star = strchr(word, '*');
                if (*word == '@' && capo_evidence_has(word, (void *)(uintptr_t)e)) {
                        *found = (struct place){.line = ""};
                        return true;
                }
                if (star)
                        *star = 0;
                *found = (struct place){.behind = star ? star + 1 : ""};
                for (found->text = 0; found->text < e->n_texts && !found->line; found->text++)
                        capo_evidence_each(e, found->text, word, take_place, found);
                if (found->line)
                        return true;
                size -= n + (bar != NULL);
                words += n + (bar != NULL);
        }
        return false;
}

static void try_rule(struct capo_evidence *e, const struct cause_rule *rule)
{
        struct place first = {0}, found, marks[CAPO_DIAGNOSE_MARKS];
        struct capo_diagnose_finding *f;
        unsigned n = 0;

        for (const char *words = rule->all; *words;) {
                const char *and = strstr(words, " & ");
                size_t size = and? (size_t)(and-words) : strlen(words);

                if (!find_words(e, words, size, &found))
                        return;
                if (*found.line && n < N_ELEMENTS(marks)) /* a fact has no place */
                        marks[n++] = found;
                words += size + (and? 3 : 0);
        }
        if (find_words(e, rule->none, strlen(rule->none), &first))
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, rule->rank, rule->kind, rule->sure);
        SAY(f->headline, "%s", rule->headline);
        SAY(f->next, "%s", rule->next);
        if (rule->rank == CAPO_RANK_SLOW && n > 1) /* the first words show the state */
                n = 1;
        for (unsigned i = 0; i < n; i++) {
                bool far = marks[i].at - marks[i].line > QUOTED / 2;
                char line[QUOTED];

                SAY(line, "%s", far ? "... " : "");
                capo_quote(far ? marks[i].at : marks[i].line, line + strlen(line),
                           sizeof line - strlen(line));
                if (!strstr(f->detail, line)) /* one line may have several of the words */
                        ADD(f->detail, "%s%s", *f->detail ? "\n" : "", line);
                capo_finding_mark(f, marks[i].mark);
                capo_finding_rank_add(f,
                                      capo_text_rank(&e->texts[marks[i].mark.text], marks[i].line));
        }
}

void capo_causes_read(struct capo_evidence *e)
{

        for (size_t i = 0; i < N_ELEMENTS(rules); i++)
                try_rule(e, &rules[i]);
}
