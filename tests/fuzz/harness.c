/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capo/msg.h"
#include "tests/fuzz/fuzz.h"

const char *__asan_default_options(void);

/* A reader's window is a megabyte: what was given back is used again soon, or most of the time goes
 * into page faults. */
const char *__asan_default_options(void)
{
        return "quarantine_size_mb=4:malloc_context_size=2:allocator_release_to_os_interval_ms=-1:"
               "clear_shadow_mmap_threshold=67108864";
}

/* What capo says of an input, a million times over, only takes time. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
        capo_msg_set_level(CAPO_ERROR);
        return 0;
}

void fuzz_failed(const char *file, int line, const char *condition)
{
        fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
        abort();
}

char *fuzz_text(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);

        must(text);
        if (size)
                memcpy(text, data, size);
        text[size] = 0;
        return text;
}

uint64_t fuzz_number(struct fuzz_bytes *b, unsigned bytes)
{
        uint64_t v = 0;

        for (unsigned i = 0; i < bytes && b->left; i++, b->left--)
                v |= (uint64_t)*b->at++ << 8 * i;
        return v;
}

char *fuzz_word(struct fuzz_bytes *b, char end)
{
        const uint8_t *stop = b->left ? memchr(b->at, end, b->left) : NULL;
        size_t n = stop ? (size_t)(stop - b->at) : b->left;
        char *word = fuzz_text(b->at, n);

        b->at += n + (stop != NULL);
        b->left -= n + (stop != NULL);
        return word;
}

const char *fuzz_file(unsigned which, const void *data, size_t size)
{
        static struct {
                int fd; /* plus one */
                char name[32];
        } files[FUZZ_FILES];

        if (!files[which].fd) {
                files[which].fd = 1 + memfd_create("fuzz", MFD_CLOEXEC);
                snprintf(files[which].name, sizeof files[which].name, "/proc/self/fd/%d",
                         files[which].fd - 1);
        }
        must(files[which].fd > 0 && ftruncate(files[which].fd - 1, 0) == 0);
        must(pwrite(files[which].fd - 1, data, size, 0) == (ssize_t)size);
        return files[which].name;
}

static char folder[32];

static void remove_folder(void)
{
        DIR *d = opendir(folder);

        for (struct dirent *e; d && (e = readdir(d));)
                unlinkat(dirfd(d), e->d_name, 0);
        if (d)
                closedir(d);
        rmdir(folder);
}

const char *fuzz_folder(void)
{
        if (!*folder) {
                snprintf(folder, sizeof folder, "/dev/shm/capo-fuzz-XXXXXX");
                must(mkdtemp(folder));
                atexit(remove_folder);
        }
        return folder;
}
