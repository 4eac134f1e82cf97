import asyncio
import itertools
import re
import time

import pytest
from conftest import GWEI, ROOT, Service, response, suggestion
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3.middleware import SignAndSendRawMiddlewareBuilder

from gas_suggestion_web3 import gas_suggestion_middleware

# The first account of anvil.
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
TRANSFER = {"from": SENDER, "to": SENDER, "value": 1}
# Max fee and priority fee of the medium tier, in gwei.
SUGGESTED = (22, 20)


def connect(node, *middlewares):
    web3 = Web3(HTTPProvider(node))
    web3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(KEY), layer=0)
    for middleware in middlewares:
        web3.middleware_onion.add(middleware)
    return web3


def pay(web3, **fields):
    """Sends a transfer, and returns it once it is in a block."""
    hash = web3.eth.send_transaction({**TRANSFER, **fields})
    assert web3.eth.wait_for_transaction_receipt(hash, timeout=10)["status"] == 1
    return web3.eth.get_transaction(hash)


async def pay_async(node, *middlewares):
    web3 = AsyncWeb3(AsyncHTTPProvider(node))
    web3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(KEY), layer=0)
    for middleware in middlewares:
        web3.middleware_onion.add(middleware)
    try:
        hash = await web3.eth.send_transaction(TRANSFER)
        assert (await web3.eth.wait_for_transaction_receipt(hash, timeout=10))["status"] == 1
        return await web3.eth.get_transaction(hash)
    finally:
        await web3.provider.disconnect()


def fees(transaction):
    """Max fee and priority fee in gwei."""
    return transaction["maxFeePerGas"] / GWEI, transaction["maxPriorityFeePerGas"] / GWEI


@pytest.mark.parametrize("tier, expected", [("medium", SUGGESTED), ("high", (26, 24))])
def test_transactions_are_mined_with_the_suggested_fees(node, service, tier, expected):
    middleware = gas_suggestion_middleware(service.url + "/gas/", tier=tier)
    assert fees(pay(connect(node, middleware))) == expected
    assert fees(asyncio.run(pay_async(node, middleware))) == expected
    assert service.paths == ["/gas/v1/2020/gas-suggestion"] * 2


def test_sync_clients_work_within_a_running_loop(node, service):
    async def main():
        return pay(connect(node, gas_suggestion_middleware(service.url)))

    assert fees(asyncio.run(main())) == SUGGESTED


def test_legacy_pricing_sets_a_gas_price(node, service):
    web3 = connect(node, gas_suggestion_middleware(service.url))
    service.reply = suggestion(type="legacy")
    assert (transaction := pay(web3))["gasPrice"] == 9 * GWEI and transaction["type"] == 0
    # A dynamic transaction stays one.
    assert fees(pay(web3, type=2)) == (9, 9)
    service.reply = suggestion()
    assert (transaction := pay(web3, type=1, accessList=[]))["gasPrice"] == 22 * GWEI and transaction["type"] == 1


def test_fees_of_the_transaction_are_kept(node, service):
    web3 = connect(node, gas_suggestion_middleware(service.url))
    assert fees(pay(web3, maxPriorityFeePerGas=30 * GWEI)) == (32, 30)
    assert fees(pay(web3, maxFeePerGas=12 * GWEI)) == (12, 12)
    assert len(service.paths) == 2
    assert fees(pay(web3, maxFeePerGas=12 * GWEI, maxPriorityFeePerGas=GWEI)) == (12, 1)
    assert pay(web3, gasPrice=11 * GWEI)["gasPrice"] == 11 * GWEI
    web3.eth.estimate_gas(TRANSFER)
    assert len(service.paths) == 2


def falls_back(node, service, caplog, middleware):
    """Returns the only warning about two payments with the fees of web3.py, and one when the service fails again."""
    web3, reply = connect(node, middleware), service.reply
    caplog.clear()
    for paid in (pay(web3), asyncio.run(pay_async(node, middleware))):
        assert fees(paid) != SUGGESTED
    assert [(record.name, record.levelname) for record in caplog.records] == [("gas_suggestion_web3", "WARNING")]
    message = caplog.messages[0]
    service.reply = suggestion()
    assert fees(pay(web3)) == SUGGESTED
    service.reply = reply
    pay(web3)
    assert caplog.messages[1:] == [message]
    prefix = "no gas suggestion, the node sets the fees: "
    assert message.startswith(prefix)
    return message[len(prefix) :]


PROBLEM = {"code": "no_data", "detail": "no fees\x1b[2J\nare known"}


@pytest.mark.parametrize(
    "reply, options, warning",
    [
        (suggestion("Age: 9\r\nX-Stale: true\r\n"), {}, "the suggestion is stale"),
        (suggestion("X-Doubt: head_leap\r\n"), {}, "the suggestion is doubted: head_leap"),
        (suggestion("Age: 9\r\n"), {"max_age": 8.5}, "the suggestion is older than 8.5 s: age 9"),
        (suggestion(""), {"max_age": 8}, "the suggestion is older than 8 s: age unknown"),
        (response(PROBLEM, status="503 Service Unavailable"), {}, "503: no_data: no fees [2J are known"),
        (response("not found", status="404 Not Found"), {}, '404: "not found"'),
        (suggestion(medium={"max_fee_per_gas": "-1", "max_priority_fee_per_gas": "-1"}), {}, "the response is not a suggestion"),
        (suggestion(medium={"max_fee_per_gas": "1", "max_priority_fee_per_gas": "2"}), {}, "the response is not a suggestion"),
        (response([]), {}, "the response is not a suggestion"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, {}, "the response is not JSON"),
    ],
)
def test_unusable_suggestions_leave_the_fees_to_web3(node, service, caplog, reply, options, warning):
    service.reply = reply
    assert falls_back(node, service, caplog, gas_suggestion_middleware(service.url, **options)) == warning


