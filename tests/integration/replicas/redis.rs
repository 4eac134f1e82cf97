//! A real `redis-server` that a test can end, freeze, start again and speak to.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::life::Life;
use crate::raw::{PATIENCE, free_port};
use crate::wall_clock::WallClock;

/// A server on loopback ports of its own, without anything on disk; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Redis {
    port: u16,
    tls_port: Option<u16>,
    folder: PathBuf,
    arguments: Vec<String>,
    /// What it takes for the time of day; `None`: what everybody does.
    wall_clock: Option<WallClock>,
    password: Mutex<Option<String>>,
    life: Life,
    /// The test's own connection, which stays the same as long as it works.
    client: Mutex<Option<Client>>,
    overheard: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::of(&[], None, None, None)
    }

    /// One that wants this password of its default user.
    pub(crate) fn with_password(password: &str) -> Self {
        Self::of(&["--requirepass", password], Some(password), None, None)
    }

    /// One whose time of day can [`step`](Self::step).
    pub(crate) fn with_wall_clock() -> Self {
        let wall_clock = WallClock::new(&format!("redis-{}", free_port()));
        Self::of(&[], None, None, Some(wall_clock))
    }

    /// One that speaks TLS too, with a certificate that `authority` signs.
    pub(crate) fn with_tls(authority: &Authority) -> Self {
        let (certificate, key) = authority.sign("redis");
        let paths = [&certificate, &key, &authority.certificate];
        let [certificate, key, authority] = paths.map(|path| path.to_str().unwrap());
        let port = free_port();
        let arguments = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", certificate],
            ["--tls-key-file", key],
            ["--tls-ca-cert-file", authority],
            ["--tls-auth-clients", "no"],
        ];
        Self::of(&arguments.concat(), None, Some(port), None)
    }

    fn of(
        arguments: &[&str],
        password: Option<&str>,
        tls_port: Option<u16>,
        wall_clock: Option<WallClock>,
    ) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("gas-suggestion-redis-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let redis = Self {
            port,
            tls_port,
            folder,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            password: Mutex::new(password.map(str::to_owned)),
            life: Life::default(),
            client: Mutex::default(),
            overheard: Arc::default(),
            wall_clock,
        };
        redis.start_again();
        redis
    }

    /// Starts it on the same ports after it was killed, with nothing in it, and waits until it answers.
    pub(crate) fn start_again(&self) {
        let port = self.port.to_string();
        let log = std::fs::File::create(self.folder.join("log")).unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "local", "--dir"])
            .arg(&self.folder)
            .args(&self.arguments)
            .envs(self.wall_clock.iter().flat_map(variables))
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("redis-server is needed (Debian: apt-get install redis-server)");
        self.life.begin(process);
        let deadline = Instant::now() + PATIENCE;
        while self.try_say(&["PING"]).ok() != Some(Reply::Text("PONG".into())) {
            let log = || std::fs::read_to_string(self.folder.join("log"));
            assert!(
                !self.life.has_ended() && Instant::now() < deadline,
                "it does not answer: {:?}",
                log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it at once, with all that is in it.
    pub(crate) fn kill(&self) {
        self.life.kill();
    }

    /// From now on it takes connections and says nothing, until [`thaw`](Self::thaw).
    pub(crate) fn freeze(&self) {
        self.life.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.life.thaw();
    }

    /// From now on its time of day is off by this, such as `-1h`.
    pub(crate) fn step(&self, offset: &str) {
        self.wall_clock.as_ref().expect("it has the time that everybody has").step(offset);
    }

    /// Its time of day in microseconds.
    pub(crate) fn micros(&self) -> u128 {
        let time = self.say(&["TIME"]).into_list().into_iter().map(Reply::into_bytes);
        let [seconds, micros] = time.collect::<Vec<_>>().try_into().unwrap();
        let number = |text| String::from_utf8(text).unwrap().parse::<u128>().unwrap();
        number(seconds) * 1_000_000 + number(micros)
    }

    /// From now on it is listened to what is published on channels with this prefix.
    pub(crate) fn overhear(&self, prefix: &str) {
        let mut client = self.connect().unwrap();
        client.stream.get_ref().set_read_timeout(None).unwrap();
        client.ask(&["PSUBSCRIBE", &format!("{prefix}*")]).unwrap();
        let overheard = Arc::clone(&self.overheard);
        // Until the server closes the connection, at its end at the latest.
        std::thread::spawn(move || {
            while let Ok(message) = client.next() {
                let mut parts = message.into_list().into_iter().skip(2).map(Reply::into_bytes);
                let (channel, text) = (parts.next().unwrap(), parts.next().unwrap());
                overheard.lock().unwrap().insert(channel, text);
            }
        });
    }

    /// The last message of each channel that was listened to.
    pub(crate) fn overheard(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.overheard.lock().unwrap().clone()
    }

    /// Its URL with a database, as someone without a password has it.
    pub(crate) fn url(&self, database: u8) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// The URL with this before the host, such as `user:password`.
    pub(crate) fn url_as(&self, who: &str) -> String {
        format!("redis://{who}@127.0.0.1:{}/0", self.port)
    }

    /// The one for TLS.
    pub(crate) fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}/0", self.tls_port.expect("it has no TLS"))
    }

    /// The password that the test itself uses from its next connection on.
    pub(crate) fn use_password(&self, password: Option<&str>) {
        *self.password.lock().unwrap() = password.map(str::to_owned);
    }

    /// Its answer to a command, which must be none of its errors.
    pub(crate) fn say(&self, command: &[impl AsRef<[u8]>]) -> Reply {
        let line: Vec<_> =
            command.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
        match self.try_say(command) {
            Ok(Reply::Error(error)) => panic!("{line:?}: {error}"),
            Ok(reply) => reply,
            Err(error) => panic!("{line:?}: {error}"),
        }
    }

    /// Its answer, which may be an error.
    pub(crate) fn try_say(&self, command: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        let mut client = self.client.lock().unwrap();
        let at_hand = client.take().map_or_else(|| self.connect(), Ok);
        let mut at_hand = at_hand?;
        let reply = at_hand.ask(command)?;
        *client = Some(at_hand);
        Ok(reply)
    }

    fn connect(&self) -> io::Result<Client> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        Client::connect(address, self.password.lock().unwrap().as_deref())
    }

    /// All keys with this prefix, of the first database.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<Vec<u8>> {
        self.say(&["KEYS", &format!("{prefix}*")])
            .into_list()
            .into_iter()
            .map(Reply::into_bytes)
            .collect()
    }

    /// The channels with this prefix that anybody listens to.
    pub(crate) fn channels(&self, prefix: &str) -> Vec<Vec<u8>> {
        let channels = self.say(&["PUBSUB", "CHANNELS", &format!("{prefix}*")]).into_list();
        channels.into_iter().map(Reply::into_bytes).collect()
    }

    /// One of the numbers of `INFO`.
    pub(crate) fn info(&self, name: &str) -> u64 {
        let info = String::from_utf8(self.say(&["INFO"]).into_bytes()).unwrap();
        let mut lines = info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.next().unwrap_or_else(|| panic!("{name} in {info}")).parse().unwrap()
    }
}

