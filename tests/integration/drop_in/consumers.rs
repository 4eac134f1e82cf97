//! Parsers of gas price clients that cannot be installed here, rebuilt from their sources.
//!
//! Each module rebuilds one client: the types that it decodes a response into, and the arithmetic
//! that it applies. A `parse` function returns the fees that the client would use, in wei. It
//! returns an error where the client rejects the response, and also where the client would go on
//! with an empty or zero fee.

use std::fmt::Display;

use serde_json::Value;

/// The fees of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Wei per unit of gas.
    pub(crate) max_priority_fee_per_gas: u128,
    /// Wei per unit of gas.
    pub(crate) max_fee_per_gas: u128,
    /// Shortest and longest wait, in the unit of the format. `None` if the format has no waits, or
    /// if a response leaves one of them out.
    pub(crate) wait: Option<(i64, i64)>,
}

/// The fees of clients that know three levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreeLevels {
    /// Base fee of the next block, in wei per unit of gas.
    pub(crate) base_fee_per_gas: u128,
    pub(crate) low: Level,
    pub(crate) medium: Level,
    pub(crate) high: Level,
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Go's `encoding/json` and `strconv`, as far as the two Go clients use them.
mod go {
    use serde::{Deserialize, Deserializer, de::DeserializeOwned};

    use super::{Level, text};

    /// Decodes with `json.Unmarshal`.
    ///
    /// Member names are compared exactly here. Go also accepts them in another case.
    pub(super) fn unmarshal<T: DeserializeOwned>(body: &str) -> Result<T, String> {
        serde_json::from_str(body).map_err(text)
    }

    /// Reads `null` as the zero value, as Go does for any type.
    pub(super) fn null_is_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: Default + Deserialize<'de>,
    {
        Option::deserialize(deserializer).map(Option::unwrap_or_default)
    }

    /// Converts gwei to wei with `big.NewInt(int64(f * 1e9))`, where `f` is from
    /// `strconv.ParseFloat(gwei, 64)`.
    ///
    /// The product is rounded to a double and then truncated, so the result can be 1 wei low.
    pub(super) fn wei(gwei: &str) -> Result<u128, String> {
        // Both parsers round correctly. Go's hexadecimal floats are left out.
        let gwei: f64 = gwei.parse().map_err(|_| format!("ParseFloat({gwei:?}) fails"))?;
        let wei = (gwei * 1e9).trunc();
        // The result of Go's conversion is undefined outside of int64.
        if !(0.0..9.2e18).contains(&wei) {
            return Err(format!("{gwei} gwei does not fit an int64 of wei"));
        }
        format!("{wei:.0}").parse().map_err(text)
    }

    /// One level of the `MetaMask` format. `int` is 64 bits wide and takes no fraction.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    pub(super) struct Fee {
        #[serde(rename = "suggestedMaxPriorityFeePerGas", deserialize_with = "null_is_zero")]
        pub(super) max_priority_fee_per_gas: String,
        #[serde(rename = "suggestedMaxFeePerGas", deserialize_with = "null_is_zero")]
        pub(super) max_fee_per_gas: String,
        #[serde(rename = "minWaitTimeEstimate", deserialize_with = "null_is_zero")]
        pub(super) min_wait_time_estimate: i64,
        #[serde(rename = "maxWaitTimeEstimate", deserialize_with = "null_is_zero")]
        pub(super) max_wait_time_estimate: i64,
    }

    impl Fee {
        pub(super) fn level(&self) -> Result<Level, String> {
            Ok(Level {
                max_priority_fee_per_gas: wei(&self.max_priority_fee_per_gas)?,
                max_fee_per_gas: wei(&self.max_fee_per_gas)?,
                wait: Some((self.min_wait_time_estimate, self.max_wait_time_estimate)),
            })
        }
    }

    /// The `MetaMask` format.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    pub(super) struct Fees {
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) estimated_base_fee: String,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) low: Fee,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) medium: Fee,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) high: Fee,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) network_congestion: f64,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) latest_priority_fee_range: Vec<String>,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) historical_priority_fee_range: Vec<String>,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) historical_base_fee_range: Vec<String>,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) priority_fee_trend: String,
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) base_fee_trend: String,
        /// Decoded by go-wallet-sdk only.
        #[serde(deserialize_with = "null_is_zero")]
        pub(super) version: String,
    }
}

/// Blockbook with `"alternative_estimate_fee": "infura"`.
///
/// trezor/blockbook `bchain/coins/eth/infurafees.go` at a83486e3309a.
pub(crate) mod blockbook {
    use serde::Deserialize;
    use serde_json::Value;

    use super::{ThreeLevels, go};

    /// The fees that Blockbook publishes.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Fees {
        /// Waits are in milliseconds.
        pub(crate) levels: ThreeLevels,
        pub(crate) network_congestion: f64,
        /// Wei per unit of gas, like the other ranges.
        pub(crate) latest_priority_fee_range: Vec<u128>,
        pub(crate) historical_priority_fee_range: Vec<u128>,
        pub(crate) historical_base_fee_range: Vec<u128>,
        pub(crate) priority_fee_trend: String,
        pub(crate) base_fee_trend: String,
    }

    /// Decodes a response of `suggestedGasFees`.
    ///
    /// A member of the wrong type is an error: a number for a fee, a fraction for a wait (`15000.0`
    /// too), a string for the congestion. Then Blockbook drops the response. A missing member and
    /// `null` are the zero value. Blockbook publishes a fee as `null` if it cannot parse its
    /// string; that is an error here. Fees can come out 1 wei low, see [`go::wei`].
    pub(crate) fn parse(body: &str) -> Result<Fees, String> {
        // Blockbook has no member for `version` and takes any type of it.
        let mut body: Value = go::unmarshal(body)?;
        if let Value::Object(members) = &mut body {
            members.remove("version");
        }
        let fees = go::Fees::deserialize(body).map_err(super::text)?;
        let range =
            |range: &[String]| range.iter().map(|gwei| go::wei(gwei)).collect::<Result<_, _>>();
        Ok(Fees {
            levels: ThreeLevels {
                base_fee_per_gas: go::wei(&fees.estimated_base_fee)?,
                low: fees.low.level()?,
                medium: fees.medium.level()?,
                high: fees.high.level()?,
            },
            network_congestion: fees.network_congestion,
            latest_priority_fee_range: range(&fees.latest_priority_fee_range)?,
            historical_priority_fee_range: range(&fees.historical_priority_fee_range)?,
            historical_base_fee_range: range(&fees.historical_base_fee_range)?,
            priority_fee_trend: fees.priority_fee_trend,
            base_fee_trend: fees.base_fee_trend,
        })
    }
}

