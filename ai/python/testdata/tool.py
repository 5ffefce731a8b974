#!/usr/bin/env python3
# rye:signed:v2:2026-11-20T10:00:00Z:0000:AAAA:1111
# -*- coding: utf-8 -*-
"""Fetches a page and writes it down.

__version__ = "9.9.9" in a docstring says nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

__version__ = "1.2.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
__category__ = "acme/web"
__tool_description__ = (
    "Fetches a page "
    'and writes it down.'
)

RISK = "write"
SECRETS = ["acme-token"]
LIMITS: dict[str, int] = {"seconds": 30, "bytes": 0x10_0000, "ratio": -.5}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "What to fetch", "pattern": r"^https?://\S+$"},
        "retries": {"type": "integer", "default": 3, "minimum": 0},
        "strict": {"type": "boolean", "default": False},  # not yet
        "proxy": {"type": ["string", "null"], "default": None},
    },
    "required": ("url",),
}

ENV_CONFIG = {
    "interpreter": {"type": "venv_python", "venv_path": ".venv", "fallback": "python3"},
    "env": {"PYTHONUNBUFFERED": "1", "NAME": f"{sys.platform}"},
}

TIMEOUT = 30
TIMEOUT = float(TIMEOUT)


class Fetcher:
    __version__ = "0.0.0"

    def run(self, url: str) -> str:
        return f"{url!r:>{len(url)}} {self.__class__.__name__}"


def main(params: dict, project_path: str) -> dict:
    CONFIG_SCHEMA["x"] = 1
    text = """
CONFIG = {"a": 1}
"""
    return {"success": True, "path": str(Path(project_path) / "page.html"), "text": text}


if __name__ == "__main__":
    RISK = "read"
    print(json.dumps(main({}, ".")))
