"""Reads JSON lines {"yaml": text} and {"xml": text}; writes for each what PyYAML or xml.etree make of it."""
import json
import sys
import xml.etree.ElementTree as ET

import yaml


class Loader(yaml.SafeLoader):
    """SafeLoader, which tells of scalars how they are written, and of keys that stand twice."""


def scalar(kind):
    def construct(loader, node):
        made = {
            "int": loader.construct_yaml_int,
            "float": loader.construct_yaml_float,
            "bool": loader.construct_yaml_bool,
        }
        value = made[kind](node) if kind in made else None
        return [kind, node.value, repr(value)]

    return construct


def mapping(loader, node):
    pairs = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            raise yaml.YAMLError("a key is no text")
        if any(key.value == k for k, _ in pairs):
            raise yaml.YAMLError("a key stands twice")
        pairs.append([key.value, loader.construct_object(value, deep=True)])
    return ["map", pairs]


def sequence(loader, node):
    return ["list", [loader.construct_object(item, deep=True) for item in node.value]]


for tag in ("int", "float", "bool", "null", "timestamp"):
    Loader.add_constructor("tag:yaml.org,2002:" + tag, scalar(tag))
Loader.add_constructor("tag:yaml.org,2002:str", lambda _, node: ["str", node.value])
Loader.add_constructor("tag:yaml.org,2002:map", mapping)
Loader.add_constructor("tag:yaml.org,2002:seq", sequence)


def element(e):
    own = (e.text or "") + "".join(kid.tail or "" for kid in e)
    return [e.tag, [[k, v] for k, v in e.attrib.items()], own, [element(kid) for kid in e]]


for line in sys.stdin:
    given = json.loads(line)
    try:
        if "yaml" in given:
            found = yaml.load(given["yaml"], Loader)
        else:
            found = element(ET.fromstring(given["xml"]))
        print(json.dumps({"found": found}))
    except (yaml.YAMLError, ET.ParseError, ValueError) as e:
        print(json.dumps({"error": str(e)}))
