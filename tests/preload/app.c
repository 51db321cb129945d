/* SPDX-License-Identifier: Apache-2.0 */
/* app BODY [ARG]: a program that is linked to NCCL. */
#include <stdlib.h>

void body(const char *what, int arg);

int main(int argc, char **argv)
{
        body(argc > 1 ? argv[1] : "basic", argc > 2 ? atoi(argv[2]) : 0);
        return 0;
}
