"""Middleware for web3.py that sets the fees of transactions from a gas-suggestion service."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from concurrent.futures import Future
from typing import Any, Coroutine, Mapping, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from web3.middleware import Web3Middleware

__all__ = ["gas_suggestion_middleware"]

_log = logging.getLogger(__name__)

# Both fit `/v1/chains` with 900 chains.
_MAX_BODY_BYTES = 1 << 20
_MAX_BRACKETS = 1000
_METHODS = ("eth_sendTransaction", "eth_signTransaction")
_FEES = ("maxFeePerGas", "maxPriorityFeePerGas")


def gas_suggestion_middleware(
    url: str,
    *,
    chain: str | int | None = None,
    tier: str = "medium",
    timeout: float = 2.0,
    max_age: float | None = None,
    accept_stale: bool = False,
    accept_doubt: bool = False,
) -> type[Web3Middleware]:
    """Returns a middleware for `Web3` and `AsyncWeb3`: transactions without fees get the suggestion.

    Without a usable suggestion web3.py sets the fees as it does without the middleware, and the logger
    `gas_suggestion_web3` gets one warning for each chain and outage. One middleware may serve several chains and clients.

    Args:
        url: URL of the service, with its base path if it has one. It ends before `/v1`.
        chain: Key or id of the only chain that may use these fees. A transaction on another chain raises `ValueError` and
            is not sent. Without it the fees are those of the transaction's `chainId`, or else of the node's chain.
        tier: `medium` or `high`.
        timeout: Longest wait for a suggestion, in seconds.
        max_age: Oldest data that is used, in seconds. `None`: the service's own limit.
        accept_stale: Use a suggestion although no newer block has come for too long, or no node responds (`X-Stale`).
        accept_doubt: Use a suggestion that does not follow from the blocks before it (`X-Doubt`).

    Raises:
        ValueError: An option cannot be right.
    """
    service = _Service(url, chain, tier, timeout, max_age, accept_stale, accept_doubt)
    # web3.py takes classes and makes an instance of them for each client.
    return type("GasSuggestionMiddleware", (_Middleware,), {"_service": service})


class _Tier(NamedTuple):
    """Fees in wei per gas. Under legacy pricing both are the gas price."""

    is_legacy: bool
    max_fee: int
    priority_fee: int


class _NoSuggestion(Exception):
    """Why a response has no fees to use."""


class _Middleware(Web3Middleware):
    _service: _Service

    def request_processor(self, method: Any, params: Any) -> Any:
        if _lacks_fees(method, params):
            chain_id = params[0].get("chainId") or self._w3.eth.chain_id
            fees = _run(self._service.tier_or_none(_integer(chain_id)))
            params = _with_fees(params, fees)
        return method, params

    async def async_request_processor(self, method: Any, params: Any) -> Any:
        if _lacks_fees(method, params):
            chain_id = params[0].get("chainId") or await self._w3.eth.chain_id  # type: ignore[misc]
            fees = await self._service.tier_or_none(_integer(chain_id))
            params = _with_fees(params, fees)
        return method, params


class _Service:
    """A service and the rules for its suggestions. All clients of a middleware share it."""

    def __init__(
        self,
        url: str,
        chain: str | int | None,
        tier: str,
        timeout: float,
        max_age: float | None,
        accept_stale: bool,
        accept_doubt: bool,
    ) -> None:
        self._base = _service_url(url)
        self._key, self._id = _chain(chain)
        if tier not in ("medium", "high"):
            raise ValueError("tier must be 'medium' or 'high'")
        if not timeout > 0:
            raise ValueError("timeout must be above 0, in seconds")
        if max_age is not None and not max_age >= 0:
            raise ValueError("max_age must be at least 0, in seconds, or None")
        self._tier, self._timeout, self._max_age = tier, timeout, max_age
        self._accept_stale, self._accept_doubt = accept_stale, accept_doubt
        # Chains whose last request failed.
        self._warned: set[str] = set()

    async def tier_or_none(self, chain_id: int) -> _Tier | None:
        """Requests the fees of a chain. Returns `None`, with a warning, if there are none to use.

        Raises `ValueError` if they are those of another chain.
        """
        self._refuse_others(chain_id)
        chain = self._key or str(chain_id)
        try:
            tier = await asyncio.wait_for(self._request(chain), self._timeout)
        # Whatever a server sends must not stop a payment.
        except Exception as error:
            if chain not in self._warned:
                _log.warning("no gas suggestion, the node sets the fees: %s", self._reason(error))
            self._warned.add(chain)
            return None
        self._warned.discard(chain)
        self._refuse_others(chain_id)
        return tier

    def _refuse_others(self, chain_id: int) -> None:
        if self._id is not None and self._id != chain_id:
            raise ValueError(f"these are the fees of chain {self._id}, not of chain {chain_id}")

    def _reason(self, error: Exception) -> str:
        if isinstance(error, asyncio.TimeoutError):
            return f"timeout: no response within {self._timeout} s"
        text = str(error) if isinstance(error, _NoSuggestion) else f"the service is unreachable: {error}"
        # One line, because parts of it may come from a server.
        return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()[:300]

    async def _request(self, chain: str) -> _Tier:
        # A compressed body could be larger than its limit.
        async with aiohttp.ClientSession(headers={"Accept-Encoding": "identity"}, auto_decompress=False) as session:
            if self._key is not None and self._id is None:
                # A suggestion has no chain id. That of a key is requested once.
                chains, _ = await self._get(session, "chains")
                self._id = _id_of_key(chains, chain)
            body, headers = await self._get(session, f"{chain}/gas-suggestion")
        self._refuse_old_and_doubted(headers)
        return _parse(body, self._tier)

    def _refuse_old_and_doubted(self, headers: Mapping[str, str]) -> None:
        age, doubt = headers.get("Age", ""), headers.get("X-Doubt")
        if headers.get("X-Stale") == "true" and not self._accept_stale:
            raise _NoSuggestion("the suggestion is stale")
        if doubt is not None and not self._accept_doubt:
            raise _NoSuggestion(f"the suggestion is doubted: {doubt}")
        if self._max_age is not None and not (_is_decimal(age) and int(age) <= self._max_age):
            raise _NoSuggestion(f"the suggestion is older than {self._max_age} s: age {age or 'unknown'}")

    async def _get(self, session: aiohttp.ClientSession, path: str) -> tuple[Any, Mapping[str, str]]:
        async with session.get(f"{self._base}/v1/{path}", allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise _NoSuggestion(f"the response has more than {_MAX_BODY_BYTES} bytes")
            text = body.decode("utf-8", "replace")
            if response.status != 200:
                raise _NoSuggestion(f"{response.status}: {_detail(text)}")
            try:
                return _from_json(text), response.headers
            except ValueError:
                raise _NoSuggestion("the response is not JSON") from None


def _detail(text: str) -> str:
    """Returns code and detail of an error of the service, or the text of another server."""
    try:
        problem = _from_json(text)
        return f"{problem['code']}: {problem['detail']}"
    except (ValueError, LookupError, TypeError):
        return text


def _from_json(text: str) -> Any:
    # A dependency of web3.py raises Python's limit of recursions so far that nested JSON would exhaust the stack.
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise ValueError("too many brackets")
    return json.loads(text)


def _parse(body: Any, tier: str) -> _Tier:
    try:
        kind, fees = body["type"], [body[tier][name] for name in ("max_fee_per_gas", "max_priority_fee_per_gas")]
    except (LookupError, TypeError):
        kind, fees = None, []
    if kind not in ("eip-1559", "legacy") or not all(map(_is_decimal, fees)) or int(fees[0]) < int(fees[1]):
        raise _NoSuggestion("the response is not a suggestion")
    return _Tier(kind == "legacy", int(fees[0]), int(fees[1]))


def _id_of_key(chains: Any, key: str) -> int:
    try:
        ids = [entry["chain_id"] for entry in chains if entry["chain"] == key]
    except (LookupError, TypeError):
        ids = []
    if len(ids) != 1 or type(ids[0]) is not int:
        raise _NoSuggestion(f"the service has no chain `{key}`")
    return ids[0]


def _is_decimal(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch("[0-9]{1,78}", text) is not None


def _lacks_fees(method: Any, params: Any) -> bool:
    if method not in _METHODS or not params or not isinstance(params[0], Mapping):
        return False
    return "gasPrice" not in params[0] and not all(name in params[0] for name in _FEES)


def _with_fees(params: Any, fees: _Tier | None) -> Any:
    """Returns the parameters with fees where the transaction has none. Its own are kept."""
    if fees is None:
        return params
    transaction = params[0]
    own_max, own_priority = (transaction.get(name) for name in _FEES)
    max_fee, priority_fee = fees.max_fee, fees.priority_fee
    kind = transaction.get("type")
    # Types 0 and 1 have a gas price on every chain.
    is_legacy = fees.is_legacy if kind is None else _integer(kind) < 2
    if is_legacy and own_max is None and own_priority is None:
        return ({**transaction, "gasPrice": hex(max_fee)}, *params[1:])
    if own_priority is not None:
        # The room for the base fee stays.
        max_fee += _integer(own_priority) - priority_fee
    if own_max is not None:
        priority_fee = min(priority_fee, _integer(own_max))
    amounts = (hex(max_fee), hex(priority_fee))
    return ({**dict(zip(_FEES, amounts)), **transaction}, *params[1:])


def _integer(quantity: Any) -> int:
    return int(quantity, 0) if isinstance(quantity, str) else int(quantity)


def _service_url(url: str) -> str:
    if not re.match("https?://[^/]", url, re.IGNORECASE):
        raise ValueError("url must begin with http:// or https://")
    if re.search(r"^[^/]*//[^/]*@|[\s?#\\]", url):
        raise ValueError("url must have no password, blank, query or fragment")
    # Raises `ValueError` for a port that is no number.
    urlsplit(url).port
    return url.rstrip("/")


def _chain(chain: str | int | None) -> tuple[str | None, int | None]:
    """Returns the chain as a segment of a path, and its id if it is one."""
    if chain is None:
        return None, None
    if isinstance(chain, str) and re.fullmatch(r"[\w-]+", chain, re.ASCII) and chain != "None":
        return chain, int(chain) if _is_decimal(chain) else None
    if type(chain) is int and chain > 0:
        return str(chain), chain
    raise ValueError(f"chain must be a key or a chain id, not {chain!r}")


def _run(request: Coroutine[Any, Any, _Tier | None]) -> _Tier | None:
    """Runs a request to its end in a thread with a loop of its own, because the caller may be within a loop."""
    result: Future[_Tier | None] = Future()

    async def deliver() -> None:
        # The result is here before the loop ends, which may wait for a name server.
        try:
            result.set_result(await request)
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=lambda: asyncio.run(deliver()), daemon=True).start()
    return result.result()
