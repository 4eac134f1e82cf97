"""Prints the fees that web3.py estimates: `python estimators.py WINDOWS`.

WINDOWS is a file with a list of windows, written by backtest/src/external_programs.rs. For each window, web3.py fills
in a transaction on a node without eth_maxPriorityFeePerGas, and the script prints a line with its tip and max fee.
"""

import json
import sys
import warnings

from web3 import Web3
from web3._utils.transactions import fill_transaction_defaults
from web3.providers.base import BaseProvider

ZERO = "0x" + "00" * 20


class Node(BaseProvider):
    def __init__(self):
        super().__init__()
        self.window = None

    def make_request(self, method, params):
        window = self.window
        if method == "eth_maxPriorityFeePerGas":
            error = {"code": -32601, "message": "the method does not exist"}
            return {"jsonrpc": "2.0", "id": 1, "error": error}
        if method == "eth_feeHistory":
            count, _, percentiles = params
            assert (count, percentiles) == ("0xa", [5.0]) or (count, percentiles) == (10, [5.0]), params
            result = {
                "oldestBlock": "0x7",
                "reward": [[reward] for reward in window["rewards"]],
                "baseFeePerGas": [window["baseFee"]] * 10 + [window["nextBaseFee"]],
                "gasUsedRatio": window["ratios"],
            }
        else:
            result = {
                "eth_chainId": lambda: "0x1",
                "eth_estimateGas": lambda: "0x5208",
                "eth_getBlockByNumber": lambda: {"number": "0x10", "baseFeePerGas": window["baseFee"]},
            }[method]()
        return {"jsonrpc": "2.0", "id": 1, "result": result}


# web3.py warns about each use of its fallback, which is the path under test.
warnings.simplefilter("ignore")
node = Node()
web3 = Web3(node)
with open(sys.argv[1]) as file:
    windows = json.load(file)
for node.window in windows:
    filled = fill_transaction_defaults(web3, {"to": ZERO, "from": ZERO, "value": 0})
    tip, max_fee = (Web3.to_int(hexstr=fee) if isinstance(fee, str) else fee
                 for fee in (filled["maxPriorityFeePerGas"], filled["maxFeePerGas"]))
    print(tip, max_fee)
