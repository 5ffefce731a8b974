"""Prints as JSON what CPython's ast finds in files, one line for each: the peer of this package's tests.

Paths come on standard input. A line is {"path", "error"} for a file that CPython refuses, {"path", "coding"} for one
that isn't UTF-8, else {"path", "names": [[name, value], …], "doc"}. A value is a list of its kind and what it holds.
"""
import ast
import io
import json
import sys
import tokenize
import warnings

warnings.simplefilter("ignore")
sys.setrecursionlimit(20000)


class Odd(Exception):
    """A literal of Python's that is no value for JSON, or is past the limits of the Go reader."""


def texts(s):
    try:
        s.encode("utf-8")
    except UnicodeEncodeError:
        raise Odd from None
    return s


def constant(v):
    if v is None:
        return ["null"]
    if isinstance(v, bool):
        return ["boolean", "true" if v else "false"]
    if isinstance(v, int):
        return ["integer", str(v)]
    if isinstance(v, float):
        if v in (float("inf"), float("-inf")):
            raise Odd
        return ["number", repr(v)]
    if isinstance(v, str):
        return ["string", texts(v)]
    raise Odd  # bytes, complex, an ellipsis


def convert(node):
    if isinstance(node, ast.Constant):
        return constant(node.value)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return ["array", [convert(e) for e in node.elts]]
    if isinstance(node, ast.Call):  # set()
        return ["array", []]
    if isinstance(node, ast.Dict):
        out = {}
        for k, v in zip(node.keys, node.values):
            key = convert(k)
            if key[0] != "string":
                raise Odd
            out[key[1]] = convert(v)
        return ["object", [[k, v] for k, v in out.items()]]
    if isinstance(node, ast.UnaryOp):
        return constant(ast.literal_eval(node))
    if isinstance(node, ast.BinOp):  # 1+2j
        raise Odd
    raise AssertionError(ast.dump(node))


def named_escape(source, node):
    if "\\N{" not in source:
        return False
    part = ast.get_source_segment(source, node)
    for tok in tokenize.generate_tokens(io.StringIO("(" + part + ")").readline):
        if tok.type != tokenize.STRING:
            continue
        prefix = tok.string[: min(tok.string.index(q) for q in "'\"" if q in tok.string)]
        if "r" in prefix.lower():
            continue
        if "\\N{" in tok.string.replace("\\\\", ""):
            return True
    return False


GONE = object()


def value(source, node):
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return GONE
    try:
        found = convert(node)
    except Odd:
        return GONE
    return GONE if named_escape(source, node) else found


def stored(targets):
    for t in targets:
        if isinstance(t, ast.Name):
            yield t.id
        elif isinstance(t, (ast.Tuple, ast.List)):
            yield from stored(t.elts)
        elif isinstance(t, ast.Starred):
            yield from stored([t.value])


def bindings(source, node):
    if isinstance(node, ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, value(source, node.value)
        else:
            yield from ((n, GONE) for n in stored(node.targets))
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None and isinstance(node.target, ast.Name):
            yield node.target.id, value(source, node.value)
    elif isinstance(node, ast.AugAssign):
        yield from ((n, GONE) for n in stored([node.target]))
    elif isinstance(node, ast.Delete):
        yield from ((n, GONE) for n in stored(node.targets))
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, GONE
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((a.asname or a.name.split(".")[0], GONE) for a in node.names)
    elif isinstance(node, getattr(ast, "TypeAlias", ())):
        yield node.name.id, GONE



def read(path):
    with open(path, "rb") as f:
        data = f.read()
    try:
        coding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        if coding not in ("utf-8", "utf-8-sig"):
            return {"coding": coding}
        # In comments CPython doesn't look at the bytes.
        source = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        tree = ast.parse(data)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as e:
        return {"error": str(e)}
    names = {}
    for node in tree.body:
        for name, v in bindings(source, node):
            if v is not GONE or name in names:
                names[name] = v
    doc = ""
    if tree.body and isinstance(tree.body[0], ast.Expr):
        v = value(source, tree.body[0].value)
        if v is not GONE and v[0] == "string":
            doc = v[1].strip()
    return {"names": [[n, v] for n, v in names.items() if v is not GONE], "doc": doc}


for line in sys.stdin:
    path = line.rstrip("\n")
    print(json.dumps({"path": path, **read(path)}), flush=True)
