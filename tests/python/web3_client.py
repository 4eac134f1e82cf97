"""Reads a chain with web3.py through the service and compares it with its node: `python web3_client.py ROUTE NODE`.

Prints the version of the client behind ROUTE.
"""

import sys

from web3 import HTTPProvider, Web3
from web3.gas_strategies.time_based import construct_time_based_gas_price_strategy

service, node = (Web3(HTTPProvider(url)) for url in sys.argv[1:])
assert service.is_connected()
assert service.eth.accounts == []
assert service.net.listening
assert service.eth.syncing == node.eth.syncing

head = node.eth.get_block("latest")
account = node.eth.accounts[0]
for name, read in {
    "get_block": lambda eth: eth.get_block(head.hash, full_transactions=True),
    "get_block_transaction_count by hash": lambda eth: eth.get_block_transaction_count(head.hash),
    "get_block_transaction_count by number": lambda eth: eth.get_block_transaction_count(head.number),
    "get_transaction_by_block by hash": lambda eth: eth.get_transaction_by_block(head.hash, 0),
    "get_transaction_by_block by number": lambda eth: eth.get_transaction_by_block(head.number, 0),
    "get_block_receipts": lambda eth: eth.get_block_receipts(head.hash),
    "get_proof": lambda eth: eth.get_proof(account, ["0x" + "00" * 31 + "07"], "latest"),
    "create_access_list": lambda eth: eth.create_access_list({"from": account, "to": account}),
}.items():
    assert read(service.eth) == read(node.eth), name

prices = []
for web3 in (service, node):
    web3.eth.set_gas_price_strategy(construct_time_based_gas_price_strategy(60, sample_size=2))
    prices.append(web3.eth.generate_gas_price())
assert prices[0] == prices[1] and prices[0] > 0, prices

# Anvil and the service agree on a slot without `0x`.
for slot in ("3", "0x3"):
    params = [account, slot, "latest"]
    replies = [web3.provider.make_request("eth_getStorageAt", params).get("result") for web3 in (service, node)]
    assert replies[0] == replies[1] is not None, replies
print(service.client_version)
