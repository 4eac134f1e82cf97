"""Writes the wheel of the program. Usage: wheel.py OUT VERSION ARCHITECTURE BINARY

Runs in the root of the repository. The wheel has no Python code: pip, pipx and uv put the program itself into the folder of
scripts. It is linked statically, so it fits systems with glibc and with musl.
"""

import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

OUT, VERSION, ARCHITECTURE, BINARY = sys.argv[1:]
TAGS = [f"{system}_{ARCHITECTURE}" for system in ("manylinux2014", "manylinux_2_17", "musllinux_1_1")]
# Zip archives begin in 1980. The same input gives the same wheel.
TIME = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]


def readme():
    """Returns README.md without its picture and with links only to addresses: PyPI has no files beside it."""
    text = pathlib.Path("README.md").read_text()
    text = re.sub(r"<picture>.*?</picture>\n\n", "", text, flags=re.DOTALL)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", text)


def main():
    manifest = pathlib.Path("Cargo.toml").read_text()
    value = lambda key: re.search(rf'^{key} = "(.*)"$', manifest, re.MULTILINE)[1]
    name = f"gas_suggestion-{VERSION}"
    metadata = (
        f"Metadata-Version: 2.4\nName: gas-suggestion\nVersion: {VERSION}\nSummary: {value('description')}\n"
        "License-Expression: MIT\nLicense-File: LICENSE\nLicense-File: NOTICES\n"
        "Keywords: ethereum,evm,gas,fees,eip-1559,oracle\nRequires-Python: >=3.8\n"
        f"Project-URL: Homepage, {value('homepage')}\nProject-URL: Repository, {value('repository')}\n"
        f"Project-URL: Issues, {value('repository')}/issues\n"
        "Classifier: Operating System :: POSIX :: Linux\nClassifier: Programming Language :: Rust\n"
        f"Description-Content-Type: text/markdown\n\n{readme()}"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: packaging/wheel.py\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: py3-none-{tag}\n" for tag in TAGS)
    read = lambda path: pathlib.Path(path).read_bytes()
    info = f"{name}.dist-info"
    files = [
        (f"{name}.data/scripts/gas-suggestion", read(BINARY), 0o755),
        (f"{info}/licenses/LICENSE", read("LICENSE"), 0o644),
        (f"{info}/licenses/NOTICES", read(f"{pathlib.Path(BINARY).parent}/NOTICES"), 0o644),
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    with zipfile.ZipFile(f"{OUT}/{name}-py3-none-{'.'.join(TAGS)}.whl", "w") as archive:
        for path, data, mode in files:
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


main()
