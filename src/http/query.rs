//! Queries: the type of a route's parameters is their parser and their description.
//!
//! Names that the route does not have are ignored, because proxies, cache busters and polyfills add some. A name close to
//! one that it has is an error, because without the parameter the client would get the answer to another question.

use std::cell::RefCell;
use std::fmt::Display;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::Segment;

use super::problem::{Problem, ProblemCode};
use crate::config::nearest::is_close;
use crate::config::units::parse_digits;

/// Most parameters of a query. No route has so many, and each one costs time.
const MAX_PAIRS: usize = 256;

/// The parameters of a query: a struct, or a tuple of structs. Every error names the parameter.
#[derive(Debug)]
pub(crate) struct ValidQuery<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for ValidQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = QueryReader::new(parts.uri.query())?;
        let parameters = query.read()?;
        query.reject_close_names()?;
        Ok(Self(parameters))
    }
}

/// Returns the problem of an invalid parameter `name`.
pub(crate) fn invalid_parameter(name: &str, requirement: impl Display) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, format!("`{name}` {requirement}"))
}

/// Decodes a part of a query. A plus sign is a space.
fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// Names and values of a query, for routes with another rule for names.
pub(crate) struct QueryReader {
    /// `None`: the value is not UTF-8.
    pub(crate) pairs: Vec<(String, Option<String>)>,
    /// Names of the parameters that were read.
    pub(crate) known: RefCell<Vec<&'static str>>,
}

impl QueryReader {
    /// Decodes all names and values, of which there may be [`MAX_PAIRS`], empty ones included.
    pub(crate) fn new(query: Option<&str>) -> Result<Self, Problem> {
        let query = query.unwrap_or_default();
        if query.split('&').nth(MAX_PAIRS).is_some() {
            let detail = format!("a query may have at most {MAX_PAIRS} parameters");
            return Err(Problem::new(ProblemCode::InvalidParameter, detail));
        }
        let mut pairs = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !name.is_empty() {
                let name = String::from_utf8_lossy(&decoded(name)).into_owned();
                pairs.push((name, String::from_utf8(decoded(value)).ok()));
            }
        }
        Ok(Self { pairs, known: RefCell::default() })
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_path_to_error::deserialize(self).map_err(|error| {
            let name = error.path().iter().find_map(|segment| match segment {
                Segment::Map { key } => Some(key.clone()),
                _ => None,
            });
            let QueryError(detail) = error.into_inner();
            match name {
                Some(name) => invalid_parameter(&name, detail),
                // An error that concerns no value names its parameter itself.
                None => Problem::new(ProblemCode::InvalidParameter, detail),
            }
        })
    }

    fn reject_close_names(&self) -> Result<(), Problem> {
        let known = self.known.borrow();
        for name in self.unknown_names(&known) {
            if let Some(close) = known.iter().find(|known| is_close(name, known)) {
                return Err(unknown_name(name, &format!("did you mean `{close}`?")));
            }
        }
        Ok(())
    }

    pub(crate) fn unknown_names(&self, known: &[&'static str]) -> impl Iterator<Item = &str> {
        let names = self.pairs.iter().map(|(name, _)| name.as_str());
        names.filter(|name| !known.contains(name))
    }
}

pub(crate) fn unknown_name(name: &str, hint: &str) -> Problem {
    const MAX_NAME_CHARACTERS: usize = 40;
    let shown: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
    invalid_parameter(&shown, format_args!("is not a query parameter of this route; {hint}"))
}

impl<'de> Deserializer<'de> for &'de QueryReader {
    type Error = QueryError;

    /// Hands over the parameters that have the names of the struct's fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        self.known.borrow_mut().extend(fields);
        let known = self.pairs.iter().filter(|(name, _)| fields.contains(&name.as_str()));
        let pairs = known.map(|(name, value)| (name.as_str(), Value(value.as_deref())));
        visitor.visit_map(MapDeserializer::new(pairs))
    }

    /// Hands over the whole query for each element.
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_seq(SeqDeserializer::new(std::iter::repeat_n(self, length)))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, QueryError> {
        Err(de::Error::custom("parameters are a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple_struct map enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, QueryError> for &'de QueryReader {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// One value; `None`: it is not UTF-8.
#[derive(Clone, Copy)]
struct Value<'de>(Option<&'de str>);

impl<'de> Value<'de> {
    fn text(self) -> Result<&'de str, QueryError> {
        self.0.ok_or_else(|| QueryError("must be UTF-8".to_owned()))
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let number = parse_digits(self.text()?);
        visitor.visit_u64(number.ok_or_else(|| QueryError("must be a whole number".to_owned()))?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let number = self.text()?.parse().ok().filter(|number: &f64| number.is_finite());
        visitor.visit_f64(number.ok_or_else(|| QueryError("must be a number".to_owned()))?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_enum(StrDeserializer::new(self.text()?))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, QueryError> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Why a query has no value of the type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct QueryError(String);

impl de::Error for QueryError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn missing_field(name: &'static str) -> Self {
        Self(format!("`{name}` is required"))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self(format!("`{name}` must be given once"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let (last, others) = expected.split_last().unwrap_or((&"", &[]));
        match others {
            [] => Self(format!("must be `{last}`")),
            others => Self(format!("must be `{}` or `{last}`", others.join("`, `"))),
        }
    }
}

#[cfg(test)]
mod tests;
