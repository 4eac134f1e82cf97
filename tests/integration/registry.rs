//! The delegation registry on a real node, and the service in front of it.

use std::time::Instant;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::anvil::Anvil;
use crate::programs;
use crate::service::{Answer, DEADLINE, Service};

/// Where the networks have their registry.
pub(crate) const ADDRESS: &str = "0x00000000000000447e69651d841bD8D104Bed493";
/// Who delegates: the first of anvil's accounts.
pub(crate) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// To whom: the second of them.
pub(crate) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// A contract of which things are delegated. There need not be one.
pub(crate) const CONTRACT: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// No rights in particular.
pub(crate) const ANY: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
/// The rights "claim".
pub(crate) const CLAIM: &str = "0x636c61696d000000000000000000000000000000000000000000000000000000";
/// 2²⁵⁶ − 1.
pub(crate) const MAX: &str =
    "115792089237316195423570985008687907853269984665640564039457584007913129639935";

/// The code of the registry.
pub(crate) async fn runtime() -> &'static str {
    static RUNTIME: OnceCell<String> = OnceCell::const_new();
    let compile = async || {
        let mut command = programs::node(&["solc"]);
        command.arg(programs::script("compile.mjs"));
        command.arg(crate::fixtures::path("tests/fixtures/delegation/Registry.sol"));
        let compiled: Value = serde_json::from_str(&programs::success(command).await).unwrap();
        compiled["Registry"]["runtime"].as_str().unwrap().to_owned()
    };
    RUNTIME.get_or_init(compile).await
}

/// Puts `code` where the registry is.
pub(crate) async fn put(node: &Anvil, code: &str) {
    node.call("anvil_setCode", json!([ADDRESS, code])).await;
}

/// A chain at this node whose blocks come often, for the chain's `key`.
pub(crate) fn chain(key: &str, id: u64, node: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {id}\nrpc_urls = [\"{node}\"]\nblock_time = \"250ms\"\n\
         stall_after = \"0s\"\n"
    )
}

/// A node with the registry, and a service that knows it as `ronin`.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) node: Anvil,
    pub(crate) service: Service,
}

impl Registry {
    /// On a node that mines by itself, with the chain for the source of look-ups.
    pub(crate) async fn start() -> Self {
        Self::with("source = \"chain\"", &[]).await
    }

    /// With this in the `[delegation]` section and these arguments for the node.
    pub(crate) async fn with(delegation: &str, arguments: &[&str]) -> Self {
        let node = Anvil::start(0, arguments);
        put(&node, runtime().await).await;
        Self::of(node, delegation).await
    }

    /// With a node that has whatever it has at the registry's address.
    pub(crate) async fn of(node: Anvil, delegation: &str) -> Self {
        let chain = chain("ronin", 2020, &node.url());
        let service = Service::start(&format!("[delegation]\n{delegation}\n{chain}")).await;
        service.wait_for("/readyz", |answer| answer.status == 200).await;
        Self { node, service }
    }

    /// The JSON that the chain answers to a look-up.
    pub(crate) async fn look_up(&self, path: &str) -> String {
        look_up(&self.service, path).await
    }

    /// The same to a check of whether [`DELEGATE`] may act for [`VAULT`], with `more` in the query.
    pub(crate) async fn check(&self, scope: &str, more: &str) -> String {
        self.look_up(&format!("/registry/v2/check/{scope}?from={VAULT}&to={DELEGATE}{more}")).await
    }

    /// Asks for the transaction of this request.
    pub(crate) async fn ask_for(&self, request: &Value) -> Answer {
        post(&self.service, "/v1/ronin/delegations/transactions", request).await
    }

    /// The transaction of a request that has to succeed.
    pub(crate) async fn transaction(&self, request: &Value) -> Value {
        let answer = self.ask_for(request).await;
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
        answer.json()
    }

    /// Hands the transaction of this request to the node as it is, and gives its hash.
    pub(crate) async fn send(&self, request: &Value) -> String {
        let transaction = self.transaction(request).await;
        let hash = self.node.call("eth_sendTransaction", json!([transaction])).await;
        hash.as_str().unwrap().to_owned()
    }

    /// The same on a node that mines by itself, until the service knows of its block.
    pub(crate) async fn give(&self, request: &Value) {
        let hash = self.send(request).await;
        self.wait_until_mined(&hash).await;
    }

    /// Waits until the transaction is in a block that the service knows, and was not refused there.
    pub(crate) async fn wait_until_mined(&self, hash: &str) {
        wait_for_receipt(&self.node, hash).await;
        self.service.wait_for_head("ronin", &self.node).await;
    }
}

/// Waits until the transaction is in a block, where it was not refused. A node that mines by itself does so
/// after it has answered for it.
pub(crate) async fn wait_for_receipt(node: &Anvil, hash: &str) {
    let deadline = Instant::now() + DEADLINE;
    let receipt = loop {
        let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
        if !receipt.is_null() {
            break receipt;
        }
        assert!(Instant::now() < deadline, "{hash} is not mined");
    };
    assert_eq!(receipt["status"], "0x1", "{receipt}");
}

/// The JSON that the chain answers to a look-up of this service.
pub(crate) async fn look_up(service: &Service, path: &str) -> String {
    let answer = service.get(path).await;
    let names = ["x-delegation-source", "content-type", "cache-control"];
    let headers = names.map(|name| answer.header(name));
    assert_eq!(
        (answer.status, headers),
        (200, ["chain", "application/json", "no-store"]),
        "{path}: {answer:?}"
    );
    answer.body
}

/// Posts this JSON.
pub(crate) async fn post(service: &Service, path: &str, body: &Value) -> Answer {
    let request = Client::new().request(Method::POST, service.url(path)).body(body.to_string());
    Answer::of(request.send().await.unwrap()).await
}

/// The request by which [`VAULT`] gives [`DELEGATE`] what `more` says.
pub(crate) fn request(action: &str, more: Value) -> Value {
    let mut request = json!({ "from": VAULT, "to": DELEGATE, "action": action });
    let Value::Object(more) = more else { panic!("{more}") };
    request.as_object_mut().unwrap().extend(more);
    request
}

/// What an answer has to be where the service itself has an error to tell.
pub(crate) fn assert_problem(answer: &Answer, status: u16, code: &str, detail: &str) {
    let title = reqwest::StatusCode::from_u16(status).unwrap().canonical_reason().unwrap();
    let expected = json!({
        "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code,
        "request_id": answer.header("x-request-id"),
    });
    assert_eq!((answer.status, answer.json()), (status, expected), "{answer:?}");
    let headers = ["content-type", "cache-control", "x-delegation-source"];
    let headers = headers.map(|name| answer.header(name));
    assert_eq!(headers, ["application/problem+json", "no-store", ""], "{answer:?}");
    assert_ne!(answer.header("x-request-id"), "");
}
