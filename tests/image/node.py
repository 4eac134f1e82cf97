"""Serves two TLS nodes, of chain 7 (port 8545) and chain 8 (port 8546), and a name server with the name of one."""

import http.server
import json
import socket
import socketserver
import ssl
import sys
import threading

CERTIFICATE, KEY = sys.argv[1:]
NAME = b"\x0bnode-in-dns\x04test\x00"
HISTORY = {
    "oldestBlock": "0x10",
    "baseFeePerGas": ["0x3b9aca00"] * 21,
    "gasUsedRatio": [0.5] * 20,
    "reward": [["0x3b9aca00"]] * 20,
}


def result_for(method, chain_id):
    results = {"eth_chainId": hex(chain_id), "eth_feeHistory": HISTORY, "eth_blockNumber": "0x23"}
    return results.get(method)


def serve(chain_id, port):
    class Node(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = {"jsonrpc": "2.0", "id": call["id"], "result": result_for(call["method"], chain_id)}
            body = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    # HTTPServer would look up its own name.
    server = socketserver.ThreadingTCPServer(("127.0.0.1", port), Node)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()


def serve_dns():
    """Resolves NAME to 127.0.0.1; it has no other records, and other names do not exist."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        query, client = server.recvfrom(4096)
        end = query.index(b"\x00", 12) + 1
        name, kind = query[12:end], query[end : end + 2]
        name_exists = name.lower() == NAME
        found = name_exists and kind == b"\x00\x01"
        flags = b"\x81\x80" if name_exists else b"\x81\x83"
        head = query[:2] + flags + b"\x00\x01" + (b"\x00\x01" if found else b"\x00\x00") + b"\x00" * 4
        address = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01" if found else b""
        server.sendto(head + query[12 : end + 4] + address, client)


serve(7, 8545)
serve(8, 8546)
serve_dns()
