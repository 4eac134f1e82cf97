"""Validates every example of an OpenAPI document against its schema, and prints the number of examples."""

import json
import sys

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

URI = "urn:document"

with open(sys.argv[1]) as file:
    document = json.load(file)
registry = Registry().with_resource(URI, DRAFT202012.create_resource(document))


def schema_examples(node):
    """Yields the examples of a media type, parameter, header or schema."""
    if "example" in node:
        yield node["example"]
    several = node.get("examples", {})
    if isinstance(several, list):
        yield from several
    else:
        for one in several.values():
            yield one["value"]


def walk(node, pointer):
    """Yields the JSON pointer of every schema, with its examples."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from walk(item, f"{pointer}/{index}")
    elif isinstance(node, dict):
        for name, item in node.items():
            part = name.replace("~", "~0").replace("/", "~1")
            # Examples are data, not schemas.
            if name not in ("example", "examples"):
                yield from walk(item, f"{pointer}/{part}")
        if isinstance(node.get("schema"), dict):
            yield f"{pointer}/schema", schema_examples(node)
        elif pointer.startswith("/components/schemas/") and isinstance(node.get("examples"), list):
            yield pointer, schema_examples(node)


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