def test_stale_and_doubted_suggestions_are_used_if_accepted(node, service, caplog):
    service.reply = suggestion("Age: 8\r\nX-Stale: true\r\nX-Doubt: head_leap\r\n")
    middleware = gas_suggestion_middleware(service.url, max_age=8, accept_stale=True, accept_doubt=True)
    assert fees(pay(connect(node, middleware))) == SUGGESTED
    assert not caplog.records


def test_a_stopped_service_leaves_the_fees_to_web3(node, service, caplog):
    web3 = connect(node, gas_suggestion_middleware(service.url))
    assert fees(pay(web3)) == SUGGESTED
    service.stop()
    assert fees(pay(web3)) != SUGGESTED
    pay(web3)
    assert re.fullmatch("no gas suggestion, the node sets the fees: the service is unreachable: Cannot connect to .*", *caplog.messages)


def endless(part):
    return itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(part))


def drip(part):
    yield b"HTTP/1.1 200 OK\r\n"
    for _ in range(100):
        yield part
        time.sleep(0.05)


@pytest.mark.parametrize(
    "reply, warning",
    [
        (lambda: itertools.chain([b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n"], itertools.repeat(b"0" * 100_000, 2000)), "bytes"),
        (lambda: endless(b"\r\n" + b"0" * 100_000), "bytes"),
        (lambda: endless(b"X-A: " + b"a" * 1000), "unreachable"),
        (lambda: endless(b"X-A: a\r\n" * 100), "unreachable|timeout"),
        (lambda: drip(b"X-A: a\r\n"), "timeout"),
        (lambda: drip(b""), "timeout"),
    ],
)
def test_hostile_responses_cost_little(node, service, caplog, reply, warning):
    web3 = connect(node, gas_suggestion_middleware(service.url, timeout=0.5))
    service.reply = lambda path: reply()
    start = time.monotonic()
    assert fees(pay(web3)) != SUGGESTED
    assert time.monotonic() - start < 2
    assert re.search(warning, *caplog.messages), caplog.messages
    # The buffers of the kernel are a part of it.
    assert service.sent < 20_000_000


def test_redirects_are_not_followed(node, service, caplog):
    other = Service()
    service.reply = response("", f"Location: {other.url}/v1/2020/gas-suggestion\r\n", "302 Found")
    assert falls_back(node, service, caplog, gas_suggestion_middleware(service.url)).startswith("302: ")
    assert other.paths == []
    other.stop()


def chains(**ids):
    body = [{"chain": key, "chain_id": id} for key, id in ids.items()]
    return lambda path: response(body) if path == "/v1/chains" else suggestion()


def test_fees_of_another_chain_are_refused(node, service):
    service.reply = chains(ethereum=1, ronin=2020)
    nonce = connect(node).eth.get_transaction_count(SENDER)
    for options, requests in (({"chain": "ethereum"}, 2), ({"chain": "1"}, 0), ({"chain": 1}, 0)):
        service.paths.clear()
        middleware = gas_suggestion_middleware(service.url, **options)
        with pytest.raises(ValueError, match="^these are the fees of chain 1, not of chain 2020$"):
            pay(connect(node, middleware))
        with pytest.raises(ValueError, match="^these are the fees of chain 1, not of chain 2020$"):
            asyncio.run(pay_async(node, middleware))
        assert len(service.paths) == requests
    with pytest.raises(ValueError, match="^these are the fees of chain 2020, not of chain 5$"):
        pay(connect(node, gas_suggestion_middleware(service.url, chain=2020)), chainId=5)
    assert connect(node).eth.get_transaction_count(SENDER) == nonce


def test_the_id_of_a_key_is_requested_once(node, service, caplog):
    service.reply = chains(ethereum=1, ronin=2020)
    web3 = connect(node, gas_suggestion_middleware(service.url, chain="ronin"))
    assert fees(pay(web3)) == fees(pay(web3)) == SUGGESTED
    assert service.paths == ["/v1/chains", "/v1/ronin/gas-suggestion", "/v1/ronin/gas-suggestion"]
    assert fees(pay(connect(node, gas_suggestion_middleware(service.url, chain="base")))) != SUGGESTED
    assert caplog.messages == ["no gas suggestion, the node sets the fees: the service has no chain `base`"]


@pytest.mark.parametrize(
    "options",
    [
        {"url": "localhost:8080"},
        {"url": "http://user:password@localhost"},
        {"url": "http://localhost?key=1"},
        {"url": "http://localhost:port"},
        {"chain": ""},
        {"chain": "../admin"},
        {"chain": -1},
        {"chain": "None"},
        {"tier": "low"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"max_age": -1},
    ],
)
def test_options_that_cannot_be_right_are_refused_at_once(options):
    with pytest.raises(ValueError):
        gas_suggestion_middleware(**{"url": "http://localhost", **options})


@pytest.mark.parametrize("page", ["clients/python/README.md", "docs/in-your-language.md"])
def test_the_programs_of_the_documentation_run(node, service, page, monkeypatch, capsys):
    for name, value in {"PRIVATE_KEY": KEY, "SERVICE": service.url, "RPC_URL": node}.items():
        monkeypatch.setenv(name, value)
    programs = re.findall(r"```py\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert programs
    for program in programs:
        program = program.replace("http://localhost:8080", service.url).replace("https://api.roninchain.com/rpc", node)
        exec(compile(program, page, "exec"), {"__name__": "__main__"})
        assert re.fullmatch(r"0x\w{64} is in block \d+, with 22 gwei at most\n", capsys.readouterr().out)
