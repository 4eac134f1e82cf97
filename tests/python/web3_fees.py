"""Prints the fees that web3.py gives a transaction through the service: `python web3_fees.py ROUTE`."""

import json
import sys

from web3 import HTTPProvider, Web3
from web3._utils.transactions import fill_transaction_defaults

web3 = Web3(HTTPProvider(sys.argv[1]))
account = web3.to_checksum_address("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266")
transaction = fill_transaction_defaults(web3, {"from": account, "to": account, "value": 0})
print(json.dumps({
    "maxPriorityFeePerGas": str(transaction["maxPriorityFeePerGas"]),
    "gasPrice": str(web3.eth.gas_price),
}))
