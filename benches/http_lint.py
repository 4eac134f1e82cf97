"""Asks for every route of `demo` in several ways and prints what httplint and REDbot warn of.

Usage: python benches/http_lint.py <program>    benches/http_lint.sh installs what it needs

Prints each kind of warning with the responses that have it. Fails on kinds that ACCEPTED does not name.
"""

import collections
import gzip
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from configparser import ConfigParser

import thor
from httplint import HttpRequestLinter, HttpResponseLinter, levels
from redbot.resource import HttpResource

# Names of notes that stay, and why.
ACCEPTED = {
    "CSP_UNSAFE_INLINE": "only of styles, which the images and Swagger UI have; scripts are from the service or forbidden",
    "IMS_FULL": "a response can change twice within a second, which only its ETag shows",
    "STATUS_BAD_REQUEST": "the request is wrong on purpose",
    "STORE_PUBLIC_UNNECESSARY": "lets shared caches also answer requests with credentials; no price depends on them",
}

PARAMETERS = {"{chain}": "ethereum", "{chain_id}": "1", "{key}": "key"}
QUERIES = {
    "/v1/{chain}/inclusion": "?max_fee_per_gas=9000000000&max_priority_fee_per_gas=1000000000",
    "/v1/{chain}/replacement": "?max_fee_per_gas=9000000000&max_priority_fee_per_gas=1000000000",
    "/api": "?module=gastracker&action=gasoracle",
}
# Files of the pages, other spellings of routes, and errors.
FURTHER = [
    "/base.css", "/dashboard/page.js", "/dashboard/style.css", "/dashboard/uplot/uPlot.min.css", "/docs/initializer.js",
    "/docs/style.css", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/favicon.svg",
    "/v1/ethereum/gas-suggestion/", "/v1/unknown/gas-suggestion", "/v1/ethereum/fee-history?blocks=x", "/unknown",
]
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}).encode()


