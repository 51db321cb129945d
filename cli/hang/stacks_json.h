/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/base/cli_json.h"

/** hang_json_stacks() - an array of the threads of @pid, from process_stacks(); @why_none: a text if
 * there are none, else null. */
json_t *hang_json_stacks(int pid, json_t **why_none);

/** hang_json_python() - the same for Python, from process_python_now(); @why_none is also null without
 * Python. */
json_t *hang_json_python(int pid, json_t **why_none);
