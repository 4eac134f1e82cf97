//! The suggestion in the formats of other gas services, so that their clients need only another URL.
//!
//! Pure: a [`Quote`] in, JSON out. The store makes all documents of a chain when it publishes a suggestion, so that a
//! request costs no calculation, and so that a document is as fresh as the suggestion.
//!
//! Prices of one number are what a transaction would pay in the next block. Max fees are those of the tiers. Some formats
//! have members that the service cannot know, such as a waiting time. They hold counts over the newest blocks; see
//! [`quote`].

mod blocknative;
mod etherscan;
mod flat;
mod gwei;
mod metamask;
mod polygon;
mod quote;
mod rrelayer;

use axum::http::HeaderValue;
use bytes::Bytes;
use enum_map::{Enum, EnumMap};
use serde::Serialize;

pub(crate) use blocknative::{BlockPrices, SupportedChain};
pub(crate) use etherscan::{ErrorBody as EtherscanError, GasOracle, ProxyResult};
pub(crate) use flat::FlatPrices;
pub(crate) use metamask::{GasPrices, SuggestedGasFees};
pub(crate) use polygon::GasStation;
pub(crate) use quote::{Quote, Ranges};
pub(crate) use rrelayer::GasEstimate;

use crate::etag;

/// A format of another gas service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum Format {
    /// MetaMask's and Infura's gas API.
    Metamask,
    /// Etherscan's gas oracle, and its `eth_gasPrice` by GET.
    Etherscan,
    /// Etherscan's members with the numbers that Safe needs.
    Safe,
    /// Blocknative's block prices.
    Blocknative,
    /// The custom gas provider of rrelayer.
    Rrelayer,
    /// Polygon's gas station, version 2.
    Polygon,
    /// One object of prices by speed.
    Flat,
}

/// A set of formats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Formats(EnumMap<Format, bool>);

impl Formats {
    /// Returns all formats.
    #[must_use]
    pub fn all() -> Self {
        Self(EnumMap::from_fn(|_| true))
    }

    /// Adds a format.
    pub fn insert(&mut self, format: Format) {
        self.0[format] = true;
    }

    /// Returns true if the set has the format.
    #[must_use]
    pub fn has(self, format: Format) -> bool {
        self.0[format]
    }
}

/// A response body of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum Document {
    MetamaskFees,
    MetamaskPrices,
    EtherscanOracle,
    EtherscanGasPrice,
    EtherscanBlock,
    Safe,
    Blocknative,
    Rrelayer,
    Polygon,
    Flat,
}

impl Document {
    fn format(self) -> Format {
        match self {
            Self::MetamaskFees | Self::MetamaskPrices => Format::Metamask,
            Self::EtherscanOracle | Self::EtherscanGasPrice | Self::EtherscanBlock => {
                Format::Etherscan
            }
            Self::Safe => Format::Safe,
            Self::Blocknative => Format::Blocknative,
            Self::Rrelayer => Format::Rrelayer,
            Self::Polygon => Format::Polygon,
            Self::Flat => Format::Flat,
        }
    }

    /// Returns the JSON text; `None`: the format demands what was not observed.
    fn serialise(self, quote: &Quote) -> Option<Vec<u8>> {
        Some(match self {
            Self::MetamaskFees => to_json(&SuggestedGasFees::new(quote)),
            Self::MetamaskPrices => to_json(&GasPrices::new(quote)),
            Self::EtherscanOracle => to_json(&GasOracle::new(quote)),
            Self::EtherscanGasPrice => to_json(&ProxyResult::gas_price(quote)),
            Self::EtherscanBlock => to_json(&ProxyResult::newest_block(quote)),
            Self::Safe => to_json(&GasOracle::for_safe(quote)),
            Self::Blocknative => to_json(&BlockPrices::new(quote)?),
            Self::Rrelayer => to_json(&GasEstimate::new(quote)),
            Self::Polygon => to_json(&GasStation::new(quote)),
            Self::Flat => to_json(&FlatPrices::new(quote)),
        })
    }
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("a struct of numbers and strings serialises")
}

/// The documents of one chain at one time.
#[derive(Debug, Default)]
pub(crate) struct Documents(EnumMap<Document, Option<PreparedBody>>);

/// A body and its strong entity tag.
#[derive(Debug)]
pub(crate) struct PreparedBody {
    pub(crate) json: Bytes,
    pub(crate) etag: HeaderValue,
}

impl Documents {
    /// Writes the documents of these formats.
    pub(crate) fn new(quote: &Quote, formats: Formats) -> Self {
        Self(EnumMap::from_fn(|document: Document| {
            let json = formats.has(document.format()).then(|| document.serialise(quote))??;
            let etag = etag::for_body(&json);
            Some(PreparedBody { json: json.into(), etag })
        }))
    }

    /// Returns a document; `None`: its format is not served, or demands what was not observed.
    pub(crate) fn get(&self, document: Document) -> Option<&PreparedBody> {
        self.0[document].as_ref()
    }
}

#[cfg(test)]
mod tests;