/// What makes a server follow this clock. Its own allocator asks for the time before the library can tell it, so
/// it gets the usual one.
fn variables(clock: &WallClock) -> Vec<(&'static str, String)> {
    let with_allocator = |(name, value)| match name {
        "LD_PRELOAD" => (name, value + ":libc.so.6"),
        _ => (name, value),
    };
    clock.variables().into_iter().map(with_allocator).collect()
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.life.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    Error(String),
    Integer(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("not bytes: {other:?}"),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            other => panic!("not a list: {other:?}"),
        }
    }
}

/// A connection that speaks as many words of RESP2 as the tests need.
#[derive(Debug)]
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// A command takes no longer, unless the server is frozen or told to wait.
    const DEADLINE: Duration = Duration::from_secs(5);

    fn connect(address: SocketAddr, password: Option<&str>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Self::DEADLINE)?;
        stream.set_read_timeout(Some(Self::DEADLINE))?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream: BufReader::new(stream) };
        if let Some(password) = password {
            let reply = client.ask(&["AUTH", password])?;
            assert_eq!(reply, Reply::Text("OK".into()));
        }
        Ok(client)
    }

    fn ask(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.next()
    }

    fn next(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix("\r\n").expect("a whole line");
        let (kind, rest) = line.split_at(1);
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(rest.parse().expect("a number")),
            "$" | "*" if rest == "-1" => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" => {
                let count: usize = rest.parse().expect("a length");
                Reply::List((0..count).map(|_| self.next()).collect::<io::Result<_>>()?)
            }
            _ => panic!("not RESP: {line}"),
        })
    }
}

