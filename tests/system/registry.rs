//! The delegation registry on a real node, and a service that uses it.

use alloy_primitives::{Address, B256, U256, hex};
use alloy_sol_types::{SolCall, sol};
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::test_server::{Response, TestServer, wait_until};

/// Address of the registry on public networks.
pub(crate) const ADDRESS: &str = "0x00000000000000447e69651d841bD8D104Bed493";
/// The delegating account, anvil's first.
pub(crate) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// The delegate, anvil's second account.
pub(crate) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// The contract in delegations. It need not exist.
pub(crate) const CONTRACT: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// Rights of a delegation that is not limited to certain rights.
pub(crate) const ANY: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
/// The rights "claim".
pub(crate) const CLAIM: &str = "0x636c61696d000000000000000000000000000000000000000000000000000000";
/// 2²⁵⁶ − 1.
pub(crate) const MAX: &str =
    "115792089237316195423570985008687907853269984665640564039457584007913129639935";

/// Returns the runtime code of the registry on public networks: version 2 of delegate.xyz's (CC0).
///
/// The fixture is its creation code. The address that it was created at proves that.
pub(crate) fn deployed_code() -> String {
    let factory: Address = "0x0000000000FFe8B47B3e2130213B802212439497".parse().unwrap();
    let salt: B256 =
        "0x00000000000000000000000000000000000000002bbc593dd77cb93fbb932d5f".parse().unwrap();
    let path = crate::fixtures::path("tests/fixtures/delegation/DelegateRegistry.hex");
    let creation = hex::decode(std::fs::read_to_string(path).unwrap().trim_end()).unwrap();
    assert_eq!(factory.create2_from_code(salt, &creation).to_string(), ADDRESS);
    // The constructor is the first 32 bytes.
    hex::encode_prefixed(&creation[32..])
}

/// Installs `code` at the registry's address.
pub(crate) async fn install_code(node: &Anvil, code: &str) {
    node.call("anvil_setCode", json!([ADDRESS, code])).await;
}

/// Returns the configuration of a chain with this node and short blocks.
pub(crate) fn chain(key: &str, id: u64, node: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {id}\njson_rpc = true\nrpc_urls = [\"{node}\"]\nblock_time = \"250ms\"\n\
         stall_after = \"0s\"\n"
    )
}

/// A node with the registry, and a service whose chain `ronin` uses the node.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) node: Anvil,
    pub(crate) service: TestServer,
}

impl Registry {
    /// Starts a node that mines each transaction, and a service with the chain as the source of look-ups.
    pub(crate) async fn start() -> Self {
        Self::start_with("source = \"chain\"", &[]).await
    }

    /// Starts a node with these arguments, and a service with this `[delegation]` section.
    pub(crate) async fn start_with(delegation: &str, arguments: &[&str]) -> Self {
        let node = Anvil::start(arguments);
        install_code(&node, &deployed_code()).await;
        Self::with_node(node, delegation).await
    }

    /// Starts a service with this `[delegation]` section on `node`, without installing the registry.
    pub(crate) async fn with_node(node: Anvil, delegation: &str) -> Self {
        let chain = chain("ronin", 2020, &node.url());
        let service = TestServer::start(&format!("[delegation]\n{delegation}\n{chain}")).await;
        service.wait_for_ok("/readyz").await;
        Self { node, service }
    }

    /// Returns the body of a look-up, which must be read from the chain.
    pub(crate) async fn look_up(&self, path: &str) -> String {
        look_up(&self.service, path).await
    }

    /// Checks if [`DELEGATE`] may act for [`VAULT`], with `more` in the query. Returns the response body.
    pub(crate) async fn check(&self, scope: &str, more: &str) -> String {
        self.look_up(&format!("/registry/v2/check/{scope}?from={VAULT}&to={DELEGATE}{more}")).await
    }

    /// Sends the transaction of `request` and returns its hash.
    pub(crate) async fn send(&self, request: &Value) -> String {
        send(&self.node, ADDRESS, request).await
    }

    /// Sends the transaction of `request`, and waits until the service has read its block.
    pub(crate) async fn execute(&self, request: &Value) {
        let hash = self.send(request).await;
        self.wait_until_mined(&hash).await;
    }

    /// Waits until the transaction has succeeded in a block that the service has read.
    pub(crate) async fn wait_until_mined(&self, hash: &str) {
        wait_for_receipt(&self.node, hash).await;
        self.service.wait_for_head("ronin", &self.node).await;
    }
}

/// Waits until the transaction has succeeded in a block. A node that mines each transaction at once may do so only
/// after its reply to `eth_sendTransaction`.
pub(crate) async fn wait_for_receipt(node: &Anvil, hash: &str) -> Value {
    let mut receipt = Value::Null;
    wait_until("a receipt", async || {
        receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
        !receipt.is_null()
    })
    .await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    receipt
}

