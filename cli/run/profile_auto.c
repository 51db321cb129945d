/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <glob.h>

#include "capo/msg.h"
#include "capo/profile.h"
#include "core/profile/profile_find.h"
#include "core/base/xalloc.h"
#include "cli/run/profile_auto.h"

/* A name reduced to lower-case letters and digits, with the positions where words begin: "NVIDIA
 * H100 80GB HBM3" and "h100-80gb" then share "h10080gb". */
struct squeezed {
        char text[256];
        bool begins[256]; /* includes the end */
        size_t n;
};

static struct squeezed squeeze_text(const char *from)
{
        struct squeezed s = {0};
        bool begins = true;

        for (; *from && s.n + 1 < sizeof s.text; from++) {
                if (!isalnum((unsigned char)*from)) {
                        begins = true;
                        continue;
                }
                s.begins[s.n] = begins;
                s.text[s.n++] = (char)tolower((unsigned char)*from);
                begins = false;
        }
        s.begins[s.n] = true;
        return s;
}

/* Does @model contain @gpu in whole words? An A10 is no A100, and a B200 no GB200. */
static bool has_words(const struct squeezed *model, const struct squeezed *gpu)
{
        for (const char *at = model->text; gpu->n && (at = strstr(at, gpu->text)); at++) {
                if (model->begins[at - model->text] &&
                    model->begins[(size_t)(at - model->text) + gpu->n])
                        return true;
        }
        return false;
}

/* The driver's name of the first GPU, and the number of GPUs. */
static int gpus_here(const char *folder, char *model, size_t room)
{
        _cleanup_free_ char *pattern = xprintf("%s/*", folder);
        glob_t found = {0};
        int n = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;

        *model = 0;
        for (int i = 0; i < n && !*model; i++) {
                _cleanup_free_ char *path = xprintf("%s/information", found.gl_pathv[i]);
                _cleanup_fclose_ FILE *in = fopen(path, "re");
                char line[256];

                while (in && !*model && fgets(line, sizeof line, in)) {
                        if (!strncmp(line, "Model:", 6))
                                snprintf(model, room, "%.*s",
                                         (int)strcspn(line + 6 + strspn(line + 6, " \t"), "\n"),
                                         line + 6 + strspn(line + 6, " \t"));
                }
        }
        globfree(&found);
        return n;
}

/* The JSON text of a note, without quotes; "": there is none. */
static char *note_text(const struct capo_profile *p, const char *key, char text[256])
{
        *text = 0;
        for (uint32_t i = 0; i < p->n_notes[CAPO_PLATFORM]; i++) {
                const struct capo_note *n = &p->notes[CAPO_PLATFORM][i];

                if (!strcmp(n->key, key))
                        snprintf(text, 256, "%.*s", (int)strcspn(n->json + (*n->json == '"'), "\""),
                                 n->json + (*n->json == '"'));
        }
        return text;
}

static bool profile_fits(const char *path, const struct squeezed *model, int n_gpus,
                         const char *platform)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        struct squeezed gpu;
        char text[256], *names = text, *name;

        if (capo_profile_load(path, &p, NULL))
                return false; /* `capo profile list` shows why; a broken file must not stop another
                                 job */
        if (*note_text(p, "machine", text)) { /* machines with equal GPUs can differ */
                /* "hgxh100 hgxh200": machines with the same links */
                while ((name = strsep(&names, " ")) && (!platform || strcmp(name, platform)))
                        ;
                return name;
        }
        gpu = squeeze_text(note_text(p, "gpu", text));
        return has_words(model, &gpu) &&
               (!*note_text(p, "gpus_per_node", text) || atoi(text) == n_gpus);
}

static int is_profile(const struct dirent *e)
{
        const char *dot = strrchr(e->d_name, '.');

        return dot && !strcmp(dot, ".json");
}

int capo_profile_auto(const char *shipped, const char *gpus, const char *platform, char *path,
                      size_t room, struct capo_fault *fault)
{
        char model[256], folder[PATH_MAX];
        int n_gpus = gpus_here(gpus ? gpus : "/proc/driver/nvidia/gpus", model, sizeof model);
        struct squeezed plain;
        bool found = false;
        const char *what;

        if (n_gpus == 0 && !platform)
                return capo_why(
                        -ENODEV, fault->text, sizeof fault->text,
                        "profile auto: no NVIDIA GPU on this machine; name a profile (capo profile list)");
        plain = squeeze_text(model);
        for (unsigned i = 0;
             !found && capo_profile_folder(i, shipped, folder, sizeof folder, &what); i++) {
                struct dirent **names;
                int n = *folder ? scandir(folder, &names, is_profile, alphasort) : -1;

                for (int k = 0; k < n; k++) {
                        char file[PATH_MAX];

                        if (!found &&
                            snprintf(file, sizeof file, "%s/%s", folder, names[k]->d_name) <
                                    (int)sizeof file &&
                            strlen(file) < room && profile_fits(file, &plain, n_gpus, platform)) {
                                strcpy(path, file);
                                found = true;
                        }
                        free(names[k]);
                }
                if (n >= 0)
                        free(names);
        }
        if (found)
                return 0;
        if (platform)
                return capo_why(
                        -ENOENT, fault->text, sizeof fault->text,
                        "profile auto: no stored profile is for %s; run without --profile, or name one (capo "
                        "profile list)",
                        platform);
        return capo_why(
                -ENOENT, fault->text, sizeof fault->text,
                "profile auto: no stored profile is for %d x %s; capo profile list shows what there is",
                n_gpus, model);
}
