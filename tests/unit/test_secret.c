/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/secret.h"
#include "core/base/util.h"

/* '|' stands for the zero between two arguments. */
static size_t args(const char *text, char *to)
{
        size_t n = strlen(text);

        for (size_t i = 0; i <= n; i++)
                to[i] = (char)(text[i] == '|' ? 0 : text[i]);
        return n + 1;
}

Test(secret, what_is_masked_and_what_stays)
{
        static const struct {
                const char *in, *out;
        } rows[] = {
                {"train.py|--lr|1e-4", "train.py --lr 1e-4"},
                {"t|--api-key|abc|--x", "t --api-key *** --x"},
                {"t|--hf-token=abc|y", "t --hf-token=*** y"},
                {"t|--hfToken|abc", "t --hfToken ***"},
                {"t|--wandb.api_key=abc", "t --wandb.api_key=***"},
                {"env|WANDB_API_KEY=abc|DB_PASSWORD=a=b|python",
                 "env WANDB_API_KEY=*** DB_PASSWORD=*** python"},
                {"t|--password|-x", "t --password -x"},
                {"t|--credential=x|--access-key|y", "t --credential=*** --access-key ***"},
                {"t|--secret|--token|v", "t --secret --token ***"},
                {"t|--tokenizer|gpt2|--max-tokens|2048|--num_tokens=5",
                 "t --tokenizer gpt2 --max-tokens 2048 --num_tokens=5"},
                {"t|--keys|3|--key|a|--monkey|b", "t --keys 3 --key a --monkey b"},
                {"t|hf_abcdefghijklmnopqrstuvwxyz0123", "t ***"},
                {"t|--x=sk-abcdefghijklmnopqrstuvwx,y", "t --x=***,y"},
                {"t|hf_short|sk-learn|risk-abcdefghijklmnopqrstuvwxyz",
                 "t hf_short sk-learn risk-abcdefghijklmnopqrstuvwxyz"},
                {"t|AKIAIOSFODNN7EXAMPLE", "t ***"},
                {"t|0123456789abcdef0123456789abcdef", "t ***"},
                {"t|0123456789abcdef0123456789abcde", "t 0123456789abcdef0123456789abcde"},
                {"t|aB3aB3aB3aaaaaaaaaaaaaaa", "t ***"},
                {"t|aB3aB3aB3aaaaaaaaaaaaaa", "t aB3aB3aB3aaaaaaaaaaaaaa"},
                {"t|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "t ***"},
                {"curl|-H|Authorization: Bearer abc.def|x", "curl -H Authorization: Bearer *** x"},
                {"t|eyJhbGciOi.1234567.abc", "t eyJhbGciOi.1234567.abc"},
                {"t|eyJhbGciOi.12345678.abc|eyJhbGciOi.12345678:y|eyJhbGciOi.12345678.",
                 "t *** ***:y ***."},
                {"t|bearer token|bearers of news|x-Bearer\ta",
                 "t bearer *** bearers of news x-Bearer\ta"},
                {"t|https://user:pa:ss@host/path?q", "t https://user:***@host/path?q"},
                {"t|tcp://10.0.0.1:29500|http://h:80/a@b",
                 "t tcp://10.0.0.1:29500 http://h:80/a@b"},
                {"t|n:/x:pw@h|abcdefghij.12345678.abc|x://",
                 "t n:/x:pw@h abcdefghij.12345678.abc x://"},
                {"t|--pass|x|--db-pass=y|--passes|3", "t --pass *** --db-pass=*** --passes 3"},
                {"t|--jwt=x|--license-key|y|--signing-key=z",
                 "t --jwt=*** --license-key *** --signing-key=***"},
                {"t|{\"password\": \"x y\", \"lr\": 1, 'api_key':'z'}",
                 "t {\"password\": \"***\", \"lr\": 1, 'api_key':'***'}"},
                {"t|https://a.blob/c?sv=1&sig=x%2By&se=2", "t https://a.blob/c?sv=1&sig=***&se=2"},
                {"curl|-H|X-Api-Key: x|y", "curl -H X-Api-Key: *** y"},
                {"t|db.password=x,host=h|a:tokens=3", "t db.password=*** a:tokens=3"},
                {"", ""},
                {"t||u", "t  u"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char in[256], out[256];
                size_t n = args(rows[i].in, in), made = capo_secret_args(in, n, out, sizeof out);

                cr_expect_str_eq(out, rows[i].out, "row %zu: %s", i, out);
                cr_expect_eq(made, strlen(out));
        }
}

/* Whoever copied them may have cut them anywhere. */
Test(secret, the_last_argument_without_its_end)
{
        char in[] = "t\0abcdefg", out[32];

        cr_expect_eq(capo_secret_args(in, 5, out, sizeof out), 5);
        cr_expect_str_eq(out, "t abc");
}

Test(secret, no_room)
{
        for (size_t room = 1; room < 40; room++) {
                char in[64], out[64];
                size_t n = args("program|--token|abc|https://u:p@h", in);

                memset(out, 'x', sizeof out);
                cr_assert_lt(capo_secret_args(in, n, out, room), room);
                cr_assert_eq(out[room], 'x');
                cr_assert_null(strstr(out, "abc"));
        }
}