/// Status' client of the `MetaMask` format.
///
/// status-im/go-wallet-sdk `pkg/gas/infura/types.go` and `client.go` at 3d354d34bced.
pub(crate) mod status {
    use super::{ThreeLevels, go, text};

    /// Decodes a response of `suggestedGasFees`.
    ///
    /// The package returns the strings as they are. They are converted here as
    /// `examples/gas-comparison/main.go` does (`stringToWei`), so they can come out 1 wei low. That
    /// function takes a fee of 1000 or more for wei, which is an error here.
    pub(crate) fn parse(body: &str) -> Result<ThreeLevels, String> {
        let fees: go::Fees = go::unmarshal(body)?;
        let levels = ThreeLevels {
            base_fee_per_gas: go::wei(&fees.estimated_base_fee)?,
            low: fees.low.level()?,
            medium: fees.medium.level()?,
            high: fees.high.level()?,
        };
        let max_fees = [&levels.low, &levels.medium, &levels.high].map(|l| l.max_fee_per_gas);
        let highest = max_fees.into_iter().fold(levels.base_fee_per_gas, u128::max);
        if highest >= 1_000_000_000_000 {
            return Err(text("stringToWei takes 1000 gwei or more for wei"));
        }
        Ok(levels)
    }
}

/// Komodo `DeFi` Framework with `"gas_api": {"provider": "Infura"}` or `"Blocknative"`.
///
/// KomodoPlatform/komodo-defi-framework `mm2src/coins/eth/fee_estimation/eip1559/infura.rs`,
/// `block_native.rs` and `mod.rs`, and `wei_from_big_decimal` of `mm2src/coins/eth.rs`, all at
/// a9fbf6096257.
///
/// Every member below is required and none may be `null`.
pub(crate) mod komodo {
    use serde::{Deserialize, Deserializer, de};
    use serde_json::value::RawValue;

    use super::{Level, ThreeLevels, text};

    const FEE_PER_GAS_LEVELS: usize = 3;

