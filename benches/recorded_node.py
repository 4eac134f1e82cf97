"""A mock node of any number of chains: chain N is at /N and has a recorded block of Ethereum every 2 s. Prints the
free loopback port on which it listens. Usage: recorded_node.py [seconds per response] [seconds per block]"""

import gzip
import json
import sys
import time

import json_rpc_node

with gzip.open("src/extras/demo/recordings/ethereum.json.gz") as file:
    RECORDED = json.load(file)
PAUSE = float(sys.argv[1]) if len(sys.argv) > 1 else 0
BLOCK_TIME = float(sys.argv[2]) if len(sys.argv) > 2 else 2


def newest():
    return int(time.time() / BLOCK_TIME)


def history(count, percentiles):
    head = newest()
    # The recorded percentiles are 0, 5, ...
    columns = [percentile // 5 for percentile in percentiles]
    first = head % (len(RECORDED["gasUsedRatio"]) - count)
    blocks = slice(first, first + count)
    return {
        "oldestBlock": hex(head - count + 1),
        "baseFeePerGas": RECORDED["baseFeePerGas"][first : first + count + 1],
        "gasUsedRatio": RECORDED["gasUsedRatio"][blocks],
        "reward": [[row[column] for column in columns] for row in RECORDED["reward"][blocks]],
    }


def header(tag):
    """Returns what the service reads of a header."""
    number = newest() if tag == "latest" else int(tag, 16)
    return {"number": hex(number), "timestamp": hex(int(number * BLOCK_TIME)), "extraData": "0x", "transactions": []}


def answer(chain, call):
    time.sleep(PAUSE)
    method, params = call["method"], call["params"]
    if method == "eth_chainId":
        return hex(int(chain))
    if method == "eth_getBlockByNumber":
        return header(params[0])
    if method == "eth_feeHistory":
        return history(int(params[0], 16), params[2])
    raise json_rpc_node.Refused(404, {})


server = json_rpc_node.node(answer)
print(server.server_port, flush=True)
server.serve_forever()
