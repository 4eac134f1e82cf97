"""Holds every example of an OpenAPI document against the schema beside it, and prints how many there were."""

import json
import sys

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

URI = "urn:document"

with open(sys.argv[1]) as file:
    document = json.load(file)
registry = Registry().with_resource(URI, DRAFT202012.create_resource(document))


def examples_of(node):
    """The values of a media type, a parameter, a header or a schema."""
    if "example" in node:
        yield node["example"]
    several = node.get("examples", {})
    if isinstance(several, list):
        yield from several
    else:
        for one in several.values():
            name = one.get("$ref", "").removeprefix("#/components/examples/")
            yield (document["components"]["examples"][name] if name else one)["value"]


def walk(node, pointer):
    """All places that have a schema and examples."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from walk(item, f"{pointer}/{index}")
    elif isinstance(node, dict):
        for name, item in node.items():
            part = name.replace("~", "~0").replace("/", "~1")
            # An example is no place for others.
            if name not in ("example", "examples"):
                yield from walk(item, f"{pointer}/{part}")
        if isinstance(node.get("schema"), dict):
            yield f"{pointer}/schema", examples_of(node)
        elif pointer.startswith("/components/schemas/") and isinstance(node.get("examples"), list):
            yield pointer, examples_of(node)


count = 0
for pointer, examples in walk(document, ""):
    validator = Draft202012Validator(
        {"$ref": f"{URI}#{pointer}"},
        registry=registry,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    for example in examples:
        count += 1
        errors = [error.message for error in validator.iter_errors(example)]
        if errors:
            sys.exit(f"{pointer}: {example}: {errors}")
print(count)
