"""A mock node of any number of chains: chain N is at /N and has a recorded block of Ethereum every 2 s. Prints the
free loopback port on which it listens. Usage: recorded_node.py [seconds per response]"""

import gzip
import http.server
import json
import sys
import time

with gzip.open("src/demo/recordings/ethereum.json.gz") as file:
    RECORDED = json.load(file)
PAUSE = float(sys.argv[1]) if len(sys.argv) > 1 else 0
# Column of percentile 60: the recorded percentiles are 0, 5, ...
COLUMN = 60 // 5


def history(count):
    head = int(time.time() / 2)
    first = head % (len(RECORDED["gasUsedRatio"]) - count)
    blocks = slice(first, first + count)
    return {
        "oldestBlock": hex(head - count + 1),
        "baseFeePerGas": RECORDED["baseFeePerGas"][first : first + count + 1],
        "gasUsedRatio": RECORDED["gasUsedRatio"][blocks],
        "reward": [[row[COLUMN]] for row in RECORDED["reward"][blocks]],
    }


class Node(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(PAUSE)
        if call["method"] == "eth_chainId":
            result = hex(int(self.path.strip("/")))
        else:
            result = history(int(call["params"][0], 16))
        body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        """Ignores clients that have disconnected."""


server = Server(("127.0.0.1", 0), Node)
print(server.server_port, flush=True)
server.serve_forever()
