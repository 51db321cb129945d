/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the targets share. A target is one file of this folder: LLVMFuzzerTestOneInput(), which
 * hands the bytes to what reads them in the product, and says with must() what has to hold whatever
 * they are. Its corpus is tests/fuzz/corpus/TARGET/. With -Dfuzz=true and clang it is a libFuzzer
 * program; in any build it is a test that goes through its corpus (replay.c). Nothing here forks or
 * touches a disk: files are in memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Only targets whose bytes have a shape that chance would not keep. @size becomes the result. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/* libFuzzer's own, for parts of an input; made by replay.c where there is no libFuzzer. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/** must() - ends the program with the place and the condition where it does not hold. */
#define must(condition) ((condition) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_failed(const char *file, int line, const char *condition);

/** fuzz_text() - @data with a 0 behind it, in memory that ends there; to be freed. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Bytes taken from the front of an input; 0 where there are no more. */
struct fuzz_bytes {
        const uint8_t *at;
        size_t left;
};
uint64_t fuzz_number(struct fuzz_bytes *b, unsigned bytes); /* little endian, at most 8 */

/** fuzz_word() - up to the next @end (taken too) or the end of the input; to be freed. */
char *fuzz_word(struct fuzz_bytes *b, char end);

enum { FUZZ_FILES = 4 };
/** fuzz_file() - a file in memory with these bytes, the same name for the same @which; good until
 * the next call. */
const char *fuzz_file(unsigned which, const void *data, size_t size);

/** fuzz_folder() - a folder of this process in /dev/shm, removed at its end with what is in it. */
const char *fuzz_folder(void);
