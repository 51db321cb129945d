/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "cli/base/json.h"

json_t *cli_json_real(double value)
{
        return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_json_known(double value)
{
        return value < 0 ? json_null() : json_real(value);
}

json_t *cli_json_text(const char *s)
{
        json_t *j = s ? json_string(s) : json_null();

        if (!j) {
                char clean[1024];
                size_t n = 0;

                for (; s[n] && n + 1 < sizeof clean; n++)
                        clean[n] = (unsigned char)s[n] < 128 ? s[n] : '?';
                clean[n] = 0;
                j = json_string(clean);
        }
        return j;
}

json_t *cli_json_gpus(const struct capo_plan_gpu *gpus, size_t n)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                json_array_append_new(list, json_pack("[i, i]", gpus[i].node, gpus[i].dev));
        return list;
}

int cli_json_print(FILE *out, json_t *page, size_t flags)
{
        int r = page ? json_dumpf(page, out, flags) : -1;

        if (page)
                fputc('\n', out);
        json_decref(page);
        return r && !ferror(out) ? -ENOMEM : 0; /* a full device is reported by who closes the file */
}
