"""{{description}}"""

__version__ = "0.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "{{category}}"
__tool_description__ = "{{description}}"

__risk__ = "read"

INPUT_SCHEMA = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "Name to greet"},
    },
}

OUTPUT_SCHEMA = {
    "type": "object",
    "required": ["success"],
    "properties": {
        "success": {"type": "boolean"},
        "greeting": {"type": "string"},
    },
}


def execute(params, project_path):
    return {"success": True, "greeting": "hello, " + params["name"]}
