"""Packs the Helm chart. Usage: chart.py OUT VERSION IMAGE TAG

Runs in the root of the repository. IMAGE and TAG become the defaults of the chart. Needs helm-python-sdk.
"""

import pathlib
import re
import shutil
import sys
import tempfile

import helm_python as helm

OUT, VERSION, IMAGE, TAG = sys.argv[1:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        chart = pathlib.Path(folder, "gas-suggestion")
        # The rules and the dashboard are links to the files in config.
        shutil.copytree("packaging/helm/gas-suggestion", chart)
        values = (chart / "values.yaml").read_text()
        values, images = re.subn(r"(?m)^  repository: .*$", f"  repository: {IMAGE}", values)
        values, tags = re.subn(r'(?m)^  tag: .*$', f'  tag: "{TAG}"', values)
        assert (images, tags) == (1, 1), (images, tags)
        (chart / "values.yaml").write_text(values)
        helm.package(str(chart), destination=OUT, version=VERSION, app_version=VERSION)


main()
