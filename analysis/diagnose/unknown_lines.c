/* SPDX-License-Identifier: Apache-2.0 */
/* Lines with a word of failure that no table has. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/diagnose/evidence.h"
#include "core/base/util.h"

/* Whole words only: neither "errors: 0" nor NCCL_ASYNC_ERROR_HANDLING=1 counts; "ValueError" does.
 */
static bool has_word(const char *line, size_t size, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= size; i++) {
                if ((line[i] | ' ') != (*word | ' ') || strncasecmp(line + i, word, n) != 0 ||
                    (i && line[i - 1] == '_'))
                        continue;
                if (i + n == size || (!isalnum((unsigned char)line[i + n]) && line[i + n] != '_'))
                        return true;
        }
        return false;
}

/* NCCL's INFO lines report attempts that fail by design; "#" begins a header of nccl-tests. */
static bool is_failure(const char *line, size_t size)
{
        static const char *const words[] = {"error",     "failed",    "failure",   "fatal",
                                            "exception", "aborted",   "aborting",  "killed",
                                            "panic",     "timed out", "NCCL WARN", "core dumped"};

        if (*line == '#' || memmem(line, size, " NCCL INFO ", 11))
                return false;
        for (size_t i = 0; i < size; i++) { /* a binary */
                if (iscntrl((unsigned char)line[i]) && !strchr("\t\r\033", line[i]))
                        return false;
        }
        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                if (has_word(line, size, words[i]))
                        return true;
        }
        return false;
}

static void take_failure(struct capo_evidence *e, struct capo_diagnose_finding **f,
                         struct capo_evidence_mark mark, const char *line)
{
        e->texts[mark.text].n[CAPO_EVIDENCE_PROGRAM]++;
        if (!*f) {
                *f = capo_evidence_finding(e);
                capo_finding_is(*f, CAPO_RANK_UNDECIDED, "error", "unsure");
                SAY((*f)->headline, "NOT DECIDED: a line may be an error that capo does not know");
                capo_quote(line, (*f)->detail, sizeof(*f)->detail);
                SAY((*f)->missing,
                    "the output of all ranks from before the failure on; NCCL_DEBUG=INFO");
                SAY((*f)->next, "read these lines: did the job fail?");
        }
        capo_finding_rank_add(*f, capo_text_rank(&e->texts[mark.text], line));
        capo_finding_mark(*f, mark);
}

/* Output of nccl-tests that ended without an error: its warnings did no harm. */
static bool has_ended_well(const struct capo_evidence *e, uint32_t text)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (e->findings[i].rank == CAPO_RANK_HEALTHY &&
                    e->findings[i].marks[0].text == text)
                        return true;
        }
        return false;
}

void capo_words_read(struct capo_evidence *e)
{
        struct capo_diagnose_finding *f = NULL;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (e->texts[i].n[CAPO_EVIDENCE_FLIGHT] || e->texts[i].n[CAPO_EVIDENCE_LOG])
                        return; /* the verdict of capo hang is better */
        }
        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *records = &e->texts[i].records;

                for (uint32_t k = 0; k < records->n && !has_ended_well(e, i); k++) {
                        const char *line = records->text + records->v[k].begin;

                        if (is_failure(line, strcspn(line, "\n")))
                                take_failure(e, &f,
                                             (struct capo_evidence_mark){i, records->v[k].line},
                                             line);
                }
        }
}
