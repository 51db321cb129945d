/* SPDX-License-Identifier: Apache-2.0 */
/* A profile out of a file or a text: which of its two forms it is, and its digest. */
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/file.h"
#include "core/profile/profile_file.h"

int capo_profile_parse(const char *text, size_t size, const char *file, struct capo_profile **out,
                       struct capo_fault *fault)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = capo_profile_new("");
        XXH128_hash_t hash = XXH3_128bits(text, size);
        size_t i = 0;
        int r;

        if (p) {
                free(p->file);
                p->file = strdup(file);
        }
        if (!p || !p->file)
                return capo_profile_fault(-ENOMEM, fault, "%s: not enough memory", file);
        snprintf(p->digest, sizeof p->digest, "%016llx%016llx", (unsigned long long)hash.high64,
                 (unsigned long long)hash.low64);
        while (i < size && isspace((unsigned char)text[i]))
                i++;
        if (i == size)
                return capo_profile_fault(
                        -EINVAL, fault,
                        "%s:1:1: expected a profile (JSON or CSV), found an empty file", file);
        p->csv = isalpha((unsigned char)text[i]) || text[i] == '#';
        r = p->csv ? capo_profile_parse_csv(p, text, size, fault)
                   : capo_profile_parse_json(p, text, size, fault);
        if (r < 0)
                return r;
        *out = steal(&p);
        return 0;
}

int capo_profile_load(const char *path, struct capo_profile **out, struct capo_fault *fault)
{
        bool input = !strcmp(path, "-");
        _cleanup_close_ int fd =
                input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size = 0;
        int r = fd < 0 ? -errno : 0;

        /* In a job nothing may wait: a FIFO or a terminal as profile would block every rank. */
        if (!r && !input && !fstat(fd, &st) && !S_ISREG(st.st_mode))
                r = S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
        if (!r)
                r = capo_file_read_fd(fd, CAPO_PROFILE_BYTES_MAX + 1, &text, &size);
        if (!r && size > CAPO_PROFILE_BYTES_MAX)
                r = -EFBIG;
        if (r < 0)
                return capo_profile_fault(r, fault, "%s: %s", path,
                                          r == -ENOTSUP ? "not a regular file"
                                          : r == -EFBIG
                                                  ? "larger than 256 MiB, too large for a profile"
                                                  : strerror(-r));
        return capo_profile_parse(text, size, input ? "(standard input)" : path, out, fault);
}
