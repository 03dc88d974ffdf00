//! The agent's `/metrics` without a web framework: it answers one short request at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Answers `GET /metrics` with what was last published. One connection at a time: a scraper a second is all it serves.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    text: Arc<Mutex<String>>,
    address: SocketAddr,
}

/// A client that sends nothing must not keep the next one out for long.
const PATIENCE: Duration = Duration::from_secs(1);

impl MetricsServer {
    pub fn start(address: SocketAddr) -> io::Result<MetricsServer> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let text = Arc::new(Mutex::new(String::new()));
        let published = text.clone();
        std::thread::Builder::new().name("laxity-metrics".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let text = published.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A client that hangs up is its own affair.
                let _ = answer(stream, &text);
            }
        })?;
        Ok(MetricsServer { text, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn publish(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(mut stream: TcpStream, metrics: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?).take_lines();
    let request = reader.next().unwrap_or_default();
    // The rest of the head is read so that closing does not reset the connection.
    for line in reader {
        if line.is_empty() {
            break;
        }
    }
    let (status, kind, body) = match request.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", _] => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics),
        ["GET", ..] => ("404 Not Found", "text/plain", "see /metrics\n"),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n"),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The lines of a request's head, at most as long and as many as a sane one has.
trait TakeLines: BufRead + Sized {
    fn take_lines(self) -> impl Iterator<Item = String> {
        const HEAD_BYTES: u64 = 16 << 10;
        io::Read::take(self, HEAD_BYTES).lines().map_while(Result::ok)
    }
}

impl<R: BufRead> TakeLines for R {}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn metrics_are_served_and_nothing_else() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap()).unwrap();
        server.publish("x 1\n".into());
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            write!(stream, "{request}\r\nHost: a\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        assert!(ask("GET /metrics HTTP/1.1").ends_with("\r\n\r\nx 1\n"));
        assert!(ask("GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
    }
}
