//! Parameters of other services' clients.

use crate::api::route_table::decoded;
use crate::http::parameters::invalid_parameter;
use crate::http::problem::Problem;

/// Returns the value of this parameter. Its name may be written in any case, and with underscores. All other parameters are
/// ignored, whatever they contain.
pub(super) fn parameter(query: &str, name: &str) -> Result<Option<String>, Problem> {
    let is_name = |text: &str| decoded(text).replace('_', "").eq_ignore_ascii_case(name);
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(known, _)| is_name(known)).map(|(_, value)| decoded(value));
    let value = values.next();
    match values.next() {
        Some(_) => Err(invalid_parameter(name, "must be given once")),
        None => Ok(value),
    }
}
