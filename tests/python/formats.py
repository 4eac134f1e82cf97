"""Schemathesis strategies for the formats in the OpenAPI document.

JSON Schema cannot express the checksum of an address, the length of a text in bytes, or a number of 256 bits.
"""

import schemathesis
from hypothesis import strategies as st

# Addresses in mixed case need a valid checksum, so generated ones have one case.
addresses = st.one_of(
    st.text("0123456789abcdef", min_size=40, max_size=40),
    st.text("0123456789ABCDEF", min_size=40, max_size=40),
    # Examples of EIP-55.
    st.sampled_from([
        "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "dbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "D1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    ]),
).map("0x{}".format)

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=31)
rights = st.one_of(
    st.text("0123456789abcdefABCDEF", min_size=64, max_size=64).map("0x{}".format),
    words.filter(lambda word: len(word.encode()) <= 31 and not word.startswith("0x")),
)

schemathesis.openapi.format("address", addresses)
schemathesis.openapi.format("rights", rights)
schemathesis.openapi.format("uint256", st.integers(0, 2**256 - 1).map(str))
