"""Starts a Python tool on nothing but its own files.

    python -I -S -B -u -X utf8 _launch.py script|function TOOL PROJECT < PARAMETERS

PARAMETERS is a JSON object. As a script, TOOL runs as __main__ with the arguments --params JSON and
--project-path PROJECT, and its standard output is the result. As a function, its execute(params, project_path),
which may be async, is called, what it returns is printed as JSON (None as {}), and all that it prints meanwhile
goes to standard error. Standard input is at its end for both.

Modules come from the directories in RYE_MODULE_PATH, from the standard library, and from RYE_PACKAGE_PATH, where the
packages are that the tool has named; of a tool that names none, from the virtual environment that the interpreter
belongs to, if it lies in PROJECT. In those directories bytecode is not read, since no signature covers it, and no .pth
file. A TOOL beside an __init__.py in one of RYE_MODULE_PATH can also import with leading dots.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader

PACKAGE = "rye_tool"

# The private copy that all files of a call are in: this one is COPY/system/rye/std/tools/rye/core/runtimes/lib/python/.
COPY = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 9))


def shown(text):
    """A text with the project's paths instead of those of the private copy."""
    return text.replace(os.path.join(COPY, "project", ""), os.path.join(".ai", ""))


def show_exception(kind, value, trace):
    """Prints a traceback of the tool's own frames."""
    import traceback

    whole = traceback.TracebackException(kind, value, trace)
    links, seen = [whole], set()
    while links:
        link = links.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        if link.stack is not None:
            link.stack[:] = [frame for frame in link.stack if frame.filename != __file__]
        links += [link.__cause__, link.__context__] + list(getattr(link, "exceptions", None) or [])
    sys.stderr.write(shown("".join(whole.format())))


class Source(SourceFileLoader):
    """Compiles a file from its source, whatever lies in __pycache__."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def inside(path, directory):
    return path == directory or path.startswith(os.path.join(directory, ""))


class Own:
    """Finds the modules in the tool's own directories, and in those of its packages."""

    def __init__(self, directories, packages):
        self.directories = directories
        self.packages = packages

    def hook(self, path):
        if not any(inside(path, d) for d in self.directories + self.packages):
            raise ImportError(path)
        return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (Source, [".py"]))

    def package_file(self, tool):
        """The __init__.py that makes the tool a part of a package, or None."""
        directory = os.path.dirname(tool)
        init = os.path.join(directory, "__init__.py")
        if any(inside(directory, d) for d in self.directories) and os.path.isfile(init):
            return init
        return None


def file_spec(name, path, is_package=False):
    # importlib.util does this as well, and takes longer to import than all of this takes.
    spec = ModuleSpec(name, Source(name, path), origin=path, is_package=is_package)
    spec.has_location = True
    return spec


class Package:
    """Finds the tool's package under a name that nothing else has."""

    def __init__(self, init):
        self.init = init

    def find_spec(self, name, path=None, target=None):
        if name != PACKAGE:
            return None
        spec = file_spec(name, self.init, is_package=True)
        spec.submodule_search_locations.append(os.path.dirname(self.init))
        return spec


def named(variable):
    """The directories in a variable."""
    # Processes that the tool starts have module paths of their own.
    found = [d for d in os.environ.pop(variable, "").split(os.pathsep) if d]
    for d in found:
        if not os.path.isabs(d):
            sys.exit("%s names %r, which is not absolute" % (variable, d))
    return [os.path.abspath(d) for d in found]


def environment_packages(project):
    """The packages of the virtual environment that the interpreter belongs to, if it lies in the project."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    if not inside(home, project) or not os.path.isfile(os.path.join(home, "pyvenv.cfg")):
        return []
    if os.name == "nt":
        return [os.path.join(home, "Lib", "site-packages")]
    threads = "t" if "t" in sys.abiflags else ""
    return [os.path.join(home, "lib", "python%d.%d%s" % (sys.version_info[:2] + (threads,)), "site-packages")]


def load(tool, init, main):
    """Makes the module of the tool and runs it."""
    stem = os.path.splitext(os.path.basename(tool))[0]
    name = PACKAGE + "." + stem if init else PACKAGE
    spec = file_spec(name, tool)
    # As for any script there is no spec: what starts __main__ again, such as multiprocessing, goes by the file.
    module = type(sys)("__main__" if main else name)
    module.__spec__ = None if main else spec
    module.__package__ = PACKAGE if init else None if main else ""
    module.__file__ = tool
    module.__loader__ = spec.loader
    sys.modules[module.__name__] = module
    exec(spec.loader.get_code(name), module.__dict__)
    return module


def run_script(tool, init, project, parameters):
    sys.argv = [tool, "--params", parameters, "--project-path", project]
    load(tool, init, True)


def run_function(tool, init, project, parameters):
    import json

    sys.argv = [tool]
    answer = os.dup(1)
    os.dup2(2, 1)
    parameters = json.loads(parameters)
    execute = getattr(load(tool, init, False), "execute", None)
    if not callable(execute):
        sys.exit("%s has no function execute(params, project_path)" % shown(tool))
    result = execute(parameters, project)
    if hasattr(result, "__await__"):
        import asyncio

        async def wait(pending):
            return await pending

        result = asyncio.run(wait(result))
    text = json.dumps({} if result is None else result, allow_nan=False)
    sys.stdout.flush()
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        out.write(text + "\n")


def main():
    run = {"script": run_script, "function": run_function}.get(sys.argv[1] if len(sys.argv) == 4 else "")
    if run is None:
        sys.exit("usage: _launch.py script|function TOOL PROJECT < PARAMETERS")
    if not (sys.flags.isolated and sys.flags.no_site):
        sys.exit("python has to be started with -I and -S")
    sys.excepthook = show_exception
    tool, project = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    own = Own(named("RYE_MODULE_PATH"), named("RYE_PACKAGE_PATH"))
    sys.path_hooks.insert(0, own.hook)
    sys.path[:] = own.directories + sys.path + (own.packages or environment_packages(project))
    init = own.package_file(tool)
    if init:
        sys.meta_path.append(Package(init))
    run(tool, init, project, sys.stdin.buffer.read().decode("utf-8"))


main()
