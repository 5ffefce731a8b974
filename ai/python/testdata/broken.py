"""The dictionary below is never closed."""
__version__ = "2.0.0"
SCHEMA = {"type": "object"}

CONFIG = {
    "a": [1, 2],
    "b": {"c": 3},

def main():
    __version__ = "3.0.0"
    return """
"""

__category__ = 'acme/broken'
TIMEOUT = -30  # seconds
RATIO = 1.50
FLAG = (True)
NONE = None
lower = "no"
TUPLE = 1, 2
LIST = ["no"]
ANNOTATED: int = 1
TWO_LINES = ("no"
             "no")
EXPRESSION = "a" + "b"
SCHEMA = load()
TRAILING = "the string is never closed
__tool_type__ = "python"; LAST = 'yes'
