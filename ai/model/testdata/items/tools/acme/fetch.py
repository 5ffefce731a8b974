#!/usr/bin/env python3
"""Fetch a page and say what it holds."""

__version__ = "1.2.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "acme"
__tool_description__ = (
    "Fetch a page, "
    "with retries"
)
__all__ = ["execute"]

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "Where to begin"},
        "timeout": {"type": ["integer", "null"], "minimum": 1, "maximum": 600, "default": 30},
    },
    "required": ["url"],
}
ENV_CONFIG = {"interpreter": {"type": "venv_python", "var": "RYE_PYTHON", "fallback": "python3"}, "env": {"LANG": "C"}}
__risk__ = "write"
__network__ = ["example.com", "api.example.com:443"]
__secrets__ = ["acme-token"]
__tags__ = ("web", "fetch")
__permissions__ = ["rye.execute.tool.acme.parse", "rye.search.tool.acme.*"]
__limits__ = {"duration_seconds": 30, "max_spend": "1.50", "memory_mib": 512, "max_open_files": "64"}
__files__ = {"read": ["docs", "docs/api", ".ai/knowledge"], "write": (".ai/outputs/fetch", "docs/pages")}
FILES = 3
_private = 1
retries = 3


def execute(params, project_path):
    return {"success": True}