/// Returns the body of a look-up, which must be read from the chain.
pub(crate) async fn look_up(service: &TestServer, path: &str) -> String {
    let response = service.get(path).await;
    let names = ["x-delegation-source", "content-type", "cache-control"];
    let headers = names.map(|name| response.header(name));
    assert_eq!(
        (response.status, headers),
        (200, ["chain", "application/json", "no-store"]),
        "{path}: {response:?}"
    );
    response.body
}

sol! {
    function delegateAll(address to, bytes32 rights, bool enable);
    function delegateContract(address to, address contract_, bytes32 rights, bool enable);
    function delegateERC721(address to, address contract_, uint256 tokenId, bytes32 rights, bool enable);
    function delegateERC20(address to, address contract_, bytes32 rights, uint256 amount);
    function delegateERC1155(address to, address contract_, uint256 tokenId, bytes32 rights, uint256 amount);
}

/// Sends the transaction of `request` to the registry at this address, and returns its hash.
pub(crate) async fn send(node: &Anvil, registry: &str, request: &Value) -> String {
    let data = hex::encode_prefixed(calldata(request));
    let transaction = json!({ "from": request["from"], "to": registry, "data": data });
    let hash = node.call("eth_sendTransaction", json!([transaction])).await;
    hash.as_str().unwrap().to_owned()
}

/// Encodes the call of a request as [`request`] returns it.
fn calldata(request: &Value) -> Vec<u8> {
    let address = |name: &str| -> Address { request[name].as_str().unwrap().parse().unwrap() };
    let number = |name: &str| -> U256 {
        let number = &request[name];
        number.as_str().map_or_else(|| number.to_string(), str::to_owned).parse().unwrap()
    };
    let rights = request["rights"].as_str().unwrap_or_default();
    let rights = rights.parse().unwrap_or_else(|_| B256::right_padding_from(rights.as_bytes()));
    let enable = request["enable"].as_bool().unwrap_or(true);
    let amount = || if enable { number("amount") } else { U256::ZERO };
    let (to, contract_) = (address("to"), || address("contract"));
    match request["action"].as_str().unwrap() {
        "delegate_all" => delegateAllCall { to, rights, enable }.abi_encode(),
        "delegate_contract" => {
            delegateContractCall { to, contract_: contract_(), rights, enable }.abi_encode()
        }
        "delegate_erc721" => {
            let token_id = number("token_id");
            let contract_ = contract_();
            delegateERC721Call { to, contract_, tokenId: token_id, rights, enable }.abi_encode()
        }
        "delegate_erc20" => {
            let (contract_, amount) = (contract_(), amount());
            delegateERC20Call { to, contract_, rights, amount }.abi_encode()
        }
        "delegate_erc1155" => {
            let (contract_, token_id, amount) = (contract_(), number("token_id"), amount());
            delegateERC1155Call { to, contract_, tokenId: token_id, rights, amount }.abi_encode()
        }
        action => panic!("{action}"),
    }
}

pub(crate) async fn post(service: &TestServer, path: &str, body: &Value) -> Response {
    service.post(path, body.to_string()).await
}

/// Returns a change of a delegation from [`VAULT`] to [`DELEGATE`] with the members `more`.
pub(crate) fn request(action: &str, more: Value) -> Value {
    let mut request = json!({ "from": VAULT, "to": DELEGATE, "action": action });
    let Value::Object(more) = more else { panic!("{more}") };
    request.as_object_mut().unwrap().extend(more);
    request
}

/// Returns the kinds of delegation: the scope of their checks, further parameters of these, and the change that makes one.
pub(crate) fn kinds() -> [(&'static str, String, Value); 5] {
    let contract = format!("&contract={CONTRACT}");
    let token = format!("{contract}&tokenId=7");
    [
        ("all", String::new(), json!({})),
        ("contract", contract.clone(), json!({ "contract": CONTRACT })),
        ("erc721", token.clone(), json!({ "contract": CONTRACT, "token_id": 7 })),
        ("erc20", contract, json!({ "contract": CONTRACT, "amount": 3 })),
        ("erc1155", token, json!({ "contract": CONTRACT, "token_id": 7, "amount": 4 })),
    ]
    .map(|(scope, query, members)| (scope, query, request(&format!("delegate_{scope}"), members)))
}

/// Asserts that the response is this problem document of the service itself.
pub(crate) fn assert_problem(response: &Response, status: u16, code: &str, detail: &str) {
    let title = reqwest::StatusCode::from_u16(status).unwrap().canonical_reason().unwrap();
    let expected = json!({
        "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code,
        "request_id": response.header("x-request-id"),
    });
    assert_eq!((response.status, response.json()), (status, expected), "{response:?}");
    let headers = ["content-type", "cache-control", "x-delegation-source"];
    let headers = headers.map(|name| response.header(name));
    assert_eq!(headers, ["application/problem+json", "no-store", ""], "{response:?}");
    assert_ne!(response.header("x-request-id"), "");
}
