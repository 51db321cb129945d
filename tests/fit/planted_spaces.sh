#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: planted_spaces.sh PLANTED_SPACES [SEED...]    searches in spaces of somebody else (planted/), of each kind with each seed
here=$(dirname "$0")/planted
search=$1
shift
for kind in $(python3 "$here/planted_spaces.py" --list | awk '{print $1}'); do
        for seed in "${@:-1}"; do
                python3 "$here/planted_spaces.py" --kind "$kind" --seed "$seed" --json || exit
        done
done | "$search" 10
