#!/usr/bin/env bash
# ---
# version: "0.1.0"
# tool_type: bash
# executor_id: rye/core/runtimes/bash_runtime
# category: "{{category}}"
# description: "{{description}}"
# risk: read
# input_schema:
#   type: object
#   required: [name]
#   additionalProperties: false
#   properties:
#     name: {type: string, description: Name to greet}
# output_schema:
#   type: object
#   required: [success]
#   properties:
#     success: {type: boolean}
#     greeting: {type: string}
# ---

# Each string, number and boolean among the parameters is a variable: name is PARAM_NAME. All parameters are JSON on
# standard input.
set -euo pipefail

# json_string writes a text as JSON does.
json_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\r'/\\r}
  text=${text//$'\t'/\\t}
  printf '"%s"' "$text"
}

printf '{"success": true, "greeting": %s}\n' "$(json_string "hello, $PARAM_NAME")"
