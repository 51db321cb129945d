/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader as somebody else would write it by docs/internals/log-format.md, in the words that C and
 * C++ have in common, with nothing but the installed headers: prints the header, and each frame's
 * name and size.
 */
#include <stdio.h>
#include <string.h>

#include <capo/call_ids.h>
#include <capo/log.h>

static const char *frame_name(unsigned type)
{
        switch (type) {
#define FRAME(id, number, since, meaning) \
        case number:                      \
                return #id;
#include <capo/log_frames.def>
#undef FRAME
        default: return "?";
        }
}

static const char *call_name(unsigned call)
{
        switch (call) {
#define CAPO_CALL(id, name, kind) \
        case CAPO_CALL_##id:      \
                return name;
#include <capo/calls.def>

#undef CAPO_CALL
        default: return "?";
        }
}

int main(int argc, char **argv)
{
        FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
        static char payload[1 << 20];
        struct capo_log_header h;
        struct capo_frame f;

        if (!file || fread(&h, sizeof h, 1, file) != 1 ||
            memcmp(h.magic, CAPO_LOG_MAGIC, sizeof h.magic) != 0 || h.order != CAPO_LOG_ORDER ||
            h.min_reader > CAPO_LOG_VERSION)
                return 1;
        printf("version %u pid %u\n", h.version, h.pid);
        if (fseek(file, (long)h.header_size, SEEK_SET))
                return 1;
        while (fread(&f, sizeof f, 1, file) == 1) {
                size_t padded = (f.size + 7u) & ~(size_t)7;

                if (padded > sizeof payload || fread(payload, 1, padded, file) != padded)
                        break;
                printf("%s %u", frame_name(f.type), f.size);
                if (f.type == CAPO_FRAME_CELL) {
                        struct capo_log_cell cell;

                        memcpy(&cell, payload, sizeof cell);
                        printf(" %s", call_name(cell.call));
                }
                puts("");
        }
        fclose(file);
        return 0;
}