    /// The fees of the provider Infura.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct InfuraFees {
        /// Waits are in milliseconds.
        pub(crate) levels: ThreeLevels,
        pub(crate) base_fee_trend: String,
        pub(crate) priority_fee_trend: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InfuraFeePerGasLevel {
        suggested_max_priority_fee_per_gas: BigDecimal,
        suggested_max_fee_per_gas: BigDecimal,
        min_wait_time_estimate: u32,
        max_wait_time_estimate: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InfuraFeePerGas {
        low: InfuraFeePerGasLevel,
        medium: InfuraFeePerGasLevel,
        high: InfuraFeePerGasLevel,
        estimated_base_fee: BigDecimal,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        network_congestion: BigDecimal,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        latest_priority_fee_range: Vec<BigDecimal>,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        historical_priority_fee_range: Vec<BigDecimal>,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        historical_base_fee_range: Vec<BigDecimal>,
        priority_fee_trend: String,
        base_fee_trend: String,
    }

    impl InfuraFeePerGasLevel {
        fn level(&self) -> Result<Level, String> {
            let wait = (self.min_wait_time_estimate.into(), self.max_wait_time_estimate.into());
            Ok(Level {
                max_priority_fee_per_gas: self.suggested_max_priority_fee_per_gas.wei()?,
                max_fee_per_gas: self.suggested_max_fee_per_gas.wei()?,
                wait: Some(wait),
            })
        }
    }

    /// Decodes a response of `/networks/1/suggestedGasFees`.
    ///
    /// Decimal strings keep every wei. More than 9 decimals are cut off.
    pub(crate) fn parse_infura(body: &str) -> Result<InfuraFees, String> {
        let fees: InfuraFeePerGas = serde_json::from_str(body).map_err(text)?;
        Ok(InfuraFees {
            levels: ThreeLevels {
                base_fee_per_gas: fees.estimated_base_fee.wei()?,
                low: fees.low.level()?,
                medium: fees.medium.level()?,
                high: fees.high.level()?,
            },
            base_fee_trend: fees.base_fee_trend,
            priority_fee_trend: fees.priority_fee_trend,
        })
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlocknativeBlockPrices {
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        block_number: u32,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        estimated_transaction_count: u32,
        base_fee_per_gas: BigDecimal,
        estimated_prices: Vec<BlocknativeEstimatedPrices>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlocknativeEstimatedPrices {
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        confidence: u32,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        price: BigDecimal,
        max_priority_fee_per_gas: BigDecimal,
        max_fee_per_gas: BigDecimal,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlocknativeBlockPricesResponse {
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        system: String,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        network: String,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        unit: String,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        max_price: BigDecimal,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        current_block_number: u32,
        #[expect(dead_code, reason = "Komodo requires it and does not read it")]
        ms_since_last_block: u32,
        block_prices: Vec<BlocknativeBlockPrices>,
    }

    /// Decodes a response of `/gasprices/blockprices`.
    ///
    /// Komodo takes the first three levels for high, medium and low, whatever their confidence.
    /// With fewer than three, or without a block, it uses zeros; that is an error here. JSON
    /// numbers with a fraction pass through a double, so fees can come out 1 wei low, see
    /// [`BigDecimal`].
    pub(crate) fn parse_blocknative(body: &str) -> Result<ThreeLevels, String> {
        let response: BlocknativeBlockPricesResponse = serde_json::from_str(body).map_err(text)?;
        let block = response.block_prices.first().ok_or("Komodo uses zeros without a block")?;
        if block.estimated_prices.len() < FEE_PER_GAS_LEVELS {
            return Err(text("Komodo uses zeros for fewer than 3 levels"));
        }
        let level = |index: usize| {
            let prices = &block.estimated_prices[index];
            Ok::<_, String>(Level {
                max_priority_fee_per_gas: prices.max_priority_fee_per_gas.wei()?,
                max_fee_per_gas: prices.max_fee_per_gas.wei()?,
                wait: None,
            })
        };
        Ok(ThreeLevels {
            base_fee_per_gas: block.base_fee_per_gas.wei()?,
            low: level(2)?,
            medium: level(1)?,
            high: level(0)?,
        })
    }

    /// A `BigDecimal` of the crate bigdecimal 0.3.0, in its decimal notation.
    ///
    /// Strings and whole numbers are read exactly. A JSON number with a fraction or an exponent
    /// becomes a double first, then the text of 16 significant digits of that double. That text can
    /// be below the number that was sent, and [`BigDecimal::wei`] cuts it off after 9 decimals.
    #[derive(Debug)]
    struct BigDecimal(String);

    impl<'de> Deserialize<'de> for BigDecimal {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let raw = Box::<RawValue>::deserialize(deserializer)?;
            Self::from_json(raw.get()).map_err(de::Error::custom)
        }
    }

    impl BigDecimal {
        /// Reads a JSON value as `BigDecimalVisitor` does.
        pub(super) fn from_json(json: &str) -> Result<Self, String> {
            if json.starts_with('"') {
                return Self::from_str(&serde_json::from_str::<String>(json).map_err(text)?);
            }
            if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
                return Err(format!("expected a number or formatted decimal string, not {json}"));
            }
            let whole = json.parse::<u64>().is_ok() || json.parse::<i64>().is_ok_and(|n| n != 0);
            if whole {
                return Self::from_str(json);
            }
            Self::from_str(&format!("{:.15e}", double(json)?))
        }

        /// Reads a decimal number, with or without an exponent, as `from_str_radix(…, 10)` does.
        fn from_str(number: &str) -> Result<Self, String> {
            let error = || format!("{number:?} is no decimal number");
            let (base, exponent) = match number.find(['e', 'E']) {
                None => (number, 0),
                Some(at) => (&number[..at], number[at + 1..].parse().map_err(|_| error())?),
            };
            let (lead, trail) = base.split_once('.').unwrap_or((base, ""));
            let digits = format!("{lead}{trail}");
            let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(error());
            }
            let scale = i64::try_from(trail.len()).map_err(text)?.checked_sub(exponent);
            // Keeps the text short. Fees are far inside of this range.
            let scale = scale.filter(|scale| scale.abs() <= 400).ok_or_else(error)?;
            let plain = plain(unsigned.trim_start_matches('0'), scale)?;
            let negative = digits.starts_with('-') && unsigned.bytes().any(|byte| byte != b'0');
            Ok(Self(if negative { format!("-{plain}") } else { plain }))
        }

        /// Converts gwei to wei as `wei_from_gwei_decimal` does: decimals after the ninth are cut
        /// off. Returns an error for negative numbers.
        pub(super) fn wei(&self) -> Result<u128, String> {
            let (whole, fraction) = self.0.split_once('.').unwrap_or((&self.0, ""));
            let wei = format!("{whole}{}", format!("{fraction:0<9}").split_at(9).0);
            wei.parse().map_err(|error| format!("{} gwei: {error}", self.0))
        }
    }

    /// Writes `digits` × 10^-`scale` as the `Display` of `BigDecimal` does.
    fn plain(digits: &str, scale: i64) -> Result<String, String> {
        let digits = if digits.is_empty() { "0" } else { digits };
        let Ok(decimals) = usize::try_from(scale) else {
            let zeros = usize::try_from(scale.abs()).map_err(text)?;
            return Ok(format!("{digits}{}", "0".repeat(zeros)));
        };
        if decimals == 0 {
            return Ok(digits.to_owned());
        }
        let digits = format!("{digits:0>width$}", width = decimals + 1);
        let (before, after) = digits.split_at(digits.len() - decimals);
        Ok(format!("{before}.{after}"))
    }

    /// Reads a JSON number as `serde_json` 1.0.125 does without `float_roundtrip`.
    ///
    /// The result is the nearest double if the digits are below 2^53 and the exponent is between
    /// -22 and 22. Otherwise it can be one unit in the last place off.
    fn double(json: &str) -> Result<f64, String> {
        let (sign, number) = json.strip_prefix('-').map_or((1.0, json), |number| (-1.0, number));
        let (mantissa, mut exponent) = match number.find(['e', 'E']) {
            None => (number, 0),
            Some(at) => (&number[..at], number[at + 1..].parse::<i32>().map_err(text)?),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let push = |significand: u64, digit: u8| {
            significand.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        };
        let mut significand = 0;
        let mut whole = whole.bytes();
        while let Some(digit) = whole.next() {
            let Some(longer) = push(significand, digit) else {
                let dropped = i32::try_from(whole.len()).map_err(text)?.saturating_add(1);
                exponent = exponent.saturating_add(dropped);
                break;
            };
            significand = longer;
        }
        for digit in fraction.bytes() {
            let Some(longer) = push(significand, digit) else { break };
            significand = longer;
            exponent = exponent.saturating_sub(1);
        }
        #[expect(clippy::cast_precision_loss, reason = "serde_json rounds here, too")]
        let mut double = significand as f64;
        if exponent < -308 {
            double /= 1e308;
            exponent += 308;
        }
        let power = |exponent: i32| format!("1e{exponent}").parse::<f64>().map_err(text);
        match exponent {
            0..=308 => double *= power(exponent)?,
            -308..0 => double /= power(-exponent)?,
            // Far outside of any fee, where serde_json goes on to 0 or to an error.
            _ => return Err(format!("{json} is out of range")),
        }
        if double.is_infinite() {
            return Err(format!("{json} is out of range"));
        }
        Ok(sign * double)
    }
}

/// rrelayer with a gas provider `custom`.
///
/// joshstevens19/rrelayer `crates/core/src/gas/fee_estimator/custom.rs` and `base.rs` at
/// dc8a4063ed7c.
pub(crate) mod rrelayer {
    use alloy_primitives::utils::{ParseUnits, parse_units};
    use serde::Deserialize;

    use super::{Level, text};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CustomGasEstimateSpeedResult {
        suggested_max_priority_fee_per_gas: String,
        suggested_max_fee_per_gas: String,
        min_wait_time_estimate: Option<i64>,
        max_wait_time_estimate: Option<i64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CustomGasEstimateResult {
        slow: CustomGasEstimateSpeedResult,
        medium: CustomGasEstimateSpeedResult,
        fast: CustomGasEstimateSpeedResult,
        super_fast: CustomGasEstimateSpeedResult,
    }

    /// The fees that rrelayer uses. Waits are in seconds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Fees {
        pub(crate) slow: Level,
        pub(crate) medium: Level,
        pub(crate) fast: Level,
        pub(crate) super_fast: Level,
    }

    /// Decodes a response of `{endpoint}/{chain_id}`.
    ///
    /// rrelayer does not look at the HTTP status: an error response must not have this form. All
    /// four levels are required. Waits may be `null` or absent. Decimal strings keep every wei;
    /// more than 9 decimals are cut off.
    pub(crate) fn parse(body: &str) -> Result<Fees, String> {
        let result: CustomGasEstimateResult = serde_json::from_str(body).map_err(text)?;
        Ok(Fees {
            slow: result.slow.level()?,
            medium: result.medium.level()?,
            fast: result.fast.level()?,
            super_fast: result.super_fast.level()?,
        })
    }

    impl CustomGasEstimateSpeedResult {
        fn level(&self) -> Result<Level, String> {
            Ok(Level {
                max_priority_fee_per_gas: wei(&self.suggested_max_priority_fee_per_gas)?,
                max_fee_per_gas: wei(&self.suggested_max_fee_per_gas)?,
                wait: self.min_wait_time_estimate.zip(self.max_wait_time_estimate),
            })
        }
    }

    /// Converts gwei to wei as `parse_formatted_gas_to_u128` does.
    fn wei(gwei: &str) -> Result<u128, String> {
        match parse_units(gwei, "gwei").map_err(text)? {
            ParseUnits::U256(wei) => wei.try_into().map_err(text),
            ParseUnits::I256(wei) if wei.is_negative() => Err(text("negative fee")),
            ParseUnits::I256(wei) => wei.into_raw().try_into().map_err(text),
        }
    }
}

/// Safe{Wallet} with a gas price of type `oracle`.
///
/// safe-global/safe-wallet-monorepo `packages/utils/src/hooks/useDefaultGasPrice.ts` at
/// 0aa27aff8473.
pub(crate) mod safe {
    use serde_json::Value;

    use super::{js_number, text};

    /// The value that Safe makes of an oracle's response, in wei per unit of gas.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum EstimatedGasPrice {
        /// From an object with `FastGasPrice` and `suggestBaseFee`.
        Eip1559 { max_fee_per_gas: u128, max_priority_fee_per_gas: u128 },
        /// From the member that is configured as `gasParameter`. Safe uses it as the max fee and
        /// takes the tip from the node.
        GasPrice(u128),
    }

    /// Reads a response with status 200 as `fetchGasOracle` does.
    ///
    /// `gwei_factor` is the configured decimal: `1000000000.000000000` for gwei. The numbers are
    /// doubles: a price is rounded twice and then to a whole wei. That is exact for any price of 9
    /// decimals below 2^51 wei (2.2 million gwei). Safe would pass on a tip below zero, which is an
    /// error here.
    pub(crate) fn parse(
        body: &str,
        gas_parameter: &str,
        gwei_factor: &str,
    ) -> Result<EstimatedGasPrice, String> {
        let json: Value = serde_json::from_str(body).map_err(text)?;
        if json.is_null() {
            return Err(text("Safe reads a member of null"));
        }
        let data = ["data", "result"].iter().find_map(|name| json.get(name).filter(|v| truthy(v)));
        let data = data.unwrap_or(&json);
        let factor = js_number(&Value::from(gwei_factor));
        let fast = data.get("FastGasPrice").zip(data.get("suggestBaseFee"));
        if let Some((fast_gas_price, base_fee)) = fast {
            let max_fee_per_gas = big_int(js_number(fast_gas_price) * factor)?;
            let base_fee = big_int(js_number(base_fee) * factor)?;
            let tip = max_fee_per_gas.checked_sub(base_fee).ok_or("negative tip")?;
            return Ok(EstimatedGasPrice::Eip1559 {
                max_fee_per_gas,
                max_priority_fee_per_gas: tip,
            });
        }
        // `Number(undefined)` is not a number.
        let gas_price = data.get(gas_parameter).map_or(f64::NAN, js_number);
        big_int(gas_price * factor).map(EstimatedGasPrice::GasPrice)
    }

    /// Returns `BigInt(Math.round(number))`, or an error if `number` is not finite or negative.
    fn big_int(number: f64) -> Result<u128, String> {
        let floor = number.floor();
        // `Math.round` rounds halves up.
        let rounded = if number - floor >= 0.5 { floor + 1.0 } else { floor };
        if !rounded.is_finite() || rounded < 0.0 {
            return Err(format!("invalid oracle value: {number}"));
        }
        format!("{rounded:.0}").parse().map_err(text)
    }

    /// Returns true if JavaScript's `||` takes `value`.
    fn truthy(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(string) => !string.is_empty(),
            Value::Array(_) | Value::Object(_) => true,
        }
    }
}

