use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes what engines push in Graphite's plaintext protocol: `path value timestamp` a line.
#[derive(Debug)]
pub(super) struct Graphite {
    values: Arc<Mutex<HashMap<String, f64>>>,
    address: SocketAddr,
}

/// A sender of more series than this is none of ours.
const SERIES_MAX: usize = 100_000;

impl Graphite {
    pub fn listen(address: SocketAddr) -> io::Result<Graphite> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let values = Arc::new(Mutex::new(HashMap::new()));
        let shared = values.clone();
        let start = |name: &str| std::thread::Builder::new().name(name.into());
        start("laxity-graphite").spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // Without a thread for it the sender is hung up on, and comes again.
                let _ = start("laxity-graphite").spawn(move || receive(stream, &shared));
            }
        })?;
        Ok(Graphite { values, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The last value of every series.
    pub fn values(&self) -> HashMap<String, f64> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn receive(stream: TcpStream, values: &Mutex<HashMap<String, f64>>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let mut fields = line.split_ascii_whitespace();
        let (Some(path), Some(value)) = (fields.next(), fields.next()) else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.get_mut(path) {
            *known = value;
        } else if values.len() < SERIES_MAX {
            values.insert(path.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_pushed_is_kept() {
        let graphite = Graphite::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut stream = TcpStream::connect(graphite.address()).unwrap();
        stream.write_all(b"a.b 1 1700000000\nnonsense\na.b 2.5 1700000001\n").unwrap();
        drop(stream);
        while graphite.values().get("a.b") != Some(&2.5) {
            std::thread::yield_now();
        }
        assert_eq!(graphite.values().len(), 1);
    }
}
