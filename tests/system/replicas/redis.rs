//! A real `redis-server` that a test can kill, freeze, start again and send commands to.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionLike, FromRedisValue, RedisResult, Value};

use super::controlled_process::ControlledProcess;
use crate::process::Folder;
use crate::programs;
use crate::raw_client::{TIMEOUT, free_port};

/// A Redis server on its own loopback ports, without persistence. Dropping it kills the process.
pub(crate) struct Redis {
    port: u16,
    command: Mutex<Command>,
    /// Empty: no password is needed.
    password: Mutex<String>,
    /// While it is frozen, the kernel accepts connections, but no response is sent.
    pub(crate) process: ControlledProcess,
    folder: Folder,
    /// The test's own connection, reused while it works.
    client: Mutex<Option<Connection>>,
    messages: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::launch(&[])
    }

    /// Starts a server that also has a TLS port, with a certificate signed by `authority`. Returns the URL of that port
    /// too.
    pub(crate) fn with_tls(authority: &Authority) -> (Self, String) {
        authority.certify(
            "redis",
            "-subj /CN=redis -CA authority.crt -CAkey authority.key \
             -addext basicConstraints=CA:FALSE -addext subjectAltName=IP:127.0.0.1,DNS:localhost",
        );
        let port = free_port();
        let arguments = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &authority.path("redis.crt")],
            ["--tls-key-file", &authority.path("redis.key")],
            ["--tls-ca-cert-file", &authority.path("authority.crt")],
            ["--tls-auth-clients", "no"],
        ];
        let redis = Self::launch(&arguments.concat());
        (redis, format!("rediss://127.0.0.1:{port}/0"))
    }

    fn launch(arguments: &[&str]) -> Self {
        let port = free_port();
        let folder = Folder::new(&format!("redis-{port}"));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--enable-debug-command", "local", "--dir"]);
        command.arg(folder.path()).args(arguments).stdin(Stdio::null()).stdout(log);
        let redis = Self {
            port,
            command: Mutex::new(command),
            password: Mutex::default(),
            process: ControlledProcess::default(),
            folder,
            client: Mutex::default(),
            messages: Arc::default(),
        };
        redis.start_again();
        redis
    }

    /// Starts the killed server again, without data, on the same ports, and waits until it responds.
    pub(crate) fn start_again(&self) {
        let child = self.command.lock().unwrap().spawn();
        let missing = "redis-server is needed (Debian: apt-get install redis-server)";
        self.process.set(child.expect(missing));
        let deadline = Instant::now() + TIMEOUT;
        while self.try_command(&["PING"]) != Ok(Value::SimpleString("PONG".into())) {
            let log = || std::fs::read_to_string(self.folder.path().join("log"));
            assert!(
                !self.process.has_exited() && Instant::now() < deadline,
                "Redis does not respond: {:?}",
                log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Subscribes to all channels with this prefix; see [`messages`](Self::messages).
    pub(crate) fn subscribe(&self, prefix: &str) {
        let mut connection = self.connect().unwrap();
        connection.set_read_timeout(None).unwrap();
        let (pattern, messages) = (format!("{prefix}*"), Arc::clone(&self.messages));
        let (subscribed, is_subscribed) = mpsc::channel();
        // The thread ends when the server closes the connection.
        std::thread::spawn(move || {
            let mut subscription = connection.as_pubsub();
            subscription.psubscribe(pattern).unwrap();
            subscribed.send(()).unwrap();
            while let Ok(message) = subscription.get_message() {
                let channel = message.get_channel_name().as_bytes().to_vec();
                messages.lock().unwrap().insert(channel, message.get_payload_bytes().to_vec());
            }
        });
        is_subscribed.recv().unwrap();
    }

    /// Returns the last message of each subscribed channel.
    pub(crate) fn messages(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.messages.lock().unwrap().clone()
    }

    /// Returns the URL of a database, without credentials.
    pub(crate) fn url(&self, database: u8) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL with these credentials, such as `user:password`.
    pub(crate) fn url_with_credentials(&self, credentials: &str) -> String {
        format!("redis://{credentials}@127.0.0.1:{}/0", self.port)
    }

    /// Sets the password that new connections need; empty: none.
    pub(crate) fn set_password(&self, password: &str) {
        self.command(&["CONFIG", "SET", "requirepass", password]);
        password.clone_into(&mut self.password.lock().unwrap());
    }

    /// Sends a command and returns the reply, which must not be an error.
    pub(crate) fn command(&self, arguments: &[impl AsRef<[u8]>]) -> Value {
        self.read(arguments)
    }

    /// Like [`command`](Self::command), with the reply as this type.
    pub(crate) fn read<T: FromRedisValue>(&self, arguments: &[impl AsRef<[u8]>]) -> T {
        let command_line: Vec<_> =
            arguments.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
        self.try_command(arguments).unwrap_or_else(|error| panic!("{command_line:?}: {error}"))
    }

    /// Sends a command and returns the reply, which may be an error.
    pub(crate) fn try_command<T: FromRedisValue>(
        &self,
        arguments: &[impl AsRef<[u8]>],
    ) -> RedisResult<T> {
        let mut client = self.client.lock().unwrap();
        let mut connection = client.take().map_or_else(|| self.connect(), Ok)?;
        let mut command = redis::Cmd::new();
        for word in arguments {
            command.arg(word.as_ref());
        }
        let reply = command.query(&mut connection);
        *client = Some(connection).filter(Connection::is_open);
        reply
    }

    fn connect(&self) -> RedisResult<Connection> {
        let password = self.password.lock().unwrap().clone();
        let url = format!("redis://:{password}@127.0.0.1:{}", self.port);
        let timeout = Duration::from_secs(5);
        let connection = Client::open(url)?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        Ok(connection)
    }

    /// Returns all keys with this prefix in database 0.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<Vec<u8>> {
        self.read(&["KEYS", &format!("{prefix}*")])
    }
}

#[derive(Debug)]
pub(crate) struct Authority(Folder);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let authority = Self(Folder::new(&format!("authority-{name}")));
        let arguments = format!("-subj /CN={name} -addext basicConstraints=critical,CA:TRUE");
        authority.certify("authority", &arguments);
        authority
    }

    /// Returns the path of one of its files, such as `authority.crt`.
    pub(crate) fn path(&self, file: &str) -> String {
        self.0.path().join(file).to_str().unwrap().to_owned()
    }

    /// Writes a certificate, `{name}.crt`, and its key, `{name}.key`, with these further arguments of openssl.
    fn certify(&self, name: &str, arguments: &str) {
        programs::certify(self.0.path(), name, &["openssl"], arguments);
    }
}
