"""Serves the npm packages of a folder as a registry does. Usage: registry.py FOLDER

Prints the port. A name that is not in the folder is 404, as for a package that is not published.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile
import urllib.parse


def read(path):
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("package/package.json"))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    return manifest, integrity


PATHS = {path.name: path for path in pathlib.Path(sys.argv[1]).glob("*.tgz")}
PACKAGES = {name: read(path) for name, path in PATHS.items()}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = urllib.parse.unquote(self.path.lstrip("/"))
        if name in PATHS:
            return self.send(200, PATHS[name].read_bytes())
        for file, (manifest, integrity) in PACKAGES.items():
            if manifest["name"] == name:
                tarball = f"http://127.0.0.1:{self.server.server_port}/{file}"
                version = manifest | {"dist": {"tarball": tarball, "integrity": integrity}}
                tags = {"latest": manifest["version"]}
                document = {"name": name, "dist-tags": tags, "versions": {manifest["version"]: version}}
                return self.send(200, json.dumps(document).encode())
        self.send(404, b'{"error":"not found"}')

    def send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
