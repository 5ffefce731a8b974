"""Starts a program of a Python package on nothing but the pinned packages.

    python3 -I -S -B -u -X utf8 start.py PACKAGE PROGRAM [ARGUMENT...]

PROGRAM is a console script of PACKAGE, as its entry_points.txt has it: the function of a module, which is called and
whose result is the exit status. Modules come from the standard library and from RYE_PACKAGE_PATH, where the unpacked
wheels are; no .pth file is read.
"""

import os
import re
import sys


def normal(name):
    """A name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(package, program):
    """The entry point of a program."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = [e for e in distribution(package).entry_points if e.group == "console_scripts"]
    except PackageNotFoundError:
        sys.exit("the package %s is not among the pinned ones" % package)
    for same in (lambda name: name == program, lambda name: normal(name) == normal(program)):
        for point in points:
            if same(point.name):
                return point
    names = ", ".join(sorted(point.name for point in points)) or "none"
    sys.exit("the package %s has no program %s; its programs: %s" % (package, program, names))


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: start.py PACKAGE PROGRAM [ARGUMENT...]")
    if not (sys.flags.isolated and sys.flags.no_site):
        sys.exit("python has to be started with -I and -S")
    # Processes that the program starts have module paths of their own.
    packages = os.environ.pop("RYE_PACKAGE_PATH", "")
    if not os.path.isabs(packages):
        sys.exit("RYE_PACKAGE_PATH is %r, which is not absolute" % packages)
    sys.path.append(packages)
    point = find(sys.argv[1], sys.argv[2])
    sys.argv[:] = sys.argv[2:]
    sys.exit(point.load()())


if __name__ == "__main__":
    main()
