//! Addresses in requests.

use std::borrow::Cow;

use alloy_primitives::Address;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::config::address::{AddressError, parse};

/// An address. Mixed case must be a valid checksum (EIP-55).
#[derive(Debug, Deserialize, ToSchema)]
#[serde(try_from = "Cow<'_, str>")]
#[schema(
    as = Address,
    value_type = String,
    pattern = "^0x[0-9a-fA-F]{40}$",
    format = "address",
    examples("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
)]
pub(crate) struct AddressText(Address);

impl TryFrom<Cow<'_, str>> for AddressText {
    type Error = AddressError;

    fn try_from(text: Cow<'_, str>) -> Result<Self, AddressError> {
        parse(&text).map(Self)
    }
}

impl From<AddressText> for Address {
    fn from(text: AddressText) -> Self {
        text.0
    }
}
