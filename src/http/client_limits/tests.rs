use super::*;

fn client_table(limits: &Limits) -> Arc<ClientTable> {
    let trusted = ["::ffff:10.0.0.0/104", "fd00::/8"].map(|network| network.parse().unwrap());
    ClientTable::new(limits, &trusted)
}

fn parse_ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn client_is_the_last_untrusted_forwarded_address() {
    let clients = client_table(&Limits::default());
    let forwarded_client = |lists: &[&str]| {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(X_FORWARDED_FOR, list.parse().unwrap());
        }
        clients.forwarded_for(&headers).map(|address| address.to_string())
    };
    assert_eq!(forwarded_client(&[]), None);
    for (lists, client) in [
        (["192.0.2.1", ""], None),
        (["192.0.2.9", "192.0.2.1"], Some("192.0.2.1")),
        (["192.0.2.1", "10.0.0.1"], Some("192.0.2.1")),
        (["1.1.1.1, 192.0.2.1,10.0.0.1 ", "fd00::1"], Some("192.0.2.1")),
        (["1.1.1.1, nonsense", "10.0.0.1, fd00::1"], Some("10.0.0.1")),
        (["10.0.0.2", "10.0.0.1"], Some("10.0.0.2")),
        (["192.0.2.1:4711", "10.0.0.1:80"], Some("192.0.2.1")),
        (["[2001:db8::1]:4711", "::ffff:10.0.0.1"], Some("2001:db8::1")),
        (["::ffff:192.0.2.1", "[fd00::1]"], Some("192.0.2.1")),
        (["unknown", "_hidden"], None),
    ] {
        assert_eq!(forwarded_client(&lists).as_deref(), client, "{lists:?}");
    }
}

#[test]
fn ipv6_slash_64_is_one_client_and_trusted_proxies_are_exempt() {
    let limits = Limits { max_connections_per_client: 2, ..Limits::default() };
    let clients = client_table(&limits);
    let connect = |text| clients.connect(parse_ip(text));
    let (first, _second) = (connect("2001:db8::1"), connect("2001:db8::2"));
    assert!(connect("2001:db8::ffff:3").is_err());
    assert!(connect("2001:db8:0:1::1").is_ok());
    let _mapped = [connect("::ffff:192.0.2.1"), connect("192.0.2.1")];
    assert!(connect("192.0.2.1").is_err());
    drop(first);
    assert!(connect("2001:db8::4").is_ok());
    let proxies: Vec<_> = (0..10).map(|_| connect("10.1.2.3")).collect();
    assert!(proxies.iter().all(Result::is_ok));
}

#[test]
fn zero_disables_a_limit() {
    for (rate, burst) in [(0, 0), (0, 1), (1, 0)] {
        let limits = Limits {
            max_connections_per_client: 0,
            requests_per_second_per_client: rate,
            request_burst_per_client: burst,
            ..Limits::default()
        };
        let clients = client_table(&limits);
        let peers: Vec<_> =
            (0..2000).map(|_| clients.connect(parse_ip("192.0.2.1")).unwrap()).collect();
        assert!(
            peers.iter().all(|peer| {
                peer.check_rate(&HeaderMap::new(), Instant::now(), || false).is_ok()
            })
        );
    }
}

#[test]
fn a_client_is_remembered_until_its_rate_limit_has_refilled() {
    let (clients, now) = (client_table(&Limits::default()), Instant::now());
    let proxy = clients.connect(parse_ip("10.0.0.1")).unwrap();
    let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, "192.0.2.1".parse().unwrap())]);
    proxy.check_rate(&headers, now, || false).unwrap();
    // At five hundred requests a second, a thousand refill in two seconds.
    for (milliseconds, left) in [(1900, 1), (3000, 0)] {
        clients.remove_idle(now + Duration::from_millis(milliseconds));
        assert_eq!(clients.clients.lock().len(), left, "{milliseconds}");
    }
}
