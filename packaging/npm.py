"""Writes the npm packages of the program. Usage: npm.py OUT VERSION PLATFORM=BINARY..., for example linux-x64=PATH

Runs in the root of the repository. OUT gets gas-suggestion-cli, which starts the program, and one package per platform with
the program itself. npm installs the package of the machine's platform, because the others do not fit its `os` and `cpu`.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

PLATFORMS = {"linux-x64": "Linux", "linux-arm64": "Linux", "darwin-x64": "macOS", "darwin-arm64": "macOS"}


def pack(out, name, manifest, files):
    with tempfile.TemporaryDirectory() as folder:
        for source, target in files:
            shutil.copy(source, pathlib.Path(folder, target))
        text = json.dumps({"name": name, **manifest}, indent=2) + "\n"
        pathlib.Path(folder, "package.json").write_text(text)
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(out.resolve())]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main():
    out, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    binaries = dict(argument.split("=", 1) for argument in sys.argv[3:])
    # The addresses are those of the client's package.
    client = json.loads(pathlib.Path("clients/js/package.json").read_text())
    common = {
        "version": version,
        "license": "MIT",
        "homepage": client["homepage"],
        "repository": {"type": "git", "url": client["repository"]["url"], "directory": "packaging/npm"},
        "bugs": client["bugs"],
    }
    for platform, binary in binaries.items():
        system, cpu = platform.split("-")
        name = f"gas-suggestion-cli-{platform}"
        description = f"The program of gas-suggestion-cli for {PLATFORMS[platform]} on {cpu}"
        manifest = {"description": description, **common, "os": [system], "cpu": [cpu]}
        # Yarn would leave it in an archive, from which it cannot start.
        manifest |= {"preferUnplugged": True, "files": ["gas-suggestion", "NOTICES"]}
        notices = f"{pathlib.Path(binary).parent}/NOTICES"
        pack(out, name, manifest, [(binary, "gas-suggestion"), ("LICENSE", "LICENSE"), (notices, "NOTICES"), ("packaging/npm/README.md", "README.md")])
    manifest = {
        "description": "Self-hosted gas price suggestions for EVM networks: the service and its command line",
        **common,
        "keywords": ["ethereum", "evm", "gas", "fees", "eip-1559", "oracle"],
        "type": "commonjs",
        "engines": {"node": ">=18"},
        "bin": {"gas-suggestion": "gas-suggestion.js"},
        "files": ["gas-suggestion.js"],
        "optionalDependencies": {f"gas-suggestion-cli-{platform}": version for platform in PLATFORMS},
    }
    pack(out, "gas-suggestion-cli", manifest, [(f"packaging/npm/{name}", name) for name in ("gas-suggestion.js", "README.md")] + [("LICENSE", "LICENSE")])


main()