/// foundry-block-explorers, the Rust client of Etherscan's API.
///
/// foundry-rs/block-explorers `crates/block-explorers/src/gas.rs`, `lib.rs` and `utils.rs` at
/// f41cbd48899a.
pub(crate) mod foundry {
    use alloy_primitives::U256;
    use serde::{Deserialize, Deserializer, de};

    use super::text;

    const WEI_PER_GWEI: u64 = 1_000_000_000;

    /// The gas oracle's prices, in wei per unit of gas.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    pub(crate) struct GasOracle {
        #[serde(deserialize_with = "gwei_amount")]
        pub(crate) safe_gas_price: u128,
        #[serde(deserialize_with = "gwei_amount")]
        pub(crate) propose_gas_price: u128,
        #[serde(deserialize_with = "gwei_amount")]
        pub(crate) fast_gas_price: u128,
        #[serde(deserialize_with = "number_from_string")]
        pub(crate) last_block: u64,
        #[serde(deserialize_with = "gwei_amount", rename = "suggestBaseFee")]
        pub(crate) suggested_base_fee: u128,
        #[serde(deserialize_with = "f64_vec", rename = "gasUsedRatio")]
        pub(crate) gas_used_ratio: Vec<f64>,
    }

    #[derive(Debug, Deserialize)]
    struct Response {
        #[expect(dead_code, reason = "the client requires it and does not read it")]
        status: String,
        #[expect(dead_code, reason = "the client requires it and does not read it")]
        message: String,
        result: GasOracle,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum ResponseData {
        Success(Response),
        Error { status: String, message: String, result: Option<String> },
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum StringOrInt {
        Number(u64),
        String(String),
    }

    /// Decodes a response of `?module=gastracker&action=gasoracle`.
    ///
    /// The client does not look at the HTTP status. All six members are required. Prices are
    /// decimal strings, or JSON numbers without a fraction. `gasUsedRatio` is one string of numbers
    /// joined by commas, without spaces; an empty string is an error.
    pub(crate) fn parse(body: &str) -> Result<GasOracle, String> {
        match serde_json::from_str(body).map_err(text)? {
            ResponseData::Success(response) => Ok(response.result),
            ResponseData::Error { result: Some(result), .. }
                if result.starts_with("Max rate limit reached") =>
            {
                Err(text("rate limit exceeded"))
            }
            ResponseData::Error { status, message, result } => {
                Err(format!("error response {status}: {message}: {result:?}"))
            }
        }
    }

    fn gwei_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let wei = match StringOrInt::deserialize(deserializer)? {
            StringOrInt::Number(gwei) => U256::from(gwei) * U256::from(WEI_PER_GWEI),
            StringOrInt::String(gwei) => parse_gwei(&gwei).map_err(de::Error::custom)?,
        };
        wei.try_into().map_err(de::Error::custom)
    }

    /// Converts gwei to wei as `parse_units` of `utils.rs` does. More than 9 decimals are cut off.
    ///
    /// A negative amount, which the client would turn into a huge one, is an error here.
    fn parse_gwei(amount: &str) -> Result<U256, String> {
        let mut digits = amount.replace('_', "");
        let decimals = digits.find('.').map_or(0, |point| {
            digits.remove(point);
            digits.len() - point
        });
        digits.truncate(digits.len() - decimals.saturating_sub(9));
        let units: U256 = digits.parse().map_err(|error| format!("{amount:?}: {error}"))?;
        let power = U256::from(10).pow(U256::from(9_usize.saturating_sub(decimals)));
        units.checked_mul(power).ok_or_else(|| text("overflow parsing string"))
    }

    fn number_from_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        match StringOrInt::deserialize(deserializer)? {
            StringOrInt::Number(number) => Ok(number),
            StringOrInt::String(string) => string.parse().map_err(de::Error::custom),
        }
    }

    fn f64_vec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let sequence = String::deserialize(deserializer)?;
        sequence.split(',').map(|item| item.parse().map_err(de::Error::custom)).collect()
    }
}

