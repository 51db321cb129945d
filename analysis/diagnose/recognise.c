/* SPDX-License-Identifier: Apache-2.0 */
/* What each text is, and the releases and ranks that it names. */
#include "analysis/diagnose/prose.h"
#include "core/base/nccl_release.h"

/* Find the first release after the word: digits, a point, digits. The "13" of "cu13" does not
 * count. */
static void find_release(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *end = at + strcspn(at, "\n");
        int *release = arg;
        char word[32];

        for (const char *p = at; p < end && !*release; p++) {
                size_t n = strspn(p, "0123456789");

                if (n == 1 && p[1] == '.' && isdigit((unsigned char)p[2]) &&
                    capo_take_word(p, "0123456789.", word, sizeof word)) {
                        *release = capo_nccl_named(word);
                        break;
                }
                p += n;
        }
}

static void take_release(const char *at, const char *line, uint32_t number, void *arg)
{
        struct capo_evidence *e = arg;
        int release = 0;

        find_release(at, line, number, &release);
        for (uint32_t i = 0; i < e->n_nccls; i++)
                release = e->nccls[i] == release ? 0 : release;
        if (release && e->n_nccls < N_ELEMENTS(e->nccls))
                e->nccls[e->n_nccls++] = release;
}

static void take_rank(const char *at, const char *line, uint32_t number, void *arg)
{
        capo_rank_seen(arg, capo_line_rank(at));
}

static const struct {
        enum capo_evidence_kind kind;
        const char *words;
} signs[] = {
#define EVIDENCE_SIGNS(kind, words) {CAPO_EVIDENCE_##kind, words},
#include "analysis/diagnose/evidence_signs.def"
};

/* "[core_client.py:425]", "worker.cc:382]": the word is followed by a number of a source line. */
static void take_source(const char *at, const char *line, uint32_t number, void *arg)
{
        *(uint32_t *)arg += isdigit((unsigned char)strchr(at, ':')[1]) != 0;
}

enum { SIGN = 80 };

static void recognise_text(struct capo_evidence *e, uint32_t text)
{
        static const char *const sources[] = {".py:", ".cc:", ".cpp:"};
        struct capo_evidence_text *t = &e->texts[text];

        for (size_t i = 0; i < N_ELEMENTS(signs); i++) {
                for (const char *words = signs[i].words; *words;) {
                        char word[SIGN];
                        size_t size = strcspn(words, "|");
                        int n;

                        SAY(word, "%.*s", (int)size, words);
                        n = capo_evidence_each(e, text, word, NULL, NULL);
                        t->n[signs[i].kind] += n > 0 ? (uint32_t)n : 0;
                        words += size + (words[size] == '|');
                }
        }
        for (size_t i = 0; i < N_ELEMENTS(sources); i++)
                capo_evidence_each(e, text, sources[i], take_source, &t->n[CAPO_EVIDENCE_LINES]);
        for (uint32_t k = 0; k < t->records.n; k++) {
                const char *line = t->records.text + t->records.v[k].begin;

                t->n[CAPO_EVIDENCE_QUESTION] +=
                        capo_line_is_prose(line) &&
                        capo_line_has(line, "NCCL|nccl|llreduce|ll-reduce|ll_reduce|ll reduce");
        }
        capo_evidence_each(e, text, "Initializing aws-ofi-nccl ", find_release, &e->ofi);
        capo_evidence_each(e, text, "PyTorch version: ", find_release, &e->torch);
        capo_evidence_each(e, text, "[rank", take_rank, e);
}

void capo_recognise(struct capo_evidence *e)
{
        /* what ran comes before what is installed and what a person wrote */
        static const char *const releases[] = {"NCCL version ", "using nccl==", "RCCL version ",
                                               "nvidia-nccl-cu", "NCCL 2."};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (e->texts[i].text)
                        recognise_text(e, i);
        }
        for (uint32_t i = 0; i < e->n_texts; i++) {
                capo_evidence_each(e, i, releases[0], take_release, e);
                capo_evidence_each(e, i, releases[1], take_release, e);
        }
        for (size_t k = 0; k < N_ELEMENTS(releases) && !e->nccl; k++) {
                for (uint32_t i = 0; i < e->n_texts; i++)
                        capo_evidence_each(e, i, releases[k], find_release, &e->nccl);
        }
}