/// Who signs certificates, in files that go when this is dropped.
#[derive(Debug)]
pub(crate) struct Authority {
    folder: PathBuf,
    pub(crate) certificate: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir()
            .join(format!("gas-suggestion-authority-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let certificate = folder.join("authority.crt");
        openssl(
            &folder,
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                 -subj /CN={name} -keyout authority.key -out authority.crt \
                 -addext basicConstraints=critical,CA:TRUE"
            ),
        );
        Self { folder, certificate }
    }

    /// A certificate for a server at 127.0.0.1, and its key.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        openssl(
            &self.folder,
            &format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
                 -keyout {name}.key -out {name}.csr"
            ),
        );
        let extensions = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n";
        std::fs::write(self.folder.join("extensions"), extensions).unwrap();
        openssl(
            &self.folder,
            &format!(
                "x509 -req -in {name}.csr -CA authority.crt -CAkey authority.key -CAcreateserial \
                 -days 2 -extfile extensions -out {name}.crt"
            ),
        );
        (self.folder.join(format!("{name}.crt")), self.folder.join(format!("{name}.key")))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("openssl is needed (Debian: apt-get install openssl)");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn it_keeps_what_it_is_told_until_it_is_killed_and_comes_back_empty_on_its_port() {
    let redis = Redis::start();
    assert_eq!(redis.say(&["SET", "a", "1\r\n2"]), Reply::Text("OK".into()));
    assert_eq!(redis.say(&["GET", "a"]).into_bytes(), b"1\r\n2");
    assert_eq!(redis.keys("a"), [b"a"]);
    assert!(redis.channels("").is_empty());
    let error = redis.try_say(&["INCR", "a"]).unwrap();
    assert!(matches!(&error, Reply::Error(text) if text.starts_with("ERR")), "{error:?}");
    redis.kill();
    assert!(redis.try_say(&["PING"]).is_err());
    redis.start_again();
    assert_eq!(redis.say(&["GET", "a"]), Reply::Nothing);
    assert_eq!(redis.say(&["DBSIZE"]), Reply::Integer(0));
}

#[test]
fn its_time_of_day_steps_as_it_is_told_and_what_is_published_is_overheard() {
    let redis = Redis::with_wall_clock();
    let before = redis.micros();
    redis.step("-1h");
    let (hour, stepped) = (3_600_000_000, redis.micros());
    assert!(stepped < before - hour / 2 && stepped > before - 2 * hour, "{before}, {stepped}");
    redis.overhear("our:");
    redis.say(&["PUBLISH", "their:a", "no"]);
    redis.say(&["PUBLISH", "our:a", "yes"]);
    let deadline = Instant::now() + PATIENCE;
    while redis.overheard().is_empty() {
        assert!(Instant::now() < deadline, "nothing is overheard");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(redis.overheard(), [(b"our:a".to_vec(), b"yes".to_vec())].into());
}

#[test]
fn frozen_it_takes_connections_and_says_nothing() {
    let redis = Redis::start();
    redis.freeze();
    let stream = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    (&stream).write_all(b"PING\r\n").unwrap();
    assert!((&stream).read(&mut [0; 7]).is_err());
    redis.thaw();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 7];
    (&stream).read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn with_a_password_it_lets_nobody_in_without() {
    let redis = Redis::with_password("open-sesame");
    assert_eq!(redis.say(&["DBSIZE"]), Reply::Integer(0));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port));
    let refusal = Client::connect(address, None).unwrap().ask(&["DBSIZE"]).unwrap();
    assert!(matches!(&refusal, Reply::Error(text) if text.starts_with("NOAUTH")), "{refusal:?}");
}

#[test]
fn its_certificate_is_believed_by_those_who_know_its_authority_alone() {
    let (known, other) = (Authority::new("known"), Authority::new("other"));
    let redis = Redis::with_tls(&known);
    let says_pong = |authority: &Authority| {
        let port = redis.tls_port.unwrap().to_string();
        let mut command = Command::new("redis-cli");
        command.args(["--tls", "-p", &port, "--cacert"]).arg(&authority.certificate).arg("PING");
        let output = command.output().expect("redis-cli is needed (Debian: redis-tools)");
        output.stdout == b"PONG\n"
    };
    assert!(says_pong(&known));
    assert!(!says_pong(&other));
}