/// The oracle of `TokenBridge` with `COMMON_{HOME,FOREIGN}_GAS_PRICE_SUPPLIER_URL`.
///
/// omni/tokenbridge `commons/utils.js` (`gasPriceFromSupplier`, `normalizeGasPrice`) and
/// `oracle/src/utils/constants.js` at 961b12b9f354.
pub(crate) mod tokenbridge {
    use serde_json::Value;

    use super::{js_number, text};

    /// Lowest and highest gas price that the oracle takes, in gwei (`GAS_PRICE_BOUNDARIES`).
    pub(crate) const GAS_PRICE_BOUNDARIES: (f64, f64) = (1.0, 1000.0);

    /// Reads a response and returns the gas price, in wei per unit of gas.
    ///
    /// The member `speed_type` times `factor` is brought within `limits`, then rounded to 2
    /// decimals of a gwei. So prices below 0.005 gwei become 0 without limits, and the oracle pays
    /// at least 1 gwei. The HTTP status is not looked at. An absent, `null` or zero price is an
    /// error: `TokenBridge` then asks its contract.
    pub(crate) fn parse(
        body: &str,
        speed_type: &str,
        factor: f64,
        limits: Option<(f64, f64)>,
    ) -> Result<u128, String> {
        let json: Value = serde_json::from_str(body).map_err(text)?;
        let price = json.get(speed_type).ok_or("no gas price of this speed type")?;
        let falsy = match price {
            Value::Null | Value::Bool(false) => true,
            Value::String(string) => string.is_empty(),
            number => number.as_f64() == Some(0.0),
        };
        if falsy {
            return Err(text("no gas price of this speed type"));
        }
        let mut gas_price = js_number(price) * factor;
        if let Some((lowest, highest)) = limits {
            if gas_price < lowest {
                gas_price = lowest;
            } else if gas_price > highest {
                gas_price = highest;
            }
        }
        let hundredths = to_fixed_2(gas_price)?;
        hundredths.checked_mul(10_000_000).ok_or_else(|| text("overflow"))
    }

    /// Returns the hundredths of `number.toFixed(2)`. It rounds the exact value of the double, and
    /// halves up.
    fn to_fixed_2(number: f64) -> Result<u128, String> {
        // `toFixed` has an exponent from 1e21 on, which `toWei` rejects.
        if !(0.0..1e21).contains(&number) {
            return Err(format!("toWei rejects {number}"));
        }
        // A double has at most 1074 decimals.
        let exact = format!("{number:.1074}");
        let (whole, decimals) = exact.split_once('.').ok_or("no decimals")?;
        let (hundredths, rest) = decimals.split_at(2);
        let down: u128 = format!("{whole}{hundredths}").parse().map_err(text)?;
        Ok(if rest.starts_with(['5', '6', '7', '8', '9']) { down + 1 } else { down })
    }
}

/// Converts `value` as JavaScript's `Number(value)` does. Hexadecimal strings and arrays, which
/// JavaScript may take, are not a number here.
fn js_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(string) => match string.trim() {
            "" => 0.0,
            // Rust also takes words such as `inf`.
            number if number.contains(|c: char| c.is_alphabetic() && !"eE".contains(c)) => f64::NAN,
            number => number.parse().unwrap_or(f64::NAN),
        },
        Value::Array(_) | Value::Object(_) => f64::NAN,
    }
}

mod tests {
    use serde_json::{Value, json};

    use super::{
        Level, ThreeLevels, blockbook, foundry, js_number, komodo, rrelayer, safe, status,
        tokenbridge,
    };

