#!/usr/bin/env bash
# ---
# version: 0.1.0
# tool_type: shell
# executor_id: rye/core/runtimes/bash_runtime
# category: acme
# description: List files
# pure: true
# files: {read: [., src]}
# limits: {processes: 4, max_written_mib: 1}
# ---
ls "$1"
