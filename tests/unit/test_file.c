/* SPDX-License-Identifier: Apache-2.0 */
/* Files read whole: regular ones, pipes that come in pieces, the first bytes of longer ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/util.h"

/* What a file of @n bytes, read up to @most, comes to. */
static void read_back(size_t n, size_t most, size_t expected)
{
        char name[] = "/tmp/capo-file-XXXXXX", *bytes = malloc(n + 1), *text = NULL;
        _cleanup_close_ int fd = mkstemp(name);
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                bytes[i] = (char)('a' + i % 23);
        cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
        cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
        cr_assert_eq(capo_file_read_fd(fd, most, &text, &size), 0);
        cr_expect_eq(size, expected, "%zu of %zu", n, most);
        cr_expect_eq(text[size], 0);
        cr_expect(!memcmp(text, bytes, expected));
        unlink(name);
        free(text);
        free(bytes);
}

Test(file, whole_and_beginnings)
{
        read_back(0, SIZE_MAX, 0);
        read_back(1, SIZE_MAX, 1);
        read_back(70000, SIZE_MAX, 70000);
        read_back(70000, 70000, 70000);
        read_back(70000, 69999, 69999);
        read_back(70000, 1, 1);
}

Test(file, a_pipe_in_pieces)
{
        char piece[1000], *text;
        int ends[2], status;
        size_t size;
        pid_t child;

        memset(piece, 'x', sizeof piece);
        cr_assert_eq(pipe(ends), 0);
        child = fork();
        if (!child) {
                for (int i = 0; i < 200; i++) {
                        if (write(ends[1], piece, sizeof piece) != (ssize_t)sizeof piece)
                                _exit(1);
                }
                _exit(0);
        }
        close(ends[1]);
        cr_assert_eq(capo_file_read_fd(ends[0], SIZE_MAX, &text, &size), 0);
        cr_expect_eq(size, 200 * sizeof piece);
        cr_expect_eq(strspn(text, "x"), size);
        cr_expect(waitpid(child, &status, 0) == child && status == 0);
        free(text);
}

Test(file, errors_leave_the_outputs)
{
        char *text = (char *)"as it was";
        size_t size = 42;

        cr_expect_eq(capo_file_read_fd(-1, SIZE_MAX, &text, &size), -EBADF);
        _cleanup_close_ int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cr_expect_eq(capo_file_read_fd(folder, SIZE_MAX, &text, &size), -EISDIR);
        cr_expect_str_eq(text, "as it was");
        cr_expect_eq(size, 42);
}

Test(file, by_its_name)
{
        char name[] = "/tmp/capo-file-XXXXXX", *text = NULL;
        _cleanup_close_ int fd = mkstemp(name);
        size_t size = 0;

        cr_assert_eq(write(fd, "twelve bytes", 12), 12);
        cr_expect_eq(capo_file_read(name, 11, &text, &size), -E2BIG);
        cr_expect(!text && !size, "set only on success");
        cr_assert_eq(capo_file_read(name, 12, &text, &size), 0);
        cr_expect_str_eq(text, "twelve bytes");
        cr_expect_eq(size, 12);
        free(text);
        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
        cr_assert_eq(capo_file_read(name, 12, &text, &size), 0);
        free(text);
        unlink(name);
        cr_expect_eq(capo_file_read(name, 12, &text, &size), -ENOENT);
}

Test(file, on_a_search_path)
{
        char dir[] = "/tmp/capo-file-XXXXXX", dirs[160], first[32], second[32], name[64], path[64];

        cr_assert(mkdtemp(dir));
        snprintf(first, sizeof first, "%s/1", dir);
        snprintf(second, sizeof second, "%s/2", dir);
        cr_assert(mkdir(first, 0700) == 0 && mkdir(second, 0700) == 0);
        snprintf(name, sizeof name, "%s/x", second);
        close(open(name, O_CREAT | O_WRONLY, 0600));
        snprintf(dirs, sizeof dirs, ":%s::%s:", first, second);
        cr_expect(capo_file_find(dirs, "x", R_OK, path, sizeof path));
        cr_expect_str_eq(path, name);
        cr_expect_not(capo_file_find(dirs, "x", X_OK, path, sizeof path), "no program");
        cr_expect_str_empty(path);
        snprintf(name, sizeof name, "%s/x", first);
        close(open(name, O_CREAT | O_WRONLY, 0700));
        cr_expect(capo_file_find(dirs, "x", X_OK, path, sizeof path));
        cr_expect_str_eq(path, name, "the first that has it");
        cr_expect(capo_file_find(dirs, "x", R_OK, path, strlen(name) + 1));
        cr_expect_not(capo_file_find(dirs, "x", R_OK, path, strlen(name)),
                      "cut it would be another");
        cr_expect_not(capo_file_find(dirs, "y", R_OK, path, sizeof path));
        cr_expect_not(capo_file_find("", "x", R_OK, path, sizeof path));
        cr_expect_not(capo_file_find(NULL, "x", R_OK, path, sizeof path));
        cr_expect(capo_file_find(NULL, name, R_OK, path, sizeof path),
                  "with a slash it is the file");
        cr_expect_str_eq(path, name);
        cr_expect_not(capo_file_find(dir, "1/y", R_OK, path, sizeof path));
        cr_expect_not(capo_file_find(dir, "1/x", R_OK, path, sizeof path),
                      "below none of the folders");
        cr_expect_str_empty(path);
        unlink(name);
        snprintf(name, sizeof name, "%s/x", second);
        unlink(name);
        cr_assert(rmdir(first) == 0 && rmdir(second) == 0 && rmdir(dir) == 0);
}
