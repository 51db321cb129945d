/* SPDX-License-Identifier: Apache-2.0 */
/* What makes the stand-in driver AMD's library by name. capo asks nothing of HIP. */

__attribute__((visibility("default"))) int hipDriverGetVersion(int *version);

int hipDriverGetVersion(int *version)
{
        *version = 60342134; /* 6.3 */
        return 0;
}
