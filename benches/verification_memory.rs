//! Mock upstream for `benches/verification_memory.sh`.
//!
//! Usage: `verification_memory PAUSE`. It prints the free loopback address on which it listens, reads at most 64 KiB
//! of a request after each pause of PAUSE milliseconds, and responds with the number of body bytes, including chunk
//! framing.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

fn main() -> ExitCode {
    let pause = std::env::args().nth(1).and_then(|pause| pause.parse().ok());
    let Some(pause) = pause.map(Duration::from_millis) else {
        eprintln!("usage: verification_memory PAUSE; benches/verification_memory.sh starts it");
        return ExitCode::from(2);
    };
    match serve(pause) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verification_memory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(pause: Duration) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        thread::spawn(move || {
            if let Err(error) = handle(&stream, pause) {
                eprintln!("verification_memory: {error}");
            }
        });
    }
}

fn handle(mut stream: &TcpStream, pause: Duration) -> io::Result<()> {
    const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse::<u64>().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    let (mut read, mut end) = (0, Vec::new());
    while length.map_or(!end.ends_with(LAST_CHUNK), |length| read < length) {
        thread::sleep(pause);
        let new = reader.fill_buf()?;
        if new.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = new.len();
        end.extend_from_slice(new);
        reader.consume(count);
        read = read.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        end.drain(..end.len().saturating_sub(LAST_CHUNK.len()));
    }
    let body = read.to_string();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
