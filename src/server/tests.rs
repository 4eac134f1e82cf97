mod document;

use super::*;
use crate::api::route_table::RouteTable;
use crate::extras::sections;

#[test]
fn kept_blocks_and_needs_of_features_reduce_the_memory_of_clients() {
    let budget = |blocks: usize, block_time: &str| {
        let toml = format!(
            "[limits]\nmemory = \"512 MiB\"\n[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]\n\
             history_blocks = {blocks}\nblock_time = \"{block_time}\""
        );
        let config = Config::from_toml(&toml, &sections()).unwrap();
        assemble(&config).unwrap().memory_shares.budget
    };
    let bytes = 65_535 * size_of::<crate::fees::Block>() / 2;
    assert!(budget(1, "12s") - budget(65_536, "12s") >= bytes - 1);
    // A fast chain has more samples of its prices.
    assert!(budget(1, "12s") - budget(1, "1s") > 50_000);
}

fn table() -> RouteTable {
    let toml = "[server]\nbase_path = \"/base\"\n[chains.a]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1\"]\n\
                [delegation]\nsource = \"chain\"\n[verification]\nurl = \"http://127.0.0.1/\"";
    let config = Config::from_toml(toml, &sections()).unwrap();
    let routes = api::describe(&config, &assemble(&config).unwrap().routes).routes;
    RouteTable::new(routes, Vec::new())
}

#[test]
fn a_trailing_slash_is_recognised_for_known_routes_only() {
    let table = table();
    for (path, name) in [
        ("/base/v1/", Some("v1")),
        ("/base/v1/any/gas-suggestion/", Some("gas-suggestion")),
        ("/base/rpc/any/", None),
        ("/base/registry/v2/0xAb/", Some("0xAb")),
        ("/v1/any/gas-suggestion/", None),
        ("/base/v1/any/gas-suggestion", None),
        ("/base/v1/any/gas-suggestion//", None),
        ("/base/v1//gas-suggestion/", None),
        ("//evil.example/", None),
        ("//", None),
        ("", None),
    ] {
        assert_eq!(table.redirect(path), name, "{path}");
    }
}
