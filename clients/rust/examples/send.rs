//! Sends a transfer with the fees of the service. Set `PRIVATE_KEY` to one of those that anvil prints.

use std::env::var;

use alloy::network::TransactionBuilder;
use alloy::primitives::{address, utils::parse_ether};
use alloy::providers::{Provider, ProviderBuilder};
use alloy::rpc::types::TransactionRequest;
use alloy::signers::local::PrivateKeySigner;
use gas_suggestion_alloy::{GasSuggestionFiller, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let signer: PrivateKeySigner = var("PRIVATE_KEY")?.parse()?;
    let suggestions = GasSuggestionFiller::new(&var("SERVICE")?, Options::default())?;
    let provider = ProviderBuilder::new()
        .disable_recommended_fillers()
        .filler(suggestions)
        .with_cached_nonce_management()
        .fetch_chain_id()
        .wallet(signer)
        .connect(&var("RPC_URL")?)
        .await?;

    let to = address!("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
    let transfer = TransactionRequest::default().with_to(to).with_value(parse_ether("0.01")?);
    let receipt = provider.send_transaction(transfer).await?.get_receipt().await?;
    println!("{} cost {} wei per gas", receipt.transaction_hash, receipt.effective_gas_price);
    Ok(())
}
