/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/safe_args.h"
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

Test(safe_args, what_stays_and_what_is_left_out)
{
        static const struct {
                const char *in, *out;
        } rows[] = {
                {"/usr/bin/python3|train.py", "/usr/bin/python3 train.py"},
                {"python|-u|/x/train.py|--lr|1e-4|--name|me|you",
                 "python ... /x/train.py --lr 1e-4 ..."},
                {"python3.11|-m|torch.distributed.run|--nproc-per-node=8|--nnodes|2:4|train.py|a.py",
                 "python3.11 -m torch.distributed.run --nproc-per-node=8 --nnodes 2:4 train.py ..."},
                {"torchrun|--standalone|--nproc_per_node|gpu|train.py|--batch-size|32",
                 "torchrun --standalone --nproc_per_node gpu train.py --batch-size 32"},
                {"python|-c|import x", "python ..."},
                {"python|-m|a-b|x", "python ..."},
                {"prog|-m|module", "prog ..."},
                {"./all_reduce_perf|-b|8|-e|1G|-f|2|-d|float",
                 "./all_reduce_perf -b 8 -e 1G -f 2 ..."},
                {"./other|-b|8", "./other ..."},
                {"t|--key-file|a.py", "t ..."},
                {"t|--lr|x|--lr|1e-4", "t ... --lr 1e-4"},
                {"t|--epochs", "t ..."},
                {"t|--epochs=|--steps|-1|--gpus|0-3,5", "t ... --steps -1 --gpus 0-3,5"},
                {"t|--epochs|12345678901234567", "t ..."},
                {"t|--standalone=x|--lrs|1", "t ..."},
                {"t|a|b|c|--tp|4|d", "t ... --tp 4 ..."},
                {"/x/hf_abcdefghijklmnopqrstuvwxyz0123/t", "/x/***/t"},
                {"", ""},
                {"t||u", "t ..."},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char in[256], out[256];
                size_t n = args(rows[i].in, in), made = capo_safe_args(in, n, out, sizeof out);

                cr_expect_str_eq(out, rows[i].out, "row %zu: %s", i, out);
                cr_expect_eq(made, strlen(out));
        }
}

/* The forms in which people give secrets to programs. PLANTED is the secret; @random stands for it
 * where only its form gives it away. No mask can know the last ones: @unknown. */
Test(safe_args, planted_secrets)
{
        static const struct {
                const char *in;
                const char *random; /* NULL: PLANTED */
                bool unknown;
        } rows[] = {
                {"t|--token|PLANTED"},
                {"t|--token=PLANTED"},
                {"t|--hf-token|PLANTED"},
                {"t|--hfToken=PLANTED"},
                {"t|--api-key|PLANTED"},
                {"t|--api_key=PLANTED"},
                {"t|--wandb.api_key=PLANTED"},
                {"t|--apikey|PLANTED"},
                {"t|--password|PLANTED"},
                {"t|--passwd=PLANTED"},
                {"t|--pass|PLANTED"},
                {"t|--db-pass=PLANTED"},
                {"t|--pwd|PLANTED"},
                {"t|--passphrase|PLANTED"},
                {"t|--secret|PLANTED"},
                {"t|--client-secret=PLANTED"},
                {"t|--jwt=PLANTED"},
                {"t|--license-key|PLANTED"},
                {"t|--access-key|PLANTED"},
                {"t|--private-key=PLANTED"},
                {"t|--account-key=PLANTED"},
                {"t|--signing-key|PLANTED"},
                {"t|--encryption-key=PLANTED"},
                {"t|--credentials|PLANTED"},
                {"t|--bearer|PLANTED"},
                {"env|WANDB_API_KEY=PLANTED|python"},
                {"env|AWS_SECRET_ACCESS_KEY=PLANTED|python"},
                {"t|{\"password\": \"PLANTED\"}"},
                {"t|--json|{'api_key':'PLANTED','lr':1}"},
                {"curl|-H|Authorization: Bearer PLANTED"},
                {"curl|-H|X-Api-Key: PLANTED"},
                {"t|https://me:PLANTED@host/path"},
                {"t|postgresql://me:PLANTED@host/db"},
                {"t|https://a.blob.core.windows.net/c?sv=1&sig=PLANTED&se=2"},
                {"t|https://host/x?token=PLANTED"},
                {"t|db.password=PLANTED,host=h"},
                {"t|hf_%", "abcdefghijklmnopqrstuvwxyz0123"},
                {"t|sk-%", "abcdefghijklmnopqrstuvwx"},
                {"t|ghp_%", "abcdefghijklmnopqrstuvwxyz0123"},
                {"t|AKIA%", "IOSFODNN7EXAMPLE"},
                {"t|eyJhbGciOiJIUzI1NiJ9.%", "eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"},
                {"t|--wandb|%", "0123456789abcdef0123456789abcdef01234567"},
                {"t|--session|%", "Zk3pQ9xVtB7mR2nLwY8sHd4cGf"},
                {"mysql|-pPLANTED", .unknown = true},
                {"t|--pin|PLANTED", .unknown = true},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *secret = rows[i].random ? rows[i].random : "PLANTED",
                           *at = strchr(rows[i].in, '%');
                char text[256], in[256], out[256];
                size_t n;

                if (at)
                        snprintf(text, sizeof text, "%.*s%s", (int)(at - rows[i].in), rows[i].in,
                                 secret);
                else
                        snprintf(text, sizeof text, "%s", rows[i].in);
                n = args(text, in);
                capo_safe_args(in, n, out, sizeof out);
                cr_expect_null(strstr(out, secret), "safe: %s", out);
                cr_expect(*out, "the program stays");
                capo_secret_args(in, n, out, sizeof out);
                cr_expect_eq(strstr(out, secret) != NULL, rows[i].unknown, "all: %s", out);
        }
}

/* Whoever copied them may have cut them anywhere; what does not fit is cut. */
Test(safe_args, cut)
{
        for (size_t room = 1; room < 60; room++) {
                char in[64], out[64];
                size_t n = args("python|-m|a.b|--lr|1|x|c.py|--token|PLANTED", in) - 3;

                memset(out, 'x', sizeof out);
                cr_assert_lt(capo_safe_args(in, n, out, room), room);
                cr_assert_eq(out[room], 'x');
        }
}