def start(program):
    """Starts `demo` on free ports. Returns the process and the addresses of both listeners."""
    log = tempfile.TemporaryFile("w+")
    variables = {"GAS_LOG__FORMAT": "json", "GAS_LIMITS__REQUESTS_PER_SECOND_PER_CLIENT": "0"}
    arguments = [program, "demo", "--block-time", "4s", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    process = subprocess.Popen(arguments, env=os.environ | variables, stderr=log)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        log.seek(0)
        found = re.search(r'"address":"([^"]*)","admin":"([^"]*)"', log.read())
        try:
            if found and urllib.request.urlopen(f"http://{found[1]}/readyz").status == 200:
                return process, found[1], found[2]
        except OSError:
            pass
        time.sleep(0.1)
    process.kill()
    sys.exit("the service did not start")


def exchange(address, method, path, headers, body=None):
    """Sends one request. Returns the response, its body and whether that is complete."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, path, body, {"User-Agent": "http_lint", **headers})
    response = connection.getresponse()
    if response.headers.get_content_type() == "text/event-stream":
        content, is_complete = response.read1() if method == "GET" else b"", False
    else:
        content, is_complete = response.read(), True
    connection.close()
    return response, content, is_complete


def lint(address, method, path, headers, response, content, is_complete):
    """Returns httplint's notes on one exchange."""
    request = HttpRequestLinter()
    request.process_request_topline(method.encode(), f"http://{address}{path}".encode(), b"1.1")
    request.process_headers([(b"Host", address.encode()), *((k.encode(), v.encode()) for k, v in headers.items())])
    linter = HttpResponseLinter(start_time=time.time())
    linter.request = request
    linter.is_head_response = method == "HEAD"
    linter.process_response_topline(b"1.1", str(response.status).encode(), response.reason.encode())
    linter.process_headers([(name.encode(), value.encode("latin-1")) for name, value in response.getheaders()])
    linter.feed_content(content)
    linter.finish_content(is_complete)
    return linter.notes


def variants(address, path):
    """Yields a name and httplint's notes for each way of asking for `path`."""
    requests = [
        ("GET", "GET", {}),
        ("GET gzip", "GET", {"Accept-Encoding": "gzip"}),
        ("HEAD", "HEAD", {}),
        ("HEAD gzip", "HEAD", {"Accept-Encoding": "gzip"}),
        ("GET range", "GET", {"Range": "bytes=0-9"}),
        ("GET origin", "GET", {"Origin": "https://a.example"}),
        ("OPTIONS", "OPTIONS", {}),
        ("preflight", "OPTIONS", {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}),
        ("DELETE", "DELETE", {}),
    ]
    seen = {}
    while requests:
        name, method, headers = requests.pop(0)
        response, content, is_complete = exchange(address, method, path, headers)
        seen[name] = response
        yield f"{name} {response.status}", lint(address, method, path, headers, response, content, is_complete)
        if method == "GET" and name in ("GET", "GET gzip"):
            if tag := response.headers["etag"]:
                requests.append((f"{name} if-none-match", "GET", {**headers, "If-None-Match": tag}))
                requests.append((f"{name} HEAD if-none-match", "HEAD", {**headers, "If-None-Match": tag}))
            if date := response.headers["last-modified"]:
                requests.append((f"{name} if-modified-since", "GET", {**headers, "If-Modified-Since": date}))
            if is_complete and response.headers["content-encoding"] == "gzip":
                gzip.decompress(content)
    # RFC 9110, 15.4.5: what a 304 has to repeat of the 200.
    for name, response in seen.items():
        if response.status == 304:
            whole = seen["GET gzip" if "gzip" in name else "GET"]
            for header in ("cache-control", "content-location", "etag", "expires", "vary"):
                if whole.headers[header] and not response.headers[header]:
                    yield f"{name} 304", [f"304 without {header}"]
    both = [seen[name] for name in ("GET", "GET gzip")]
    if both[1].headers["content-encoding"] and both[0].headers["etag"] == both[1].headers["etag"] and both[0].headers["etag"]:
        yield "GET and GET gzip", ["one strong ETag for two representations"]


def redbot(urls):
    """Returns REDbot's notes by URL. It asks for gzip, ranges and 304 by itself."""
    parser = ConfigParser()
    parser.read_dict({"redbot": {"enable_local_access": "True"}})
    rest, found = list(urls), {}

    def check_next():
        if not rest:
            return thor.stop()
        url = rest.pop()
        resource = HttpResource(parser["redbot"])
        resource.set_request(url)

        def end(notes):
            if url not in found:
                found[url] = notes
                deadline.delete()
                check_next()

        deadline = thor.schedule(20, end, ["REDbot does not finish within 20 s"])
        resource.on("check_done", lambda: end(resource.response.notes))
        resource.check()

    thor.schedule(0, check_next)
    thor.run()
    return found


def main():
    process, address, admin = start(sys.argv[1])
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    count = 0

    def record(tool, path, variant, notes):
        for note in notes:
            if isinstance(note, str):
                found["BAD", note, note][path].append(f"{tool} {variant}")
                continue
            record(tool, path, variant, note.subnotes)
            if note.level in (levels.BAD, levels.WARN):
                kind = (note.level.name, type(note).__name__, f"{note.subject}: {note.summary}")
                found[kind][path].append(f"{tool} {variant}")

    try:
        routes = json.load(urllib.request.urlopen(f"http://{address}/v1"))["routes"]
        paths = []
        for route in routes:
            path = route["path"] + QUERIES.get(route["path"], "")
            for name, value in PARAMETERS.items():
                path = path.replace(name, value)
            if route["method"] == "GET":
                paths.append(path)
            else:
                headers = {"Content-Type": "application/json"}
                response, content, _ = exchange(address, "POST", path, headers, CALL)
                record("httplint", path, f"POST {response.status}", lint(address, "POST", path, headers, response, content, True))
        paths += FURTHER
        for listener, path in [(address, path) for path in paths] + [(admin, "/metrics"), (admin, "/readyz")]:
            for variant, notes in variants(listener, path):
                count += 1
                record("httplint", path, variant, notes)
        # REDbot waits for the end of a response, which streams do not have.
        urls = [f"http://{address}{path}" for path in paths if not path.endswith("stream")]
        for url, notes in redbot(urls).items():
            notes = [notes] if isinstance(notes, str) else notes
            record("REDbot", url.removeprefix(f"http://{address}"), "GET", notes)
    finally:
        process.terminate()
        process.wait()

    wrong = 0
    for (level, name, text), where in sorted(found.items()):
        accepted = ACCEPTED.get(name)
        wrong += accepted is None
        print(f"{level} {name}: {text}" + (f"\n    accepted: {accepted}" if accepted else ""))
        for path, names in where.items():
            print(f"    {path}: {', '.join(names)}")
    print(f"{count} responses of {len(paths) + 3} routes; {len(found)} kinds of notes, {wrong} not accepted")
    sys.exit(bool(wrong))


main()