    /// The sample of `MetaMask`'s gas API that Blockbook's source documents.
    const METAMASK: &str = r#"{
        "low": {"suggestedMaxPriorityFeePerGas": "0.01128", "suggestedMaxFeePerGas": "9.919888552",
                "minWaitTimeEstimate": 15000, "maxWaitTimeEstimate": 60000},
        "medium": {"suggestedMaxPriorityFeePerGas": "1.148315423",
                   "suggestedMaxFeePerGas": "15.317625653",
                   "minWaitTimeEstimate": 15000, "maxWaitTimeEstimate": 45000},
        "high": {"suggestedMaxPriorityFeePerGas": "2", "suggestedMaxFeePerGas": "24.78979967",
                 "minWaitTimeEstimate": 15000, "maxWaitTimeEstimate": 30000},
        "estimatedBaseFee": "9.908608552", "networkCongestion": 0.004,
        "latestPriorityFeeRange": ["0.05", "4"],
        "historicalPriorityFeeRange": ["0.006381976", "155.777346207"],
        "historicalBaseFeeRange": ["9.243163495", "16.734915363"],
        "priorityFeeTrend": "up", "baseFeeTrend": "up", "version": "0.0.1"
    }"#;

    /// The documented form of Blocknative's block prices.
    const BLOCKNATIVE: &str = r#"{
        "system": "ethereum", "network": "main", "unit": "gwei", "maxPrice": 172.0,
        "currentBlockNumber": 21465702, "msSinceLastBlock": 14416,
        "blockPrices": [{
            "blockNumber": 21465703, "estimatedTransactionCount": 67,
            "baseFeePerGas": 36.233985720, "blobBaseFeePerGas": 25.177585170,
            "estimatedPrices": [
                {"confidence": 99, "price": 36.53, "maxPriorityFeePerGas": 0.29,
                 "maxFeePerGas": 72.76},
                {"confidence": 95, "price": 36.44, "maxPriorityFeePerGas": 0.20,
                 "maxFeePerGas": 72.67},
                {"confidence": 90, "price": 36.40, "maxPriorityFeePerGas": 0.16,
                 "maxFeePerGas": 72.63},
                {"confidence": 80, "price": 36.35, "maxPriorityFeePerGas": 0.11,
                 "maxFeePerGas": 72.58}]
        }],
        "estimatedBaseFees": [{"pending+1": [{"confidence": 99, "baseFee": 40.76}]}]
    }"#;

    /// The sample of rrelayer's documentation.
    const RRELAYER: &str = r#"{
        "slow": {"suggestedMaxPriorityFeePerGas": "20", "suggestedMaxFeePerGas": "60",
                 "minWaitTimeEstimate": 2, "maxWaitTimeEstimate": 12},
        "medium": {"suggestedMaxPriorityFeePerGas": "20", "suggestedMaxFeePerGas": "60",
                   "minWaitTimeEstimate": 2, "maxWaitTimeEstimate": 6},
        "fast": {"suggestedMaxPriorityFeePerGas": "24", "suggestedMaxFeePerGas": "64",
                 "minWaitTimeEstimate": 2, "maxWaitTimeEstimate": 4},
        "superFast": {"suggestedMaxPriorityFeePerGas": "28", "suggestedMaxFeePerGas": "68",
                      "minWaitTimeEstimate": 2, "maxWaitTimeEstimate": 2}
    }"#;

    /// The sample of foundry-block-explorers' tests.
    const ETHERSCAN: &str = r#"{
        "status": "1", "message": "OK",
        "result": {
            "LastBlock": "13053741", "SafeGasPrice": "20", "ProposeGasPrice": "22",
            "FastGasPrice": "24", "suggestBaseFee": "19.230609716",
            "gasUsedRatio": "0.370119078777807,0.8954731,0.550911766666667"
        }
    }"#;

    /// The sample of `TokenBridge`'s documentation.
    const FLAT: &str = r#"{"fast": 20.0, "block_time": 12.834, "health": true, "standard": 6.0,
        "block_number": 6470469, "instant": 71.0, "slow": 1.889}"#;

    const GWEI_FACTOR: &str = "1000000000.000000000";

    /// Returns `body` with the value at the JSON pointer `place` replaced.
    fn with(body: &str, place: &str, value: Value) -> String {
        let mut json: Value = serde_json::from_str(body).unwrap();
        *json.pointer_mut(place).unwrap() = value;
        json.to_string()
    }

    /// Returns `body` without the member `name` of the object at the JSON pointer `place`.
    fn without(body: &str, place: &str, name: &str) -> String {
        let mut json: Value = serde_json::from_str(body).unwrap();
        let object = json.pointer_mut(place).unwrap().as_object_mut().unwrap();
        assert!(object.remove(name).is_some());
        json.to_string()
    }

    fn level(tip: u128, max_fee: u128, wait: Option<(i64, i64)>) -> Level {
        Level { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee, wait }
    }

    fn metamask_levels() -> ThreeLevels {
        ThreeLevels {
            base_fee_per_gas: 9_908_608_552,
            low: level(11_280_000, 9_919_888_552, Some((15_000, 60_000))),
            medium: level(1_148_315_423, 15_317_625_653, Some((15_000, 45_000))),
            high: level(2_000_000_000, 24_789_799_670, Some((15_000, 30_000))),
        }
    }

    #[test]
    fn blockbook_reads_the_documented_sample_with_one_wei_lost() {
        let fees = blockbook::parse(METAMASK).unwrap();
        assert_eq!(
            fees,
            blockbook::Fees {
                levels: metamask_levels(),
                network_congestion: 0.004,
                latest_priority_fee_range: vec![50_000_000, 4_000_000_000],
                historical_priority_fee_range: vec![6_381_976, 155_777_346_207],
                // The last of them was sent as 16.734915363 gwei.
                historical_base_fee_range: vec![9_243_163_495, 16_734_915_362],
                priority_fee_trend: "up".to_owned(),
                base_fee_trend: "up".to_owned(),
            }
        );
    }

    #[test]
    fn blockbook_rejects_other_types_and_unreadable_fees() {
        for (place, value) in [
            ("/low/minWaitTimeEstimate", json!(15_000.5)),
            ("/low/minWaitTimeEstimate", json!(15_000.0)),
            ("/low/maxWaitTimeEstimate", json!("60000")),
            ("/high/suggestedMaxFeePerGas", json!(24.78)),
            ("/estimatedBaseFee", json!(9)),
            ("/estimatedBaseFee", json!("")),
            ("/estimatedBaseFee", json!(null)),
            ("/networkCongestion", json!("0.004")),
            ("/latestPriorityFeeRange", json!([0.05, 4])),
            ("/baseFeeTrend", json!(1)),
        ] {
            let error = blockbook::parse(&with(METAMASK, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
    }

    #[test]
    fn blockbook_reads_null_and_absent_members_as_zero() {
        let fees = blockbook::parse(&with(METAMASK, "/baseFeeTrend", json!(null))).unwrap();
        assert_eq!(fees.base_fee_trend, "");
        let fees = blockbook::parse(&with(METAMASK, "/low/maxWaitTimeEstimate", json!(null)));
        assert_eq!(fees.unwrap().levels.low.wait, Some((15_000, 0)));
        let fees = blockbook::parse(&without(METAMASK, "", "historicalBaseFeeRange")).unwrap();
        assert_eq!(fees.historical_base_fee_range, [0; 0]);
        blockbook::parse(&with(METAMASK, "/version", json!(1))).unwrap();
    }

    #[test]
    fn blockbook_reads_gwei_through_a_double_and_truncates() {
        let base_fee = |gwei: &str| {
            let body = with(METAMASK, "/estimatedBaseFee", json!(gwei));
            blockbook::parse(&body).unwrap().levels.base_fee_per_gas
        };
        assert_eq!(base_fee("20"), 20_000_000_000);
        assert_eq!(base_fee("20.0"), 20_000_000_000);
        assert_eq!(base_fee("2e1"), 20_000_000_000);
        assert_eq!(base_fee("0.000000001"), 1);
        assert_eq!(base_fee("0.032097112"), 32_097_112 - 1);
    }

    #[test]
    fn status_reads_the_documented_sample_without_optional_members() {
        assert_eq!(status::parse(METAMASK), Ok(metamask_levels()));
        let body = without(&without(METAMASK, "", "version"), "", "baseFeeTrend");
        assert_eq!(status::parse(&body), Ok(metamask_levels()));
    }

    #[test]
    fn status_rejects_other_types_and_fees_that_it_takes_for_wei() {
        for (place, value) in [
            ("/low/minWaitTimeEstimate", json!(0.5)),
            ("/version", json!(1)),
            ("/medium/suggestedMaxFeePerGas", json!(15)),
            ("/estimatedBaseFee", json!("1000")),
        ] {
            let error = status::parse(&with(METAMASK, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
    }

    #[test]
    fn komodo_reads_infuras_sample_exactly() {
        assert_eq!(
            komodo::parse_infura(METAMASK),
            Ok(komodo::InfuraFees {
                levels: metamask_levels(),
                base_fee_trend: "up".to_owned(),
                priority_fee_trend: "up".to_owned(),
            })
        );
    }

    #[test]
    fn komodo_requires_every_member_of_infuras_format_without_null() {
        for name in [
            "low",
            "medium",
            "high",
            "estimatedBaseFee",
            "networkCongestion",
            "latestPriorityFeeRange",
            "historicalPriorityFeeRange",
            "historicalBaseFeeRange",
            "priorityFeeTrend",
            "baseFeeTrend",
        ] {
            assert!(komodo::parse_infura(&without(METAMASK, "", name)).is_err(), "{name}");
            let body = with(METAMASK, &format!("/{name}"), json!(null));
            assert!(komodo::parse_infura(&body).is_err(), "{name}: null");
        }
        for (place, value) in [
            ("/low/minWaitTimeEstimate", json!(15_000.5)),
            ("/low/minWaitTimeEstimate", json!(-1)),
            ("/low/maxWaitTimeEstimate", json!(4_294_967_296_u64)),
            ("/low/maxWaitTimeEstimate", json!(null)),
            ("/low/suggestedMaxFeePerGas", json!("-1")),
            ("/low/suggestedMaxFeePerGas", json!("")),
            ("/latestPriorityFeeRange", json!(["0.05", null])),
            ("/priorityFeeTrend", json!(1)),
        ] {
            let error = komodo::parse_infura(&with(METAMASK, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
    }

    #[test]
    fn komodo_reads_the_first_three_of_blocknatives_levels() {
        assert_eq!(
            komodo::parse_blocknative(BLOCKNATIVE),
            Ok(ThreeLevels {
                base_fee_per_gas: 36_233_985_720,
                low: level(160_000_000, 72_630_000_000, None),
                medium: level(200_000_000, 72_670_000_000, None),
                high: level(290_000_000, 72_760_000_000, None),
            })
        );
    }

    #[test]
    fn komodo_requires_three_levels_and_every_member_of_blocknatives_format() {
        let mut levels: Value = serde_json::from_str(BLOCKNATIVE).unwrap();
        let prices = levels.pointer_mut("/blockPrices/0/estimatedPrices").unwrap();
        prices.as_array_mut().unwrap().truncate(2);
        assert!(komodo::parse_blocknative(&levels.to_string()).is_err());
        assert!(komodo::parse_blocknative(&with(BLOCKNATIVE, "/blockPrices", json!([]))).is_err());
        for (place, name) in [
            ("", "system"),
            ("", "network"),
            ("", "unit"),
            ("", "maxPrice"),
            ("", "currentBlockNumber"),
            ("", "msSinceLastBlock"),
            ("", "blockPrices"),
            ("/blockPrices/0", "blockNumber"),
            ("/blockPrices/0", "estimatedTransactionCount"),
            ("/blockPrices/0", "baseFeePerGas"),
            ("/blockPrices/0", "estimatedPrices"),
            ("/blockPrices/0/estimatedPrices/3", "confidence"),
            ("/blockPrices/0/estimatedPrices/3", "price"),
            ("/blockPrices/0/estimatedPrices/3", "maxPriorityFeePerGas"),
            ("/blockPrices/0/estimatedPrices/3", "maxFeePerGas"),
        ] {
            let error = komodo::parse_blocknative(&without(BLOCKNATIVE, place, name));
            assert!(error.is_err(), "{place}/{name}");
            let body = with(BLOCKNATIVE, &format!("{place}/{name}"), json!(null));
            assert!(komodo::parse_blocknative(&body).is_err(), "{place}/{name}: null");
        }
        for (place, value) in [
            ("/msSinceLastBlock", json!(14_416.5)),
            ("/msSinceLastBlock", json!(4_294_967_296_u64)),
            ("/currentBlockNumber", json!("21465702")),
            ("/blockPrices/0/estimatedTransactionCount", json!(66.5)),
            ("/blockPrices/0/estimatedPrices/0/confidence", json!(99.5)),
        ] {
            let error = komodo::parse_blocknative(&with(BLOCKNATIVE, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
    }

    #[test]
    fn komodo_reads_json_numbers_through_a_double_and_truncates() {
        let base_fee = |gwei: &str| {
            let body = BLOCKNATIVE.replace("36.233985720", gwei);
            komodo::parse_blocknative(&body).unwrap().base_fee_per_gas
        };
        assert_eq!(base_fee("20"), 20_000_000_000);
        assert_eq!(base_fee("20.0"), 20_000_000_000);
        assert_eq!(base_fee("1e-9"), 1);
        assert_eq!(base_fee("\"9.008608552\""), 9_008_608_552);
        assert_eq!(base_fee("8.000679875"), 8_000_679_875 - 1);
        let body = BLOCKNATIVE.replace("36.233985720", "-1.5");
        assert!(komodo::parse_blocknative(&body).is_err());
    }

    #[test]
    fn rrelayer_reads_the_documented_sample() {
        let gwei = 1_000_000_000;
        assert_eq!(
            rrelayer::parse(RRELAYER),
            Ok(rrelayer::Fees {
                slow: level(20 * gwei, 60 * gwei, Some((2, 12))),
                medium: level(20 * gwei, 60 * gwei, Some((2, 6))),
                fast: level(24 * gwei, 64 * gwei, Some((2, 4))),
                super_fast: level(28 * gwei, 68 * gwei, Some((2, 2))),
            })
        );
    }

    #[test]
    fn rrelayer_keeps_every_wei_and_takes_null_for_a_wait() {
        let body = with(RRELAYER, "/slow/suggestedMaxFeePerGas", json!("9.9086085529"));
        let body = with(&body, "/slow/minWaitTimeEstimate", json!(null));
        let slow = rrelayer::parse(&body).unwrap().slow;
        assert_eq!(slow, level(20_000_000_000, 9_908_608_552, None));
    }

    #[test]
    fn rrelayer_rejects_other_types_and_absent_levels() {
        for (place, value) in [
            ("/slow/suggestedMaxFeePerGas", json!(60)),
            ("/slow/suggestedMaxFeePerGas", json!("-60")),
            ("/slow/suggestedMaxFeePerGas", json!("6e1")),
            ("/slow/suggestedMaxFeePerGas", json!(null)),
            ("/slow/minWaitTimeEstimate", json!(0.25)),
            ("/slow/minWaitTimeEstimate", json!("2")),
        ] {
            let error = rrelayer::parse(&with(RRELAYER, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
        assert!(rrelayer::parse(&without(RRELAYER, "", "superFast")).is_err());
        assert!(rrelayer::parse(r#"{"title": "stale data", "status": 503}"#).is_err());
    }

    #[test]
    fn safe_pays_the_fast_price_and_takes_the_rest_for_the_tip() {
        assert_eq!(
            safe::parse(ETHERSCAN, "FastGasPrice", GWEI_FACTOR),
            Ok(safe::EstimatedGasPrice::Eip1559 {
                max_fee_per_gas: 24_000_000_000,
                max_priority_fee_per_gas: 24_000_000_000 - 19_230_609_716,
            })
        );
    }

    #[test]
    fn safe_keeps_every_wei_of_nine_decimals() {
        // The step is a prime, so the prices vary in all their digits.
        for wei in (1..2_000_000_000_000_u128).step_by(19_999_999_967) {
            let gwei = format!("{}.{:09}", wei / 1_000_000_000, wei % 1_000_000_000);
            let body = json!({"FastGasPrice": gwei, "suggestBaseFee": "0.000000001"});
            assert_eq!(
                safe::parse(&body.to_string(), "", GWEI_FACTOR),
                Ok(safe::EstimatedGasPrice::Eip1559 {
                    max_fee_per_gas: wei,
                    max_priority_fee_per_gas: wei - 1,
                })
            );
        }
    }

    #[test]
    fn safe_reads_the_configured_member_of_another_object() {
        let gas_price = |body: Value| safe::parse(&body.to_string(), "fast", GWEI_FACTOR);
        let price = Ok(safe::EstimatedGasPrice::GasPrice(20_500_000_000));
        assert_eq!(gas_price(json!({"fast": 20.5})), price);
        assert_eq!(gas_price(json!({"data": {"fast": "20.5"}, "fast": 1})), price);
        assert_eq!(gas_price(json!({"data": 0, "result": {"fast": "20.5"}})), price);
        assert!(gas_price(json!({"slow": 1})).is_err());
        assert!(gas_price(json!({"fast": {"price": 1}})).is_err());
        assert!(gas_price(json!({"result": "0x4a817c800"})).is_err());
        assert!(gas_price(json!(null)).is_err());
    }

    #[test]
    fn safe_rejects_prices_that_are_no_numbers() {
        for (place, value) in [
            ("/result/FastGasPrice", json!("fast")),
            ("/result/suggestBaseFee", json!({})),
            // The base fee is 19.2 gwei, so this makes the tip negative.
            ("/result/FastGasPrice", json!("19")),
        ] {
            let body = with(ETHERSCAN, place, value.clone());
            let error = safe::parse(&body, "FastGasPrice", GWEI_FACTOR);
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
    }

    #[test]
    fn foundry_reads_its_sample_from_strings_and_whole_numbers() {
        let oracle = foundry::GasOracle {
            safe_gas_price: 20_000_000_000,
            propose_gas_price: 22_000_000_000,
            fast_gas_price: 24_000_000_000,
            last_block: 13_053_741,
            suggested_base_fee: 19_230_609_716,
            gas_used_ratio: vec![0.370_119_078_777_807, 0.895_473_1, 0.550_911_766_666_667],
        };
        assert_eq!(foundry::parse(ETHERSCAN).as_ref(), Ok(&oracle));
        let body = with(ETHERSCAN, "/result/LastBlock", json!(13_053_741));
        let body = with(&body, "/result/FastGasPrice", json!(24));
        assert_eq!(foundry::parse(&body), Ok(oracle));
    }

    #[test]
    fn foundry_rejects_fractional_numbers_and_absent_members() {
        for (place, value) in [
            ("/status", json!(1)),
            ("/result/SafeGasPrice", json!(20.5)),
            ("/result/SafeGasPrice", json!("2e1")),
            ("/result/SafeGasPrice", json!("-20")),
            ("/result/SafeGasPrice", json!(null)),
            ("/result/LastBlock", json!("0xc72f2d")),
            ("/result/gasUsedRatio", json!("")),
            ("/result/gasUsedRatio", json!("0.4, 0.5")),
            ("/result/gasUsedRatio", json!([0.4, 0.5])),
        ] {
            let error = foundry::parse(&with(ETHERSCAN, place, value.clone()));
            assert!(error.is_err(), "{place} {value}: {error:?}");
        }
        for name in ["LastBlock", "SafeGasPrice", "suggestBaseFee", "gasUsedRatio"] {
            assert!(foundry::parse(&without(ETHERSCAN, "/result", name)).is_err(), "{name}");
        }
        let body = r#"{"status": "0", "message": "NOTOK", "result": "Max rate limit reached"}"#;
        assert_eq!(foundry::parse(body), Err("rate limit exceeded".to_owned()));
    }

    #[test]
    fn tokenbridge_reads_the_documented_sample() {
        let limits = Some(tokenbridge::GAS_PRICE_BOUNDARIES);
        let price = |speed| tokenbridge::parse(FLAT, speed, 1.0, limits);
        assert_eq!(price("slow"), Ok(1_890_000_000));
        assert_eq!(price("standard"), Ok(6_000_000_000));
        assert_eq!(price("fast"), Ok(20_000_000_000));
        assert_eq!(price("instant"), Ok(71_000_000_000));
        assert!(price("average").is_err());
        assert_eq!(tokenbridge::parse(FLAT, "fast", 1.25, limits), Ok(25_000_000_000));
    }

    #[test]
    fn tokenbridge_rounds_to_hundredths_of_a_gwei_within_its_limits() {
        let price = |price: Value, limits| {
            tokenbridge::parse(&json!({ "fast": price }).to_string(), "fast", 1.0, limits)
        };
        let limits = Some(tokenbridge::GAS_PRICE_BOUNDARIES);
        assert_eq!(price(json!("20.5"), limits), Ok(20_500_000_000));
        assert_eq!(price(json!(0.001), limits), Ok(1_000_000_000));
        assert_eq!(price(json!(5000), limits), Ok(1_000_000_000_000));
        assert_eq!(price(json!(0.001), None), Ok(0));
        // The double of 1.005 is below it; 0.125 is exact.
        assert_eq!(price(json!(1.005), None), Ok(1_000_000_000));
        assert_eq!(price(json!(0.125), None), Ok(130_000_000));
        for value in [json!(0), json!(null), json!(""), json!("fast"), json!({}), json!(false)] {
            assert!(price(value.clone(), limits).is_err(), "{value}");
        }
    }

    #[test]
    fn strings_become_numbers_as_in_javascript() {
        let bits = |value: Value| js_number(&value).to_bits();
        assert_eq!(bits(json!(" 20.50 ")), 20.5_f64.to_bits());
        assert_eq!(bits(json!("2e1")), 20_f64.to_bits());
        assert_eq!(bits(json!("")), 0_f64.to_bits());
        assert_eq!(bits(json!(true)), 1_f64.to_bits());
        for no_number in ["inf", "nan", "0x10", "1,5", "."] {
            assert!(js_number(&json!(no_number)).is_nan(), "{no_number}");
        }
    }
}
