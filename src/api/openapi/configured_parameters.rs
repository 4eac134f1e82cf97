//! Parameters whose description depends on the configuration.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{Components, Object, Ref, RefOr, Schema};

use super::operations;
use crate::api::openapi_components::parameters::RequestId;
use crate::config::Config;

/// Replaces the parameters of all operations by references to shared ones, which state what `config` allows.
pub(super) fn deduplicate_parameters(document: &mut utoipa::openapi::OpenApi, config: &Config) {
    let mut components = BTreeMap::new();
    for operation in operations(document) {
        let parameters = operation.parameters.get_or_insert_default();
        let common = RequestId::into_params(|| None).into_iter().map(RefOr::T);
        parameters.extend(common);
        for slot in parameters {
            let RefOr::T(parameter) = slot else { continue };
            apply_config(parameter, config);
            let location = json!(parameter.parameter_in);
            let name = format!("{}.{}", location.as_str().unwrap_or_default(), parameter.name);
            let reference = RefOr::Ref(Ref::new(format!("#/components/parameters/{name}")));
            let component: &RefOr<_> = components.entry(name).or_insert_with(|| slot.clone());
            // A different parameter with the same name stays inline.
            if component == slot {
                *slot = reference;
            }
        }
    }
    document.components.get_or_insert_with(Components::new).parameters = components;
}

/// Adds the allowed values that depend on the configuration.
fn apply_config(parameter: &mut Parameter, config: &Config) {
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { return };
    let Object { enum_values, maximum, .. } = schema;
    let chains = config.chains.iter();
    match (&parameter.parameter_in, parameter.name.as_str()) {
        (ParameterIn::Path, "chain") => {
            let names = chains.flat_map(|chain| [chain.key.clone(), chain.chain_id.to_string()]);
            *enum_values = Some(names.map(Value::from).collect());
        }
        (ParameterIn::Query, "chainId") => {
            *enum_values = Some(chains.map(|chain| json!(chain.chain_id)).collect());
        }
        (ParameterIn::Query, "blocks") => {
            *maximum = chains.map(|chain| chain.history_blocks.get()).max().map(Into::into);
        }
        _ => {}
    }
}
