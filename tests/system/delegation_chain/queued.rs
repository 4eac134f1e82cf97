//! Pending state, on a node that mines on command.

use serde_json::{Value, json};

use crate::registry::{DELEGATE, Registry, kinds};

#[tokio::test]
async fn queued_delegations_are_pending_until_mined() {
    let registry = Registry::start_with("source = \"chain\"", &["--no-mining"]).await;
    let list = format!("/registry/v2/{DELEGATE}?direction=incoming&block=");
    let listed_count = async |block| {
        let list: Value =
            serde_json::from_str(&registry.look_up(&format!("{list}{block}")).await).unwrap();
        list.as_array().unwrap().len()
    };
    for (scope, more, request) in kinds() {
        let [given, not_given] = match scope {
            "erc20" => ["\"3\"", "\"0\""],
            "erc1155" => ["\"4\"", "\"0\""],
            _ => ["true", "false"],
        };
        // Asserts the check of this kind and the length of the list, for the pending and for the latest block.
        let assert_is_given = async |pending: bool, latest: bool| {
            for (block, is_given) in [("pending", pending), ("latest", latest)] {
                let checked = registry.check(scope, &format!("{more}&block={block}")).await;
                let expected = (if is_given { given } else { not_given }, usize::from(is_given));
                assert_eq!((&*checked, listed_count(block).await), expected, "{scope} {block}");
            }
        };
        let mine = async |hash: String| {
            registry.node.call("anvil_mine", json!([])).await;
            registry.wait_until_mined(&hash).await;
        };
        assert_is_given(false, false).await;
        let hash = registry.send(&request).await;
        assert_is_given(true, false).await;
        mine(hash).await;
        assert_is_given(true, true).await;
        // `block` defaults to `latest`.
        assert_eq!(registry.check(scope, &more).await, given, "{scope}");

        let mut revocation = request;
        revocation["enable"] = json!(false);
        let hash = registry.send(&revocation).await;
        assert_is_given(false, true).await;
        mine(hash).await;
        assert_is_given(false, false).await;
    }
}
