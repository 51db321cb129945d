/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON objects, also where a program wrote numbers as text. */
#include <math.h>

#include "profiles/import/json_values.h"

double json_num(const json_t *o, const char *key, double otherwise)
{
        const json_t *v = json_object_get(o, key);

        if (json_is_string(v)) { /* nccl-tests writes the root and booleans as text */
                char *end;
                double d = strtod(json_string_value(v), &end);

                return end == json_string_value(v) || !isfinite(d) ? otherwise : d;
        }
        return json_is_number(v) ? json_number_value(v) : otherwise;
}

uint64_t json_count(const json_t *o, const char *key, uint64_t otherwise, uint64_t most)
{
        double d = json_num(o, key, (double)otherwise);

        return d >= 0 && d <= (double)most ? (uint64_t)d : otherwise;
}

const char *json_str(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));

        return s ? s : "";
}
