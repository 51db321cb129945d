# SPDX-License-Identifier: Apache-2.0
from capo import main

main()
