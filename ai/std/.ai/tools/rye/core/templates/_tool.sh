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
#     name: {type: string, description: Whom to greet}
# output_schema:
#   type: object
#   required: [success]
#   properties:
#     success: {type: boolean}
#     greeting: {type: string}
# ---

# The arguments are --params JSON --project-path DIR. Without a JSON reader such as jq a script can still ask which
# words are in it; never put it into a command line that is read again, as eval does.
set -euo pipefail

params=$2
greeting="hello"
case $params in
  *'"name"'*) greeting="hello, you" ;;
esac

printf '{"success": true, "greeting": "%s"}\n' "$greeting"
