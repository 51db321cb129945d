/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/profile.h"
#include "cli/run/profile_auto.h"

static char root[64];

static void put(const char *name, const char *text)
{
        char path[256];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", root, name);
        for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
                *p = 0;
                mkdir(path, 0700);
                *p = '/';
        }
        f = fopen(path, "w");
        cr_assert(f);
        fputs(text, f);
        fclose(f);
}

static void profile(const char *name, const char *gpu, int per_node)
{
        char text[256];

        snprintf(
                text, sizeof text,
                "{\"capo_profile\": 1, \"platform\": {\"gpu\": \"%s\", \"gpus_per_node\": %d}, \"rules\": [{\"when\": "
                "{}, \"allreduce\": "
                "[{\"upto\": \"max\", \"leave\": true}]}]}",
                gpu, per_node);
        put(name, text);
}

static void start(void)
{
        strcpy(root, "/tmp/capo-auto-XXXXXX");
        cr_assert(mkdtemp(root));
        setenv("XDG_CONFIG_HOME", root, 1);
        put("gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n");
        put("gpus/0000:02:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\n");
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *where)
{
        return remove(path);
}

static void stop(void) { nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS); }

TestSuite(profile_auto, .init = start, .fini = stop);

static int ask(char *path, size_t room, struct capo_fault *fault)
{
        char gpus[128], shipped[128];

        snprintf(gpus, sizeof gpus, "%s/gpus", root);
        snprintf(shipped, sizeof shipped, "%s/shipped", root);
        return capo_profile_auto(shipped, gpus, NULL, path, room, fault);
}

Test(profile_auto, by_gpu_and_number)
{
        char path[4096];
        struct capo_fault fault;

        profile("shipped/a.json", "A100", 2);
        profile("shipped/b.json", "H100", 8);
        put("shipped/c.json", "not a profile");
        cr_assert_eq(ask(path, sizeof path, &fault), -ENOENT);
        cr_assert(strstr(fault.text, "2 x NVIDIA H100"), "%s", fault.text);
        profile("shipped/d.json", "h100-80gb", 2);
        cr_assert_eq(ask(path, sizeof path, &fault), 0, "%s", fault.text);
        cr_assert(strstr(path, "/shipped/d.json"));
        profile("capo/profiles/mine.json", "H100", 2); /* the user's own comes before the shipped */
        cr_assert_eq(ask(path, sizeof path, &fault), 0);
        cr_assert(strstr(path, "/capo/profiles/mine.json"), "%s", path);
}

Test(profile_auto, no_gpu)
{
        char path[4096];
        struct capo_fault fault;

        cr_assert_eq(capo_profile_auto(NULL, "/nonexistent", NULL, path, sizeof path, &fault),
                     -ENODEV);
}

Test(profile_auto, what_fits)
{
        char path[4096];
        struct capo_fault fault;

        put("shipped/a.json",
            "{\"capo_profile\": 1, \"rules\": []}"); /* names no GPU: is for no machine */
        cr_assert_eq(ask(path, sizeof path, &fault), -ENOENT);
        put("shipped/z.json",
            "{\"capo_profile\": 1, \"platform\": {\"gpu\": \"NVIDIA h100 80gb-HBM3\"}, \"rules\": []}");
        cr_assert_eq(ask(path, sizeof path, &fault), 0, "any number of GPUs: %s", fault.text);
        cr_assert(strstr(path, "/shipped/z.json"), "%s", path);
        profile("shipped/c.json", "H100", 2); /* two fit: the names' order */
        cr_assert_eq(ask(path, sizeof path, &fault), 0, "%s", fault.text);
        cr_assert(strstr(path, "/shipped/c.json"), "%s", path);
        put("gpus/0000:03:00.0/information",
            "Model: \t\t NVIDIA H100 80GB HBM3\n"); /* three: c is for two */
        cr_assert_eq(ask(path, sizeof path, &fault), 0, "%s", fault.text);
        cr_assert(strstr(path, "/shipped/z.json"), "%s", path);
}

/* A profile of an A10 has no word for an A100, nor one of an L40 for an L40S, of a B200 for a
 * GB200. */
Test(profile_auto, a_gpu_is_meant_by_whole_words)
{
        static const struct {
                const char *model, *gpu;
                bool fits;
        } rows[] = {{"NVIDIA A100-SXM4-80GB", "A10", false},
                    {"NVIDIA A100-SXM4-80GB", "A100", true},
                    {"NVIDIA A100-SXM4-80GB", "a100 sxm4", true},
                    {"NVIDIA A100-SXM4-80GB", "A100-SXM4-8", false},
                    {"NVIDIA L40S", "L40", false},
                    {"NVIDIA GB200", "B200", false},
                    {"NVIDIA GH200 480GB", "H200", false},
                    {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", true},
                    {"NVIDIA H100 80GB HBM3", "h10080gb", true},
                    {"NVIDIA H100 80GB HBM3", "-", false}};

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_fault fault;
                char path[4096], text[128];

                snprintf(text, sizeof text, "Model: \t\t %s\n", rows[i].model);
                put("gpus/0000:01:00.0/information", text);
                put("gpus/0000:02:00.0/information", text);
                profile("shipped/a.json", rows[i].gpu, 2);
                cr_expect_eq(ask(path, sizeof path, &fault), rows[i].fits ? 0 : -ENOENT, "%s of %s",
                             rows[i].gpu, rows[i].model);
        }
}

/* GPUs alike stand in machines unlike: a profile of a machine needs the machine's name. */
Test(profile_auto, a_profile_of_a_machine)
{
        static const char text[] =
                "{\"capo_profile\": 1, \"platform\": {\"machine\": \"p5\"}, \"rules\": []}";
        char folder[] = "/tmp/capo-auto-machine-XXXXXX", file[64], path[PATH_MAX];
        struct capo_fault fault;
        FILE *f;

        cr_assert_not_null(mkdtemp(folder));
        snprintf(file, sizeof file, "%s/predicted-p5.json", folder);
        f = fopen(file, "w");
        fputs(text, f);
        fclose(f);
        setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
        cr_expect_eq(capo_profile_auto(folder, "/nonexistent", "p5", path, sizeof path, &fault), 0,
                     "%s", fault.text);
        cr_expect_str_eq(path, file);
        cr_expect_eq(capo_profile_auto(folder, "/nonexistent", "p4d", path, sizeof path, &fault),
                     -ENOENT);
        cr_expect(strstr(fault.text, "no stored profile is for p4d; run without"), "%s",
                  fault.text);
        cr_expect_eq(capo_profile_auto(folder, "/nonexistent", NULL, path, sizeof path, &fault),
                     -ENODEV);
        unlink(file);
        rmdir(folder);
}
