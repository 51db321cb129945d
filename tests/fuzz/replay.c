/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through a corpus without libFuzzer: each file of the folders is one input, by name. Any
 * compiler builds it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) { return size; }

static int visible(const struct dirent *d) { return d->d_name[0] != '.'; }

static int replay(const char *folder)
{
        struct dirent **names;
        int n = scandir(folder, &names, visible, alphasort);

        if (n <= 0)
                return 2;
        for (int i = 0; i < n; i++) {
                char path[4096], *text;
                uint8_t *exact;
                size_t size;

                snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
                printf("%s\n", names[i]->d_name);
                fflush(stdout); /* the last line is the input that ended it */
                if (capo_file_read(path, 64u << 20, &text, &size) < 0)
                        return 2;
                exact = malloc(size ? size
                                    : 1); /* without the 0 behind it: one byte too far is seen */
                must(exact);
                memcpy(exact, text, size);
                free(text);
                LLVMFuzzerTestOneInput(exact, size);
                free(exact);
                free(names[i]);
        }
        free(names);
        return 0;
}

int main(int argc, char **argv)
{
        LLVMFuzzerInitialize(&argc, &argv);
        for (int i = 1; i < argc; i++) {
                if (replay(argv[i]) != 0) {
                        fprintf(stderr, "%s: no inputs\n", argv[i]);
                        return 2;
                }
        }
        if (argc < 2)
                fprintf(stderr, "usage: %s FOLDER-OF-INPUTS...\n", argv[0]);
        return argc < 2 ? 2 : 0;
}
