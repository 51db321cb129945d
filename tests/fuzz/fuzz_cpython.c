/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any memory as that of a process with a CPython in it. An input is what tests/hang/pyshot.c writes
 * of a process: after how many reads something changes (0: nothing does) and which bits of it, what
 * lies where, then pieces of memory: address, size, bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/process/python_stack.h"
#include "tests/fuzz/fuzz.h"

enum { PIECES = 1 << 13 };

struct memory {
        struct {
                uint64_t from, size;
                const uint8_t *at;
        } pieces[PIECES];
        unsigned n, calls, when;
        uint8_t bits;
};

static bool fetch(struct process_memory *m, uint64_t from, void *to, size_t size)
{
        struct memory *f = m->arg;

        f->calls++;
        for (unsigned i = 0; i < f->n; i++) {
                if (from < f->pieces[i].from || from - f->pieces[i].from > f->pieces[i].size ||
                    size > f->pieces[i].size - (from - f->pieces[i].from))
                        continue;
                memcpy(to, f->pieces[i].at + (from - f->pieces[i].from), size);
                if (f->when && f->calls % f->when == 0 && size)
                        ((uint8_t *)to)[f->calls % size] ^= f->bits;
                return true;
        }
        return false;
}

/* What stands in lines: nothing that is no letter, and no more of them than were promised. */
static void check_text(const char *text, size_t size, unsigned lines)
{
        unsigned n = 0;

        for (size_t i = 0; i < size; i++) {
                must((unsigned char)text[i] >= ' ' || text[i] == '\n');
                n += text[i] == '\n';
        }
        must(n == lines);
        must(!size || text[size - 1] == '\n');
        must(n <= PROCESS_PYTHON_FRAMES + 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};
        static struct memory f;
        static struct process_python p;
        struct process_memory *m = process_memory_new(0);
        char why[400] = "";
        uint64_t n;
        char *maps;
        int r;

        must(m);
        f.calls = f.n = 0;
        f.when = (unsigned)fuzz_number(&b, 1);
        f.bits = (uint8_t)fuzz_number(&b, 1);
        n = fuzz_number(&b, 4);
        n = n < b.left ? n : b.left;
        maps = fuzz_text(b.at, n);
        b.at += n;
        b.left -= n;
        while (b.left > 12 && f.n < PIECES) {
                f.pieces[f.n].from = fuzz_number(&b, 8);
                n = fuzz_number(&b, 4);
                f.pieces[f.n].size = n < b.left ? n : b.left;
                f.pieces[f.n].at = b.at;
                b.at += f.pieces[f.n].size;
                b.left -= f.pieces[f.n++].size;
        }
        m->fetch = fetch;
        m->arg = &f;
        m->most = 4096;
        r = process_python_find(m, maps, &p, why, sizeof why);
        must(r <= 0 && (r < 0 || p.n <= PROCESS_PYTHON_THREADS) &&
             (r == 0 || r == -ENOENT || *why));
        for (unsigned i = 0; r == 0 && i < p.n; i++) {
                char *text = NULL;
                size_t of = 0;
                FILE *out = open_memstream(&text, &of);
                unsigned lines;

                must(out);
                lines = process_python_frames(&p, &p.threads[i], " ", out);
                must(fclose(out) == 0);
                check_text(text, of, lines);
                free(text);
        }
        must(m->n_read <= 4096 + PROCESS_MEMORY_PIECES && m->n <= PROCESS_MEMORY_PIECES &&
             m->used <= PROCESS_MEMORY_BYTES);
        free(m);
        free(maps);
        return 0;
}
