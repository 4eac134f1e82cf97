//! The suggestion in the formats of other gas services, so that their clients need only another URL.
//!
//! Pure: a quote in, JSON out. The store makes all documents of a chain when it publishes a suggestion, so that a
//! request costs no calculation, and so that a document is as fresh as the suggestion.
//!
//! Prices of one number are [`SinglePrices`](crate::fees::SinglePrices). Max fees are those of the tiers. Some formats
//! have members that the service cannot know, such as a waiting time. They hold counts over the newest blocks; see
//! `quote`.

mod blocknative;
mod etherscan;
mod flat;
mod gwei;
pub(crate) mod head_times;
mod metamask;
mod polygon;
mod quote;
pub(crate) mod routes;
mod rrelayer;
pub(crate) mod section;

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

use crate::api::etag::Tag;

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

    /// Appends the JSON text; returns false if the format demands what was not observed.
    fn write(self, quote: &Quote, out: &mut Vec<u8>) -> bool {
        match self {
            Self::MetamaskFees => append(out, &SuggestedGasFees::new(quote)),
            Self::MetamaskPrices => append(out, &GasPrices::new(quote)),
            Self::EtherscanOracle => append(out, &GasOracle::new(quote)),
            Self::EtherscanGasPrice => append(out, &ProxyResult::gas_price(quote)),
            Self::EtherscanBlock => append(out, &ProxyResult::newest_block(quote)),
            Self::Safe => append(out, &GasOracle::for_safe(quote)),
            Self::Blocknative => match BlockPrices::new(quote) {
                Some(prices) => append(out, &prices),
                None => return false,
            },
            Self::Rrelayer => append(out, &GasEstimate::new(quote)),
            Self::Polygon => append(out, &GasStation::new(quote)),
            Self::Flat => append(out, &FlatPrices::new(quote)),
        }
        true
    }
}

fn append(out: &mut Vec<u8>, body: &impl Serialize) {
    serde_json::to_writer(out, body).expect("a struct of numbers and strings serialises");
}

/// The documents of one chain at one time, in one allocation.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    json: Bytes,
    places: EnumMap<Document, Option<Place>>,
}

/// Place of a document in the text of all, and its strong entity tag.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    etag: Tag,
}

impl Documents {
    /// Writes the documents of these formats.
    pub(crate) fn new(quote: &Quote, formats: Formats) -> Self {
        let mut json = Vec::new();
        let places = EnumMap::from_fn(|document: Document| {
            let start = json.len();
            let is_served = formats.has(document.format()) && document.write(quote, &mut json);
            let text = json.get(start..).filter(|_| is_served)?;
            Some(Place { start, end: json.len(), etag: Tag::for_body(text) })
        });
        // The text is kept for as long as the suggestion.
        json.shrink_to_fit();
        Self { json: json.into(), places }
    }

    /// Returns a document and its entity tag; `None`: its format is not served, or demands what was not observed.
    pub(crate) fn get(&self, document: Document) -> Option<(Bytes, HeaderValue)> {
        let Place { start, end, etag } = self.places[document]?;
        Some((self.json.slice(start..end), etag.header()))
    }
}

#[cfg(test)]
mod tests;
