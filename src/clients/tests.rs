use super::*;

fn clients(limits: &Limits) -> Clients {
    let trusted = ["::ffff:10.0.0.0/104", "fd00::/8"].map(|network| network.parse().unwrap());
    Clients::new(limits, &trusted)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_client_is_the_last_that_no_trusted_proxy_vouches_for() {
    let clients = clients(&Limits::default());
    let found = |lists: &[&str]| {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(X_FORWARDED_FOR, list.parse().unwrap());
        }
        clients.forwarded_for(&headers).map(|address| address.to_string())
    };
    assert_eq!(found(&[]), None);
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
        assert_eq!(found(&lists).as_deref(), client, "{lists:?}");
    }
}

#[test]
fn a_budget_is_spent_and_refills() {
    let limits = Limits {
        requests_per_second_per_client: 20,
        request_burst_per_client: 3,
        ..Limits::default()
    };
    let clients = clients(&limits);
    let (one, other) =
        (clients.connect(address("192.0.2.1")).unwrap(), clients.connect(address("192.0.2.2")));
    let none = HeaderMap::new();
    let mut allowed = 0;
    let wait = loop {
        match one.spend(&none) {
            Ok(()) => allowed += 1,
            Err(wait) => break wait,
        }
        assert!(allowed < 100, "the budget has no end");
    };
    assert!(allowed >= 3, "{allowed}");
    assert!(wait <= Duration::from_millis(50), "{wait:?}");
    // Another client's budget is its own; another connection of the same client shares it.
    assert!(other.unwrap().spend(&none).is_ok());
    assert!(clients.connect(address("::ffff:192.0.2.1")).unwrap().spend(&none).is_err());
    let deadline = Instant::now() + Duration::from_secs(5);
    while one.spend(&none).is_err() {
        assert!(Instant::now() < deadline, "it never refills");
    }
}

#[test]
fn an_ipv6_network_is_one_client_and_a_trusted_proxy_is_none() {
    let limits = Limits { max_connections_per_client: 2, ..Limits::default() };
    let clients = clients(&limits);
    let connect = |text| clients.connect(address(text));
    let (first, _second) = (connect("2001:db8::1"), connect("2001:db8::2"));
    assert!(connect("2001:db8::ffff:3").is_err());
    assert!(connect("2001:db8:0:1::1").is_ok());
    drop(first);
    assert!(connect("2001:db8::4").is_ok());
    let proxies: Vec<_> = (0..10).map(|_| connect("10.1.2.3")).collect();
    assert!(proxies.iter().all(Result::is_ok));
}

#[test]
fn clients_that_are_gone_are_forgotten_once_their_budget_is_whole() {
    let clients = clients(&Limits::default());
    let visitor = clients.connect(address("192.0.2.1")).unwrap();
    let proxy = clients.connect(address("10.0.0.1")).unwrap();
    for count in 0..=255 {
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, format!("192.0.2.{count}").parse().unwrap());
        proxy.spend(&headers).unwrap();
    }
    // A thousand requests at five hundred a second are made up for in two seconds.
    let now = Instant::now();
    clients.sweep(now + Duration::from_millis(1900));
    assert_eq!(clients.table().len(), 256);
    clients.sweep(now + Duration::from_secs(3));
    assert_eq!(clients.table().len(), 1);
    drop(visitor);
    clients.sweep(Instant::now() + Duration::from_secs(3));
    assert_eq!(clients.table().len(), 0);
}

#[test]
fn zero_is_no_limit() {
    for (rate, burst) in [(0, 0), (0, 1), (1, 0)] {
        let limits = Limits {
            max_connections_per_client: 0,
            requests_per_second_per_client: rate,
            request_burst_per_client: burst,
            ..Limits::default()
        };
        let clients = clients(&limits);
        let visitors: Vec<_> =
            (0..2000).map(|_| clients.connect(address("192.0.2.1")).unwrap()).collect();
        assert!(visitors.iter().all(|visitor| visitor.spend(&HeaderMap::new()).is_ok()));
    }
}
