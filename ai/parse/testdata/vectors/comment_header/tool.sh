#!/usr/bin/env bash
# rye:signed:v2:2026-11-20T09:00:00Z:c4e5644f633d2a9a17371cd61d983b1753528c865ad0a1dff714b3f728bfe8eb:Z9V2mCqPYphnM06OKChhzpJxJbjyfMK8GgycGDIESG7urqpXg1NFV1V826XviHmVD0R4nJvcNIUn4DR1uG2BBw:6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062
# Copyright Ann
#
# ---
# version: 1.0.0
# tool_type: bash
# executor_id: rye/core/runtimes/bash
# config_schema:
#   type: object
#   required: [a]
#
#flag: no
# text: |
#   two
#     lines
# ---
# after: this
set -e
# ---
# not: read
# ---
