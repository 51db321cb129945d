/* SPDX-License-Identifier: Apache-2.0 */
/* Problems, next steps and notes by name, for the files that find them. A page (job_page.h) has
 * their numbers and texts. */
#pragma once

struct capo_page;
struct capo_problem;

enum capo_problem_kind {
#define CAPO_PROBLEM(id, name, severity, words) CAPO_PROBLEM_##id,
#include "analysis/report/problem_kinds.def"
        CAPO_PROBLEMS,
};

enum capo_next_kind {
#define CAPO_NEXT(id, words) CAPO_NEXT_##id,
#include "analysis/report/next_kinds.def"
        CAPO_NEXTS,
};

enum capo_page_note_kind {
#define CAPO_NOTE(id, words) CAPO_NOTE_##id,
#include "analysis/report/note_kinds.def"
        CAPO_NOTES,
};
/* The text of each kind, as a format that the compiler checks where it is used. */
#define CAPO_PROBLEM(id, name, severity, words) \
        static const char capo_problem_words_##id[] __attribute__((unused)) = words;
#include "analysis/report/problem_kinds.def"

/** capo_problem_add() - append a problem
 * @log: as in struct capo_problem
 * @words: the format, and its arguments
 *
 * Return: it, until the next one is added: the caller sets what it refers to. */
struct capo_problem *capo_problem_add(struct capo_page *page, enum capo_problem_kind kind,
                                      const char *log, const char *words, ...)
        __attribute__((format(printf, 4, 5)));
#define PROBLEM(page, id, ...) \
        capo_problem_add(page, CAPO_PROBLEM_##id, NULL, capo_problem_words_##id, __VA_ARGS__)
#define PROBLEM_OF(page, id, log, ...) \
        capo_problem_add(page, CAPO_PROBLEM_##id, log, capo_problem_words_##id, __VA_ARGS__)
