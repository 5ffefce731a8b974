#!/usr/bin/env bash
# ---
# version: 0.1.0
# tool_type: shell
# executor_id: rye/core/runtimes/bash_runtime
# category: acme
# description: List files
# pure: true
# ---
ls "$1"
