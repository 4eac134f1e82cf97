//! Report of a start: a few lines on a terminal, else one line in the log.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::config::{Chain, Config, LogFormat};

/// Chains that are listed; the rest is counted.
const MAX_LISTED: usize = 20;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reports a service that listens at these addresses.
pub(crate) fn report(config: &Config, address: SocketAddr, admin: SocketAddr) {
    let dashboard = format!("http://{}{}/", reachable(address), config.server.base_path);
    let file = config.origin.as_str();
    if config.log.format == LogFormat::Text && std::io::stderr().is_terminal() {
        let text = text(&config.chains, &dashboard, admin, file);
        // A closed terminal is no reason to stop.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return;
    }
    let chains: Vec<_> = config.chains.iter().take(MAX_LISTED).map(describe).collect();
    // The target of the server's other lines, which filters name.
    tracing::info!(
        target: "gas_suggestion::server",
        %address,
        %admin,
        version = VERSION,
        dashboard,
        configuration = file,
        chain_count = config.chains.len(),
        chains = chains.join("; "),
        "listening"
    );
}

fn text(chains: &[Chain], dashboard: &str, admin: SocketAddr, file: &str) -> String {
    let mut text = format!(
        "gas-suggestion {VERSION}\n\n  Dashboard      {dashboard}\n  Metrics        http://{}/metrics\n  \
         Configuration  {file}\n",
        reachable(admin)
    );
    let mut title = "Chains";
    for chain in chains.iter().take(MAX_LISTED) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {title:<13}  {}", describe(chain));
        title = "";
    }
    if let Some(more) = chains.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        let _ = writeln!(text, "  {:<13}  and {more} more", "");
    }
    text.push('\n');
    text
}

/// Returns a chain's key, id, preset and numbers of URLs.
pub(crate) fn describe(chain: &Chain) -> String {
    let urls = match chain.rpc_urls.len() {
        1 => "1 RPC URL".into(),
        count => format!("{count} RPC URLs"),
    };
    let reads = match chain.upstream_urls().len().saturating_sub(chain.rpc_urls.len()) {
        0 => String::new(),
        count => format!(", {count} more for reads"),
    };
    let preset = chain.preset.map_or("no preset".into(), |preset| format!("preset {preset}"));
    format!("{} (id {}, {preset}, {urls}{reads})", chain.key, chain.chain_id)
}

/// Returns an address at which a program on this machine reaches a listener.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_links_and_chains() {
        let mut toml = String::new();
        for id in 8453..8475 {
            let _ = writeln!(toml, "[chains.c{id}]\nchain_id = {id}\nrpc_urls = [\"http://a\"]");
        }
        let config = Config::from_toml(&toml, &[]).unwrap();
        let admin = "127.0.0.1:9090".parse().unwrap();
        let text = text(&config.chains, "http://127.0.0.1:8080/gas/", admin, "my.toml");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], format!("gas-suggestion {VERSION}"));
        assert_eq!(
            lines[2..7],
            [
                "  Dashboard      http://127.0.0.1:8080/gas/",
                "  Metrics        http://127.0.0.1:9090/metrics",
                "  Configuration  my.toml",
                "  Chains         c8453 (id 8453, preset Base, 1 RPC URL)",
                "                 c8454 (id 8454, no preset, 1 RPC URL)",
            ]
        );
        assert_eq!(lines[25], "                 and 2 more");
        assert_eq!(reachable("0.0.0.0:1".parse().unwrap()).to_string(), "127.0.0.1:1");
        assert_eq!(reachable("[::]:1".parse().unwrap()).to_string(), "[::1]:1");
    }
}
